//! `cargo xtask new KIND NAME`: the file, the registry's line and the first test of a race, policy, meter, link model or
//! experiment. What it makes passes the contract tests as it is; its `TODO`s say what to fill in.
//!
//! A kind is an entry of [`ALL`] and a template beside this file. Nothing is written unless every place was found.

use crate::Failure;
use crate::step::Step;
use crate::tree::workspace_root;
use std::path::Path;

/// Something that the house has many of.
struct Kind {
    /// The word on the command line.
    name: &'static str,
    /// Where its files are.
    folder: &'static str,
    /// The new file.
    template: &'static str,
    /// What is written elsewhere.
    places: &'static [Insertion],
    /// What to do next.
    next: &'static str,
}

/// A text to be put into a file that is there.
struct Insertion {
    path: &'static str,
    at: At,
    text: &'static str,
}

/// Where in a file.
enum At {
    /// At the head of the line that begins so, the first of them.
    Before(&'static str),
    /// At the head of the first line that is the second text, after the line that begins with the first.
    EndOf(&'static str, &'static str),
    /// At the head of the last line that is so.
    BeforeLast(&'static str),
    /// At the end of the file.
    End,
}

/// The line that declares the module.
const fn module(path: &'static str) -> Insertion {
    Insertion { path, at: At::Before("mod "), text: "mod {module};\n" }
}

/// The lines of the registry.
const fn entry(path: &'static str, text: &'static str) -> Insertion {
    Insertion { path, at: At::EndOf("pub const ALL", "];"), text }
}

/// Every kind.
const ALL: &[Kind] = &[
    Kind {
        name: "race",
        folder: "crates/core/src/connect/race",
        template: include_str!("race.txt"),
        places: &[
            module("crates/core/src/connect/race/mod.rs"),
            entry(
                "crates/core/src/connect/race/mod.rs",
                "    Entry {\n        name: \"{name}\",\n        what: \"TODO: what it does, in a line\",\n        lab_only: false,\n        \
                       asks_https: false,\n        new: || Box::new({module}::{Type}),\n    },\n",
            ),
            Insertion {
                path: "crates/core/src/connect/tests/stories.rs",
                at: At::End,
                text: "\n#[test]\nfn {module}_goes_as_soon_as_aaaa_is_there() {\n    let mut s = Story::of(\"{name}\").site(SITE, 1, \
                       (90, 30), (40, 50));\n    assert_eq!(s.visit(\"curl\", SITE), (v6(1), 30 + 50));\n}\n",
            },
        ],
        next: "docs/guide/new-race.md; test: cargo test -p headstart-core; settings: cargo run -- config schema > \
               docs/config.schema.json, cargo run -- config init - > docs/config.example.toml",
    },
    Kind {
        name: "policy",
        folder: "crates/core/src/steer/policy",
        template: include_str!("policy.txt"),
        places: &[
            module("crates/core/src/steer/policy/mod.rs"),
            entry(
                "crates/core/src/steer/policy/mod.rs",
                "    published(\"{name}\", \"TODO: what it does, in a line\", || Box::new({module}::{Type})),\n",
            ),
            Insertion {
                path: "crates/core/src/steer/policy/mod.rs",
                at: At::BeforeLast("}"),
                text: "\n    #[test]\n    fn {module}_goes_by_length_alone() {\n        let flow = Flow::default();\n        \
                       assert_eq!(choose(\"{name}\", true, packet(Kind::Data, 256), flow), Channel::Fast);\n        \
                       assert_eq!(choose(\"{name}\", true, packet(Kind::Data, 257), flow), Channel::Fat);\n    }\n",
            },
        ],
        next: "docs/guide/new-policy.md; test: cargo test -p headstart-core steer",
    },
    Kind {
        name: "meter",
        folder: "crates/core/src/forward/meter",
        template: include_str!("meter.txt"),
        places: &[
            module("crates/core/src/forward/meter/mod.rs"),
            entry("crates/core/src/forward/meter/mod.rs", "    {module}::ENTRY,\n"),
            Insertion {
                path: "crates/core/src/forward/meter/mod.rs",
                at: At::BeforeLast("            ]"),
                text: "                // TODO: what it is of the flow above.\n                (\"{module}\", 90.0),\n",
            },
        ],
        next: "docs/guide/new-meter.md; test: cargo test -p headstart-core meter",
    },
    Kind {
        name: "link",
        folder: "crates/link/src/delay",
        template: include_str!("link.txt"),
        places: &[
            module("crates/link/src/delay/mod.rs"),
            Insertion {
                path: "crates/link/src/delay/mod.rs",
                at: At::Before("pub use "),
                text: "pub use {module}::{module};\n",
            },
            entry("crates/link/src/delay/mod.rs", "    {module}::ENTRY,\n"),
        ],
        next: "it is a delay; for a loss, queue, rate or medium see docs/guide/new-link-model.md; test: cargo test -p headstart-link",
    },
    Kind {
        name: "experiment",
        folder: "crates/lab/src/experiment",
        template: include_str!("experiment.txt"),
        places: &[
            module("crates/lab/src/experiment/mod.rs"),
            entry("crates/lab/src/experiment/mod.rs", "    {module}::ENTRY,\n"),
            Insertion {
                path: "docs/claims.toml",
                at: At::End,
                text: "\n[[instrument]]\nexperiment = \"{name}\"\nwhat = \"TODO: what it measures, one sentence\"\n",
            },
            Insertion {
                path: "docs/guide/lab.md",
                at: At::EndOf("| all at once", ""),
                text: "| TODO: its column | `{name}` |\n",
            },
        ],
        next: "docs/guide/new-experiment.md; test: cargo test -p headstart-lab --lib experiment; cargo xtask claims",
    },
];

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let kinds = || ALL.iter().map(|kind| kind.name).collect::<Vec<_>>().join("|");
    let [kind, name] = arguments else { return Err(Failure::Usage(format!("cargo xtask new {} NAME", kinds()))) };
    let Some(kind) = ALL.iter().find(|k| k.name == kind) else {
        return Err(Failure::Usage(format!("there is nothing called `{kind}` to make: {}", kinds())));
    };
    let names = Names::of(name)?;
    let root = workspace_root()?;
    let written = plan(&root, kind, &names)?;
    for (path, text) in &written {
        std::fs::write(root.join(path), text)
            .map_err(|e| Failure::Failed(format!("{path} could not be written: {e}")))?;
        println!("xtask: {path}");
    }
    // Puts the new lines in their order.
    let sources: Vec<&str> =
        written.iter().map(|(path, _)| path.as_str()).filter(|path| path.ends_with(".rs")).collect();
    Step::command("rustfmt", &[&["--edition", "2024"], sources.as_slice()].concat()).run()?;
    println!("xtask: go on with {}", kind.next);
    Ok(())
}

/// The same name as it is written in each place.
struct Names {
    /// `last-in`.
    name: String,
    /// `last_in`.
    module: String,
    /// `LastIn`.
    of_type: String,
}

impl Names {
    fn of(name: &str) -> Result<Self, Failure> {
        let words: Vec<&str> = name.split(['-', '_']).collect();
        let sound =
            |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !words.iter().all(sound) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(Failure::Usage(format!(
                "`{name}` is no name: write small letters, digits and hyphens, such as last-in"
            )));
        }
        let capital = |word: &&str| word[..1].to_uppercase() + &word[1..];
        Ok(Self { name: words.join("-"), module: words.join("_"), of_type: words.iter().map(capital).collect() })
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{name}", &self.name).replace("{module}", &self.module).replace("{Type}", &self.of_type)
    }
}

/// Every file that is to be written, with its whole text.
fn plan(root: &Path, kind: &Kind, names: &Names) -> Result<Vec<(String, String)>, Failure> {
    let file = format!("{}/{}.rs", kind.folder, names.module);
    if root.join(&file).exists() || root.join(kind.folder).join(&names.module).exists() {
        return Err(Failure::Failed(format!("{file} is there already: choose another name")));
    }
    let mut written = vec![(file, names.fill(kind.template))];
    for place in kind.places {
        let at = match written.iter().position(|(path, _)| path == place.path) {
            Some(at) => at,
            None => {
                let text = std::fs::read_to_string(root.join(place.path));
                let text = text.map_err(|e| Failure::Failed(format!("{} cannot be read: {e}", place.path)))?;
                written.push((place.path.to_owned(), text));
                written.len() - 1
            }
        };
        let text = &mut written[at].1;
        let offset = place.at.offset(text).ok_or_else(|| {
            Failure::Failed(format!(
                "{} is not as expected, nothing was written: mend xtask/src/new/mod.rs",
                place.path
            ))
        })?;
        text.insert_str(offset, &names.fill(place.text));
    }
    Ok(written)
}

impl At {
    /// The offset in `text`, if the place is there.
    fn offset(&self, text: &str) -> Option<usize> {
        let mut lines = text.split_inclusive('\n').scan(0, |end, line| {
            *end += line.len();
            Some((*end - line.len(), line.trim_end_matches('\n')))
        });
        match self {
            Self::Before(head) => lines.find(|(_, line)| line.starts_with(head)).map(|(at, _)| at),
            Self::EndOf(head, end) => {
                lines.find(|(_, line)| line.starts_with(head))?;
                lines.find(|(_, line)| line == end).map(|(at, _)| at)
            }
            Self::BeforeLast(whole) => lines.filter(|(_, line)| line == whole).last().map(|(at, _)| at),
            Self::End => Some(text.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_as_each_place_wants_it() {
        let names = Names::of("last-in-2").unwrap();
        assert_eq!(names.fill("{name} {module} {Type}"), "last-in-2 last_in_2 LastIn2");
        for bad in ["", "Last", "last-", "2nd", "a b", "../x"] {
            assert!(Names::of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_kind_finds_its_places_in_the_tree_as_it_is() {
        let root = workspace_root().unwrap();
        for kind in ALL {
            let written = plan(&root, kind, &Names::of("entirely-new").unwrap()).unwrap_or_else(|e| panic!("{e:?}"));
            assert!(
                written.iter().all(|(_, text)| !text.contains("{module}") && !text.contains("{Type}")),
                "{}",
                kind.name
            );
            assert!(written.len() > 1 && written[1].1.contains("entirely_new"), "{}", kind.name);
        }
    }

    #[test]
    fn what_is_there_is_not_written_over() {
        let race = &ALL[0];
        let Err(Failure::Failed(why)) = plan(&workspace_root().unwrap(), race, &Names::of("adaptive").unwrap()) else {
            panic!("it was planned")
        };
        assert!(why.contains("choose another name"), "{why}");
    }

    #[test]
    fn lines_go_where_they_are_said_to_go() {
        let text = "mod a;\npub const ALL: X = [\n    1,\n];\n    ]\nx\n    ]\n}\n";
        let put = |at: At| {
            let mut text = text.to_owned();
            text.insert(at.offset(&text).unwrap(), '#');
            text.lines().find(|line| line.starts_with('#')).unwrap_or_default().to_owned()
        };
        assert_eq!(put(At::Before("mod ")), "#mod a;");
        assert_eq!(put(At::EndOf("pub const ALL", "];")), "#];");
        assert_eq!(At::BeforeLast("    ]").offset(text), Some(text.rfind("    ]").unwrap()));
        assert_eq!(At::End.offset(text), Some(text.len()));
        assert_eq!(At::Before("use ").offset(text), None);
    }
}

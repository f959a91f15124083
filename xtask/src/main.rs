//! The project's own chores: `cargo xtask CHORE`.
//!
//! One file a chore and one line in [`ALL`]. Nothing here is part of what users run, and no chore changes the host
//! unless it was asked to (`cargo xtask test --install`).
#![forbid(unsafe_code)]

mod android;
mod bpf;
mod campaigns;
mod ci;
mod claims;
mod conformance;
mod differential;
mod docs;
mod fuzz;
mod harden;
mod hostile;
mod interop;
mod kernels;
mod law;
mod markdown;
mod mutants;
mod new;
mod outcome;
mod package;
mod packages;
mod peers;
mod python;
mod release;
mod requirements;
mod screen;
mod size;
mod soak;
mod source;
mod step;
mod test;
mod threads;
mod tidy;
mod toml_lines;
mod tree;
mod violation;

use std::process::ExitCode;

/// How a chore ended, when it did not end well.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The chore was called with words that it does not know: exit code 2.
    Usage(String),
    /// The chore ran, and found something wrong: exit code 1.
    Failed(String),
}

/// What a chore is for; usage shows them in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Before each change.
    Every,
    /// What takes long.
    Long,
    /// The house itself.
    House,
}

/// The groups with their headings.
const GROUPS: [(Group, &str); 3] =
    [(Group::Every, "Before a change is handed in"), (Group::Long, "What takes long"), (Group::House, "The house")];

/// A chore of the project.
struct Chore {
    /// What it is for.
    group: Group,
    /// The word on the command line.
    name: &'static str,
    /// Its arguments, as usage shows them.
    arguments: &'static str,
    /// One line on what it does.
    summary: &'static str,
    /// Does it; the arguments are those after the name.
    run: fn(&[String]) -> Result<(), Failure>,
}

/// Every chore.
const ALL: &[Chore] = &[
    Chore {
        group: Group::Every,
        name: "test",
        arguments: "[--install] [--quick]",
        summary: "all tests, those in network namespaces too; --quick leaves these out, --install first installs the \
                  Debian packages that tests need",
        run: test::run,
    },
    Chore {
        group: Group::Every,
        name: "ci",
        arguments: "[--install] [--quick]",
        summary: "format, clippy, documentation, tidy, claims, then test (with the same arguments)",
        run: ci::run,
    },
    Chore {
        group: Group::Long,
        name: "conformance",
        arguments: "[python] [go] [h2spec] [--via NAME] [--release]",
        summary: "CPython's and Go's own tests of sockets, bare and under `headstart run`; h2spec against `headstart serve`",
        run: conformance::run,
    },
    Chore {
        group: Group::Long,
        name: "interop",
        arguments: "[STACK ...] [CASE ...] [resumed] [--rounds N] [--program FILE]",
        summary: "quic-go, aioquic, ngtcp2, s2n-quic, quiche and Chromium against `headstart serve`, and `headstart get` against their servers, \
                  each case 50 times or N; `resumed`: what s2n-quic gains by `headstart-quic`; fetches four of them from their registries, of which quiche takes minutes to build; writes docs/results/interop.md, unless parts are named",
        run: interop::run,
    },
    Chore {
        group: Group::Long,
        name: "differential",
        arguments: "[--quick] [--arm NAME] [--program FILE]",
        summary: "some hundred things that programs do with sockets, bare and under each way of measuring and hooking in: differences \
                  must be named exceptions, and those must differ; writes docs/results/differential.md, unless --quick or --arm",
        run: differential::run,
    },
    Chore {
        group: Group::Long,
        name: "peers",
        arguments: "[--quick] [--program FILE]",
        summary: "headstart's forwarder beside tun2socks and sing-box, which are built from Go's module proxy, on Linux and as on a phone, by the \
                  lab in a quarter of an hour; writes the table in docs/compare.md; wants an idle machine",
        run: peers::run,
    },
    Chore {
        group: Group::Long,
        name: "soak",
        arguments: "[--minutes N]",
        summary: "programs under one supervisor while the network breaks and mends, for 30 minutes or N: nothing is lost, \
                  nothing grows",
        run: soak::run,
    },
    Chore {
        group: Group::Long,
        name: "law",
        arguments: "[--worlds N] [--seed N]",
        summary: "programs bare and under headstart in a million random worlds in virtual time, or N: never less able, never \
                  slower",
        run: law::run,
    },
    Chore {
        group: Group::Long,
        name: "campaigns",
        arguments: "[--install] [--seeds N]",
        summary: "a plan of 200 tasks, or of two conditions and N seeds, on Slurm with a killed and a drained node, GNU parallel \
                  and Ray with a lost host, Snakemake: every task once, the same bits; then the guide's questions by DuckDB",
        run: campaigns::run,
    },
    Chore {
        group: Group::Long,
        name: "harden",
        arguments: "[--minutes N]",
        summary: "the daemon killed at every step, every check and case for signs of the forwarder, the hostile peers, a million worlds of \
                  the law, the packages made twice and tried, the campaigns, then the soak, for 30 minutes or N",
        run: harden::run,
    },
    Chore {
        group: Group::Long,
        name: "kernels",
        arguments: "",
        summary: "the eBPF programs under Debian's kernels 6.1 and 6.12 in QEMU, which is downloaded, not installed",
        run: kernels::run,
    },
    Chore {
        group: Group::Long,
        name: "threads",
        arguments: "",
        summary: "the C interface of realtime under ThreadSanitizer: threads that share a session and a listener; wants the \
                  source of the standard library",
        run: threads::run,
    },
    Chore {
        group: Group::Long,
        name: "python",
        arguments: "",
        summary: "the wheel of the Python package in target/python/wheels, and its tests with the wheel alone; wants pip and venv",
        run: python::run,
    },
    Chore {
        group: Group::Long,
        name: "hostile",
        arguments: "[--json]",
        summary: "what strangers try against everything that listens: a table of what it may cost and what it \
                  costs, or one JSON object as the last line",
        run: hostile::run,
    },
    Chore {
        group: Group::Long,
        name: "fuzz",
        arguments: "[--seconds N | --all --hours N | --keep] [--asan] [TARGET ...]",
        summary: "the fuzz targets, or those named, for a minute or N seconds each, by the stable compiler; --hours has them take \
                  turns, for a timer; --keep makes what they found the seeds that tests replay; --asan adds the address sanitizer",
        run: fuzz::run,
    },
    Chore {
        group: Group::Long,
        name: "mutants",
        arguments: "[--changed] [--anew] [--shard K/N] [FILE ...]",
        summary: "does a test fail when the code is wrong? cargo-mutants over core, link, realtime and quic, or FILEs of them; \
                  goes on where it was interrupted; --changed plays what differs from main; survivors need a reason",
        run: mutants::run,
    },
    Chore {
        group: Group::Long,
        name: "package",
        arguments: "[--test] [--twice] [--starts]",
        summary: "packages and an archive in target/packages; --test installs, uses, upgrades and removes them in a Debian of their own, \
                  which needs root, mmdebstrap and lintian; --twice makes them again in another folder and compares every byte; --starts times \
                  programs started by them, in turns",
        run: package::run,
    },
    Chore {
        group: Group::Long,
        name: "android",
        arguments: "[--install] [--dev] [--host-only | --bionic]",
        summary: "the app in target/android/headstart.apk with its engines, and its tests; --install brings the Debian packages that this \
                  needs, --dev builds without optimisation, --host-only leaves out the engine for phones, --bionic builds and links for Android itself, \
                  and no more",
        run: android::run,
    },
    Chore {
        group: Group::House,
        name: "release",
        arguments: "--check | --key FILE | --cut VERSION [--dry-run]",
        summary: "packages, their sums signed with an SSH key, and the tag; refuses a dirty tree, a stale ledger, a missing section of \
                  the changelog, an unknown address for reports and a failing gate; --cut raises the version and cuts the changelog",
        run: release::run,
    },
    Chore {
        group: Group::House,
        name: "bpf",
        arguments: "[--check]",
        summary: "compiles the programs that run in the kernel (crates/io/bpf) to the committed object, by clang; --check only compares",
        run: bpf::run,
    },
    Chore {
        group: Group::House,
        name: "docs",
        arguments: "",
        summary: "the book of docs/ in target/book, by mdBook, which is installed by name into target/tools if it is missing",
        run: docs::run,
    },
    Chore {
        group: Group::House,
        name: "new",
        arguments: "race|policy|meter|link|experiment NAME",
        summary: "the file, the registry's line and the first test of one more, which pass the contract tests as they are",
        run: new::run,
    },
    Chore {
        group: Group::House,
        name: "requirements",
        arguments: "",
        summary: "what RFCs ask for, and which test holds it: docs/internals/requirements.md, from its .toml and the citations in the sources",
        run: requirements::run,
    },
    Chore {
        group: Group::House,
        name: "screen",
        arguments: "[--release] [PROGRAM]",
        summary: "what `headstart demo` prints, recorded as docs/demo.svg for the README; of PROGRAM if it is built already",
        run: screen::run,
    },
    Chore {
        group: Group::House,
        name: "size",
        arguments: "[--functions]",
        summary: "lines of production code and of tests, crate by crate; --functions names those of more than 60 lines",
        run: size::run,
    },
    Chore {
        group: Group::Every,
        name: "tidy",
        arguments: "",
        summary: "the rules of the house that can be checked: floors, columns, file length, names, ...",
        run: tidy::run,
    },
    Chore {
        group: Group::Every,
        name: "claims",
        arguments: "",
        summary: "every claim of docs/claims.toml has its experiment, every experiment its claim",
        run: claims::run,
    },
];

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask CHORE\n");
    for (group, heading) in GROUPS {
        text += &format!("\n{heading}:\n");
        for chore in ALL.iter().filter(|chore| chore.group == group) {
            let call = format!("{} {}", chore.name, chore.arguments);
            text += &format!("  {}\n      {}\n", call.trim_end(), chore.summary);
        }
    }
    text + "\n  help\n      this text\n\nExit codes: 0 all is well, 1 something is wrong, 2 the call was not understood.\n"
}

/// Refuses arguments that a chore does not know.
fn only_flags(arguments: &[String], known: &[&str]) -> Result<(), Failure> {
    match arguments.iter().find(|argument| !known.contains(&argument.as_str())) {
        None => Ok(()),
        Some(stranger) if known.is_empty() => {
            Err(Failure::Usage(format!("`{stranger}`: this chore takes no arguments")))
        }
        Some(stranger) => Err(Failure::Usage(format!("`{stranger}` is not one of: {}", known.join(", ")))),
    }
}

fn dispatch(arguments: &[String]) -> Result<(), Failure> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::Usage("name a chore".into()));
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", usage());
        return Ok(());
    }
    match ALL.iter().find(|chore| chore.name == name) {
        Some(chore) => (chore.run)(rest),
        None => Err(Failure::Usage(format!("unknown chore `{name}`"))),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(why)) => {
            eprintln!("xtask: {why}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(why)) => {
            eprintln!("xtask: {why}\n\n{}", usage().trim_end());
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn an_unknown_chore_or_no_chore_is_a_usage_error() {
        assert!(matches!(dispatch(&words("frobnicate")), Err(Failure::Usage(_))));
        assert!(matches!(dispatch(&[]), Err(Failure::Usage(_))));
    }

    #[test]
    fn every_chore_refuses_an_argument_that_it_does_not_know() {
        for chore in ALL {
            let line = format!("{} --frobnicate", chore.name);
            assert!(matches!(dispatch(&words(&line)), Err(Failure::Usage(_))), "{}", chore.name);
        }
    }

    #[test]
    fn usage_names_every_chore() {
        assert!(ALL.iter().all(|chore| usage().contains(&format!("\n  {}", chore.name))));
    }
}

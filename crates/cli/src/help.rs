//! What `--help` shows beyond clap's own text: the verbs in groups, examples for each verb, exit codes and variables.

use crate::exit::CODES;
use clap::{Command, CommandFactory as _};
use headstart_io::device::DeviceState;

/// The verbs by what they are for, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run", &["run", "explain", "demo"]),
    ("Measure", &["ui", "watch", "top", "metrics", "trace", "measure", "realtime", "forward", "engine"]),
    ("Host", &["up", "down", "status", "plan", "recover", "doctor"]),
    ("Serve", &["serve", "get", "relay", "proxy", "gateway", "steer"]),
    ("Lab", &["lab", "list"]),
    ("History", &["history", "telemetry"]),
    ("Set-up", &["config", "completions", "man"]),
];

/// Examples of each verb.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "run",
        &[
            "headstart run -- curl https://example.org/",
            "headstart run --race happy-eyeballs-v2 -- wget https://example.org/",
            "sudo headstart run --measure --flows flows.jsonl -- curl https://example.org/",
        ],
    ),
    ("explain", &["headstart explain example.org", "headstart explain example.org --json"]),
    ("demo", &["headstart demo", "headstart demo --out results"]),
    ("top", &["sudo headstart top", "sudo headstart top --once --json"]),
    ("ui", &["headstart ui", "headstart ui --port 8080 --no-browser"]),
    (
        "watch",
        &[
            "headstart watch",
            "headstart watch --notify",
            "headstart watch --webhook https://example.org/hook",
            "sudo headstart watch --interval 1 --json",
        ],
    ),
    (
        "metrics",
        &[
            "headstart metrics",
            "headstart metrics --listen 127.0.0.1:9469",
            "headstart metrics --listen 0.0.0.0:9469 --host laptop.example.org",
        ],
    ),
    (
        "trace",
        &[
            "sudo headstart trace -w curl.pcapng -- curl https://example.org/",
            "sudo headstart trace -w - -- curl https://example.org/ | wireshark -k -i -",
            "sudo headstart trace --format perfetto -w curl.json -- curl https://example.org/",
        ],
    ),
    ("measure", &["headstart measure network server.example:7700", "headstart measure lte --cqi 11"]),
    (
        "measure network",
        &[
            "headstart measure network server.example:7700",
            "headstart measure network server.example:7700 --seconds 10 --json",
        ],
    ),
    ("measure serve", &["headstart measure serve", "headstart measure serve --listen 0.0.0.0:7700 --most 100"]),
    ("measure lte", &["headstart measure lte", "headstart measure lte --cqi 11 --blocks 100"]),
    ("realtime", &["headstart realtime receive", "headstart realtime send 127.0.0.1:7602"]),
    ("realtime send", &["headstart realtime send server.example:7602 --technique auto --streams 10"]),
    ("realtime receive", &["headstart realtime receive", "headstart realtime receive --clocks-apart --json"]),
    ("engine", &["headstart engine --socket @my-app", "headstart engine --socket /run/user/1000/my-app.socket"]),
    ("forward", &["headstart forward --tun-fd 7 --protect @my-app --flows flows.jsonl"]),
    (
        "up",
        &[
            "sudo headstart up --initcwnd",
            "sudo headstart up --measure --capture-default",
            "sudo headstart up --all --steer host.conf",
        ],
    ),
    ("down", &["sudo headstart down"]),
    ("status", &["headstart status", "headstart status --json"]),
    ("plan", &["headstart plan --initcwnd", "headstart plan --all --json"]),
    ("recover", &["sudo headstart recover"]),
    ("doctor", &["headstart doctor", "headstart doctor --json"]),
    ("serve", &["headstart serve public --write-cert cert.pem", "headstart serve public --listen 0.0.0.0:8443"]),
    (
        "get",
        &[
            "headstart get https://localhost:8443/file -o file --ca cert.pem",
            "headstart get https://example.org/big.iso -o big.iso --continue",
        ],
    ),
    ("relay", &["headstart relay key relay.key", "headstart relay serve --help", "headstart relay ports --help"]),
    ("relay key", &["headstart relay key relay.key"]),
    (
        "relay serve",
        &[concat!(
            "headstart relay serve --listen 0.0.0.0:7601 --key relay.key --client ",
            "5f1e8c0b7a49d2635f1e8c0b7a49d2635f1e8c0b7a49d2635f1e8c0b7a49d263",
            " --allow desk.example.org:22"
        )],
    ),
    (
        "relay ports",
        &[concat!(
            "headstart relay ports --relay relay.example:7601 --relay-key ",
            "5f1e8c0b7a49d2635f1e8c0b7a49d2635f1e8c0b7a49d2635f1e8c0b7a49d263",
            " --key my.key --forward 2222=desk.example.org:22"
        )],
    ),
    ("proxy", &["headstart proxy --fat eth0 --fast wwan0", "headstart proxy --fat 192.0.2.7 --fast wwan0 --verbose"]),
    ("gateway", &["sudo headstart gateway gateway.conf --nat"]),
    (
        "steer",
        &[
            "headstart steer genkey > secret.key",
            "headstart steer pubkey < secret.key",
            "headstart steer log steer.sqlog",
        ],
    ),
    ("steer genkey", &["headstart steer genkey > secret.key"]),
    ("steer pubkey", &["headstart steer pubkey < secret.key"]),
    ("steer log", &["headstart steer log steer.sqlog"]),
    (
        "lab",
        &[
            "headstart lab shell --link lte -- curl http://www.lab.example/",
            "headstart lab run connect-overhead --quick",
        ],
    ),
    ("lab list", &["headstart lab list"]),
    ("lab run", &["headstart lab run connect-overhead --quick", "headstart lab run page-load --speed sim --json"]),
    ("lab reproduce", &["headstart lab reproduce --quick", "headstart lab reproduce --only P1.3 --speed sim"]),
    ("lab report", &["headstart lab report results/page-load results/app-session --out combined"]),
    (
        "lab compare",
        &["headstart lab compare before after", "headstart lab compare v0.1/campaign campaign --tolerance 2"],
    ),
    (
        "lab plan",
        &["headstart lab plan campaign.toml > plan.jsonl", "headstart lab plan campaign.toml --earlier results"],
    ),
    (
        "lab work",
        &[
            "headstart lab work --plan plan.jsonl --out results",
            "headstart lab work --plan plan.jsonl --shard 0/8 --out results",
        ],
    ),
    ("lab status", &["headstart lab status --plan plan.jsonl results"]),
    (
        "lab submit",
        &[
            "headstart lab submit --engine slurm plan.jsonl --out results",
            "headstart lab submit --engine parallel plan.jsonl --out results --go",
        ],
    ),
    ("lab collect", &["headstart lab collect --plan plan.jsonl results --out campaign"]),
    (
        "lab fleet",
        &["headstart lab fleet simulate --hosts 100 --days 7 --out fleet", "headstart lab fleet report fleet"],
    ),
    ("lab fleet pack", &["headstart lab fleet pack /collected --to s3://bucket/telemetry --delete"]),
    ("lab fleet report", &["headstart lab fleet report fleet", "headstart lab fleet report fleet --json"]),
    ("lab fleet simulate", &["headstart lab fleet simulate --out fleet"]),
    ("lab query", &["headstart lab query 'SELECT arm, median(ratio) FROM rows GROUP BY arm' campaign"]),
    ("lab scenario", &["headstart lab scenario dumbbell", "headstart lab scenario my.toml --at client -- ping server"]),
    (
        "lab shell",
        &[
            "headstart lab shell --link lte",
            "headstart lab shell --link rate=5mbit,delay=40ms,loss=1% -- curl http://www.lab.example/",
            "headstart lab shell --host-port 8080 -- curl http://host.lab.example:8080/",
        ],
    ),
    (
        "lab attach",
        &[
            "sudo headstart lab attach --pid 4711 --link lte",
            "sudo headstart lab attach --pid 4711 --link rate=5mbit,delay=40ms -- curl https://example.org/",
        ],
    ),
    ("lab link", &["headstart lab link show", "headstart lab link set delay=100ms,reorder=5%"]),
    ("lab link show", &["headstart lab link show", "headstart lab link show --pid 4711"]),
    ("lab link set", &["headstart lab link set rate=5mbit", "headstart lab link set 'loss=1%;loss=5%' --pid 4711"]),
    ("lab record", &["headstart lab record --out page -- curl -L https://example.org/"]),
    ("lab replay", &["headstart lab replay page --link lte -- curl -L https://example.org/"]),
    ("list", &["headstart list", "headstart list races", "headstart list links --json"]),
    ("history", &["headstart history show", "headstart history forget --host example.org"]),
    ("history show", &["headstart history show", "headstart history show --app curl"]),
    ("telemetry", &["headstart telemetry show"]),
    ("telemetry show", &["headstart telemetry show", "headstart telemetry show > seen.jsonl"]),
    ("telemetry send", &["headstart telemetry send --to http://localhost:4318/v1/logs"]),
    (
        "history export",
        &["headstart history export > history.json", "headstart history export --sign site.key > host-1.history"],
    ),
    ("history import", &["headstart history import host-1.history --site PUBLIC_KEY"]),
    ("history forget", &["headstart history forget", "headstart history forget --app curl --host example.org"]),
    ("config", &["headstart config init", "headstart config show --origin"]),
    ("config init", &["headstart config init", "headstart config init -"]),
    ("config check", &["headstart config check", "headstart config check my.toml"]),
    ("config show", &["headstart config show --origin"]),
    ("config schema", &["headstart config schema > headstart.schema.json"]),
    (
        "completions",
        &[
            "headstart completions bash > ~/.local/share/bash-completion/completions/headstart",
            "headstart completions zsh > ~/.zfunc/_headstart",
            "headstart completions fish > ~/.config/fish/completions/headstart.fish",
        ],
    ),
    ("man", &["headstart man | man -l -", "headstart man ~/.local/share/man/man1"]),
];

/// The end of the long help; `CODES` stands for the exit codes.
const ENDING: &str = "\
`headstart VERB --help` shows the options of a verb, with examples.

Exit codes:
CODES
  `run`, `trace` and `lab shell` otherwise exit with the status of the program.
  With --json, an error is one JSON object on standard error: `error`, `hint`, `exit_code`.

Environment:
  HEADSTART=off       run programs without headstart
  HEADSTART=private   use a separate supervisor without history
  HEADSTART_QUIET=1   do not print the summary line of `run`
  HEADSTART_HISTORY   folder for the history, or `off`
  HEADSTART_LINGER    seconds that the supervisor stays after the last run
  HEADSTART_CONFIG    `off`: ignore the usual configuration files";

/// Bold and underlined, as clap's own headings; clap removes it where colours are not wanted.
const HEADING: [&str; 2] = ["\x1b[1m\x1b[4m", "\x1b[0m"];

/// Columns of the groups of verbs where the terminal has more.
pub const COLUMNS: usize = 80;

/// The command `headstart` with its groups and examples.
pub fn command() -> Command {
    finished(crate::Cli::command(), COLUMNS)
}

/// The same for a terminal of so many columns.
pub fn command_at(columns: usize) -> Command {
    finished(crate::Cli::command(), columns)
}

/// A command with groups and examples, for a terminal of so many columns.
pub fn finished(command: Command, columns: usize) -> Command {
    let command = with_examples(command, "");
    // `--grace -1` is a wrong number, not an unknown option.
    let command = with_negative_numbers(command);
    let codes: String = CODES.iter().map(|(code, short, ..)| format!("  {code:<5}{short}\n")).collect();
    let template =
        format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}{{options}}{{after-help}}", groups(&command, columns));
    command
        .help_template(template)
        .after_long_help(ENDING.replace("CODES", codes.trim_end()))
        .after_help("`headstart --help` also lists exit codes and variables.")
}

/// Before what a verb does.
const INDENT: &str = "               ";

fn groups(command: &Command, columns: usize) -> String {
    let [on, off] = HEADING;
    let mut text = String::new();
    for (title, verbs) in GROUPS {
        text += &format!("{on}{title}:{off}\n");
        for verb in *verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about).map(ToString::to_string);
            let options =
                textwrap::Options::new(columns.clamp(40, COLUMNS)).initial_indent(INDENT).subsequent_indent(INDENT);
            let about = textwrap::fill(&about.unwrap_or_default(), options);
            text += &format!("  \x1b[1m{verb:<12}\x1b[0m {}\n", about.trim_start());
        }
        text.push('\n');
    }
    text + &format!("{on}Options:{off}\n")
}

/// `command` and all below it, whose options take negative numbers as values, to refuse them as such.
fn with_negative_numbers(command: Command) -> Command {
    command
        .mut_args(|arg| {
            if arg.get_action().takes_values() && !arg.is_positional() { arg.allow_negative_numbers(true) } else { arg }
        })
        .mut_subcommands(with_negative_numbers)
}

/// `command` and all below it with their examples; `path`: the verbs that lead to it.
fn with_examples(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let command = names.iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |verb| with_examples(verb, path.trim_start()))
    });
    match EXAMPLES.iter().find(|(verb, _)| *verb == path) {
        Some((_, lines)) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        None => command,
    }
}

/// The state of a machine with the commit that this program was built from, as the build found it.
pub fn with_commit(state: DeviceState) -> DeviceState {
    let commit = Some(env!("HEADSTART_COMMIT")).filter(|commit| *commit != "unknown");
    DeviceState { commit: commit.map(str::to_owned), ..state }
}

/// What `headstart --version --verbose` prints.
pub fn version() -> String {
    format!(
        "headstart {}\ncommit: {}\ntarget: {}\nprofile: {}\nfeatures: {}\nlibrary: {}",
        env!("CARGO_PKG_VERSION"),
        env!("HEADSTART_COMMIT"),
        env!("HEADSTART_TARGET"),
        env!("HEADSTART_PROFILE"),
        env!("HEADSTART_FEATURES"),
        env!("HEADSTART_LIBRARY_ID"),
    )
}

/// Whether these words ask for [`version`].
pub fn asks_for_version(words: &[std::ffi::OsString]) -> bool {
    let is = |word: &std::ffi::OsString, names: [&str; 2]| names.iter().any(|name| word == name);
    let has = |names| words.iter().any(|word| is(word, names));
    words.len() == 2 && has(["--version", "-V"]) && has(["--verbose", "-v"])
}

#[cfg(feature = "lab")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::whole;

    /// Every verb below `command` that people see, by its path.
    fn verbs(command: &Command, path: &str) -> Vec<String> {
        let mut all = Vec::new();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let path = format!("{path} {}", verb.get_name()).trim_start().to_owned();
            all.push(path.clone());
            all.extend(verbs(verb, &path));
        }
        all
    }

    #[test]
    fn every_verb_is_in_one_group_with_one_short_line() {
        let command = whole();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let mut all: Vec<_> =
            command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
        let narrow = || command.clone().term_width(80);
        for help in [narrow().render_help(), narrow().render_long_help()] {
            let help = help.to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    /// The words of a line up to a pipe or a file, as a shell would pass them.
    fn words(line: &str) -> Vec<&str> {
        // Every second part was between quotes.
        let parts = line.split('\'').enumerate();
        let words = parts.flat_map(|(n, part)| match n % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        words.take_while(|word| !["|", ">", "<"].contains(word)).filter(|word| *word != "sudo").collect()
    }

    #[test]
    fn every_verb_has_examples_and_they_are_understood() {
        let command = whole();
        let paths: Vec<_> = EXAMPLES.iter().map(|(path, _)| *path).collect();
        assert_eq!(
            verbs(&command, "").iter().filter(|path| !paths.contains(&path.as_str())).collect::<Vec<_>>(),
            Vec::<&String>::new()
        );
        for (path, lines) in EXAMPLES {
            assert!(verbs(&command, "").iter().any(|verb| verb == path), "there is no verb {path}");
            for line in *lines {
                let words = words(line);
                assert_eq!(words[1..].join(" ").find(path), Some(0), "{line}");
                match command.clone().try_get_matches_from(words) {
                    Err(why) if why.kind() == clap::error::ErrorKind::DisplayHelp => {}
                    parsed => drop(parsed.unwrap_or_else(|why| panic!("{line}: {why}"))),
                }
            }
        }
    }

    #[test]
    fn a_narrow_terminal_gets_narrow_lines() {
        let help = command_at(60).term_width(60).render_help().to_string();
        let long: Vec<_> = help.lines().filter(|line| line.chars().count() > 60).collect();
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn clap_finds_no_mistake_in_the_command() {
        command().debug_assert();
        whole().debug_assert();
    }

    #[test]
    fn the_long_version_names_commit_target_and_features() {
        let text = version();
        for part in ["headstart 0.", "\ncommit: ", "\ntarget: ", "\nfeatures: "] {
            assert!(text.contains(part), "{text}");
        }
        let words = |words: &[&str]| words.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>();
        assert!(
            asks_for_version(&words(&["-V", "--verbose"])) && asks_for_version(&words(&["--verbose", "--version"]))
        );
        for other in [&[][..], &["--version"], &["--verbose"], &["run", "--verbose", "--version"]] {
            assert!(!asks_for_version(&words(other)), "{other:?}");
        }
    }
}

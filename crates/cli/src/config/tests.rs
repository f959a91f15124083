//! Tests of settings: layers, mistakes, and what is published of them.

use super::*;
use std::fs;

fn read(text: &str) -> Result<Config, String> {
    let mut config = Config::default();
    let mistakes = config.read_file(Path::new("config.toml"), text);
    if mistakes.is_empty() { Ok(config) } else { Err(usage(&mistakes).to_string()) }
}

fn variables(all: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    all.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

#[test]
fn every_default_is_valid_and_every_key_has_a_section_of_neighbours() {
    let mut sections = Vec::new();
    for setting in all::ALL {
        assert_eq!(setting.read(setting.default), Ok(setting.by_default()), "{}", setting.key);
        assert!(setting.key.split('.').count() == 2 && !setting.what.is_empty() && !setting.source.is_empty());
        sections.push(setting.section());
    }
    sections.dedup();
    let together = sections.len();
    sections.sort_unstable();
    sections.dedup();
    assert_eq!(together, sections.len(), "the settings of a section stand together");
}

#[test]
fn later_layers_win_and_everyone_is_told_which_one_did() {
    let folder = std::env::temp_dir().join(format!("headstart-config-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (usual, named) = (folder.join("usual.toml"), folder.join("named.toml"));
    fs::write(&usual, "[connect]\nexplore = 0.1\nlinger = 5\n[cwnd]\ninitcwnd = true\n").unwrap();
    fs::write(&named, "[connect]\nexplore = 0.2\n").unwrap();
    let environment = variables(&[("HEADSTART_CONNECT__LINGER", "7"), ("HEADSTART_LINGER", "x"), ("PATH", "/")]);
    let sources =
        Sources { usual: vec![folder.join("none.toml"), usual.clone()], named: Some(named), variables: environment };
    let mut config = Config::of(sources).unwrap();
    config.flag(&all::INITCWND_MOST, "--most", Some("20")).unwrap();
    config.flag(&all::RACE, "--race", None).unwrap();
    assert_eq!((config.share(&all::EXPLORE), config.whole(&all::LINGER)), (0.2, 7));
    assert!(config.is_on(&all::INITCWND) && config.whole(&all::INITCWND_MOST) == 20);
    let origins = [&all::INITCWND, &all::LINGER, &all::INITCWND_MOST, &all::RACE].map(|s| config.get(s).1.to_string());
    let file = format!("{}:5", usual.display());
    assert_eq!(origins, [file.as_str(), "HEADSTART_CONNECT__LINGER", "--most", "default"]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn mistakes_are_named_with_file_line_and_the_nearest_name() {
    for (text, says) in [
        ("[connect]\n\nrcae = \"adaptive\"\n", "config.toml:3: [connect]: unknown key `rcae` (did you mean `race`?)"),
        ("[conect]\n", "config.toml:1: unknown section `conect` (did you mean `connect`?)"),
        ("connect = 1\n", "config.toml:1: [connect] is a section"),
        (
            "[connect]\nrace = \"adaptve\"\n",
            "config.toml:2: connect.race: unknown value `adaptve` (did you mean `adaptive`?)",
        ),
        ("[connect]\nexplore = 2\n", "config.toml:2: connect.explore: must be a number from 0 to 1 (got 2)"),
        ("[connect]\nexplore = \"0.1\"\n", "must be a number (got a text)"),
        ("[cwnd]\ninitcwnd = 1\n", "config.toml:2: cwnd.initcwnd: must be true or false (got a number)"),
        ("[cwnd]\ninitcwnd-most = 5000\n", "must be a whole number from 10 to 200 (got 5000)"),
        ("[cwnd]\ninitcwnd-most = -1\n", "must be a whole number from 10 to 200 (got -1)"),
        ("[connect]\ncache-lifetime = \"soon\"\n", "config.toml:2: connect.cache-lifetime: must be `ttl`"),
        ("[connect\n", "config.toml:1: "),
    ] {
        let why = read(text).expect_err(text);
        assert!(why.contains(says), "{why:?} does not contain {says:?}");
    }
}

#[test]
fn variables_that_nobody_knows_are_mistakes_too() {
    let wrong = variables(&[("HEADSTART_CWND__INITCWD", "true"), ("HEADSTART_CWND__INITCWND", "yes")]);
    let why = usage(&Config::default().read_variables(&wrong)).to_string();
    assert!(why.contains("did you mean `HEADSTART_CWND__INITCWND`?"), "{why}");
    assert!(why.contains("HEADSTART_CWND__INITCWND: must be true or false (got \"yes\")"), "{why}");
}

#[test]
fn every_mistake_is_told_by_line_and_what_is_right_is_read() {
    let text = "[conect]\nx = 1\n[connect]\nrcae = 1\nexplore = 2\nlinger = 5\nlinger = 6\n[host]\ntable = [\n";
    let mut config = Config::default();
    let mistakes = config.read_file(Path::new("c"), text);
    let lines: Vec<_> = mistakes.iter().map(|mistake| mistake.at.as_str()).collect();
    assert_eq!(lines[..4], ["c:1", "c:4", "c:5", "c:7"], "{mistakes:?}");
    assert!(mistakes.iter().any(|mistake| mistake.at == "c:9"), "{mistakes:?}");
    assert_eq!(config.whole(&all::LINGER), 5);
}

#[test]
fn a_file_that_was_named_must_be_there_and_a_strange_one_is_no_panic() {
    let sources = Sources { named: Some("/nonexistent/config.toml".into()), ..Sources::default() };
    assert!(Config::of(sources).unwrap_err().to_string().contains("/nonexistent/config.toml"));
    for strange in
        ["\0", "[connect]\nrace = {a = 1}", "[[connect]]", "connect.race = []", "[connect]\nrace = 1979-05-27"]
    {
        assert!(read(strange).is_err(), "{strange:?}");
    }
}

#[test]
fn the_example_holds_every_default_and_is_valid_with_and_without_its_signs() {
    let example = schema::example();
    assert_eq!(read(&example).unwrap(), Config::default());
    let keys: Vec<_> = all::ALL.iter().map(|setting| format!("# {} = ", setting.name())).collect();
    let open = |line: &str| {
        if keys.iter().any(|key| line.starts_with(key.as_str())) {
            line.trim_start_matches("# ").to_owned()
        } else {
            line.to_owned()
        }
    };
    let opened: Vec<_> = example.lines().map(open).collect();
    let config = read(&opened.join("\n")).unwrap();
    for setting in all::ALL {
        let (value, origin) = config.get(setting);
        assert_eq!(value, setting.by_default());
        assert!(matches!(origin, Origin::File(..)), "{} is not in the example", setting.key);
    }
}

#[test]
fn the_published_schema_and_example_are_current() {
    let stale = "is stale: write it again with `cargo run -- config schema` and `cargo run -- config init -`";
    let schema = format!("{:#}\n", schema::schema());
    assert_eq!(fs::read_to_string(schema::CHECKED_IN).unwrap_or_default(), schema, "docs/config.schema.json {stale}");
    let example = fs::read_to_string(schema::EXAMPLE).unwrap_or_default();
    assert_eq!(example, schema::example(), "docs/config.example.toml {stale}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_settings_or_a_mistake(text in ".{0,200}", section in 0usize..4) {
        let head = ["", "[connect]\n", "[cwnd]\n", "[host]\n"][section];
        let _ = read(&format!("{head}{text}"));
    }
}

//! `headstart history`, end to end: what one supervisor has learned is there for the next, and gone when it is forgotten.

use crate::lab::{Ended, HEADSTART, Lab, ended, found, inside, supervisors, until};
use crate::processes::{ask_to_end, is_alive};
use crate::schema::must_hold;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// Runs a program by the shared supervisor.
fn run(lab: &Lab, words: &[&str]) -> Ended {
    let mut command = lab.command(HEADSTART);
    command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600");
    ended(command.args(["run", "--"]).args(words).spawn().unwrap())
}

fn history(lab: &Lab, words: &[&str]) -> Ended {
    ended(lab.command(HEADSTART).arg("history").args(words).spawn().unwrap())
}

fn exported(lab: &Lab) -> Value {
    let said = history(lab, &["export"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    must_hold("history", &said.out);
    serde_json::from_str(&said.out).expect("one JSON object")
}

fn end() {
    while let Some(supervisor) = supervisors().first().copied() {
        ask_to_end(supervisor);
        until("the supervisor has ended", || !is_alive(supervisor));
    }
}

fn state(lab: &Lab) -> PathBuf {
    lab.scratch.path("state/headstart")
}

/// Addresses known of, over all networks.
fn peers(history: &Value) -> usize {
    let networks = history["networks"].as_array().unwrap();
    networks.iter().map(|network| network["peers"].as_array().unwrap().len()).sum()
}

inside!(what_a_supervisor_has_learned_outlives_it_until_it_is_forgotten, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    assert_eq!(run(&lab, &[curl.to_str().unwrap(), "-sS", "http://www.lab.example/"]).code, Some(0));
    let living = exported(&lab);
    assert!(living["source"] == "supervisor" && peers(&living) > 0 && living["here"].is_string(), "{living}");
    end();

    for name in ["history.redb", "history.key"] {
        let mode = fs::metadata(state(&lab).join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name} is the user's alone");
    }
    let bytes = fs::read(state(&lab).join("history.redb")).unwrap();
    assert!(!bytes.windows(11).any(|w| w == b"lab.example"), "nothing can be read without the key");
    let kept = exported(&lab);
    assert_eq!((&kept["source"], peers(&kept)), (&"disk".into(), peers(&living)));

    assert_eq!(run(&lab, &["true"]).code, Some(0));
    until("the next supervisor has read it", || peers(&exported(&lab)) == peers(&living));
    assert_eq!(exported(&lab)["here"], living["here"], "the same network has the same name");
    let said = history(&lab, &["show"]);
    assert!(said.out.contains(", here: ") && said.out.contains("round trip"), "{said:?}");

    let said = history(&lab, &["forget"]);
    assert!(said.code == Some(0) && said.out.contains("deleted: everything"), "{said:?}");
    assert_eq!(peers(&exported(&lab)), 0);
    end();
    assert_eq!(peers(&exported(&lab)), 0);
    assert!(!state(&lab).join("history.key").exists(), "and so is the key");
});

inside!(a_store_that_makes_no_sense_is_set_aside_and_the_user_is_told_once, || {
    let lab = Lab::new();
    fs::create_dir_all(state(&lab)).unwrap();
    fs::write(state(&lab).join("history.key"), [7; 48]).unwrap();
    fs::write(state(&lab).join("history.redb"), "no database").unwrap();
    let mut told = String::new();
    until("a run has been told", || {
        let ended = run(&lab, &["true"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        told += &ended.err;
        told.contains("history.set-aside.redb")
    });
    assert!(told.contains("is damaged"), "{told}");
    assert_eq!(fs::read(state(&lab).join("history.set-aside.redb")).unwrap(), b"no database");
    let later = run(&lab, &["true"]);
    assert!(!later.err.contains("history:"), "{later:?}");
    end();
});

inside!(who_wants_no_history_has_none, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let without = || {
        let mut command = lab.command(HEADSTART);
        command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600").env("HEADSTART_HISTORY", "off");
        command.args(["run", "--", curl.to_str().unwrap(), "-sS", "http://www.lab.example/"]);
        assert_eq!(ended(command.spawn().unwrap()).code, Some(0));
    };
    without();
    assert!(!state(&lab).exists());
    // Nor where a supervisor is running that keeps what others do.
    assert_eq!(run(&lab, &["true"]).code, Some(0));
    without();
    assert_eq!(peers(&exported(&lab)), 0);
    end();
    // The other may have had nothing to keep.
    let _ = fs::remove_dir_all(state(&lab));
    // Nor do runs with a supervisor of their own have any.
    let mut private = lab.command(HEADSTART);
    private.args(["run", "--", curl.to_str().unwrap(), "-sS", "http://www.lab.example/"]);
    assert_eq!(ended(private.spawn().unwrap()).code, Some(0));
    assert!(!state(&lab).exists());
});

inside!(each_folder_of_a_history_has_its_own_supervisor_and_one_that_cannot_be_written_is_named, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let with = |folder: &str, words: &[&str]| {
        let mut command = lab.command(HEADSTART);
        command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600").env("HEADSTART_HISTORY", folder);
        ended(command.args(words).spawn().unwrap())
    };
    let [a, b] = ["a", "b"].map(|name| lab.scratch.path(name).to_str().unwrap().to_owned());
    let visit = ["run", "--", curl.to_str().unwrap(), "-sS", "http://www.lab.example/"];
    let learned = |folder: &str| peers(&serde_json::from_str(&with(folder, &["history", "export"]).out).unwrap());
    assert_eq!(with(&a, &visit).code, Some(0));
    let quiet = with(&b, &["run", "--", "true"]);
    assert!(quiet.code == Some(0) && !quiet.err.contains("warning"), "{quiet:?}");
    assert_eq!((supervisors().len(), learned(&a) > 0, learned(&b)), (2, true, 0));
    assert_eq!(with(&format!("{a}/"), &visit).code, Some(0));
    assert_eq!(supervisors().len(), 2, "a slash at the end makes no other folder");
    let nowhere = with("/proc/x", &visit);
    assert_eq!(nowhere.code, Some(0), "{nowhere:?}");
    assert_eq!(nowhere.err.matches("HEADSTART_HISTORY=/proc/x: ").count(), 1, "{nowhere:?}");
    end();
    assert!(PathBuf::from(&a).join("history.redb").exists() && !state(&lab).exists());
    [a, b].iter().for_each(|folder| _ = fs::remove_dir_all(folder));
});

inside!(what_is_learned_in_an_emulated_network_is_forgotten_with_it, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let script = format!(
        r#"echo "$HEADSTART_HISTORY"; "$0" run -- {} -sS -o /dev/null http://www.lab.example/ && "$0" history export"#,
        curl.display()
    );
    let mut shell = lab.command(HEADSTART);
    shell.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600");
    let ended =
        ended(shell.args(["lab", "shell", "--link", "lan", "--", "sh", "-c", &script, HEADSTART]).spawn().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (folder, learned) = ended.out.split_once('\n').unwrap();
    assert!(peers(&serde_json::from_str(learned).expect("one JSON object")) > 0, "{learned}");
    assert!(!folder.is_empty() && !PathBuf::from(folder).exists(), "{folder:?}");
    assert!(!state(&lab).exists());
    // The supervisor was killed with the shell's namespaces and could not remove its folder and the library.
    assert_eq!(lab.scratch.left_behind(), [] as [PathBuf; 0]);
});

inside!(what_is_forgotten_while_a_program_runs_does_not_come_back_when_it_ends, || {
    let lab = Lab::new();
    let mut command = lab.command(HEADSTART);
    command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600");
    command.args(["run", "--quiet", "--", HEADSTART, "client"]).stdin(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let mut answers = BufReader::new(program.stdout.take().unwrap());
    let mut visit = |program: &mut Child| {
        writeln!(program.stdin.as_mut().unwrap(), "www.lab.example 80").unwrap();
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert!(line.contains("\"peer\""), "{line}");
    };
    visit(&mut program);
    assert_eq!(history(&lab, &["forget"]).code, Some(0));
    visit(&mut program);
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
    // Another one, which is learned of, so that this one's end has been taken in.
    assert_eq!(run(&lab, &[HEADSTART, "client", "www.lab.example"]).code, Some(0));
    end();
    let kept = exported(&lab);
    let programs = kept["programs"].as_array().unwrap();
    assert!(programs.iter().all(|p| p["launches"] == 1), "{kept}");
});

//! The record of changes harmed in every way, after a kill at every step: one copy makes good for the other; where both are
//! harmed, exit code and text say what is left and the command that removes it; where nothing can be written, changes are undone
//! all the same.

use crate::scene::{Ended, HEADSTART, Scene, can_bundle, found, has, inside, run, send};
use headstart_io::sys::netns;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use rustix::process::Signal;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// No daemon has more steps.
const MOST_STEPS: usize = 400;
/// The folders of a daemon.
pub const FOLDERS: [&str; 2] = ["state", "run"];

/// What becomes of a file, given a number that says where.
#[derive(Clone, Copy, Debug)]
pub enum Harm {
    Flipped,
    Cut,
    Zeroed,
    Emptied,
    Removed,
}

pub const HARMS: [Harm; 5] = [Harm::Flipped, Harm::Cut, Harm::Zeroed, Harm::Emptied, Harm::Removed];

impl Harm {
    pub fn to(self, path: &Path, number: usize) {
        let Ok(mut bytes) = fs::read(path) else { return };
        let at = number % bytes.len().max(1);
        match self {
            Self::Removed => return fs::remove_file(path).unwrap(),
            Self::Flipped if bytes.is_empty() => {}
            Self::Flipped => bytes[at] ^= 1 << (number % 8),
            Self::Cut => bytes.truncate(at),
            Self::Zeroed => bytes.fill(0),
            Self::Emptied => bytes.clear(),
        }
        fs::write(path, bytes).unwrap();
    }
}

/// The copies of the journal in the two folders.
pub fn copies(scene: &Scene) -> [PathBuf; 2] {
    let name = format!("changes-{}", netns::own_cookie().unwrap());
    [scene.path("state").join(&name), scene.path("run").join(name + ".copy")]
}

/// What a daemon changes of a host, in little.
pub fn host() -> String {
    let values = ["ipv4/ip_default_ttl", "ipv4/ip_forward", "ipv6/conf/all/forwarding"];
    let mut seen = values.map(|value| fs::read_to_string(format!("/proc/sys/net/{value}")).unwrap()).concat();
    for line in ["-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule"] {
        seen += &run(&[&["ip"][..], &line.split(' ').collect::<Vec<_>>()].concat());
    }
    if has("nft") {
        seen += &run(&["nft", "list", "ruleset"]);
    }
    seen
}

/// The way back: whatever is still there after `recover` is named with the command that removes it, and that command does.
pub fn recovers(scene: &Scene, before: &str, when: &str) -> Ended {
    let recovered = scene.says(&["recover"]);
    if host() != before {
        assert_eq!(recovered.code, Some(6), "{when}: {recovered:?}");
        assert!(recovered.out.contains("headstart recover --found"), "{when}: {recovered:?}");
        let status = scene.says(&["status"]);
        assert!(status.code == Some(6) && status.out.contains("headstart recover"), "{when}: {status:?}");
        let found = scene.says(&["recover", "--found"]);
        assert_eq!(found.code, Some(0), "{when}: {found:?}");
        assert_eq!(host(), before, "{when}, after {found:?}");
    }
    recovered
}

/// Removes what was put aside, and fails if anything but locks is left.
pub fn tidy_up(scene: &Scene, when: &str) {
    for folder in FOLDERS {
        for entry in fs::read_dir(scene.path(folder)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            match name.split_once('-').map_or("", |(kind, _)| kind) {
                "lock" | "control" => {}
                "changes" if name.ends_with(".damaged") || name.ends_with(".new") => {
                    fs::remove_file(entry.path()).unwrap()
                }
                _ => panic!("{when}: {name} is left"),
            }
        }
    }
}

/// Fills the file systems of these folders.
pub fn written_to_the_brim(scene: &Scene, folders: &[&str]) {
    for folder in folders {
        let mut file = fs::File::create(scene.path(folder).join("others")).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
    }
}

/// Lets the file system of a folder take writes, or not.
pub fn read_only(scene: &Scene, folder: &str, flags: MountFlags) {
    mount_remount(scene.path(folder), flags, "size=64k").unwrap();
}

/// A daemon that is killed at a step, if it gets there; what is left of it.
fn killed_at(scene: &Scene, words: &[&str], step: usize) -> bool {
    let at = step.to_string();
    let (mut daemon, up) = scene.daemon(&[words, &["--die-at-step", &at]].concat());
    if up {
        send(&daemon, Signal::TERM);
    }
    daemon.wait().unwrap().code().is_none()
}

inside!(one_copy_of_the_record_is_enough_at_every_step, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let (before, snapshot) = (scene.look(), host());
    let words = words(&["--initcwnd", "--drill"]);
    let mut rounds = 0;
    'steps: for step in 1..MOST_STEPS {
        for (n, harm) in HARMS.into_iter().enumerate() {
            let when = format!("killed at step {step}, then copy {} {harm:?}", (step + n) % 2);
            if !killed_at(&scene, &words, step) {
                break 'steps;
            }
            let copies = copies(&scene);
            let both = copies.iter().all(|copy| copy.exists());
            harm.to(&copies[(step + n) % 2], 7 * step + 31 * n);
            let recovered = recovers(&scene, &snapshot, &when);
            // The other copy may not have been made yet, or be gone already: nothing is made then.
            assert!(!both || recovered.code == Some(0), "{when}: {recovered:?}");
            assert_eq!(host(), snapshot, "{when}: {recovered:?}");
            tidy_up(&scene, &when);
            rounds += 1;
        }
    }
    println!("{rounds} rounds: no difference");
    assert!(rounds > 100);
    scene.must_be_as(&before, "after all rounds");
});

inside!(where_both_copies_are_harmed_what_is_left_is_named_and_removed, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let (before, snapshot) = (scene.look(), host());
    let words = words(&["--initcwnd", "--drill"]);
    let (mut rounds, mut by_marks) = (0, 0);
    'steps: for step in 1..MOST_STEPS {
        for (n, harm) in HARMS.into_iter().enumerate() {
            let when = format!("killed at step {step}, then both copies {harm:?}");
            if !killed_at(&scene, &words, step) {
                break 'steps;
            }
            for (m, copy) in copies(&scene).iter().enumerate() {
                harm.to(copy, 7 * step + 31 * n + 13 * m);
            }
            by_marks += u32::from(recovers(&scene, &snapshot, &when).code == Some(6));
            let again = scene.says(&["recover"]);
            assert!(again.code == Some(0) && again.out.contains("nothing to recover"), "{when}: {again:?}");
            tidy_up(&scene, &when);
            rounds += 1;
        }
    }
    println!(
        "{rounds} rounds, {by_marks} in which something could not be read or was found by its marks: no difference"
    );
    assert!(rounds > 100 && by_marks > 20);
    scene.must_be_as(&before, "after all rounds");
});

inside!(where_nothing_can_be_written_everything_is_undone_and_the_open_record_is_said, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    for folder in FOLDERS {
        mount("none", scene.path(folder), "tmpfs", MountFlags::empty(), Some(c"size=64k,mode=700")).unwrap();
    }
    let (before, snapshot) = (scene.look(), host());
    let words = words(&["--initcwnd", "--drill"]);
    let mut rounds = 0;
    for step in 1..MOST_STEPS {
        if !killed_at(&scene, &words, step) {
            break;
        }
        let harmed: &[&str] = [&["state"][..], &["run"], &FOLDERS][step % 3];
        let left = copies(&scene).iter().zip(FOLDERS).any(|(copy, folder)| copy.exists() && harmed.contains(&folder));
        let when = format!("killed at step {step}, {harmed:?} {}", if step % 2 == 0 { "full" } else { "read-only" });
        if step % 2 == 0 {
            written_to_the_brim(&scene, harmed);
            let recovered = scene.says(&["recover"]);
            assert_eq!(recovered.code, Some(0), "{when}: {recovered:?}");
            harmed.iter().for_each(|folder| fs::remove_file(scene.path(folder).join("others")).unwrap());
        } else {
            harmed.iter().for_each(|folder| read_only(&scene, folder, MountFlags::RDONLY));
            let recovered = scene.says(&["recover"]);
            assert_eq!(recovered.code, Some(if left { 3 } else { 0 }), "{when}: {recovered:?}");
            assert!(!left || recovered.out.contains("cannot be removed"), "{when}: {recovered:?}");
            assert_eq!(host(), snapshot, "{when}: {recovered:?}");
            harmed.iter().for_each(|folder| read_only(&scene, folder, MountFlags::empty()));
            assert_eq!(scene.says(&["recover"]).code, Some(0), "{when}");
        }
        assert_eq!(host(), snapshot, "{when}");
        tidy_up(&scene, &when);
        rounds += 1;
    }
    println!("{rounds} rounds: no difference");
    assert!(rounds > 30);
    scene.must_be_as(&before, "after all rounds");
    FOLDERS.iter().for_each(|folder| unmount(scene.path(folder), UnmountFlags::empty()).unwrap());
});

inside!(without_a_record_what_is_headstarts_is_named_by_every_verb_and_removed_on_demand, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let before = scene.look();
    let clean = scene.says(&["recover", "--found"]);
    assert!(clean.code == Some(0) && clean.out.contains("nothing to recover"), "{clean:?}");
    let (mut daemon, up) = scene.daemon(&words(&["--initcwnd"]));
    assert!(up);
    let recover = scene.says(&["recover", "--found"]);
    assert!(recover.code == Some(0) && recover.out.contains("the daemon is running"), "{recover:?}");
    // A living daemon whose folders are emptied is not undone under its feet.
    let copies = copies(&scene);
    for copy in &copies {
        fs::remove_file(copy).unwrap();
    }
    let recover = scene.says(&["recover", "--found"]);
    assert!(recover.code == Some(0) && recover.out.contains("the daemon is running"), "{recover:?}");
    for folder in FOLDERS {
        let _ = fs::remove_file(scene.path(folder).join(format!("lock-{}", netns::own_cookie().unwrap())));
    }
    let recover = scene.says(&["recover", "--found"]);
    assert!(recover.code == Some(0) && recover.out.contains("the daemon is running"), "{recover:?}");
    send(&daemon, Signal::KILL);
    daemon.wait().unwrap();
    for verb in ["status", "recover", "down"] {
        let ended = scene.says(&[verb]);
        assert!(ended.code == Some(6) && ended.out.contains("headstart recover --found"), "{verb}: {ended:?}");
        assert!(ended.out.contains("lookup 18515"), "{verb}: {ended:?}");
    }
    let up = scene.says(&["up", "--initcwnd"]);
    assert!(up.code == Some(6) && up.err.contains("made by headstart but are in no journal"), "{up:?}");
    assert!(up.err.contains("headstart recover --found") && !up.err.contains("not made by headstart"), "{up:?}");
    let doctor = scene.says(&["doctor"]);
    assert!(doctor.out.contains("-> headstart recover --found"), "{doctor:?}");
    // Somebody else's in the same places stays.
    run(&["ip", "route", "add", "203.0.113.0/24", "dev", "uplink", "table", "18515"]);
    let found = scene.says(&["recover", "--found"]);
    assert!(found.code == Some(0) && found.out.contains("undone"), "{found:?}");
    assert!(run(&["ip", "route", "show", "table", "18515"]).contains("203.0.113.0/24"));
    run(&["ip", "route", "flush", "table", "18515"]);
    scene.must_be_as(&before, "after `recover --found`");
    // What a daemon with other settings has left.
    let ours = ["protocol", "72"];
    let routes =
        ["203.0.113.0/24", "198.51.100.0/24"].map(|to| ["ip", "route", "add", to, "dev", "uplink", "table", "77"]);
    run(&[&["ip", "rule", "add", "priority", "31000", "lookup", "77"][..], &ours].concat());
    run(&[&routes[0][..], &ours].concat());
    run(&routes[1]);
    let recover = scene.says(&["recover"]);
    assert!(recover.code == Some(6) && recover.out.contains("lookup 77"), "{recover:?}");
    let found = scene.says(&["recover", "--found"]);
    assert!(found.code == Some(0) && found.out.contains("undone"), "{found:?}");
    let left = run(&["ip", "route", "show", "table", "77"]);
    assert!(left.contains("198.51.100.0/24") && !left.contains("203.0.113.0/24"), "{left}");
    run(&["ip", "route", "flush", "table", "77"]);
    scene.must_be_as(&before, "after `recover --found` of another table");
});

inside!(a_record_of_version_one_is_undone, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let before = scene.look();
    let (mut daemon, up) = scene.daemon(&words(&["--initcwnd", "--drill"]));
    assert!(up);
    send(&daemon, Signal::KILL);
    daemon.wait().unwrap();
    let [path, copy] = copies(&scene);
    // As it was written then: one file, no checksums.
    let text = fs::read_to_string(&path).unwrap();
    let plain: String = text.lines().map(|line| format!("{}\n", &line[17..])).collect();
    fs::write(&path, plain.replacen("{\"version\":2,", "{\"version\":1,", 1)).unwrap();
    fs::remove_file(copy).unwrap();
    let recovered = scene.says(&["recover"]);
    assert!(recovered.code == Some(0) && recovered.out.contains("changes undone"), "{recovered:?}");
    scene.must_be_as(&before, "after a record of version one");
    tidy_up(&scene, "version one");
});

inside!(what_could_not_be_looked_at_is_not_called_clean, || {
    let Some(scene) = Scene::new() else { return };
    let (Some(()), Some(())) = (found("setpriv", "util-linux"), found("nft", "nftables")) else { return };
    for json in [false, true] {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin", HEADSTART, "recover"]);
        command.args(json.then_some("--json"));
        let ours = scene.headstart(&[]);
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = Ended::of(command.output().unwrap());
        assert!(ended.code == Some(3) && ended.out.contains("nftables tables were not checked"), "{ended:?}");
        assert!(!json || ended.out.contains("\"not_looked_at\""), "{ended:?}");
    }
    assert_eq!(scene.says(&["recover"]).out.trim(), "nothing to recover");
});

/// These words, and small segments bundled where that is possible.
pub fn words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let bundle: &[&str] = if can_bundle() { &["--bundle"] } else { &[] };
    [words, bundle].concat()
}

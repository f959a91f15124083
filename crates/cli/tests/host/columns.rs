//! All columns of `up` together: killed at each of their steps, its record harmed in one way or another, and then the way back. Afterwards
//! the host is as it was, or exit code and text say what is left and the command that removes it.

use crate::measure::can_capture;
use crate::record::{FOLDERS, HARMS, Harm, copies, host, read_only, recovers, tidy_up, words, written_to_the_brim};
use crate::scene::{Ended, Scene, inside, send};
use headstart_io::steer::keys::SecretKey;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// No daemon has more steps.
const MOST_STEPS: usize = 400;
/// What happens to the record after the kill.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Kept,
    One(Harm),
    Both(Harm),
    Full,
    ReadOnly,
}

/// The fates of a step: the ways to harm a copy take turns.
fn fates(step: usize) -> [Fate; 6] {
    let harm = |n: usize| HARMS[(step + n) % HARMS.len()];
    [Fate::Kept, Fate::One(harm(0)), Fate::One(harm(2)), Fate::Both(harm(0)), Fate::Full, Fate::ReadOnly]
}

/// A daemon that is killed at a step, if it gets there.
fn killed_at(scene: &Scene, words: &[String], step: usize) -> bool {
    let at = step.to_string();
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--die-at-step", &at]).collect();
    let (mut daemon, up) = scene.daemon_of(&words);
    if up {
        send(&daemon, Signal::TERM);
    }
    daemon.wait().unwrap().code().is_none()
}

/// Does to the record what is to happen, has it recovered, and takes that back.
fn meets(scene: &Scene, fate: Fate, step: usize, before: &str, when: &str) -> Ended {
    let harmed: &[&str] = [&["state"][..], &["run"], &FOLDERS][step % 3];
    match fate {
        Fate::Kept => {}
        Fate::One(harm) => harm.to(&copies(scene)[step % 2], 7 * step),
        Fate::Both(harm) => copies(scene).iter().zip([7, 20]).for_each(|(copy, n)| harm.to(copy, n * step)),
        Fate::Full => written_to_the_brim(scene, harmed),
        Fate::ReadOnly => harmed.iter().for_each(|folder| read_only(scene, folder, MountFlags::RDONLY)),
    }
    let recovered = recovers(scene, before, when);
    match fate {
        Fate::Full => harmed.iter().for_each(|folder| fs::remove_file(scene.path(folder).join("others")).unwrap()),
        Fate::ReadOnly => {
            harmed.iter().for_each(|folder| read_only(scene, folder, MountFlags::empty()));
            let left = recovered.code == Some(3) && recovered.out.contains("cannot be removed");
            assert!(left || recovered.code == Some(0), "{when}: {recovered:?}");
            assert_eq!(scene.says(&["recover"]).code, Some(0), "{when}");
        }
        _ => {}
    }
    recovered
}

/// Every step of a column with every fate; how many rounds.
fn is_tortured(scene: &Scene, words: &[String]) -> usize {
    let before = host();
    let mut rounds = 0;
    for step in 1..MOST_STEPS {
        for fate in fates(step) {
            let when = format!("{words:?} killed at step {step}, {fate:?}");
            if !killed_at(scene, words, step) {
                assert_eq!(host(), before, "{words:?} after its end");
                tidy_up(scene, &when);
                return rounds;
            }
            let both = copies(scene).iter().all(|copy| copy.exists());
            let recovered = meets(scene, fate, step, &before, &when);
            let is_harmed = matches!(fate, Fate::Both(_));
            let is_half = matches!(fate, Fate::One(_)) && !both;
            assert!(
                recovered.code == Some(0) || is_harmed || is_half || matches!(fate, Fate::ReadOnly),
                "{when}: {recovered:?}"
            );
            assert_eq!(host(), before, "{when}: {recovered:?}");
            tidy_up(scene, &when);
            rounds += 1;
        }
    }
    panic!("{words:?} has more steps than {MOST_STEPS}");
}

/// The host's file of a tunnel.
fn tunnel(scene: &Scene) -> String {
    let (own, peer) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = 10.77.0.1/24, fd77::1/64\nFastRate = 2mbit\n[Peer]\nPublicKey = {}\n\
         AllowedIPs = 10.77.0.0/24, fd77::/64, 203.0.113.0/24\nFatEndpoint = 192.0.2.2:7000\nFastEndpoint = 192.0.2.2:7001\n",
        own.reveal(),
        peer.public()
    );
    kept(scene, "host.conf", &text)
}

/// The gateway's file of a tunnel.
fn gateway(scene: &Scene) -> String {
    let (own, peer) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = 10.77.0.254/24, fd77::fe/64\nFastRate = 2mbit\nFatListen = 7000\nFastListen = 7001\n\
         [Peer]\nPublicKey = {}\nAllowedIPs = 10.77.0.1/32, fd77::1/128\n",
        own.reveal(),
        peer.public()
    );
    kept(scene, "gateway.conf", &text)
}

/// Writes a file that its owner alone may read.
fn kept(scene: &Scene, name: &str, text: &str) -> String {
    let path = scene.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

inside!(every_column_is_undone_after_a_kill_at_any_step_whatever_becomes_of_its_record, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let measures = can_capture(&scene);
    for folder in FOLDERS {
        mount("none", scene.path(folder), "tmpfs", MountFlags::empty(), Some(c"size=64k,mode=700")).unwrap();
    }
    let before = scene.look();
    let tunnel = tunnel(&scene);
    let measures: &[&str] = if measures { &["--measure", "--capture-default"] } else { &[] };
    let all = [&["up", "--foreground"], &words(&["--initcwnd", "--steer", &tunnel])[..], measures].concat();
    let rounds = is_tortured(&scene, &all.into_iter().map(str::to_owned).collect::<Vec<_>>());
    println!("{rounds} rounds: no difference");
    assert!(rounds > 60);
    scene.must_be_as(&before, "after all rounds");
    FOLDERS.iter().for_each(|folder| unmount(scene.path(folder), UnmountFlags::empty()).unwrap());
});

inside!(a_gateway_that_was_killed_leaves_nothing_whatever_becomes_of_its_record, || {
    let Some(scene) = Scene::new() else { return };
    for folder in FOLDERS {
        mount("none", scene.path(folder), "tmpfs", MountFlags::empty(), Some(c"size=64k,mode=700")).unwrap();
    }
    let before = host();
    let words = ["gateway", &gateway(&scene), "--foreground"].map(str::to_owned);
    let mut by_marks = 0;
    for harm in 0..HARMS.len() {
        for fate in fates(harm) {
            let when = format!("a gateway killed, {fate:?}");
            let (mut daemon, up) = scene.daemon_of(&words.each_ref().map(String::as_str));
            assert!(up, "{when}");
            assert_ne!(host(), before, "{when}: it changes something");
            send(&daemon, Signal::KILL);
            daemon.wait().unwrap();
            by_marks += u32::from(meets(&scene, fate, harm, &before, &when).code == Some(6));
            assert_eq!(host(), before, "{when}");
            tidy_up(&scene, &when);
        }
    }
    assert!(by_marks >= 3, "{by_marks} times a value was found by its mark");
    FOLDERS.iter().for_each(|folder| unmount(scene.path(folder), UnmountFlags::empty()).unwrap());
});

//! Others on the same host: a second daemon, users who may not, tables and routes of somebody else, and somebody who takes
//! away what is ours.

use crate::scene::{Ended, HEADSTART, Scene, found, has, inside, run, send, until};
use headstart_io::sys::netns;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send as send_bytes, socket_with,
};
use rustix::process::Signal;
use std::os::fd::OwnedFd;
use std::process::Command;

inside!(the_second_daemon_finds_the_first_and_changes_nothing, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    assert_eq!(scene.says(&["up", "--initcwnd"]).code, Some(0));
    let with_one = scene.look();
    let second = scene.says(&["up", "--initcwnd"]);
    assert!(second.code == Some(1) && second.err.contains("a daemon is already running"), "{second:?}");
    let recover = scene.says(&["recover"]);
    assert!(recover.code == Some(0) && recover.out.contains("the daemon is running"), "{recover:?}");
    scene.must_be_as(&with_one, "after a second daemon and a recover");
    assert_eq!(scene.says(&["down"]).code, Some(0));
    assert_eq!(scene.says(&["down"]).out.trim(), "no daemon is running");
});

inside!(a_dead_daemons_socket_is_no_obstacle, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let before = scene.look();
    let (mut daemon, _) = scene.daemon(&["--initcwnd"]);
    send(&daemon, Signal::KILL);
    daemon.wait().unwrap();
    let status = scene.says(&["status"]);
    assert!(status.code == Some(6) && status.out.contains("headstart recover"), "{status:?}");
    let doctor = scene.says(&["doctor"]);
    assert!(doctor.code == Some(3) && doctor.out.contains("-> headstart recover"), "{doctor:?}");
    let up = scene.says(&["up", "--initcwnd"]);
    assert!(up.code == Some(0) && up.err.contains("cleaned up after a killed daemon: 2 changes undone"), "{up:?}");
    assert_eq!(scene.says(&["down"]).code, Some(0));
    scene.must_be_as(&before, "after a killed daemon, another and its end");
});

inside!(what_somebody_else_has_in_our_place_is_left_alone_and_said, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    run(&["ip", "route", "add", "203.0.113.0/24", "dev", "uplink", "table", "18515"]);
    let before = scene.look();
    let up = scene.says(&["up", "--initcwnd"]);
    assert!(
        up.code == Some(1) && up.err.contains("203.0.113.0/24 dev uplink") && up.err.contains("stay unchanged"),
        "{up:?}"
    );
    assert_eq!(scene.says(&["plan", "--initcwnd"]).code, Some(3));
    let other = scene.headstart(&["up", "--initcwnd"]).env("HEADSTART_HOST__TABLE", "18516").output().unwrap();
    assert!(other.status.success(), "{other:?}");
    assert_eq!(scene.says(&["down"]).code, Some(0));
    scene.must_be_as(&before, "with somebody else's route in the table");
    run(&["ip", "route", "flush", "table", "18515"]);
    if !has("nft") {
        return println!("skipped: nft is not on the PATH (Debian package: nftables)");
    }
    run(&["nft", "create table inet headstart { comment \"somebody else's\"; }"]);
    let before = scene.look();
    let up = scene.says(&["up", "--initcwnd", "--drill"]);
    assert!(up.code == Some(1) && up.err.contains("nftables table inet headstart already exists"), "{up:?}");
    scene.must_be_as(&before, "with somebody else's nftables table");
    // Even where the journal says that it was about to be ours.
    for step in 1..40 {
        let (mut daemon, _) = scene.daemon(&["--drill", "--die-at-step", &step.to_string()]);
        if daemon.wait().unwrap().code().is_some() {
            break;
        }
        let recovered = scene.says(&["recover"]);
        assert!(matches!(recovered.code, Some(0 | 3)), "{recovered:?}");
        scene.must_be_as(&before, &format!("after a kill at step {step} beside somebody else's table"));
    }
});

inside!(what_is_taken_away_is_put_back_and_at_last_given_up, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let before = scene.look();
    assert_eq!(scene.says(&["up", "--initcwnd"]).code, Some(0));
    let routes = || run(&["ip", "route", "show", "table", "18515"]);
    run(&["ip", "rule", "del", "lookup", "18515"]);
    until("the rule is back", || run(&["ip", "rule"]).contains("lookup 18515"));
    assert_eq!(scene.says(&["status"]).code, Some(0));
    until("it is given up", || {
        if !routes().is_empty() {
            run(&["ip", "route", "flush", "table", "18515"]);
        }
        scene.says(&["status"]).code == Some(3)
    });
    let status = scene.says(&["status"]);
    assert!(status.out.contains("another program keeps removing"), "{status:?}");
    scene.must_be_unchanged_but_for_the_daemon(&before);
    assert_eq!(scene.says(&["down"]).code, Some(0));
    scene.must_be_as(&before, "after down");
});

inside!(a_value_that_somebody_has_set_since_is_left_alone, || {
    let Some(scene) = Scene::new() else { return };
    let value = "/proc/sys/net/ipv4/ip_default_ttl";
    let (mut daemon, up) = scene.daemon(&["--drill"]);
    assert!(up && std::fs::read_to_string(value).unwrap().trim() == "63");
    std::fs::write(value, "77").unwrap();
    let down = scene.says(&["down"]);
    assert!(down.code == Some(3) && down.out.contains("left alone: net/ipv4/ip_default_ttl is now \"77\""), "{down:?}");
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_to_string(value).unwrap().trim(), "77");
    assert_eq!(scene.says(&["status"]).code, Some(5), "nothing of ours is left");
});

/// `headstart` as another user, in another group.
fn as_somebody(scene: &Scene, words: &[&str]) -> Ended {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", HEADSTART]).args(words);
    let theirs = scene.headstart(words);
    command.envs(theirs.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ended::of(command.output().unwrap())
}

/// Whether other users than the test's own exist here, and a group for them.
fn others_exist() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let exist = map.split_whitespace().nth(2).and_then(|n| n.parse::<u64>().ok()).is_some_and(|n| n > 65534);
    let group = std::fs::read_to_string("/etc/group")
        .unwrap_or_default()
        .lines()
        .any(|line| line.starts_with("nogroup:x:65534:"));
    if !exist || !group {
        println!("skipped: there is no other user in this user namespace, or no group nogroup");
    }
    exist && group
}

inside!(a_hostile_user_is_refused_and_holds_nobody_up, || {
    let Some(scene) = Scene::new() else { return };
    let Some(()) = found("setpriv", "util-linux") else { return };
    if !others_exist() {
        return;
    }
    scene.teach(1);
    assert_eq!(scene.says(&["up", "--initcwnd"]).code, Some(0));
    for verb in ["status", "down"] {
        let denied = as_somebody(&scene, &[verb]);
        assert!(denied.code == Some(4) && denied.err.contains("permission denied by the daemon"), "{denied:?}");
    }
    assert_eq!(scene.says(&["down"]).code, Some(0));
    let mut up = scene.headstart(&["up", "--initcwnd"]);
    let up = Ended::of(up.env("HEADSTART_HOST__GROUP", "nogroup").output().unwrap());
    assert_eq!(up.code, Some(0), "{up:?}");
    let status = as_somebody(&scene, &["status"]);
    assert!(status.code == Some(0) && status.out.contains("woken by: control"), "the group may ask: {status:?}");
    let down = as_somebody(&scene, &["down"]);
    assert!(down.code == Some(4) && down.err.contains("user 65534 may not stop the daemon"), "{down:?}");
    // Those who say nothing, too much or nonsense, and do not listen.
    let socket = scene.path("run").join(format!("control-{}", netns::own_cookie().unwrap()));
    let address = SocketAddrUnix::new(&socket).unwrap();
    let mut kept: Vec<OwnedFd> = Vec::new();
    for n in 0..300 {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let client = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        // Where the queue is full, others are in it.
        if connect(&client, &address).is_ok() {
            let words = [&b"\0\xff\xfe"[..], &[b'{'; 60_000], b"{\"version\":1,\"verb\":\"status\"}"];
            if n % 4 < 3 {
                let _ = send_bytes(&client, words[n % 4], SendFlags::NOSIGNAL);
            }
            kept.push(client);
        }
    }
    assert_eq!(scene.status()["initial_windows"], 1);
    drop(kept);
    assert_eq!(scene.says(&["down"]).code, Some(0));
});

//! Bad input: folders that cannot be written, disks that are full, rights that are missing, journals that are damaged.
//! Nothing is changed, or everything is undone, and the message says what to do.

use crate::scene::{Ended, HEADSTART, Scene, found, inside, send};
use headstart_io::sys::netns;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use rustix::process::Signal;
use std::fs;
use std::io::Write as _;
use std::process::Command;

inside!(a_read_only_state_folder_means_that_nothing_is_changed, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let before = scene.look();
    let state = scene.path("state");
    mount("none", &state, "tmpfs", MountFlags::RDONLY, Some(c"mode=700")).unwrap();
    let up = scene.says(&["up", "--initcwnd"]);
    assert!(up.code == Some(4) && up.err.contains("Read-only file system"), "{up:?}");
    assert!(up.err.contains("STATE_DIRECTORY") && !up.err.contains("setcap"), "{up:?}");
    scene.must_be_as(&before, "after `up` on a read-only folder");
    assert_eq!(scene.says(&["doctor"]).code, Some(3));
    unmount(&state, UnmountFlags::empty()).unwrap();
});

inside!(a_full_disk_means_that_nothing_more_is_changed, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let before = scene.look();
    let state = scene.path("state");
    mount("none", &state, "tmpfs", MountFlags::empty(), Some(c"size=64k,mode=700")).unwrap();
    let fill = || {
        let mut file = fs::File::create(state.join("others")).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
    };
    fill();
    let up = scene.says(&["up", "--initcwnd"]);
    assert!(up.code == Some(1) && up.err.contains("No space left on device"), "{up:?}");
    scene.must_be_as(&before, "after `up` on a full disk");
    // Full while it is up: what there is stays, and is undone.
    fs::remove_file(state.join("others")).unwrap();
    let (mut daemon, up) = scene.daemon(&["--initcwnd"]);
    assert!(up);
    fill();
    let down = scene.says(&["down"]);
    assert!(down.code == Some(0) && down.out.contains("2 changes undone"), "{down:?}");
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    scene.must_be_as(&before, "after `down` on a full disk");
    unmount(&state, UnmountFlags::empty()).unwrap();
});

inside!(a_daemon_does_not_begin_on_top_of_what_cannot_be_undone, || {
    let Some(scene) = Scene::new() else { return };
    let before = scene.look();
    let (mut daemon, up) = scene.daemon(&["--drill"]);
    assert!(up);
    send(&daemon, Signal::KILL);
    daemon.wait().unwrap();
    // The values of the kernel cannot be written for a while.
    let values = "/proc/sys/net/ipv4";
    mount_bind(values, values).unwrap();
    mount_remount(values, MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
    let up = scene.says(&["up", "--drill"]);
    assert!(up.code == Some(6) && up.err.contains("ip_default_ttl") && up.err.contains("headstart recover"), "{up:?}");
    assert_eq!(scene.says(&["recover"]).code, Some(6), "it is still in the journal");
    unmount(values, UnmountFlags::empty()).unwrap();
    let recovered = scene.says(&["recover"]);
    assert!(recovered.code == Some(0) && recovered.out.contains("1 change undone"), "{recovered:?}");
    scene.must_be_as(&before, "after recovering what could not be undone at first");
});

inside!(without_the_right_to_change_routes_the_message_is_the_line_that_grants_it, || {
    let Some(scene) = Scene::new() else { return };
    let Some(()) = found("setpriv", "util-linux") else { return };
    scene.teach(1);
    let before = scene.look();
    let without = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin", HEADSTART]).args(words);
        let ours = scene.headstart(words);
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Ended::of(command.output().unwrap())
    };
    let up = without(&["up", "--initcwnd"]);
    assert!(up.code == Some(4) && up.err.contains("setcap cap_net_admin+ep"), "{up:?}");
    scene.must_be_as(&before, "after `up` without the right");
    assert_eq!(scene.says(&["status"]).code, Some(5), "nothing is left to recover");
    assert_eq!(without(&["plan", "--initcwnd"]).code, Some(0), "a plan needs no right");
    let doctor = without(&["doctor"]);
    assert!(doctor.code == Some(3) && doctor.out.contains("setcap cap_net_admin+ep"), "{doctor:?}");
    // What a killed daemon has left cannot be undone by who has no right to, and stays in the journal.
    let (mut daemon, _) = scene.daemon(&["--initcwnd"]);
    send(&daemon, Signal::KILL);
    daemon.wait().unwrap();
    let refused = without(&["recover"]);
    assert!(refused.code == Some(4) && refused.err.contains("setcap"), "{refused:?}");
    let recovered = scene.says(&["recover"]);
    assert!(recovered.code == Some(0) && recovered.out.contains("2 changes undone"), "{recovered:?}");
    scene.must_be_as(&before, "after recovering with the right");
});

inside!(a_damaged_journal_is_undone_as_far_as_it_can_be_read_and_put_aside, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let before = scene.look();
    let (mut daemon, _) = scene.daemon(&["--initcwnd"]);
    send(&daemon, Signal::KILL);
    daemon.wait().unwrap();
    let name = format!("changes-{}", netns::own_cookie().unwrap());
    let copies = [scene.path("state").join(&name), scene.path("run").join(name + ".copy")];
    for copy in &copies {
        fs::OpenOptions::new().append(true).open(copy).unwrap().write_all(b"nonsense\n").unwrap();
    }
    let recovered = scene.says(&["recover"]);
    assert!(recovered.code == Some(6) && recovered.out.contains(".damaged"), "{recovered:?}");
    assert!(recovered.out.contains("2 changes undone"), "{recovered:?}");
    scene.must_be_as(&before, "after a damaged journal");
    // A value that is none of headstart's, in a record of version one, which has no checksums.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let head = format!("{{\"version\":1,\"boot\":\"{}\",\"netns\":{}}}", boot.trim(), netns::own_cookie().unwrap());
    let strange =
        "{\"n\":90,\"will\":{\"kind\":\"sysctl\",\"path\":\"kernel/hostname\",\"was\":\"x\",\"becomes\":\"y\"}}";
    fs::write(&copies[0], format!("{head}\n{strange}\n")).unwrap();
    let recovered = scene.says(&["recover"]);
    assert!(recovered.code == Some(3) && recovered.out.contains("kernel/hostname"), "{recovered:?}");
    fs::write(&copies[0], head.replacen('1', "9", 1) + "\n").unwrap();
    let up = scene.says(&["up", "--initcwnd"]);
    assert!(up.code == Some(1) && up.err.contains("later version"), "{up:?}");
    fs::remove_file(&copies[0]).unwrap();
    scene.must_be_as(&before, "after a file of a later version");
});

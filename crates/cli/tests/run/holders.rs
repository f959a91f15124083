//! A socket that its program does not hold alone, that has an owner or a timeout of its own, or that another thread acts on while it
//! connects: it stays the program's, whatever the front end, and the kernel's rules for it hold.

use crate::lab::{Lab, compiled, inside};

const FRONT_ENDS: [&str; 3] = ["auto", "preload", "seccomp"];
const EXCHANGED: &str = "connect: ok\nanother socket\n";
const KEPT: &str = "connect: ok\nthe same socket\n";

inside!(a_socket_that_something_else_holds_keeps_its_place, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "holders.c", &[]) else { return };
    let program = program.to_str().unwrap();
    for via in FRONT_ENDS {
        for how in ["alone", "spawn", "vfork", "message", "owner", "user-timeout"] {
            if how == "message" && via != "preload" {
                // What is on its way in a message is not seen from outside (docs/guide/run.md).
                continue;
            }
            let ours = lab.ours_with(&["--via", via], &[program, how, "www.lab.example"]);
            let expected = if how == "alone" { EXCHANGED } else { KEPT };
            assert_eq!((ours.code, ours.out.as_str()), (Some(0), expected), "{via}, {how}: {ours:?}");
        }
    }
});

inside!(a_connect_to_a_silent_host_ends_as_the_kernel_would_end_it, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "holders.c", &[]) else { return };
    let program = program.to_str().unwrap();
    for how in ["shutdown", "cancel", "user-timeout"] {
        let words = [program, how, "hole.lab.example"];
        let bare = lab.bare(&words);
        assert!(bare.code == Some(0) && !bare.out.is_empty(), "{bare:?}");
        for via in FRONT_ENDS {
            let ours = lab.ours_with(&["--via", via], &words);
            assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{via}, {how}: {ours:?}");
        }
    }
});

/// What `jumps.c` prints where nothing is left of what it has left.
fn jumps(call: &str, way: &str, vias: &[&str]) {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "jumps.c", &[]) else { return };
    let words = [program.to_str().unwrap(), call, way];
    let begins = match way {
        "jump" => "may be cancelled: 1\n".to_owned(),
        "cancel" => "cancelled: 1, at once: 1\n".repeat(5),
        _ => "outer: 0, inner: 0\n".to_owned(),
    };
    let bare = lab.bare(&words);
    assert!(bare.code == Some(0) && bare.out.starts_with(&begins) && bare.out.contains("works: 1"), "{bare:?}");
    for via in vias {
        let ours = lab.ours_with(&["--via", via], &words);
        let expected = format!("{begins}works: 1\nleft open: 0\n");
        assert_eq!((ours.code, ours.out.as_str()), (Some(0), expected.as_str()), "{via}, {call} {way}: {ours:?}");
    }
}

// What the C library leaves of its own lookups is not ours: no lookup by system calls.
inside!(a_lookup_that_is_left_by_a_jump_leaves_nothing, || jumps("lookup", "jump", &["auto", "preload"]));
inside!(a_lookup_ends_when_its_thread_is_cancelled, || jumps("lookup", "cancel", &["auto", "preload"]));
inside!(a_connect_that_is_left_by_a_jump_leaves_nothing, || jumps("connect", "jump", &FRONT_ENDS));
inside!(a_connect_ends_when_its_thread_is_cancelled, || jumps("connect", "cancel", &FRONT_ENDS));
inside!(a_signal_handler_connects_while_a_connect_waits, || jumps("connect", "inside", &FRONT_ENDS));

inside!(a_program_that_has_become_another_user_opens_its_own_sockets, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "holders.c", &[]) else { return };
    let words = [program.to_str().unwrap(), "user", "www.lab.example"];
    if lab.bare(&words).code == Some(5) {
        return println!("skipped: a user namespace has no other user");
    }
    for via in FRONT_ENDS {
        let ours = lab.ours_with(&["--via", via], &words);
        assert_eq!((ours.code, ours.out.as_str()), (Some(0), KEPT), "{via}: {ours:?}");
    }
});

inside!(a_program_with_a_hosts_file_of_its_own_is_told_what_it_says, || {
    let lab = Lab::new();
    let hosts = lab.scratch.path("hosts");
    std::fs::write(&hosts, "192.0.2.77 www.lab.example\n").unwrap();
    let script = format!("mount --bind {} /etc/hosts && getent ahosts www.lab.example", hosts.display());
    let words = ["unshare", "-m", "sh", "-c", &script];
    let bare = lab.bare(&words);
    if bare.code != Some(0) {
        return println!("skipped: no mount namespace to be had: {}", bare.err);
    }
    assert!(bare.out.contains("192.0.2.77"), "{bare:?}");
    for via in FRONT_ENDS {
        let ours = lab.ours_with(&["--via", via], &words);
        assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{via}: {ours:?}");
    }
});

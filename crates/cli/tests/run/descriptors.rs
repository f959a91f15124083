//! A program's descriptors, threads and signals are its own: headstart leaves none of either kind behind in it.

use crate::lab::{Lab, compiled, inside};

inside!(after_two_hundred_connections_a_program_holds_no_more_than_without, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let words = [program.to_str().unwrap(), "descriptors"];
    let (bare, ours) = (lab.bare(&words), lab.ours(&words));
    assert!(bare.out.contains("/proc/self/task: 1\n"), "{bare:?}");
    assert_eq!(ours.out, bare.out, "{ours:?}");
    assert!(ours.count("handed_over") + ours.count("handed_over_in_progress") >= 150, "{ours:?}");
});

inside!(valgrind_finds_no_error_in_what_the_library_does, || {
    let lab = Lab::new();
    let (Some(valgrind), Some(program)) =
        (crate::lab::found("valgrind", "valgrind"), compiled(&lab.scratch, "inert.c", &["-g"]))
    else {
        return;
    };
    for behaviour in ["blocking", "nonblocking", "nonsense", "fork_between"] {
        let words = [valgrind.to_str().unwrap(), "-q", "--error-exitcode=77", program.to_str().unwrap(), behaviour];
        let (bare, ours) = (lab.bare(&words), lab.ours(&words));
        // The program itself passes bad addresses on purpose; what valgrind says of that it says without us too.
        assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{behaviour}: {}", ours.err);
    }
});

//! Headstart changes when connections are there, never what calls mean: a C program of many behaviours sees the same
//! with and without it.

use crate::lab::{Ended, Lab, Scratch, compiled, ended, inside};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// One behaviour of `inert.c`, bare and through headstart: what both printed is the same. `None` without a compiler.
fn same(behaviour: &str) -> Option<Ended> {
    same_in(&Lab::new(), behaviour)
}

fn same_in(lab: &Lab, behaviour: &str) -> Option<Ended> {
    // Lookups fill a program of their own, and so do crowds.
    let source = match behaviour {
        "lookups" => "lookups.c",
        "flood" | "passed" => "crowd.c",
        _ => "inert.c",
    };
    let program = compiled(&lab.scratch, source, &[])?;
    let words = [program.to_str().unwrap(), behaviour];
    let bare = lab.bare(&words);
    assert!(bare.code == Some(0) && !bare.out.is_empty(), "{bare:?}");
    let ours = lab.ours(&words);
    assert_eq!(differences(&bare, &ours), Vec::<String>::new(), "{ours:?}");
    assert_eq!(ours.code, Some(0), "{ours:?}");
    assert_eq!(lab.scratch.left_behind(), Vec::<std::path::PathBuf>::new());
    Some(ours)
}

/// The lines in which two runs differ.
pub fn differences(bare: &Ended, ours: &Ended) -> Vec<String> {
    let count = bare.out.lines().count().max(ours.out.lines().count());
    let (mut one, mut other) = (bare.out.lines(), ours.out.lines());
    let pairs = (0..count).map(|_| (one.next().unwrap_or("(nothing)"), other.next().unwrap_or("(nothing)")));
    pairs.filter(|(bare, ours)| bare != ours).map(|(bare, ours)| format!("bare {bare:?} ours {ours:?}")).collect()
}

/// What may not be accelerated: no connection was handed over, and so every call was the program's own.
fn left_alone(behaviour: &str) {
    if let Some(ours) = same(behaviour) {
        assert_eq!(ours.count("handed_over") + ours.count("handed_over_in_progress"), 0, "{ours:?}");
    }
}

/// What may be accelerated, and was: this many connections at least.
fn accelerated(behaviour: &str, connections: u64) {
    if let Some(ours) = same(behaviour) {
        assert!(ours.count("handed_over") + ours.count("handed_over_in_progress") >= connections, "{ours:?}");
    }
}

inside!(a_blocking_connect_is_handed_over_with_the_names_flags_and_errno_of_the_kernels, || accelerated("blocking", 2));
inside!(an_ipv6_socket_reaches_a_mapped_address_unless_it_is_for_ipv6_only, || {
    same("mapped");
});
inside!(a_udp_connect_is_the_kernels, || left_alone("udp"));
inside!(a_connect_to_a_local_socket_is_the_kernels, || {
    if let Some(ours) = same("local") {
        assert_eq!(ours.count("processes"), 0, "nobody was asked anything: {ours:?}");
    }
});
inside!(a_connect_to_an_address_in_figures_is_the_kernels, || {
    if let Some(ours) = same("numeric") {
        assert_eq!(ours.count("processes"), 0, "nobody was asked anything: {ours:?}");
    }
});
inside!(a_connect_to_an_address_from_no_lookup_is_the_kernels, || left_alone("unknown"));
inside!(a_bound_socket_keeps_its_port, || left_alone("bound"));
inside!(socket_options_read_the_same_whether_they_are_carried_over_or_bind_the_socket, || accelerated("options", 8));
inside!(epoll_reports_a_socket_that_was_watched_before_it_connected, || accelerated("epoll_before", 1));
inside!(a_duplicate_of_a_socket_is_connected_with_it, || left_alone("dup_before"));
inside!(parent_and_child_of_a_fork_both_connect, || accelerated("fork_between", 1));
inside!(a_socket_from_before_a_fork_is_connected_in_both_processes, || {
    same("fork_with_socket");
});
inside!(sixteen_threads_connect_fifty_times_each, || accelerated("threads", 400));
inside!(twenty_thousand_connects_of_four_processes_end_as_ever, || {
    same("flood");
});
inside!(a_socket_that_was_passed_on_is_connected_for_all_who_hold_it, || {
    same("passed");
});
inside!(closing_every_descriptor_before_connecting_loses_nothing, || accelerated("closefrom_before", 1));
inside!(a_non_blocking_connect_becomes_writable_and_tells_no_error, || {
    same("nonblocking");
});
inside!(a_refusal_is_told_to_blocking_and_non_blocking_callers, || {
    same("refused");
});
inside!(connecting_again_says_already_and_is_connected, || {
    same("again");
});
inside!(a_signal_interrupts_a_blocking_connect_which_then_completes, || {
    same("eintr");
});
inside!(a_signal_with_sa_restart_does_not_interrupt_a_blocking_connect, || {
    same("sa_restart");
});
inside!(signals_are_not_reported_by_getaddrinfo_and_non_blocking_connects, || {
    same("signals_everywhere");
});
inside!(a_send_timeout_bounds_a_blocking_connect, || {
    same("sndtimeo");
});
inside!(a_cancelled_thread_ends_alone, || {
    same("cancelled");
});
inside!(what_takes_the_place_of_a_socket_that_is_being_connected_stays_there, || {
    same("replaced");
});
inside!(getaddrinfo_answers_as_the_c_library_does, || {
    same("lookups");
});
inside!(getaddrinfo_answers_as_the_c_library_does_where_there_is_no_ipv6, || {
    let lab = Lab::new();
    let off = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6";
    assert!(lab.command("sh").args(["-c", off]).status().unwrap().success());
    same_in(&lab, "lookups");
});
inside!(calls_that_make_no_sense_fail_as_ever, || {
    same("nonsense");
});
inside!(a_program_in_another_network_namespace_is_not_given_connections_of_this_one, || {
    same("elsewhere");
});

/// Names of the files that a program has mapped, which prints its maps.
fn mapped(command: &mut Command) -> BTreeSet<String> {
    let ended = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let files = ended.out.lines().filter_map(|line| Some(line.split_once('/')?.1.rsplit('/').next()?.to_owned()));
    files.collect()
}

#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn our_library_brings_no_other_along() {
    let scratch = Scratch::new();
    let words = ["/bin/cat", "/proc/self/maps"];
    let bare = mapped(Command::new(words[0]).arg(words[1]));
    let ours = mapped(&mut scratch.headstart(["run", "-q", "--"].iter().chain(&words)));
    let added: Vec<_> = ours.difference(&bare).map(|file| file.split('-').next().unwrap_or(file)).collect();
    assert_eq!(added, ["filter", "libheadstart", "used"]);
}

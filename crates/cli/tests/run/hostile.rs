//! A program of the user that asks the supervisor for nothing but what is refused: it is heard so often and no more, and runs go on.

mod absent;
mod pages;

use crate::attack::Attack;
use crate::lab::{Lab, inside, until};
use crate::one_supervisor::{end, run, supervisor};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::control::{Descriptor, Reply, Request, receive, send};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Clients of the flood at a time.
const CLIENTS: usize = 8;
/// How long it lasts.
const LASTS: Duration = Duration::from_secs(3);
/// Refusals a second, and before it begins to count: see `supervisor::refusals`. An accepted client may have one more under way.
const RATE: f64 = 200.0;
const BURST: f64 = 64.0 + 2.0 * CLIENTS as f64;

/// The supervisor's socket.
fn socket(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let is_socket = entry.file_name().as_encoded_bytes().starts_with(b"socket-");
        if is_socket { Some(entry.path()) } else { socket(&entry.path()) }
    })
}

/// One client: it names a run whose descriptors are ends of pipes, ready for ever. Whether it was refused by word.
fn is_refused(address: &SocketAddrUnix) -> bool {
    let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None) else {
        return false;
    };
    let descriptors = vec![Descriptor::SeccompListener, Descriptor::Outstanding, Descriptor::Duty];
    let request = Request::Run { command: vec!["bogus".into()], via: "seccomp".into(), pid: 1, descriptors };
    let bogus = std::io::pipe().unwrap().0;
    connect(&socket, address).is_ok()
        && send(&socket, &request, &[bogus.as_fd(); 3], SendFlags::NOSIGNAL).is_ok()
        && matches!(receive::<Reply>(&socket, RecvFlags::empty()), Ok((Reply::Refused(_), _)))
}

inside!(bogus_descriptors_are_refused_at_a_bounded_rate_and_runs_go_on, || {
    let lab = Lab::new();
    let first = run(&lab, &["true"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let path = socket(&lab.scratch.path("run")).expect("the supervisor has a socket");
    let address = SocketAddrUnix::new(&path).unwrap();
    let (over, refused, clock) = (AtomicBool::new(false), AtomicU64::new(0), Clock::new());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    refused.fetch_add(u64::from(is_refused(&address)), Ordering::Relaxed);
                }
            });
        }
        until("the flood has begun", || refused.load(Ordering::Relaxed) > 10);
        let beside = run(&lab, &["true"]);
        assert_eq!(beside.code, Some(0), "{beside:?}");
        while clock.now().since(Instant::ZERO) < LASTS {
            clock.sleep(Duration::from_millis(50));
        }
        over.store(true, Ordering::Relaxed);
    });
    let lasted = clock.now().since(Instant::ZERO).as_secs_f64();
    let row = Attack { attack: "bogus descriptors, again and again", listener: "supervisor" };
    row.at_most("refusals", BURST + RATE * lasted, refused.load(Ordering::Relaxed) as f64);
    end(supervisor());
});

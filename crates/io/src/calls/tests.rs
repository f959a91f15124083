//! Threads of this process under a filter, which alone their calls are trapped by.

use super::*;
use crate::sys::absent::{connect, unanswered};
use crate::sys::seccomp::{Kind, Trap};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

/// Port 1 is the kernel's own business.
#[derive(Debug)]
struct ButPortOne;

impl Sieve for ButPortOne {
    fn lets_go(&self, _: &Notification, address: &[u8]) -> bool {
        address[2..4] == 1u16.to_be_bytes()
    }
}

/// A `sockaddr_in` of loopback.
fn loopback(port: u16) -> [u8; 16] {
    let mut address = [0; 16];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    address
}

/// A thread under a filter, which does `work`, and its calls; none where there is no such filter.
fn under_a_filter<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<(JoinHandle<T>, Calls)> {
    let (trap, (sprung, is_sprung)) = (Trap::new().unwrap(), channel());
    let trap = Arc::new(trap);
    let own = Arc::clone(&trap);
    let (begin, begins) = channel::<()>();
    let thread = thread::spawn(move || {
        own.spring().unwrap();
        drop(own);
        sprung.send(()).unwrap();
        begins.recv().unwrap();
        work()
    });
    is_sprung.recv().unwrap();
    let listener = match Arc::into_inner(trap).unwrap().listener() {
        Ok(listener) => listener,
        Err(e) => {
            eprintln!("skipped: {e}");
            return None;
        }
    };
    let calls = Calls::new(listener, Outstanding::new().unwrap(), Arc::new(ButPortOne)).unwrap();
    begin.send(()).unwrap();
    Some((thread, calls))
}

/// Waits for what comes next.
fn next(calls: &mut Calls) -> Next {
    loop {
        poll(&mut [PollFd::new(&calls, PollFlags::IN)], None).unwrap();
        match calls.next() {
            Next::Nothing => {}
            next => return next,
        }
    }
}

fn next_call(calls: &mut Calls) -> Received {
    match next(calls) {
        Next::Call(received) => received,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_sieve_lets_go_is_the_kernels_and_the_rest_is_answered_here() {
    let work = || [1, 2, 3].map(|port| connect(loopback(port).as_ptr() as usize));
    let Some((thread, mut calls)) = under_a_filter(work) else { return };
    let Received { call, address } = next_call(&mut calls);
    assert_eq!((call.kind, address.unwrap()), (Kind::Connect, loopback(2).to_vec()));
    calls.answer(call.id, Err(libc::ECONNREFUSED));
    let Received { call, address } = next_call(&mut calls);
    assert_eq!(address.unwrap(), loopback(3));
    calls.resume(call.id);
    assert_eq!(thread.join().unwrap(), [0, libc::ECONNREFUSED, 0]);
    assert!(matches!(next(&mut calls), Next::Over));
    assert_eq!(calls.unanswered(), 0);
}

#[test]
fn calls_that_nobody_has_taken_are_the_kernels_at_the_end() {
    let Some((thread, calls)) = under_a_filter(|| connect(loopback(2).as_ptr() as usize)) else { return };
    poll(&mut [PollFd::new(&calls, PollFlags::IN)], None).unwrap();
    drop(calls);
    assert_eq!(thread.join().unwrap(), 0);
}

#[test]
fn pages_that_never_come_keep_no_other_call_waiting() {
    let Some((page, pages)) = unanswered() else { return eprintln!("skipped: no userfaultfd for this user") };
    const MANY: usize = MOST_BLOCKED + 2;
    let (go_on, goes_on) = channel::<()>();
    let work = move || {
        let stuck = (0..MANY).map(|_| {
            goes_on.recv().unwrap();
            let stuck = thread::spawn(move || connect(page));
            goes_on.recv().unwrap();
            assert_eq!(connect(loopback(2).as_ptr() as usize), libc::ECONNREFUSED);
            stuck
        });
        let stuck: Vec<_> = stuck.collect();
        stuck.into_iter().for_each(|stuck| _ = stuck.join().unwrap());
    };
    let Some((thread, mut calls)) = under_a_filter(work) else { return };
    for _ in 0..MANY {
        go_on.send(()).unwrap();
        let Received { call, address } = next_call(&mut calls);
        assert_eq!(address.unwrap_err().kind(), io::ErrorKind::TimedOut);
        calls.resume(call.id);
        go_on.send(()).unwrap();
        let Received { call, address } = next_call(&mut calls);
        assert_eq!(address.unwrap(), loopback(2));
        calls.answer(call.id, Err(libc::ECONNREFUSED));
    }
    assert_eq!(calls.shared.state().blocked, MOST_BLOCKED);
    // The program fetches it, or ends: what was blocked comes back.
    drop(pages);
    thread.join().unwrap();
    while calls.shared.state().blocked > 0 {
        thread::yield_now();
    }
    assert!(matches!(next(&mut calls), Next::Over));
}

#[test]
fn what_is_being_read_at_the_end_is_the_kernels_too() {
    let Some((page, pages)) = unanswered() else { return eprintln!("skipped: no userfaultfd for this user") };
    let Some((thread, calls)) = under_a_filter(move || connect(page)) else { return };
    while calls.shared.state().reading.is_none() {
        thread::yield_now();
    }
    drop(calls);
    drop(pages);
    thread.join().unwrap();
}

#[test]
fn a_thread_that_the_machine_lets_wait_is_waited_for_and_one_that_is_blocked_is_not() {
    let none = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let mut calls = Calls::new(none.into(), Outstanding::new().unwrap(), Arc::new(Closed)).unwrap();
    let call = Notification { id: 7, thread: 0, kind: Kind::Connect, number: 3, address: (0, 16) };
    let own = || rustix::thread::gettid().as_raw_nonzero().get();
    let mut since = |ago: Duration, thread: i32| {
        let clock = calls.shared.clock;
        let since = clock.now();
        clock.sleep(ago);
        calls.shared.state().reading = Some((call, since, thread));
        calls.shared.set_alarm(Duration::from_nanos(1));
        poll(&mut [PollFd::new(&calls, PollFlags::IN)], None).unwrap();
        calls.next()
    };
    assert!(matches!(since(PATIENCE, own()), Next::Nothing), "it runs: this one");
    let (tell, told) = channel();
    let (end, ends) = channel::<()>();
    let blocked = thread::spawn(move || {
        tell.send(own()).unwrap();
        ends.recv().unwrap();
    });
    let other = told.recv().unwrap();
    while process::may_run(other) {
        thread::yield_now();
    }
    assert!(matches!(since(PATIENCE / 2, other), Next::Nothing), "not for long yet");
    let Next::Call(Received { call, address }) = since(PATIENCE, other) else { panic!("is it waited for still?") };
    assert_eq!((call.id, address.unwrap_err().kind()), (7, io::ErrorKind::TimedOut));
    assert!(matches!(since(LONGEST, own()), Next::Call(_)), "not for ever");
    end.send(()).unwrap();
    blocked.join().unwrap();
}

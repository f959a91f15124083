//! `libheadstart.so`: the shim of paper 1 (section III-A), preloaded between a program and its C library.
//!
//! It wraps getaddrinfo and connect, and, to keep its bookkeeping right, socket, setsockopt, epoll_ctl, dup*, fcntl and
//! shutdown. Names and connections live in the supervisor; this library asks it over a socket that is opened and closed for
//! each question, so that a program may fork, close all descriptors and exec as it likes. No threads, no runtime, no state
//! but a page of marks and the questions under way. Whatever it does not understand, and whatever fails, becomes the call
//! that the program made: a panic stops at the edge, a supervisor that is gone is not missed.
#![warn(unsafe_op_in_unsafe_fn)]

mod answers;
mod ask;
mod connect;
mod marks;
mod options;
mod original;
mod session;
mod start;
// Elsewhere the library is linked with libgcc_s, as usual.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
mod unwind;
mod waits;

use connect::{Begun, Served};
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

// The wrappers of calls at which a thread may be cancelled are "C-unwind": pthread_cancel(3) unwinds the stack through
// them while they wait in the C library's own function, with nothing of ours on it.

/// Runs `f`, which does not wait, and takes a panic for "not accelerated". A cancellation of the thread has to wait until it is done.
fn guarded<T>(f: impl FnOnce() -> Option<T>) -> Option<T> {
    let before = original::set_cancellation(original::CANCEL_DISABLE);
    let result = catch_unwind(AssertUnwindSafe(f)).ok().flatten();
    original::set_cancellation(before);
    result
}

/// getaddrinfo(3): answered by the supervisor's cache and race, else by the C library.
///
/// # Safety
/// As getaddrinfo(3): `node` and `service` null or C strings, `hints` null or valid, `res` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    res: *mut *mut libc::addrinfo,
) -> c_int {
    let errno = original::errno();
    // SAFETY: the caller keeps the contract of getaddrinfo(3), which is that of `answers::ask`.
    let asked = guarded(|| unsafe { answers::ask(node, service, hints, res, (&raw const errno).addr()) });
    if let Some(question) = asked {
        let came = waits::until_answered(question);
        // SAFETY: as above.
        if let Some(code) = guarded(|| unsafe { answers::take(question, came, service, hints, res) }) {
            return code;
        }
    }
    original::set_errno(errno);
    // SAFETY: the caller's own arguments, unchanged.
    unsafe { original::getaddrinfo(node, service, hints, res) }
}

/// connect(2): the supervisor's connection in place of the program's socket, else the kernel's connect.
///
/// # Safety
/// As connect(2): `addr` valid for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(fd: c_int, addr: *const libc::sockaddr, len: libc::socklen_t) -> c_int {
    let errno = original::errno();
    // SAFETY: the caller keeps the contract of connect(2), which is that of `connect::begin`.
    let served = match guarded(|| unsafe { connect::begin(fd, addr, len, (&raw const errno).addr()) }) {
        Some(Begun::Trapped) => {
            original::set_errno(errno);
            // SAFETY: the caller's own arguments, unchanged.
            return repeated(|| unsafe { original::connect(fd, addr, len) });
        }
        Some(Begun::Asked(question)) => {
            let came = waits::until_answered(question);
            // SAFETY: as above.
            guarded(|| unsafe { connect::finish(question, came, addr, len) })
        }
        None => None,
    };
    match served {
        Some(Served::Connected) => {
            original::set_errno(errno);
            0
        }
        Some(Served::Failed(code)) => {
            original::set_errno(code);
            -1
        }
        Some(Served::Declined) => {
            original::set_errno(errno);
            // SAFETY: a connect that was asked about has a valid address of `len` bytes.
            let (copy, len) = unsafe { connect::declined(addr, len) };
            // SAFETY: the copy is longer than `len`.
            unsafe { original::connect(fd, copy.as_ptr().cast(), len) }
        }
        None => {
            original::set_errno(errno);
            // SAFETY: the caller's own arguments, unchanged.
            unsafe { original::connect(fd, addr, len) }
        }
    }
}

/// Makes a call that says EINTR only if a signal came before the supervisor was notified of it: nothing has happened yet.
fn repeated(call: impl Fn() -> c_int) -> c_int {
    loop {
        let result = call();
        if result != -1 || original::errno() != libc::EINTR {
            return result;
        }
    }
}

/// getsockopt(2): a look at SO_ERROR may be trapped, and must not be interrupted for it.
///
/// # Safety
/// As getsockopt(2): `value` and `len` valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's own arguments, unchanged.
    repeated(|| unsafe { original::getsockopt(fd, level, name, value, len) })
}

/// getpeername(2), as getsockopt(2).
///
/// # Safety
/// As getpeername(2): `addr` and `len` valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, addr: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int {
    // SAFETY: the caller's own arguments, unchanged.
    repeated(|| unsafe { original::getpeername(fd, addr, len) })
}

/// socket(2): a new socket, which nothing else holds and on which nothing has been set.
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let fd = original::socket(domain, kind, protocol);
    marks::is_new(fd);
    if fd >= 0 {
        marks::touched(fd);
        // The type is in the low four bits, flags are above (net.h: SOCK_TYPE_MASK).
        let stream = matches!(domain, libc::AF_INET | libc::AF_INET6) && kind & 0xf == libc::SOCK_STREAM;
        if stream && matches!(protocol, 0 | libc::IPPROTO_TCP) {
            let errno = original::errno();
            let cookie = guarded(|| session::current().and_then(|_| options::cookie(fd)));
            original::set_errno(errno);
            marks::untouched(fd, cookie.unwrap_or(0));
        }
    }
    fd
}

/// setsockopt(2): the socket has to be looked at closely before it is exchanged.
///
/// # Safety
/// As setsockopt(2): `value` valid for `len` bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    marks::touched(fd);
    // SAFETY: the caller's own arguments, unchanged.
    unsafe { original::setsockopt(fd, level, name, value, len) }
}

/// epoll_ctl(2): a descriptor that is watched before it connects must keep its file (epoll watches files).
///
/// # Safety
/// As epoll_ctl(2): `event` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int {
    // One that is taken out of the set again may be in another.
    if op == libc::EPOLL_CTL_ADD {
        marks::is_shared(fd);
    }
    // SAFETY: the caller's own arguments, unchanged.
    unsafe { original::epoll_ctl(epfd, op, fd, event) }
}

/// shutdown(2): a connect of another thread that waits for the supervisor ends, as one that waits in the kernel does.
#[unsafe(no_mangle)]
pub extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let is_cut = matches!(how, libc::SHUT_RD..=libc::SHUT_RDWR) && waits::cut(fd);
    // What has left its wait by a jump may be another socket by now, which is connected.
    if is_cut && !options::is_connected(fd) { 0 } else { original::shutdown(fd, how) }
}

/// dup(2): both descriptors name one file now, and exchanging one would part them.
#[unsafe(no_mangle)]
pub extern "C" fn dup(fd: c_int) -> c_int {
    shared(fd, original::dup(fd))
}

/// dup2(2), as dup(2).
#[unsafe(no_mangle)]
pub extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    shared(fd, original::dup2(fd, to))
}

/// dup3(2), as dup(2).
#[unsafe(no_mangle)]
pub extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    shared(fd, original::dup3(fd, to, flags))
}

/// fcntl(2), for F_DUPFD: as dup(2). Variadic in C: the third argument, if there is one, is an int or a pointer, which
/// every calling convention that we are built for passes as if it had been declared; if there is none, what is passed on
/// is as arbitrary as what the C library would have read.
///
/// # Safety
/// As fcntl(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the caller's own arguments, unchanged.
    unsafe { control(fd, command, argument) }
}

/// fcntl(2) under the name that programs with 64-bit file offsets call it by.
///
/// # Safety
/// As fcntl(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the caller's own arguments, unchanged.
    unsafe { control(fd, command, argument) }
}

/// What both names do. Neither may call the other: in a run within a run there are two copies of this library, and a call by name
/// leads to the first, whose next is the second, which would call the first again.
///
/// # Safety
/// As fcntl(2).
unsafe fn control(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the caller's own arguments, unchanged.
    let result = unsafe { original::fcntl(fd, command, argument) };
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) { shared(fd, result) } else { result }
}

/// sendmsg(2): descriptors that go with the message will be another process' too, and exchanging one would part them.
///
/// # Safety
/// As sendmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's own arguments, unchanged.
    let sent = unsafe { original::sendmsg(fd, message, flags) };
    // SAFETY: the kernel has read it, so that it is one: a pointer to nothing is an error of the call, as without us.
    if sent >= 0 && unsafe { (*message).msg_controllen } > 0 {
        marks::all_are_shared();
    }
    sent
}

/// sendmmsg(2), as sendmsg(2).
///
/// # Safety
/// As sendmmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut libc::mmsghdr,
    count: libc::c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's own arguments, unchanged.
    let sent = unsafe { original::sendmmsg(fd, messages, count, flags) };
    // SAFETY: as for sendmsg: the kernel has read these.
    let has_more = |n: usize| unsafe { (*messages.add(n)).msg_hdr.msg_controllen } > 0;
    if (0..usize::try_from(sent).unwrap_or(0)).any(has_more) {
        marks::all_are_shared();
    }
    sent
}

/// posix_spawn(3): the new process holds the files of this one too. The C library makes it without the handlers of fork.
///
/// # Safety
/// As posix_spawn(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    words: *const *mut c_char,
    variables: *const *mut c_char,
) -> c_int {
    marks::all_are_shared();
    // SAFETY: the caller's own arguments, unchanged.
    unsafe { original::spawn(false, (pid, file, actions, attributes, words, variables)) }
}

/// posix_spawnp(3), as posix_spawn(3).
///
/// # Safety
/// As posix_spawnp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    words: *const *mut c_char,
    variables: *const *mut c_char,
) -> c_int {
    marks::all_are_shared();
    // SAFETY: the caller's own arguments, unchanged.
    unsafe { original::spawn(true, (pid, file, actions, attributes, words, variables)) }
}

/// vfork(2), as posix_spawn(3): the child holds the files too until it executes a program. It returns twice on one stack, so that no
/// frame of ours may be left on it: on to the C library's, as if that had been called.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vfork() -> libc::pid_t {
    extern "C-unwind" fn prepare() -> *mut c_void {
        marks::all_are_shared();
        original::vfork()
    }
    std::arch::naked_asm!("sub rsp, 8", "call {}", "add rsp, 8", "jmp rax", sym prepare)
}

fn shared(one: c_int, other: c_int) -> c_int {
    if other >= 0 && one != other {
        marks::is_shared(one);
        marks::is_shared(other);
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_none_is_an_error_of_the_call_and_not_the_end_of_the_program() {
        for pointer in [0usize, 8] {
            // SAFETY: the kernel refuses a header that it cannot read, and nothing else reads it.
            let sent = unsafe { sendmsg(0, pointer as *const libc::msghdr, 0) };
            // SAFETY: as above.
            let many = unsafe { sendmmsg(0, pointer as *mut libc::mmsghdr, 2, 0) };
            assert_eq!((sent, many), (-1, -1));
        }
    }
}

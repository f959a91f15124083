//! The functions that ours stand before, found by dlsym(RTLD_NEXT), and errno.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the next library in line.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; looked up at first use, since other libraries' constructors may call us before ours has run.
    fn get(&self) -> Option<*mut c_void> {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return Some(known);
        }
        let found = next(self.name)?;
        self.found.store(found, Ordering::Relaxed);
        Some(found)
    }
}

static GETADDRINFO: Next = Next::new(c"getaddrinfo");
static CONNECT: Next = Next::new(c"connect");
/// Under both names: the GNU C library has the first, others have only the second.
static FCNTL: [Next; 2] = [Next::new(c"fcntl64"), Next::new(c"fcntl")];
static SENDMSG: Next = Next::new(c"sendmsg");
static SENDMMSG: Next = Next::new(c"sendmmsg");
static SPAWN: Next = Next::new(c"posix_spawn");
static SPAWNP: Next = Next::new(c"posix_spawnp");

/// Finds the originals ahead of time.
pub(crate) fn find() {
    let _ = (GETADDRINFO.get(), CONNECT.get(), FCNTL[0].get());
}

/// The C library's getaddrinfo.
///
/// # Safety
/// As getaddrinfo(3).
pub(crate) unsafe fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    res: *mut *mut libc::addrinfo,
) -> c_int {
    type F = unsafe extern "C-unwind" fn(
        *const c_char,
        *const c_char,
        *const libc::addrinfo,
        *mut *mut libc::addrinfo,
    ) -> c_int;
    let Some(found) = GETADDRINFO.get() else { return libc::EAI_FAIL };
    // SAFETY: the symbol getaddrinfo has this type in every C library.
    let next = unsafe { std::mem::transmute::<*mut c_void, F>(found) };
    // SAFETY: the caller keeps the contract.
    unsafe { next(node, service, hints, res) }
}

/// The C library's connect (a cancellation point, so not merely the system call).
///
/// # Safety
/// As connect(2).
pub(crate) unsafe fn connect(fd: c_int, addr: *const libc::sockaddr, len: libc::socklen_t) -> c_int {
    type F = unsafe extern "C-unwind" fn(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int;
    let Some(found) = CONNECT.get() else {
        // SAFETY: the caller keeps the contract of connect(2).
        return unsafe { libc::syscall(libc::SYS_connect, fd, addr, len) as c_int };
    };
    // SAFETY: the symbol connect has this type in every C library.
    let next = unsafe { std::mem::transmute::<*mut c_void, F>(found) };
    // SAFETY: the caller keeps the contract.
    unsafe { next(fd, addr, len) }
}

/// The C library's fcntl (a cancellation point for some commands).
///
/// # Safety
/// As fcntl(2).
pub(crate) unsafe fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    type F = unsafe extern "C-unwind" fn(c_int, c_int, ...) -> c_int;
    let Some(found) = FCNTL.iter().find_map(Next::get) else {
        // SAFETY: the caller keeps the contract of fcntl(2).
        return unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) as c_int };
    };
    // SAFETY: both symbols have this type in every C library, on machines of 64 bits as on others.
    let next = unsafe { std::mem::transmute::<*mut c_void, F>(found) };
    // SAFETY: the caller keeps the contract.
    unsafe { next(fd, command, argument) }
}

/// The C library's sendmsg (a cancellation point).
///
/// # Safety
/// As sendmsg(2).
pub(crate) unsafe fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    type F = unsafe extern "C-unwind" fn(c_int, *const libc::msghdr, c_int) -> isize;
    let Some(found) = SENDMSG.get() else {
        // SAFETY: the caller keeps the contract of sendmsg(2).
        return unsafe { libc::syscall(libc::SYS_sendmsg, fd, message, flags) as isize };
    };
    // SAFETY: the symbol sendmsg has this type in every C library.
    let next = unsafe { std::mem::transmute::<*mut c_void, F>(found) };
    // SAFETY: the caller keeps the contract.
    unsafe { next(fd, message, flags) }
}

/// The C library's sendmmsg (a cancellation point).
///
/// # Safety
/// As sendmmsg(2).
pub(crate) unsafe fn sendmmsg(fd: c_int, messages: *mut libc::mmsghdr, count: libc::c_uint, flags: c_int) -> c_int {
    type F = unsafe extern "C-unwind" fn(c_int, *mut libc::mmsghdr, libc::c_uint, c_int) -> c_int;
    let Some(found) = SENDMMSG.get() else {
        // SAFETY: the caller keeps the contract of sendmmsg(2).
        return unsafe { libc::syscall(libc::SYS_sendmmsg, fd, messages, count, flags) as c_int };
    };
    // SAFETY: the symbol sendmmsg has this type in every C library.
    let next = unsafe { std::mem::transmute::<*mut c_void, F>(found) };
    // SAFETY: the caller keeps the contract.
    unsafe { next(fd, messages, count, flags) }
}

/// Where the C library's vfork is; its fork, which does for vfork too, should it have none.
#[cfg(target_arch = "x86_64")]
pub(crate) fn vfork() -> *mut c_void {
    static VFORK: Next = Next::new(c"vfork");
    VFORK.get().unwrap_or(libc::fork as *mut c_void)
}

/// The arguments of posix_spawn(3) and posix_spawnp(3).
pub(crate) type Spawn = (
    *mut libc::pid_t,
    *const c_char,
    *const libc::posix_spawn_file_actions_t,
    *const libc::posix_spawnattr_t,
    *const *mut c_char,
    *const *mut c_char,
);

/// The C library's posix_spawn, or posix_spawnp if the program is to be looked for along PATH.
///
/// # Safety
/// As posix_spawn(3).
pub(crate) unsafe fn spawn(along_path: bool, arguments: Spawn) -> c_int {
    type F = unsafe extern "C" fn(
        *mut libc::pid_t,
        *const c_char,
        *const libc::posix_spawn_file_actions_t,
        *const libc::posix_spawnattr_t,
        *const *mut c_char,
        *const *mut c_char,
    ) -> c_int;
    let Some(found) = (if along_path { &SPAWNP } else { &SPAWN }).get() else { return libc::ENOSYS };
    // SAFETY: both symbols have this type in every C library.
    let next = unsafe { std::mem::transmute::<*mut c_void, F>(found) };
    let (pid, file, actions, attributes, words, variables) = arguments;
    // SAFETY: the caller keeps the contract.
    unsafe { next(pid, file, actions, attributes, words, variables) }
}

/// The next library's function of that name, if there is one.
fn next(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: `name` is a C string; RTLD_NEXT is a valid handle.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Whether the C library of this program is the GNU C library.
pub(crate) fn is_of_gnu() -> bool {
    next(c"gnu_get_libc_version").is_some()
}

/// Has `parent` and `child` called after a fork, each where it says. pthread_atfork(3) in the words of the GNU C library: as it has
/// them, they would be a symbol without which no other C library loads us.
pub(crate) fn at_fork(parent: unsafe extern "C" fn(), child: unsafe extern "C" fn()) {
    type Handler = Option<unsafe extern "C" fn()>;
    type F = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;
    let Some(found) = next(c"__register_atfork") else { return };
    // SAFETY: the symbol __register_atfork has this type in the GNU C library.
    let register = unsafe { std::mem::transmute::<*mut c_void, F>(found) };
    // SAFETY: this library is never unloaded, so that it needs no handle by which the handlers would go with it.
    unsafe { register(None, Some(parent), Some(child), std::ptr::null_mut()) };
}

/// Asks that a cancellation of this thread wait (`PTHREAD_CANCEL_DISABLE` of pthread.h).
pub(crate) const CANCEL_DISABLE: c_int = 1;

/// Whether this thread may be cancelled from now on; what was before.
pub(crate) fn set_cancellation(state: c_int) -> c_int {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    }
    let mut old = 0;
    // SAFETY: `old` is valid for a write; no cancellation is acted upon in here.
    unsafe { pthread_setcancelstate(state, &mut old) };
    old
}

// The rest are plain system calls in every C library; nothing is to be gained by asking for the next in line.

pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int }
}

/// # Safety
/// As getsockopt(2).
pub(crate) unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the caller keeps the contract.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int }
}

/// # Safety
/// As getpeername(2).
pub(crate) unsafe fn getpeername(fd: c_int, addr: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int {
    // SAFETY: the caller keeps the contract.
    unsafe { libc::syscall(libc::SYS_getpeername, fd, addr, len) as c_int }
}

/// # Safety
/// As setsockopt(2).
pub(crate) unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    // SAFETY: the caller keeps the contract.
    unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, len) as c_int }
}

/// # Safety
/// As epoll_ctl(2).
pub(crate) unsafe fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int {
    // SAFETY: the caller keeps the contract.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, epfd, op, fd, event) as c_int }
}

pub(crate) fn shutdown(fd: c_int, how: c_int) -> c_int {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_shutdown, fd, how) as c_int }
}

/// Waits until there is a message on `fd`, or its end, and leaves it there. A cancellation point, and left by signal handlers as
/// they like: by the C library's own function, which unwinds as C does.
pub(crate) fn peek(fd: c_int) -> isize {
    unsafe extern "C-unwind" {
        fn recv(fd: c_int, bytes: *mut c_void, len: usize, flags: c_int) -> isize;
    }
    let mut byte = 0u8;
    // SAFETY: valid for a write of one byte.
    unsafe { recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK) }
}

/// Whether this is a signal handler on a stack of its own (sigaltstack(2)).
pub(crate) fn is_on_signal_stack() -> bool {
    // SAFETY: `stack_t` is plain data; all zeroes is a valid value.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and `stack` is valid for a write.
    let known = unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) } == 0;
    known && stack.ss_flags & libc::SS_ONSTACK != 0
}

pub(crate) fn dup(fd: c_int) -> c_int {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_dup, fd) as c_int }
}

pub(crate) fn dup2(fd: c_int, to: c_int) -> c_int {
    if fd == to {
        // dup3 refuses what dup2 answers with the descriptor itself, if it is open.
        // SAFETY: no pointers.
        return if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 { -1 } else { to };
    }
    dup3(fd, to, 0)
}

pub(crate) fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_dup3, fd, to, flags) as c_int }
}

/// errno of this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library's errno of this thread is always valid.
    unsafe { *libc::__errno_location() }
}

/// Sets errno of this thread.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

//! What happens once, when the library is loaded: find the originals, the supervisor's folder and the shared filter.
//! A few tens of microseconds; without HEADSTART_DIR, or with HEADSTART=off, nothing at all.

use crate::session::{self, Session};
use crate::{marks, original, waits};
use headstart_core::wire::shim::{MAPPED_BYTES, MAX_APP, MOUNTS_AT};
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Programs that start others in a view of the file system where this library most likely is not. There the loader would say so
/// on their standard error; what they start is reached by its system calls.
const SANDBOXES: [&str; 7] = ["bwrap", "chroot", "crun", "firejail", "proot", "runc", "systemd-nspawn"];

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let errno = original::errno();
    crate::guarded(|| {
        original::find();
        let session = open();
        if session.is_some() {
            // A panic of ours is not the program's business.
            std::panic::set_hook(Box::new(|_| {}));
            original::at_fork(marks::all_are_shared, forked);
            waits::prepare();
        }
        session::set(session)
    });
    original::set_errno(errno);
}

/// In a child: it holds every file of its parent too, and has none of its threads.
extern "C" fn forked() {
    marks::all_are_shared();
    waits::forget_other_threads();
}

fn variable(name: &CStr) -> Option<&'static OsStr> {
    // SAFETY: `name` is a C string; constructors run before any thread could change the environment.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv returns a C string; it is read before the program gets to run.
    Some(OsStr::from_bytes(unsafe { CStr::from_ptr(value) }.to_bytes()))
}

fn open() -> Option<Session> {
    // Programs of another C library load us where one of the GNU C library starts them, and are left alone.
    if variable(c"HEADSTART").is_some_and(|v| v == "off") || !original::is_of_gnu() {
        return None;
    }
    let app = app_name();
    if SANDBOXES.contains(&&*app) {
        take_out_of_the_environment();
    }
    let dir = variable(c"HEADSTART_DIR")?;
    let path = |name: &str| [dir.as_bytes(), b"/", name.as_bytes(), b"\0"].concat();
    let mapped = map(&path("filter"), MAPPED_BYTES)?;
    // The mapping tells the run that a program is left.
    map(&path("used"), 0);
    // SAFETY: the mapping is MAPPED_BYTES long, is never unmapped, and its file is never shortened: the supervisor makes it
    // at its full size and only ever sets bits. Atomics are for another process writing meanwhile.
    let mapped = unsafe { std::slice::from_raw_parts(mapped.cast::<AtomicU8>(), MAPPED_BYTES) };
    let sees_other_files = mounts().is_none_or(|mounts| mounts != told_mounts(mapped));
    Some(Session { socket: path("socket"), app, sees_other_files, is_told_how: OnceLock::new(), mapped })
}

/// The mount namespace of this process. A program that changes it by itself later is asked about as before.
fn mounts() -> Option<u64> {
    // SAFETY: `stat` is plain data; all zeroes is a valid value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a C string, and a place that is valid for a write.
    let found = unsafe { libc::stat(c"/proc/self/ns/mnt".as_ptr(), &mut stat) } == 0;
    found.then_some(stat.st_ino)
}

/// The one that the supervisor looks names up in.
fn told_mounts(mapped: &[AtomicU8]) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| mapped[MOUNTS_AT + i].load(Ordering::Relaxed)))
}

/// Takes this library out of LD_PRELOAD for the programs that this one starts; others stay in it.
fn take_out_of_the_environment() {
    let Some(value) = variable(c"LD_PRELOAD") else { return };
    let is_ours = |path: &&[u8]| path.rsplit(|b| *b == b'/').next().is_some_and(|f| f.starts_with(b"libheadstart"));
    let others: Vec<&[u8]> = value.as_bytes().split(|b| b": ".contains(b)).filter(|path| !is_ours(path)).collect();
    let Ok(others) = CString::new(others.join(&b':')) else { return };
    if others.is_empty() {
        // SAFETY: a C string; constructors run before any thread could read the environment.
        unsafe { libc::unsetenv(c"LD_PRELOAD".as_ptr()) };
    } else {
        // SAFETY: as above.
        unsafe { libc::setenv(c"LD_PRELOAD".as_ptr(), others.as_ptr(), 1) };
    }
}

fn app_name() -> String {
    let file = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let mut name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    while name.len() > MAX_APP {
        name.pop();
    }
    name
}

/// Maps a file of the run that has `bytes`, read-only; it stays mapped for the life of the process.
fn map(path: &[u8], bytes: usize) -> Option<*const c_void> {
    // SAFETY: `path` ends with a zero.
    let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    // SAFETY: `stat` is plain data; all zeroes is a valid value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `fd` is open and `stat` is valid for a write.
    let whole = unsafe { libc::fstat(fd, &mut stat) } == 0 && stat.st_size == bytes as libc::off_t;
    let mapped = if whole {
        // SAFETY: a new mapping at an address of the kernel's choice, of a page at least.
        unsafe { libc::mmap(std::ptr::null_mut(), bytes.max(1), libc::PROT_READ, libc::MAP_SHARED, fd, 0) }
    } else {
        libc::MAP_FAILED
    };
    // SAFETY: `fd` is ours.
    unsafe { libc::close(fd) };
    (mapped != libc::MAP_FAILED).then_some(mapped.cast_const())
}

//! Scheduling of the calling thread: real-time priority and timer slack.
//!
//! Never touches another thread or process.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

/// Puts the calling thread under SCHED_FIFO with `priority` (1 lowest, 99 highest). Threads that it starts do not
/// inherit it. Fails with EPERM where the user has no right to real-time priorities.
pub fn real_time(priority: i32) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` outlives the call; pid 0 is the calling thread.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks for short turns of the processor for the calling thread, an ordinary one: Linux 6.12 and later then run it sooner
/// when it wakes. Older kernels accept and ignore it. No right is needed; the kernel keeps `slice` within 0.1 to 100 ms.
pub fn short_turns(slice: Duration) -> io::Result<()> {
    /// `struct sched_attr` of linux/sched/types.h, in its first version.
    #[repr(C)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice: niceness(),
        priority: 0,
        runtime: u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX),
        deadline: 0,
        period: 0,
    };
    // SAFETY: `attr` outlives the call and holds its own size; pid 0 is the calling thread.
    let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks for timers of the calling thread to fire within a nanosecond instead of the usual 50 us of slack.
pub fn precise_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// The niceness that the calling thread has already: lowering it needs a right, keeping it does not.
fn niceness() -> i32 {
    // SAFETY: no pointers; "process" 0 is the calling thread. An error, -1, cannot be told from a niceness, and none of
    // the documented ones can happen to the caller itself.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

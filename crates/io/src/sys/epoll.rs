//! Registrations in other processes' epoll sets, under the descriptor numbers that those processes use.
//!
//! An epoll set keys its members by file *and* number (epoll(7)). To add a member that a program can later change and
//! remove, the same file must stand under the same number in the table of the thread that adds it: here a thread that takes a
//! table of its own for the purpose, so that nothing of ours is in the way.

use super::process::own_descriptors;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A membership in an epoll set.
#[derive(Debug)]
pub struct Membership {
    /// The set.
    pub set: OwnedFd,
    /// What it listens for, flags included (EPOLLET and so on).
    pub events: u32,
    /// What its owner gets with an event.
    pub data: u64,
}

/// Makes `socket` a member of these sets under the number `number`.
pub fn join_as(memberships: &[Membership], socket: impl AsFd, number: RawFd) -> io::Result<()> {
    let socket = socket.as_fd();
    std::thread::scope(|scope| {
        let joining = std::thread::Builder::new().spawn_scoped(scope, || {
            own_descriptors()?;
            // Out of the way of the number, one after the other.
            let socket = duplicate_above(socket, number)?;
            let sets = memberships.iter().map(|m| duplicate_above(m.set.as_fd(), number));
            let sets = sets.collect::<io::Result<Vec<_>>>()?;
            // SAFETY: closes whatever the number is in this thread's own table, of which nothing is used but the above.
            if unsafe { libc::dup2(socket, number) } != number {
                return Err(io::Error::last_os_error());
            }
            for (set, Membership { events, data, .. }) in sets.into_iter().zip(memberships) {
                let mut event = libc::epoll_event { events: *events, u64: *data };
                // SAFETY: `event` is valid; both descriptors are open in this thread's table.
                if unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, number, &raw mut event) } != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        })?;
        joining.join().unwrap_or_else(|_| Err(io::Error::other("the thread that registers has panicked")))
    })
}

/// Duplicates `fd` to a number above `number`; it lives as long as the calling thread's table.
fn duplicate_above(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<RawFd> {
    // SAFETY: no pointers.
    let new = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, number.saturating_add(1)) };
    if new < 0 { Err(io::Error::last_os_error()) } else { Ok(new) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_member_that_another_table_added_is_heard_changed_and_removed_by_its_number() {
        let set = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let (here, mut there) = UnixStream::pair().unwrap();
        let membership = Membership { set: set.try_clone().unwrap(), events: libc::EPOLLIN as u32, data: 42 };
        join_as(&[membership], &here, here.as_raw_fd()).unwrap();
        there.write_all(b"x").unwrap();
        let mut heard = Vec::with_capacity(1);
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut heard), None).unwrap();
        assert_eq!(heard[0].data.u64(), 42);
        epoll::modify(&set, &here, EventData::new_u64(7), EventFlags::IN).unwrap();
        epoll::delete(&set, &here).unwrap();
    }

    #[test]
    fn a_number_beyond_the_limit_is_an_error() {
        let set = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let (here, _there) = UnixStream::pair().unwrap();
        assert!(join_as(&[Membership { set, events: 1, data: 0 }], &here, i32::MAX).is_err());
    }
}

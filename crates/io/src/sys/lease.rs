//! Leases (fcntl(2), F_SETLEASE): the kernel's own knowledge of whether a file is open or mapped.

use std::io;
use std::os::fd::AsRawFd;

/// Whether the file of `file` is open or mapped elsewhere. A write lease is granted only if it is not; it ends
/// with `file`. An error where leases are not to be had (file systems without them, files of others).
pub fn is_used_elsewhere(file: &std::fs::File) -> io::Result<bool> {
    // SAFETY: no pointers.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } == 0 {
        return Ok(false);
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::EAGAIN) => Ok(true),
        e => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};

    #[test]
    fn a_file_is_used_while_somebody_else_has_it_open() {
        let path = std::env::temp_dir().join(format!("headstart-lease-{}", std::process::id()));
        std::fs::write(&path, "x").unwrap();
        let ours = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let Ok(used) = is_used_elsewhere(&ours()) else {
            eprintln!("skipped: no leases on {}", path.display());
            return std::fs::remove_file(path).unwrap();
        };
        assert!(!used);
        let other = File::open(&path).unwrap();
        assert!(is_used_elsewhere(&ours()).unwrap());
        drop(other);
        assert!(!is_used_elsewhere(&ours()).unwrap());
        std::fs::remove_file(path).unwrap();
    }
}

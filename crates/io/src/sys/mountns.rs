//! Mount namespaces held by a file descriptor: the files that some programs see and others do not. Nothing of them is
//! left behind when their holder dies, whatever kills it.

use rustix::process::chdir;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A mount namespace, kept alive by this handle and by the processes in it.
#[derive(Debug)]
pub struct MountNs {
    file: File,
}

impl MountNs {
    /// Copies the mounts of the calling process; `change` mounts and unmounts in the copy, in a thread of its own. Needs
    /// CAP_SYS_ADMIN in the current user namespace, and mounts that are private (else changes find their way back).
    pub fn copy<E: From<io::Error> + Send>(change: impl FnOnce() -> Result<(), E> + Send) -> Result<Self, E> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("mountns".into()).spawn_scoped(scope, || {
                // SAFETY: only CLONE_NEWNS, never CLONE_FILES: no descriptor changes its meaning.
                unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(io::Error::from)?;
                change()?;
                Ok(Self { file: File::open("/proc/thread-self/ns/mnt")? })
            })?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Makes `command` start in this namespace, in the folder of the same path as where it would have started.
    pub fn adopt(&self, command: &mut Command) -> io::Result<()> {
        let file = self.file.try_clone()?;
        let folder = match command.get_current_dir() {
            Some(folder) => folder.to_owned(),
            None => std::env::current_dir()?,
        };
        let folder = CString::new(folder.into_os_string().into_vec())?;
        let enter = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Mount))?;
            // The kernel has moved the process to the root of the namespace.
            Ok(chdir(&*folder)?)
        };
        // SAFETY: between fork and exec the closure makes two system calls and touches no memory of other threads.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

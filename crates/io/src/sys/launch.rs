//! A program started from a process whose pages are not copied for it (vfork(2)), under a filter if there is to be one.
//!
//! The standard library forks where something is to be done between fork and exec, as setting a filter is: all page tables are
//! copied for a child that drops them at once, and every page that either of them writes to is copied too. Here the child
//! borrows this process' memory until it executes the program, and this process stands still meanwhile, as posix_spawn(3)
//! does it. What the program inherits is what the standard library would hand on.
//!
//! A signal that comes to the child meanwhile runs the handler that this process has, in the memory of this process: one that
//! keeps it for the program ([`super::signal`]) keeps it, wherever it runs.

use super::seccomp::Trap;
use rustix::process::{Pid, WaitOptions, waitpid};
use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::ptr;

/// Variables that name the process that they are for by its number (sd_listen_fds(3), sd_watchdog_enabled(3)). Those that name this process are
/// meant for the program.
const NUMBERED: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];
/// Says the same by the identity of the process, which the program's is not: without it, its number decides.
const BY_IDENTITY: &str = "LISTEN_PIDFDID";
/// Digits of a process id, and the zero that ends them.
const DIGITS: usize = 11;

/// Room on the child's stack for what execvpe(3) puts there, beside paths and a copy of the arguments.
const STACK: usize = 128 * 1024;

/// What is to be started.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The program and its arguments.
    pub words: &'a [OsString],
    /// The file that the program probably is. Should it not be executable, the program is looked for as execvp(3) does.
    pub file: Option<&'a Path>,
    /// Variables to be set, beside those of this process.
    pub variables: &'a [(&'a str, OsString)],
    /// The filter to be set on it, if any.
    pub trap: Option<&'a Trap>,
}

/// A program that was started, a child of this process.
#[derive(Debug)]
pub struct Launched {
    pid: Pid,
}

/// Input and output of the child: all made before it exists, for it must not allocate.
struct Plan<'a> {
    file: *const c_char,
    name: *const c_char,
    words: *const *const c_char,
    variables: *const *const c_char,
    /// Where among the variables its own number belongs, with room for [`DIGITS`].
    numbers: &'a [*mut u8],
    trap: Option<&'a Trap>,
    errno: c_int,
}

impl Launch<'_> {
    /// Starts it. An error says why it could not be executed.
    pub fn start(&self) -> io::Result<Launched> {
        let text = |word: &OsStr| CString::new(word.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput);
        let words = self.words.iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
        let name = words.first().ok_or(io::ErrorKind::InvalidInput)?.as_ptr();
        let file = self.file.map(|file| text(file.as_os_str())).transpose()?;
        let variables = self.environment().map(|word| text(&word)).collect::<Result<Vec<_>, _>>()?;
        let pointers = |list: &[CString]| {
            list.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect::<Vec<*const c_char>>()
        };
        let mut numbered: Vec<_> = self.numbered().map(|name| [name.as_bytes(), b"=", &[0; DIGITS]].concat()).collect();
        let numbered: Vec<_> = numbered.iter_mut().map(|line| line.as_mut_ptr_range()).collect();
        // SAFETY: each line ends with so many bytes.
        let numbers: Vec<_> = numbered.iter().map(|line| unsafe { line.end.sub(DIGITS) }).collect();
        let words = pointers(&words).into_boxed_slice();
        let variables: Box<[_]> =
            numbered.iter().map(|line| line.start.cast_const().cast()).chain(pointers(&variables)).collect();
        let path = std::env::var_os("PATH").map_or(0, |path| path.len());
        let stack = Stack::new(STACK + path + size_of_val(&*words))?;
        let mut plan = Plan {
            file: file.as_ref().map_or(ptr::null(), |file| file.as_ptr()),
            name,
            words: words.as_ptr(),
            variables: variables.as_ptr(),
            numbers: &numbers,
            trap: self.trap,
            errno: 0,
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the child runs `run` on a stack of its own, in our memory, while we stand still until it has executed a program
        // or ended; all that `plan` points to outlives that.
        let pid = unsafe { libc::clone(run, stack.top(), flags, (&raw mut plan).cast()) };
        let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error)?;
        let launched = Launched { pid };
        // SAFETY: as the child has left it, which is gone from here by now.
        match unsafe { ptr::read_volatile(&raw const plan.errno) } {
            0 => Ok(launched),
            errno => {
                let _ = launched.wait();
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    /// The names of variables that are to have the number of the program.
    fn numbered(&self) -> impl Iterator<Item = &'static str> {
        let own = std::process::id().to_string();
        let is_for_us = move |name: &&str| std::env::var_os(name).is_some_and(|value| value == *own);
        NUMBERED.into_iter().filter(is_for_us)
    }

    /// The rest of the environment of the program, as lines.
    fn environment(&self) -> impl Iterator<Item = OsString> {
        let line = |name: &OsStr, value: &OsStr| OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat());
        let mut left_out: Vec<&str> = self.numbered().collect();
        if left_out.contains(&"LISTEN_PID") {
            left_out.push(BY_IDENTITY);
        }
        let kept = std::env::vars_os().filter(move |(name, _)| left_out.iter().all(|other| name != other));
        let kept = kept.filter(|(name, _)| self.variables.iter().all(|(other, _)| name != other));
        let kept = kept.map(move |(name, value)| line(&name, &value));
        kept.chain(self.variables.iter().map(move |(name, value)| line(OsStr::new(name), value)))
    }
}

impl Launched {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits until it has ended.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// The child: executes the program, or says why not.
extern "C" fn run(plan: *mut c_void) -> c_int {
    // SAFETY: the parent's, which stands still; nothing else uses it.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    // SAFETY: no pointers but those to locals; Rust's runtime ignores this signal, programs expect its default.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    plan.numbers.iter().for_each(|place| number(*place));
    let trapped = plan.trap.map_or(Ok(()), Trap::spring);
    plan.errno = match trapped {
        Ok(()) => execute(plan),
        Err(e) => e.raw_os_error().unwrap_or(libc::EIO),
    };
    // SAFETY: ends the child alone, without anything of its parent's.
    unsafe { libc::_exit(127) }
}

/// Writes the number of this process, and a zero. Without allocating.
fn number(place: *mut u8) {
    // SAFETY: no pointers.
    let mut left = unsafe { libc::getpid() };
    let (mut digits, mut first) = ([0; DIGITS], DIGITS - 1);
    while left > 0 {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    // SAFETY: there is room for all of them (see `Plan`), and nothing else uses it while the parent stands still.
    unsafe { ptr::copy_nonoverlapping(digits[first..].as_ptr(), place, DIGITS - first) };
}

/// Returns only with what went wrong.
fn execute(plan: &Plan<'_>) -> c_int {
    if !plan.file.is_null() {
        // SAFETY: a C string, and lists of such that end with null.
        unsafe { libc::execve(plan.file, plan.words, plan.variables) };
    }
    // SAFETY: as above.
    unsafe { libc::execvpe(plan.name, plan.words, plan.variables) };
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Memory for the stack of a child.
struct Stack {
    at: *mut c_void,
    length: usize,
}

impl Stack {
    fn new(length: usize) -> io::Result<Self> {
        let length = length.next_multiple_of(4096);
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        // SAFETY: new memory at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0) };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { at, length }) }
    }

    /// Where a stack that grows downwards begins.
    fn top(&self) -> *mut c_void {
        // SAFETY: one past the end of the same mapping, whose length is a multiple of what stacks are aligned to.
        unsafe { self.at.byte_add(self.length) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which is not used any more.
        unsafe { libc::munmap(self.at, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(words: &[&str], file: Option<&Path>, variables: &[(&str, OsString)]) -> io::Result<i32> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let launched = Launch { words: &words, file, variables, trap: None }.start()?;
        Ok(launched.wait()?.into_raw())
    }

    #[test]
    fn a_program_is_found_and_told_its_arguments_and_variables() {
        let script = r#"[ "$0 $1" = "one two words" ] && [ "$MARK" = new ] && [ -n "$PATH" ] && exit 3"#;
        let variables = [("MARK", OsString::from("new"))];
        for file in [None, Some(Path::new("/nonexistent/sh")), Some(Path::new("/bin/sh"))] {
            assert_eq!(start(&["sh", "-c", script, "one", "two words"], file, &variables).unwrap(), 3 << 8, "{file:?}");
        }
    }

    #[test]
    fn a_signal_that_ends_it_is_told() {
        assert_eq!(start(&["sh", "-c", "kill -9 $$"], None, &[]).unwrap(), 9);
    }

    #[test]
    fn what_is_not_there_or_no_program_is_said_not_to_be() {
        let errno = |words: &[&str]| start(words, None, &[]).unwrap_err().raw_os_error();
        assert_eq!(errno(&["/nonexistent/program"]), Some(libc::ENOENT));
        assert_eq!(errno(&["no-such-program-anywhere"]), Some(libc::ENOENT));
        assert_eq!(errno(&["/"]), Some(libc::EACCES));
        assert_eq!(start(&["with\0zero"], None, &[]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(start(&[], None, &[]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_text_without_an_interpreter_is_the_shells_as_ever() {
        use std::os::unix::fs::PermissionsExt;
        let file = std::env::temp_dir().join(format!("headstart-launch-{}", std::process::id()));
        std::fs::write(&file, "exit $#\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let many: Vec<&str> = [file.to_str().unwrap()].into_iter().chain(std::iter::repeat_n("x", 100)).collect();
        assert_eq!(start(&many, Some(&file), &[]).unwrap(), 100 << 8);
        std::fs::remove_file(file).unwrap();
    }
}

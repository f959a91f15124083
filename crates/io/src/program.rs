//! What kind of program a command is: whether a preloaded library reaches it, and if not, why.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Whether the preloaded library reaches a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Dynamically linked with the GNU C library of this machine.
    Reached,
    /// Statically linked: no loader, no library.
    Static,
    /// Runs with other rights than its caller's (set-user-ID, set-group-ID, capabilities): the loader ignores preloads.
    Privileged,
    /// Made for another C library or machine; a preload would only make its loader complain.
    Foreign(String),
}

impl Reach {
    /// Why the program is not covered, in words; `None` if it is.
    pub fn why_not(&self) -> Option<String> {
        match self {
            Self::Reached => None,
            Self::Static => Some("it is statically linked, so a library cannot be preloaded".into()),
            Self::Privileged => Some(
                "it runs with special rights (set-user-ID or capabilities), for which the loader ignores preloads"
                    .into(),
            ),
            Self::Foreign(what) => Some(format!("it is {what}, which the library does not support")),
        }
    }
}

/// A `#!` line may name a script, which names another; the kernel follows five.
const MAX_SCRIPTS: usize = 5;

/// The file that `command` runs, found along `path` as execvp(3) does.
pub fn find(command: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let executable = |p: &Path| fs::metadata(p).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command));
    }
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/bin:/usr/bin"));
    std::env::split_paths(path).map(|dir| dir.join(command)).find(|p| executable(p))
}

/// Looks at `program`, or at the interpreter if it is a script.
pub fn reach(program: &Path) -> io::Result<Reach> {
    let mut program = program.to_owned();
    for _ in 0..MAX_SCRIPTS {
        let mut head = [0u8; 256];
        let mut file = File::open(&program)?;
        let mut n = 0;
        while let Ok(got @ 1..) = file.read(&mut head[n..]) {
            n += got;
        }
        let Some(line) = head[..n].strip_prefix(b"#!") else { return elf(&program, &mut file) };
        let mut words = line.split(|b| *b == b'\n').next().unwrap_or_default().split(|b| b" \t".contains(b));
        let mut words = words.by_ref().filter(|w| !w.is_empty()).map(|w| OsString::from_vec(w.to_vec()));
        let interpreter = words.next().ok_or_else(|| io::Error::other("a script without an interpreter"))?;
        let argument = words.find(|w| !w.as_bytes().starts_with(b"-"));
        program = match argument {
            // `#!/usr/bin/env python3`
            Some(name) if interpreter.as_bytes().ends_with(b"/env") => {
                find(&name, std::env::var_os("PATH").as_deref()).unwrap_or_else(|| interpreter.into())
            }
            _ => interpreter.into(),
        };
    }
    Err(io::Error::other("scripts that interpret each other"))
}

fn elf(program: &Path, file: &mut File) -> io::Result<Reach> {
    let meta = file.metadata()?;
    let mut capability = [0u8; 64];
    let privileged =
        meta.mode() & 0o6000 != 0 || rustix::fs::getxattr(program, c"security.capability", &mut capability[..]).is_ok();
    let changes_rights = privileged && !(rustix::process::getuid().is_root() && meta.uid() == 0);
    if changes_rights {
        return Ok(Reach::Privileged);
    }
    let mut header = [0u8; 64];
    file.seek(SeekFrom::Start(0))?;
    if file.read_exact(&mut header).is_err() || !header.starts_with(b"\x7fELF") {
        return Ok(Reach::Foreign("not an ELF program".into()));
    }
    // EI_CLASS 64 bits, EI_DATA as ours, e_machine as ours.
    let own = machine();
    if header[4] != 2 || header[5] != if cfg!(target_endian = "little") { 1 } else { 2 } {
        return Ok(Reach::Foreign("a program of another word size".into()));
    }
    if own.is_some_and(|own| u16::from_ne_bytes([header[18], header[19]]) != own) {
        return Ok(Reach::Foreign("a program for another machine".into()));
    }
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| header[at + i]));
    let (offset, size) = (word(32), u16::from_ne_bytes([header[54], header[55]]));
    let count = u16::from_ne_bytes([header[56], header[57]]);
    for i in 0..u64::from(count) {
        let mut entry = [0u8; 56];
        file.seek(SeekFrom::Start(offset.saturating_add(i * u64::from(size))))?;
        file.read_exact(&mut entry)?;
        if u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]) != 3 {
            continue;
        }
        // PT_INTERP: the path of the loader.
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| entry[at + i]));
        file.seek(SeekFrom::Start(word(8)))?;
        let mut loader = Vec::new();
        file.take(word(32).min(256)).read_to_end(&mut loader)?;
        let loader = String::from_utf8_lossy(&loader).trim_end_matches('\0').to_owned();
        let glibc = loader.rsplit('/').next().is_some_and(|f| f.starts_with("ld-linux") || f.starts_with("ld64"));
        return Ok(if glibc { Reach::Reached } else { Reach::Foreign(format!("loaded by {loader}")) });
    }
    Ok(Reach::Static)
}

/// e_machine of this build.
fn machine() -> Option<u16> {
    match std::env::consts::ARCH {
        "x86_64" => Some(62),
        "aarch64" => Some(183),
        "riscv64" => Some(243),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_is_reached_and_so_is_a_script_that_it_interprets() {
        let sh = find(OsStr::new("sh"), None).unwrap();
        assert_eq!(reach(&sh).unwrap(), Reach::Reached);
        let script = std::env::temp_dir().join(format!("headstart-script-{}", std::process::id()));
        fs::write(&script, "#! /usr/bin/env sh\necho hi\n").unwrap();
        assert_eq!(reach(&script).unwrap(), Reach::Reached);
        fs::remove_file(script).unwrap();
    }

    #[test]
    fn what_is_no_program_is_said_not_to_be() {
        let text = std::env::temp_dir().join(format!("headstart-text-{}", std::process::id()));
        fs::write(&text, "nothing to run here, for more than sixty-four bytes in all, so that a header fits").unwrap();
        assert!(matches!(reach(&text).unwrap(), Reach::Foreign(_)));
        fs::remove_file(text).unwrap();
        assert!(reach(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_static_program_is_known_by_its_missing_loader() {
        // A whole ELF header with no program headers at all.
        let mut header = vec![0u8; 64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header[18..20].copy_from_slice(&machine().unwrap_or(62).to_ne_bytes());
        let file = std::env::temp_dir().join(format!("headstart-static-{}", std::process::id()));
        fs::write(&file, header).unwrap();
        assert_eq!(reach(&file).unwrap(), Reach::Static);
        fs::remove_file(file).unwrap();
    }
}

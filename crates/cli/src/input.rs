//! What people give to verbs. Files are read whole: as text or in PEM, and within bounds, whatever they were pointed at. Files to be
//! written, and intervals, are checked before any work.

use crate::exit::Usage;
use headstart_core::time::Duration;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Settings, tunnels, scenarios, lists: none is larger; what is, is another file.
pub const MOST: u64 = 1 << 20;

/// Certificates and keys: all authorities of a host take 0.3 MiB.
const PEM: u64 = 16 << 20;

/// The text of a file, as [`bytes`].
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let bytes = bytes(path, most)?;
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("not UTF-8: {e}")))
}

/// What a file in PEM holds of one kind, within a bound as well.
pub fn pem<T: rustls::pki_types::pem::PemObject>(path: &Path) -> io::Result<Vec<T>> {
    let all: Result<_, _> = T::pem_slice_iter(&bytes(path, PEM)?).collect();
    all.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))
}

/// All that is in a file of at most `most` bytes, whole MiB of them. An error says what is wrong, and not with which file.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

/// How often to look, from a number of seconds. A look costs a measurement work for each of its connections.
pub fn interval(seconds: f64) -> Result<Duration, Usage> {
    if (0.1..=3600.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    let got = if seconds.abs() < 1e9 { seconds.to_string() } else { format!("{seconds:e}") };
    Err(Usage(format!("--interval: must be from 0.1 to 3600 seconds (got {got})")))
}

/// Checks that a file can be written at `path`, without making it.
fn writable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(io::Error::from(Errno::ISDIR)),
        Ok(_) => access(path, Access::WRITE_OK).map_err(Into::into),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            access(folder.join("."), Access::WRITE_OK | Access::EXEC_OK).map_err(Into::into)
        }
    }
}

/// [`writable`] as an error of usage, before any work: what cannot be written should not cost a run.
pub fn check_writable(path: &Path) -> Result<(), Usage> {
    writable(path).map_err(|why| Usage::unwritable(path, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_file_can_be_written_is_known_without_making_it() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new");
        assert!(writable(&new).is_ok() && !new.exists());
        std::fs::write(&new, "").unwrap();
        assert!(writable(&new).is_ok());
        for wrong in [folder.path(), &folder.path().join("no/file"), &new.join("file")] {
            assert!(writable(wrong).is_err(), "{}", wrong.display());
        }
        assert!(writable(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn certificates_without_end_are_refused() {
        let why = pem::<rustls::pki_types::CertificateDer<'_>>(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(why, "larger than 16 MiB");
        assert!(pem::<rustls::pki_types::CertificateDer<'_>>(Path::new("/dev/null")).unwrap().is_empty());
    }

    #[test]
    fn what_has_no_end_is_too_large_and_what_is_no_text_is_said_to_be_none() {
        let why = |path: &str| text(Path::new(path), MOST).unwrap_err().to_string();
        assert_eq!(why("/dev/zero"), "larger than 1 MiB");
        assert!(why("/proc/self/exe").contains("larger") && why("/").contains("directory"));
        assert_eq!(text(Path::new("/dev/null"), MOST).unwrap(), "");
        let bytes = std::env::temp_dir().join(format!("headstart-input-{}", std::process::id()));
        std::fs::write(&bytes, [b'a', 0xff]).unwrap();
        let wrong = why(bytes.to_str().unwrap());
        std::fs::remove_file(&bytes).unwrap();
        assert!(wrong.starts_with("not UTF-8"), "{wrong}");
    }
}

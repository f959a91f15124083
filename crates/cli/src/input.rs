//! Files that people write and verbs read whole: as text, and within bounds, whatever they were pointed at.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Settings, tunnels, scenarios, lists: none is larger; what is, is another file.
pub const MOST: u64 = 1 << 20;

/// The text of a file of at most `most` bytes, whole MiB of them. An error says what is wrong, and not with which file.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {} MiB", most >> 20)));
    }
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_too_large_and_what_is_no_text_is_said_to_be_none() {
        let why = |path: &str| text(Path::new(path), MOST).unwrap_err().to_string();
        assert_eq!(why("/dev/zero"), "it is larger than 1 MiB");
        assert!(why("/proc/self/exe").contains("larger") && why("/").contains("directory"));
        assert_eq!(text(Path::new("/dev/null"), MOST).unwrap(), "");
        let bytes = std::env::temp_dir().join(format!("headstart-input-{}", std::process::id()));
        std::fs::write(&bytes, [b'a', 0xff]).unwrap();
        let wrong = why(bytes.to_str().unwrap());
        std::fs::remove_file(&bytes).unwrap();
        assert!(wrong.starts_with("it is not UTF-8"), "{wrong}");
    }
}

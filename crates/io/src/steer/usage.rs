//! What caps have counted, kept in a file from run to run: a daemon that is started anew does not begin a plan anew.
//!
//! A line a channel: its name, the bytes that were carried, and when the period began, in seconds since 1970. What cannot be
//! read counts as nothing; a failed write is tried again. A killed process loses a minute of it.

use crate::clock;
use headstart_core::steer::Channel;
use headstart_core::time::Duration;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// No such file is longer.
const LONGEST: u64 = 256;

/// Of one channel: bytes, and how long ago the period began.
pub type Used = Option<(u64, Duration)>;

fn wall() -> u64 {
    clock::wall().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What was written.
pub fn read(file: &Path) -> [Used; 2] {
    let mut text = String::new();
    let opened = OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32).open(file);
    let _ = opened.and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    parse(&text, wall())
}

fn parse(text: &str, now: u64) -> [Used; 2] {
    let mut used = [None; 2];
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, bytes, began] = words[..] else { continue };
        let channel = Channel::ALL.into_iter().find(|channel| channel.name() == name);
        if let (Some(channel), Ok(bytes), Ok(began)) = (channel, bytes.parse(), began.parse::<u64>()) {
            // A clock that was set back makes no period longer.
            used[channel.index()] = Some((bytes, Duration::from_secs(now.saturating_sub(began))));
        }
    }
    used
}

/// Writes it, in the place of what was there.
pub fn write(file: &Path, used: [Used; 2]) -> io::Result<()> {
    let now = wall();
    let line = |channel: Channel| {
        let (bytes, since) = used[channel.index()]?;
        Some(format!("{channel} {bytes} {}\n", now.saturating_sub(since.as_secs())))
    };
    let text: String = Channel::ALL.into_iter().filter_map(line).collect();
    let new = PathBuf::from(format!("{}.new", file.display()));
    let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(flags);
    options.open(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = std::env::temp_dir().join(format!("headstart-usage-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("caps");
        assert_eq!(read(&file), [None; 2]);
        write(&file, [None, Some((77, Duration::from_secs(500)))]).unwrap();
        let [fat, fast] = read(&file);
        let (bytes, since) = fast.unwrap();
        assert!(fat.is_none() && bytes == 77 && (500..600).contains(&since.as_secs()), "{since:?}");
        fs::remove_dir_all(&folder).unwrap();
    }

    proptest! {
        #[test]
        fn any_text_is_something_or_nothing(text in "((fat|fast|slow) [0-9-]{0,21} [0-9]{0,21}\n|.{0,9}\n){0,9}", now: u64) {
            let _ = parse(&text, now);
        }
    }
}

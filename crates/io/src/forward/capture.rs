//! Packets as they pass, written as pcapng: each with a comment that says whose it is, and a block for each process.

use super::{Tap, Tapped};
use crate::clock::{Clock, wall};
use headstart_core::time::Instant;
use headstart_core::wire::pcapng;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::rc::Rc;

/// Processes that a capture names by blocks of their own; packets of others have the comment alone.
const MOST_PROCESSES: usize = 65_536;

/// Where packets are written.
pub struct Capture {
    output: BufWriter<Box<dyn Write>>,
    /// Why it was cut off.
    lost: Option<io::Error>,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Capture {
    /// Begins one.
    pub fn begin(output: Box<dyn Write>) -> io::Result<Self> {
        let mut output = BufWriter::new(output);
        output.write_all(&pcapng::header("headstart", &["from-program", "to-program"]))?;
        Ok(Self { output, lost: None })
    }

    /// Writes a block, unless one before it could not be written.
    fn write(&mut self, block: &[u8]) {
        if self.lost.is_none() {
            self.lost = self.output.write_all(block).err();
        }
    }

    /// Writes what is left; why something is missing. A reader of a pipe that has stopped misses nothing.
    pub fn end(&mut self) -> Option<io::Error> {
        let lost = self.lost.take().or_else(|| self.output.flush().err());
        lost.filter(|why| why.kind() != io::ErrorKind::BrokenPipe)
    }
}

/// Writes at most `most` bytes of each packet to a capture.
pub fn tap(capture: Rc<RefCell<Capture>>, most: usize, clock: Clock) -> Tap {
    let since_epoch = wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let origin = since_epoch.saturating_sub(clock.now().since(Instant::ZERO));
    let mut processes = HashMap::new();
    Box::new(move |tapped: Tapped<'_>| {
        let mut comment = tapped.process.map_or_else(String::new, |process| {
            let pid = process.number().map_or_else(String::new, |pid| format!(";pid={pid}"));
            format!("app={}{pid}", process.name)
        });
        if let Some(to) = tapped.accelerated {
            let stroke = if comment.is_empty() { "" } else { ";" };
            comment += &format!("{stroke}accelerated={to}");
        }
        let mut block = Vec::new();
        let of = tapped.process.and_then(|process| {
            let number = u32::try_from(processes.len()).ok()?;
            let key = (process.pid, process.name.clone());
            if !processes.contains_key(&key) && processes.len() < MOST_PROCESSES {
                block = pcapng::process(process.pid.unsigned_abs(), &process.name);
                processes.insert(key.clone(), number);
            }
            processes.get(&key).copied()
        });
        let at = origin + tapped.at.since(Instant::ZERO);
        block.extend(pcapng::packet(u32::from(tapped.to_program), at, tapped.bytes, most, (&comment, of)));
        capture.borrow_mut().write(&block);
    })
}

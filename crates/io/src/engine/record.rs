//! What was seen, kept for the app that may want it: the latest lines, each with the network and the state of the device.

use super::message::{Device, Network};
use crate::forward::{Attributed, line_of};
use serde_json::json;
use std::collections::VecDeque;

/// Bytes of lines that are kept; the oldest make room. 8 MiB: more than a day of 5,000 flows and as many lookups.
const MOST: usize = 8 << 20;

/// See the module.
#[derive(Debug, Default)]
pub struct Kept {
    /// Of which app, and the line.
    lines: VecDeque<(String, String)>,
    bytes: usize,
    /// The network now.
    pub network: Network,
    /// The state of the device now.
    pub device: Device,
}

impl Kept {
    /// None yet, on this network.
    pub fn on(network: Network, device: Device) -> Self {
        Self { network, device, ..Self::default() }
    }

    /// Something has ended.
    pub fn take(&mut self, seen: &Attributed) {
        let mut line = line_of(seen);
        line["network"] = json!({
            "transport": self.network.transport, "metered": self.network.metered, "validated": self.network.validated,
            "private_dns": self.network.private_dns.is_some(),
        });
        line["device"] = json!(self.device);
        let app = line["app"].as_str().unwrap_or_default().to_owned();
        let line = line.to_string();
        self.bytes += line.len();
        self.lines.push_back((app, line));
        while self.bytes > MOST
            && let Some((_, oldest)) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    /// The lines, of one app or all: as text, and how many.
    pub fn lines(&self, app: Option<&str>) -> (String, usize) {
        let lines = self.lines.iter().filter(|(of, _)| app.is_none_or(|app| app == of));
        lines.fold((String::new(), 0), |(text, count), (_, line)| (text + line + "\n", count + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::{Process, owner::Owner};
    use headstart_core::forward::{DnsExchange, Record};
    use headstart_core::time::{Duration, Instant};

    fn seen(app: &str, name: &str) -> Attributed {
        let end = "192.0.2.1:53".parse().unwrap();
        let (asked, took) = (Instant::ZERO, Duration::from_millis(20));
        let lookup = DnsExchange {
            app: end,
            server: end,
            name: name.into(),
            asked,
            took,
            answer: None,
            reply: Vec::new(),
            cached: false,
        };
        let process = Some(Process::of_app(app.into()));
        Attributed { record: Record::Dns(lookup), owner: Some(Owner { user: 10_001, inode: 0 }), process }
    }

    #[test]
    fn a_line_carries_the_network_and_the_device_and_lines_of_one_app_are_found() {
        let mut kept = Kept { device: Device { battery: Some(9), ..Device::default() }, ..Kept::default() };
        kept.network.transport = "wifi".into();
        kept.take(&seen("org.example.a", "a.example"));
        kept.take(&seen("org.example.b", "b.example"));
        let (text, count) = kept.lines(Some("org.example.b"));
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!((count, &line["name"], kept.lines(None).1), (1, &json!("b.example"), 2));
        assert_eq!((&line["network"]["transport"], &line["device"]["battery"]), (&json!("wifi"), &json!(9)));
        assert_eq!(line["device"]["doze"], json!(null), "what is not known is null");
    }

    #[test]
    fn the_oldest_lines_make_room() {
        let mut kept = Kept::default();
        let long = "x".repeat(MOST / 4);
        (0..6).for_each(|n| kept.take(&seen("org.example.a", &format!("{n}{long}"))));
        let (text, count) = kept.lines(None);
        assert!(count == 3 && text.len() <= MOST && text.contains("\"5xxx"), "{count} lines, {} bytes", text.len());
    }
}

//! What a page load waited for, one thing after the other: from the object that ended last back to the start.
//!
//! Of each object on that path, what it waited for is taken apart: the browser's own time before it was wanted, a free
//! connection, the name, TCP, TLS, the first byte, the rest. What is beside the path costs nothing; what is on it could be
//! saved at most until another path is the longest.

use super::{Load, Timing};
use crate::page::{Dependency, Page, Start};
use headstart_core::time::Duration;

/// A time, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Between what was waited for and the wish: the browser computes.
    pub browser: Duration,
    /// No connection was free.
    pub queue: Duration,
    /// The name was looked up.
    pub dns: Duration,
    /// TCP was opened.
    pub connect: Duration,
    /// TLS.
    pub tls: Duration,
    /// From the request to the first byte, less what the server thought.
    pub wait: Duration,
    /// The server thought.
    pub think: Duration,
    /// From the first byte to the last one that was waited for.
    pub transfer: Duration,
}

impl Parts {
    /// All of it, by name.
    pub fn named(&self) -> [(&'static str, Duration); 8] {
        let Self { browser, queue, dns, connect, tls, wait, think, transfer } = *self;
        [
            ("browser", browser),
            ("queue", queue),
            ("dns", dns),
            ("connect", connect),
            ("tls", tls),
            ("wait", wait),
            ("think", think),
            ("transfer", transfer),
        ]
    }
}

impl Load {
    /// The objects that the load event waited for, the last one first, each with its part of the time; all parts together are the
    /// page load time.
    pub fn critical(&self, page: &Page, by: Dependency) -> Vec<(usize, Parts)> {
        let blocking = (0..page.objects.len()).filter(|n| page.objects[*n].kind.blocks_load());
        let mut at = blocking.max_by_key(|n| (self.objects[*n].end, *n));
        let mut until = self.time;
        let mut path = Vec::new();
        while let Some(n) = at {
            let t = &self.objects[n];
            let parent = by.start(&page.objects[n]).parent();
            let mut parts = t.parts(until, page.objects[n].think);
            // What streams is waited for until its share is there, what follows until the end.
            let before = match by.start(&page.objects[n]) {
                Start::AtOnce => Duration::ZERO,
                Start::During { .. } => t.wanted,
                Start::After { parent, .. } => self.objects[parent].end.min(t.wanted),
            };
            parts.browser = t.wanted - before;
            path.push((n, parts));
            (at, until) = (parent, before);
        }
        path
    }

    /// The parts of [`Load::critical`], together.
    pub fn parts(&self, page: &Page, by: Dependency) -> Parts {
        let mut sum = Parts::default();
        for (_, p) in self.critical(page, by) {
            sum.browser += p.browser;
            sum.queue += p.queue;
            sum.dns += p.dns;
            sum.connect += p.connect;
            sum.tls += p.tls;
            sum.wait += p.wait;
            sum.think += p.think;
            sum.transfer += p.transfer;
        }
        sum
    }
}

impl Timing {
    /// From the wish to `until`, taken apart.
    fn parts(&self, until: Duration, think: Duration) -> Parts {
        let [dns, connect, tls] = self.opening;
        let sent = self.sent.min(until);
        let first = self.first_byte.clamp(sent, until.max(sent));
        let think = think.min(first - sent);
        Parts {
            browser: Duration::ZERO,
            queue: (sent - self.wanted).saturating_sub(dns + connect + tls),
            dns,
            connect,
            tls,
            wait: first - sent - think,
            think,
            transfer: until.saturating_sub(first),
        }
    }
}

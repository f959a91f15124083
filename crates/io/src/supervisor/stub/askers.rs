//! Which program asks from which port.

use headstart_core::connect::AppId;
use std::collections::{BTreeMap, VecDeque};

/// Ports remembered; the one registered first is forgotten for a new one. A resolver's socket lives for seconds.
const MAX_PORTS: usize = 4096;
/// A socket that asks at any post.
const ANY: usize = usize::MAX;

/// Programs, and the accounts that they are counted on, by port and post.
#[derive(Debug, Default)]
pub(super) struct Askers {
    known: BTreeMap<(u16, usize), (AppId, u32)>,
    order: VecDeque<(u16, usize)>,
}

impl Askers {
    /// The program `who` asks from `port` at `post`, or at every post.
    pub fn insert(&mut self, post: Option<usize>, port: u16, who: (AppId, u32)) {
        let key = (port, post.unwrap_or(ANY));
        if post.is_none() {
            // The port is this socket's alone; its previous owner has gone.
            let before: Vec<_> = self.known.range((port, 0)..=(port, ANY)).map(|(key, _)| *key).collect();
            before.iter().for_each(|key| drop(self.known.remove(key)));
        }
        self.order.retain(|k| *k != key);
        self.known.insert(key, who);
        self.order.push_back(key);
        while self.order.len() > MAX_PORTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The program that asks from `port` at `post`.
    pub fn get(&self, post: usize, port: u16) -> Option<(AppId, u32)> {
        self.known.get(&(port, post)).or_else(|| self.known.get(&(port, ANY))).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> (AppId, u32) {
        (name.into(), 1)
    }

    #[test]
    fn a_port_belongs_to_whoever_had_it_last() {
        let mut askers = Askers::default();
        askers.insert(Some(0), 4000, who("dig"));
        askers.insert(Some(1), 4000, who("host"));
        assert_eq!((askers.get(0, 4000), askers.get(1, 4000)), (Some(who("dig")), Some(who("host"))));
        askers.insert(None, 4000, who("musl"));
        assert_eq!((askers.get(0, 4000), askers.get(1, 4000)), (Some(who("musl")), Some(who("musl"))));
        askers.insert(Some(1), 4000, who("host"));
        assert_eq!((askers.get(0, 4000), askers.get(1, 4000)), (Some(who("musl")), Some(who("host"))));
        assert_eq!(askers.get(0, 4001), None);
    }

    #[test]
    fn the_oldest_ports_are_forgotten() {
        let mut askers = Askers::default();
        for port in 0..5000 {
            askers.insert(Some(0), port, who("many"));
        }
        assert!(askers.known.len() <= MAX_PORTS && askers.order.len() <= MAX_PORTS);
        assert!(askers.get(0, 0).is_none() && askers.get(0, 4999).is_some());
    }
}

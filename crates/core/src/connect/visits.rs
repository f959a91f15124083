//! Where programs have arrived, until they look the name up again. One that has reached a name and then goes to another address of
//! the same lookup has chosen it: it checks each server, spreads load or keys over them, or rejects what the first one answered.
//! From then on it gets the address that it asks for, or that address's error, as without headstart. Ours.

use super::AppId;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// More than programs of all runs use at a time.
const MAX: usize = 4096;

#[derive(Debug)]
struct Visit {
    to: IpAddr,
    chooses: bool,
}

/// By account, program, name and port.
#[derive(Debug, Default)]
pub(super) struct Visits(BTreeMap<(u32, AppId, Arc<str>, u16), Visit>);

impl Visits {
    /// A connection to `to`, or what was given for it, is open.
    pub fn arrived(&mut self, account: u32, app: &AppId, name: &Arc<str>, to: SocketAddr) {
        if self.0.len() >= MAX {
            // All that is lost: a later choice of another address is not recognised.
            self.0.clear();
        }
        let key = (account, AppId::clone(app), Arc::clone(name), to.port());
        self.0.entry(key).or_insert(Visit { to: to.ip(), chooses: false });
    }

    /// Whether a program that goes to `to` has chosen it.
    pub fn is_chosen(&mut self, account: u32, app: &AppId, name: &Arc<str>, to: SocketAddr) -> bool {
        let Some(visit) = self.0.get_mut(&(account, AppId::clone(app), Arc::clone(name), to.port())) else {
            return false;
        };
        visit.chooses |= visit.to != to.ip();
        visit.chooses
    }

    /// A program looks the name up: it will begin anew.
    pub fn asked(&mut self, account: u32, app: &AppId, name: &Arc<str>) {
        let key = |port| (account, AppId::clone(app), Arc::clone(name), port);
        let ports: Vec<u16> = self.0.range(key(0)..=key(u16::MAX)).map(|((.., port), _)| *port).collect();
        for port in ports {
            self.0.remove(&key(port));
        }
    }

    /// The account is closed.
    pub fn close(&mut self, account: u32) {
        self.0.retain(|(of, ..), _| *of != account);
    }

    /// On another network all begin anew.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(n: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, n], port))
    }

    #[test]
    fn a_program_that_goes_on_to_another_address_chooses_until_it_looks_the_name_up_again() {
        let (app, name): (AppId, Arc<str>) = ("check".into(), "a.example".into());
        let mut visits = Visits::default();
        assert!(!visits.is_chosen(1, &app, &name, to(2, 443)), "it has not been anywhere");
        visits.arrived(1, &app, &name, to(1, 443));
        assert!(!visits.is_chosen(1, &app, &name, to(1, 443)), "the same again");
        assert!(!visits.is_chosen(1, &app, &name, to(2, 80)), "another port");
        assert!(!visits.is_chosen(2, &app, &name, to(2, 443)), "another run");
        assert!(visits.is_chosen(1, &app, &name, to(2, 443)));
        assert!(visits.is_chosen(1, &app, &name, to(1, 443)), "it goes round");
        visits.asked(1, &app, &"b.example".into());
        assert!(visits.is_chosen(1, &app, &name, to(1, 443)));
        visits.asked(1, &app, &name);
        assert!(!visits.is_chosen(1, &app, &name, to(2, 443)));
    }

    #[test]
    fn there_is_an_end_to_them() {
        let (app, name, mut visits): (AppId, Arc<str>, _) = ("check".into(), "a.example".into(), Visits::default());
        (0..=MAX as u16).for_each(|port| visits.arrived(1, &app, &name, to(1, port)));
        assert_eq!(visits.0.len(), 1);
        visits.close(1);
        assert!(visits.0.is_empty());
    }

    #[test]
    fn where_a_program_has_arrived_is_known_of_each_name_until_the_host_moves() {
        let (app, mut visits): (AppId, _) = ("check".into(), Visits::default());
        let names: [Arc<str>; 2] = ["a.example".into(), "b.example".into()];
        names.iter().for_each(|name| visits.arrived(1, &app, name, to(1, 443)));
        assert!(names.iter().all(|name| visits.is_chosen(1, &app, name, to(2, 443))));
        visits.clear();
        assert!(!names.iter().any(|name| visits.is_chosen(1, &app, name, to(2, 443))));
    }
}

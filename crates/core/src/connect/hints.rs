//! Which families of a name a program has asked for. One that asks for a single family (`curl -6`, a socket that binds) is not led
//! to the other by a race, whatever is known of it: the stub looks up both, and the same program may have asked for both before.

use super::{AppId, Want};
use crate::path::Family;
use crate::wire::record::RecordType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names that are remembered; more than programs of all runs use at a time.
const MAX_NAMES: usize = 4096;

/// By account, program and name: IPv4, IPv6.
#[derive(Debug, Default)]
pub(super) struct Hints(BTreeMap<(u32, AppId, Arc<str>), [bool; 2]>);

impl Hints {
    /// A program asks for these records.
    pub fn asked(&mut self, account: u32, app: &AppId, name: &Arc<str>, records: &[RecordType]) {
        let key = (account, AppId::clone(app), Arc::clone(name));
        if self.0.len() >= MAX_NAMES && !self.0.contains_key(&key) {
            // Nothing is lost but that a program that comes again may use both.
            self.0.clear();
        }
        let asked = self.0.entry(key).or_default();
        records.iter().filter_map(|r| r.family()).for_each(|family| asked[usize::from(family == Family::V6)] = true);
    }

    /// The families that it may be led to: both if it has asked for none.
    pub fn want(&self, account: u32, app: &AppId, name: &Arc<str>) -> Want {
        match self.0.get(&(account, AppId::clone(app), Arc::clone(name))) {
            Some([true, false]) => Want::Only(Family::V4),
            Some([false, true]) => Want::Only(Family::V6),
            _ => Want::Both,
        }
    }

    /// The account is closed.
    pub fn close(&mut self, account: u32) {
        self.0.retain(|(of, ..), _| *of != account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_in_one_run_says_nothing_of_another_and_is_gone_with_it() {
        let (app, name): (AppId, Arc<str>) = ("curl".into(), "a.example".into());
        let mut hints = Hints::default();
        assert_eq!(hints.want(1, &app, &name), Want::Both);
        hints.asked(1, &app, &name, &[RecordType::Https, RecordType::Aaaa]);
        assert_eq!((hints.want(1, &app, &name), hints.want(2, &app, &name)), (Want::Only(Family::V6), Want::Both));
        hints.asked(1, &app, &name, &[RecordType::A]);
        assert_eq!(hints.want(1, &app, &name), Want::Both);
        hints.asked(2, &app, &name, &[RecordType::A]);
        hints.close(1);
        assert_eq!((hints.want(1, &app, &name), hints.want(2, &app, &name)), (Want::Both, Want::Only(Family::V4)));
    }

    #[test]
    fn there_is_an_end_to_names() {
        let (app, mut hints): (AppId, _) = ("curl".into(), Hints::default());
        let name = |n: usize| Arc::from(format!("{n}.example"));
        (0..=MAX_NAMES).for_each(|n| hints.asked(1, &app, &name(n), &[RecordType::A]));
        assert_eq!((hints.0.len(), hints.want(1, &app, &name(MAX_NAMES))), (1, Want::Only(Family::V4)));
    }

    #[test]
    fn names_are_remembered_side_by_side() {
        let (app, mut hints): (AppId, _) = ("curl".into(), Hints::default());
        let names: [Arc<str>; 2] = ["a.example".into(), "b.example".into()];
        names.iter().for_each(|name| hints.asked(1, &app, name, &[RecordType::A]));
        assert_eq!(names.each_ref().map(|name| hints.want(1, &app, name)), [Want::Only(Family::V4); 2]);
        hints.close(1);
        assert_eq!(names.each_ref().map(|name| hints.want(1, &app, name)), [Want::Both; 2]);
    }
}

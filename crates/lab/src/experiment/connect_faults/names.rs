//! The names of the conditions: every fault with every program that fetches a page over HTTP, as the two registries have
//! them. Made when the lab is compiled, so that a new program or fault needs no line here.

use crate::condition::fault;
use crate::program::{self, Scheme};

/// The condition in which nothing is fetched.
pub const START_UP: &str = "start-up";

const fn fetches(program: &program::Entry) -> bool {
    let mut i = 0;
    while i < program.schemes.len() {
        if let Scheme::Http = program.schemes[i] {
            return true;
        }
        i += 1;
    }
    false
}

const fn programs() -> usize {
    let (mut count, mut i) = (0, 0);
    while i < program::ALL.len() {
        count += fetches(&program::ALL[i]) as usize;
        i += 1;
    }
    count
}

/// All names: one for each pair, and [`START_UP`].
const COUNT: usize = fault::ALL.len() * programs() + 1;

const fn append<const N: usize>(bytes: &mut [u8; N], mut at: usize, text: &str) -> usize {
    let mut i = 0;
    while i < text.len() {
        if at < N {
            bytes[at] = text.as_bytes()[i];
        }
        at += 1;
        i += 1;
    }
    at
}

/// The names one after the other, and where each ends. With no room at all it only counts.
const fn write<const N: usize>() -> ([u8; N], [usize; COUNT]) {
    let (mut bytes, mut ends) = ([0; N], [0; COUNT]);
    let (mut at, mut n, mut f) = (0, 0, 0);
    while f < fault::ALL.len() {
        let mut p = 0;
        while p < program::ALL.len() {
            if fetches(&program::ALL[p]) {
                at = append(&mut bytes, at, fault::ALL[f].name);
                at = append(&mut bytes, at, "-");
                at = append(&mut bytes, at, program::ALL[p].name);
                ends[n] = at;
                n += 1;
            }
            p += 1;
        }
        f += 1;
    }
    ends[n] = append(&mut bytes, at, START_UP);
    (bytes, ends)
}

const LENGTH: usize = write::<0>().1[COUNT - 1];
const WRITTEN: &([u8; LENGTH], [usize; COUNT]) = &write();

const fn cut() -> [&'static str; COUNT] {
    let mut names = [""; COUNT];
    let (mut n, mut from) = (0, 0);
    while n < COUNT {
        let (name, _) = WRITTEN.0.split_at(from).1.split_at(WRITTEN.1[n] - from);
        names[n] = match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => panic!("names of faults and programs are ASCII"),
        };
        from = WRITTEN.1[n];
        n += 1;
    }
    names
}

/// Every condition of the experiment, faults in the order of their registry, within each the programs.
pub const ALL: &[&str] = &cut();

/// The name of a fault with a program.
pub fn of(fault: &str, program: &str) -> String {
    format!("{fault}-{program}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_every_fault_with_every_program_that_fetches_pages() {
        let fetching = || program::ALL.iter().filter(|p| p.covers(Scheme::Http));
        let pairs = fault::ALL.iter().flat_map(|f| fetching().map(move |p| of(f.name, p.name)));
        assert_eq!(ALL, pairs.chain([START_UP.to_owned()]).collect::<Vec<_>>());
        assert!(ALL.contains(&"aaaa-lost-curl"));
    }
}

//! How long a program waits for the addresses of the second family.

use super::*;
use Family::V6;

const SITE: &str = "www.example";

#[test]
fn a_lost_aaaa_answer_costs_the_resolution_delay_and_no_more() {
    for race in ["happy-eyeballs-v2", "adaptive"] {
        let mut s = Story::of(race).site(SITE, 1, (20, 0), (40, 50)).dns(SITE, V6, Dns::Silent);
        assert_eq!(s.visit("curl", SITE), (v4(1), 20 + 50 + 40), "{race}");
    }
}

#[test]
fn an_answer_within_the_resolution_delay_is_returned_even_where_a_connection_is_open() {
    for race in ["happy-eyeballs-v2", "happy-eyeballs-v3", "adaptive"] {
        // The IPv6 connection is open at 30 ms. What its server makes of it is not known, and bare the program hears of both.
        let mut s = Story::of(race).site(SITE, 1, (50, 20), (40, 10));
        let list = s.resolve("curl", SITE, Want::Both, Some(443));
        assert_eq!((list, s.now), (Resolved::Addresses(vec![v6(1), v4(1)]), Instant::from_millis(50)), "{race}");
        let mut s = Story::of(race).site(SITE, 1, (500, 20), (40, 10));
        let list = s.resolve("curl", SITE, Want::Both, Some(443));
        assert_eq!((list, s.now), (Resolved::Addresses(vec![v6(1)]), Instant::from_millis(70)), "{race}: no longer");
    }
}

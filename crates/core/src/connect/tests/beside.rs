//! Programs that ask and connect past the connector: what they are given of what they were told, and what is opened before they connect.

use super::*;
use crate::path::NetworkId;

const NAME: &str = "www.example";

fn aside(ahead: Ahead) -> Story {
    Story::with(Settings { ahead, explore: 0.0, ..Settings::of(race::find("adaptive").unwrap()) })
}

impl Story {
    fn overhear(&mut self, name: &str, record: RecordType, list: &[IpAddr], ttl: u64) {
        let result = LookupResult::Addresses(list.to_vec(), Duration::from_secs(ttl));
        self.input(Input::Overheard { app: app(), name: name.into(), record, result });
    }

    fn asks(&mut self, name: &str, record: RecordType) {
        self.input(Input::AsksItself { account: self.account, app: app(), name: name.into(), record });
    }

    fn holds(&mut self, name: &str, record: RecordType) -> bool {
        self.connector.answer_holds(self.now, &app(), name, record)
    }

    fn to(&self, addr: IpAddr, port: u16) -> (RequestId, Claim) {
        let to = (addr, port).into();
        let claim =
            Claim { app: app(), to, domain: Family::V6, nonblocking: false, accepts_mapped: true, rescuable: None };
        (RequestId(u64::from(self.account) << 32 | 0xffff), claim)
    }

    fn goes(&mut self, addr: IpAddr, port: u16) {
        let (request, claim) = self.to(addr, port);
        self.input(Input::GoesItself(request, claim));
    }

    fn is_ahead(&self, addr: IpAddr) -> bool {
        let (request, claim) = self.to(addr, 443);
        self.connector.is_ahead_of(self.now, request, &claim)
    }

    fn sent(&self) -> usize {
        self.outputs.iter().filter(|(_, o)| matches!(o, Output::Query { .. })).count()
    }

    /// A start as a program behind the forwarder has it: it asks for both families, hears, and connects by itself.
    fn start(&mut self, n: u8, ttl: u64) {
        for (record, addr) in [(RecordType::A, v4(n)), (RecordType::Aaaa, v6(n.into()))] {
            self.asks(NAME, record);
            self.overhear(NAME, record, &[addr], ttl);
        }
        self.goes(v6(n.into()), 443);
        self.pass(5000);
    }
}

#[test]
fn an_answer_holds_for_its_program_and_its_time_and_not_once_an_address_has_failed() {
    let mut s = aside(Ahead::ON);
    s.overhear("WWW.example.", RecordType::A, &[v4(1)], 60);
    assert!(s.holds(NAME, RecordType::A) && s.holds("wwW.Example.", RecordType::A) && !s.holds(NAME, RecordType::Aaaa));
    assert!(!s.connector.answer_holds(s.now, &"wget".into(), NAME, RecordType::A), "another's");
    s.pass(59_999);
    assert!(s.holds(NAME, RecordType::A));
    s.pass(1);
    assert!(!s.holds(NAME, RecordType::A));
    s.overhear(NAME, RecordType::A, &[v4(1), v4(2)], 60);
    s.input(Input::Unreached(v4(2)));
    assert!(!s.holds(NAME, RecordType::A));
    s.overhear(NAME, RecordType::A, &[v4(3)], 60);
    assert!(s.holds(NAME, RecordType::A), "another answer");
}

#[test]
fn on_another_network_nothing_holds() {
    let mut s = aside(Ahead::ON);
    s.start(1, 300);
    assert!(s.holds(NAME, RecordType::A));
    s.input(Input::Network { id: NetworkId(7), v4: true, v6: true, v4_first: false });
    assert!(!s.holds(NAME, RecordType::A));
    s.asks(NAME, RecordType::A);
    assert!(s.begun().is_empty(), "{:?}", s.outputs);
}

#[test]
fn the_second_time_a_connection_begins_with_the_question_and_no_server_is_asked() {
    let mut s = aside(Ahead::ON).host(v6(1), Host::Answers(20)).host(v4(1), Host::Answers(20));
    s.start(1, 300);
    assert_eq!((s.begun(), s.sent()), (vec![], 0), "what its program does first, it does by itself");
    s.asks(NAME, RecordType::Aaaa);
    assert_eq!((s.begun(), s.sent()), (vec![(5000, v6(1))], 0));
    assert!(s.is_ahead(v6(1)), "on its way");
    s.pass(50);
    let Output::HandOver { connected: true, attempt, .. } = s.connect("curl", v6(1), false) else {
        panic!("{:?}", s.outputs)
    };
    assert_eq!((s.reached(attempt), s.outputs.last().unwrap().0), (v6(1), 5050), "at once");
    assert!(!s.is_ahead(v6(1)), "it is the program's now");
}

#[test]
fn nothing_begins_where_the_server_speaks_first_or_an_answer_is_missing_or_nothing_may_be_done_ahead() {
    for (port, ttl, ahead) in [(22, 300, Ahead::ON), (443, 2, Ahead::ON), (443, 300, Ahead::OFF)] {
        let mut s = aside(Ahead::ON);
        s.start(1, ttl);
        // The last port that it went to.
        s.goes(v6(1), port);
        s.input(Input::Ahead(ahead));
        if ttl < 5 {
            s.overhear(NAME, RecordType::Aaaa, &[v6(1)], 300);
        }
        s.asks(NAME, RecordType::Aaaa);
        assert_eq!((s.begun(), s.sent()), (vec![], 0), "port {port}, {ttl} s, {ahead:?}");
    }
}

#[test]
fn what_is_open_ahead_is_closed_as_soon_as_nothing_may_be() {
    let mut s = aside(Ahead::ON).host(v6(1), Host::Answers(20));
    s.start(1, 300);
    s.asks(NAME, RecordType::Aaaa);
    s.pass(100);
    assert!(s.is_ahead(v6(1)));
    s.input(Input::Ahead(Ahead::OFF));
    assert!(!s.is_ahead(v6(1)) && matches!(s.outputs.last(), Some((_, Output::Close(_)))), "{:?}", s.outputs);
    assert_eq!(s.connector.poll_timeout(), None, "and nothing wakes it any more");
}

#[test]
fn what_starts_have_asked_for_is_looked_up_with_the_first_sign_of_the_next_and_a_spare_is_opened() {
    let other = "other.example";
    let mut s = aside(Ahead::ON)
        .dns(other, Family::V4, says(10, &[v4(2)]))
        .dns(other, Family::V6, Dns::Says(10, LookupResult::NoData(Duration::from_secs(60))))
        .host(v4(2), Host::Answers(20));
    for _ in 0..4 {
        s.start(1, 1);
        s.asks(other, RecordType::A);
        s.overhear(other, RecordType::A, &[v4(2)], 1);
        s.goes(v4(2), 443);
        s.pass(100_000);
        s.connector.close_account(s.account);
        s.drain();
        s.account += 1;
    }
    let (before, began) = (s.outputs.len(), s.now);
    s.asks(NAME, RecordType::A);
    let ahead = s.outputs[before..].iter().filter_map(|(_, o)| match o {
        Output::Query { name, .. } => Some(&**name),
        _ => None,
    });
    let ahead: Vec<_> = ahead.collect();
    assert!(ahead.contains(&other) && !ahead.contains(&NAME), "its own question is its own: {ahead:?}");
    s.run_while(began + ms(5000), |o| matches!(o, Output::Watch(_)));
    assert!(s.begun().iter().any(|(_, to)| *to == v4(2)), "{:?}", &s.outputs[before..]);
}

#[test]
fn what_a_program_was_told_by_others_is_told_again_here() {
    let mut s = aside(Ahead::OFF);
    s.overhear(NAME, RecordType::A, &[v4(1), v4(2)], 60);
    s.overhear(NAME, RecordType::Aaaa, &[], 60);
    assert!(s.connector.knows_another(&app(), v4(1)) && !s.connector.knows_another(&app(), v4(3)));
    assert_eq!(s.resolve("curl", NAME, Want::Both, None), Resolved::Addresses(vec![v4(1), v4(2)]));
    assert_eq!(s.resolve("curl", NAME, Want::Only(Family::V6), None), Resolved::NoData);
    assert_eq!(s.sent(), 0);
}

#[test]
fn what_is_begun_with_a_question_is_counted_on_the_run_that_asks() {
    let mut s = aside(Ahead::ON).host(v6(1), Host::Answers(20)).host(v4(1), Host::Answers(20));
    s.account = 3;
    s.start(1, 300);
    let before = s.connector.tally_of(3);
    assert_eq!((before.cache_misses, before.cache_hits), (2, 0));
    s.asks(NAME, RecordType::Aaaa);
    let since = s.connector.tally_of(3).since(&before);
    assert_eq!((since.attempts, since.cache_misses), (1, 0));
    assert_eq!(since.cache_hits, 1 + 2, "the question, and both families for the connection");
}

#[test]
fn a_connection_that_is_on_its_way_to_another_address_is_not_ahead_of_a_socket_that_cannot_go_there() {
    let mut s = aside(Ahead::ON).host(v6(1), Host::Answers(20));
    s.start(1, 300);
    s.asks(NAME, RecordType::Aaaa);
    let (request, claim) = s.to(v4(1), 443);
    let claim = Claim { domain: Family::V4, accepts_mapped: false, ..claim };
    assert!(s.is_ahead(v6(1)) && !s.connector.is_ahead_of(s.now, request, &claim));
}

#[test]
fn it_is_known_which_program_a_query_is_sent_for_as_long_as_it_is_open() {
    let mut s = aside(Ahead::OFF).dns(NAME, Family::V4, says(10, &[v4(1)]));
    let ask = Resolve { app: app(), name: NAME.into(), want: Want::Only(Family::V4), port: None };
    s.input(Input::Resolve(RequestId(900), ask));
    let query = |(_, o): &(u64, Output)| if let Output::Query { id, .. } = o { Some(*id) } else { None };
    let id = s.outputs.iter().find_map(query).unwrap();
    assert_eq!(s.connector.asker(id), Some(app()));
    s.pass(10);
    assert_eq!(s.connector.asker(id), None);
}

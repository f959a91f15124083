//! Steering as stories: both ends in virtual time, channels of a fixed rate and delay between them.

use super::*;
use crate::steer::flow::FlowKey;
use crate::steer::policy;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// The paper's channels (section 4.1): 1500 Mbit/s and 30 ms, 2 Mbit/s and 5 ms.
fn settings(policy: &str, probes: Option<ProbeSettings>) -> Settings {
    let channel = |rate, micros| ChannelSettings {
        rate,
        delay: Duration::from_micros(micros),
        loss: None,
        overhead: 0,
        compresses: false,
        uses: Use::Primary,
    };
    Settings {
        policy: policy::find(policy).unwrap(),
        uplink: true,
        full: 1480,
        channels: [channel(1_500_000_000, 15_000), channel(2_000_000, 2_500)],
        probes,
    }
}

fn packet(flow: u64, kind: Kind, len: usize) -> Facts {
    let payload = if kind.is_control() { 0 } else { len - 52 };
    Facts { len, payload, ..Facts::of(FlowKey(flow), kind) }
}

fn ack(flow: u64, number: u32) -> Facts {
    Facts { ack: Some(number), ..packet(flow, Kind::Ack, 52) }
}

fn sent(steerer: &mut Steerer<u32>) -> Vec<(Channel, u32)> {
    let sends = std::iter::from_fn(|| steerer.poll_output()).filter_map(|output| match output {
        Output::Send { channel, packet, .. } => Some((channel, packet)),
        _ => None,
    });
    sends.collect()
}

#[test]
fn every_policy_gives_every_packet_to_a_channel_once() {
    for entry in policy::ALL {
        let mut steerer = Steerer::new(settings(entry.name, None));
        let mut out = Vec::new();
        for n in 0..500u32 {
            let facts = match n % 5 {
                0 => packet(u64::from(n % 7), Kind::Open, 60),
                1 => packet(u64::from(n % 7), Kind::Data, 1500),
                2 => ack(u64::from(n % 7), 5),
                3 => packet(u64::from(n % 7), Kind::Dns, 80),
                _ => packet(u64::from(n % 7), Kind::Data, 300),
            };
            steerer.handle_input(Instant::from_nanos(u64::from(n) * 100_000), Input::Packet(facts, n));
            out.extend(sent(&mut steerer));
        }
        while let Some(deadline) = steerer.poll_timeout() {
            steerer.handle_timeout(deadline.at);
            out.extend(sent(&mut steerer));
        }
        let mut numbers: Vec<u32> = out.iter().map(|(_, n)| *n).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..500), "{}", entry.name);
        let tally = steerer.tally();
        assert_eq!(tally.packets(Channel::Fat) + tally.packets(Channel::Fast), 500, "{}", entry.name);
        assert_eq!(entry.queues, tally.packets(Channel::Fast) < 500 && entry.name == "value", "{}", entry.name);
    }
}

#[test]
fn the_fast_channel_is_paced_a_little_below_its_rate() {
    let mut steerer = Steerer::new(settings("value", None));
    for n in 0..4 {
        steerer.handle_input(ms(0), Input::Packet(packet(n, Kind::Open, 250), n as u32));
    }
    assert_eq!(sent(&mut steerer), [(Channel::Fast, 0)]);
    // 250 bytes at 0.97 of 2 Mbit/s are 1.031 ms.
    let deadline = steerer.poll_timeout().unwrap();
    assert_eq!((deadline.at.as_nanos() / 1_000, deadline.why), (1_030, "pacing of the fast channel"));
    steerer.handle_timeout(ms(1));
    assert_eq!(sent(&mut steerer), []);
    steerer.handle_timeout(ms(4));
    assert_eq!(sent(&mut steerer).len(), 1, "the channel is busy again after each");
}

#[test]
fn an_acknowledgement_that_has_not_left_is_replaced_by_the_newer_one() {
    let mut steerer = Steerer::new(settings("value", None));
    for n in 0..10u32 {
        steerer.handle_input(ms(0), Input::Packet(ack(1, 1_000 * n), n));
    }
    let mut out = sent(&mut steerer);
    while let Some(deadline) = steerer.poll_timeout() {
        steerer.handle_timeout(deadline.at);
        out.extend(sent(&mut steerer));
    }
    assert_eq!(out, [(Channel::Fast, 0), (Channel::Fast, 9)]);
    assert_eq!(steerer.tally().replaced, 8);
}

#[test]
fn when_the_queue_has_grown_packets_go_over_the_fat_channel_and_none_waits_longer_than_that_takes() {
    let mut steerer = Steerer::new(settings("value", None));
    for n in 0..400u64 {
        steerer.handle_input(ms(0), Input::Packet(packet(n, Kind::Data, 400), n as u32));
    }
    let mut last = ms(0);
    let mut fast = sent(&mut steerer).iter().filter(|(c, _)| *c == Channel::Fast).count();
    while let Some(deadline) = steerer.poll_timeout() {
        last = deadline.at;
        steerer.handle_timeout(last);
        fast += sent(&mut steerer).iter().filter(|(c, _)| *c == Channel::Fast).count();
    }
    assert!(last < ms(13) && (4..=8).contains(&fast), "{last:?} {fast}");
}

#[test]
fn what_must_not_be_overtaken_is_said_and_acknowledgements_stand_in_nobodys_order() {
    let mut steerer = Steerer::new(settings("pkt-state", None));
    let mut order = |facts: Facts| {
        steerer.handle_input(ms(0), Input::Packet(facts, 0u32));
        match steerer.poll_output() {
            Some(Output::Send { channel, order, .. }) => (channel, order.number, order.after),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(order(packet(1, Kind::Data, 1500)), (Channel::Fat, 1, None));
    assert_eq!(order(packet(1, Kind::Data, 300)), (Channel::Fat, 2, None));
    assert_eq!(order(packet(1, Kind::Data, 300)), (Channel::Fast, 1, Some(2)));
    assert_eq!(order(ack(1, 7)), (Channel::Fast, 2, None));
    assert_eq!(order(packet(2, Kind::Data, 300)), (Channel::Fast, 3, None));
    assert_eq!(order(packet(1, Kind::Data, 1500)), (Channel::Fat, 3, Some(1)));
}

/// A steerer with a packet a millisecond, on channels of which one is dead within `dead`; by millisecond, where packets went.
fn with_probes(policy: &str, dead: Channel, within: std::ops::Range<u64>, until: u64) -> Vec<Channel> {
    let mut steerer = Steerer::new(settings(policy, Some(ProbeSettings::default())));
    let mut echoes: Vec<(u64, Channel, u16)> = Vec::new();
    let mut went = Vec::new();
    for milli in 0..until {
        for (_, channel, number) in echoes.extract_if(.., |(at, ..)| *at <= milli) {
            steerer.handle_input(ms(milli), Input::Echo { channel, number, come: None });
        }
        steerer.handle_input(ms(milli), Input::Packet(packet(milli, Kind::Open, 60), 0));
        steerer.handle_timeout(ms(milli));
        while let Some(output) = steerer.poll_output() {
            match output {
                Output::Send { channel, .. } => went.push(channel),
                Output::Probe { channel, number } => {
                    let takes = if channel == Channel::Fat { 30 } else { 5 };
                    if channel != dead || !within.contains(&milli) {
                        echoes.push((milli + takes, channel, number));
                    }
                }
                Output::Again { .. } | Output::Drop(_) => {}
            }
        }
    }
    went
}

#[test]
fn a_dead_channel_is_left_to_the_other_and_taken_again_both_ways() {
    let went = with_probes("value", Channel::Fast, 1_000..2_000, 4_000);
    assert!(went[100..1_000].iter().all(|c| *c == Channel::Fast));
    assert!(went[1_180..2_000].iter().all(|c| *c == Channel::Fat));
    assert!(went[2_600..].iter().all(|c| *c == Channel::Fast));
    let went = with_probes("single-fat", Channel::Fat, 1_000..2_000, 4_000);
    assert!(went[1_180..2_000].iter().all(|c| *c == Channel::Fast));
    assert!(went[2_600..].iter().all(|c| *c == Channel::Fat));
    // Dead from the start.
    assert!(with_probes("value", Channel::Fast, 0..9_000, 1_000)[180..].iter().all(|c| *c == Channel::Fat));
}

#[test]
fn a_fast_channel_that_has_become_the_slower_one_is_not_taken_until_it_recovers() {
    let mut steerer = Steerer::new(settings("value", Some(ProbeSettings::default())));
    let (mut echoes, mut went): (Vec<(u64, Channel, u16)>, Vec<Channel>) = Default::default();
    for milli in 0..12_000u64 {
        for (_, channel, number) in echoes.extract_if(.., |(at, ..)| *at <= milli) {
            steerer.handle_input(ms(milli), Input::Echo { channel, number, come: None });
        }
        steerer.handle_input(ms(milli), Input::Packet(packet(milli, Kind::Open, 60), 0));
        steerer.handle_timeout(ms(milli));
        while let Some(output) = steerer.poll_output() {
            match output {
                Output::Send { channel, .. } => went.push(channel),
                Output::Probe { channel: Channel::Fat, number } => echoes.push((milli + 30, Channel::Fat, number)),
                Output::Probe { channel, number } => {
                    echoes.push((milli + if (1_000..6_000).contains(&milli) { 60 } else { 5 }, channel, number));
                }
                Output::Again { .. } | Output::Drop(_) => {}
            }
        }
    }
    assert!(went[500..1_000].iter().all(|c| *c == Channel::Fast));
    assert!(went[5_000..6_000].iter().all(|c| *c == Channel::Fat));
    assert!(went[6_500..].iter().all(|c| *c == Channel::Fast));
}

/// Where a name, data and a full packet go by `value`, on channels that may be used for this and are dead or not.
fn uses(uses: [Use; 2], dead: Option<Channel>) -> [Option<Channel>; 3] {
    let mut settings = settings("value", Some(ProbeSettings::default()));
    for (channel, of) in settings.channels.iter_mut().zip(uses) {
        channel.uses = of;
    }
    let mut steerer = Steerer::new(settings);
    // Until a channel that does not answer is known to be dead.
    for milli in 0..400 {
        steerer.handle_timeout(ms(milli));
        while let Some(output) = steerer.poll_output() {
            if let Output::Probe { channel, number } = output {
                assert_ne!(uses[channel.index()], Use::Never, "what must not be used is not probed");
                if dead != Some(channel) {
                    let at = ms(milli + if channel == Channel::Fat { 30 } else { 5 });
                    steerer.handle_input(at, Input::Echo { channel, number, come: None });
                }
            }
        }
    }
    let packets = [packet(1, Kind::Dns, 80), packet(2, Kind::Data, 300), packet(3, Kind::Data, 1500)];
    packets.map(|facts| {
        steerer.handle_input(ms(1_000), Input::Packet(facts, 0));
        let mut now = ms(1_000);
        loop {
            match steerer.poll_output() {
                Some(Output::Send { channel, .. }) => return Some(channel),
                Some(Output::Drop(_)) => return None,
                Some(Output::Probe { .. } | Output::Again { .. }) => {}
                None => {
                    now += Duration::from_millis(1);
                    steerer.handle_timeout(now);
                }
            }
        }
    })
}

#[test]
fn a_channel_is_used_for_no_more_than_its_word_says() {
    let [fat, fast] = [Some(Channel::Fat), Some(Channel::Fast)];
    let of = |fat, fast| uses([fat, fast], None);
    assert_eq!(of(Use::Primary, Use::Primary), [fast, fast, fat]);
    assert_eq!(of(Use::Primary, Use::Secondary), [fast, fat, fat]);
    assert_eq!(of(Use::Primary, Use::Backup), [fat, fat, fat]);
    assert_eq!(of(Use::Primary, Use::Never), [fat, fat, fat]);
    assert_eq!(of(Use::Secondary, Use::Primary), [fast, fast, fast]);
    assert_eq!(of(Use::Never, Use::Backup), [fast, fast, fast]);
    assert_eq!(of(Use::Never, Use::Never), [None; 3]);
}

#[test]
fn in_need_a_backup_is_taken_and_what_must_never_be_used_is_not() {
    let of = |fast| uses([Use::Primary, fast], Some(Channel::Fat));
    assert_eq!(of(Use::Secondary), [Some(Channel::Fast); 3]);
    assert_eq!(of(Use::Backup), [Some(Channel::Fast); 3]);
    // Whoever has paid for no more waits for the other one.
    assert_eq!(of(Use::Never), [Some(Channel::Fat); 3]);
}

#[test]
fn what_waits_for_a_channel_whose_cap_is_reached_goes_over_the_other_one() {
    let mut steerer = Steerer::new(settings("value", None));
    for n in 0..4 {
        steerer.handle_input(ms(0), Input::Packet(packet(n, Kind::Open, 250), n as u32));
    }
    assert_eq!((sent(&mut steerer).len(), steerer.backlog()), (1, 3));
    steerer.allow(ms(0), Channel::Fast, Use::Never);
    assert_eq!(sent(&mut steerer).iter().filter(|(channel, _)| *channel == Channel::Fat).count(), 3);
    steerer.handle_input(ms(1), Input::Packet(packet(9, Kind::Open, 60), 9));
    assert_eq!(sent(&mut steerer), [(Channel::Fat, 9)]);
    steerer.allow(ms(2), Channel::Fast, Use::Primary);
    steerer.handle_input(ms(3), Input::Packet(packet(10, Kind::Open, 60), 10));
    assert_eq!(sent(&mut steerer), [(Channel::Fast, 10)]);
}

/// Data of 400 bytes from number `seq` on, which acknowledges `ack`, without options.
fn said(seq: u32, ack: u32) -> Facts {
    Facts { payload: 400, seq, ack: Some(ack), plain: true, ..packet(1, Kind::Data, 452) }
}

/// Sends it; over which channel it went, and what was set apart of it.
fn went(steerer: &mut Steerer<u32>, at: u64, facts: Facts) -> (Channel, Option<Apart>) {
    steerer.handle_input(ms(at), Input::Packet(facts, 0));
    steerer.handle_timeout(ms(at));
    match steerer.poll_output() {
        Some(Output::Send { channel, apart, .. }) => (channel, apart),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_came_over_the_fast_channel_is_acknowledged_over_the_fat_one() {
    let mut steerer = Steerer::new(settings("value", None));
    assert_eq!(went(&mut steerer, 0, ack(1, 100)).0, Channel::Fast);
    steerer.handle_input(ms(5), Input::Seen(said(100, 7), Channel::Fast));
    steerer.handle_input(ms(5), Input::Seen(said(500, 7), Channel::Fast));
    assert_eq!(went(&mut steerer, 5, ack(1, 900)), (Channel::Fat, None));
    // What came before may be told as before, and so may what another flow has.
    assert_eq!(went(&mut steerer, 5, ack(1, 100)).0, Channel::Fast);
    assert_eq!(went(&mut steerer, 6, ack(2, 900)).0, Channel::Fast);
    // What comes over the fat channel behind it frees the way, what is sent again of before it does not.
    steerer.handle_input(ms(8), Input::Seen(Facts { payload: 50, ..said(50, 7) }, Channel::Fat));
    assert_eq!(went(&mut steerer, 8, ack(1, 901)).0, Channel::Fat);
    steerer.handle_input(ms(9), Input::Seen(said(900, 7), Channel::Fat));
    assert_eq!(went(&mut steerer, 9, ack(1, 1_300)).0, Channel::Fast);
}

#[test]
fn a_request_leaves_behind_what_it_acknowledges_until_that_has_arrived() {
    let mut steerer = Steerer::new(settings("value", None));
    steerer.handle_input(ms(5), Input::Seen(said(100, 7), Channel::Fast));
    let apart = |order| Some(Apart { back_to: 100, order });
    let order = Some(Order { number: 1, after: None });
    assert_eq!(went(&mut steerer, 5, said(7, 500)), (Channel::Fast, apart(order)));
    // It is said once, and not at all any more when it must have arrived 15 ms later.
    assert_eq!(went(&mut steerer, 7, said(407, 500)), (Channel::Fast, apart(None)));
    assert_eq!(went(&mut steerer, 20, said(807, 500)), (Channel::Fast, None));
    // The next answer, the same again, up to what was told.
    steerer.handle_input(ms(21), Input::Seen(said(500, 1_207), Channel::Fast));
    let order = Some(Order { number: 2, after: None });
    assert_eq!(went(&mut steerer, 22, said(1_207, 900)), (Channel::Fast, Some(Apart { back_to: 500, order })));
    assert_eq!(steerer.tally().apart, 2);
    // What cannot be changed goes the way of what it says.
    steerer.handle_input(ms(40), Input::Seen(said(900, 1_607), Channel::Fast));
    assert_eq!(went(&mut steerer, 41, Facts { plain: false, ..said(1_607, 1_300) }), (Channel::Fat, None));
}

#[test]
fn without_the_fat_channel_everything_is_acknowledged_over_the_fast_one() {
    let mut settings = settings("value", None);
    settings.channels[0].uses = Use::Never;
    let mut steerer = Steerer::new(settings);
    steerer.handle_input(ms(5), Input::Seen(said(100, 7), Channel::Fast));
    assert_eq!(went(&mut steerer, 5, ack(1, 500)), (Channel::Fast, None));
    assert_eq!(went(&mut steerer, 7, said(7, 500)), (Channel::Fast, None));
}

#[test]
fn the_papers_rules_acknowledge_as_they_were_published() {
    let mut steerer = Steerer::new(settings("pkt-state", None));
    steerer.handle_input(ms(5), Input::Seen(said(100, 7), Channel::Fast));
    assert_eq!(went(&mut steerer, 5, said(7, 500)), (Channel::Fast, None));
}

#[test]
fn decisions_are_told_with_what_they_gained() {
    let mut steerer = Steerer::new(settings("value", None));
    steerer.handle_input(ms(0), Input::Packet(packet(1, Kind::Open, 60), 0u32));
    let reason = steerer.tally().reasons[0];
    assert_eq!((reason.why, reason.channel, reason.packets), ("opening", Channel::Fast, 1));
    assert!((12..=13).contains(&reason.gained.as_millis()), "{reason:?}");
}

#[test]
fn twenty_thousand_flows_need_little_room() {
    let mut steerer = Steerer::new(settings("value", None));
    for n in 0..20_000u64 {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        steerer.handle_input(ms(n), Input::Packet(packet(key, Kind::Open, 60), 0u32));
        steerer.handle_timeout(ms(n));
        while steerer.poll_output().is_some() {}
    }
    assert!(steerer.memory() < 60_000_000, "{}", steerer.memory());
}

/// A steerer by `value` whose fat channel has never answered, a second on; and what it sends from then on, by millisecond.
struct InNeed {
    steerer: Steerer<u32>,
    now: u64,
    echoes: Vec<(u64, Channel, u16)>,
    /// The fat channel answers from now on.
    is_back: bool,
    out: Vec<(u64, Channel, u32)>,
}

impl InNeed {
    fn new() -> Self {
        let steerer = Steerer::new(settings("value", Some(ProbeSettings::default())));
        let mut new = Self { steerer, now: 0, echoes: Vec::new(), is_back: false, out: Vec::new() };
        new.pass(1_000);
        assert!(!new.steerer.is_alive(Channel::Fat) && new.steerer.is_alive(Channel::Fast));
        new
    }

    fn send(&mut self, facts: Facts, number: u32) {
        self.steerer.handle_input(ms(self.now), Input::Packet(facts, number));
    }

    fn pass(&mut self, millis: u64) {
        for milli in self.now..self.now + millis {
            for (_, channel, number) in self.echoes.extract_if(.., |(at, ..)| *at <= milli) {
                self.steerer.handle_input(ms(milli), Input::Echo { channel, number, come: None });
            }
            self.steerer.handle_timeout(ms(milli));
            while let Some(output) = self.steerer.poll_output() {
                match output {
                    Output::Send { channel, packet, .. } => self.out.push((milli, channel, packet)),
                    Output::Probe { channel: Channel::Fast, number } => {
                        self.echoes.push((milli + 5, Channel::Fast, number));
                    }
                    Output::Probe { number, .. } if self.is_back => {
                        self.echoes.push((milli + 30, Channel::Fat, number))
                    }
                    Output::Probe { .. } | Output::Again { .. } | Output::Drop(_) => {}
                }
            }
        }
        self.now += millis;
    }

    /// When a packet left, and over which channel.
    fn left(&self, number: u32) -> Option<(u64, Channel)> {
        self.out.iter().find(|(_, _, n)| *n == number).map(|(at, channel, _)| (*at - 1_000, *channel))
    }
}

#[test]
fn without_the_fat_channel_nothing_waits_long_for_the_fast_one_and_what_is_small_goes_by_what_is_not() {
    let mut need = InNeed::new();
    for n in 0..700 {
        need.send(packet(1, Kind::Data, 1500), n);
    }
    // The end of what went before it stays behind it; others pass by.
    need.send(packet(1, Kind::Data, 400), 700);
    for (n, facts) in [packet(2, Kind::Open, 60), packet(3, Kind::Dns, 80), packet(4, Kind::Data, 400), ack(5, 9)]
        .into_iter()
        .enumerate()
    {
        need.send(facts, 1_000 + n as u32);
    }
    need.pass(600);
    // 1500 bytes take 6.2 ms, and 16 of them 99 ms.
    let bulk: Vec<u64> = (0..700).filter_map(|n| need.left(n)).map(|(at, _)| at).collect();
    assert!((16..=18).contains(&bulk.len()) && bulk.is_sorted() && *bulk.last().unwrap() < 140, "{bulk:?}");
    assert_eq!(need.steerer.tally().dropped, 700 + 1 - bulk.len() as u64);
    assert_eq!(need.left(700), None, "there is no room for what may overtake nobody");
    let small: Vec<u64> = (1_000..1_004).map(|n| need.left(n).unwrap().0).collect();
    assert!(small.iter().all(|at| *at < 40), "{small:?}");
}

#[test]
fn without_the_fat_channel_what_is_sent_again_goes_before_what_comes_after_it_however_much_waits() {
    let mut need = InNeed::new();
    let segment = |n: u32| Facts { seq: n * 1_448, ..packet(1, Kind::Data, 1_500) };
    for n in 10..700 {
        need.send(segment(n), n);
    }
    for n in 0..3 {
        need.send(segment(n), n);
    }
    need.pass(600);
    // One was on its way; 1500 bytes take 6.2 ms.
    let again: Vec<u64> = (0..3).map(|n| need.left(n).unwrap().0).collect();
    assert!(again.is_sorted() && again[2] < 25, "{again:?}");
    let numbers: Vec<u32> = need.out.iter().map(|(_, _, n)| *n).collect();
    assert!((16..=18).contains(&numbers.len()) && numbers[1..].is_sorted(), "{numbers:?}");
    assert_eq!(need.steerer.tally().dropped, 693 - numbers.len() as u64);
}

#[test]
fn a_fat_channel_that_is_back_takes_all_that_waits_at_once_in_its_order() {
    let mut need = InNeed::new();
    need.is_back = true;
    // Until a probe has come back, one each half second.
    let mut number = 0;
    while !need.steerer.is_alive(Channel::Fat) {
        need.send(packet(1, Kind::Data, 1500), number);
        number += 1;
        need.pass(1);
        assert!(need.now < 2_000);
    }
    let back = need.now - 1_000;
    assert!(need.steerer.backlog() == 0, "{}", need.steerer.backlog());
    need.send(packet(1, Kind::Data, 1500), number);
    need.pass(1);
    assert_eq!(need.left(number), Some((back, Channel::Fat)));
    let numbers: Vec<u32> = need.out.iter().map(|(_, _, n)| *n).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(need.out.iter().filter(|(_, channel, _)| *channel == Channel::Fat).count() > 10);
}

#[test]
fn what_a_dead_channel_had_is_not_waited_for() {
    let mut steerer = Steerer::new(settings("value", Some(ProbeSettings::default())));
    let mut afters = Vec::new();
    for milli in 0..400 {
        steerer.handle_timeout(ms(milli));
        if milli % 100 == 0 {
            steerer.handle_input(ms(milli), Input::Packet(packet(1, Kind::Data, 1500), 0));
        }
        while let Some(output) = steerer.poll_output() {
            match output {
                Output::Send { channel, order, .. } => afters.push((channel, order.after)),
                Output::Probe { channel: Channel::Fast, number } => {
                    steerer.handle_input(ms(milli), Input::Echo { channel: Channel::Fast, number, come: None });
                }
                _ => {}
            }
        }
    }
    let [fat, fast] = [(Channel::Fat, None), (Channel::Fast, None)];
    assert_eq!(afters, [fat, fat, fast, fast]);
}

#[test]
fn what_is_small_and_dear_to_lose_takes_both_channels_where_the_fast_one_loses() {
    let copies = |loss: f64| {
        let mut settings = settings("value", None);
        settings.channels[0].loss = Some(0.0);
        settings.channels[1].loss = Some(loss);
        let mut steerer = Steerer::new(settings);
        let flight = Facts { tls: true, ..packet(5, Kind::Data, 1500) };
        let packets =
            [packet(1, Kind::Open, 60), packet(2, Kind::Dns, 80), packet(3, Kind::Data, 400), ack(4, 9), flight];
        packets.map(|facts| {
            // Long enough apart for nobody to wait.
            let at = ms(100 * facts.flow.0);
            steerer.handle_input(at, Input::Packet(facts, 0u32));
            match steerer.poll_output() {
                Some(Output::Send { channel, copy, .. }) => (channel, copy),
                other => panic!("{other:?}"),
            }
        })
    };
    let [fat, fast] = [(Channel::Fat, None), (Channel::Fast, None)];
    let twice = |number| (Channel::Fast, Some(number));
    assert_eq!(copies(0.01), [twice(1), twice(2), twice(3), fast, fat]);
    assert_eq!(copies(0.3), [twice(1), twice(2), twice(3), fast, fat]);
    assert_eq!(copies(0.0), [fast; 5]);
}

#[test]
fn the_one_that_is_left_of_many_acknowledgements_takes_both_channels_where_the_fast_one_loses() {
    let copied = |acks: &[u32]| {
        let mut settings = settings("value", None);
        settings.channels[0].loss = Some(0.0);
        settings.channels[1].loss = Some(0.01);
        let mut steerer = Steerer::new(settings);
        // Keeps the fast channel from the others for a while.
        steerer.handle_input(ms(0), Input::Packet(packet(3, Kind::Dns, 600), 0u32));
        for number in acks {
            steerer.handle_input(ms(0), Input::Packet(ack(4, *number), *number));
        }
        steerer.handle_timeout(ms(20));
        let sends = std::iter::from_fn(|| steerer.poll_output()).filter_map(|output| match output {
            Output::Send { copy, packet, .. } => Some((packet, copy.is_some())),
            _ => None,
        });
        sends.collect::<Vec<_>>()
    };
    assert_eq!(copied(&[9]), [(0, true), (9, false)]);
    assert_eq!(copied(&[9, 20, 30]), [(0, true), (30, true)]);
}

/// A steerer with probes that are answered at once until `lost`, whose packets are kept as a tunnel keeps them: what it sends, by millisecond.
fn until_after_the_loss(lost: u64, packets: &[(u64, Facts)]) -> Vec<(u64, Output<u32>)> {
    let mut steerer = Steerer::new(settings("value", Some(ProbeSettings::default())));
    let (mut numbers, mut out) = (0, Vec::new());
    for milli in 0..lost + 400 {
        for (_, facts) in packets.iter().filter(|(at, _)| *at == milli) {
            steerer.handle_input(ms(milli), Input::Packet(*facts, numbers));
            numbers += 1;
        }
        steerer.handle_timeout(ms(milli));
        while let Some(output) = steerer.poll_output() {
            match output {
                Output::Probe { channel, number } if channel == Channel::Fast || milli < lost => {
                    steerer.handle_input(ms(milli), Input::Echo { channel, number, come: None });
                }
                Output::Send { channel, order, facts, packet, .. } => {
                    steerer.keep(ms(milli), channel, order.number, facts, packet);
                    out.push((milli, output));
                }
                _ => out.push((milli, output)),
            }
        }
    }
    out
}

#[test]
fn the_last_of_each_flow_on_a_channel_that_is_lost_goes_again_over_the_other_one() {
    let full = |flow, seq| Facts { seq, ..packet(flow, Kind::Data, 1_480) };
    // Two of a flow before the loss, which arrive; two of it and one of another flow behind it.
    let all = [(900, full(1, 0)), (901, full(1, 1)), (1_001, full(1, 2)), (1_002, full(2, 0)), (1_003, full(1, 3))];
    let out = until_after_the_loss(1_000, &all);
    let again: Vec<_> = out
        .iter()
        .filter_map(|(at, output)| match output {
            Output::Again { channel, of, packet, .. } => Some((*at, *channel, *of, *packet)),
            _ => None,
        })
        .collect();
    let expected = [(4, 3), (5, 4)];
    assert_eq!(again.iter().map(|(_, _, of, packet)| (*of, *packet)).collect::<Vec<_>>(), expected, "{again:?}");
    assert!(
        again.iter().all(|(at, channel, ..)| *channel == Channel::Fast && (1_100..=1_170).contains(at)),
        "{again:?}"
    );
}

#[test]
fn what_is_small_takes_both_channels_while_one_is_missed() {
    let small = |flow| packet(flow, Kind::Datagram, 200);
    let all: Vec<_> = (900..1_200).step_by(10).map(|at| (at, small(at))).collect();
    let out = until_after_the_loss(1_000, &all);
    let copied = |from: u64, to: u64| {
        let of_then = out.iter().filter(|(at, _)| (from..to).contains(at));
        let copies = of_then.map(|(_, output)| match output {
            Output::Send { copy, .. } => Some(copy.is_some()),
            _ => None,
        });
        copies.flatten().collect::<Vec<_>>()
    };
    assert!(copied(900, 1_000).iter().all(|copied| !copied), "{:?}", copied(900, 1_000));
    assert!(copied(1_090, 1_110).iter().all(|copied| *copied), "{:?}", copied(1_090, 1_110));
    assert!(copied(1_180, 1_200).iter().all(|copied| !copied), "it is lost, and known to be");
}

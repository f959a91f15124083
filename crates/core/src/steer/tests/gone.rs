//! A channel that is dead, or slower than it was: left to the other one, taken again, and what waits in need.

use super::*;

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
fn what_a_lost_channel_had_goes_again_as_far_as_the_other_one_has_room() {
    let mut steerer = Steerer::new(settings("single-fat", Some(ProbeSettings::default())));
    for n in 0..20u32 {
        let facts = packet(n.into(), Kind::Data, 1_480);
        assert_eq!(steerer.keep(ms(0), Channel::Fat, u64::from(n) + 1, facts, n), None);
    }
    steerer.turn(ms(10), Channel::Fat, Turn::Lost);
    let outputs: Vec<_> = std::iter::from_fn(|| steerer.poll_output()).collect();
    let again = outputs.iter().filter(|output| matches!(output, Output::Again { channel: Channel::Fast, .. })).count();
    // 5.9 ms each, until they take more than 40.
    assert_eq!((again, outputs.len(), steerer.tally().again), (7, 20, 7));
    // Nothing goes again over one that is dead too.
    steerer.keep(ms(900), Channel::Fast, 1, packet(1, Kind::Data, 300), 1);
    steerer.turn(ms(900), Channel::Fast, Turn::Lost);
    assert_eq!(steerer.poll_output(), Some(Output::Drop(1)));
    steerer.turn(ms(950), Channel::Fast, Turn::Back);
    assert_eq!(steerer.tally().lost_channels, 2);
}

#[test]
fn a_packet_that_its_channel_cannot_take_says_why_it_goes_over_the_other_one() {
    let why = |fat, fast, lost: &[Channel]| {
        let mut settings = settings("value", None);
        (settings.channels[0].uses, settings.channels[1].uses) = (fat, fast);
        let mut steerer = Steerer::new(settings);
        lost.iter().for_each(|channel| steerer.turn(ms(0), *channel, Turn::Lost));
        steerer.handle_input(ms(0), Input::Packet(packet(1, Kind::Open, 60), 0u32));
        let said = steerer.tally().reasons.first().map(|reason| (reason.channel, reason.why));
        (said, steerer.tally().forbidden)
    };
    let [any, spare, never] = [Use::Primary, Use::Backup, Use::Never];
    assert_eq!(why(any, any, &[Channel::Fast]), (Some((Channel::Fat, "the other channel is dead")), 0));
    assert_eq!(why(any, spare, &[]), (Some((Channel::Fat, "the other channel is kept")), 0));
    assert_eq!(why(never, never, &[]), (None, 1));
}

#[test]
fn what_waits_is_moved_to_a_channel_that_is_as_good_and_not_to_one_that_is_as_dead() {
    let waits = |uses: Use, lost: &[Channel]| {
        let mut settings = settings("value", None);
        settings.channels.iter_mut().for_each(|channel| channel.uses = uses);
        let mut steerer = Steerer::new(settings);
        lost.iter().for_each(|channel| steerer.turn(ms(0), *channel, Turn::Lost));
        // What opens goes before what acknowledges, which then waits for longer than the fat channel takes.
        (0..35).for_each(|n| steerer.handle_input(ms(0), Input::Packet(ack(n, 5), 0u32)));
        (0..40).for_each(|n| steerer.handle_input(ms(0), Input::Packet(packet(n, Kind::Open, 60), 0)));
        (steerer.backlog() > 50, steerer.tally().moved > 0)
    };
    assert_eq!(waits(Use::Primary, &Channel::ALL), (true, false));
    assert_eq!([Use::Primary, Use::Backup].map(|uses| waits(uses, &[]).1), [true; 2]);
}

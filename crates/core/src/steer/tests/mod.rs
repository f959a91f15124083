//! Steering as stories: both ends in virtual time, channels of a fixed rate and delay between them.

mod apart;
mod gone;
mod twice;
mod uses;

use super::*;
use crate::steer::outlet::{Apart, Order};
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
fn nobody_is_told_to_stand_behind_what_has_long_come() {
    let mut steerer = Steerer::new(settings("pkt-state", None));
    let mut after = |at: u64, facts: Facts| {
        steerer.handle_input(ms(at), Input::Packet(facts, 0u32));
        let sends = std::iter::from_fn(|| steerer.poll_output()).filter_map(|output| match output {
            Output::Send { channel, order, .. } => Some((channel, order.after)),
            _ => None,
        });
        sends.last().unwrap()
    };
    let (full, key_press) = (|flow| packet(flow, Kind::Data, 1480), packet(1, Kind::Data, 100));
    for at in [0, 1] {
        assert_eq!(after(at, full(1)).0, Channel::Fat);
    }
    // The tail of what was full takes the fat channel too.
    assert_eq!([2, 3].map(|at| after(at, key_press)), [(Channel::Fat, None), (Channel::Fast, Some(3))]);
    // Others send so much over the fat channel that sixteen bits of a number no longer tell before from behind.
    for at in 4..40_003 {
        after(at, full(2));
    }
    assert_eq!(after(40_003, key_press), (Channel::Fast, None));
    // What has only just been sent there is waited for, however many there were before.
    after(40_004, full(1));
    assert_eq!(
        [40_005, 40_006].map(|at| after(at, key_press)),
        [(Channel::Fat, Some(2)), (Channel::Fast, Some(40_004))]
    );
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
    assert!((1_000_000..60_000_000).contains(&steerer.memory()), "{}", steerer.memory());
}

#[test]
fn the_other_end_holds_packets_for_as_long_as_the_channels_differ_and_jitter() {
    let mut steerer = Steerer::<u32>::new(settings("value", None));
    // 15 and 2.5 ms one way: one and a half times 12.5.
    assert_eq!(steerer.hold(), Duration::from_micros(18_750));
    // The first round trip varies by half of itself (RFC 6298): twice 15 and 2.5 ms more.
    for (channel, round_trip) in [(Channel::Fat, 30), (Channel::Fast, 5)] {
        steerer.outlet.channels[channel.index()].sample(Duration::from_millis(round_trip));
    }
    assert_eq!(steerer.hold(), Duration::from_micros(18_750 + 2 * (15_000 + 2_500)));
}

#[test]
fn with_one_channel_left_data_that_would_come_too_late_is_dropped_and_what_opens_is_not() {
    let left = |kind| {
        let mut steerer = Steerer::new(settings("value", None));
        steerer.allow(ms(0), Channel::Fat, Use::Never);
        // 36 kB: 144 ms at 2 Mbit/s, where 100 ms is of use.
        for n in 0..600u64 {
            steerer.handle_input(ms(0), Input::Packet(packet(n, kind, 60), n as u32));
        }
        let mut left = sent(&mut steerer).len();
        while let Some(deadline) = steerer.poll_timeout() {
            steerer.handle_timeout(deadline.at);
            left += sent(&mut steerer).len();
        }
        (left, steerer.tally().dropped)
    };
    assert_eq!(left(Kind::Open), (600, 0));
    let (names, dropped) = left(Kind::Dns);
    assert!((400..450).contains(&names) && names as u64 + dropped == 600, "{names} {dropped}");
}

#[test]
fn what_is_known_of_a_channel_is_told() {
    let mut settings = settings("value", Some(ProbeSettings::default()));
    (settings.channels[0].loss, settings.channels[1].loss) = (Some(0.0), Some(0.25));
    let mut steerer = Steerer::new(settings);
    assert_eq!((steerer.loss(Channel::Fast), steerer.round_trip(Channel::Fat)), (0.25, None));
    steerer.handle_timeout(ms(0));
    assert_eq!(steerer.tally().probes, 2);
    steerer.handle_input(ms(40), Input::Echo { channel: Channel::Fat, number: 1, come: None });
    assert_eq!(
        Channel::ALL.map(|channel| steerer.round_trip(channel)),
        [Some(Duration::from_millis(40)), None],
        "the fast one has not answered"
    );
    steerer.handle_input(ms(50), Input::Packet(packet(1, Kind::Open, 60), 0u32));
    assert_eq!((steerer.tally().twice, steerer.tally().bytes(Channel::Fast)), (1, 60));
    let keeps = |steerer: &Steerer<u32>| [Kind::Data, Kind::Ack].map(|kind| steerer.keeps(&packet(1, kind, 60)));
    assert_eq!(keeps(&steerer), [true, false]);
    // Without probes no channel is ever lost.
    settings.probes = None;
    assert_eq!(keeps(&Steerer::new(settings)), [false; 2]);
}

#[test]
fn a_probe_and_the_echo_that_goes_with_it_take_their_time_of_a_channel() {
    let mut settings = settings("value", Some(ProbeSettings::default()));
    settings.channels[1].overhead = 40;
    let mut steerer = Steerer::<u32>::new(settings);
    steerer.handle_timeout(ms(0));
    // Twice 52 bytes at 0.97 of 2 Mbit/s.
    assert_eq!(steerer.outlet.channels[1].free_at().as_nanos() / 1_000, 428);
}

#[test]
fn what_gains_little_is_hurried_only_where_hardly_anybody_waits_of_late() {
    let mut settings = settings("value", None);
    settings.channels[0].delay = Duration::from_millis(5);
    let mut steerer = Steerer::new(settings);
    let mut now = 0;
    // Where the last of these goes that come one by one.
    let mut one_by_one = |steerer: &mut Steerer<u32>, facts: &[Facts]| {
        let mut went = None;
        for facts in facts {
            now += 50;
            steerer.handle_timeout(ms(now));
            sent(steerer);
            steerer.handle_input(ms(now), Input::Packet(*facts, 0u32));
            went = Some(sent(steerer)[0].0);
        }
        (now + 50, went.unwrap())
    };
    let call = |len| packet(1, Kind::Datagram, len);
    // 2.5 ms sooner, less the 1.2 or 1.6 ms that they take, three quarters of which they cost everybody behind them.
    assert_eq!(one_by_one(&mut steerer, &[call(300)]).1, Channel::Fast);
    let (at, went) = one_by_one(&mut steerer, &[call(400)]);
    assert_eq!(went, Channel::Fat);
    for n in 0..30 {
        steerer.handle_input(ms(at), Input::Packet(packet(n, Kind::Open, 60), 0));
    }
    assert!((3..20).contains(&steerer.backlog()), "{}", steerer.backlog());
    while let Some(deadline) = steerer.poll_timeout() {
        steerer.handle_timeout(deadline.at);
    }
    // They remember it for a while.
    let rare = vec![packet(2, Kind::Open, 60); 60];
    assert_eq!(one_by_one(&mut steerer, &[call(300)]).1, Channel::Fat);
    assert_eq!(one_by_one(&mut steerer, &[&rare[..5], &[call(300)]].concat()).1, Channel::Fat);
    assert_eq!(one_by_one(&mut steerer, &[&rare[..], &[call(300)]].concat()).1, Channel::Fast);
}

#[test]
fn what_waits_of_a_flow_goes_before_what_is_large_but_for_acknowledgements() {
    let mut steerer = Steerer::new(settings("value", None));
    let mut give = |facts: Facts, number: u32| steerer.handle_input(ms(0), Input::Packet(facts, number));
    // The first one keeps the channel from the others.
    give(packet(9, Kind::Dns, 300), 0);
    give(packet(1, Kind::Data, 300), 1);
    give(packet(2, Kind::Data, 300), 2);
    // What tells of a loss passes by, what is large does not.
    give(Facts { sacks: true, ..ack(1, 7) }, 3);
    give(packet(1, Kind::Data, 6_000), 4);
    assert_eq!(sent(&mut steerer), [(Channel::Fast, 0), (Channel::Fat, 3), (Channel::Fat, 1), (Channel::Fat, 4)]);
    assert_eq!((steerer.tally().moved, steerer.backlog()), (1, 1));
    // What comes behind it over the fast channel says so.
    steerer.handle_input(ms(40), Input::Packet(packet(1, Kind::Data, 300), 5));
    let orders = std::iter::from_fn(|| steerer.poll_output()).filter_map(|output| match output {
        Output::Send { channel, order, packet, .. } => Some((channel, order.after, packet)),
        _ => None,
    });
    assert_eq!(orders.collect::<Vec<_>>(), [(Channel::Fast, None, 2)]);
    steerer.handle_timeout(ms(50));
    let last = steerer.poll_output();
    assert!(matches!(last, Some(Output::Send { channel: Channel::Fast, order: Order { after: Some(3), .. }, .. })));
}

//! Steering policies: every packet comes out once, whatever channels are said to be, whatever it looks like and whenever it comes.

use crate::are_named;
use headstart_core::machine::Machine;
use headstart_core::steer::policy::{ALL, Entry, Object, find};
use headstart_core::steer::{
    Channel, ChannelSettings, Facts, FlowKey, Input, Kind, Output, ProbeSettings, Settings, Steerer, Use,
};
use headstart_core::time::{Duration, Instant};
use proptest::prelude::*;

#[test]
fn every_policy_is_named_and_found() {
    let entries: Vec<_> = ALL.iter().map(|entry| (entry.name, entry.what)).collect();
    are_named(&entries, '-', |name| find(name).ok().map(|entry| entry.name.to_owned()));
}

#[test]
fn every_policy_has_an_answer_to_every_object_or_to_none() {
    for entry in ALL {
        let policy = (entry.new)();
        let objects = [None, Some(0), Some(1), Some(u64::MAX)]
            .into_iter()
            .flat_map(|bytes| [0, 7, u8::MAX].map(|urgency| Object { bytes, urgency }));
        let answers: Vec<_> = objects.map(|object| policy.object(&object)).collect();
        assert!(answers.iter().all(Option::is_some) || answers.iter().all(Option::is_none), "{entry:?}: {answers:?}");
    }
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Packet(Facts),
    Seen(Facts, Channel),
    Echo(Channel, u16, Option<u16>),
    Pass(Duration),
    Set(Instant),
}

fn facts() -> impl Strategy<Value = Facts> {
    let kind = prop_oneof![
        Just(Kind::Open),
        Just(Kind::Ack),
        Just(Kind::Close),
        Just(Kind::Data),
        Just(Kind::Dns),
        Just(Kind::Datagram)
    ];
    let length = prop_oneof![Just(0usize), 20usize..1600, Just(65_535)];
    let channel = || prop_oneof![Just(Channel::Fat), Just(Channel::Fast)];
    let hint = proptest::option::of(channel());
    (kind, length, any::<u16>(), 0u64..4, any::<u32>(), any::<Option<u32>>(), any::<[bool; 4]>(), hint).prop_map(
        |(kind, len, payload, flow, seq, ack, [v6, tls, plain, sacks], hint)| {
            let payload = if kind.is_control() { 0 } else { len.min(payload.into()) };
            Facts { len, payload, seq, ack, plain, sacks, v6, tls, hint, ..Facts::of(FlowKey(flow), kind) }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let channel = || prop_oneof![Just(Channel::Fat), Just(Channel::Fast)];
    prop_oneof![
        12 => facts().prop_map(Step::Packet),
        4 => (facts(), channel()).prop_map(|(facts, channel)| Step::Seen(facts, channel)),
        2 => (channel(), any::<u16>(), any::<Option<u16>>())
            .prop_map(|(channel, number, come)| Step::Echo(channel, number % 8, come)),
        6 => (0u64..100_000_000).prop_map(|nanos| Step::Pass(Duration::from_nanos(nanos))),
        1 => any::<u64>().prop_map(|nanos| Step::Set(Instant::from_nanos(nanos))),
    ]
}

fn channel() -> impl Strategy<Value = ChannelSettings> {
    let rate = prop_oneof![Just(0u64), Just(1), 1_000u64..2_000_000_000, Just(u64::MAX)];
    let delay = prop_oneof![Just(0u64), 0u64..100_000_000, Just(u64::MAX)];
    let loss = proptest::option::of(prop_oneof![Just(0.0), 0.0..=1.0, Just(f64::NAN), Just(f64::INFINITY)]);
    let uses = proptest::sample::select(&Use::ALL[..]);
    let overhead = prop_oneof![Just(0usize), 0usize..100];
    (rate, delay, loss, overhead, uses).prop_map(|(rate, delay, loss, overhead, uses)| ChannelSettings {
        rate,
        delay: Duration::from_nanos(delay),
        loss,
        overhead,
        compresses: overhead % 2 == 1,
        uses,
    })
}

/// All that came out: packets with their channels, those dropped without one, and the moments.
fn play(
    entry: &'static Entry,
    channels: [ChannelSettings; 2],
    probed: bool,
    full: usize,
    steps: &[Step],
) -> Vec<(Instant, u32, Option<Channel>)> {
    let probes = probed.then(ProbeSettings::default);
    let mut steerer = Steerer::new(Settings { policy: entry, uplink: full.is_multiple_of(2), full, channels, probes });
    let (mut now, mut latest, mut number, mut out) = (Instant::ZERO, Instant::ZERO, 0, Vec::new());
    let mut drain = |steerer: &mut Steerer<u32>, now| {
        while let Some(output) = steerer.poll_output() {
            match output {
                Output::Send { channel, packet, why, apart, facts, .. } => {
                    assert!(!why.is_empty());
                    let data = facts.payload > 0 && facts.plain && channel == Channel::Fast;
                    assert!(apart.is_none() || data && entry.acknowledges_over_fat, "{entry:?}: {facts:?} {apart:?}");
                    out.push((now, packet, Some(channel)));
                }
                Output::Drop(packet) => out.push((now, packet, None)),
                Output::Again { .. } => panic!("nothing was kept"),
                Output::Probe { .. } => assert!(probed, "{entry:?} probes unasked"),
            }
        }
    };
    for step in steps {
        match *step {
            Step::Packet(facts) => {
                steerer.handle_input(now, Input::Packet(facts, number));
                number += 1;
            }
            Step::Seen(facts, channel) => steerer.handle_input(now, Input::Seen(facts, channel)),
            Step::Echo(channel, number, come) => steerer.handle_input(now, Input::Echo { channel, number, come }),
            Step::Pass(time) => now += time,
            Step::Set(to) => now = to,
        }
        drain(&mut steerer, now);
        steerer.handle_timeout(now);
        drain(&mut steerer, now);
        if now >= latest && now < Instant::FAR_FUTURE {
            let next = steerer.poll_timeout();
            assert!(next.is_none_or(|next| next.at > now), "{entry:?}: at {now:?}, wakes for {next:?}");
        }
        latest = latest.max(now);
    }
    // Nothing more comes: what waits leaves in time, however slow the channel. Only probes go on for ever, so ever less is woken for.
    let mut step = Duration::from_millis(1);
    for _ in 0..4 * number + 100 {
        let Some(next) = steerer.poll_timeout() else { break };
        now = (now + step).max(next.at);
        step = step.saturating_mul(2);
        steerer.handle_timeout(now);
        drain(&mut steerer, now);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_policy_bears_every_story(
        channels in [channel(), channel()], probed: bool, full in prop_oneof![Just(0usize), Just(1480), Just(usize::MAX)],
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let packets = steps.iter().filter(|step| matches!(step, Step::Packet(_))).count() as u32;
        for entry in ALL {
            let out = play(entry, channels, probed, full, &steps);
            let mut numbers: Vec<u32> = out.iter().map(|(_, number, _)| *number).collect();
            numbers.sort_unstable();
            prop_assert!(numbers.iter().copied().eq(0..packets), "{:?}: {:?} of {}", entry, numbers, packets);
            prop_assert_eq!(&play(entry, channels, probed, full, &steps), &out, "{:?} is not deterministic", entry);
        }
    }
}

//! What takes both channels, and what goes again over the one that is left.

use super::*;

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
            // Long enough apart that no packet waits.
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
fn after_a_rest_what_is_small_takes_both_channels_until_these_have_answered() {
    // Echoes of `until_after_the_loss` come in the same millisecond: the packet of the rest's end alone is in doubt.
    let all = [0, 10, 60_000, 60_001, 61_000].map(|at| (at, packet(at, Kind::Open, 60)));
    let out = until_after_the_loss(62_000, &all);
    let copied = out.iter().filter_map(|(at, output)| match output {
        Output::Send { copy, .. } => Some((*at, copy.is_some())),
        _ => None,
    });
    let expected = [(0, false), (10, false), (60_000, true), (60_001, false), (61_000, false)];
    assert_eq!(copied.collect::<Vec<_>>(), expected);
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

//! Both ends of a tunnel as stories: what passes, what is refused and counted, when sessions are opened.

use super::*;
use crate::steer::packet::tests::tcp;
use crate::steer::{frame, policy};
use crate::wire::ip::tcp::Flags;

const ACK: u8 = Flags::ACK.0;
/// On every packet in the tests of packets: its timestamps.
const STAMPS: (u32, u32) = (3, 4);

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// One end with 10.0.0.1 and fd00::1 at the host and 2 instead of 1 at the other one, by the plainest policy with two channels.
fn settings(is_host: bool) -> Settings {
    let channel = |rate, millis| ChannelSettings {
        rate,
        delay: Duration::from_millis(millis),
        loss: None,
        overhead: 0,
        compresses: true,
        uses: Use::Primary,
    };
    let of = |host: u8| [format!("10.0.0.{host}"), format!("fd00::{host}")].map(|text| text.parse().unwrap()).to_vec();
    let (own, allowed) = if is_host { (of(1), of(2)) } else { (of(2), of(1)) };
    Settings {
        is_host,
        mtu: 1_500,
        policy: policy::find("pkt-state").unwrap(),
        channels: [channel(1_500_000_000, 15), channel(2_000_000, 3)],
        caps: [None; 2],
        rest: None,
        allowed,
        own,
        keys: (1, 2),
        epoch: 5,
    }
}

fn ends() -> (End, End) {
    (End::new(settings(true)), End::new(settings(false)))
}

fn outputs(end: &mut End) -> Vec<Output> {
    std::iter::from_fn(|| end.poll_output()).collect()
}

/// The frames that an end sends of a packet.
fn frames(end: &mut End, at: u64, packet: &[u8]) -> Vec<(Channel, Vec<u8>)> {
    let packet = end.buffer(packet);
    end.handle_input(ms(at), Input::Packet(packet));
    sends(end)
}

fn sends(end: &mut End) -> Vec<(Channel, Vec<u8>)> {
    let sends = outputs(end).into_iter().filter_map(|output| match output {
        Output::Send(channel, frame) => Some((channel, frame)),
        _ => None,
    });
    sends.collect()
}

/// What comes out at an end of these frames.
fn delivered(end: &mut End, at: u64, frames: Vec<(Channel, Vec<u8>)>) -> Vec<Vec<u8>> {
    for (channel, frame) in frames {
        end.handle_input(ms(at), Input::Frame(channel, frame));
    }
    let packets = outputs(end).into_iter().filter_map(|output| match output {
        Output::Deliver(packet) => Some(packet),
        _ => None,
    });
    packets.collect()
}

fn header(channel: Channel, frame: &[u8]) -> Header {
    Header::read(frame, channel).unwrap().0
}

fn written(content: Content, channel: Channel, number: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    assert!(Header { content, channel, epoch: 9, number, after: None }.write(body, &mut frame));
    frame
}

#[test]
fn packets_of_both_families_come_out_as_they_went_in_over_the_channel_that_their_policy_chose() {
    for v6 in [false, true] {
        let (mut host, mut gate) = ends();
        let room = 1_500 - if v6 { 72 } else { 52 };
        for (n, len) in [0, 0, 0, 200, room, 0].into_iter().enumerate() {
            let packet = tcp(v6, false, ACK, (n as u32, 7), STAMPS, &vec![1; len]);
            let sent = frames(&mut host, 10 * n as u64, &packet);
            let by = if len == room || n == 5 { Channel::Fat } else { Channel::Fast };
            assert_eq!(sent.iter().map(|(channel, _)| *channel).collect::<Vec<_>>(), [by], "{n}");
            let mut admitted = Vec::new();
            gate.frame(ms(10 * n as u64), by, &sent[0].1, |packet| admitted.push(packet.to_vec()));
            assert_eq!(admitted, [&packet[..]]);
            assert_eq!(outputs(&mut gate), [Output::Deliver(packet)]);
            // Headers of IPv6 have no sum that would be wrong here: the third one is said shorter.
            let content = header(by, &sent[0].1).content;
            assert_eq!(content == Content::Compressed, v6 && (n == 2 || n == 3), "{n}: {content}");
        }
        assert_eq!((host.refused(), gate.refused()), (Refused::default(), Refused::default()));
        // And back.
        let answer = tcp(v6, true, ACK, (7, 6), STAMPS, b"answer");
        let sent = frames(&mut gate, 100, &answer);
        assert_eq!(delivered(&mut host, 100, sent), [answer]);
    }
}

#[test]
fn what_an_interface_may_not_send_is_counted_and_goes_nowhere() {
    let (mut host, _) = ends();
    let good = tcp(false, false, ACK, (1, 2), STAMPS, &[0; 1_448]);
    let long = tcp(false, false, ACK, (1, 2), STAMPS, &[0; 1_449]);
    // To itself, which is not behind the peer.
    let back = tcp(true, true, ACK, (1, 2), STAMPS, b"x");
    assert_eq!(frames(&mut host, 0, &good).len(), 1);
    for bad in [&long[..], &good[..100], &back, b"no packet"] {
        assert_eq!(frames(&mut host, 1, bad), []);
    }
    assert_eq!(host.refused(), Refused { packets: 3, destinations: 1, ..Refused::default() });
}

#[test]
fn a_peer_speaks_for_what_is_behind_it_and_never_for_us() {
    let mut host = End::new(Settings {
        allowed: vec!["10.0.0.0/8".parse().unwrap(), "fd00::2".parse().unwrap()],
        ..settings(true)
    });
    let mut come = |number: u16, packet: &[u8]| {
        let frame = written(Content::Whole, Channel::Fat, number, packet);
        delivered(&mut host, 0, vec![(Channel::Fat, frame)]).len()
    };
    // From 10.0.0.2 and fd00::2; from our own address; from fd00::1, which is not allowed.
    assert_eq!(come(1, &tcp(false, true, ACK, (1, 2), STAMPS, b"")), 1);
    assert_eq!(come(2, &tcp(true, true, ACK, (1, 2), STAMPS, b"")), 1);
    assert_eq!(come(3, &tcp(false, false, ACK, (1, 2), STAMPS, b"")), 0);
    assert_eq!(come(4, &tcp(true, false, ACK, (1, 2), STAMPS, b"")), 0);
    // As long as may be, and longer; and no packet.
    assert_eq!(come(5, &tcp(false, true, ACK, (1, 2), STAMPS, &[0; 1_448])), 1);
    assert_eq!(come(6, &tcp(false, true, ACK, (1, 2), STAMPS, &[0; 1_449])), 0);
    assert_eq!(come(7, b"twenty bytes, no packet"), 0);
    assert_eq!(host.refused(), Refused { sources: 2, packets: 2, ..Refused::default() });
}

#[test]
fn a_lost_context_is_asked_for_and_what_is_malformed_is_counted() {
    let (mut host, mut gate) = ends();
    let ack = |n: u32| tcp(true, false, ACK, (n, 7), STAMPS, b"");
    // The contexts are lost, and what leans on the second one comes.
    let sent: Vec<_> = (0..3).flat_map(|n| frames(&mut host, 10 * u64::from(n), &ack(n))).collect();
    gate.handle_input(ms(30), Input::Frame(Channel::Fast, sent[2].1.clone()));
    let asked = sends(&mut gate);
    assert_eq!(asked.iter().map(|(c, f)| header(*c, f).content).collect::<Vec<_>>(), [Content::Forget]);
    assert_eq!(gate.refused(), Refused { contexts: 1, ..Refused::default() });
    assert_eq!(delivered(&mut host, 31, asked), Vec::<Vec<u8>>::new());
    let again = frames(&mut host, 40, &ack(3));
    assert_eq!(header(Channel::Fast, &again[0].1).content, Content::Context);
    assert_eq!(delivered(&mut gate, 41, again), [ack(3)]);
    // No frame, one of the other channel, and a context that is no packet.
    let bad = written(Content::Context, Channel::Fast, 9, b"twenty bytes, no packet");
    for frame in [&b"no frame"[..], &written(Content::Whole, Channel::Fat, 1, &ack(4)), &bad] {
        assert_eq!(delivered(&mut gate, 50, vec![(Channel::Fast, frame.to_vec())]), Vec::<Vec<u8>>::new());
    }
    assert_eq!(gate.refused(), Refused { contexts: 1, frames: 3, ..Refused::default() });
}

#[test]
fn echoes_say_what_has_come_since_the_other_end_began() {
    let (mut host, mut gate) = ends();
    let mut echoed = |from: &mut End, at: u64, packets: u32| {
        for n in 0..packets {
            let sent = frames(from, at + 10 * u64::from(n), &tcp(true, false, ACK, (n, 7), STAMPS, b""));
            assert_eq!(delivered(&mut gate, at, sent).len(), 1);
        }
        from.handle_input(ms(at), Input::Session(Channel::Fast, true));
        from.handle_timeout(ms(at + 100));
        for (channel, frame) in sends(from) {
            gate.handle_input(ms(at + 101), Input::Frame(channel, frame));
        }
        let echoes = sends(&mut gate);
        echoes.iter().map(|(channel, frame)| (*channel, header(*channel, frame))).collect::<Vec<_>>()
    };
    let echo = |number, come| {
        let (content, channel) = (Content::Echo, Channel::Fast);
        (channel, Header { content, channel, epoch: 5, number, after: Some(come) })
    };
    // The session of the fat channel is not open, and so there is nothing to probe.
    assert_eq!(echoed(&mut host, 0, 4), [echo(1, 4)]);
    assert_eq!(echoed(&mut host, 600, 1), [echo(2, 5)]);
    // The host begins anew, and is known by its epoch, of which six bits travel.
    let mut host = End::new(Settings { epoch: 64 + 6, ..settings(true) });
    assert_eq!(echoed(&mut host, 1_200, 2), [echo(1, 2)]);
}

#[test]
fn an_echo_is_measured_and_says_how_long_packets_are_held() {
    let (mut host, mut gate) = ends();
    for channel in Channel::ALL {
        host.handle_input(ms(0), Input::Session(channel, true));
    }
    host.handle_timeout(ms(0));
    let probes = sends(&mut host);
    assert_eq!(probes.len(), 2);
    for (channel, frame) in probes {
        gate.handle_input(ms(0), Input::Frame(channel, frame));
    }
    for (channel, frame) in sends(&mut gate) {
        let takes = if channel == Channel::Fat { 80 } else { 20 };
        host.handle_input(ms(takes), Input::Frame(channel, frame));
    }
    let [fat, fast] = Channel::ALL.map(|channel| host.steerer().round_trip(channel));
    assert_eq!((fat, fast), (Some(Duration::from_millis(80)), Some(Duration::from_millis(20))));
    // One and a half times 30 ms, and twice 40 and 10 ms of jitter: what is missing is waited for no longer than that.
    let packet = tcp(true, true, ACK, (1, 2), STAMPS, b"");
    let mut late = Vec::new();
    let header = Header { content: Content::Whole, channel: Channel::Fast, epoch: 5, number: 1, after: Some(9) };
    assert!(header.write(&packet, &mut late));
    assert_eq!(delivered(&mut host, 100, vec![(Channel::Fast, late)]), Vec::<Vec<u8>>::new());
    host.handle_timeout(ms(244));
    assert!(!outputs(&mut host).contains(&Output::Deliver(packet.clone())));
    host.handle_timeout(ms(245));
    assert!(outputs(&mut host).contains(&Output::Deliver(packet)));
    assert_eq!((host.held().held, host.held().impatient), (1, 1));
}

#[test]
fn of_a_packet_that_takes_both_channels_one_is_let_in() {
    let lossy = || {
        let mut settings = Settings { policy: policy::find("value").unwrap(), ..settings(true) };
        settings.channels[0].loss = Some(0.0);
        settings.channels[1].loss = Some(0.01);
        End::new(settings)
    };
    for first in [0, 1] {
        let (mut host, mut gate) = (lossy(), End::new(settings(false)));
        let opens = tcp(false, false, Flags::SYN.0, (1, 0), STAMPS, b"");
        let mut sent = frames(&mut host, 0, &opens);
        let of = |(channel, frame): &(Channel, Vec<u8>)| (*channel, header(*channel, frame).content);
        assert_eq!(
            sent.iter().map(of).collect::<Vec<_>>(),
            [(Channel::Fast, Content::Whole), (Channel::Fat, Content::Copy)]
        );
        sent.rotate_left(first);
        let mut admitted = 0;
        for (channel, frame) in &sent {
            gate.frame(ms(10), *channel, frame, |_| admitted += 1);
        }
        assert_eq!((outputs(&mut gate), admitted, gate.held().twice), (vec![Output::Deliver(opens)], 1, 1));
    }
}

#[test]
fn a_request_that_acknowledges_what_was_hurried_says_so_over_the_fat_channel() {
    let mut host = End::new(Settings { policy: policy::find("value").unwrap(), ..settings(true) });
    let mut gate = End::new(settings(false));
    let answer = frames(&mut gate, 0, &tcp(true, true, ACK, (500, 7), STAMPS, b"hurried"));
    assert_eq!((answer[0].0, delivered(&mut host, 5, answer).len()), (Channel::Fast, 1));
    let request = tcp(true, false, ACK, (7, 507), STAMPS, b"request");
    let sent = frames(&mut host, 6, &request);
    assert_eq!(sent.iter().map(|(channel, _)| *channel).collect::<Vec<_>>(), [Channel::Fat, Channel::Fast]);
    let facts = delivered(&mut gate, 20, sent).into_iter().map(|packet| Facts::parse(&packet, (1, 2)).unwrap());
    let says: Vec<_> = facts.map(|facts| (facts.seq, facts.payload, facts.ack)).collect();
    assert_eq!(says, [(14, 0, Some(507)), (7, 7, Some(500))]);
}

#[test]
fn a_host_opens_its_sessions_and_opens_that_of_a_channel_anew_which_does_not_answer() {
    let (mut host, mut gate) = ends();
    let both = Channel::ALL.map(Output::Handshake);
    host.begin();
    gate.begin();
    assert_eq!((outputs(&mut host), outputs(&mut gate)), (both.to_vec(), vec![]));
    let mut unused = settings(true);
    unused.channels[1].uses = Use::Never;
    let mut one = End::new(unused);
    one.begin();
    assert_eq!(outputs(&mut one), [Output::Handshake(Channel::Fat)]);
    // Without a session it is asked for, and with one a probe is sent, by either end.
    let asks = |end: &mut End, at: u64| {
        end.handle_timeout(ms(at));
        let shakes = |output: &Output| matches!(output, Output::Handshake(_));
        let outputs = outputs(end);
        let sent = outputs.iter().filter(|output| matches!(output, Output::Send(..))).count();
        (outputs.iter().filter(|output| shakes(output)).count(), sent)
    };
    assert_eq!((asks(&mut host, 0), asks(&mut gate, 0)), ((2, 0), (0, 0)));
    Channel::ALL.into_iter().for_each(|channel| host.handle_input(ms(1), Input::Session(channel, true)));
    // No probe is answered.
    for at in [120, 170, 500] {
        asks(&mut host, at);
    }
    assert_eq!(frames(&mut host, 1_000, &tcp(true, false, ACK, (1, 2), STAMPS, b"")).len(), 1);
    let is_alive = Channel::ALL.map(|channel| host.steerer().is_alive(channel));
    assert_eq!((is_alive, asks(&mut host, 1_500)), ([false; 2], (2, 2)));
    let mut fresh = End::new(settings(true));
    Channel::ALL.into_iter().for_each(|channel| fresh.handle_input(ms(0), Input::Session(channel, true)));
    assert_eq!(asks(&mut fresh, 0), (0, 2), "what is open and answers is not opened again");
}

#[test]
fn a_cap_that_is_reached_closes_its_channel_until_its_period_is_over() {
    let day = Duration::from_secs(86_400);
    let mut host = End::new(Settings { caps: [None, Some((1_000, day))], ..settings(true) });
    let packet = |n| tcp(true, false, ACK, (n, 2), STAMPS, b"");
    assert_eq!(frames(&mut host, 0, &packet(1))[0].0, Channel::Fast);
    host.handle_input(ms(0), Input::Carried(Channel::Fast, 600));
    host.handle_input(ms(0), Input::Carried(Channel::Fat, 600));
    assert_eq!(host.cap(Channel::Fast).map(|cap| (cap.used(), cap.limit())), Some((600, 1_000)));
    assert_eq!((frames(&mut host, 10, &packet(2))[0].0, host.cap(Channel::Fat)), (Channel::Fast, None));
    host.handle_input(ms(10), Input::Carried(Channel::Fast, 400));
    assert_eq!(
        (frames(&mut host, 20, &packet(3))[0].0, host.steerer().uses(Channel::Fast)),
        (Channel::Fat, Use::Never)
    );
    // Not even a probe is answered over it.
    let probe = |channel| vec![(channel, written(Content::Probe, channel, 1, &[]))];
    for (channel, frame) in [probe(Channel::Fast), probe(Channel::Fat)].concat() {
        host.handle_input(ms(30), Input::Frame(channel, frame));
    }
    assert_eq!(sends(&mut host).iter().map(|(channel, _)| *channel).collect::<Vec<_>>(), [Channel::Fat]);
    let tomorrow = 86_400_000;
    host.handle_timeout(ms(tomorrow));
    assert_eq!(host.steerer().uses(Channel::Fast), Use::Primary);
    // As another run has left it, three hours before.
    host.resume_cap(ms(tomorrow), Channel::Fast, 950, Duration::from_secs(3 * 3_600));
    assert_eq!(host.steerer().uses(Channel::Fast), Use::Secondary);
    let left = host.cap(Channel::Fast).map(|cap| cap.left(ms(tomorrow)).as_secs());
    assert_eq!(left, Some(21 * 3_600));
    host.resume_cap(ms(tomorrow), Channel::Fat, 950, Duration::ZERO);
    assert_eq!(host.cap(Channel::Fat), None);
}

#[test]
fn sessions_look_at_their_timers_less_often_when_all_is_quiet_and_open() {
    let ticks = |open: [bool; 2]| {
        let mut host = End::new(settings(true));
        for channel in Channel::ALL {
            host.handle_input(ms(0), Input::Session(channel, open[channel.index()]));
        }
        let mut ticks = Vec::new();
        for at in (0..=18_000).step_by(250) {
            if host.poll_timeout().is_some_and(|deadline| deadline.at <= ms(at)) {
                host.handle_timeout(ms(at));
            }
            let tended: Vec<_> = outputs(&mut host).into_iter().filter(|o| matches!(o, Output::Tend(_))).collect();
            assert!(tended.is_empty() || tended == Channel::ALL.map(Output::Tend));
            ticks.extend((!tended.is_empty() && at >= 14_500).then_some(at));
        }
        ticks
    };
    assert_eq!(ticks([true; 2]), [14_500, 14_750, 15_000, 15_250, 16_250, 17_250]);
    assert!(ticks([true, false]).into_iter().eq((14_500..=18_000).step_by(250)));
}

#[test]
fn buffers_are_used_again_up_to_a_number_and_a_length() {
    let mut end = End::new(settings(true));
    assert_eq!(end.used_buffer().capacity(), 0);
    for len in [0, LONGEST_SPARE + 1] {
        end.recycle(Vec::with_capacity(len));
        assert_eq!(end.used_buffer().capacity(), 0);
    }
    end.recycle(vec![7; 300]);
    let copy = end.buffer(b"copy");
    assert!(copy == b"copy" && copy.capacity() >= 300);
    end.recycle(copy);
    assert_eq!(end.used_buffer(), b"copy", "as it was left");
    for _ in 0..MOST_SPARE + 10 {
        end.recycle(Vec::with_capacity(LONGEST_SPARE));
    }
    let kept = std::iter::from_fn(|| Some(end.used_buffer()).filter(|buffer| buffer.capacity() > 0)).count();
    assert_eq!(kept, MOST_SPARE);
}

#[test]
fn a_packet_that_no_frame_can_hold_is_refused_and_a_steerer_may_be_given() {
    let mut host = End::new(Settings { mtu: 65_535, ..settings(true) });
    let longest = frame::MOST - frame::HEADER - 52;
    assert_eq!(frames(&mut host, 0, &tcp(false, false, ACK, (1, 2), STAMPS, &vec![0; longest])).len(), 1);
    assert_eq!(frames(&mut host, 1, &tcp(false, false, ACK, (1, 2), STAMPS, &vec![0; longest + 1])), []);
    assert_eq!(host.refused(), Refused { packets: 1, ..Refused::default() });
    let Settings { channels, .. } = settings(true);
    let policy = policy::find("single-fast").unwrap();
    host.steer_by(Steerer::new(steerer::Settings { policy, uplink: true, full: 1_480, channels, probes: None }));
    assert_eq!(frames(&mut host, 10, &tcp(false, false, ACK, (1, 2), STAMPS, b""))[0].0, Channel::Fast);
}

//! What each age of TCP does about a lost message of paper 4's workload: 50 bytes each 30 ms, 5 ms one way.

use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Sends `count` messages; segments whose number (from each side, counted from 0) is named are lost. Arrivals in ms after
/// each message was written.
fn arrivals(stack: Stack, count: usize, lost_data: &[usize], lost_acks: &[usize]) -> Vec<f64> {
    let (mut a, mut b) = (Tcp::new(stack, ms(10)), Tcp::new(stack, ms(10)));
    let mut sent = [0usize; 2];
    let mut flights: Vec<(Instant, usize, Segment)> = Vec::new();
    let (mut written, mut read) = (0usize, 0usize);
    let mut delays = Vec::new();
    let mut now = Instant::ZERO;
    while read < count * 50 {
        let next_write = (written < count).then(|| Instant::from_millis(30 * written as u64));
        let arrival = flights.iter().map(|f| f.0).min();
        let deadlines = [a.deadline(), b.deadline(), next_write, arrival];
        now = deadlines.into_iter().flatten().min().expect("something is to happen").max(now);
        if next_write.is_some_and(|at| at <= now) {
            a.write(&[written as u8; 50]);
            written += 1;
        }
        a.timeout(now);
        b.timeout(now);
        while let Some(at) = flights.iter().position(|f| f.0 <= now) {
            let (_, to, segment) = flights.remove(at);
            [&mut a, &mut b][to].receive(now, &segment);
        }
        // A message may come in two parts: it is there with its last byte.
        for byte in b.read() {
            read += 1;
            if read % 50 == 0 {
                delays.push(now.as_millis_f64() - 30.0 * f64::from(byte));
            }
        }
        for (side, lost) in [lost_data, lost_acks].into_iter().enumerate() {
            while let Some(segment) = [&mut a, &mut b][side].poll(now) {
                if !lost.contains(&sent[side]) {
                    flights.push((now + ms(5), 1 - side, segment));
                }
                sent[side] += 1;
            }
        }
        assert!(now < Instant::from_millis(60_000), "nothing arrives any more");
    }
    delays
}

#[test]
fn without_loss_each_message_takes_the_way_and_no_longer() {
    for stack in ALL {
        assert_eq!(arrivals(*stack, 20, &[], &[]), [5.0; 20], "{}", stack.name);
    }
}

#[test]
fn a_modern_sender_learns_of_a_loss_by_the_next_message() {
    let delays = arrivals(MODERN, 10, &[4], &[]);
    // The fifth is acknowledged selectively at 30 + 10 ms, the fourth goes again, and both are there 5 ms later.
    assert_eq!(delays[3..7], [5.0, 45.0, 15.0, 5.0]);
}

#[test]
fn a_legacy_sender_waits_for_three_duplicates() {
    let delays = arrivals(LEGACY, 12, &[4], &[]);
    assert_eq!(delays[3..9], [5.0, 105.0, 75.0, 45.0, 15.0, 5.0]);
}

#[test]
fn the_last_message_waits_for_the_probe_or_the_timeout() {
    let modern = arrivals(MODERN, 10, &[9], &[]);
    // Alone in flight: two round trips and 200 ms, but not longer than the timeout.
    assert!((210.0..230.0).contains(&modern[9]), "{modern:?}");
    let legacy = arrivals(LEGACY, 10, &[9], &[]);
    assert!(legacy[9] > 200.0, "{legacy:?}");
}

#[test]
fn a_lost_retransmission_costs_a_timeout() {
    // The fifth segment, and the one that carries it again after the sixth message.
    let delays = arrivals(MODERN, 20, &[4, 6], &[]);
    assert!(delays[4] > 60.0, "{delays:?}");
    assert!(delays[12..].iter().all(|d| *d == 5.0), "{delays:?}");
}

#[test]
fn lost_acknowledgements_hold_nothing_up() {
    for (stack, lost) in [(MODERN, &[3, 4, 5][..]), (DELAYED_ACK, &[3, 4])] {
        assert_eq!(arrivals(stack, 20, &[], lost), [5.0; 20], "{}", stack.name);
    }
}

#[test]
fn a_window_of_three_holds_messages_up_when_acknowledgements_stay_away() {
    assert_eq!(arrivals(LEGACY, 20, &[], &[3])[9..11], [25.0, 5.0]);
    let delays = arrivals(LEGACY, 20, &[], &[3, 4, 5]);
    assert!(delays.iter().any(|d| *d > 200.0), "{delays:?}");
}

#[test]
fn whatever_is_lost_everything_arrives_once_and_in_order() {
    for stack in ALL {
        for seed in 0..40 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let lost: Vec<usize> = (0..200).filter(|_| rng.f64() < 0.2).collect();
            let acks: Vec<usize> = (0..200).filter(|_| rng.f64() < 0.2).collect();
            assert_eq!(arrivals(*stack, 40, &lost, &acks).len(), 40, "{} {seed}", stack.name);
        }
    }
}

#[test]
fn a_bulk_flow_fills_its_path_and_no_more() {
    let (mut a, mut b) = (Tcp::new(MODERN, ms(20)), Tcp::new(MODERN, ms(20)));
    a.write_for_ever();
    let spec = headstart_link::parse_duplex("rate=12mbit,delay=10ms,queue=30p").unwrap();
    let mut link: headstart_link::Duplex<Flight> = headstart_link::Duplex::new(&spec, 1);
    let mut now = Instant::ZERO;
    while now < Instant::from_millis(5000) {
        for (tcp, way) in [(&mut a, headstart_link::medium::Way::Up), (&mut b, headstart_link::medium::Way::Down)] {
            tcp.timeout(now);
            while let Some(segment) = tcp.poll(now) {
                let _ = link.push(now, way, Flight(segment));
            }
        }
        let deadlines = [link.poll_timeout().map(|d| d.at), a.deadline(), b.deadline()];
        now = deadlines.into_iter().flatten().min().unwrap().max(now);
        while let Some((_, way, Flight(segment))) = link.poll(now) {
            let to = if way == headstart_link::medium::Way::Up { &mut b } else { &mut a };
            to.receive(now, &segment);
        }
    }
    let rate = b.receiver.state().0 as f64 * 8.0 / 5.0;
    assert!((9e6..12e6).contains(&rate), "{rate}");
    assert!(a.retransmissions() > 0);
}

#[derive(Clone)]
struct Flight(Segment);

impl headstart_link::Packet for Flight {
    fn wire_len(&self) -> usize {
        self.0.wire_len()
    }
}

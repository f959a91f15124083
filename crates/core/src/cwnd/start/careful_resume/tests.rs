//! The worked examples of RFC 9959 and the rules beside them, packet by packet. A packet is 1000 bytes; one is sent each
//! microsecond, so that its number is its moment.

use super::*;

const PACKET: u64 = 1000;
const RTT: Duration = Duration::from_millis(100);

/// A sender in numbers of packets.
struct Story {
    rule: CarefulResume,
    view: View,
    threshold: Option<u64>,
    /// Packets that were sent.
    sent: u64,
}

fn known(packets: u64) -> Remembered {
    let window = packets * PACKET;
    let (found, average, age, trust) = (false, window, Duration::ZERO, Trust::Exact);
    Remembered { window, found, average, rtt: RTT, least: RTT, rate: 0, age, trust }
}

/// Packet `number`, from 1 on, was sent then.
fn moment(number: u64) -> Instant {
    Instant::from_nanos(1000 * number)
}

impl Story {
    fn new(care: Care, remembered: Option<Remembered>) -> Self {
        let terms = Terms { initial: 10 * PACKET, packet: PACKET, remembered, most: u64::MAX, pacing: 1.0 };
        let view = View {
            now: Instant::ZERO,
            flight: 0,
            window: 10 * PACKET,
            latest: Some(RTT),
            shortest: Some(RTT),
            app_limited: false,
        };
        Self { rule: CarefulResume::new(&terms, care), view, threshold: None, sent: 0 }
    }

    fn follow(&mut self, advice: Advice, grow: u64) {
        self.view.window = advice
            .window
            .unwrap_or(self.view.window + if advice.hold { 0 } else { grow / if advice.slow { 2 } else { 1 } });
        self.threshold = advice.threshold.or(self.threshold);
    }

    fn send(&mut self, packets: u64) {
        for _ in 0..packets {
            self.sent += 1;
            self.view.now = self.view.now.max(moment(self.sent));
            self.view.flight += PACKET;
            let advice = self.rule.sent(&self.view, PACKET);
            self.follow(advice, 0);
        }
    }

    /// As many as the window lets out.
    fn fill(&mut self) -> u64 {
        let packets = self.view.window.saturating_sub(self.view.flight) / PACKET;
        self.send(packets);
        packets
    }

    fn acknowledge(&mut self, numbers: std::ops::RangeInclusive<u64>) {
        for number in numbers {
            self.view.flight -= PACKET;
            let advice = self.rule.acknowledged(&self.view, moment(number), PACKET);
            // Slow start.
            let slow = self.threshold.is_none_or(|threshold| self.view.window < threshold);
            self.follow(advice, if slow { PACKET } else { 0 });
        }
        let advice = self.rule.end_of_acknowledgement(&self.view);
        self.follow(advice, 0);
    }

    fn lose(&mut self, number: u64) {
        self.view.flight -= PACKET;
        let loss = Loss { sent: moment(number), bytes: PACKET, persistent: false };
        let advice = self.rule.lost(&self.view, &loss);
        self.follow(advice, 0);
    }

    fn packets(&self) -> u64 {
        self.view.window / PACKET
    }

    /// The RFC's example up to the jump: the initial window of ten is acknowledged, more is sent, 29 packets are in flight.
    fn jumped(care: Care) -> Self {
        let mut story = Self::new(care, Some(known(300)));
        story.fill();
        story.acknowledge(1..=9);
        assert!(!story.rule.wants_lease(), "not all of the initial data has arrived");
        story.fill();
        story.view.app_limited = true;
        story.acknowledge(10..=10);
        assert!(!story.rule.wants_lease(), "the window is not the limit");
        story.view.app_limited = false;
        story.fill();
        story.acknowledge(11..=19);
        story.fill();
        assert_eq!((story.sent, story.view.flight), (48, 29 * PACKET));
        // Packets of the jump are sent after this moment.
        story.view.now = moment(48) + Duration::from_nanos(500);
        let advice = story.rule.leased(&story.view, Some(known(300)));
        story.follow(advice, 0);
        assert_eq!(story.rule.phase(), Phase::Unvalidated);
        story
    }

    fn events(&mut self) -> Vec<(Phase, Trigger)> {
        std::iter::from_fn(|| self.rule.poll_event()).map(|event| (event.new, event.trigger)).collect()
    }
}

#[test]
fn ten_then_twenty_nine_in_flight_of_three_hundred_saved_jumps_to_one_hundred_and_fifty() {
    let mut story = Story::jumped(Care::Standard);
    assert_eq!((story.packets(), story.rule.pipe), (150, 29 * PACKET));
    assert_eq!(story.fill(), 121, "packets of the jump");
    assert_eq!((story.packets(), story.rule.phase()), (150, Phase::Validating));
    // 29 of before, then those of the jump: each proves a packet more.
    story.acknowledge(20..=48);
    assert_eq!(story.rule.pipe, 29 * PACKET);
    story.acknowledge(49..=168);
    assert_eq!(story.rule.phase(), Phase::Validating);
    story.acknowledge(169..=169);
    assert_eq!((story.rule.phase(), story.rule.pipe, story.threshold), (Phase::Normal, 150 * PACKET, None));
    assert_eq!(story.packets(), 300, "and slow start went on");
    assert_eq!(
        story.events(),
        [
            (Phase::Unvalidated, Trigger::CwndLimited),
            (Phase::Validating, Trigger::LastUnvalidatedPacketSent),
            (Phase::Normal, Trigger::LastUnvalidatedPacketAcknowledged),
        ]
    );
    assert!(!story.rule.take_refuted());
}

#[test]
fn where_it_is_known_what_the_path_carries_slow_start_ends_at_twice_that_if_packets_wait_and_nowhere_else() {
    let end = |known: Remembered, latest: Duration, lost: bool| {
        let mut story = Story::jumped(Care::Standard);
        story.rule.known = Some(known);
        story.fill();
        story.acknowledge(20..=169);
        assert_eq!((story.packets(), story.rule.phase(), story.threshold), (300, Phase::Normal, None));
        story.view.latest = Some(latest);
        story.fill();
        if lost {
            story.lose(170);
        }
        story.acknowledge(171..=469);
        assert_eq!((story.packets(), story.threshold), (599, None), "not yet twice");
        story.fill();
        story.acknowledge(470..=470);
        story.threshold.map(|threshold| threshold / PACKET)
    };
    let found = Remembered { found: true, ..known(300) };
    assert_eq!(end(found, RTT * 2, false), Some(600));
    assert_eq!(end(found, RTT, false), None, "nothing waits: the path carries more than it did");
    assert_eq!(end(found, RTT * 2, true), None, "a loss is the controller's");
    assert_eq!(end(Remembered { trust: Trust::Prefix, ..found }, RTT * 2, false), None, "a neighbour's path");
    assert_eq!(end(known(300), RTT * 2, false), None, "the path may carry more");
}

#[test]
fn a_sender_that_has_little_to_send_validates_what_it_sent() {
    let mut story = Story::jumped(Care::Standard);
    story.send(50);
    story.acknowledge(20..=48);
    assert_eq!((story.view.flight, story.packets()), (50 * PACKET, 150));
    story.acknowledge(49..=49);
    assert_eq!((story.packets(), story.rule.phase()), (50, Phase::Validating));
}

#[test]
fn a_loss_in_the_jump_is_a_safe_retreat_to_half_of_what_was_proved() {
    let mut story = Story::jumped(Care::Standard);
    story.fill();
    story.acknowledge(20..=48);
    // The RFC counts from 30 on what is 49 here: its packet 64 is our 83, and 34 of the jump have arrived.
    story.acknowledge(49..=82);
    assert_eq!(story.rule.pipe, 63 * PACKET);
    story.lose(83);
    assert_eq!((story.view.window, story.rule.phase()), (31_500, Phase::SafeRetreat));
    assert!(story.rule.take_refuted() && !story.rule.take_refuted(), "the memory is deleted, once");
    // The other 86 arrive, as in the annex.
    story.acknowledge(84..=168);
    assert_eq!((story.view.window, story.rule.phase()), (31_500, Phase::SafeRetreat), "no growth");
    story.acknowledge(169..=169);
    // 29 that were in flight before the jump and 120 of the jump. The annex says 120, and forgets the 29 that it began with.
    assert_eq!((story.rule.phase(), story.rule.pipe), (Phase::Normal, 149 * PACKET));
    assert_eq!((story.view.window, story.threshold), (31_500, Some(74_500)), "PipeSize by Beta");
}

#[test]
fn more_losses_of_the_jump_in_a_retreat_reduce_nothing_further_and_prove_nothing() {
    let mut story = Story::jumped(Care::Standard);
    story.fill();
    story.acknowledge(20..=82);
    story.lose(83);
    for number in 84..=168 {
        story.lose(number);
    }
    assert_eq!((story.view.window, story.rule.phase()), (31_500, Phase::SafeRetreat));
    story.acknowledge(169..=169);
    assert_eq!((story.rule.pipe, story.threshold), (64 * PACKET, Some(32_000)));
}

#[test]
fn no_retreat_leaves_more_than_half_of_pipe_size_but_two_packets() {
    // The initial window is no floor: section 3.5 has none but QUIC's own.
    for (arrived, window) in [(0, 14_500), (11, 20_000)] {
        let mut story = Story::jumped(Care::Standard);
        story.fill();
        story.acknowledge(20..=48 + arrived);
        story.lose(49 + arrived);
        assert_eq!((story.view.window, story.rule.phase()), (window, Phase::SafeRetreat));
    }
    let small = Terms { initial: 12_000, packet: 1200, remembered: Some(known(300)), most: u64::MAX, pacing: 1.0 };
    for (pipe, window) in [(13_326, 6663), (1000, 2400)] {
        let mut rule = CarefulResume::new(&small, Care::Standard);
        (rule.pipe, rule.phase) = (pipe, Phase::Validating);
        let view = Story::new(Care::Standard, None).view;
        let advice = rule.lost(&view, &Loss { sent: view.now, bytes: 1200, persistent: false });
        assert_eq!(advice.window, Some(window), "PipeSize {pipe}");
    }
}

#[test]
fn a_path_of_another_round_trip_time_is_another_path() {
    for (rtt, jumps) in [(50, false), (51, true), (1000, true), (1001, false)] {
        let mut story = Story::new(Care::Standard, Some(known(300)));
        let rtt = Duration::from_millis(rtt);
        (story.view.latest, story.view.shortest) = (Some(rtt), Some(rtt));
        story.fill();
        story.acknowledge(1..=10);
        assert_eq!(story.rule.wants_lease(), jumps, "{rtt:?}");
        assert_eq!(story.rule.phase() == Phase::Normal, !jumps, "{rtt:?}");
    }
}

#[test]
fn a_path_that_becomes_another_in_the_jump_is_left_by_a_safe_retreat() {
    let mut story = Story::jumped(Care::Standard);
    story.send(50);
    story.view.shortest = Some(RTT / 2);
    story.acknowledge(20..=20);
    assert_eq!(story.rule.phase(), Phase::SafeRetreat);
    assert!(story.rule.take_refuted());
}

#[test]
fn what_is_leased_counts_and_not_what_was_remembered_before() {
    let mut story = Story::new(Care::Standard, Some(known(300)));
    story.fill();
    story.acknowledge(1..=10);
    let advice = story.rule.leased(&story.view, Some(known(100)));
    assert_eq!(advice.window, Some(50 * PACKET));
}

#[test]
fn a_jump_whose_last_packets_left_at_one_moment_ends_with_the_last_of_them() {
    let mut story = Story::jumped(Care::Standard);
    // The whole jump is one batch.
    let now = story.view.now;
    for _ in 0..121 {
        story.view.flight += PACKET;
        let advice = story.rule.sent(&story.view, PACKET);
        story.follow(advice, 0);
    }
    assert_eq!((story.view.now, story.rule.phase()), (now, Phase::Validating));
    for packet in 0..120 {
        let advice = story.rule.acknowledged(&story.view, now, PACKET);
        assert_eq!((advice, story.rule.phase()), (Advice::default(), Phase::Validating), "{packet}");
    }
    let loss = Loss { sent: now, bytes: PACKET, persistent: false };
    story.rule.lost(&story.view, &loss);
    assert_eq!(story.rule.phase(), Phase::SafeRetreat);
}

#[test]
fn a_jump_is_never_faster_than_what_was_seen() {
    let rule = |pacing| {
        let terms =
            Terms { initial: 10 * PACKET, packet: PACKET, remembered: Some(known(300)), most: 140 * PACKET, pacing };
        CarefulResume::new(&terms, Care::Standard)
    };
    let jump = |pacing, known: Remembered, rtt| rule(pacing).jump_window(&known, rtt) / PACKET;
    assert_eq!(jump(1.0, known(300), RTT), 140, "max_jump");
    assert_eq!(jump(1.25, known(200), RTT), 100);
    assert_eq!(
        jump(1.25, known(200), RTT / 2),
        80,
        "of a path of half the round trip, by a pacer that is a quarter quicker"
    );
    assert_eq!(jump(1.25, Remembered { trust: Trust::Prefix, ..known(200) }, RTT), 50, "a neighbour's memory");
}

#[test]
fn a_jump_is_smaller_by_what_waits_already_and_there_is_none_where_a_round_trip_waits() {
    let jumped = |rtt: Duration, least: Duration| {
        let mut story = Story::new(Care::Standard, Some(known(300)));
        (story.view.latest, story.view.shortest) = (Some(rtt), Some(rtt));
        story.fill();
        story.acknowledge(1..=10);
        let advice = story.rule.leased(&story.view, Some(Remembered { least, ..known(300) }));
        (advice.window.map(|window| window / PACKET), story.rule.phase(), story.rule.take_refuted())
    };
    assert_eq!(jumped(RTT, RTT), (Some(150), Phase::Unvalidated, false));
    assert_eq!(jumped(RTT * 3 / 2, RTT), (Some(75), Phase::Unvalidated, false), "half of a round trip waits");
    assert_eq!(jumped(RTT, RTT * 4 / 5), (Some(112), Phase::Unvalidated, false), "as it did when it was learned");
    assert_eq!(jumped(RTT * 2, RTT), (None, Phase::Normal, false), "others are there; the memory is not wrong");
}

#[test]
fn where_packets_wait_after_the_jump_slow_start_grows_by_half_until_they_wait_no_more() {
    let mut story = Story::jumped(Care::Standard);
    story.fill();
    story.acknowledge(20..=48);
    let grown = |story: &mut Story, latest: Duration, number: u64| {
        story.view.latest = Some(latest);
        let before = story.view.window;
        story.acknowledge(number..=number);
        story.view.window - before
    };
    assert!((49..=56).all(|number| grown(&mut story, RTT * 2, number) == PACKET), "one sample may be anything");
    assert_eq!(grown(&mut story, RTT * 2, 57), PACKET / 2, "the eighth was the sign");
    assert_eq!(grown(&mut story, RTT, 58), PACKET / 2);
    assert!((59..=169).all(|number| grown(&mut story, RTT, number) == PACKET), "nothing waits any more");
    assert_eq!((story.rule.phase(), story.threshold, story.rule.take_refuted()), (Phase::Normal, None, false));
    // Without a jump it is the controller's business alone.
    let mut plain = Story::new(Care::Standard, None);
    plain.fill();
    assert!((1..=10).all(|number| grown(&mut plain, RTT * 2, number) == PACKET));
}

#[test]
fn congestion_before_the_jump_ends_it_and_the_memory_stays() {
    let mut story = Story::new(Care::Standard, Some(known(300)));
    story.fill();
    story.lose(3);
    assert_eq!((story.rule.phase(), story.rule.take_refuted()), (Phase::Normal, false));
    story.acknowledge(4..=10);
    assert!(!story.rule.wants_lease());
}

#[test]
fn without_the_lease_nothing_jumps() {
    let mut story = Story::new(Care::Standard, Some(known(300)));
    story.fill();
    story.acknowledge(1..=10);
    assert!(story.rule.wants_lease());
    let advice = story.rule.leased(&story.view, None);
    assert_eq!((advice, story.rule.phase()), (Advice::default(), Phase::Normal));
    assert_eq!(story.events(), [(Phase::Normal, Trigger::InUse)]);
}

#[test]
fn a_memory_of_a_small_window_is_not_worth_a_jump() {
    assert_eq!(Story::new(Care::Standard, Some(known(20))).rule.phase(), Phase::Normal);
}

#[test]
fn a_loss_of_what_was_sent_before_the_jump_is_a_safe_retreat_while_the_jump_is_sent() {
    let mut story = Story::jumped(Care::Standard);
    story.send(50);
    assert_eq!(story.rule.phase(), Phase::Unvalidated);
    story.lose(20);
    assert_eq!((story.view.window, story.rule.phase()), (14_500, Phase::SafeRetreat));
    assert!(story.rule.take_refuted());
}

#[test]
fn a_mark_and_persistent_congestion_end_the_jump() {
    for (bytes, persistent, phase) in [(0, false, Phase::SafeRetreat), (PACKET, true, Phase::Normal)] {
        for care in [Care::Standard, Care::Wireless] {
            let mut story = Story::jumped(care);
            story.fill();
            let loss = Loss { sent: moment(60), bytes, persistent };
            let advice = story.rule.lost(&story.view, &loss);
            assert_eq!((story.rule.phase(), advice.handled), (phase, !persistent));
            assert!(story.rule.take_refuted());
        }
    }
}

#[test]
fn on_radio_a_few_losses_of_a_jump_are_left_to_the_controller() {
    let mut story = Story::jumped(Care::Wireless);
    story.fill();
    story.acknowledge(20..=60);
    for number in 61..=66 {
        let loss = Loss { sent: moment(number), bytes: PACKET, persistent: false };
        assert_eq!(story.rule.lost(&story.view, &loss), Advice::default(), "{number}");
        assert_eq!(story.rule.phase(), Phase::Validating);
    }
    // A twentieth of 121 packets is six: the seventh is no accident.
    story.lose(67);
    assert_eq!(story.rule.phase(), Phase::SafeRetreat);
}

#[test]
fn on_radio_a_loss_with_a_risen_round_trip_time_is_congestion() {
    let mut story = Story::jumped(Care::Wireless);
    story.fill();
    story.acknowledge(20..=60);
    story.view.latest = Some(RTT + Duration::from_millis(13));
    story.lose(61);
    assert_eq!(story.rule.phase(), Phase::SafeRetreat);
}

#[test]
fn in_a_retreat_what_was_sent_before_the_jump_proves_nothing_more() {
    let mut story = Story::jumped(Care::Standard);
    story.fill();
    story.acknowledge(20..=30);
    story.lose(49);
    story.acknowledge(31..=48);
    assert_eq!((story.rule.phase(), story.rule.pipe), (Phase::SafeRetreat, 29 * PACKET));
    story.acknowledge(50..=169);
    assert_eq!((story.rule.phase(), story.threshold), (Phase::Normal, Some(74_500)), "29 and 120");
}

#[test]
fn a_jump_of_less_than_an_initial_window_leaves_the_initial_window() {
    let after = |packets| {
        let mut story = Story::new(Care::Standard, Some(known(300)));
        story.fill();
        story.acknowledge(1..=10);
        let advice = story.rule.leased(&story.view, Some(known(300)));
        story.follow(advice, 0);
        story.send(packets);
        story.acknowledge(11..=11);
        (story.packets(), story.events().pop().unwrap())
    };
    assert_eq!(after(5), (10, (Phase::Normal, Trigger::RateLimited)));
    assert_eq!(after(10), (10, (Phase::Validating, Trigger::FirstUnvalidatedPacketAcknowledged)));
    assert_eq!(after(12).0, 12);
}

#[test]
fn on_radio_three_losses_of_a_short_jump_are_few() {
    let mut story = Story::jumped(Care::Wireless);
    story.send(20);
    for number in 49..=51 {
        story.lose(number);
        assert_eq!(story.rule.phase(), Phase::Validating, "{number}");
    }
    story.lose(52);
    assert_eq!(story.rule.phase(), Phase::SafeRetreat);
}

#[test]
fn of_a_jump_that_was_one_batch_the_last_packet_to_arrive_is_the_end() {
    let mut story = Story::jumped(Care::Standard);
    let now = story.view.now;
    for _ in 0..121 {
        story.view.flight += PACKET;
        let advice = story.rule.sent(&story.view, PACKET);
        story.follow(advice, 0);
    }
    let mut phases = (0..121).map(|_| {
        story.rule.acknowledged(&story.view, now, PACKET);
        story.rule.phase()
    });
    assert!(phases.by_ref().take(120).all(|phase| phase == Phase::Validating));
    assert_eq!(phases.next(), Some(Phase::Normal));
}

#[test]
fn a_jump_that_is_not_sent_within_a_round_trip_ends_with_what_was_sent() {
    let mut story = Story::jumped(Care::Standard);
    let first = story.view.now;
    story.send(50);
    let mut acknowledge = |number, since: Duration, latest| {
        (story.view.now, story.view.latest) = (first + since, Some(latest));
        story.acknowledge(number..=number);
        story.rule.phase()
    };
    let late = RTT + Duration::from_millis(10);
    assert_eq!(acknowledge(20, RTT, RTT), Phase::Unvalidated);
    assert_eq!(acknowledge(21, late, late), Phase::Unvalidated, "round trips are as long by now");
    assert_eq!(acknowledge(22, late + Duration::from_nanos(1), late), Phase::Validating);
    assert_eq!((story.packets(), story.events().pop()), (76, Some((Phase::Validating, Trigger::RttExceeded))));
}

#[test]
fn a_loss_of_what_was_sent_since_a_retreat_ends_it_and_what_was_lost_or_marked_is_told_apart() {
    let mut story = Story::jumped(Care::Standard);
    story.fill();
    story.acknowledge(20..=82);
    story.lose(83);
    story.lose(169);
    assert_eq!(story.rule.phase(), Phase::SafeRetreat, "it was sent before");
    story.send(1);
    story.lose(170);
    assert_eq!((story.rule.phase(), story.threshold), (Phase::Normal, Some(31_500)));
    let lost = Trigger::PacketLoss;
    assert_eq!(story.events()[2..], [(Phase::SafeRetreat, lost), (Phase::Normal, lost)]);
    let mut story = Story::jumped(Care::Standard);
    story.fill();
    story.rule.lost(&story.view, &Loss { sent: moment(60), bytes: 0, persistent: false });
    assert_eq!(story.events().pop(), Some((Phase::SafeRetreat, Trigger::EcnCe)));
}

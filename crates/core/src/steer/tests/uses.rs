//! What a channel may be used for, whatever the policy says.

use super::*;

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
    // A channel that may not be used: packets wait for the other one.
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

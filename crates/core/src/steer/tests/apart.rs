//! What came over the fast channel is acknowledged over the fat one.

use super::*;

/// Data of 400 bytes from number `seq` on, which acknowledges `ack`, without options.
fn data(seq: u32, ack: u32) -> Facts {
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
    steerer.handle_input(ms(5), Input::Seen(data(100, 7), Channel::Fast));
    steerer.handle_input(ms(5), Input::Seen(data(500, 7), Channel::Fast));
    assert_eq!(went(&mut steerer, 5, ack(1, 900)), (Channel::Fat, None));
    // What came before may be told as before, and so may what another flow has.
    assert_eq!(went(&mut steerer, 5, ack(1, 100)).0, Channel::Fast);
    assert_eq!(went(&mut steerer, 6, ack(2, 900)).0, Channel::Fast);
    // What comes over the fat channel behind it frees the way, what is sent again of before it does not.
    steerer.handle_input(ms(8), Input::Seen(Facts { payload: 50, ..data(50, 7) }, Channel::Fat));
    assert_eq!(went(&mut steerer, 8, ack(1, 901)).0, Channel::Fat);
    steerer.handle_input(ms(9), Input::Seen(data(900, 7), Channel::Fat));
    assert_eq!(went(&mut steerer, 9, ack(1, 1_300)).0, Channel::Fast);
}

#[test]
fn a_request_leaves_behind_what_it_acknowledges_until_that_has_arrived() {
    let mut steerer = Steerer::new(settings("value", None));
    steerer.handle_input(ms(5), Input::Seen(data(100, 7), Channel::Fast));
    let apart = |order| Some(Apart { back_to: 100, order });
    let order = Some(Order { number: 1, after: None });
    assert_eq!(went(&mut steerer, 5, data(7, 500)), (Channel::Fast, apart(order)));
    // It is said once, and not at all any more when it must have arrived 15 ms later.
    assert_eq!(went(&mut steerer, 7, data(407, 500)), (Channel::Fast, apart(None)));
    assert_eq!(went(&mut steerer, 20, data(807, 500)), (Channel::Fast, None));
    // The next answer, the same again, up to what was told.
    steerer.handle_input(ms(21), Input::Seen(data(500, 1_207), Channel::Fast));
    let order = Some(Order { number: 2, after: None });
    assert_eq!(went(&mut steerer, 22, data(1_207, 900)), (Channel::Fast, Some(Apart { back_to: 500, order })));
    assert_eq!(steerer.tally().apart, 2);
    // What cannot be changed goes the way of what it says.
    steerer.handle_input(ms(40), Input::Seen(data(900, 1_607), Channel::Fast));
    assert_eq!(went(&mut steerer, 41, Facts { plain: false, ..data(1_607, 1_300) }), (Channel::Fat, None));
}

#[test]
fn without_the_fat_channel_everything_is_acknowledged_over_the_fast_one() {
    let mut settings = settings("value", None);
    settings.channels[0].uses = Use::Never;
    let mut steerer = Steerer::new(settings);
    steerer.handle_input(ms(5), Input::Seen(data(100, 7), Channel::Fast));
    assert_eq!(went(&mut steerer, 5, ack(1, 500)), (Channel::Fast, None));
    assert_eq!(went(&mut steerer, 7, data(7, 500)), (Channel::Fast, None));
}

#[test]
fn the_papers_rules_acknowledge_as_they_were_published() {
    let mut steerer = Steerer::new(settings("pkt-state", None));
    steerer.handle_input(ms(5), Input::Seen(data(100, 7), Channel::Fast));
    assert_eq!(went(&mut steerer, 5, data(7, 500)), (Channel::Fast, None));
}

#[test]
fn what_an_acknowledgement_has_said_over_the_fat_channel_a_request_leaves_out() {
    let mut steerer = Steerer::new(settings("value", None));
    steerer.handle_input(ms(5), Input::Seen(data(100, 7), Channel::Fast));
    assert_eq!(went(&mut steerer, 5, ack(1, 500)), (Channel::Fat, None));
    assert_eq!(went(&mut steerer, 6, data(7, 500)), (Channel::Fast, Some(Apart { back_to: 100, order: None })));
}

//! Whose records are in whose part, and how much time parts may take.

use super::*;
use crate::forward::board::tests::flow;
use crate::forward::owner::{Owner, Process};
use headstart_core::forward::Record;

/// A connection of a program of a user that has ended.
fn seen(user: Option<u32>, name: &str) -> Attributed {
    Attributed {
        record: Record::Flow(Box::new(flow())),
        owner: user.map(|user| Owner { user, inode: 0 }),
        process: Some(Process::of_app(name.to_owned())),
    }
}

fn window(audience: Audience) -> Window {
    Window { audience, ..Window::closed() }
}

/// The programs of a part, and those of what has ended.
fn programs(part: Part<'_>) -> (Vec<String>, Vec<String>) {
    let board = part.tallies.board(std::iter::empty(), std::iter::empty());
    let ended = board.ended.into_iter().map(|ended| ended.line.app).collect();
    (board.apps.into_iter().map(|app| app.name).collect(), ended)
}

#[test]
fn a_users_part_has_its_own_programs_and_nothing_of_others() {
    let mut window = window(Audience::Host { group: None });
    let all = [(Some(4711), "theirs"), (Some(4712), "others"), (None, "nobodys"), (Some(0), "roots")];
    all.iter().for_each(|(user, name)| window.take(&seen(*user, name)));
    let (own, ended) = programs(window.part(Sight::Of(4711)));
    assert_eq!((own, ended), (vec!["theirs".to_owned()], vec!["theirs".to_owned()]));
    let part = window.part(Sight::Of(4711));
    assert_eq!([Some(4711), Some(4712), Some(0), None].map(|user| part.has(user)), [true, false, false, false]);
    assert_eq!(programs(window.part(Sight::Of(4713))), (vec![], vec![]));
    let (everything, ended) = programs(window.part(Sight::Everything));
    assert_eq!((everything.len(), ended.len()), (4, 4));
    assert!([Some(4712), Some(0), None].iter().all(|user| window.part(Sight::Everything).has(*user)));
}

#[test]
fn what_was_counted_of_the_whole_host_is_not_in_a_users_part() {
    let all = Board { packets: 7, left_out: 1, lost: 3, ran: Some(Default::default()), ..Board::default() };
    let own = Board { wakeups: [("control".to_owned(), 5)].into(), ..all }.for_user(4711);
    assert_eq!((own.of_user, own.packets, own.left_out, own.ran, own.wakeups.len()), (Some(4711), 0, 0, None, 0));
    assert_eq!(own.lost, 3, "what is missing may be the user's");
}

#[test]
fn who_has_been_silent_for_longest_is_forgotten_and_nothing_is_kept_twice_for_who_sees_all() {
    let mut window = window(Audience::Host { group: None });
    (1..=MOST_USERS as u32).for_each(|user| window.take(&seen(Some(user), "a")));
    window.take(&seen(Some(1), "a"));
    window.take(&seen(Some(0), "root's"));
    window.take(&seen(Some(4711), "a"));
    assert_eq!((window.own.len(), window.own.contains_key(&1), window.own.contains_key(&2)), (MOST_USERS, true, false));
    assert!(window.own.contains_key(&4711) && !window.own.contains_key(&0));
    let mut alone = self::window(Audience::Owner);
    alone.take(&seen(Some(4711), "a"));
    assert!(alone.own.is_empty(), "nobody gets it");
}

#[test]
fn users_who_see_a_part_take_a_tenth_of_the_time_at_most() {
    let window = window(Audience::Host { group: None });
    let ms = Instant::from_millis;
    assert!(window.has_time(ms(100)));
    window.spent(ms(100), ms(103));
    assert_eq!([ms(103), ms(129), ms(130)].map(|now| window.has_time(now)), [false, false, true]);
}

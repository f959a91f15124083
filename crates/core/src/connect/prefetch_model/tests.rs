//! Launches of a program, one after the other, and what is expected of the next.

use super::*;
use std::net::SocketAddr;

fn app() -> AppId {
    "mail".into()
}
fn to(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}
fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// A launch in which names are asked for at these milliseconds, and each is connected to.
fn launch(model: &mut PrefetchModel, number: u32, names: &[(u64, &str)]) {
    let began = u64::from(number) * 1_000_000;
    assert!(model.launched(at(began), number, &app()));
    for (after, name) in names {
        let (now, name) = (at(began + after), Arc::from(*name));
        model.asked(now, number, &app(), &name, &[RecordType::A, RecordType::Aaaa]);
        model.connected(now, number, &app(), &name, to(443));
    }
    model.closed(number);
}

fn chances(expected: &[Expected]) -> Vec<(&str, f32)> {
    expected.iter().map(|e| (&*e.name, e.chance)).collect()
}

#[test]
fn what_every_launch_asks_for_is_expected_of_the_next_soonest_first() {
    let mut model = PrefetchModel::default();
    launch(&mut model, 1, &[(20, "b.example"), (300, "a.example")]);
    launch(&mut model, 2, &[(20, "b.example"), (100, "c.example")]);
    let expected = model.expected_at_launch(&app());
    assert_eq!(chances(&expected), [("b.example", 1.0), ("c.example", 1.0), ("a.example", 0.5)]);
    assert_eq!(model.name(&app(), "b.example").unwrap().ports[&443].launches, 2);
    assert!(model.expected_at_launch(&"news".into()).is_empty(), "another program's habits are its own");
}

#[test]
fn a_habit_that_was_given_up_is_none_any_more() {
    let mut model = PrefetchModel::default();
    (1..9).for_each(|n| launch(&mut model, n, &[(20, "a.example")]));
    (9..12).for_each(|n| launch(&mut model, n, &[(20, "b.example")]));
    let chance = |name: &str, model: &PrefetchModel| {
        model.expected_at_launch(&app()).iter().find(|e| &*e.name == name).unwrap().chance
    };
    assert!(chance("a.example", &model) < 0.5, "three times in four");
    assert_eq!(chance("b.example", &model), 1.0);
}

#[test]
fn three_launches_in_a_row_without_use_and_a_name_is_forgotten() {
    let mut model = PrefetchModel::default();
    launch(&mut model, 1, &[(20, "a.example")]);
    for n in 2..5 {
        assert!(model.name(&app(), "a.example").is_some());
        model.launched(at(0), n, &app());
        model.looked_up_ahead(n, &app(), &"a.example".into());
        model.closed(n);
    }
    assert!(model.name(&app(), "a.example").is_none());
}

#[test]
fn what_follows_a_name_is_expected_after_it_whenever_it_comes() {
    let mut model = PrefetchModel::default();
    launch(&mut model, 1, &[(60_000, "menu.example"), (60_100, "img.example"), (70_000, "late.example")]);
    launch(&mut model, 2, &[(5_000, "menu.example"), (5_200, "img.example"), (5_300, "other.example")]);
    let after = model.expected_after(&app(), "menu.example", false);
    assert_eq!(chances(&after), [("img.example", 1.0), ("other.example", 0.5)]);
    assert!(model.expected_after(&app(), "late.example", false).is_empty());
}

#[test]
fn connections_side_by_side_are_counted_by_bursts() {
    let mut model = PrefetchModel::default();
    let name: Arc<str> = "h1.example".into();
    model.launched(at(0), 1, &app());
    model.asked(at(0), 1, &app(), &name, &[RecordType::A]);
    for ms in [0, 100, 200, 30_000, 30_100, 30_200] {
        model.connected(at(ms), 1, &app(), &name, to(80));
    }
    assert_eq!(model.in_burst(at(30_300), 1, &app(), &name, 80), 3);
    model.closed(1);
    assert_eq!(model.name(&app(), "h1.example").unwrap().ports[&80].parallel, 3.0);
}

#[test]
fn an_address_tried_after_another_is_not_beside_it() {
    let mut model = PrefetchModel::default();
    let name: Arc<str> = "two.example".into();
    model.launched(at(0), 1, &app());
    model.asked(at(0), 1, &app(), &name, &[RecordType::A]);
    let other = |port| SocketAddr::from(([192, 0, 2, 2], port));
    for (ms, to) in [(0, to(443)), (200, other(443)), (250, to(443)), (450, other(443))] {
        model.connected(at(ms), 1, &app(), &name, to);
    }
    let side_by_side = |model: &PrefetchModel| model.in_burst(at(500), 1, &app(), &name, 443);
    assert_eq!(side_by_side(&model), 2);
    model.failed(1, &app(), &name, to(443));
    assert_eq!(side_by_side(&model), 2, "two to the other");
    model.failed(1, &app(), &name, other(443));
    assert_eq!(side_by_side(&model), 1);
}

#[test]
fn a_program_has_no_more_than_a_hundred_names_and_keeps_those_of_habit() {
    let mut model = PrefetchModel::default();
    (1..4).for_each(|n| launch(&mut model, n, &[(20, "a.example")]));
    for n in 4..10 {
        let names: Vec<_> = (0..30).map(|i| format!("{n}-{i}.example")).collect();
        let mut all: Vec<_> = names.iter().map(|name| (50, name.as_str())).collect();
        all.push((20, "a.example"));
        launch(&mut model, n, &all);
    }
    assert_eq!(model.expected_at_launch(&app()).len(), MAX_NAMES);
    assert_eq!(model.name(&app(), "a.example").unwrap().share, 1.0);
}

#[test]
fn what_was_written_down_is_what_a_later_supervisor_begins_with() {
    let mut model = PrefetchModel::default();
    (1..4).for_each(|n| launch(&mut model, n, &[(20, "a.example"), (1000, "b.example")]));
    model.port_mut(&app(), "a.example", 443).unwrap().closes = Some(Duration::from_secs(5));
    let memory = model.remembered();
    assert!(memory.programs[0].names[0].a && !memory.programs[0].names[0].https);
    let mut later = PrefetchModel::default();
    later.recall(&memory);
    assert_eq!(later.remembered(), memory);
    assert_eq!(later.expected_at_launch(&app()), model.expected_at_launch(&app()));
}

#[test]
fn what_is_read_while_the_first_launch_goes_on_is_not_lost() {
    let mut model = PrefetchModel::default();
    (1..4).for_each(|n| launch(&mut model, n, &[(20, "a.example"), (1000, "b.example")]));
    let memory = model.remembered();
    let mut later = PrefetchModel::default();
    let now = Instant::ZERO;
    later.launched(now, 9, &app());
    later.asked(now, 9, &app(), &"b.example".into(), &[RecordType::Https]);
    later.asked(now, 9, &app(), &"c.example".into(), &[RecordType::A]);
    later.recall(&memory);
    let names: Vec<_> = later.programs[&app()].names.keys().map(|n| n.to_string()).collect();
    assert_eq!(names, ["a.example", "b.example", "c.example"]);
    assert_eq!(later.remembered().programs[0].launches, memory.programs[0].launches + 1);
    assert_eq!(later.expected_at_launch(&app()), model.expected_at_launch(&app()));
    assert!(later.name(&app(), "b.example").unwrap().records.iter().any(|r| r == RecordType::Https));
    // From now on it has learned for itself.
    later.closed(9);
    let learned = later.remembered();
    later.recall(&memory);
    assert_eq!(later.remembered(), learned);
}

#[test]
fn what_a_store_gives_back_is_bounded_however_mad() {
    let port = memory::Port { share: f32::NAN, parallel: f32::INFINITY, ..memory::Port::default() };
    let name = |n: u32| memory::Name {
        name: format!("{n}.example"),
        share: 7.0,
        asked: u32::MAX,
        ports: vec![port.clone(); 9],
        ..memory::Name::default()
    };
    let program = |n: u32| memory::Program { app: n.to_string(), names: (0..500).map(name).collect(), launches: 1 };
    let mut model = PrefetchModel::default();
    model.recall(&memory::Memory { programs: (0..500).map(program).collect() });
    assert_eq!(model.programs.len(), MAX_PROGRAMS);
    assert!(model.programs.values().all(|p| p.names.len() == MAX_NAMES));
    assert!(model.programs.values().flat_map(|p| p.names.values()).all(|n| n.share == 1.0));
    launch(&mut model, 1, &[(20, "a.example")]);
}

#[test]
fn forgetting_one_program_leaves_the_others() {
    let mut model = PrefetchModel::default();
    launch(&mut model, 1, &[(20, "a.example")]);
    model.forget(Some("news"));
    assert_eq!(model.remembered().programs.len(), 1);
    model.forget(Some("mail"));
    assert_eq!(model.remembered(), memory::Memory::default());
}

#[test]
fn a_name_is_expected_when_it_usually_comes_and_one_late_launch_says_little() {
    let mut model = PrefetchModel::default();
    (1..7).for_each(|n| launch(&mut model, n, &[(1000 + u64::from(n % 2) * 200, "a.example")]));
    let expected = model.expected_at_launch(&app()).remove(0);
    assert!((1000..1200).contains(&expected.after.as_millis()), "{expected:?}");
    assert!((50..200).contains(&expected.spread.as_millis()), "{expected:?}");
    launch(&mut model, 7, &[(100_000, "a.example")]);
    let later = model.expected_at_launch(&app()).remove(0);
    assert!(later.after < Duration::from_secs(2) && later.after > expected.after, "{later:?}");
}

/// Menus of a launch, one every minute, each with an image after it, unless the connection for that is kept.
fn menus(model: &mut PrefetchModel, number: u32, images: &[u64]) {
    let began = u64::from(number) * 1_000_000;
    model.launched(at(began), number, &app());
    for minute in 0..5 {
        let now = began + minute * 60_000;
        model.asked(at(now), number, &app(), &"menu.example".into(), &[RecordType::A]);
        if images.contains(&minute) {
            let name = "img.example".into();
            model.asked(at(now + 100), number, &app(), &name, &[RecordType::A]);
            model.connected(at(now + 100), number, &app(), &name, to(443));
        }
    }
}

#[test]
fn what_a_program_still_uses_is_not_expected_again_and_does_not_speak_against_itself() {
    let mut model = PrefetchModel::default();
    for n in 1..4 {
        menus(&mut model, n, &[0]);
        model.closed(n);
    }
    let after = model.expected_after(&app(), "menu.example", false);
    assert_eq!(chances(&after), [("img.example", 1.0)], "whenever it could have come, it came");
    let after = model.expected_after(&app(), "menu.example", true);
    assert_eq!(chances(&after), [("img.example", 0.0)], "when it was asked for again it never could");
    menus(&mut model, 4, &[0]);
    let img: Arc<str> = "img.example".into();
    assert!(model.still_uses(at(4_300_000), 4, &app(), &img, 443), "it never came back for another one");
    model.closed(4);
    // One that is closed after less than a minute is wanted with each menu.
    menus(&mut model, 5, &[0, 1, 2, 3, 4]);
    assert_eq!(model.name(&app(), &img).unwrap().ports[&443].again, Some(Duration::from_secs(60)));
    assert!(!model.still_uses(at(5_300_000), 5, &app(), &img, 443));
    assert!(model.still_uses(at(5_240_000 + 30_000), 5, &app(), &img, 443));
    let after = model.expected_after(&app(), "menu.example", true);
    assert_eq!(chances(&after), [("img.example", 1.0)]);
}

#[test]
fn what_is_forgotten_while_a_launch_goes_on_does_not_come_back_at_its_end() {
    let mut model = PrefetchModel::default();
    let went = |model: &mut PrefetchModel, ms: u64, name: &str| {
        let name = name.into();
        model.asked(at(ms), 1, &app(), &name, &[RecordType::A]);
        model.connected(at(ms), 1, &app(), &name, to(443));
    };
    model.launched(at(0), 1, &app());
    went(&mut model, 20, "a.example");
    went(&mut model, 40, "b.example");
    model.forget_host(None, "a.example");
    went(&mut model, 60, "a.example");
    went(&mut model, 80, "c.example");
    model.closed(1);
    let names: Vec<_> = model.remembered().programs[0].names.iter().map(|n| n.name.clone()).collect();
    assert_eq!(names, ["b.example", "c.example"]);
    for app_too in [None, Some("mail")] {
        model.launched(at(0), 1, &app());
        went(&mut model, 20, "a.example");
        model.forget(app_too);
        went(&mut model, 40, "b.example");
        model.launched(at(50), 1, &app());
        model.closed(1);
        assert_eq!(model.remembered(), memory::Memory::default());
    }
    launch(&mut model, 2, &[(20, "a.example")]);
    assert_eq!(model.remembered().programs[0].names.len(), 1, "the next launch is learned from");
}

/// Asks for a name at these milliseconds of launch 1, without a connection.
fn ask(model: &mut PrefetchModel, name: &str, times: impl IntoIterator<Item = u64>) {
    let name = name.into();
    times.into_iter().for_each(|ms| model.asked(at(ms), 1, &app(), &name, &[RecordType::A]));
}

#[test]
fn a_name_that_is_asked_for_over_one_family_is_wanted_over_that_one() {
    let want = |records: &[RecordType]| {
        let mut all = Records::default();
        records.iter().for_each(|record| all.add(*record));
        all.want()
    };
    assert_eq!(want(&[RecordType::A]), super::super::Want::Only(Family::V4));
    assert_eq!(want(&[RecordType::Aaaa]), super::super::Want::Only(Family::V6));
    assert_eq!(want(&RecordType::ALL), super::super::Want::Both);
}

#[test]
fn of_too_many_launches_the_oldest_is_over_and_of_too_many_programs_the_one_used_longest_ago_is_forgotten() {
    let mut model = PrefetchModel::default();
    for n in 0..MAX_LAUNCHES as u32 {
        model.launched(at(u64::from(n)), n, &app());
    }
    assert_eq!((model.launches.len(), model.version()), (MAX_LAUNCHES, 0));
    model.launched(at(9999), 9999, &app());
    assert_eq!((model.launches.len(), model.version()), (MAX_LAUNCHES, 1));
    assert!(!model.launches.contains_key(&(0, app())), "that one has taught what it had to");
    for n in 1..MAX_PROGRAMS as u32 {
        model.launched(at(10_000 + u64::from(n)), n, &format!("{n}").as_str().into());
    }
    assert_eq!(model.programs.len(), MAX_PROGRAMS);
    model.launched(at(20_000), 1, &app());
    assert!(model.programs.contains_key("mail") && model.programs.len() == MAX_PROGRAMS);
    model.launched(at(20_001), 1, &"one more".into());
    assert!(!model.programs.contains_key("1") && model.programs.contains_key("mail"));
    assert_eq!(model.programs.len(), MAX_PROGRAMS);
}

#[test]
fn a_launch_with_too_many_names_keeps_its_first() {
    let mut model = PrefetchModel::default();
    model.launched(at(0), 1, &app());
    (0..=MAX_NAMES as u64).for_each(|n| ask(&mut model, &format!("{n}.example"), [n * 10]));
    assert!(model.name(&app(), "0.example").is_some());
    assert!(model.name(&app(), &format!("{MAX_NAMES}.example")).is_none());
}

#[test]
fn what_was_asked_for_within_seconds_is_recent() {
    let mut model = PrefetchModel::default();
    model.launched(at(0), 1, &app());
    ask(&mut model, "a.example", [1000]);
    let is_recent = |ms: u64, name: &str| model.is_recent(at(ms), 1, &app(), name);
    assert_eq!([1000, 6000, 6001].map(|ms| is_recent(ms, "a.example")), [true, true, false]);
    assert!(!is_recent(1000, "b.example"));
}

#[test]
fn an_answer_is_held_for_as_long_as_it_says() {
    let mut model = PrefetchModel::default();
    launch(&mut model, 1, &[(20, "a.example")]);
    model.held_for(&app(), &"a.example".into(), Duration::from_secs(7));
    assert_eq!(model.name(&app(), "a.example").unwrap().ttl, Some(Duration::from_secs(7)));
}

#[test]
fn the_version_counts_what_is_to_be_written_down() {
    let mut model = PrefetchModel::default();
    launch(&mut model, 1, &[(20, "a.example")]);
    assert_eq!(model.version(), 1);
    assert!(model.port_mut(&app(), "a.example", 80).is_none());
    assert_eq!(model.version(), 1, "there is no such port");
    model.port_mut(&app(), "a.example", 443).unwrap();
    assert_eq!(model.version(), 2);
    model.forget_host(Some("mail"), "a.example");
    assert_eq!(model.version(), 3);
    model.forget(None);
    assert_eq!(model.version(), 4);
}

#[test]
fn a_host_is_forgotten_of_one_program_and_the_rest_of_it_stays() {
    let mut model = PrefetchModel::default();
    for app in [app(), AppId::from("news")] {
        model.launched(at(0), 1, &app);
        for (ms, name) in [(0, "a.example"), (10, "b.example")] {
            model.asked(at(ms), 1, &app, &name.into(), &[RecordType::A]);
            model.connected(at(ms), 1, &app, &name.into(), to(443));
        }
    }
    assert!(model.remembered().programs[0].names.is_empty(), "before the launch has ended nothing is written down");
    model.forget_host(Some("mail"), "b.example");
    assert!(model.expected_after(&app(), "a.example", false).is_empty());
    assert!(!model.is_recent(at(11), 1, &app(), "b.example") && model.is_recent(at(11), 1, &app(), "a.example"));
    let burst =
        |model: &PrefetchModel, app: &str, name: &str| model.in_burst(at(20), 1, &app.into(), &name.into(), 443);
    assert_eq!([("mail", "a.example"), ("mail", "b.example")].map(|(app, name)| burst(&model, app, name)), [1, 0]);
    assert_eq!([("news", "a.example"), ("news", "b.example")].map(|(app, name)| burst(&model, app, name)), [1, 1]);
    model.forget(Some("news"));
    model.closed(1);
    let all = model.remembered();
    let names = all.programs.iter().flat_map(|p| p.names.iter().map(|n| (&*p.app, &*n.name))).collect::<Vec<_>>();
    assert_eq!(names, [("mail", "a.example")], "of a program that is forgotten, the launch that goes on too");
}

#[test]
fn what_is_recalled_goes_no_further_than_the_bounds_allow_beside_what_is_there() {
    let program = |app: String, names: Vec<memory::Name>| memory::Program { app, names, launches: 1 };
    let name = |name: &str, ports: std::ops::Range<u16>| memory::Name {
        name: name.into(),
        share: 1.0,
        ports: ports.map(|port| memory::Port { port, ..memory::Port::default() }).collect(),
        ..memory::Name::default()
    };
    let mut model = PrefetchModel::default();
    launch(&mut model, 1, &[(20, "a.example")]);
    model.recall(&memory::Memory { programs: (0..MAX_PROGRAMS).map(|n| program(n.to_string(), vec![])).collect() });
    assert_eq!(model.programs.len(), MAX_PROGRAMS);

    let mut model = PrefetchModel::default();
    model.launched(at(0), 1, &app());
    (0..MAX_NAMES as u64).for_each(|n| ask(&mut model, &format!("{n}.example"), [n]));
    model.connected(at(200), 1, &app(), &"0.example".into(), to(443));
    model.connected(at(200), 1, &app(), &"1.example".into(), to(443));
    let names = vec![name("new.example", 1..2), name("0.example", 1..4), name("1.example", 1..5)];
    model.recall(&memory::Memory { programs: vec![program("mail".into(), names)] });
    assert!(model.name(&app(), "new.example").is_none(), "the program has a hundred of its own");
    let ports = |name: &str| model.name(&app(), name).unwrap().ports.keys().copied().collect::<Vec<_>>();
    assert_eq!([ports("0.example"), ports("1.example")], [[1, 2, 3, 443], [1, 2, 3, 4]]);
}

#[test]
fn a_chance_that_was_not_taken_counts_and_one_that_was_none_does_not() {
    let mut model = PrefetchModel::default();
    let both = [(0, "menu.example"), (100, "img.example")];
    launch(&mut model, 1, &both);
    launch(&mut model, 2, &both);
    (3..5).for_each(|n| launch(&mut model, n, &both[..1]));
    let after = |model: &PrefetchModel| model.expected_after(&app(), "menu.example", false)[0].chance;
    assert_eq!(after(&model), 0.5);
    launch(&mut model, 5, &[(0, "img.example"), (100, "menu.example")]);
    assert_eq!(after(&model), 0.5, "it had just been asked for");
}

#[test]
fn old_chances_fade_by_half() {
    let mut model = PrefetchModel::default();
    let both = [(0, "menu.example"), (100, "img.example")];
    let after = |model: &PrefetchModel| model.expected_after(&app(), "menu.example", false)[0].chance;
    (1..=12).for_each(|n| launch(&mut model, n, if n == 2 { &both[..1] } else { &both }));
    assert_eq!(after(&model), 11.0 / 12.0);
    launch(&mut model, 13, &both);
    assert_eq!(after(&model), 1.0, "6 of 6 for 12 of 13");
}

#[test]
fn how_often_a_name_was_asked_for_fades_by_half_too() {
    let chance = |times: u64| {
        let mut model = PrefetchModel::default();
        model.launched(at(0), 1, &app());
        ask(&mut model, "menu.example", (0..times).map(|n| n * 60_000));
        ask(&mut model, "img.example", [(times - 1) * 60_000 + 1]);
        model.expected_after(&app(), "menu.example", true)[0].chance
    };
    // The first time is counted apart from the others.
    assert_eq!([13, 14].map(chance), [1.0 / 12.0, 1.0 / 6.0]);
}

#[test]
fn a_new_follower_takes_the_place_of_the_rarest_unless_that_comes_as_often_as_not() {
    let followers = |launches: u32| {
        let mut model = PrefetchModel::default();
        let names: Vec<_> = (1..MAX_FOLLOWERS).map(|n| format!("{n:02}.example")).collect();
        let mut all = vec![(0, "menu.example"), (1, "00.example")];
        all.extend(names.iter().map(|name| (2, name.as_str())));
        launch(&mut model, 1, &all);
        (2..launches).for_each(|n| launch(&mut model, n, &all[..2]));
        launch(&mut model, launches, &[(0, "menu.example"), (1, "00.example"), (2, "new.example")]);
        let after = model.expected_after(&app(), "menu.example", false);
        assert_eq!(after.len(), MAX_FOLLOWERS);
        ["00.example", "01.example", "new.example"].map(|name| after.iter().any(|e| &*e.name == name))
    };
    assert_eq!(followers(2), [true, true, false], "once of two times");
    assert_eq!(followers(3), [true, false, true], "once of three");
}

#[test]
fn a_second_of_lateness_always_counts() {
    let mut model = PrefetchModel::default();
    (1..5).for_each(|n| launch(&mut model, n, &[(0, "a.example")]));
    launch(&mut model, 5, &[(800, "a.example")]);
    let after = model.expected_at_launch(&app())[0].after;
    assert!((199..=201).contains(&after.as_millis()), "a quarter of it: {after:?}");
}

#[test]
fn bursts_are_averaged_over_launches() {
    let mut model = PrefetchModel::default();
    for (n, connections) in [(1, 3), (2, 1)] {
        model.launched(at(0), n, &app());
        model.asked(at(0), n, &app(), &"a.example".into(), &[RecordType::A]);
        (0..connections).for_each(|ms| model.connected(at(ms), n, &app(), &"a.example".into(), to(443)));
        model.closed(n);
    }
    assert_eq!(model.name(&app(), "a.example").unwrap().ports[&443].parallel, 2.5);
}

#[test]
fn a_program_that_comes_back_sooner_is_known_for_it_at_once_and_later_bit_by_bit() {
    let mut model = PrefetchModel::default();
    model.launched(at(0), 1, &app());
    ask(&mut model, "a.example", [0]);
    let mut again = |seconds: u64| {
        model.connected(at(seconds * 1000), 1, &app(), &"a.example".into(), to(443));
        model.name(&app(), "a.example").unwrap().ports[&443].again.map(|again| again.as_secs())
    };
    assert_eq!([0, 60, 128, 138].map(&mut again), [None, Some(60), Some(61), Some(10)]);
}

#[test]
fn what_was_asked_for_just_before_takes_a_chance_from_itself_alone() {
    let mut model = PrefetchModel::default();
    let mut ask = |number: u32, names: [&str; 2]| {
        let began = u64::from(number) * 1_000_000;
        model.launched(at(began), number, &app());
        for (name, after) in names.into_iter().zip([0, 100]) {
            model.asked(at(began + after), number, &app(), &name.into(), &[RecordType::A]);
        }
        model.closed(number);
        model.expected_after(&app(), "menu.example", false).first().map(|e| e.chance)
    };
    assert_eq!([1, 2].map(|n| ask(n, ["menu.example", "img.example"])), [Some(1.0); 2]);
    assert_eq!(ask(3, ["news.example", "menu.example"]), Some(2.0 / 3.0), "it could have come");
    assert_eq!(ask(4, ["img.example", "menu.example"]), Some(2.0 / 3.0), "it was there");
}

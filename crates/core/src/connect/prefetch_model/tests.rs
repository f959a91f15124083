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

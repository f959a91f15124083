//! `headstart engine` with an app that has made the interface: a real TUN in a namespace, handed over by SCM_RIGHTS; curl as its apps.
//!
//! The app is `programs/phone.py`, which speaks the protocol (docs/reference/engine.md) by itself. On a phone nothing of this has run.

use crate::lab::{HEADSTART, Lab, found, inside, python};
use serde_json::{Value, json};

/// What came of a scenario; none where a program is missing.
fn scenario(name: &str) -> Option<Value> {
    let lab = Lab::new();
    for (program, package) in [("ip", "iproute2"), ("curl", "curl"), ("setpriv", "util-linux")] {
        found(program, package)?;
    }
    let python = python()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/programs/phone.py");
    let folder = lab.scratch.path("");
    let ended = lab.bare(&[python.as_str(), script, HEADSTART, folder.to_str().unwrap(), name]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    Some(serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}")))
}

fn is_over(told: &Value) {
    assert_eq!((&told["ended"]["why"], &told["code"]), (&json!("stop"), &json!(0)), "{told}");
}

fn lines<'a>(told: &'a Value, event: &str) -> Vec<&'a Value> {
    told["lines"].as_array().unwrap().iter().filter(|line| line["event"] == event).collect()
}

inside!(on_a_phone_flows_and_lookups_are_measured_and_belong_to_the_app_that_the_phone_says, || {
    let Some(told) = scenario("owners") else { return };
    is_over(&told);
    assert!(told["apps"].as_array().unwrap().iter().all(|app| app["code"] == 0), "{told}");
    let connections = lines(&told, "connection");
    let of = |name: &str| connections.iter().filter(|line| line["app"] == name).collect::<Vec<_>>();
    let (mail, maps) = (of("org.example.mail"), of("org.example.maps"));
    // A connection may be closed before it can be asked whose it is; none is another app's.
    assert!(!mail.is_empty() && maps.len() == 1, "{connections:#?}");
    assert!(mail.iter().all(|line| line["user"] == 10_001), "{mail:#?}");
    assert_eq!((&maps[0]["user"], &maps[0]["pid"]), (&json!(10_002), &Value::Null));
    // The link takes 5 ms each way, and a connection a round trip.
    assert!(maps[0]["connect_ms"].as_f64().unwrap() >= 10.0 && maps[0]["down_bytes"].as_u64().unwrap() >= 400_000);
    let lookups = lines(&told, "lookup");
    let asked = |app: &str, name: &str| lookups.iter().any(|line| line["app"] == app && line["name"] == name);
    assert!(
        asked("org.example.mail", "www.lab.example") && asked("org.example.maps", "v4.lab.example"),
        "{lookups:#?}"
    );
    // The engine looks at its clock once a turn, which on a busy machine is a while before it reads the answer.
    assert!(lookups.iter().all(|line| line["took_ms"].as_f64().unwrap() > 0.0), "{lookups:#?}");
    assert_eq!((&told["asked_twice"], &told["errors"]), (&json!(0), &json!([])), "once a flow");
    assert!(told["mail"].as_array().unwrap().iter().all(|line| line["app"] == "org.example.mail"), "{}", told["mail"]);
    // A measurement carries the network and the state of the device.
    let (late, early) = (&told["late"], maps[0]);
    assert_eq!((&late["network"]["metered"], &late["device"]["doze"]), (&json!(true), &json!(true)), "{late}");
    assert_eq!((&early["network"]["transport"], &early["device"]["battery"]), (&json!("wifi"), &json!(81)));
    let board = &told["statistics"]["board"];
    assert!(board["wakeups"]["statistics"].as_u64().unwrap() >= 1, "{board}");
    assert!(told["protected"].as_u64().unwrap() >= 3 && told["capture"].as_u64().unwrap() > 800_000, "{told}");
});

inside!(on_a_phone_an_app_is_led_to_another_address_of_the_names_that_it_was_told_and_no_other_app_is, || {
    let Some(told) = scenario("accelerated") else { return };
    is_over(&told);
    assert_eq!((&told["bare"]["code"], &told["ours"]["code"]), (&json!(28), &json!(0)), "{told}");
    assert_eq!(told["line"]["accelerated"], "198.19.0.6:80", "{}", told["line"]);
    assert!(told["line"]["peer"].as_str().unwrap().starts_with('['), "the peer is the one that the app wanted");
    assert_eq!(told["other"]["code"], 28, "what one app was told is not used for another: {told}");
});

inside!(on_a_phone_an_app_that_starts_again_needs_no_server_of_names_and_finds_its_connection_begun, || {
    let Some(told) = scenario("ahead") else { return };
    is_over(&told);
    let of = |step: &str| &told["told"][step];
    let all = |step: &str, event: &str, field: &str| -> Vec<Value> {
        let lines = of(step)["lines"].as_array().unwrap().iter().filter(|line| line["event"] == event);
        lines.map(|line| line[field].clone()).collect()
    };
    let (no, yes) = (json!(false), json!(true));
    // The addresses of another app's answers, and of another network's, are of no use.
    for step in ["first", "one address", "other", "moved"] {
        assert!(of(step)["code"] == 0 && of(step)["queries"].as_u64() >= Some(2), "{step}: {told}");
        let marks = (all(step, "lookup", "cached"), all(step, "connection", "ahead"));
        assert_eq!(marks, (vec![no.clone(); 2], vec![no.clone()]), "{step}: {told}");
    }
    for (step, ahead) in [("second", &yes), ("one address again", &yes), ("metered", &no)] {
        assert!(of(step)["code"] == 0 && of(step)["queries"] == 0, "{step}: {told}");
        let marks = (all(step, "lookup", "cached"), all(step, "connection", "ahead"));
        assert_eq!(marks, (vec![yes.clone(); 2], vec![ahead.clone()]), "{step}: {told}");
    }
    // One address is no race: the first connection is measured, and the second is the one that was begun ahead.
    let took = |step| all(step, "connection", "connect_ms")[0].as_f64();
    assert!(took("one address") >= Some(10.0), "{told}");
    assert_eq!((took("one address again"), &of("one address again")["syns"]), (None, &json!(1)), "{told}");
    // Of its app nothing has come but a question.
    assert!(of("asked")["queries"] == 0 && of("asked")["syns"].as_u64() >= Some(1), "{told}");
});

inside!(on_a_phone_nothing_is_raced_until_a_network_has_had_its_login, || {
    let Some(told) = scenario("captive") else { return };
    is_over(&told);
    let code = |name: &str| told[name]["code"].as_i64();
    assert_eq!((code("before"), code("plain"), code("after")), (Some(28), Some(0), Some(0)), "{told}");
});

inside!(on_a_phone_that_does_not_say_whose_a_flow_is_everything_works, || {
    let Some(told) = scenario("unanswered") else { return };
    is_over(&told);
    assert_eq!(told["first"]["code"], 0, "{told}");
    assert!(told["asked"].as_u64().unwrap() >= 2, "{told}");
    let whose: Vec<_> = told["lines"].as_array().unwrap().iter().map(|line| &line["app"]).collect();
    assert_eq!(whose, ["?", "?"], "the questions are closed: {told}");
});

inside!(on_a_phone_an_engine_that_was_killed_is_followed_by_another_and_what_was_begun_meanwhile_is_served, || {
    let Some(told) = scenario("killed") else { return };
    is_over(&told);
    assert_eq!((&told["first"]["code"], &told["killed"], &told["served"]["code"]), (&json!(0), &json!(-9), &json!(0)));
    assert_eq!(told["line"]["app"], "org.example.a", "{told}");
});

inside!(on_a_phone_that_does_not_protect_sockets_nothing_goes_out_and_the_app_is_told_at_once, || {
    let Some(told) = scenario("refused") else { return };
    is_over(&told);
    // 7: could not connect.
    assert_eq!((&told["app"]["code"], &told["line"]["down_bytes"]), (&json!(7), &json!(0)), "{told}");
    // It was asked for each socket that was to be made, and for no connection of its own that came back.
    assert!((1..10).contains(&told["protected"].as_u64().unwrap()), "{told}");
});

inside!(on_a_phone_whose_network_changes_connections_of_addresses_that_are_gone_end_at_once_and_others_go_on, || {
    let Some(told) = scenario("changed") else { return };
    is_over(&told);
    // 56 and 18: the connection was reset under a transfer. Without the word it would wait, and this test end.
    assert!([56, 18].contains(&told["cut"]["code"].as_i64().unwrap()), "{told}");
    assert_eq!((&told["staying"]["code"], &told["after"]["code"]), (&json!(0), &json!(0)), "{told}");
    assert!(told["after"]["out"].as_str().unwrap().contains("family: IPv4"), "{told}");
    let came: u64 = told["staying"]["out"].as_str().unwrap().trim().parse().unwrap();
    assert!(came > 2_400_000, "the whole answer: {told}");
});

inside!(on_a_phone_whose_interface_is_made_anew_connections_go_on_over_the_new_one, || {
    let Some(told) = scenario("replaced") else { return };
    is_over(&told);
    assert_eq!((&told["staying"]["code"], &told["after"]["code"]), (&json!(0), &json!(0)), "{told}");
    let came: u64 = told["staying"]["out"].as_str().unwrap().trim().parse().unwrap();
    assert!(came > 2_400_000, "the whole answer: {told}");
    assert_eq!((&told["gone"], &told["errors"]), (&json!(true), &json!([["descriptor", "interface"]])), "{told}");
});

inside!(on_a_phone_a_day_of_five_thousand_connections_fits_into_100_mb_and_nothing_wakes_it_afterwards, || {
    let Some(told) = scenario("day") else { return };
    is_over(&told);
    assert_eq!(
        (&told["connections"], &told["whole"], &told["idle"]),
        (&json!(5000), &json!(5000), &json!(0)),
        "{told}"
    );
    println!("at most {} kB", told["peak_kb"]);
    assert!(told["peak_kb"].as_u64().unwrap() < 100_000, "{told}");
});

inside!(on_a_phone_apps_ping_as_ever_though_an_engine_without_rights_may_open_no_raw_socket, || {
    let Some(told) = scenario("pings") else { return };
    is_over(&told);
    let said: Vec<_> = told["said"].as_array().unwrap().iter().map(|app| (&app["code"], &app["out"])).collect();
    assert!(said.iter().all(|said| *said == (&json!(0), &json!("hello\n"))), "{told}");
    assert_eq!(told["protected"], 4, "a socket for each of them: {told}");
});

inside!(an_engine_names_what_is_wrong_and_goes_on_and_ends_where_nothing_can_be_read_any_more, || {
    let Some(told) = scenario("wrong") else { return };
    let export = json!(["descriptor", "export"]);
    assert_eq!(told["names"], json!([["order", "start"], ["message", "protected"], export, export, export]), "{told}");
    assert_eq!((&told["fetched"]["code"], &told["last"], &told["code"]), (&json!(0), &json!("frame"), &json!(1)));
});

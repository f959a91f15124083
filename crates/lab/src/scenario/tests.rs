//! Scenarios read, routed and played in virtual time.

use super::*;

fn read(text: &str) -> Result<Scenario, Invalid> {
    Scenario::read("test.toml", text, &mut |name| Err(format!("no file {name}")))
}

/// A scenario of `a` and `d` with routers `b` and `c`, and whatever else.
fn with(rest: &str) -> Result<Scenario, Invalid> {
    let links: String = [("ab", "a", "b"), ("bc", "b", "c"), ("cd", "c", "d")]
        .map(|(name, from, to)| {
            format!("[[link]]\nname = '{name}'\nbetween = ['{from}', '{to}']\nlink = 'delay=10ms'\n")
        })
        .concat();
    read(&format!("name = 'line'\nwhat = 'a line'\nhosts = ['a', 'd']\nrouters = ['b', 'c']\n{links}{rest}"))
}

/// The number of the first line of what is added to the text of [`with`]; lines below count from there.
const REST: usize = 17;

fn pings(from: &str, to: &str, more: &str) -> String {
    format!("[[flow]]\nname = 'p'\nkind = 'ping'\nfrom = '{from}'\nto = '{to}'\ninterval = '10ms'\ncount = 5\n{more}\n")
}

#[test]
fn every_shipped_scenario_reads_under_its_name_and_has_a_picture() {
    for entry in ALL {
        let scenario = read(entry.text).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
        assert_eq!((scenario.name.as_str(), scenario.what.as_str()), (entry.name, entry.what));
        assert!(
            entry.text.lines().filter(|line| line.starts_with("#  ")).count() >= 1,
            "{} has no picture",
            entry.name
        );
        assert!(!scenario.flows.is_empty(), "{} sends nothing", entry.name);
    }
}

#[test]
fn every_shipped_scenario_plays_to_its_end_and_again_the_same() {
    for entry in ALL {
        let scenario = read(entry.text).unwrap();
        let played = virtual_time::play(&scenario).unwrap();
        for (flow, measured) in scenario.flows.iter().zip(&played.flows) {
            match &flow.traffic {
                Traffic::Tcp { bytes, .. } => {
                    assert_eq!(measured.bytes, *bytes, "{} {}", entry.name, flow.name);
                    assert!(measured.completion.is_some());
                }
                _ => assert!(measured.datagrams.1 > 0, "{} {}", entry.name, flow.name),
            }
        }
        assert_eq!(virtual_time::play(&scenario).unwrap().flows, played.flows, "{}", entry.name);
    }
}

#[test]
fn pings_take_the_delay_of_every_link_twice() {
    let played = virtual_time::play(&with(&pings("a", "d", "")).unwrap()).unwrap();
    assert_eq!(played.flows[0].datagrams, (5, 5));
    assert!(
        played.flows[0].delays.iter().all(|delay| *delay == Duration::from_millis(60)),
        "{:?}",
        played.flows[0].delays
    );
}

#[test]
fn a_transfer_fills_the_narrowest_link() {
    let text = "name='t'\nwhat='t'\nhosts=['a','b']\n[[link]]\nname='l'\nbetween=['a','b']\nlink='rate=12mbit,delay=10ms'\n\
                [[flow]]\nname='f'\nkind='tcp'\nfrom='a'\nto='b'\nbytes='3mb'\n";
    let played = virtual_time::play(&read(text).unwrap()).unwrap();
    let time = played.flows[0].completion.unwrap().as_secs_f64();
    // 3 MB in full packets take 2.05 s at 12 Mbit/s; the handshake and the slow start come on top.
    assert!((2.0..2.6).contains(&time), "{time}");
}

#[test]
fn a_transfer_has_the_congestion_control_that_its_flow_names() {
    let text = |rest: &str| {
        format!(
            "name='t'\nwhat='t'\nhosts=['a','b']\n[[link]]\nname='l'\nbetween=['a','b']\n\
             link='rate=50mbit,delay=20ms,loss=1%'\n[[flow]]\nname='f'\nkind='tcp'\nfrom='a'\nto='b'\nbytes='10mb'\n{rest}"
        )
    };
    let time = |rest: &str| {
        let played = virtual_time::play(&read(&text(rest)).unwrap()).unwrap();
        played.flows[0].completion.unwrap().as_secs_f64()
    };
    let (cubic, bbr) = (time(""), time("congestion='bbr'\n"));
    assert_eq!(cubic, time("congestion='cubic'\n"));
    // 10 MB take 1.7 s at 50 Mbit/s. Random losses halve CUBIC's window again and again, and tell BBR nothing.
    assert!(bbr < 3.0 && cubic > 2.0 * bbr, "{cubic} s, {bbr} s");
    let why = virtual_time::play(&read(&text("congestion='vegas'\n")).unwrap()).unwrap_err();
    assert_eq!(
        why,
        "flow \"f\": virtual time has no congestion control `vegas`: write cubic or bbr, or use --time real"
    );
}

#[test]
fn a_handshake_that_is_lost_is_tried_again_after_a_second() {
    let text = "name='t'\nwhat='t'\nhosts=['a','b']\n[[link]]\nname='l'\nbetween=['a','b']\n\
                link='delay=10ms,loss=50%;delay=10ms'\n[[flow]]\nname='f'\nkind='tcp'\nfrom='a'\nto='b'\nbytes='1kb'\n";
    let mut seconds = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut scenario = read(text).unwrap();
        scenario.seed = seed;
        let played = virtual_time::play(&scenario).unwrap();
        seconds.extend(played.flows[0].completion.map(|time| time.as_millis()));
    }
    // There and back, and there: without loss; and with a SYN, then two, lost.
    assert!([30, 1030, 3030].iter().all(|at| seconds.contains(at)), "{seconds:?}");
}

#[test]
fn two_channels_to_one_gateway_are_told_apart_by_the_address() {
    let scenario = read(find("two-channels").unwrap().text).unwrap();
    let played = virtual_time::play(&scenario).unwrap();
    let by_name = |name: &str| {
        let place = scenario.wires.iter().position(|wire| wire.name == name).unwrap();
        played.links[place]
    };
    // Device to gateway is up: the bulk comes down the fat one, 500 messages down the fast one.
    assert_eq!(by_name("fast")[1].packets_out, 500);
    assert!(by_name("fat")[1].bytes_out > 10_000_000);
    let messages = scenario.flows.iter().position(|flow| flow.name == "messages").unwrap();
    assert!(played.flows[messages].delays.iter().all(|delay| *delay < Duration::from_millis(5)));
}

#[test]
fn each_family_takes_its_own_link() {
    let scenario = read(find("dual-stack").unwrap().text).unwrap();
    let played = virtual_time::play(&scenario).unwrap();
    let median = |n: usize| played.flows[n].delays[played.flows[n].delays.len() / 2].as_secs_f64() * 1e3;
    assert!((20.0..22.0).contains(&median(0)), "{}", median(0));
    assert!((80.0..82.0).contains(&median(1)), "{}", median(1));
}

#[test]
fn a_way_chosen_by_hand_is_taken() {
    let ring = "[[link]]\nname='bd'\nbetween=['b','d']\nlink='delay=1ms'\n";
    let short = virtual_time::play(&with(&format!("{ring}{}", pings("a", "d", ""))).unwrap()).unwrap();
    assert_eq!(short.flows[0].delays[0], Duration::from_millis(22));
    let by_hand = "[[route]]\nat='b'\nto='d'\nover='bc'\n";
    let long = virtual_time::play(&with(&format!("{ring}{by_hand}{}", pings("a", "d", ""))).unwrap()).unwrap();
    // There by c, back by the short way.
    assert_eq!(long.flows[0].delays[0], Duration::from_millis(30 + 11));
}

#[test]
fn what_is_wrong_is_said_with_file_line_and_reason() {
    let cases = [
        (
            "[[flow]]\nname='f'\nkind='ping'\nfrom='a'\nto='z'\ninterval='1ms'\ncount=1\n",
            4,
            "unknown node `z`; choose one of a, d, b, c",
        ),
        ("[[link]]\nname='x'\nbetween=['b','b']\nlink='lte'\n", 2, "a loop: both ends"),
        ("[[link]]\nname='x'\nbetween=['b','q']\nlink='lte'\n", 2, "unknown node `q`"),
        ("[[link]]\nname='x'\nbetween=['b','c']\nlink='rate=fast'\n", 3, "rate"),
        ("[[link]]\nname='x'\nbetween=['b','c']\nlink='rate=trace:up.txt'\n", 3, "no file up.txt"),
        ("[[link]]\nname='ab'\nbetween=['b','c']\nlink='lte'\n", 1, "two links are called \"ab\""),
        ("[[route]]\nat='a'\nto='d'\nover='cd'\n", 3, "does not begin at \"a\""),
        ("[[route]]\nat='b'\nto='d'\nover='ab'\n[[route]]\nat='c'\nto='a'\nover='bc'\n", 1, ""),
        ("[[flow]]\nname='f'\nkind='tcp'\nfrom='a'\nto='d'\n", 2, "needs `bytes`"),
        ("[[flow]]\nname='f'\nkind='tcp'\nfrom='a'\nto='d'\nbytes='0b'\n", 5, "above zero"),
        ("[[flow]]\nname='f'\nkind='tcp'\nfrom='a'\nto='d'\nbytes='1mb'\ncount=3\n", 6, "has no `count`"),
        (
            "[[flow]]\nname='f'\nkind='ping'\nfrom='a'\nto='d'\ninterval='1ms'\ncount=3\ncongestion='bbr'\n",
            7,
            "has no `congestion`",
        ),
        ("[[flow]]\nname='f'\nkind='smoke'\nfrom='a'\nto='d'\n", 2, "choose one of tcp, datagrams, ping"),
        (
            "[[flow]]\nname='f'\nkind='datagrams'\nfrom='a'\nto='d'\nrate='1mbit'\nsize=9\nduration='1s'\n",
            6,
            "write 16 to 1400",
        ),
        ("[[flow]]\nname='f'\nkind='tcp'\nfrom='a'\nto='d'\nbytes='1mb'\nspeed=3\n", 6, "speed"),
        ("[[link]]\nname='x'\nbetween=['b']\nlink='lte'\n", 2, ""),
        ("colour = [", 0, ""),
    ];
    for (rest, line, reason) in cases {
        let Err(wrong) = with(rest) else {
            assert!(reason.is_empty(), "accepted: {rest}");
            continue;
        };
        assert_eq!(wrong.origin, "test.toml");
        assert!(wrong.reason.contains(reason), "{rest}\nsaid {wrong}");
        if !reason.is_empty() {
            assert_eq!(wrong.line, REST + line, "{rest}\nsaid {wrong}");
        }
    }
}

#[test]
fn routes_in_a_circle_and_flows_without_a_way_are_refused() {
    let circle = with("[[route]]\nat='b'\nto='d'\nover='bc'\n[[route]]\nat='c'\nto='d'\nover='bc'\n").unwrap_err();
    assert!(circle.reason.contains("the routes to d form a loop: b - c - b"), "{circle}");
    let apart = "[[link]]\nname='v4'\nbetween=['a','d']\nlink='lte'\nfamily='ipv4'\n";
    let text = |more: &str| format!("name='t'\nwhat='t'\nhosts=['a','d','e']\n{apart}{more}");
    let unreachable = read(&text(&pings("a", "e", ""))).unwrap_err();
    assert!(unreachable.reason.contains("flow \"p\": no path from a to e over IPv4"), "{unreachable}");
    let family = read(&text(&pings("a", "d", "family='ipv6'"))).unwrap_err();
    assert!(family.reason.contains("over IPv6"), "{family}");
    // Hosts pass nothing on.
    let through = format!("{}[[link]]\nname='de'\nbetween=['d','e']\nlink='lte'\n", text(""));
    assert!(read(&format!("{through}{}", pings("a", "e", ""))).unwrap_err().reason.contains("hosts do not forward"));
}

#[test]
fn any_text_is_read_or_refused_never_more() {
    for entry in ALL {
        for cut in (0..entry.text.len()).filter(|at| entry.text.is_char_boundary(*at)) {
            if let Err(e) = read(&entry.text[..cut]) {
                assert!(e.line >= 1 && !e.reason.is_empty());
            }
        }
    }
}

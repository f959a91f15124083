//! Synthetic data for the tests of the report, marked as such wherever it could be read as a result.

use crate::device::DeviceState;
use crate::experiment::{Claims, Condition, Fall, Outcome, Price, Row, Series, Waterfall};
use crate::stats::{Pairing, Statistic};

/// Log-normal variates around `middle`: skewed to the right like latencies.
fn latencies(rng: &mut fastrand::Rng, middle: f64, spread: f64, n: usize) -> Vec<f64> {
    (0..n)
        .map(|_| {
            // Twelve uniform variates less six are normal enough for a picture.
            let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
            middle * (spread * normal).exp()
        })
        .collect()
}

/// A page load of nine objects, one after the other.
fn fall(arm: &str, factor: f64) -> Waterfall {
    let object = |n: u32| {
        let at = |ms: f64| (f64::from(n) * 40.0 + ms) * factor;
        let (kind, host) = (if n == 0 { "doc" } else { "img" }.to_owned(), format!("h{}", n % 3));
        Fall { kind, host, wanted_ms: at(0.0), sent_ms: at(25.0), first_byte_ms: at(60.0), end_ms: at(80.0) }
    };
    let falls = (0..9).map(object).collect();
    Waterfall {
        condition: "ipv6-slower".into(),
        arm: arm.into(),
        page: "synthetic".into(),
        load_ms: 400.0 * factor,
        falls,
    }
}

/// An outcome with everything that a page can show.
pub fn outcome() -> Outcome {
    let claims = Claims::built_in().unwrap();
    let mut rng = fastrand::Rng::with_seed(11);
    let mut o = Outcome::new("synthetic-sample", 11);
    let arms = [("sequential", 70.0), ("happy-eyeballs-v2", 50.0), ("simultaneous", 45.0), ("adaptive", 38.0)];
    for (condition, factor, spread) in [("ipv6-slower", 1.0, 0.25), ("ipv6-black-hole", 1.6, 1.2)] {
        let times: Vec<Series> = arms
            .iter()
            .map(|(arm, middle)| {
                let failing = *arm == "sequential" && condition == "ipv6-black-hole";
                let values = latencies(&mut rng, middle * factor, spread, 200);
                let values = values.into_iter().enumerate().map(|(i, v)| (!failing || i % 9 != 0).then_some(v));
                Series::with_failures(condition, "DNS lookup time", "ms", arm, values)
            })
            .collect();
        for ours in &times[1..] {
            let row = Row::compare(ours, &times[0], Statistic::Quantile(0.75), Pairing::Paired, 1).unwrap();
            o.rows.push(row.serving(&claims, "P1.1", "no-cache").unwrap());
        }
        let against = Row::compare(&times[3], &times[1], Statistic::Quantile(0.75), Pairing::Paired, 1).unwrap();
        o.rows.push(against.serving(&claims, "P1.1", "no-cache").unwrap());
        o.rows.push(Row::compare(&times[3], &times[0], Statistic::Quantile(0.95), Pairing::Paired, 1).unwrap());
        o.rows.push(Row::failures(&times[3], &times[0]));
        for (i, (arm, _)) in arms.iter().enumerate() {
            let mut price = |what: &str, unit: &str, amount: f64| {
                let (condition, arm) = (condition.to_owned(), (*arm).to_owned());
                o.prices.push(Price { condition, arm, what: what.into(), unit: unit.into(), amount });
            };
            price("extra SYNs per connection", "", 0.31 * i as f64);
            price("extra bytes per connection", "bytes", 18.6 * i as f64);
            price("resets after hand-over", "", 0.0);
        }
        o.samples.extend(times);
    }
    o.waterfalls = [("bare", 1.0), ("adaptive", 0.8)].map(|(arm, factor)| fall(arm, factor)).to_vec();
    o.conditions = vec![
        Condition {
            name: "ipv6-slower".into(),
            about: "SYNTHETIC. A dual-stack site whose IPv6 path is 40 ms longer; LTE access link.".into(),
        },
        Condition {
            name: "ipv6-black-hole".into(),
            about: "SYNTHETIC. Packets to the IPv6 address vanish; one look-up in nine of the sequential arm fails."
                .into(),
        },
    ];
    o.method = vec![
        "SYNTHETIC: these values were drawn from a random generator to test the page, nothing was measured.".into(),
    ];
    o.notes = vec!["SYNTHETIC data, not a result.".into()];
    o.device = Some(device());
    o
}

fn device() -> DeviceState {
    DeviceState {
        date: "2000-01-01T00:00:00Z".into(),
        program: "0.0.0".into(),
        commit: Some("0123456789abcdef0123456789abcdef01234567".into()),
        kernel: Some("0.0.0-synthetic".into()),
        cpu: Some("synthetic processor".into()),
        cpus: Some(2),
        load_before: Some(0.1),
        load_after: Some(1.2),
        idle_percent: Some(48.0),
        steal_percent: Some(0.2),
        congestion_control: Some("cubic".into()),
        ..DeviceState::default()
    }
}

/// Writes the sample whole; where a person can look at it with `HEADSTART_SAMPLE_PAGE=FOLDER cargo test -p
/// headstart-lab sample`.
#[test]
fn the_sample_page_is_written_and_fits_terminals() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("HEADSTART_SAMPLE_PAGE").map_or_else(|| scratch.path().to_owned(), Into::into);
    let page = super::write(&folder, &outcome(), &Claims::built_in().unwrap()).unwrap();
    assert!(std::fs::read_to_string(page).unwrap().ends_with("</html>\n"));
    for width in [120, 80] {
        let text = super::terminal(&outcome(), width, false);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

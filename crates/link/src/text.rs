//! Links as text: `lte`, or `rate=100mbit,delay=15ms,jitter=2ms,loss=1%,queue=100p`, or two of these as `up;down`.
//!
//! Items are parted by commas. The first may be a preset, which the others then change. Each other item is
//! `key=model:parameters`, or `key=parameters` for the first model of that key's registry. `jitter` makes the delay a
//! truncated normal one with that standard deviation; `order=free` lets short delays overtake long ones; `reorder`, `duplicate` and
//! `corrupt` are shares of packets ([`Mishaps`](crate::Mishaps)). What is not mentioned is ideal, but for a queue of 1000 packets. `medium=wlan:strong` in either direction joins both.
//! No file is opened here: a caller that allows `rate=trace:FILE` passes a reader to [`parse_with_files`].

use crate::medium::{self, MediumSpec, Way};
use crate::preset::{self, UnknownPreset};
use crate::quantity::{self, BadQuantity};
use crate::{BadModel, DuplexSpec, Entry, Files, LinkSpec, Mishaps, Order, Spec, delay, loss, queue, rate};
use headstart_core::time::Duration;

/// Why a text is not a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Nothing is written where a direction should be.
    #[error("an empty link in `{text}`: write a preset ({}) or items such as `{EXAMPLE}`", preset::names().join(", "))]
    Empty {
        /// The whole text.
        text: String,
    },
    /// More than two directions.
    #[error("{count} directions in `{text}`: write one for both, or two as `up;down`")]
    Directions {
        /// The whole text.
        text: String,
        /// How many there are.
        count: usize,
    },
    /// The first item has no `=` and is no preset.
    #[error(transparent)]
    Preset(#[from] UnknownPreset),
    /// An item after the first has no `=`.
    #[error("`{part}` has no value: write KEY=VALUE with one of {KEYS}")]
    NoValue {
        /// The item.
        part: String,
    },
    /// A key that does not exist.
    #[error("unknown key `{key}` in `{part}`; choose one of {KEYS}")]
    UnknownKey {
        /// The item.
        part: String,
        /// Its key.
        key: String,
    },
    /// A key that was given before.
    #[error("`{part}`: {key} is given twice for one direction")]
    Twice {
        /// The second item.
        part: String,
        /// Its key.
        key: &'static str,
    },
    /// A model or its parameters do not read.
    #[error("`{part}`: {reason}; {key} is one of {known}")]
    Model {
        /// The item.
        part: String,
        /// Its key.
        key: &'static str,
        /// What is wrong.
        reason: Box<BadModel>,
        /// The models of that key, each with the form of its parameters.
        known: String,
    },
    /// `jitter` does not read.
    #[error("`{part}`: {reason}")]
    Jitter {
        /// The item.
        part: String,
        /// What is wrong.
        reason: BadQuantity,
    },
    /// An order that does not exist.
    #[error(
        "`{part}`: write order=kept (a packet waits for the one before it) or order=free (a short delay overtakes)"
    )]
    Order {
        /// The item.
        part: String,
    },
    /// A share of packets does not read.
    #[error("`{part}`: {reason}")]
    Share {
        /// The item.
        part: String,
        /// What is wrong.
        reason: BadQuantity,
    },
    /// `reorder` needs a delay that packets can skip.
    #[error(
        "reorder={share} without a delay: packets overtake by skipping the delay, so write one, such as delay=15ms"
    )]
    ReorderWithout {
        /// The share.
        share: String,
    },
    /// Another medium for a link that is in use.
    #[error("medium={medium}: the medium of a link in use is {found}, and stays")]
    OtherMedium {
        /// What was asked for.
        medium: String,
        /// What the link has.
        found: String,
    },
    /// A rate beside a medium that has its own.
    #[error(
        "rate={rate} with medium={medium}: that medium is the rate of both directions; leave the rate out, or write rate=unlimited after a preset"
    )]
    RateAndMedium {
        /// The rate.
        rate: String,
        /// The medium.
        medium: String,
    },
    /// Two directions that name different media.
    #[error("medium={up} one way and medium={down} the other: a link has one medium, named in either direction")]
    TwoMedia {
        /// What the first direction says.
        up: String,
        /// What the second says.
        down: String,
    },
    /// A shared medium where only independent directions can be driven.
    #[error("medium={medium} joins both directions, but here each is driven by itself: use a link without a medium")]
    Joined {
        /// The medium.
        medium: String,
    },
    /// `jitter` needs a plain delay to jitter about.
    #[error("jitter={jitter} needs a plain delay such as delay=15ms, not {found}: or write delay=normal:MEAN:SD")]
    JitterWithout {
        /// The jitter.
        jitter: String,
        /// The delay that was given.
        found: String,
    },
}

const KEYS: &str = "rate, delay, jitter, loss, queue, order, reorder, duplicate, corrupt, medium";
const EXAMPLE: &str = "rate=100mbit,delay=15ms,jitter=2ms,loss=1%,queue=100p";

/// Reads a link whose directions share nothing: up and down. See the module for the form.
pub fn parse(text: &str) -> Result<(LinkSpec, LinkSpec), ParseError> {
    parse_with_files(text, &mut no_files)
}

/// As [`parse`], for a text that may name trace files, which `files` reads.
pub fn parse_with_files(text: &str, files: &mut Files<'_>) -> Result<(LinkSpec, LinkSpec), ParseError> {
    let spec = parse_duplex_with_files(text, files)?;
    if spec.is_wire() { Ok((spec.up, spec.down)) } else { Err(ParseError::Joined { medium: spec.medium.to_string() }) }
}

/// Reads a link: both directions and what joins them. See the module for the form.
pub fn parse_duplex(text: &str) -> Result<DuplexSpec, ParseError> {
    parse_duplex_with_files(text, &mut no_files)
}

/// As [`parse_duplex`], for a text that may name trace files, which `files` reads.
pub fn parse_duplex_with_files(text: &str, files: &mut Files<'_>) -> Result<DuplexSpec, ParseError> {
    let ideal = DuplexSpec::wire(LinkSpec::default(), LinkSpec::default());
    let (spec, medium) = changed(&ideal, text, files)?;
    whole(DuplexSpec { medium: medium.unwrap_or(ideal.medium), ..spec })
}

/// `base` with what `text` says of it: `rate=5mbit` leaves all but the rate, `delay=50ms;delay=20ms` changes both delays, a preset takes the
/// place of all. The medium stays; `files` reads trace files.
pub fn change(base: &DuplexSpec, text: &str, files: &mut Files<'_>) -> Result<DuplexSpec, ParseError> {
    let (spec, medium) = changed(base, text, files)?;
    match medium.filter(|medium| *medium != base.medium) {
        Some(medium) => Err(ParseError::OtherMedium { medium: medium.to_string(), found: base.medium.to_string() }),
        None => whole(DuplexSpec { medium: base.medium.clone(), ..spec }),
    }
}

/// `base` but for its medium with what `text` says of both directions; and the medium if it names one.
fn changed(
    base: &DuplexSpec,
    text: &str,
    files: &mut Files<'_>,
) -> Result<(DuplexSpec, Option<MediumSpec>), ParseError> {
    let directions: Vec<&str> = text.split(';').collect();
    let (first, second) = match directions[..] {
        [both] => (both, both),
        [up, down] => (up, down),
        _ => return Err(ParseError::Directions { text: text.to_owned(), count: directions.len() }),
    };
    let (up, up_medium) = direction(&base.up, text, first, Way::Up, files)?;
    let (down, down_medium) = direction(&base.down, text, second, Way::Down, files)?;
    let medium = match (up_medium, down_medium) {
        (Some(up), Some(down)) if up != down => {
            return Err(ParseError::TwoMedia { up: up.to_string(), down: down.to_string() });
        }
        (up, down) => up.or(down),
    };
    Ok((DuplexSpec::wire(up, down), medium))
}

/// `spec`, if its parts go together.
fn whole(spec: DuplexSpec) -> Result<DuplexSpec, ParseError> {
    for way in Way::BOTH.map(|way| spec.way(way)) {
        if way.mishaps.reorder > 0.0 && way.delay == delay::constant(Duration::ZERO) {
            return Err(ParseError::ReorderWithout { share: quantity::show_fraction(way.mishaps.reorder) });
        }
    }
    if !spec.is_wire()
        && let Some(way) = Way::BOTH.into_iter().find(|&way| spec.way(way).rate != rate::unlimited())
    {
        let (rate, medium) = (spec.way(way).rate.to_string(), spec.medium.to_string());
        return Err(ParseError::RateAndMedium { rate, medium });
    }
    Ok(spec)
}

fn no_files(_: &str) -> Result<String, String> {
    Err("trace files are not read here".to_owned())
}

/// One direction, which is `base` but for what `text` says, and the medium if it names one.
fn direction(
    base: &LinkSpec,
    whole: &str,
    text: &str,
    way: Way,
    files: &mut Files<'_>,
) -> Result<(LinkSpec, Option<MediumSpec>), ParseError> {
    if text.trim().is_empty() {
        return Err(ParseError::Empty { text: whole.to_owned() });
    }
    let mut spec = base.clone();
    let mut seen: Vec<&'static str> = Vec::new();
    let (mut jitter, mut medium) = (None, None);
    for (index, part) in text.split(',').map(str::trim).enumerate() {
        let Some((key, value)) = part.split_once('=') else {
            if index > 0 {
                return Err(ParseError::NoValue { part: part.to_owned() });
            }
            let preset = preset::find(part)?;
            spec = match way {
                Way::Up => (preset.up)(),
                Way::Down => (preset.down)(),
            };
            medium = Some((preset.medium)());
            continue;
        };
        let value = value.trim();
        let key = match key.trim() {
            "jitter" => {
                let read = quantity::duration(value);
                jitter = Some(read.map_err(|reason| ParseError::Jitter { part: part.to_owned(), reason })?);
                "jitter"
            }
            "medium" => {
                medium = Some(model(part, "medium", medium::ALL, value, files)?);
                "medium"
            }
            key => of_link(&mut spec, part, (key, value), files)?,
        };
        if seen.contains(&key) {
            return Err(ParseError::Twice { part: part.to_owned(), key });
        }
        seen.push(key);
    }
    if let Some(sd) = jitter {
        spread(&mut spec, sd)?;
    }
    Ok((spec, medium))
}

/// Jitter spreads a delay that is constant.
fn spread(spec: &mut LinkSpec, sd: Duration) -> Result<(), ParseError> {
    if spec.delay.name() != delay::ALL[0].name {
        let (jitter, found) = (quantity::show_duration(sd), format!("delay={}", spec.delay));
        return Err(ParseError::JitterWithout { jitter, found });
    }
    // A constant delay's least is the delay.
    spec.delay = delay::normal(spec.least_delay(), sd);
    Ok(())
}

/// One property of a link, by its key.
fn of_link(
    spec: &mut LinkSpec,
    part: &str,
    (key, value): (&str, &str),
    files: &mut Files<'_>,
) -> Result<&'static str, ParseError> {
    Ok(match key {
        "rate" => {
            spec.rate = model(part, "rate", rate::ALL, value, files)?;
            "rate"
        }
        "delay" => {
            spec.delay = model(part, "delay", delay::ALL, value, files)?;
            "delay"
        }
        "loss" => {
            spec.loss = model(part, "loss", loss::ALL, value, files)?;
            "loss"
        }
        "queue" => {
            spec.queue = model(part, "queue", queue::ALL, value, files)?;
            "queue"
        }
        "order" => {
            let known = Order::ALL.iter().find(|(name, _)| *name == value);
            spec.order = known.map(|(_, order)| *order).ok_or(ParseError::Order { part: part.to_owned() })?;
            "order"
        }
        key => {
            let Mishaps { reorder, duplicate, corrupt } = &mut spec.mishaps;
            let shares = [("reorder", reorder), ("duplicate", duplicate), ("corrupt", corrupt)];
            let Some((key, share)) = shares.into_iter().find(|(name, _)| *name == key) else {
                return Err(ParseError::UnknownKey { part: part.to_owned(), key: key.to_owned() });
            };
            *share = quantity::fraction(value).map_err(|reason| ParseError::Share { part: part.to_owned(), reason })?;
            key
        }
    })
}

/// `name:parameters` by its registry, or `parameters` by the registry's first entry.
fn model<M: ?Sized>(
    part: &str,
    key: &'static str,
    all: &'static [Entry<M>],
    value: &str,
    files: &mut Files<'_>,
) -> Result<Spec<M>, ParseError> {
    let (name, parameters) = value.split_once(':').unwrap_or((value, ""));
    let named = all.iter().find(|entry| entry.name == name.trim());
    let (entry, parameters) = match named {
        Some(entry) => (entry, parameters),
        None => (&all[0], value),
    };
    (entry.parse)(parameters.trim(), files).map_err(|reason| ParseError::Model {
        part: part.to_owned(),
        key,
        reason: Box::new(reason),
        known: forms(all),
    })
}

fn forms<M: ?Sized>(all: &[Entry<M>]) -> String {
    let form = |entry: &Entry<M>| match entry.parameters {
        "" => entry.name.to_owned(),
        parameters => format!("{}:{parameters}", entry.name),
    };
    all.iter().map(form).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::time::Duration;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_short_forms_mean_the_first_model_of_each_registry() {
        let (up, down) = parse("rate=100mbit, delay=15ms, loss=1%, queue=100p").unwrap();
        assert_eq!(up, down);
        let expected = LinkSpec::constant(100_000_000, Duration::from_millis(15))
            .with_loss(loss::bernoulli(0.01))
            .with_queue(queue::drop_tail(Some(100), None));
        assert_eq!(up, expected);
        assert_eq!(
            up.to_string(),
            "rate=constant:100mbit,delay=constant:15ms,loss=bernoulli:0.01,queue=drop-tail:100p"
        );
    }

    #[test]
    fn jitter_turns_the_delay_into_a_normal_one_wherever_it_stands() {
        let (up, _) = parse("jitter=2ms,delay=15ms").unwrap();
        assert_eq!(up.delay, delay::normal(Duration::from_millis(15), Duration::from_millis(2)));
        assert_eq!(
            error("delay=uniform:1ms:2ms,jitter=1ms"),
            "jitter=1ms needs a plain delay such as delay=15ms, not delay=uniform:1ms:2ms: or write delay=normal:MEAN:SD"
        );
    }

    #[test]
    fn mishaps_are_shares_and_overtaking_needs_a_delay() {
        let (up, _) = parse("delay=15ms,reorder=25%,duplicate=1%,corrupt=0.001").unwrap();
        assert_eq!(up.mishaps, Mishaps { reorder: 0.25, duplicate: 0.01, corrupt: 0.001 });
        assert!(up.to_string().ends_with(",reorder=0.25,duplicate=0.01,corrupt=0.001"), "{up}");
        assert_eq!(
            error("reorder=25%"),
            "reorder=0.25 without a delay: packets overtake by skipping the delay, so write one, such as delay=15ms"
        );
        assert!(error("corrupt=150%").starts_with("`corrupt=150%`: `150%` is not a share"));
        assert_eq!(error("corrupt=1%,corrupt=2%"), "`corrupt=2%`: corrupt is given twice for one direction");
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let base = parse_duplex("rate=10mbit,delay=5ms,loss=1%;rate=50mbit,delay=5ms").unwrap();
        let change = |text: &str| change(&base, text, &mut no_files).map(|spec| spec.to_string());
        let queue = "queue=drop-tail:1000p";
        let down = format!("loss=none,{queue}");
        assert_eq!(
            change("rate=1mbit").unwrap(),
            format!(
                "rate=constant:1mbit,delay=constant:5ms,loss=bernoulli:0.01,{queue};\
                 rate=constant:1mbit,delay=constant:5ms,{down}"
            )
        );
        assert_eq!(
            change("delay=50ms;rate=unlimited").unwrap(),
            format!(
                "rate=constant:10mbit,delay=constant:50ms,loss=bernoulli:0.01,{queue};\
                 rate=unlimited,delay=constant:5ms,{down}"
            )
        );
        assert_eq!(change("lte").unwrap(), parse_duplex("lte").unwrap().to_string());
        assert!(change("medium=wlan:strong").unwrap_err().to_string().contains("and stays"));
        assert!(change("").unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn two_directions_are_up_and_down() {
        let (up, down) = parse("rate=20mbit;rate=129mbit,queue=infinite").unwrap();
        assert_eq!(up.rate, rate::constant(20_000_000));
        assert_eq!(down.rate, rate::constant(129_000_000));
        assert_eq!(down.queue, queue::infinite());
    }

    #[test]
    fn a_medium_in_either_direction_joins_both_and_takes_the_place_of_the_rate() {
        let wlan = |text: &str| parse_duplex(text).unwrap();
        let both = wlan("medium=wlan:strong:3,loss=1%");
        assert_eq!(both.medium, medium::wlan(medium::wlan::Wlan { contenders: 3, ..medium::wlan::Wlan::STRONG }));
        assert_eq!((both.up.loss.clone(), both.down.loss.clone()), (loss::bernoulli(0.01), loss::bernoulli(0.01)));
        assert_eq!(
            wlan("medium=wlan:weak,delay=1ms;delay=2ms").medium,
            wlan("delay=1ms;delay=2ms,medium=wlan:weak").medium
        );
        assert_eq!(wlan("wlan-weak,delay=3ms").down.delay, delay::constant(Duration::from_millis(3)));
        assert!(wlan("lte,medium=wire").is_wire());
        let error = |text: &str| parse_duplex(text).unwrap_err().to_string();
        assert!(error("lte,medium=wlan:strong").starts_with("rate=constant:20mbit with medium=wlan:65mbit:1:"));
        assert!(parse_duplex("lte,rate=unlimited,medium=wlan:strong").is_ok());
        assert!(error("wlan-strong;wlan-weak").starts_with("medium=wlan:65mbit:1:"));
        assert!(
            error("medium=air").starts_with("`medium=air`: 1 parameters given to `wire`"),
            "{}",
            error("medium=air")
        );
        assert!(super::tests::error("wlan-weak").contains("joins both directions, but here each is driven by itself"));
    }

    #[test]
    fn a_preset_can_be_changed() {
        let (up, down) = parse("good,loss=none").unwrap();
        let good = preset::find("good").unwrap();
        assert_eq!(up, (good.up)().with_loss(loss::none()));
        assert_eq!(down, (good.down)().with_loss(loss::none()));
    }

    #[test]
    fn the_messages_name_the_bad_part_and_list_what_exists() {
        assert!(
            error("lten").starts_with("unknown preset `lten` (did you mean `lte`?); choose one of "),
            "{}",
            error("lten")
        );
        assert!(error("lten").contains("lte, "));
        assert_eq!(
            error("rate=1mbit,dealy=3ms"),
            "unknown key `dealy` in `dealy=3ms`; choose one of rate, delay, jitter, loss, queue, order, reorder, duplicate, corrupt, medium"
        );
        assert_eq!(error("rate=1mbit,rate=2mbit"), "`rate=2mbit`: rate is given twice for one direction");
        assert_eq!(
            error("rate=1mbit,lte"),
            "`lte` has no value: write KEY=VALUE with one of rate, delay, jitter, loss, queue, order, reorder, duplicate, corrupt, medium"
        );
        assert!(error("loss=often").starts_with("`loss=often`: `often` is not a share: write a percentage"));
        assert!(error("loss=often").contains("; loss is one of bernoulli:SHARE, fades:LENGTH:GAP[:LOSS[:SEED]], "));
        // All of them, whatever is added to the registry.
        for entry in loss::ALL {
            let form = [entry.name, entry.parameters].join(if entry.parameters.is_empty() { "" } else { ":" });
            assert!(error("loss=often").contains(&form), "{form}");
        }
        assert_eq!(error("a;b;c"), "3 directions in `a;b;c`: write one for both, or two as `up;down`");
        assert!(error("lte;").starts_with("an empty link in `lte;`"));
        assert!(error("rate=trace:a.trace").contains("cannot read `a.trace`: trace files are not read here"));
    }

    #[test]
    fn a_trace_is_read_through_the_callers_reader_and_told_apart_by_its_content() {
        let read = |content: &str| {
            parse_with_files("rate=trace:up.trace", &mut |path| Ok(format!("{content}{}", path.len()))).unwrap().0
        };
        assert_eq!(read("1\n"), read("1\n"));
        assert_ne!(read("1\n"), read("2\n"));
        assert_eq!(read("1\n").rate.to_string(), "trace:up.trace");
        let bad = parse_with_files("rate=trace:up.trace", &mut |_| Ok("5\n4\n".into())).unwrap_err();
        assert!(bad.to_string().contains("up.trace:2: 4 comes after 5"), "{bad}");
    }

    #[test]
    fn every_preset_and_every_example_prints_as_text_that_reads_back() {
        for preset in preset::ALL {
            let spec = preset.spec();
            assert_eq!(parse_duplex(&spec.to_string()), Ok(spec), "{}", preset.name);
        }
        for entry in delay::ALL {
            let read = |text: &str| parse_with_files(text, &mut |_| Ok("1\n".to_owned()));
            let two_columns = |text: &str| parse_with_files(text, &mut |_| Ok("0 1\n".to_owned()));
            let read = |text: &str| read(text).or_else(|_| two_columns(text));
            let (up, _) = read(&format!("delay={}:{}", entry.name, entry.example)).unwrap();
            assert_eq!(read(&up.to_string()).unwrap().0, up);
        }
        for entry in medium::ALL {
            let spec = parse_duplex(&format!("medium={}:{}", entry.name, entry.example)).unwrap();
            assert_eq!(parse_duplex(&spec.to_string()), Ok(spec));
        }
        for entry in loss::ALL {
            let (up, _) = parse(&format!("loss={}:{}", entry.name, entry.example)).unwrap();
            assert_eq!(parse(&up.to_string()).unwrap().0, up);
        }
        for entry in queue::ALL {
            let (up, _) = parse(&format!("queue={}:{}", entry.name, entry.example)).unwrap();
            assert_eq!(parse(&up.to_string()).unwrap().0, up);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_near_miss_makes_the_reader_panic(
            parts in proptest::collection::vec(
                "(rate|delay|jitter|loss|queue|medium|lte|x)=?(constant|trace|normal|uniform|empirical|fades|gilbert-elliott|drop-tail|codel|wlan)?:?[0-9.:%;]{0,12}(mbit|ms|s|p|kib|%)?:?[0-9]{0,3}(ms|p|b|%)?",
                0..5,
            ),
        ) {
            if let Ok(spec) = parse_duplex(&parts.join(",")) {
                // What reads also prints as text that reads back.
                prop_assert_eq!(parse_duplex(&spec.to_string()), Ok(spec));
            }
        }

        #[test]
        fn rates_and_delays_read_back_exactly(bits in 1u64.., nanos in 0u64..) {
            let spec = LinkSpec::constant(bits, Duration::from_nanos(nanos));
            prop_assert_eq!(parse(&spec.to_string()).unwrap().0, spec);
        }
    }
}

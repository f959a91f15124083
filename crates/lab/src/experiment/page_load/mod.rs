//! `page-load`: what getting connected sooner means to a user who waits for a page (claim P1.8).
//!
//! Whole pages are loaded by a browser in virtual time ([`crate::sim::Browser`]): every arm loads the same pages in the
//! same worlds with the same seeds, on a first visit and on a later one, half an hour after it, when answers with a
//! lifetime of five minutes are gone. Pages are the project's own unless others are given. In namespaces Chromium loads
//! pages.

mod chromium;
mod measure;
pub(super) mod pages;
pub(super) mod put;
mod rows;

use super::{Claims, Context, Entry, Outcome, Speeds, Steps};
use crate::condition::page::Families;
use crate::page::Dependency;
use measure::Block;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "page-load",
    shows: "Pages load sooner on a first visit, and more so on later ones; lists pages that load later",
    claims: &[rows::CLAIM],
    conditions: &["lte", "3g", "wlan", "dual-stack"],
    speeds: Speeds::Both,
    run,
};

/// A network of the experiment.
struct AccessNetwork {
    name: &'static str,
    link: &'static str,
    families: Families,
    about: &'static str,
}

const NETWORKS: [AccessNetwork; 4] = [
    AccessNetwork {
        name: "lte",
        link: "lte",
        families: Families::Alike,
        about: "link `lte`; A and AAAA records after the same time, 3 ms at the median beyond the link; no host fails",
    },
    AccessNetwork { name: "3g", link: "3g", families: Families::Alike, about: "link `3g`; the rest as `lte`" },
    AccessNetwork {
        name: "wlan",
        link: "wlan-strong",
        families: Families::Alike,
        about: "link `wlan-strong`, which both directions share with a neighbour; the rest as `lte`",
    },
    AccessNetwork {
        name: "dual-stack",
        link: "lte",
        families: Families::Paper1,
        about: "link `lte`; the two families as in `paper1-lte`: A records after 3 ms at the median, AAAA records after 22, 5 % \
                of hosts refuse over IPv6. Hosts in a black hole are left out: without a race each costs two minutes",
    },
];

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = ENTRY.outcome(cx, &METHOD, &NOTES);
    if cx.speeds.in_virtual_time() {
        in_virtual_time(cx, &claims, &mut outcome)?;
    }
    if cx.speeds.in_namespaces() && outcome.valid {
        chromium::run(cx, &mut outcome)?;
    }
    Ok(outcome)
}

fn in_virtual_time(cx: &Context, claims: &Claims, outcome: &mut Outcome) -> anyhow::Result<()> {
    let sources = pages::sources(cx, outcome)?;
    let networks: Vec<&AccessNetwork> = NETWORKS.iter().filter(|p| cx.wants(p.name)).collect();
    let mut blocks = Vec::new();
    for source in &sources {
        let two = source.pages.iter().any(|p| p.objects.iter().any(|o| o.structure != o.gate));
        let readings: &[Dependency] = if two { &Dependency::BOTH } else { &[Dependency::Structure] };
        for access in &networks {
            blocks.extend(readings.iter().map(|reading| (source, *access, *reading)));
        }
    }
    let mut steps = Steps::new(cx, blocks.iter().map(|(source, ..)| source.pages.len()).sum());
    for (source, access, reading) in blocks {
        let mut block = Block::new(access, source.suffix, reading);
        for page in &source.pages {
            if !steps.next(outcome, &format!("{}, {}", block.name, page.name)) {
                return Ok(());
            }
            block.load(page, cx.seed, source.seeds)?;
        }
        let (whose, worlds) = (&source.whose, source.seeds);
        for visit in measure::Visit::ALL {
            let name = block.condition(visit);
            let about = format!(
                "{}: {}. {whose}, each loaded in {worlds} worlds, {}.",
                access.name,
                access.about,
                visit.about()
            );
            outcome.condition(name, about);
        }
        let judged = access.name == rows::JUDGED && source.suffix.is_empty() && reading == Dependency::Structure;
        outcome.rows.extend(rows::of(&block, judged.then_some(claims), cx.seed)?);
        outcome.samples.extend(block.samples());
        block.add_prices(outcome);
        if outcome.waterfalls.is_empty()
            && let Some(page) = source.pages.get(block.typical())
        {
            outcome.waterfalls = block.waterfalls(page, cx.seed)?;
        }
    }
    Ok(())
}

const METHOD: [&str; 6] = [
    "A browser in virtual time begins its first request 250 ms after its launch (Chromium needs longer; docs/decisions/0025), \
     from which its page load time counts. It requests each object when its dependencies have loaded, over six connections an \
     origin in HTTP/1.1 and one in HTTP/2 and HTTP/3 (which only the arms `-h3` speak, from the first request on; to all others \
     such hosts speak HTTP/2), TLS 1.3 on each, CUBIC from ten segments, responses by urgency. Everything shares the access link. \
     The page load time is that of the load event: scripts' own requests and media do not hold it up.",
    "`bare` is a modern browser without headstart: both records queried at once and both awaited, IPv6 first, IPv4 beside it \
     after 300 ms. `sequential` is the Android of paper 1. `simultaneous` is the paper's method with its cache of an hour. The \
     other races stand alone, with the TTLs of the records, and are loaded twice. `headstart` is `adaptive` with answers kept for \
     an hour, names looked up and connections opened ahead. `ready` is out of reach for any host: every name is known and every \
     connection open to the nearest address whenever it is needed. The difference from `bare` is all that can be gained below a \
     browser; what each page waits for on the path to its load event is reported as a share.",
    "A later visit is half an hour after the first, with an empty cache of objects, no open connection and no state in the \
     browser: only state below it helps. `launched` is the fourth visit, each half an hour after the one before: by then \
     headstart has learned what the page requests, and has it ready when the browser starts.",
    "A value is the mean of a page over its worlds. Rows of pages of 1.5 to 3 s are of those that take so long under \
     `sequential` on a first visit.",
    "The same page meets the same world under each arm: the distance of each host over each family, the time of each record, and \
     the hosts that refuse. Only the jitter of links, and what neighbours do on the WLAN, differs for an arm that sends different \
     packets; a page that loses by this in one world gains by it in another. `bare-again` is `bare` in the same worlds with other \
     numbers drawn by the links: it shows how many of its pages are slower, and by how much, by chance alone.",
    "In namespaces Chromium loads recorded pages if `--pages` has some, else pages of the generator with contents made up for \
     them, from a server for each host; bare and under `headstart run`, in turns, each load in a fresh context. `loader` is the \
     browser of virtual time over the same pages, `loader-sockets` the same model of a page over real sockets, the kernel's TCP \
     and real TLS: the difference between these two is due to the network, that between the latter and Chromium to the browser. \
     `near` is a bare Chromium with every host nearby (1 Gbit/s, 0.1 ms): the work of the browser and of the replay. \
     `loader-and-near` adds both times, as if they did not overlap. The first contentful paint is Chromium's own (Paint Timing), \
     in loads that painted under both arms; those that had not sixty frames after the load event have none.",
];

const NOTES: [&str; 2] = [
    "A host's distance over IPv4 is that of the page; over IPv6 it is random, as in `paper1-lte`, because page data has no IPv6.",
    "For pages from specs, the dependencies of objects are inferred. Both readings are run; a gain counts only if it is in both.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Row;

    fn quick(condition: &str) -> Outcome {
        ENTRY.start(&Context { quick: true, conditions: Some(vec![condition.into()]), ..Context::new(3) }).unwrap()
    }

    fn row<'a>(o: &'a Outcome, condition: &str, metric: &str, arm: &str, baseline: &str) -> &'a Row {
        let is = |r: &&Row| {
            r.condition == condition
                && r.metric == metric
                && r.arm == arm
                && r.baseline_arm.as_deref() == Some(baseline)
        };
        o.rows.iter().find(is).unwrap_or_else(|| panic!("no row {condition} {metric} {arm} {baseline}"))
    }

    #[test]
    fn a_later_visit_is_sooner_than_androids_and_than_a_browsers_own_and_repeats() {
        let o = quick("lte");
        for baseline in ["sequential", "bare"] {
            let later = row(&o, "lte-later", "page load time, mean", "headstart", baseline);
            assert!(later.ratio.unwrap() < 1.0, "{later:?}");
        }
        assert_eq!(o.last_line(), quick("lte").last_line());
    }

    #[test]
    fn pages_of_others_are_read_and_broken_lines_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let object = r#"{"o":0,"p":"h2","t":"doc","s":200,"rq":600,"rh":400,"rb":9000,"w":9400,"par":-1,"gap":0}"#;
        let line = |site: &str| {
            format!(r#"{{"v":1,"id":"{site}","site":"{site}","main":0,"hosts":[{{"leg":5}}],"objs":[{object}]}}"#)
        };
        let file = dir.path().join("specs.jsonl");
        std::fs::write(&file, format!("{}\nbroken\n{}\n{}\n", line("a"), line("a"), line("b"))).unwrap();
        let cx = |pages: &std::path::Path| Context {
            quick: true,
            conditions: Some(vec!["3g".into()]),
            pages: Some(pages.into()),
            ..Context::new(1)
        };
        let o = ENTRY.start(&cx(dir.path())).unwrap();
        assert!(o.notes.iter().any(|n| n.contains("specs.jsonl, byte")), "{:?}", o.notes);
        assert!(o.conditions[0].about.contains("2 page specs, one a site"), "{:?}", o.conditions);
        assert_eq!(o.last_line(), ENTRY.start(&cx(&file)).unwrap().last_line());
    }
}

//! The generator: pages that the project ships, since the pages of others are not its own to ship.
//!
//! A page is drawn from a seed. Numbers of objects and hosts, shares of kinds and protocols, sizes, distances, the time
//! that servers take and the time that a browser computes have the quantiles of 294 home pages loaded cold by Chromium 139
//! in August 2025 (public data set `Crux_Sites_Scrapper`; summary figures only). Gaps are those after the object that ended
//! last, which is what is left of a wait when the network's part is taken off. The generator knows what its objects
//! wait for, so both readings of a page are one.
//!
//! What never happens here: nothing of a real page is copied, no name is one that exists, and the same seed gives the same
//! page on every machine (no transcendental function of the platform's decides anything but a size).

use super::{Host, Kind, Object, Page, Protocol, Start};
use headstart_core::time::Duration;

/// Quantiles at the percents of [`PERCENTS`].
struct Curve([f64; 7]);

/// The percents of a [`Curve`].
const PERCENTS: [f64; 7] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0];

impl Curve {
    /// The value at `share`, 0 to 1: below the median between two quantiles in proportion, above it with a bend, since long
    /// tails are (with it the mean sizes of the kinds come out as published); beyond the last ones those.
    fn at(&self, share: f64) -> f64 {
        let percent = (share * 100.0).clamp(PERCENTS[0], PERCENTS[6]);
        let above = PERCENTS.iter().position(|p| percent <= *p).unwrap_or(6).max(1);
        let (from, to) = (PERCENTS[above - 1], PERCENTS[above]);
        let part = (percent - from) / (to - from);
        let part = if above > 3 { part * part } else { part };
        self.0[above - 1] + (self.0[above] - self.0[above - 1]) * part
    }

    fn draw(&self, rng: &mut fastrand::Rng) -> f64 {
        self.at(rng.f64())
    }

    fn draw_ms(&self, rng: &mut fastrand::Rng) -> Duration {
        Duration::from_micros((self.draw(rng) * 1e3) as u64)
    }
}

/// Objects of a page.
const OBJECTS: Curve = Curve([10.9, 23.6, 38.2, 76.5, 143.0, 209.0, 388.0]);
/// Hosts of a page.
const HOSTS: Curve = Curve([1.0, 3.0, 5.0, 11.0, 23.0, 38.0, 54.3]);
/// Correlation of the two (of their logarithms, 0.759); page by page a share of hosts is the share of objects this often.
const ALIKE: f64 = 0.759;
/// Share of redirects before the main document: at least one, two, three.
const REDIRECTS: [f64; 3] = [0.2619, 0.0748, 0.0272];
/// Distance of a page's own hosts beyond the access, in ms.
const LEG_OWN: Curve = Curve([0.0, 3.5, 6.3, 14.8, 137.0, 185.0, 432.0]);
/// Distance of other hosts beyond the access, in ms: content networks and all others together.
const LEG_OTHER: Curve = Curve([1.0, 2.5, 4.7, 20.0, 39.0, 145.0, 265.0]);
/// Protocols of hosts: HTTP/1.1 up to here, HTTP/2 up to there; the rest is HTTP/3.
const PROTOCOLS: [f64; 2] = [0.1075, 0.7636];
/// Mean share of objects by the rank of the host, the page's first host left out.
const RANKS: [f64; 19] = [
    0.141, 0.0695, 0.0453, 0.0321, 0.0253, 0.0203, 0.0161, 0.0135, 0.0107, 0.009, 0.0077, 0.0065, 0.0055, 0.0048,
    0.0041, 0.0035, 0.0031, 0.003, 0.0026,
];
/// Time that servers say they took, in ms: an answer that a cache near by had.
const THINK_HIT: Curve = Curve([0.0, 0.0, 1.0, 1.0, 5.0, 18.0, 766.0]);
/// The same for an answer that it had to fetch.
const THINK_MISS: Curve = Curve([4.5, 21.0, 107.0, 160.0, 190.0, 305.0, 687.0]);
/// The same where headers do not tell.
const THINK_UNKNOWN: Curve = Curve([0.0, 0.0, 0.0, 1.0, 34.0, 161.0, 661.0]);

/// What is drawn for one kind of object.
struct Class {
    kind: Kind,
    /// Share of the objects of a page, the document left out.
    share: f64,
    /// Share that comes from the page's own hosts.
    own: f64,
    /// Bytes of the body on the wire.
    body: Curve,
    /// Median of request and response header, in bytes.
    headers: [u64; 2],
    /// Share that starts while its parent arrives, and after which share of it.
    streamed: f64,
    stream_at: Curve,
    /// From the end of what it waits for until it is asked for, in ms.
    gap: Curve,
    /// Shares of answers that a cache near by had, and had not.
    cached: [f64; 2],
    /// Kinds of parents with their shares; the document is the rest.
    parents: &'static [(Kind, f64)],
    /// Where it tends to stand in the page, 0 (front) to 1: scripts' requests come late, style sheets early.
    place: f64,
}

/// A share that is never drawn.
const NONE: Curve = Curve([0.0; 7]);

const CLASSES: [Class; 7] = [
    Class {
        kind: Kind::Css,
        share: 0.0815,
        own: 0.6628,
        body: Curve([22.0, 227.0, 543.0, 1_600.0, 7_600.0, 30_500.0, 165_700.0]),
        headers: [586, 617],
        streamed: 0.5534,
        stream_at: Curve([0.006, 0.015, 0.02, 0.037, 0.397, 0.663, 0.971]),
        gap: Curve([0.0, 1.4, 3.2, 6.6, 61.3, 502.0, 1300.0]),
        cached: [0.4971, 0.0122],
        parents: &[(Kind::Frame, 0.0444), (Kind::Css, 0.0423), (Kind::Js, 0.0235)],
        place: 0.0,
    },
    Class {
        kind: Kind::Js,
        share: 0.3041,
        own: 0.4,
        body: Curve([21.0, 454.0, 1_400.0, 6_900.0, 35_000.0, 119_500.0, 444_700.0]),
        headers: [567, 730],
        streamed: 0.2567,
        stream_at: Curve([0.0, 0.016, 0.029, 0.113, 0.587, 0.808, 0.993]),
        gap: Curve([0.0, 0.6, 3.1, 13.8, 63.3, 303.0, 1300.0]),
        cached: [0.5636, 0.0255],
        parents: &[(Kind::Js, 0.2784), (Kind::Frame, 0.0512)],
        place: 0.1,
    },
    Class {
        kind: Kind::Img,
        share: 0.3739,
        own: 0.4795,
        body: Curve([0.0, 43.0, 1_100.0, 7_100.0, 28_400.0, 89_700.0, 552_600.0]),
        headers: [668, 597],
        streamed: 0.3163,
        stream_at: Curve([0.014, 0.15, 0.458, 0.758, 0.862, 0.935, 0.989]),
        gap: Curve([0.0, 1.6, 7.8, 38.3, 132.0, 576.0, 2800.0]),
        cached: [0.6698, 0.027],
        parents: &[(Kind::Js, 0.0594), (Kind::Css, 0.0484), (Kind::Frame, 0.0375), (Kind::Img, 0.0325)],
        place: 0.4,
    },
    Class {
        kind: Kind::Font,
        share: 0.0371,
        own: 0.4425,
        body: Curve([3_600.0, 14_200.0, 18_200.0, 29_300.0, 57_500.0, 122_500.0, 279_700.0]),
        headers: [589, 799],
        streamed: 0.2116,
        stream_at: Curve([0.0, 0.008, 0.013, 0.026, 0.132, 0.401, 0.8]),
        gap: Curve([0.0, 15.6, 42.1, 268.0, 753.0, 1400.0, 3700.0]),
        cached: [0.7774, 0.0028],
        parents: &[(Kind::Css, 0.7194), (Kind::Frame, 0.046)],
        place: 0.5,
    },
    Class {
        kind: Kind::Xhr,
        share: 0.1777,
        own: 0.1926,
        body: Curve([0.0, 0.0, 0.0, 14.0, 568.0, 17_400.0, 114_400.0]),
        headers: [732, 789],
        streamed: 0.0135,
        stream_at: Curve([0.0, 0.0, 0.0, 0.092, 0.953, 0.99, 0.996]),
        gap: Curve([0.0, 1.8, 11.2, 34.9, 96.2, 318.0, 1600.0]),
        cached: [0.1394, 0.1593],
        parents: &[(Kind::Js, 0.9417), (Kind::Xhr, 0.025), (Kind::Frame, 0.0248)],
        place: 0.7,
    },
    Class {
        kind: Kind::Frame,
        share: 0.0221,
        own: 0.0478,
        body: Curve([0.0, 145.0, 775.0, 1_800.0, 15_800.0, 44_300.0, 97_800.0]),
        headers: [783, 716],
        streamed: 0.0247,
        stream_at: Curve([0.045, 0.301, 0.302, 0.797, 0.817, 0.819, 0.821]),
        gap: Curve([0.0, 3.9, 13.6, 32.7, 88.2, 471.0, 2300.0]),
        cached: [0.4027, 0.07],
        parents: &[(Kind::Js, 0.5432), (Kind::Frame, 0.0833)],
        place: 0.6,
    },
    Class {
        kind: Kind::Media,
        share: 0.0036,
        own: 0.1447,
        body: Curve([10.0, 10.0, 6_200.0, 21_000.0, 63_000.0, 215_500.0, 1_610_400.0]),
        headers: [646, 800],
        streamed: 0.0,
        stream_at: NONE,
        gap: Curve([10.0, 41.9, 50.5, 298.0, 513.0, 1500.0, 1800.0]),
        cached: [0.7534, 0.0],
        parents: &[(Kind::Js, 0.4474), (Kind::Media, 0.0132)],
        place: 0.7,
    },
];

/// The main document: its body, in bytes.
const DOC_BODY: Curve = Curve([908.0, 4_500.0, 12_700.0, 35_100.0, 73_000.0, 137_100.0, 518_700.0]);
/// Median of the document's request and response header, in bytes.
const DOC_HEADERS: [u64; 2] = [631, 950];
/// Shares of documents that a cache near by had, and had not.
const DOC_CACHED: [f64; 2] = [0.2871, 0.2409];
/// Share of documents that come over HTTP/1.1; next to none come over HTTP/3.
const DOC_HTTP1: f64 = 0.2955;
/// Bytes of a redirect: a header and no body to speak of.
const REDIRECT_BYTES: u64 = 854;

/// The page of this seed. Pages of different seeds are of different sites.
pub fn page(seed: u64) -> Page {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let share = rng.f64();
    let count = OBJECTS.at(share).round() as usize;
    let hosts = HOSTS.at(if rng.f64() < ALIKE { share } else { rng.f64() }).round() as usize;
    let hosts: Vec<Host> = (0..hosts.clamp(1, count)).map(|i| host(rng, i)).collect();
    let protocols: Vec<Protocol> = (0..hosts.len()).map(|i| protocol(rng, i)).collect();
    let mut objects = documents(rng, protocols[0]);
    let main = objects.len() - 1;
    let mut classes: Vec<(f64, &Class)> = (0..count.saturating_sub(objects.len()))
        .map(|_| {
            let class = class(rng);
            (class.place + rng.f64(), class)
        })
        .collect();
    classes.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, class) in classes {
        let from = source(rng, class, hosts.len());
        let object = object(rng, class, from, protocols[from], &objects[main..], main);
        objects.push(object);
    }
    Page { name: format!("synthetic-{seed}"), site: format!("synthetic-{seed}"), main, hosts, objects }
}

/// This many pages, of the seeds that follow from `seed`.
pub fn pages(seed: u64, count: usize) -> impl Iterator<Item = Page> {
    (0..count as u64).map(move |n| page(seed.wrapping_mul(1_000_003).wrapping_add(n)))
}

/// How far beyond the access link a host is; hosts of the page's own site (`own`) are otherwise far than others.
pub fn leg(rng: &mut fastrand::Rng, own: bool) -> Duration {
    if own { &LEG_OWN } else { &LEG_OTHER }.draw_ms(rng)
}

fn host(rng: &mut fastrand::Rng, i: usize) -> Host {
    // Own hosts are about one in nine: 541 of 4677.
    let own = i == 0 || rng.f64() < 0.05;
    Host { name: format!("h{i}"), leg: leg(rng, own), own }
}

fn protocol(rng: &mut fastrand::Rng, host: usize) -> Protocol {
    match (host, rng.f64()) {
        (0, x) if x < DOC_HTTP1 => Protocol::Http1,
        (0, _) => Protocol::Http2,
        (_, x) if x < PROTOCOLS[0] => Protocol::Http1,
        (_, x) if x < PROTOCOLS[1] => Protocol::Http2,
        _ => Protocol::Http3,
    }
}

/// The document behind its redirects.
fn documents(rng: &mut fastrand::Rng, protocol: Protocol) -> Vec<Object> {
    let x = rng.f64();
    let redirects = REDIRECTS.iter().filter(|share| x < **share).count();
    let document = |rng: &mut fastrand::Rng, i: usize, status, response_bytes| {
        let start = match i.checked_sub(1) {
            None => Start::AtOnce,
            Some(parent) => Start::After { parent, gap: Duration::from_millis(1) },
        };
        Object {
            host: 0,
            protocol,
            kind: Kind::Doc,
            status,
            request_bytes: DOC_HEADERS[0],
            response_bytes,
            think: think(rng, DOC_CACHED),
            urgency: Kind::Doc.urgency(),
            structure: start,
            gate: start,
        }
    };
    let mut all: Vec<Object> = (0..redirects).map(|i| document(rng, i, 302, REDIRECT_BYTES)).collect();
    let body = DOC_BODY.draw(rng) as u64;
    all.push(document(rng, redirects, 200, DOC_HEADERS[1] + body));
    all
}

fn class(rng: &mut fastrand::Rng) -> &'static Class {
    let mut left = rng.f64();
    CLASSES
        .iter()
        .find(|c| {
            left -= c.share;
            left < 0.0
        })
        .unwrap_or(&CLASSES[1])
}

/// The host that an object comes from: the page's first, or one of the others by its rank.
fn source(rng: &mut fastrand::Rng, class: &Class, hosts: usize) -> usize {
    if hosts == 1 || rng.f64() < class.own {
        return 0;
    }
    let weight = |rank: usize| RANKS[rank.min(RANKS.len() - 1)];
    let mut left = rng.f64() * (0..hosts - 1).map(weight).sum::<f64>();
    let rank = (0..hosts - 1).find(|rank| {
        left -= weight(*rank);
        left < 0.0
    });
    1 + rank.unwrap_or(hosts - 2)
}

/// An object that waits for one of those `before` it, of which the first has the index `main`.
fn object(
    rng: &mut fastrand::Rng,
    class: &Class,
    host: usize,
    protocol: Protocol,
    before: &[Object],
    main: usize,
) -> Object {
    let mut left = rng.f64();
    let kind = class.parents.iter().find(|(_, share)| {
        left -= share;
        left < 0.0
    });
    let of_kind: Vec<usize> = match kind {
        Some((kind, _)) => before.iter().enumerate().filter(|(_, o)| o.kind == *kind).map(|(i, _)| main + i).collect(),
        None => Vec::new(),
    };
    // Where there is none of that kind, the document asks for it.
    let parent = if of_kind.is_empty() { main } else { of_kind[rng.usize(..of_kind.len())] };
    let structure = if rng.f64() < class.streamed {
        Start::During { parent, share: class.stream_at.draw(rng) }
    } else {
        Start::After { parent, gap: class.gap.draw_ms(rng) }
    };
    Object {
        host,
        protocol,
        kind: class.kind,
        status: 200,
        request_bytes: class.headers[0],
        response_bytes: class.headers[1] + class.body.draw(rng) as u64,
        think: think(rng, class.cached),
        urgency: class.kind.urgency(),
        structure,
        gate: structure,
    }
}

fn think(rng: &mut fastrand::Rng, [hit, miss]: [f64; 2]) -> Duration {
    let curve = match rng.f64() {
        x if x < hit => THINK_HIT,
        x if x < hit + miss => THINK_MISS,
        _ => THINK_UNKNOWN,
    };
    curve.draw_ms(rng)
}

#[cfg(test)]
mod tests {
    use super::super::Dependency;
    use super::*;
    use crate::stats::median;

    const PAGES: usize = 1000;

    fn middle(of: impl Fn(&Page) -> f64) -> f64 {
        median(&pages(1, PAGES).map(|p| of(&p)).collect::<Vec<_>>()).unwrap()
    }

    fn near(found: f64, published: f64, tolerance: f64) {
        assert!((found / published - 1.0).abs() < tolerance, "{found}, published {published}");
    }

    #[test]
    fn every_page_can_be_loaded_and_repeats() {
        for p in pages(7, 200) {
            assert_eq!(p.check(), Ok(()));
            assert_eq!(p.objects[p.main].kind, Kind::Doc);
        }
        assert_eq!(page(3), page(3));
        assert_ne!(page(3), page(4));
    }

    #[test]
    fn pages_have_the_published_numbers_of_objects_hosts_and_bytes_and_their_depth() {
        near(middle(|p| p.objects.len() as f64), 76.5, 0.1);
        near(middle(|p| p.hosts.len() as f64), 11.0, 0.15);
        near(middle(|p| p.bytes() as f64), 2_380_000.0, 0.25);
        let depth = middle(|p| p.depth(Dependency::Structure) as f64);
        assert!((3.0..=5.0).contains(&depth), "{depth}; published: 4");
    }

    #[test]
    fn kinds_have_their_published_shares_of_objects_and_of_bytes() {
        let all: Vec<Object> = pages(2, PAGES).flat_map(|p| p.objects).collect();
        let bytes: u64 = all.iter().map(|o| o.response_bytes).sum();
        for (kind, objects, of_bytes) in
            [(Kind::Img, 0.3686, 0.4529), (Kind::Js, 0.2998, 0.3603), (Kind::Xhr, 0.1752, 0.0357)]
        {
            let of = || all.iter().filter(|o| o.kind == kind);
            near(of().count() as f64 / all.len() as f64, objects, 0.1);
            let share = of().map(|o| o.response_bytes).sum::<u64>() as f64 / bytes as f64;
            assert!((share - of_bytes).abs() < 0.12, "{kind:?}: {share}, published {of_bytes}");
        }
    }

    #[test]
    fn a_curve_gives_its_quantiles_and_stays_within_them() {
        assert_eq!([0.5, 0.01, 0.0, 1.0].map(|x| OBJECTS.at(x)), [76.5, 10.9, 10.9, 388.0]);
        assert!((OBJECTS.at(0.375) - 57.35).abs() < 1e-9);
    }
}

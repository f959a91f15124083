//! The pool beside servers whose patience it does not know: stories of launches, connections and time, from proptest.
//!
//! Whatever happens: no program is given a connection that its server may close within [`LEFT`], or one to a server that speaks first;
//! the bounds hold; a host that is impatient, wasteful or barred rests; and the budget never falls to nothing.

use super::*;
use proptest::prelude::*;

/// A limit that stories reach.
const LIMIT: usize = 4;

/// A server, as it is.
#[derive(Clone, Debug)]
struct Server {
    /// Its idle timeout.
    patience: Duration,
    speaks_first: bool,
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// A connection to a server is expected, with such a chance.
    Expected(usize, f32),
    /// A program connects there.
    Connects(usize),
    /// So many milliseconds pass.
    Pass(u64),
    /// A connection cannot be opened, or must not be.
    Fails(usize, bool),
}

fn server() -> impl Strategy<Value = Server> {
    (1u64..40_000, prop::bool::weighted(0.2))
        .prop_map(|(millis, speaks_first)| Server { patience: Duration::from_millis(millis), speaks_first })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..6, 0.3f32..1.0).prop_map(|(nth, chance)| Step::Expected(nth, chance)),
        6 => (0usize..6).prop_map(Step::Connects),
        6 => (0u64..12_000).prop_map(Step::Pass),
        1 => (0u64..4_000_000).prop_map(Step::Pass),
        1 => (0usize..6, prop::bool::ANY).prop_map(|(nth, barred)| Step::Fails(nth, barred)),
    ]
}

struct Open {
    host: usize,
    began: Instant,
    terms: Terms,
}

struct Story {
    pool: Pool,
    servers: Vec<Server>,
    known: Vec<Port>,
    open: BTreeMap<u64, Open>,
    /// Until when the model says that a host was barred.
    barred: BTreeMap<usize, Instant>,
    now: Instant,
    next: u64,
}

fn host(nth: usize) -> SpareKey {
    SpareKey { app: "app".into(), name: format!("{nth}.example").into(), port: 443 }
}

impl Story {
    fn new(servers: Vec<Server>) -> Self {
        let visited = Port { launches: 2, share: 1.0, parallel: 1.0, ..Port::default() };
        Self {
            pool: Pool::new(LIMIT),
            known: vec![visited; servers.len()],
            servers,
            open: BTreeMap::new(),
            barred: BTreeMap::new(),
            now: Instant::from_millis(1_000),
            next: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        let servers = self.servers.len();
        match *step {
            Step::Expected(nth, chance) => self.expected(nth % servers, chance),
            Step::Connects(nth) => self.connects(nth % servers),
            Step::Pass(millis) => self.pass(Duration::from_millis(millis)),
            Step::Fails(nth, barred) => self.fails(nth % servers, barred),
        }
        let of_use = self.open.values().filter(|open| self.now - open.began < open.terms.of_use()).count();
        assert!(of_use <= LIMIT, "{of_use} that may be handed over");
        assert!(self.open.len() <= 2 * LIMIT, "{} open", self.open.len());
        assert!((1..=LIMIT).contains(&self.pool.budget), "a budget of {}", self.pool.budget);
    }

    fn expected(&mut self, nth: usize, chance: f32) {
        let known = borne(&self.known[nth], self.pool.borne(self.now, &host(nth)));
        let terms = terms(443, &known);
        let Ok(most) = self.pool.wanted(self.now, &host(nth), &known, chance) else { return };
        assert!(chance >= LIKELY && !known.speaks_first);
        assert!(self.barred.get(&nth).is_none_or(|until| *until <= self.now), "a barred host does not rest");
        for _ in 0..most {
            if self.pool.has_room(self.now, &host(nth), most, terms) {
                self.pool.opened(self.now, self.next, host(nth), terms);
                self.pool.ready(self.next, self.now);
                self.open.insert(self.next, Open { host: nth, began: self.now, terms });
                self.next += 1;
            }
        }
        // Servers that speak first do so at once.
        if self.servers[nth].speaks_first {
            let spoilt: Vec<u64> = self.open.iter().filter(|(_, open)| open.host == nth).map(|(id, _)| *id).collect();
            spoilt.into_iter().for_each(|id| self.ends(id, SpareEnd::Spoke));
        }
        let of_host = self.open.values().filter(|open| open.host == nth).count();
        assert!(of_host <= most + MAX_KEPT, "{of_host} to one host");
    }

    fn ends(&mut self, id: u64, end: SpareEnd) {
        let Some(open) = self.open.remove(&id) else { return };
        let (host, age) = self.pool.ended(id, self.now, end).expect("it is known");
        assert!(self.pool.ended(id, self.now, end).is_none(), "it ends once");
        assert_eq!((host.name, age), (self::host(open.host).name, self.now - open.began));
        learn(&mut self.known[open.host], end, age);
    }

    /// What fits is handed over, as the connector does.
    fn connects(&mut self, nth: usize) {
        let fresh = |open: &Open| open.host == nth && self.now - open.began < open.terms.of_use();
        let fits = self.open.iter().find(|(_, open)| fresh(open)).map(|(id, open)| (*id, open.began));
        assert_eq!(fits.is_some(), self.pool.has_any(self.now, &host(nth)));
        let Some((id, began)) = fits else { return };
        let left = self.servers[nth].patience.saturating_sub(self.now - began);
        assert!(left >= LEFT, "its server closes it in {left:?}");
        self.ends(id, SpareEnd::Taken);
    }

    /// Time passes: servers lose patience, and what has been kept for long enough is closed.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        let ends = |story: &Self| {
            let of = |(id, open): (&u64, &Open)| {
                let closes = open.began + story.servers[open.host].patience;
                let expires = open.began + open.terms.keep;
                (closes.min(expires), *id, if closes <= expires { SpareEnd::Closed } else { SpareEnd::Expired })
            };
            story.open.iter().map(of).min_by_key(|(at, id, _)| (*at, *id)).filter(|(at, ..)| *at <= until)
        };
        while let Some((at, id, end)) = ends(self) {
            self.now = at;
            self.ends(id, end);
        }
        self.now = until;
    }

    fn fails(&mut self, nth: usize, barred: bool) {
        let Some(id) = self.open.iter().find(|(_, open)| open.host == nth).map(|(id, _)| *id) else { return };
        self.ends(id, if barred { SpareEnd::Barred } else { SpareEnd::Dropped });
        if barred {
            self.barred.insert(nth, self.now + REST);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_program_is_given_what_its_server_is_about_to_close(
        servers in proptest::collection::vec(server(), 1..6),
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut story = Story::new(servers);
        steps.iter().for_each(|step| story.step(step));
    }
}

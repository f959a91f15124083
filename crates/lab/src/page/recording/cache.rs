//! Where a recorded answer had come from: out of the cache that the client was talking to, out of one behind it, or
//! from the origin, as the caches themselves said in its header.
//!
//! There is a standard ([RFC 9211], Cache-Status) that few caches speak; the others each have a field of their own.
//! What they say outright is believed before what follows from numbers and ages; of a list of caches the last one is
//! the client's. A cache that had to ask the origin whether its copy was still good had to go there: that is no hit.
//! Most answers say nothing, and then nothing is known. Any bytes are an answer here; no header is an error.
//!
//! [RFC 9211]: https://www.rfc-editor.org/rfc/rfc9211

use super::Message;
use headstart_core::time::Duration;

/// From the client's cache to the one behind it: paper 5, section 4.1.
pub const PARENT: Duration = Duration::from_millis(10);
/// From there to the origin: paper 5, section 4.1.
pub const ORIGIN: Duration = Duration::from_millis(40);
/// Bytes of a field that are looked at: what caches say is shorter.
const LOOKED_AT: usize = 1024;

/// The place that had an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheLevel {
    /// The cache that the client was talking to.
    Edge,
    /// A cache behind that.
    Parent,
    /// Only the origin, or it had to be asked.
    Origin,
}

impl CacheLevel {
    /// How much later than from the edge its answer begins.
    pub fn behind(self) -> Duration {
        match self {
            Self::Edge => Duration::ZERO,
            Self::Parent => PARENT,
            Self::Origin => PARENT + ORIGIN,
        }
    }

    /// From the status that each cache reports, the one next to the origin first.
    fn of(statuses: &[CacheStatus]) -> Option<Self> {
        let (edge, behind) = statuses.split_last()?;
        Some(match edge {
            CacheStatus::Hit => Self::Edge,
            CacheStatus::Miss if behind.contains(&CacheStatus::Hit) => Self::Parent,
            CacheStatus::Miss => Self::Origin,
        })
    }
}

/// The status that a cache reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheStatus {
    Hit,
    Miss,
}

/// The place that had this answer, if its header says so.
pub fn source(answer: &Message) -> Option<CacheLevel> {
    let of = |statuses: Vec<CacheStatus>| CacheLevel::of(&statuses);
    let outright = of(answer.list("cache-status").iter().filter_map(|item| by_rfc_9211(item)).collect())
        .or_else(|| of(answer.list("cf-cache-status").iter().filter_map(|word| by_word(word)).collect()))
        .or_else(|| {
            // Akamai tells of the cache behind the edge in a field of its own.
            let fields = ["x-cache-remote", "x-cache"].into_iter().flat_map(|name| answer.list(name));
            of(fields.filter_map(|word| by_word(&word)).collect())
        })
        .or_else(|| {
            let others = ["x-cache-status", "x-proxy-cache", "x-varnish-cache", "cdn-cache", "x-cache-lookup"];
            others.into_iter().find_map(|name| of(answer.list(name).iter().filter_map(|w| by_word(w)).collect()))
        })
        .or_else(|| of(answer.list("server-timing").iter().filter_map(|item| by_server_timing(item)).collect()))
        .or_else(|| of(answer.list("x-cache-hits").iter().filter_map(|count| by_count(count)).collect()))
        .or_else(|| by_varnish(&answer.list("x-varnish")));
    // What has an age was kept somewhere: by another than the one that has not had it.
    let kept = answer.list("age").first().and_then(|age| age.parse::<u64>().ok()).is_some_and(|age| age > 0);
    match outright {
        Some(CacheLevel::Origin) if kept => Some(CacheLevel::Parent),
        None if kept => Some(CacheLevel::Edge),
        other => other,
    }
}

impl Message {
    /// The members of all fields called `name`, in order, lower case.
    fn list(&self, name: &str) -> Vec<String> {
        let fields = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()));
        let text = |v: &[u8]| String::from_utf8_lossy(&v[..v.len().min(LOOKED_AT)]).to_ascii_lowercase();
        let members = |v: &[u8]| text(v).split(',').map(|m| m.trim().to_owned()).collect::<Vec<_>>();
        fields.flat_map(|(_, v)| members(v)).filter(|m| !m.is_empty()).collect()
    }
}

/// `HIT`, `TCP_HIT from a2-22.deploy`, `Hit from cloudfront`; none of words that say neither.
fn by_word(text: &str) -> Option<CacheStatus> {
    let word = text.split([' ', ';']).next().unwrap_or_default();
    let has = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
    // Before "hit": a copy that had to be asked about.
    if has(&["refresh", "revalidated", "expired"]) {
        Some(CacheStatus::Miss)
    } else if has(&["hit", "stale", "updating"]) {
        Some(CacheStatus::Hit)
    } else if has(&["miss", "bypass", "dynamic", "pass", "nocache"]) {
        Some(CacheStatus::Miss)
    } else {
        None
    }
}

/// `ExampleCache; hit; ttl=376`, `ExampleCache; fwd=uri-miss; stored`.
fn by_rfc_9211(item: &str) -> Option<CacheStatus> {
    let mut parameters = item.split(';').skip(1).map(str::trim);
    parameters.find_map(|p| match p.split('=').next() {
        Some("hit") if p != "hit=?0" => Some(CacheStatus::Hit),
        Some("fwd") => Some(CacheStatus::Miss),
        _ => None,
    })
}

/// `cdn-cache; desc=HIT`.
fn by_server_timing(item: &str) -> Option<CacheStatus> {
    let description = item.strip_prefix("cdn-cache")?.split(';').find_map(|p| p.trim().strip_prefix("desc="))?;
    by_word(description.trim_matches('"'))
}

/// How often a copy was used: never means that there was none.
fn by_count(count: &str) -> Option<CacheStatus> {
    count.parse::<u64>().ok().map(|n| if n > 0 { CacheStatus::Hit } else { CacheStatus::Miss })
}

/// Two numbers are those of this request and of the one that had brought the copy.
fn by_varnish(list: &[String]) -> Option<CacheLevel> {
    let numbers: Vec<&str> = list.first()?.split_ascii_whitespace().collect();
    let all = numbers.iter().all(|n| n.bytes().all(|b| b.is_ascii_digit()));
    match numbers.len() {
        1 if all => Some(CacheLevel::Origin),
        2 if all => Some(CacheLevel::Edge),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(fields: &[(&str, &str)]) -> Message {
        let fields = fields.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect();
        Message { fields, ..Message::default() }
    }

    #[test]
    fn what_caches_say_of_themselves_is_understood() {
        use CacheLevel::{Edge, Origin, Parent};
        for (name, value, who) in [
            ("X-Cache", "HIT", Some(Edge)),
            ("X-Cache", "Hit from cloudfront", Some(Edge)),
            ("x-cache", "MISS, HIT", Some(Edge)),
            ("X-Cache", "HIT, MISS", Some(Parent)),
            ("X-Cache", "Miss from cloudfront", Some(Origin)),
            ("X-Cache", "RefreshHit from cloudfront", Some(Origin)),
            ("X-Cache", "TCP_MEM_HIT from a23-45-67.deploy.akamaitechnologies.com (AkamaiGHost/9)", Some(Edge)),
            ("X-Cache", "TCP_REFRESH_HIT from a23 (AkamaiGHost/9)", Some(Origin)),
            ("X-Cache", "Error from cloudfront", None),
            ("CF-Cache-Status", "DYNAMIC", Some(Origin)),
            ("CF-Cache-Status", "REVALIDATED", Some(Origin)),
            ("CF-Cache-Status", "STALE", Some(Edge)),
            ("Cache-Status", "Origin; hit; ttl=1100, \"CDN Company\"; fwd=uri-miss; stored", Some(Parent)),
            ("Cache-Status", "ExampleCache; hit; ttl=376", Some(Edge)),
            ("Cache-Status", "ExampleCache; fwd=stale; fwd-status=304", Some(Origin)),
            ("X-Cache-Hits", "0, 12", Some(Edge)),
            ("X-Cache-Hits", "3, 0", Some(Parent)),
            ("X-Varnish", "1234 1200", Some(Edge)),
            ("X-Varnish", "1234", Some(Origin)),
            ("X-Varnish", "a b", None),
            ("X-Cache-Status", "MISS", Some(Origin)),
            ("Server-Timing", "cdn-cache; desc=HIT, edge; dur=1", Some(Edge)),
            ("Age", "0", None),
            ("Age", "37   ", Some(Edge)),
            ("Via", "1.1 varnish", None),
            ("X-Cached", "HIT", None),
        ] {
            assert_eq!(source(&answer(&[(name, value)])), who, "{name}: {value}");
        }
    }

    #[test]
    fn words_are_believed_before_numbers_and_what_was_kept_behind_a_miss_is_the_parents() {
        let said = answer(&[("X-Cache-Hits", "0"), ("X-Cache", "HIT"), ("Age", "0")]);
        assert_eq!(source(&said), Some(CacheLevel::Edge));
        assert_eq!(source(&answer(&[("X-Cache", "MISS"), ("Age", "12")])), Some(CacheLevel::Parent));
        let akamai = answer(&[("X-Cache", "TCP_MISS from a1"), ("X-Cache-Remote", "TCP_HIT from a2")]);
        assert_eq!(source(&akamai), Some(CacheLevel::Parent));
        assert!(CacheLevel::Edge.behind().is_zero() && CacheLevel::Origin.behind() == PARENT + ORIGIN);
    }

    proptest! {
        #[test]
        fn no_header_panics(
            name in prop::sample::select(vec!["X-Cache", "Age", "Cache-Status", "X-Varnish", "X-Cache-Hits", "Server-Timing",
                "CF-Cache-Status", "X-Cache-Remote"]),
            value in proptest::collection::vec(any::<u8>(), 0..2000),
        ) {
            let fields = vec![(name.as_bytes().to_vec(), value)];
            let _ = source(&Message { fields, ..Message::default() });
        }

        #[test]
        fn nothing_of_many_caches_is_more_than_the_origin(words in proptest::collection::vec("(HIT|MISS|x|,|;|=| |desc|fwd|hit)", 0..40)) {
            let text = words.concat();
            for name in ["X-Cache", "Cache-Status", "Server-Timing", "X-Cache-Hits"] {
                let behind = source(&answer(&[(name, &text)])).map(CacheLevel::behind);
                prop_assert!(behind.is_none_or(|b| b <= PARENT + ORIGIN));
            }
        }
    }
}

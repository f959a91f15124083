//! How much of an experiment a result is of: a quick run or a full one, at which speeds, of which conditions; and how long that
//! took.
//!
//! A result without it was written by an earlier program. Nothing here runs anything.

use super::{Context, Speeds};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// How much was asked of an experiment, and how long it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// Fewer trials.
    pub quick: bool,
    /// The speeds at which it ran: those asked for, of those that it has.
    pub speeds: Speeds,
    /// The conditions that were asked for; all of them if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<String>>,
    /// SHA-256 of the pages that it was given; the built-in ones if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    /// Seconds from its start to its end, to the millisecond; of pooled results those of a seed, in the mean.
    pub seconds: f64,
}

/// Seconds that anything of ours may take: a month. What claims more is wrong, and would make time limits of schedulers wrong.
pub const MOST_SECONDS: f64 = 30.0 * 86_400.0;

/// Whether something can have taken so many seconds.
pub fn is_plausible(seconds: f64) -> bool {
    (0.0..=MOST_SECONDS).contains(&seconds)
}

impl Extent {
    /// What `cx` asks for, which took so long; `pages` is the SHA-256 of its pages.
    pub fn of(cx: &Context, pages: Option<String>, took: Duration) -> Self {
        let seconds = (took.as_secs_f64() * 1e3).round() / 1e3;
        Self { quick: cx.quick, speeds: cx.speeds, conditions: cx.conditions.clone(), pages, seconds }
    }

    /// What stands behind `headstart lab run NAME` for the same extent.
    pub fn arguments(&self) -> String {
        let mut arguments = if self.quick { " --quick".to_owned() } else { String::new() };
        if self.speeds != Speeds::Both {
            arguments += &format!(" --speed {}", self.speeds);
        }
        self.conditions.iter().flatten().for_each(|condition| arguments += &format!(" --condition {condition}"));
        arguments
    }
}

/// "quick, in virtual time": without how long it took.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let much = match (self.quick, &self.conditions) {
            (true, None) => "quick",
            (false, None) => "in full",
            (true, Some(_)) => "some conditions, quick",
            (false, Some(_)) => "some conditions",
        };
        let how = match self.speeds {
            Speeds::Virtual => "in virtual time",
            Speeds::Namespaces => "with real packets",
            Speeds::Both => "in virtual time and with real packets",
        };
        write!(f, "{much}, {how}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_to_run_to_have_the_same_again() {
        let cx = Context { quick: true, conditions: Some(vec!["lte".into()]), ..Context::new(1) };
        let some = Extent::of(&cx, None, Duration::from_micros(1_234_567));
        assert_eq!((some.arguments().as_str(), some.seconds), (" --quick --speed sim --condition lte", 1.235));
        assert_eq!(some.to_string(), "some conditions, quick, in virtual time");
        let full = Extent { quick: false, speeds: Speeds::Both, conditions: None, ..some };
        assert_eq!(
            (full.arguments().as_str(), full.to_string().as_str()),
            ("", "in full, in virtual time and with real packets")
        );
        let text = serde_json::to_string(&full).unwrap();
        assert_eq!(text, r#"{"quick":false,"speeds":"both","seconds":1.235}"#);
        assert_eq!(serde_json::from_str::<Extent>(&text).unwrap(), full);
    }
}

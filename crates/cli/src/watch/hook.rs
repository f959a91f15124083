//! News for another system, posted one by one in their order. What cannot be delivered waits for the next look.

use crate::post::{Target, post};
use std::collections::VecDeque;

/// So much news waits; beyond that the oldest is given up.
const MOST: usize = 100;

/// A webhook, and what it is still to get.
#[derive(Debug)]
pub struct Hook {
    to: Target,
    waiting: VecDeque<String>,
    /// Its failure was reported since it last worked.
    reported: bool,
}

impl Hook {
    /// One at `to`.
    pub fn new(to: Target) -> Self {
        Self { to, waiting: VecDeque::new(), reported: false }
    }

    /// Queues an object.
    pub fn add(&mut self, news: serde_json::Value) {
        if self.waiting.len() == MOST {
            self.waiting.pop_front();
            crate::complain!(
                "headstart: --webhook: {} has not answered for {MOST} changes; the oldest is lost",
                self.to
            );
        }
        self.waiting.push_back(news.to_string());
    }

    /// Delivers what waits, until something fails.
    pub fn deliver(&mut self) {
        while let Some(news) = self.waiting.front() {
            if let Err(why) = post(&self.to, "application/json", news.clone()) {
                if !self.reported {
                    crate::complain!("headstart: --webhook: {why:#}; it is retried after the next check");
                }
                self.reported = true;
                return;
            }
            self.waiting.pop_front();
            self.reported = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::post::server;
    use serde_json::json;

    #[test]
    fn each_change_arrives_once_and_in_order_though_the_server_fails_at_first() {
        let (address, served) = server(&[503, 200, 200]);
        let mut hook = Hook::new(format!("http://{address}/").parse().unwrap());
        hook.add(json!({ "n": 1 }));
        hook.add(json!({ "n": 2 }));
        hook.deliver();
        assert_eq!(hook.waiting.len(), 2, "nothing is lost by an error");
        hook.deliver();
        assert!(hook.waiting.is_empty());
        hook.deliver();
        let bodies: Vec<_> =
            served.join().unwrap().into_iter().map(|(_, body)| String::from_utf8(body).unwrap()).collect();
        assert_eq!(bodies, [r#"{"n":1}"#, r#"{"n":1}"#, r#"{"n":2}"#]);
    }

    #[test]
    fn what_waits_is_bounded_and_the_oldest_is_given_up() {
        let mut hook = Hook::new("http://127.0.0.1:1/".parse().unwrap());
        for n in 0..MOST + 2 {
            hook.add(json!({ "n": n }));
        }
        assert_eq!((hook.waiting.len(), hook.waiting.front().unwrap().as_str()), (MOST, r#"{"n":2}"#));
    }
}

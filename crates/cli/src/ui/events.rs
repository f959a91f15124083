//! What changes, sent to a page: a snapshot first, then twice a second what has changed since (server-sent events; the changes
//! are a JSON Merge Patch, RFC 7396).
//!
//! A page that reads slowly gets fewer and larger changes: the next is made only when there is room for it. One that reads
//! nothing for a while is dropped, as any client is, asks again, and gets a snapshot.

use super::past::Past;
use super::snapshot;
use crate::observe::Observer;
use headstart_core::time::Duration;
use hyper::body::Bytes;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// How old what is shown may be: pages at the same time share a look.
const FRESH: Duration = Duration::from_millis(400);
/// Without a change for so long, a comment is sent, by which a page that is gone is noticed.
const ALIVE: u32 = 20;

/// The events of one page. They end when the page is gone.
pub fn stream(observer: Arc<Observer>, past: Arc<Mutex<Past>>) -> mpsc::Receiver<Bytes> {
    let (to, pieces) = mpsc::channel(1);
    tokio::spawn(feed(observer, past, to));
    pieces
}

async fn feed(observer: Arc<Observer>, past: Arc<Mutex<Past>>, to: mpsc::Sender<Bytes>) {
    let mut shown: Option<Value> = None;
    let mut quiet = 0_u32;
    loop {
        let Ok(room) = to.reserve().await else { return };
        let (look, past) = (Arc::clone(&observer), Arc::clone(&past));
        let seen = move || {
            let sources = look.look(FRESH);
            past.lock().unwrap_or_else(PoisonError::into_inner).take(&sources);
            snapshot::of(&sources)
        };
        let Ok(now) = tokio::task::spawn_blocking(seen).await else { return };
        let event = match &shown {
            None => Some(event("snapshot", &now)),
            Some(before) => patch(before, &now).map(|patch| event("patch", &patch)),
        };
        quiet = if event.is_some() { 0 } else { quiet + 1 };
        match event {
            Some(bytes) => room.send(bytes),
            None if quiet.is_multiple_of(ALIVE) => room.send(Bytes::from_static(b":\n\n")),
            None => drop(room),
        }
        shown = Some(now);
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = to.closed() => return,
        }
    }
}

fn event(name: &str, value: &Value) -> Bytes {
    // JSON has no line breaks outside strings, and none unescaped within.
    format!("event: {name}\ndata: {value}\n\n").into()
}

/// What makes `to` of `from`; `None` if they are equal. Objects are compared by member, everything else is replaced. No value
/// of a snapshot is null, which would mean to remove.
fn patch(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let gone = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key.clone(), Value::Null));
            let mut all: Map<String, Value> = gone.collect();
            for (key, value) in to {
                match from.get(key) {
                    Some(before) => all.extend(patch(before, value).map(|patch| (key.clone(), patch))),
                    None => _ = all.insert(key.clone(), value.clone()),
                }
            }
            (!all.is_empty()).then_some(Value::Object(all))
        }
        (from, to) => (from != to).then(|| to.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// As RFC 7396 has it, and as the page does it.
    fn apply(target: &mut Value, patch: Value) {
        let Value::Object(patch) = patch else {
            *target = patch;
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let Value::Object(all) = target else { return };
        for (key, value) in patch {
            match value {
                Value::Null => _ = all.remove(&key),
                value => apply(all.entry(key).or_insert(Value::Null), value),
            }
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..5u8).prop_map(Value::from), Just(json!([1]))];
        leaf.prop_recursive(3, 24, 4, |inner| {
            proptest::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|all| Value::Object(all.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_one_of_the_other_and_equals_need_none(a in any_value(), b in any_value()) {
            prop_assert_eq!(patch(&a, &a), None);
            let mut made = a.clone();
            if let Some(patch) = patch(&a, &b) {
                apply(&mut made, patch);
            }
            prop_assert_eq!(made, b);
        }
    }

    #[test]
    fn an_event_is_one_line_of_data() {
        let event = event("patch", &json!({ "a": "b\nc" }));
        assert_eq!(event, Bytes::from_static(b"event: patch\ndata: {\"a\":\"b\\nc\"}\n\n"));
    }
}

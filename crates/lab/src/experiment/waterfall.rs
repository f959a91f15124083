//! A page load, object by object, for pictures: what the report draws. Nothing here measures or judges.

use serde::{Deserialize, Serialize};

/// A page load under one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waterfall {
    /// The network and workload.
    pub condition: String,
    /// The way of doing the work.
    pub arm: String,
    /// Which page.
    pub page: String,
    /// Until the load event, in ms.
    pub load_ms: f64,
    /// The objects, in the order of the page.
    pub falls: Vec<Fall>,
}

/// An object of a page load. Times are in ms since the load began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fall {
    /// What it is: `doc`, `css`, `js`, `img`, ...
    pub kind: String,
    /// The host that it comes from, by its name in the page.
    pub host: String,
    /// It was wanted.
    pub wanted_ms: f64,
    /// Its request was sent, after waiting for a connection.
    pub sent_ms: f64,
    /// Its first byte was there.
    pub first_byte_ms: f64,
    /// All of it was there.
    pub end_ms: f64,
}

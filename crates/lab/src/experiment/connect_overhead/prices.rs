//! What each arm cost: packets and sockets beyond the one connection that a program wanted.

use super::Block;
use crate::experiment::Price;

/// The prices of a block; an arm that got no connection has none.
pub(super) fn of(block: &Block) -> Vec<Price> {
    let mut prices = Vec::new();
    for (arm, taken) in &block.taken {
        let paid = taken.paid;
        if paid.connections == 0 {
            continue;
        }
        let each = |n: u64| n as f64 / paid.connections as f64;
        let mut price = |what: &str, unit: &str, amount: Option<f64>| {
            prices.extend(amount.map(|amount| Price {
                condition: block.condition.clone(),
                arm: arm.name().into(),
                what: what.into(),
                unit: unit.into(),
                amount,
            }));
        };
        price("connection attempts per connection", "", Some(each(paid.attempts)));
        price("DNS queries per connection", "", Some(each(paid.queries)));
        price("unused connections per connection", "", paid.unused.map(each));
        price("bytes per connection, handshakes and lookups", "B", paid.bytes.map(each));
    }
    prices
}

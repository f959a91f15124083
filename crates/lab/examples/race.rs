//! One host, one network on which IPv6 is a black hole, every way of getting connected: who waits for how long.
//!
//! `cargo run -p headstart-lab --example race`. Virtual time: the same numbers on every machine, in milliseconds of yours.
#![forbid(unsafe_code)]

use headstart_core::connect::Want;
use headstart_core::connect::cache::Lifetime;
use headstart_core::time::Duration;
use headstart_lab::condition;
use headstart_lab::sim::{Arm, Session, Settings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let black_hole = condition::find("ipv6-black-hole")?;
    println!("{}: {}\n", black_hole.name, black_hole.what);
    println!("{:<20} {:>12} {:>12} {:>6}", "arm", "first site", "fourth site", "SYNs");
    // What only the lab knows beforehand is no way that a host has.
    for arm in Arm::all().filter(|arm| arm.name() != "oracle") {
        let world = (black_hole.world)(7, 4);
        let mut host = Session::new(&world, Settings { arm, lifetime: Lifetime::Ttl, seed: 7 })?;
        let visits = [0, 1, 2, 3].map(|site| {
            let took = host.visit(site, Want::Both).total.as_secs_f64();
            // Time for what is under way to prove silent: `adaptive` keeps a history, and has enough of IPv6 after three
            // such sites.
            host.idle(Duration::from_secs(5));
            took
        });
        println!("{:<20} {:>10.3} s {:>10.3} s {:>6}", arm.name(), visits[0], visits[3], host.spent().traffic.syns);
    }
    Ok(())
}

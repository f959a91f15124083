//! A page of the project's generator, loaded over LTE by a browser alone and by one under headstart: the first visit, and one
//! half an hour later.
//!
//! `cargo run -p headstart-lab --example page [SEED]`.
#![forbid(unsafe_code)]

use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, race};
use headstart_core::time::Duration;
use headstart_lab::condition::page::{Families, world};
use headstart_lab::page::{Dependency, synthetic};
use headstart_lab::sim::{Browser, BrowserArm};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(3), |seed| seed.parse())?;
    let page = synthetic::page(seed);
    println!(
        "{}: {} objects on {} hosts, {} kB\n",
        page.name,
        page.objects.len(),
        page.hosts.len(),
        page.bytes() / 1000
    );
    let race = race::find(race::DEFAULT)?;
    let ours = BrowserArm { name: "headstart", race, lifetime: Lifetime::Ttl, ahead: Ahead::ON };
    println!("{:<10} {:>12} {:>12} {:>12}", "arm", "first visit", "later visit", "connections");
    for arm in [BrowserArm::BARE, ours] {
        let world = world(&page, "lte", Families::Paper1, seed);
        let mut browser = Browser::new(&world, arm, seed)?;
        let first = browser.load(&page, Dependency::Structure);
        browser.idle(Duration::from_secs(1800));
        let later = browser.load(&page, Dependency::Structure);
        let [a, b] = [&first, &later].map(|load| load.time.as_secs_f64());
        println!("{:<10} {a:>10.3} s {b:>10.3} s {:>12}", arm.name, later.connections);
    }
    Ok(())
}

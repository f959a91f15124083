//! Pages of the project's generator, loaded by a browser alone, as Android does, under headstart, and with all names and
//! connections there for nothing: how long each takes, and what each waits for on the way to its load event.
//!
//! `cargo run -p headstart-lab --example page [SEED [LINK [PAGES]]]`: of one page the path is printed object by object, of
//! several the sums.
#![forbid(unsafe_code)]

use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, race};
use headstart_core::time::Duration;
use headstart_lab::condition::page::{Families, world};
use headstart_lab::page::{Dependency, Page, synthetic};
use headstart_lab::sim::{Browser, BrowserArm, Load};

/// The visit that is looked at: headstart has learned from those before it.
const VISIT: usize = 3;
const HOUR: Lifetime = Lifetime::Fixed(Duration::from_secs(3600));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let seed: u64 = args.next().map_or(Ok(3), |seed| seed.parse())?;
    let link = args.next().unwrap_or("lte".into());
    let count: u64 = args.next().map_or(Ok(1), |count| count.parse())?;
    let arm = |name: &str| race::find(name);
    let sequential =
        BrowserArm { name: "sequential", race: arm("sequential")?, lifetime: Lifetime::Ttl, ..BrowserArm::BARE };
    let ours = BrowserArm {
        name: "headstart",
        race: arm(race::DEFAULT)?,
        lifetime: HOUR,
        ahead: Ahead::ON,
        ..BrowserArm::BARE
    };
    let arms = [BrowserArm::BARE, sequential, ours, BrowserArm::READY];
    let mut sums = [[0.0; 9]; 4];
    for seed in seed..seed + count {
        let page = synthetic::page(seed);
        for (arm, sum) in arms.iter().zip(&mut sums) {
            let load = visit(&page, &link, *arm, seed)?;
            let parts = load.parts(&page, Dependency::Structure).named();
            for (n, part) in [load.time].into_iter().chain(parts.map(|p| p.1)).enumerate() {
                sum[n] += part.as_secs_f64() * 1e3;
            }
            if count == 1 {
                tell(&page, arm.name, &load);
            }
        }
    }
    println!("visit {} of each of {count} pages over {link}, mean, ms; what the load event waited for:", VISIT + 1);
    print!("{:<11}{:>9}", "arm", "load");
    let names = headstart_lab::sim::Parts::default().named().map(|p| p.0);
    println!("{}", names.map(|n| format!("{n:>10}")).concat());
    for (arm, sum) in arms.iter().zip(sums) {
        let [load, parts @ ..] = sum.map(|ms| ms / count as f64);
        println!("{:<11}{load:>9.1}{}", arm.name, parts.map(|ms| format!("{ms:>10.1}")).concat());
    }
    Ok(())
}

fn visit(page: &Page, link: &str, arm: BrowserArm, seed: u64) -> Result<Load, headstart_link::ParseError> {
    let world = world(page, link, Families::Paper1, seed);
    let mut browser = Browser::new(&world, arm, seed)?;
    for _ in 0..VISIT {
        browser.load(page, Dependency::Structure);
        browser.idle(Duration::from_secs(1800));
    }
    Ok(browser.load(page, Dependency::Structure))
}

/// The objects that the load event waited for.
fn tell(page: &Page, arm: &str, load: &Load) {
    println!("{arm}: {} objects on {} hosts, {} kB", page.objects.len(), page.hosts.len(), page.bytes() / 1000);
    for (n, parts) in load.critical(page, Dependency::Structure).into_iter().rev() {
        let (object, ms) = (&page.objects[n], |d: Duration| d.as_secs_f64() * 1e3);
        print!(
            "{:>9.1} {:?} {n} of {}, {} B:",
            ms(load.objects[n].wanted),
            object.kind,
            page.hosts[object.host].name,
            object.response_bytes
        );
        let parts = parts.named().into_iter().filter(|p| !p.1.is_zero());
        println!("{}", parts.map(|(name, d)| format!(" {name} {:.1}", ms(d))).collect::<String>());
    }
    println!("{:>9.1} load\n", load.time.as_secs_f64() * 1e3);
}

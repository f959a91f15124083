//! Pages of the project's generator, loaded by a browser alone, as Android does, under headstart, and with all names and
//! connections there for nothing: how long each takes, and what each waits for on the way to its load event.
//!
//! `cargo run -p headstart-lab --example page [SEED [LINK [PAGES [WORLDS]]]]`: of one page in one world the path is
//! printed object by object, else the sums; a page is compared over all its worlds.
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
    let worlds: u64 = args.next().map_or(Ok(1), |worlds| worlds.parse())?;
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
    let mut against_bare: Vec<(f64, f64, u64)> = Vec::new();
    for seed in seed..seed + count {
        let page = synthetic::page(seed).over_tcp();
        let mut times = [0.0; 4];
        for world in 0..worlds {
            for (n, arm) in arms.iter().enumerate() {
                let load = visit(&page, &link, *arm, seed + 1000 * world)?;
                let parts = load.parts(&page, Dependency::Structure).named();
                times[n] += load.time.as_secs_f64();
                for (sum, part) in sums[n].iter_mut().zip([load.time].into_iter().chain(parts.map(|p| p.1))) {
                    *sum += part.as_secs_f64() * 1e3;
                }
                if count * worlds == 1 {
                    tell(&page, arm.name, &load);
                }
            }
        }
        against_bare.push((times[2] / times[0], times[3] / times[0], seed));
    }
    println!(
        "visit {} of each of {count} pages in {worlds} worlds over {link}, mean, ms; what the load event waited for:",
        VISIT + 1
    );
    print!("{:<11}{:>9}", "arm", "load");
    let names = headstart_lab::sim::Parts::default().named().map(|p| p.0);
    println!("{}", names.map(|n| format!("{n:>10}")).concat());
    for (arm, sum) in arms.iter().zip(sums) {
        let [load, parts @ ..] = sum.map(|ms| ms / (count * worlds) as f64);
        println!("{:<11}{load:>9.1}{}", arm.name, parts.map(|ms| format!("{ms:>10.1}")).concat());
    }
    against_bare.sort_by(|a, b| b.0.total_cmp(&a.0));
    let slower = against_bare.iter().filter(|page| page.0 > 1.01).count();
    println!(
        "headstart against bare: {slower} of {count} pages slower by more than 1 %; the worst (ratio, that of `ready`, seed):"
    );
    println!("{:.3?}", &against_bare[..against_bare.len().min(5)]);
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

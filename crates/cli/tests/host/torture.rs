//! Torture: the daemon is killed at every step of its journal, and at moments that nobody chose. The host must come
//! back as it was, by `recover` or by the next `up`, however often either is asked.

use crate::scene::{Scene, can_bundle, has, inside, run, send, until};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use rustix::process::Signal;
use std::collections::BTreeMap;

/// No daemon has more steps.
const MOST_STEPS: u32 = 400;

/// What became of the killings.
#[derive(Default)]
struct Table {
    kills: u32,
    slowest: Duration,
}

impl Table {
    /// Recovers after a kill, by one of two ways, and compares.
    fn recover(&mut self, scene: &Scene, before: &BTreeMap<String, String>, when: &str) {
        self.kills += 1;
        let status = scene.says(&["status"]);
        assert!(matches!(status.code, Some(5 | 6)), "{when}: {status:?}");
        if self.kills.is_multiple_of(3) {
            // The next daemon recovers before it does anything of its own.
            let (mut next, up) = scene.daemon(&drill(&[]));
            assert!(up, "{when}: the next daemon does not come up");
            send(&next, Signal::TERM);
            assert_eq!(next.wait().unwrap().code(), Some(0), "{when}");
        } else {
            let clock = Clock::new();
            let recovered = scene.says(&["recover"]);
            self.slowest = self.slowest.max(clock.now().since(Instant::ZERO));
            assert_eq!(recovered.code, Some(0), "{when}: {recovered:?}");
        }
        scene.must_be_as(before, when);
        if self.kills.is_multiple_of(5) {
            let again = scene.says(&["recover"]);
            assert!(again.code == Some(0) && again.out.contains("nothing to recover"), "{when}: {again:?}");
        }
    }
}

inside!(a_daemon_killed_at_any_step_leaves_nothing_that_recover_does_not_undo, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(3);
    let before = scene.look();
    let clock = Clock::new();
    let mut table = Table::default();
    // Up and down: every step of both.
    let (mut last_of_up, mut survived) = (0, 0);
    for step in 1..MOST_STEPS {
        let (mut daemon, up) = scene.daemon(&drill(&["--die-at-step", &step.to_string()]));
        if up {
            send(&daemon, Signal::TERM);
        } else {
            last_of_up = step;
        }
        let ended = daemon.wait().unwrap();
        if ended.code() == Some(0) {
            survived = step;
            break;
        }
        assert_eq!(ended.code(), None, "killed, at step {step}");
        table.recover(&scene, &before, &format!("after a kill at step {step}"));
    }
    assert!(survived > 0, "a daemon that is never killed ends");
    scene.must_be_as(&before, "after a daemon that nobody killed");
    println!("up: {last_of_up} steps, down: {} steps", survived - 1 - last_of_up);
    // A change of the host while it is up: what was made is undone and made anew.
    let mut refreshing = 0;
    for step in last_of_up + 1..MOST_STEPS {
        let (mut daemon, up) = scene.daemon(&["--initcwnd", "--die-at-step", &(step - drilled(&scene)).to_string()]);
        assert!(up, "step {step}");
        run(&["ip", "route", "replace", "default", "via", "192.0.2.2", "dev", "uplink", "mtu", "1400"]);
        let mut anew = false;
        until("the daemon is killed or has noticed", || {
            anew = run(&["ip", "route", "show", "table", "18515"])
                .contains("198.51.100.9 via 192.0.2.2 dev uplink proto 72 mtu 1400");
            anew || daemon.try_wait().unwrap().is_some()
        });
        // The steps after the last change are its end's, which have been tried.
        let killed = daemon.try_wait().unwrap().is_some();
        if !killed {
            send(&daemon, Signal::KILL);
            daemon.wait().unwrap();
        }
        run(&["ip", "route", "replace", "default", "via", "192.0.2.2", "dev", "uplink", "proto", "static"]);
        table.recover(&scene, &before, &format!("after a kill at step {step}, while it was refreshing"));
        refreshing += 1;
        if !killed {
            break;
        }
    }
    assert!(refreshing > 4, "a refresh has steps");
    // Moments that nobody chose.
    for round in 0..12 {
        let mut daemon = scene.headstart(&[&["up", "--foreground"][..], &drill(&[])].concat()).spawn().unwrap();
        clock.sleep(Duration::from_micros(1500 * round));
        send(&daemon, Signal::KILL);
        daemon.wait().unwrap();
        table.recover(&scene, &before, &format!("after a kill {} us after its start", 1500 * round));
    }
    let Table { kills, slowest } = table;
    println!(
        "killed {kills} times (at {survived} steps of up and down, {refreshing} of a refresh, 12 at random moments; nftables: {}): \
         no difference; the slowest `recover` took {:.0} ms; {:.1} s in all",
        has("nft"),
        slowest.as_secs_f64() * 1e3,
        clock.now().since(Instant::ZERO).as_secs_f64(),
    );
});

/// Steps of `--drill` and `--bundle`, which the daemons that refresh do not take: six a change.
fn drilled(_: &Scene) -> u32 {
    match (has("nft"), can_bundle()) {
        (true, true) => 18,
        (true, false) => 12,
        (false, _) => 6,
    }
}

/// A daemon that makes changes of every kind that is possible here.
fn drill<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let bundle: &[&str] = if can_bundle() { &["--bundle"] } else { &[] };
    [&["--initcwnd", "--drill"], bundle, more].concat()
}

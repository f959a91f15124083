//! The tunnel as a whole.

use crate::scene::{BODY, Scene, fetched, inside, until};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use std::process::Command;

fn all() -> String {
    format!("200 {BODY}")
}

inside!(curl_goes_through_both_channels_and_status_tells_how_much_over_each, || {
    let Some(mut scene) = Scene::new() else { return };
    scene.up("pkt-state", &[]);
    let before = scene.packets();
    assert_eq!(fetched(scene.fetch("/small")), "200 100");
    assert_eq!(fetched(scene.fetch("/")), all());
    let [fat, fast] = scene.packets();
    // The host sends handshakes, requests and acknowledgements: by this rule all over the fast channel.
    assert!(fast > before[1] + 10 && fat >= before[0], "{fat} {fast}");
    let gateway = scene.status(true);
    let steering = &gateway["steering"];
    let share = steering["channels"][0]["share"].as_f64().unwrap();
    // What the gateway sends is full packets, over the fat one.
    assert!(share > 90.0, "{steering}");
    assert!(steering["reasons"].as_array().unwrap().iter().any(|r| r["why"] == "full size"), "{steering}");
    assert_eq!(steering["refused"]["datagrams"], 0, "{steering}");
    let text = scene.headstart(false, &["status"]).output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("steering: steer0, by pkt-state") && text.contains("fast  alive, 192.0.3.2:7001"), "{text}");
    let ping = Command::new("ping").args(["-6", "-c", "3", "-i", "0.2", "-W", "5", "fd77::2"]).output();
    if let Ok(ping) = ping {
        assert!(ping.status.success(), "{ping:?}");
    }
});

inside!(either_channel_may_be_pulled_in_mid_transfer_and_put_back, || {
    let Some(mut scene) = Scene::new() else { return };
    scene.up("pkt-state", &[]);
    for (n, channel) in ["fat", "fast"].into_iter().enumerate() {
        let transfer = scene.fetch("/slow");
        Clock::new().sleep(Duration::from_millis(300));
        scene.plug(channel, false);
        until("the channel is known to be dead", || !scene.alive(false)[n]);
        assert_eq!(fetched(scene.fetch("/small")), "200 100", "without the {channel} channel");
        assert_eq!(fetched(transfer), all(), "the {channel} channel was pulled");
        scene.plug(channel, true);
        until("the channel is back", || scene.alive(false) == [true, true] && scene.alive(true) == [true, true]);
    }
    assert_eq!(fetched(scene.fetch("/")), all());
});

inside!(the_gateway_hides_the_host_behind_itself_and_both_ends_leave_nothing, || {
    let Some(mut scene) = Scene::new() else { return };
    let Ok(nft) = Command::new("nft").args(["list", "ruleset"]).output() else { return };
    if !nft.status.success() {
        eprintln!("skipped: nft does not work here: {}", String::from_utf8_lossy(&nft.stderr));
        return;
    }
    let look = |what: &[&str]| {
        let output = Command::new("ip").args(what).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let before = (look(&["addr"]), look(&["route", "show", "table", "all"]));
    scene.up("value", &["--nat"]);
    assert_eq!(fetched(scene.fetch("/small")), "200 100");
    let gateway = scene.status(true);
    let changes = gateway["changes"].to_string();
    assert!(changes.contains("masquerade") && changes.contains("ip_forward"), "{changes}");
    for ended in scene.down() {
        assert!(ended.status.success(), "{ended:?}");
    }
    // Neighbours of the links are the kernel's own, and so are their lifetimes.
    assert_eq!((look(&["addr"]), look(&["route", "show", "table", "all"])), before);
});

inside!(with_every_column_on_a_program_under_headstart_works_and_the_host_is_left_as_it_was, || {
    let Some(mut scene) = Scene::new() else { return };
    let look = || {
        let of = |what: &[&str]| {
            let output = Command::new("ip").args(what).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let ruleset = Command::new("nft").args(["list", "ruleset"]).output();
        let ruleset = ruleset.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        [of(&["addr"]), of(&["route", "show", "table", "all"]), of(&["rule"]), ruleset]
    };
    let before = look();
    scene.up_with("value", &[], &["--all"]);
    let status = scene.status(false);
    assert_eq!(status["initial_windows"], 0, "windows are learned, and nothing is known yet: {status}");
    assert!(status["steering"]["policy"] == "value", "{status}");
    // Bundling is there or was said to be missing.
    if status["bundling"].is_null() {
        println!("without bundling here");
    }
    assert_eq!(fetched(scene.fetch("/small")), "200 100");
    let url = format!("http://{}/", crate::scene::SERVER);
    let mut run =
        scene.headstart(false, &["run", "--private", "--", "curl", "-sS", "--max-time", "60", "-o", "/dev/null"]);
    let run = run.args(["-w", "%{http_code} %{size_download}", &url]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), all(), "{run:?}");
    for ended in scene.down() {
        assert!(ended.status.success(), "{ended:?}");
    }
    assert_eq!(look(), before);
});

inside!(a_route_that_the_host_has_already_is_not_taken_from_it, || {
    let Some(scene) = Scene::new() else { return };
    let route = ["route", "add", "203.0.113.0/24", "dev", "fat"];
    assert!(Command::new("ip").args(route).status().unwrap().success());
    let said = scene.refused("value");
    assert!(said.contains("203.0.113.0/24") && said.contains("exists"), "{said}");
    let routes = Command::new("ip").args(["route"]).output().unwrap();
    assert!(String::from_utf8_lossy(&routes.stdout).contains("203.0.113.0/24 dev fat"), "{routes:?}");
});

inside!(a_file_that_others_may_read_or_that_is_wrong_is_refused_before_anything_is_made, || {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(scene) = Scene::new() else { return };
    let file = std::env::temp_dir().join(format!("headstart-steer-bad-{}.conf", std::process::id()));
    std::fs::write(&file, "[Interface]\nPrivateKey = x\n").unwrap();
    let name = file.display().to_string();
    let says = |mode: u32, words: &[&str]| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let output = scene.headstart(false, &[words, &[name.as_str()]].concat()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for words in [&["up", "--foreground", "--steer"][..], &["gateway", "--foreground"]] {
        let (code, said) = says(0o644, words);
        assert!(code == Some(2) && said.contains("chmod 600"), "{said}");
        let (code, said) = says(0o600, words);
        assert!(code == Some(2) && said.contains("line 2: PrivateKey: not a key"), "{said}");
    }
    std::fs::remove_file(&file).unwrap();
});

inside!(a_backup_carries_nothing_until_the_other_channel_is_gone, || {
    let Some(mut scene) = Scene::new() else { return };
    scene.up("value\nFastUse = backup", &[]);
    // On a busy machine probes may come back so late that the fat channel is taken for dead meanwhile.
    until("a fetch takes the fat channel alone", || {
        let [fat, fast] = scene.packets();
        assert_eq!(fetched(scene.fetch("/small")), "200 100");
        let after = scene.packets();
        after[0] > fat && after[1] == fast
    });
    assert_eq!(scene.status(false)["steering"]["channels"][1]["uses"], "backup");
    scene.plug("fat", false);
    let [_, fast] = scene.packets();
    assert_eq!(fetched(scene.fetch("/small")), "200 100");
    assert!(scene.packets()[1] > fast);
});

inside!(a_channel_whose_cap_is_reached_is_left_in_mid_transfer, || {
    let Some(mut scene) = Scene::new() else { return };
    scene.up("single-fast\nFastCap = 200kb/24h", &[]);
    // Whichever end reaches it first answers nothing more, so that the other may end just below it. A machine that
    // is busy may be late with the channel's probes, and carry a transfer over the other.
    until("a cap is reached", || {
        assert_eq!(fetched(scene.fetch("/all")), format!("200 {BODY}"));
        [false, true].iter().any(|gateway| scene.status(*gateway)["steering"]["channels"][1]["uses"] == "never")
    });
    for gateway in [false, true] {
        let cap = &scene.status(gateway)["steering"]["channels"][1]["cap"];
        let used = cap["used"].as_u64().unwrap();
        // What was read at once, and what was under way, is beyond it: far less than the transfer.
        assert!(cap["limit"] == 200_000 && (180_000..1_000_000).contains(&used), "{cap}");
    }
    assert_eq!(fetched(scene.fetch("/small")), "200 100");
});

//! Programs that know nothing of the tunnel: Chromium, iperf3, a stream and a call, through channels that come and go.

use crate::scene::{IMAGES, SERVER, Scene, inside, until};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_lab::browser::{BrowserError, Chromium};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the other end of the call is.
const CALLED: &str = "203.0.113.80:5060";
/// A packet of the call, and one every so often.
const SPEECH: usize = 160;
const EVERY: Duration = Duration::from_millis(20);

fn found(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let file = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    if file.is_none() {
        println!("skipped: {program} is not on the PATH (Debian package: {package})");
    }
    file
}

inside!(chromium_loads_pages_over_both_channels_and_without_either, || {
    let Some(mut scene) = Scene::new() else { return };
    if found("chromium", "chromium").is_none() {
        return;
    }
    // Where both channels are as short as each other ours has no use for the fast one.
    scene.up("pkt-state", &[]);
    let profile = tempfile::tempdir().unwrap();
    let mut chromium = match Chromium::start(Command::new("/bin/sh"), "none", profile.path(), &[]) {
        Ok(chromium) => chromium,
        Err(e @ BrowserError::Missing) => return println!("skipped: {e}"),
        Err(e) => panic!("{e}"),
    };
    let url = format!("http://{SERVER}/page");
    let mut load = |when: &str| {
        let loaded = chromium.load(&url).unwrap_or_else(|e| panic!("{when}: {e}"));
        let answered = loaded.requests.iter().filter(|r| r.status == Some(200) && r.failed.is_none()).count();
        // The browser may ask for an icon, too.
        assert!(answered > IMAGES + 1, "{when}: {:?}", loaded.requests);
        println!("{when}: {answered} objects, load event after {:.0} ms", loaded.load);
    };
    load("over both");
    let [_, requests] = scene.packets();
    let answers = scene.status(true)["steering"]["channels"][0]["packets"].as_u64();
    assert!(requests > 0 && answers > Some(0), "{requests} {answers:?}");
    for (n, channel) in ["fat", "fast"].into_iter().enumerate() {
        scene.silence(channel, true);
        load(&format!("the {channel} channel silent"));
        scene.silence(channel, false);
        until("the channel is back", || scene.alive(false)[n] && scene.alive(true)[n]);
    }
    load("over both again");
});

inside!(iperf3_moves_data_both_ways_while_the_fat_channel_goes_and_comes_back, || {
    let Some(mut scene) = Scene::new() else { return };
    let Some(iperf3) = found("iperf3", "iperf3") else { return };
    scene.up("value", &[]);
    let address = SERVER.split(':').next().unwrap();
    // Small pieces, so that what trickles over the fast channel is seen to.
    for words in
        [&["--length", "2K"][..], &["--length", "2K", "--reverse"], &["--udp", "--bitrate", "1M", "--length", "1200"]]
    {
        let mut server = Command::new(&iperf3);
        server
            .args(["--server", "--one-off", "--forceflush", "--bind", address])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        scene.adopt_at_the_gateway(&mut server);
        let mut server = server.spawn().unwrap();
        // Its first lines say that it listens.
        let mut said = BufReader::new(server.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "iperf3 did not listen");
        }
        let rest = std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        let mut client = Command::new(&iperf3);
        client.args(["--client", address, "--time", "2", "--interval", "0.1", "--json"]).args(words);
        let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Clock::new().sleep(Duration::from_millis(700));
        scene.silence("fat", true);
        Clock::new().sleep(Duration::from_millis(500));
        scene.silence("fat", false);
        let output = client.wait_with_output().unwrap();
        server.wait().unwrap();
        let _ = rest.join();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success(), "{words:?}: {}", told["error"]);
        let end = &told["end"];
        let received = [&end["sum_received"], &end["sum"]].into_iter().find_map(|sum| sum["bytes"].as_u64());
        assert!(received.is_some_and(|bytes| bytes > 10_000), "{words:?}: {end}");
        let silent = told["intervals"].as_array().unwrap().iter().filter(|i| i["sum"]["bytes"] == 0).count();
        println!("iperf3 {words:?}: {received:?} bytes, {silent} intervals of 100 ms with nothing in them");
        until("the fat channel is back", || scene.alive(false)[0] && scene.alive(true)[0]);
    }
});

/// Arrivals of the call's packets, sent back, until it is hung up.
fn call(clock: Clock, hung_up: Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<Instant>> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(CALLED).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_millis(5))).unwrap();
    std::thread::spawn(move || {
        let (mut next, mut arrivals, mut room) = (clock.now(), Vec::new(), [0; SPEECH]);
        while !hung_up.load(Ordering::Relaxed) {
            if clock.now() >= next {
                next += EVERY;
                // On the first packets of a silent channel the kernel may complain of those before.
                let _ = socket.send(&[7; SPEECH]);
            }
            if socket.recv(&mut room).is_ok() {
                arrivals.push(clock.now());
            }
        }
        arrivals
    })
}

/// Arrivals of the pieces of a stream of `times` pieces; all of its bytes.
fn stream(clock: Clock, times: usize) -> std::thread::JoinHandle<(Vec<Instant>, usize)> {
    let mut stream = TcpStream::connect(SERVER).unwrap();
    std::thread::spawn(move || {
        stream.write_all(format!("GET /beat/{times} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let (mut arrivals, mut bytes, mut room) = (Vec::new(), 0, vec![0; 64 << 10]);
        while let Ok(len @ 1..) = stream.read(&mut room) {
            arrivals.push(clock.now());
            bytes += len;
        }
        (arrivals, bytes)
    })
}

/// The longest gap between arrivals that has a part of `from` to `to` in it, in ms.
fn longest(arrivals: &[Instant], from: Instant, to: Instant) -> u64 {
    let gaps = arrivals.windows(2).filter(|gap| gap[1] > from && gap[0] < to);
    gaps.map(|gap| gap[1].since(gap[0]).as_millis() as u64).max().unwrap_or_default()
}

inside!(a_call_and_a_stream_outlive_each_channel_and_both_at_once, || {
    let Some(mut scene) = Scene::new() else { return };
    scene.up("value", &[]);
    let answering = scene.at_the_gateway(|| UdpSocket::bind(CALLED).unwrap());
    std::thread::spawn(move || {
        let mut room = [0; SPEECH];
        while let Ok((len, from)) = answering.recv_from(&mut room) {
            let _: Result<usize, _> = answering.send_to(&room[..len], from as SocketAddr);
        }
    });
    let clock = Clock::new();
    let hung_up = Arc::new(AtomicBool::new(false));
    const PIECES: usize = 700;
    let (call, stream) = (call(clock, hung_up.clone()), stream(clock, PIECES));
    clock.sleep(Duration::from_millis(500));
    let mut phases = Vec::new();
    for (what, channels) in [("fat", &["fat"][..]), ("fast", &["fast"]), ("both", &["fat", "fast"])] {
        let from = clock.now();
        channels.iter().for_each(|channel| scene.silence(channel, true));
        clock.sleep(Duration::from_millis(if what == "both" { 500 } else { 1_000 }));
        let to = clock.now();
        channels.iter().for_each(|channel| scene.silence(channel, false));
        until("both channels are back", || scene.alive(false) == [true, true] && scene.alive(true) == [true, true]);
        phases.push((what, from, to));
        clock.sleep(Duration::from_millis(300));
    }
    let (pieces, bytes) = stream.join().unwrap();
    let back = clock.now();
    clock.sleep(Duration::from_millis(200));
    hung_up.store(true, Ordering::Relaxed);
    let heard = call.join().unwrap();
    // A head, and all pieces: no connection was lost.
    assert!(bytes > 1000 * PIECES, "{bytes}");
    for (what, from, to) in phases {
        let [of_stream, of_call] = [&pieces, &heard].map(|arrivals| longest(arrivals, from, to));
        println!("without {what}: nothing of the stream for {of_stream} ms, nothing of the call for {of_call} ms");
        assert!(heard.iter().any(|at| *at > to), "the call has not come back from {what}");
    }
    assert!(heard.last().is_some_and(|at| *at + Duration::from_secs(20) > back), "{:?}", heard.last());
});

//! `headstart proxy` on a host with two links: whom the server sees says which one an object has taken.

use crate::scene::{SERVER, Scene, inside, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output};

/// The host's own addresses on both links.
pub const FAT: &str = "192.0.2.1";
pub const FAST: &str = "192.0.3.1";

pub struct Proxy {
    child: Child,
    said: BufReader<ChildStdout>,
    pub url: String,
    users: PathBuf,
}

impl Proxy {
    /// A proxy for `ann` and `bob`, by `policy`.
    pub fn new(scene: &Scene, policy: &str) -> Self {
        ip(&["link", "set", "lo", "up"]);
        let server = SERVER.split(':').next().unwrap();
        for (metric, via, link) in [("1", "192.0.2.2", "fat"), ("2", "192.0.3.2", "fast")] {
            ip(&["route", "add", server, "via", via, "dev", link, "metric", metric]);
        }
        Self::again(scene, policy)
    }

    /// Another one, on a host whose links lead to the server already.
    fn again(scene: &Scene, policy: &str) -> Self {
        Self::at(scene, policy, "127.0.0.1")
    }

    /// One that listens at this address of the host.
    pub fn at(scene: &Scene, policy: &str, own: &str) -> Self {
        // Processes of other tests have the same number, each in its own namespace.
        let users = scene.path("proxy-users");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&users).unwrap();
        file.write_all(b"ann:secret\nbob:hidden\n").unwrap();
        let listen = format!("{own}:0");
        let words = ["proxy", "--fat", "fat", "--fast", "fast", "--listen", &listen, "--policy", policy, "--users"];
        let mut child = scene.headstart(false, &words).arg(&users).arg("--verbose").spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let url = line.split(' ').next().unwrap().trim().to_owned();
        assert!(url.starts_with(&format!("http://{own}:")), "{line}");
        Self { child, said, url, users }
    }

    pub fn curl(&self, user: &str, words: &[&str], path: &str) -> Output {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "30", "--noproxy", "", "--proxy", &self.url]);
        curl.args(["--proxy-user", user, "--write-out", "\n%{http_code} %{http_connect} %{size_download}"]);
        curl.args(words).arg(format!("http://{SERVER}{path}")).output().unwrap()
    }

    /// Whom the server saw, and how it went.
    pub fn fetch(&self, words: &[&str], path: &str) -> (String, String) {
        let output = self.curl("ann:secret", words, path);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, went) = text.rsplit_once('\n').unwrap_or_default();
        (body.split(' ').next().unwrap_or_default().to_owned(), went.to_owned())
    }

    /// Ends it; its last line.
    fn end(mut self) -> String {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::TERM).unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success());
        line
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.users);
    }
}

pub fn ip(words: &[&str]) {
    assert!(Command::new("ip").args(words).status().unwrap().success(), "ip {words:?}");
}

pub fn over(link: &str, bytes: usize) -> (String, String) {
    (link.to_owned(), format!("200 000 {bytes}"))
}

inside!(an_object_that_was_small_is_fast_the_next_time_and_a_large_one_never, || {
    let Some(scene) = Scene::new() else { return };
    let proxy = Proxy::new(&scene, "obj-size-3k");
    assert_eq!(proxy.fetch(&[], "/who/2000"), over(FAT, 2_000));
    assert_eq!(proxy.fetch(&[], "/who/2000"), over(FAST, 2_000));
    for _ in 0..2 {
        assert_eq!(proxy.fetch(&[], "/who/50000"), over(FAT, 50_000));
    }
    // Through CONNECT it sees no object but the tunnel as a whole.
    let tunnelled = |link: &str| (link.to_owned(), "200 200 1000".to_owned());
    assert_eq!(proxy.fetch(&["--proxytunnel"], "/who/1000"), tunnelled(FAT));
    until("the tunnel's size is known", || proxy.fetch(&["--proxytunnel"], "/who/1000") == tunnelled(FAST));
    let last = proxy.end();
    assert!(last.starts_with("objects: ") && last.contains("over the fast one"), "{last}");
    // The next run knows what this one has learned.
    let proxy = Proxy::again(&scene, "obj-size-3k");
    assert_eq!(proxy.fetch(&[], "/who/2000"), over(FAST, 2_000));
    assert_eq!(proxy.fetch(&[], "/who/2001"), over(FAT, 2_001));
});

inside!(urgent_objects_are_fast_by_priority_and_nobody_comes_in_without_a_password, || {
    let Some(scene) = Scene::new() else { return };
    let proxy = Proxy::new(&scene, "obj-priority");
    assert_eq!(proxy.fetch(&["--header", "Priority: u=0, i"], "/who/900"), over(FAST, 900));
    assert_eq!(proxy.fetch(&["--header", "Accept: text/html,*/*"], "/who/900"), over(FAST, 900));
    assert_eq!(proxy.fetch(&["--header", "Priority: u=1"], "/who/900"), over(FAT, 900));
    for (user, tunnel) in [("ann:wrong", false), (":", false), ("ann:secret2", true)] {
        let words: &[&str] = if tunnel { &["--proxytunnel"] } else { &[] };
        let output = proxy.curl(user, words, "/small");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("407") && !text.contains("200"), "{user}: {text}");
    }
    // The proxy's own host is open to programs that trust whoever is here.
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--noproxy", "", "--proxy", &proxy.url, "--proxy-user", "ann:secret", "--max-time", "30"]);
    let own = curl.args(["--write-out", "%{http_code}", &proxy.url]).output().unwrap();
    assert!(String::from_utf8_lossy(&own.stdout).ends_with("403"), "{own:?}");
});

inside!(a_dead_channel_is_left_to_the_other_one, || {
    let Some(scene) = Scene::new() else { return };
    let proxy = Proxy::new(&scene, "obj-priority");
    let urgent = ["--header", "Priority: u=0"];
    assert_eq!(proxy.fetch(&urgent, "/who/900"), over(FAST, 900));
    scene.plug("fast", false);
    assert_eq!(proxy.fetch(&urgent, "/who/900"), over(FAT, 900));
});

inside!(what_makes_no_sense_is_refused_before_anything_is_open, || {
    let Some(scene) = Scene::new() else { return };
    let says = |words: &[&str]| {
        let words = [&["proxy", "--fat", "fat", "--fast", "fast"], words].concat();
        let output = scene.headstart(false, &words).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let refused = |words: &[&str], why: &str| {
        let (code, said) = says(words);
        assert!(code == Some(2) && said.contains(why), "{words:?}: {said}");
    };
    refused(&["--policy", "pkt-state"], "up --steer");
    refused(&["--listen", "0.0.0.0:0"], "--users");
    refused(&["--users", "/nowhere"], "/nowhere");
});

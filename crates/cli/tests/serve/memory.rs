//! What servers remember of paths: over restarts, after a kill, and among several.

use crate::client;
use crate::scene::{Scratch, Server, found, until};
use crate::schema::must_hold;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;

/// Enough to be worth remembering: four initial windows and more.
const LENGTH: u32 = 2_000_000;

/// Bytes that the server says it remembered of the path when it was fetched from now.
fn remembered(server: &Server) -> u64 {
    let told = &server.get(&server.url("file.bin"), Path::new("/dev/null"), &["--http", "3"]).objects()[0];
    assert_eq!(told["bytes"], LENGTH, "{told}");
    remembered_in(told["start"].as_str().unwrap_or_else(|| panic!("no word of the start: {told}")))
}

/// The same from the field Server-Timing.
fn remembered_in(start: &str) -> u64 {
    assert!(start.starts_with("start;desc=\"careful-resume "), "{start}");
    let number = start.split("remembered=").nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{start}"))
}

/// Fetches until the server has taken in what it has learned.
fn until_remembered(server: &Server) {
    until("something is remembered", || remembered(server) > 0);
}

#[test]
fn what_a_server_has_learned_of_a_path_holds_over_its_end() {
    let scratch = Scratch::new();
    scratch.file("file.bin", LENGTH);
    let mut server = Server::start(scratch, &[]);
    assert_eq!(remembered(&server), 0, "the first contact");
    until_remembered(&server);
    server.end();
    assert_eq!(server.ended(), Some(0));
    let next = Server::start(server.scratch.clone(), &[]);
    assert!(remembered(&next) > 0);
    let none = Server::start(server.scratch.clone(), &["--start-share", "0"]);
    assert_eq!(remembered(&none), 0, "no connection starts from the history");
}

#[test]
fn what_was_written_survives_kill_minus_nine() {
    let scratch = Scratch::new();
    scratch.file("file.bin", LENGTH);
    let store = scratch.path("kept").to_str().unwrap().to_owned();
    let mut server = Server::start(scratch, &["--store", &store]);
    until_remembered(&server);
    let written = server.scratch.path("kept/paths.redb");
    until("it is written", || written.exists());
    server.kill();
    let next = Server::start(server.scratch.clone(), &["--store", &store]);
    assert!(remembered(&next) > 0);
}

#[test]
fn a_store_that_was_cut_off_is_named_in_one_line_and_set_aside() {
    let scratch = Scratch::new();
    scratch.file("file.bin", LENGTH);
    let store = scratch.path("kept").to_str().unwrap().to_owned();
    let mut server = Server::start(scratch, &["--store", &store]);
    until_remembered(&server);
    server.end();
    assert_eq!(server.ended(), Some(0));
    let file = std::fs::OpenOptions::new().write(true).open(server.scratch.path("kept/paths.redb")).unwrap();
    file.set_len(8192).unwrap();
    let words = ["get", "--store", &store, "--insecure", "--http", "2", "https://127.0.0.1:1/"];
    let ended = server.scratch.headstart(&words);
    assert!(ended.err.contains("is damaged") && !ended.err.contains("panicked"), "{ended:?}");
    assert!(server.scratch.path("kept/paths.set-aside.redb").exists());
}

#[test]
fn nothing_is_kept_of_a_memory_that_is_to_end_with_its_server() {
    let scratch = Scratch::new();
    scratch.file("file.bin", LENGTH);
    let mut server = Server::start(scratch, &["--store", "memory"]);
    until_remembered(&server);
    server.end();
    assert_eq!(server.ended(), Some(0));
    // `get` keeps what it has received at the user's place, which says nothing of what is sent.
    let next = Server::start(server.scratch.clone(), &[]);
    assert_eq!(remembered(&next), 0);
}

#[test]
fn what_the_rule_did_is_written_as_qlog() {
    let scratch = Scratch::new();
    scratch.file("file.bin", LENGTH);
    let folder = scratch.path("qlog");
    let mut server = Server::start(scratch, &["--qlog", folder.to_str().unwrap()]);
    until_remembered(&server);
    let mut text = String::new();
    // Where a loopback's round trip says that packets wait, there is no jump and nothing to write; not so with the next.
    until("something is written", || {
        remembered(&server);
        let files = std::fs::read_dir(&folder).unwrap().flatten();
        text = files.map(|file| std::fs::read_to_string(file.path()).unwrap()).collect();
        text.contains("careful_resume_phase_updated")
    });
    for line in text.lines().filter(|line| line.ends_with('}')) {
        must_hold("qlog", line.trim_start_matches('\u{1e}'));
    }
    // The thread that writes leaves signals to the one that waits for them.
    server.end();
    assert_eq!(server.ended(), Some(0));
}

#[test]
fn rules_and_stores_that_are_none_are_named() {
    let scratch = Scratch::new();
    let site = scratch.path("site");
    let with = |flag: &str, value: &str| {
        scratch.headstart(&["serve", "--listen", "127.0.0.1:0", site.to_str().unwrap(), flag, value])
    };
    let (public, short) = (scratch.path("public"), scratch.path("short"));
    write_key(&public, &"a".repeat(64), 0o644);
    write_key(&short, &"a".repeat(62), 0o600);
    for (flag, value, said) in [
        ("--start", "carefull", "careful-wireless"),
        ("--store", "elsewhere", "./elsewhere"),
        ("--store", "redis://", "rediss:// for TLS"),
        ("--start-most", "1", "12000"),
        ("--start-lifetime", "0", "604800"),
        ("--start-share", "101", "100"),
        ("--controller", "bbr3", "version 1 without its pacing"),
        ("--controller", "vegas", "new-reno"),
        ("--token-key", "/nowhere/key", "/nowhere/key"),
        ("--token-key", "/dev/zero", "larger than 16 MiB"),
        ("--token-key", public.to_str().unwrap(), "chmod 600"),
        ("--token-key", short.to_str().unwrap(), "64 hexadecimal digits"),
    ] {
        let ended = with(flag, value);
        assert!(ended.code == Some(2) && ended.err.contains(said), "{ended:?}");
    }
}

/// A file with a key, or what is none.
fn write_key(file: &Path, digits: &str, mode: u32) {
    std::fs::write(file, digits).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_client_carries_the_history_of_its_path_to_the_next_server_while_the_key_is_replaced() {
    let scratch = Rc::new(Scratch::new());
    scratch.file("file.bin", LENGTH);
    let [old, new] = ["old", "new"].map(|name| scratch.path(name).to_str().unwrap().to_owned());
    write_key(Path::new(&old), &"a".repeat(64), 0o600);
    write_key(Path::new(&new), &"b".repeat(64), 0o600);
    // None has anything of another but by its client.
    let server = |flags: &[&str]| Server::start(scratch.clone(), &[&["--store", "memory"], flags].concat());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let remembered_next = |flags: &[&str]| {
        let tokens = Arc::new(quinn::TokenMemoryCache::default());
        let visit =
            |server: &Server| remembered_in(&runtime.block_on(client::visited(server, "file.bin", tokens.clone())));
        let first = server(&["--token-key", &old]);
        // From the visit at which it knows the path it gives tokens that say so.
        until("the first server knows the path", || visit(&first) > 0);
        visit(&server(flags))
    };
    assert!(remembered_next(&["--token-key", &new, "--token-key", &old]) > 0);
    assert_eq!(remembered_next(&["--token-key", &new]), 0, "a key of its own");
    assert_eq!(remembered_next(&[]), 0, "no key");
}

/// A server of Redis on a Unix socket, ended with the test.
struct Redis(Child);

impl Redis {
    fn start(scratch: &Scratch) -> Option<Self> {
        let program = found("redis-server", "redis-server")?;
        let socket = scratch.path("redis.sock");
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
        command.arg("--dir").arg(scratch.path("")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let redis = Self(command.spawn().unwrap());
        until("Redis listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        Some(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn of_two_servers_that_share_a_store_the_second_starts_from_what_the_first_has_learned() {
    let scratch = Rc::new(Scratch::new());
    let Some(redis) = Redis::start(&scratch) else { return };
    scratch.file("file.bin", LENGTH);
    let store = format!("redis+unix://{}", scratch.path("redis.sock").display());
    let one = Server::start(scratch.clone(), &["--store", &store]);
    assert_eq!(remembered(&one), 0, "the first contact");
    // It goes on, but is not asked again: the scratch folder has room for the certificate of the last alone.
    // The store is asked within 5 ms, which a busy machine may miss: then the connection starts as usual. Each other
    // server is new: it knows nothing but what is shared.
    until("another starts from it", || remembered(&Server::start(scratch.clone(), &["--store", &store])) > 0);
    drop(redis);
    // Without the store, connections are made as before.
    assert_eq!(remembered(&Server::start(scratch.clone(), &["--store", &store])), 0);
}

#[test]
fn a_store_that_accepts_and_never_answers_stops_no_connection() {
    let scratch = Rc::new(Scratch::new());
    scratch.file("file.bin", LENGTH);
    let socket = scratch.path("redis.sock");
    let silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let server = Server::start(scratch.clone(), &["--store", &format!("redis+unix://{}", socket.display())]);
    assert_eq!(remembered(&server), 0, "nothing is known of it");
    // It was asked: the question is there, and open.
    silent.set_nonblocking(true).unwrap();
    let mut first = [0; 1];
    let mut came = silent.incoming().map_while(Result::ok);
    let asked = came.find_map(|mut one| std::io::Read::read_exact(&mut one, &mut first).is_ok().then_some(one));
    assert!(asked.is_some(), "only looked whether it is there");
    // What the server has learned itself is used as ever.
    until("the server's own history is used", || remembered(&server) > 0);
}

//! Programs of others fetch from `headstart serve`: curl.

use crate::scene::{Ended, HEADSTART, Scratch, Server, found};

/// curl with these words; its output begins with the heads of the answers if `-i` is among them.
fn curl(server: &Server, words: &[&str]) -> Option<Ended> {
    let curl = found("curl", "curl")?;
    let mut command = server.scratch.command(curl);
    command.args(["-q", "-sS", "--path-as-is", "--cacert", &server.cert()]).args(words);
    Some(Ended::of(command.output().unwrap()))
}

#[test]
fn curl_fetches_over_http2_and_http1() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("site/file.txt"), "0123456789").unwrap();
    let server = Server::start(scratch, &[]);
    let url = server.url("file.txt");
    for (flag, version) in [("--http2", "HTTP/2 "), ("--http1.1", "HTTP/1.1 ")] {
        let Some(whole) = curl(&server, &["-i", flag, &url]) else { return };
        assert!(
            whole.out.starts_with(&format!("{version}200")) && whole.out.ends_with("\r\n\r\n0123456789"),
            "{whole:?}"
        );
        let offered = format!("alt-svc: h3=\":{}\"", server.address.port());
        assert!(whole.out.to_ascii_lowercase().contains(&offered), "{whole:?}");
        let part = curl(&server, &["-i", flag, "-r", "2-4", &url]).unwrap();
        assert!(part.out.starts_with(&format!("{version}206")) && part.out.ends_with("\r\n\r\n234"), "{part:?}");
        let head = curl(&server, &["-I", flag, &url]).unwrap();
        let lower = head.out.to_ascii_lowercase();
        assert!(lower.contains("content-length: 10\r\n") && lower.ends_with("\r\n\r\n"), "{head:?}");
        let status = |more: &[&str]| {
            let words = [&["-o", "/dev/null", "-w", "%{http_code}", flag][..], more].concat();
            curl(&server, &words).unwrap().out
        };
        assert_eq!(status(&[&server.url("../../etc/passwd")]), "400");
        assert_eq!(status(&[&server.url(".ssh/id")]), "404");
        assert_eq!(status(&["-X", "DELETE", &url]), "405");
        assert_eq!(status(&["-r", "10-", &url]), "416");
    }
}

#[test]
fn curl_goes_on_with_a_file_and_lists_a_folder() {
    let scratch = Scratch::new();
    let served = scratch.file("file.bin", 200_000);
    let server = Server::start(scratch, &[]);
    let to = server.scratch.path("f");
    std::fs::write(&to, &served[..70_000]).unwrap();
    let Some(ended) = curl(&server, &["-C", "-", "-o", to.to_str().unwrap(), &server.url("file.bin")]) else { return };
    assert!(ended.code == Some(0) && std::fs::read(&to).unwrap() == served, "{ended:?}");
    let listed = curl(&server, &[&server.url("")]).unwrap();
    assert!(listed.out.contains("<a href=\"file.bin\">file.bin</a> 200000"), "{listed:?}");
}

#[test]
fn curl_gets_a_text_compressed_and_parts_of_it_as_they_are() {
    let scratch = Scratch::new();
    let text = "text that is sent again and again\n".repeat(1000);
    std::fs::write(scratch.path("site/file.txt"), &text).unwrap();
    let file = std::fs::File::options().write(true).open(scratch.path("site/file.txt")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let server = Server::start(scratch, &[]);
    let url = server.url("file.txt");
    for flag in ["--http2", "--http1.1"] {
        let sent = |more: &[&str]| curl(&server, &[&[flag, "-H", "accept-encoding: gzip"], more, &[&url]].concat());
        // Its own decoder; the number of bytes is that before it.
        let plain = ["--compressed", "-w", "%{size_download} %header{content-encoding} %header{vary}"];
        let Some(whole) = curl(&server, &[&[flag][..], &plain, &[&url]].concat()) else { return };
        let (body, told) = whole.out.split_at(whole.out.len().min(text.len()));
        let told: Vec<_> = told.split(' ').collect();
        assert!(body == text && told[0].parse::<usize>().unwrap() < text.len() / 20, "{flag} {told:?}");
        assert_eq!(told[1..], ["gzip", "accept-encoding"]);
        let head = sent(&["-I"]).unwrap().out.to_ascii_lowercase();
        assert!(head.contains("content-encoding: gzip") && head.contains(&format!("content-length: {}\r\n", told[0])));
        let part = sent(&["-i", "-r", "5-8"]).unwrap().out;
        assert!(!part.to_ascii_lowercase().contains("content-encoding") && part.ends_with("\r\n\r\nthat"), "{part}");
    }
    let plain = Server::start(server.scratch.clone(), &["--no-compress"]);
    let never = curl(&plain, &["-I", "-H", "accept-encoding: gzip", &plain.url("file.txt")]).unwrap();
    assert!(never.out.contains(&text.len().to_string()), "{never:?}");
}

#[test]
fn each_request_is_logged_whatever_the_version_and_the_log_may_be_moved_away() {
    let scratch = Scratch::new();
    let bytes = scratch.file("file.bin", 200_000);
    let log = scratch.path("access.log");
    let path = log.to_str().unwrap().to_owned();
    let mut server = Server::start(scratch, &["--log", &path, "--log-format", "combined"]);
    let to = server.scratch.path("got");
    let got = server.get(&server.url("file.bin"), &to, &[]);
    assert!(got.code == Some(0) && std::fs::read(&to).unwrap() == bytes, "{got:?}");
    let url = server.url("missing?q=%22");
    let has_curl = curl(&server, &["--http1.1", "-A", "a\"b", &url]).is_some();
    if has_curl {
        curl(&server, &["--http2", "-e", "https://from.example/", &server.url("file.bin"), "-o", "/dev/null"]).unwrap();
    }
    server.end();
    assert_eq!(server.ended(), Some(0));
    let text = std::fs::read_to_string(&log).unwrap();
    let is_there = |line: &str| text.lines().any(|of| of.starts_with("127.0.0.1 - - [") && of.contains(line));
    assert!(is_there("\"GET /file.bin HTTP/3\" 200 200000 "), "{text}");
    if has_curl {
        assert!(is_there(r#"+0000] "GET /missing?q=%22 HTTP/1.1" 404 10 "-" "a\"b""#), "{text}");
        assert!(is_there(r#""GET /file.bin HTTP/2" 200 200000 "https://from.example/" "curl/"#), "{text}");
    }
    assert_eq!(text.lines().count(), if has_curl { 3 } else { 1 }, "{text}");
}

/// Binds TCP and UDP on one port, hands both over as a service manager does, and executes what follows.
const MANAGER: &str = "
import os, socket, sys
tcp = socket.create_server(('127.0.0.1', 0))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(tcp.getsockname())
handed = [s for s in (udp, tcp) if s.type == socket.SOCK_STREAM or sys.argv[1] == 'both']
first = [os.dup(s.fileno()) for s in handed]
for n, fd in enumerate(first):
    os.dup2(fd, 100 + n)
for n in range(len(first)):
    os.dup2(100 + n, 3 + n, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(first)))
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn sockets_of_a_service_manager_are_served_and_half_a_pair_is_refused() {
    let Some(python) = found("python3", "python3") else { return };
    let scratch = Scratch::new();
    let bytes = scratch.file("file.bin", 50_000);
    let under = |what: &str, cert: &std::path::Path| {
        let mut command = scratch.command(&python);
        command.args(["-c", MANAGER, what, HEADSTART, "serve", "--json", "--write-cert"]).arg(cert);
        command.arg(scratch.path("site"));
        command
    };
    let refused = Ended::of(under("tcp", &scratch.path("none")).output().unwrap());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("LISTEN_FDS: socket 0: add a UDP socket on 127.0.0.1:"), "{refused:?}");
    let cert = scratch.path("cert.pem");
    let server = Server::of(under("both", &cert), scratch);
    let to = server.scratch.path("got");
    let got = server.get(&server.url("file.bin"), &to, &[]);
    assert!(got.objects()[0]["protocol"].as_str() == Some("HTTP/3") && std::fs::read(&to).unwrap() == bytes, "{got:?}");
    if let Some(ended) = curl(&server, &["--http2", &server.url("file.bin"), "-o", "/dev/null"]) {
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

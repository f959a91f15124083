//! A page of nginx, recorded through the proxy and served again: to curl byte for byte, heads included, and to Chromium.

use super::{LINK, inside, loaded};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_lab::browser::{BrowserError, Chromium};
use headstart_lab::condition::page::{Families, world};
use headstart_lab::netns::Network;
use headstart_lab::page::{Page, Protocol, recording};
use headstart_lab::server::authority::{Authority, Trust};
use headstart_lab::server::recorder::{Recorder, roots_of};
use headstart_lab::server::stage::Stage;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const HOST: &str = "n1.lab.example";
/// What is asked for, as arguments of curl; redirects, compression, chunks, and an answer that is another each time.
const ASKED: [&[&str]; 8] = [
    &["https://n1.lab.example/page.html"],
    &["--header", "Accept-Encoding: gzip", "https://n1.lab.example/page.html"],
    &["http://n1.lab.example:8080/style.css"],
    &["--location", "https://n1.lab.example/old"],
    &["https://n1.lab.example/counter"],
    &["https://n1.lab.example/counter"],
    &["--data", "hello=1", "https://n1.lab.example/posted"],
    &["https://n1.lab.example/nowhere"],
];

/// nginx where the servers are; it ends when this is dropped.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&paths).chain(system).any(|p| p.join(program).is_file())
}

/// Starts nginx with a page in `folder`, and waits until it listens.
fn nginx(network: &Network, authority: &Authority, folder: &Path) -> Nginx {
    let www = folder.join("www");
    fs::create_dir(&www).unwrap();
    let (certificate, key) = authority.files(&[HOST], folder).unwrap();
    let words: String = (0..4000).map(|n| format!("word {n}\n")).collect();
    let page = format!(
        "<!doctype html><html><head><title>a page</title><link rel=stylesheet href=style.css></head><body>\
         <img alt=\"\" src=\"image.svg\"><script src=\"https://{HOST}/script.js\"></script><pre>{words}</pre></body></html>"
    );
    fs::write(www.join("page.html"), page).unwrap();
    fs::write(www.join("style.css"), "body { color: black }\n").unwrap();
    fs::write(www.join("script.js"), format!("// {words}").replace('\n', " ")).unwrap();
    fs::write(www.join("image.svg"), "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>").unwrap();
    let at = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String = temporary.iter().map(|t| format!("{t}_temp_path {at}/{t};\n")).collect();
    let configuration = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/errors error;
         events {{}}
         http {{
           access_log off; {temporary}
           types {{ text/html html; text/css css; text/javascript js; image/svg+xml svg; }}
           gzip on; gzip_types text/javascript; gzip_min_length 1000;
           server {{
             listen 8080; listen [::]:8080; listen 443 ssl; listen [::]:443 ssl;
             ssl_certificate {}; ssl_certificate_key {};
             root {};
             location = /old {{ return 302 /page.html; }}
             location = /counter {{ return 200 \"$request_id\\n\"; }}
             location = /posted {{ return 200 \"$content_length bytes\\n\"; }}
           }}
         }}",
        certificate.display(),
        key.display(),
        www.display()
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration).unwrap();
    let program = ["/usr/sbin/nginx", "/sbin/nginx"].into_iter().find(|p| Path::new(p).is_file()).unwrap_or("nginx");
    let mut command = network.server_command(program).unwrap();
    command.arg("-p").arg(folder).arg("-c").arg(&file).arg("-e").arg(folder.join("errors"));
    let mut nginx = Nginx(command.stdin(Stdio::null()).spawn().unwrap());
    let clock = Clock::new();
    let listens = network.on_client(|| {
        for _ in 0..6000 {
            if TcpStream::connect((HOST, 443)).is_ok() {
                return true;
            }
            clock.sleep(Duration::from_millis(10));
        }
        false
    });
    let ended = nginx.0.try_wait().unwrap();
    let said = fs::read_to_string(folder.join("errors")).unwrap_or_default();
    assert!(listens.unwrap() && ended.is_none(), "nginx does not listen: {ended:?} {said}");
    nginx
}

/// What curl prints of every answer, heads and framing included.
fn fetch(command: impl Fn() -> Command) -> Vec<Vec<u8>> {
    let one = |asked: &&[&str]| {
        let mut curl = command();
        curl.args(["--silent", "--show-error", "--include", "--raw", "--http1.1", "--suppress-connect-headers"]);
        let got = curl.args(*asked).output().unwrap();
        assert!(got.status.success(), "{asked:?}: {}", String::from_utf8_lossy(&got.stderr));
        got.stdout
    };
    ASKED.iter().map(one).collect()
}

/// What Chromium got of a page: addresses, statuses and types, in the order of addresses.
fn visit(
    command: Command,
    trust: &Trust,
    profile: &Path,
    over_quic: &[String],
) -> Option<Vec<(String, Option<u16>, String)>> {
    fs::create_dir(profile).unwrap();
    let mut chromium = match Chromium::start(command, &trust.key_hash, profile, over_quic) {
        Ok(chromium) => chromium,
        Err(e @ BrowserError::Missing) => {
            println!("skipped: {e}");
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    let load = loaded(&mut chromium, &format!("https://{HOST}/page.html"));
    let requests = load.requests.into_iter().filter(|r| !r.url.ends_with("/favicon.ico"));
    let mut got: Vec<_> = requests.map(|r| (r.url, r.status, r.mime)).collect();
    got.sort();
    Some(got)
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_page_of_nginx_is_recorded_and_served_again_byte_for_byte() {
    inside("recorder::a_page_of_nginx_is_recorded_and_served_again_byte_for_byte", || {
        if let Some(missing) = ["nginx", "curl"].into_iter().find(|p| !is_installed(p)) {
            return println!("skipped: {missing} is not installed");
        }
        let folder = tempfile::tempdir().unwrap();
        let within = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (out, by_browser) = (folder.path().join("out"), folder.path().join("browser"));
        let page = Page::of_hosts([HOST.to_owned()].into_iter(), Protocol::Http1);
        let (recorded, seen) = {
            let network = Network::build(&world(&page, LINK, Families::Alike, 1)).unwrap();
            let authority = Authority::create(&within("authority")).unwrap();
            let _nginx = nginx(&network, &authority, &within("nginx"));
            let start = |out: &Path, private: &str| {
                let (roots, private) = (roots_of(&authority.trust().certificate).unwrap(), within(private));
                network.on_client(|| Recorder::start(out, &private, roots).unwrap()).unwrap()
            };
            let recorder = start(&out, "recorder");
            let recorded = fetch(|| {
                let mut curl = network.command("curl").unwrap();
                recorder.introduce(&mut curl);
                curl
            });
            let count = recorder.recorded();
            // A redirect is two exchanges.
            assert_eq!((count.exchanges, count.complaints), (ASKED.len() as u64 + 1, Vec::new()));
            let recorder = start(&by_browser, "browser-recorder");
            let mut command = network.command("/bin/sh").unwrap();
            recorder.introduce(&mut command);
            let seen = visit(command, recorder.trust(), &folder.path().join("profile-1"), &[]);
            // Chromium also looks for its maker's hosts, which are not in this network.
            let complaints = recorder.recorded().complaints;
            assert!(!complaints.iter().any(|c| c.starts_with(HOST)), "{complaints:?}");
            (recorded, seen)
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
        assert_ne!(recorded[4], recorded[5], "the counter does not count");
        assert!(
            text(&recorded[1]).contains("gzip") && text(&recorded[1]).contains("chunked"),
            "{}",
            text(&recorded[1])
        );
        let network = (LINK, Families::Alike, 1);
        let served = |out: &Path, private: &str, protocol| {
            let (exchanges, broken) = recording::read(out).unwrap();
            assert!(broken.is_empty(), "{broken:?}");
            Stage::of_exchanges(exchanges, protocol, network, &within(private)).unwrap()
        };
        {
            let stage = served(&out, "replay", Protocol::Http1);
            let replayed = fetch(|| {
                let mut curl = stage.network().command("curl").unwrap();
                stage.trust().introduce(&mut curl);
                curl
            });
            for ((asked, before), now) in ASKED.iter().zip(&recorded).zip(&replayed) {
                assert!(before == now, "{asked:?}: recorded {:?}, served {:?}", text(before), text(now));
            }
            assert_eq!((stage.served().answered, stage.served().missing), (ASKED.len() as u64 + 1, 0));
        }
        let Some(seen) = seen else { return };
        assert!(seen.len() == 4 && seen.iter().all(|(_, status, _)| *status == Some(200)), "{seen:?}");
        for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Http3] {
            let name = format!("browser-replay-{protocol}");
            let stage = served(&by_browser, &name, protocol);
            let command = stage.network().command("/bin/sh").unwrap();
            let profile = folder.path().join(format!("profile-{protocol}"));
            let again = visit(command, stage.trust(), &profile, stage.over_quic());
            assert_eq!(again.as_ref(), Some(&seen), "{protocol}");
        }
    });
}

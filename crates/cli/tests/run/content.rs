//! Third-party programs, unmodified: what they fetch through headstart is, byte for byte, what they fetch without it.

use crate::lab::{Ended, Lab, found, inside, python};

/// Sites that every program reaches in a few seconds by itself.
const HEALTHY: [&str; 5] = ["www", "v4", "v6", "slow-v6", "refused-v6"];
/// Sites at which programs without headstart hang for 5 s and more: only ours is run there.
const TROUBLED: [&str; 3] = ["aaaa-lost", "a-lost", "black-hole-v6"];
/// More than fits into a few segments, so that a mix-up of connections would show.
const PATH: &str = "/bytes/100000";

/// A way to print what is at `url`.
type Fetch<'a> = &'a dyn Fn(&str) -> Vec<String>;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether connections are begun while names are still being looked up: only for programs that tell getaddrinfo their port,
/// and raced by headstart only where connect may wait.
#[derive(Clone, Copy, PartialEq)]
enum Ahead {
    Raced,
    Begun,
    Never,
}

/// Fetches from every site, and compares with what the program fetches by itself.
fn fetches_the_same(lab: &Lab, ahead: Ahead, fetch: Fetch<'_>) {
    fetches_the_same_where_healthy(lab, fetch);
    for site in TROUBLED {
        let ours = lab.ours(&fetch(&format!("http://{site}.lab.example{PATH}")));
        assert!(ours.code == Some(0) && ours.out.len() == 100_000, "{site}: {ours:?}");
        assert!(ours.out.bytes().all(|byte| byte == b'.'), "{site}");
        // Generous: the C library alone takes 15 s for a lost answer, and 130 s for a black hole.
        let ms = |name: &str| ours.summary[name].as_f64().unwrap();
        assert!(ms("lookup_wait_ms") + ms("connect_wait_ms") < 5000.0, "{site}: {ours:?}");
        let least = match (ahead, site) {
            (Ahead::Never, _) => 0,
            // The black hole and the other.
            (Ahead::Raced, "black-hole-v6") => 2,
            // What was lost cannot have been tried; what was not is reached.
            _ => 1,
        };
        assert!(ours.count("attempts") >= least && ours.count("failed") == 0, "{site}: {ours:?}");
    }
}

fn fetches_the_same_where_healthy(lab: &Lab, fetch: Fetch<'_>) {
    for site in HEALTHY {
        let words = fetch(&format!("http://{site}.lab.example{PATH}"));
        let (bare, ours) = (lab.bare(&words), lab.ours(&words));
        assert!(bare.code == Some(0) && bare.out.len() == 100_000, "{site}: {bare:?}");
        assert!(ours.code == Some(0) && ours.out == bare.out, "{site}: {ours:?}");
        assert_eq!(complaints(&ours), complaints(&bare), "{site}");
    }
    let nowhere = fetch("http://nowhere.lab.example/");
    let (bare, ours) = (lab.bare(&nowhere), lab.ours(&nowhere));
    assert!(bare.code != Some(0) && ours.code == bare.code, "{bare:?} {ours:?}");
    assert_eq!(complaints(&ours), complaints(&bare));
}

/// What a program said on standard error, without headstart's line.
fn complaints(ended: &Ended) -> Vec<&str> {
    ended.err.lines().filter(|line| !line.starts_with("headstart: ")).collect()
}

inside!(curl_fetches_the_same, || {
    let Some(curl) = found("curl", "curl") else { return };
    let curl = curl.to_str().unwrap();
    fetches_the_same(&Lab::new(), Ahead::Begun, &|url| words(&[curl, "-sS", "--fail", url]));
});

inside!(wget_fetches_the_same, || {
    let Some(wget) = found("wget", "wget") else { return };
    let wget = wget.to_str().unwrap();
    fetches_the_same(&Lab::new(), Ahead::Never, &|url| words(&[wget, "-q", "--tries=1", "-O", "-", url]));
});

inside!(wget_with_timeouts_which_jumps_out_of_calls_fetches_the_same, || {
    let Some(wget) = found("wget", "wget") else { return };
    let lab = Lab::new();
    let give_up = |name: &str, timeout: &str| {
        let url = format!("http://{name}.lab.example/");
        words(&[wget.to_str().unwrap(), "-q", "--tries=2", "--waitretry=0", timeout, "-O", "-", &url])
    };
    for (name, timeout, code) in
        [("www", "--timeout=20", 0), ("hole", "--timeout=0.5", 4), ("slow-dns", "--timeout=0.5", 4)]
    {
        let (bare, ours) = (lab.bare(&give_up(name, timeout)), lab.ours(&give_up(name, timeout)));
        assert_eq!((bare.code, ours.code), (Some(code), Some(code)), "{bare:?} {ours:?}");
    }
});

inside!(python_with_blocking_sockets_fetches_the_same, || {
    let Some(python) = python() else { return };
    let script = "import sys, urllib.request as u\n\
                  try: sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())\n\
                  except OSError as e: sys.exit(str(e))";
    fetches_the_same(&Lab::new(), Ahead::Raced, &|url| words(&[&python, "-c", script, url]));
});

inside!(python_with_timeouts_which_make_sockets_non_blocking_fetches_the_same, || {
    let Some(python) = python() else { return };
    let script = "import sys, urllib.request as u\n\
                  try: sys.stdout.buffer.write(u.urlopen(sys.argv[1], timeout=3).read())\n\
                  except OSError as e: sys.exit(str(e))";
    fetches_the_same(&Lab::new(), Ahead::Begun, &|url| words(&[&python, "-c", script, url]));
});

inside!(python_asyncio_fetches_the_same, || {
    let Some(python) = python() else { return };
    let script = "import asyncio, sys, urllib.parse as p\n\
                  async def main(u):\n\
                  \x20   r, w = await asyncio.open_connection(u.hostname, 80, happy_eyeballs_delay=0.25)\n\
                  \x20   w.write(f'GET {u.path} HTTP/1.0\\r\\nHost: {u.hostname}\\r\\n\\r\\n'.encode())\n\
                  \x20   page = await r.read()\n\
                  \x20   sys.stdout.buffer.write(page.partition(b'\\r\\n\\r\\n')[2])\n\
                  \x20   w.close()\n\
                  try: asyncio.run(main(p.urlparse(sys.argv[1])))\n\
                  except OSError as e: sys.exit(str(e))";
    fetches_the_same(&Lab::new(), Ahead::Begun, &|url| words(&[&python, "-c", script, url]));
});

inside!(node_fetches_the_same, || {
    let Some(node) = found("node", "nodejs") else { return };
    let script = "fetch(process.argv[1]).then(async r => process.stdout.write(Buffer.from(await r.arrayBuffer())), \
                  e => { console.error(String(e.cause)); process.exit(1) })";
    fetches_the_same(&Lab::new(), Ahead::Never, &|url| words(&[node.to_str().unwrap(), "-e", script, url]));
});

inside!(java_fetches_the_same, || {
    let (Some(java), Some(_)) = (found("java", "default-jre-headless"), found("javac", "default-jdk-headless")) else {
        return;
    };
    let lab = Lab::new();
    let source = lab.scratch.path("Fetch.java");
    std::fs::write(
        &source,
        "public class Fetch { public static void main(String[] a) throws Exception {\n\
         try (var in = new java.net.URL(a[0]).openStream()) { in.transferTo(System.out); System.out.flush(); }\n\
         catch (java.io.IOException e) { System.err.println(e); System.exit(1); } } }",
    )
    .unwrap();
    // Java asks for canonical names, which are the C library's; its troubles with troubled sites stay its own.
    fetches_the_same_where_healthy(&lab, &|url| words(&[java.to_str().unwrap(), source.to_str().unwrap(), url]));
});

inside!(git_says_the_same_of_what_is_no_repository, || {
    let Some(git) = found("git", "git") else { return };
    let lab = Lab::new();
    for site in ["www", "v4", "v6"] {
        let url = format!("http://{site}.lab.example/nothing.git");
        let words = [git.to_str().unwrap(), "ls-remote", url.as_str()];
        let (bare, ours) = (lab.bare(&words), lab.ours(&words));
        assert_eq!((ours.code, complaints(&ours)), (bare.code, complaints(&bare)), "{site}");
        assert!(ours.count("resolved") >= 1, "git's helper is reached too: {ours:?}");
    }
});

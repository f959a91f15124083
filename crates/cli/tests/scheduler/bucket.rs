//! Results and telemetry in a bucket of a real S3-compatible store: versitygw, built by the Go module proxy, on a folder that is looked into.
//! A worker is killed, results are damaged and lost, the store is busy, cuts its answers, and dies. What a store does wrong beyond that is
//! tested in `headstart_lab::campaign`, against one of its own.

use super::golang::{Go, KEPT};
use super::nodes::{Running, start};
use super::scene::{Bits, Campaign, LAB, bits, python_with, wait_for};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

const GATEWAY: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
const ADDRESS: &str = "127.0.0.1:7070";
/// Where it is busy now and then.
const UNSTEADY: &str = "127.0.0.1:7071";
const PLACE: &str = "s3://bucket/some/results";

/// The store's program; says so where it cannot be had. Inside namespaces there is no way to the proxy.
fn gateway() -> Option<PathBuf> {
    let place = Path::new(KEPT).join("versitygw-1.8.0");
    if place.exists() {
        return Some(place);
    }
    if std::env::var_os("HEADSTART_CAMPAIGN_SEEDS").is_none() {
        println!("skipped: versitygw takes minutes to build: cargo xtask campaigns");
        return None;
    }
    if let Err(why) = Go::new()?.install(GATEWAY, &place) {
        println!("skipped: versitygw cannot be built by the Go module proxy: {why}");
        return None;
    }
    Some(place)
}

/// A store with one bucket.
struct Store {
    program: PathBuf,
    folder: tempfile::TempDir,
    is_encrypted: bool,
    /// Where it is reached.
    url: String,
    process: Arc<Mutex<Option<Running>>>,
}

impl Store {
    fn new(program: &Path, is_encrypted: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("disk/bucket")).unwrap();
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        assert!(up.success());
        let url = if is_encrypted { "https://localhost:7070" } else { "http://localhost:7071" }.to_owned();
        let store = Self { program: program.into(), folder, is_encrypted, url, process: Arc::default() };
        let pair = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        fs::write(store.file("cert.pem"), pair.cert.pem()).unwrap();
        fs::write(store.file("key.pem"), pair.signing_key.serialize_pem()).unwrap();
        *store.process.lock().unwrap() = Some(begin(store.server()));
        store
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command that serves the store.
    fn server(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--access", "user", "--secret", "a secret", "--port", ADDRESS, "--quiet"]);
        if self.is_encrypted {
            command.arg("--cert").arg(self.file("cert.pem")).arg("--key").arg(self.file("key.pem"));
        }
        command.arg("posix").arg(self.file("disk"));
        command
    }

    /// A command of the lab that knows the store.
    fn lab(&self, campaign: &Campaign, words: &[&str]) -> Command {
        let mut command = campaign.command(LAB, words);
        command.env("AWS_ENDPOINT_URL", &self.url).env("AWS_ACCESS_KEY_ID", "user");
        command.env("AWS_SECRET_ACCESS_KEY", "a secret").env("SSL_CERT_FILE", self.file("cert.pem"));
        command
    }

    fn output(&self, campaign: &Campaign, words: &[&str]) -> Output {
        self.lab(campaign, words).output().unwrap()
    }

    fn work(&self, campaign: &Campaign) -> Command {
        self.lab(campaign, &["work", "--plan", "plan.jsonl", "--out", PLACE])
    }

    /// Two workers side by side, to their end.
    fn two_work(&self, campaign: &Campaign) {
        let both = [self.work(campaign).spawn().unwrap(), self.work(campaign).spawn().unwrap()];
        for worker in both {
            let output = worker.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    }

    fn collect(&self, campaign: &Campaign) -> (Output, Value) {
        let output = self.output(campaign, &["collect", "--json", "--plan", "plan.jsonl", PLACE, "--out", "campaign"]);
        let account = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
        (output, account)
    }

    /// The files of the results.
    fn results(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.file("disk/bucket/some/results")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.file_name().is_some_and(|name| name.len() == 64)).collect()
    }

    /// All are there, each once, with the bits of a single process.
    fn is_whole(&self, campaign: &Campaign) {
        let (output, account) = self.collect(campaign);
        println!("account: {account}");
        assert!(output.status.success() && account["counted"] == campaign.tasks, "{output:?}");
        let of = |path: &PathBuf| {
            let text = fs::read(path).unwrap();
            let record = text.iter().position(|byte| *byte == b'\n').unwrap();
            (id(path), bits(&text[record + 1..]))
        };
        let here: Bits = self.results().iter().map(of).collect();
        if !campaign.path("alone").exists() {
            let alone = campaign.lab(&["work", "--plan", "plan.jsonl", "--out", "alone"]);
            assert!(alone.status.success(), "{alone:?}");
        }
        assert!(campaign.bits("alone") == here, "tasks in virtual time have other bits in a bucket");
        println!("{} tasks, the same bits as those of one process", here.len());
    }
}

/// Starts a server, and waits until it answers.
fn begin(mut server: Command) -> Running {
    let running = start(&mut server);
    wait_for("the store", || TcpStream::connect(ADDRESS).is_ok());
    running
}

fn id(result: &Path) -> String {
    result.file_name().unwrap().to_str().unwrap().to_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn workers_share_a_bucket_one_is_killed_a_result_is_damaged_and_each_task_is_done_once() {
    let Some(program) = gateway() else { return };
    let name = "bucket::workers_share_a_bucket_one_is_killed_a_result_is_damaged_and_each_task_is_done_once";
    headstart_lab::netns::inside(name, || {
        let (store, campaign) = (Store::new(&program, true), Campaign::new());
        let whole = campaign.tasks;
        let mut first = store.work(&campaign).spawn().unwrap();
        wait_for("a result", || !store.results().is_empty());
        first.kill().unwrap();
        first.wait().unwrap();
        println!("the first worker is killed, {} of {whole} tasks are done", store.results().len());
        store.two_work(&campaign);
        store.is_whole(&campaign);

        let told = store.output(&campaign, &["status", "--json", "--plan", "plan.jsonl", PLACE]);
        let status: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert!(told.status.success() && status["done"] == whole && status["damaged"] == 0, "{told:?}");
        let submit = ["submit", "--engine", "slurm", "plan.jsonl", "--out", PLACE];
        let nothing = store.output(&campaign, &submit);
        assert!(err(&nothing).contains(&format!("all {whole} tasks are done")), "{nothing:?}");

        // One is cut short on the store's disk, and one is gone.
        let results = store.results();
        let text = fs::read(&results[0]).unwrap();
        fs::write(&results[0], &text[..text.len() - 1]).unwrap();
        fs::remove_file(&results[1]).unwrap();
        let (output, account) = store.collect(&campaign);
        let of = |what: &str| account[what][0]["id"].as_str().unwrap_or_default().to_owned();
        let expected = (Some(1), id(&results[0]), id(&results[1]));
        assert_eq!((output.status.code(), of("damaged"), of("missing")), expected, "{account}");
        assert!(account["counted"] == whole - 2 && err(&output).contains("in s3://bucket/some/results"), "{output:?}");
        let submitted = store.output(&campaign, &submit);
        assert!(submitted.status.success(), "{submitted:?}");
        let array = fs::read_to_string(campaign.path("campaign.sbatch")).unwrap();
        assert!(array.contains(&format!("--out {PLACE}\n")) && !array.contains("--output=s3:"), "{array}");
        let again = store.work(&campaign).output().unwrap();
        let said = err(&again);
        assert!(again.status.success() && said.contains(&format!("2 done, {} already done", whole - 2)), "{said}");
        assert!(said.contains("kept as s3://bucket/some/results/.damaged/"), "{said}");
        store.is_whole(&campaign);

        let mut wrong = store.work(&campaign);
        let wrong = wrong.env("AWS_SECRET_ACCESS_KEY", "another").output().unwrap();
        assert!(
            wrong.status.code() == Some(1) && err(&wrong).contains("reading s3://bucket/some/results"),
            "{wrong:?}"
        );
        // Said at once, and not after the minutes for which a store may be away.
        let mut stranger = store.work(&campaign);
        let stranger = stranger.env_remove("SSL_CERT_FILE").output().unwrap();
        assert!(stranger.status.code() == Some(1) && err(&stranger).contains("certificate"), "{stranger:?}");
    });
}

/// What was done to requests.
#[derive(Debug, Default)]
struct Done {
    requests: usize,
    /// Answered 503.
    busy: usize,
    /// Obeyed, with half an answer.
    cut: usize,
    /// Not answered: the store was dead.
    lost: usize,
}

/// In front of `store`: a third of the requests is answered 503, a seventh gets half of its answer, and for some the store is dead (SIGKILL).
fn unsteady(store: &Store) -> Arc<Mutex<Done>> {
    const DIES: usize = 12;
    // Each of four threads has asked more than ten times by then.
    const LIVES: usize = 60;
    let (listener, done) = (TcpListener::bind(UNSTEADY).unwrap(), Arc::new(Mutex::new(Done::default())));
    let (process, all, mut server) = (Arc::clone(&store.process), Arc::clone(&done), store.server());
    std::thread::spawn(move || {
        // One request after the other, so that what happens to which is the same in every run.
        for stream in listener.incoming().flatten() {
            let mut done = all.lock().unwrap();
            let number = done.requests;
            let Some(request) = request(&stream) else { continue };
            done.requests += 1;
            match number {
                DIES => *process.lock().unwrap() = None,
                LIVES => {
                    let again = std::mem::replace(&mut server, Command::new("none"));
                    *process.lock().unwrap() = Some(begin(again));
                }
                _ => {}
            }
            let mut stream = stream;
            if number % 3 == 1 {
                done.busy += 1;
                let body = "<Error><Code>SlowDown</Code></Error>";
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 503 Slow Down\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                continue;
            }
            let Some(mut answer) = forward(&request) else {
                done.lost += 1;
                continue;
            };
            if number % 7 == 2 {
                done.cut += 1;
                answer.truncate(answer.len() / 2);
            }
            let _ = stream.write_all(&answer);
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    done
}

/// A whole request that asks for one answer on this connection; nothing where the connection ends.
fn request(stream: &TcpStream) -> Option<Vec<u8>> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
    }
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let length = lines.clone().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    head.truncate(head.len() - 2);
    Some([head.as_bytes(), b"Connection: close\r\n\r\n", &body].concat())
}

/// The store's answer; nothing if it is dead.
fn forward(request: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(ADDRESS).ok()?;
    stream.write_all(request).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_store_that_is_busy_cuts_answers_and_dies_loses_no_task_and_counts_none_twice() {
    let Some(program) = gateway() else { return };
    let name = "bucket::a_store_that_is_busy_cuts_answers_and_dies_loses_no_task_and_counts_none_twice";
    headstart_lab::netns::inside(name, || {
        let (store, campaign) = (Store::new(&program, false), Campaign::new());
        let done = unsteady(&store);
        store.two_work(&campaign);
        store.is_whole(&campaign);
        let done = done.lock().unwrap();
        println!(
            "of {} requests {} were answered 503, {} in half, {} by nothing",
            done.requests, done.busy, done.cut, done.lost
        );
        assert!(done.busy > 0 && done.cut > 0 && done.lost > 0, "{done:?}");
        assert_eq!(store.results().len(), campaign.tasks);
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn telemetry_is_packed_into_a_bucket_once_and_its_report_is_that_of_the_batches() {
    let Some(program) = gateway() else { return };
    let name = "bucket::telemetry_is_packed_into_a_bucket_once_and_its_report_is_that_of_the_batches";
    headstart_lab::netns::inside(name, || {
        let (store, campaign) = (Store::new(&program, true), Campaign::new());
        let made = campaign.lab(&["fleet", "simulate", "--hosts", "20", "--days", "3", "--out", "fleet"]);
        assert!(made.status.success(), "{made:?}");
        let files = || {
            let days = fs::read_dir(store.file("disk/bucket/fleet")).unwrap().flatten();
            let mut files: Vec<_> = days.flat_map(|day| fs::read_dir(day.path()).unwrap().flatten()).collect();
            files.sort_by_key(fs::DirEntry::path);
            files.into_iter().map(|file| (file.path(), fs::read(file.path()).unwrap())).collect::<Vec<_>>()
        };
        let pack = || {
            let packed = store.output(&campaign, &["fleet", "pack", "fleet", "--to", "s3://bucket/fleet"]);
            assert!(packed.status.success(), "{packed:?}");
            files()
        };
        let first = pack();
        let is_day = |path: &Path| {
            path.parent().and_then(Path::file_name).unwrap().to_string_lossy().starts_with("day=2026-11-0")
        };
        assert!(first.len() >= 3 && first.iter().all(|(path, bytes)| is_day(path) && bytes.starts_with(b"PAR1")));
        assert!(pack() == first, "the same batches again are the same objects");
        println!("{} files of telemetry", first.len());
        let Some(python) = python_with("duckdb") else { return };
        let report = |place: &str| -> Value {
            let mut command = store.lab(&campaign, &["fleet", "report", "--json", place]);
            let output = command.env("HEADSTART_PYTHON", &python).output().unwrap();
            serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
        };
        let (batches, bucket) = (report("fleet"), report("s3://bucket/fleet"));
        assert_eq!(batches["account"], bucket["account"]);
        assert!(batches["connect"].as_array().is_some_and(|lines| !lines.is_empty()));
        let medians = |of: &Value| {
            of["connect"].as_array().unwrap().iter().map(|line| line["median_ms"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(medians(&batches), medians(&bucket));
    });
}

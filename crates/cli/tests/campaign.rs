//! `headstart lab plan`, `work`, `collect` and the rest as a user and a scheduler start them: each task exactly once, the same bits
//! however they were shared out, and nothing lost when workers die.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

#[path = "verbs/schema.rs"]
mod schema;

const LAB: &str = env!("CARGO_BIN_EXE_headstart-lab");

/// Tasks in virtual time of a few milliseconds each.
const SMALL: &str =
    "[[set]]\nexperiment = \"connect-model\"\nconditions = [\"healthy\", \"aaaa-slow\"]\nseeds = 10\nquick = true\n";
/// Tasks that take minutes.
const LONG: &str = "[[set]]\nexperiment = \"page-load\"\nconditions = [\"lte\"]\nseeds = 4\n";

fn lab(words: &[&str]) -> Output {
    // This very test may run under a scheduler.
    let mut command = Command::new(LAB);
    for name in ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "PARALLEL_SEQ"] {
        command.env_remove(name);
    }
    command.args(words).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

struct Campaign {
    folder: tempfile::TempDir,
}

impl Campaign {
    fn new(text: &str) -> Self {
        let campaign = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(campaign.path("campaign.toml"), text).unwrap();
        let plan = lab(&["plan", &campaign.word("campaign.toml")]);
        assert!(plan.status.success(), "{plan:?}");
        fs::write(campaign.path("plan.jsonl"), plan.stdout).unwrap();
        campaign
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn word(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }

    fn work(&self, out: &str, more: &[&str]) -> Output {
        lab(&[&["work", "--plan", &self.word("plan.jsonl"), "--out", &self.word(out)], more].concat())
    }

    /// A worker that runs beside.
    fn worker(&self, out: &str) -> Child {
        let mut command = Command::new(LAB);
        command.args(["work", "--plan", &self.word("plan.jsonl"), "--out", &self.word(out)]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    }

    fn collect(&self, folders: &[&str]) -> (Output, serde_json::Value) {
        let folders: Vec<String> = folders.iter().map(|name| self.word(name)).collect();
        let (plan, out) = (self.word("plan.jsonl"), self.word("campaign"));
        let mut words = vec!["collect", "--json", "--plan", &plan, "--out", &out];
        words.extend(folders.iter().map(String::as_str));
        let output = lab(&words);
        schema::must_hold("lab-collect", std::str::from_utf8(&output.stdout).unwrap());
        let account = serde_json::from_slice(&output.stdout).unwrap();
        (output, account)
    }

    /// What is in each result, but for the machine and the time: by id.
    fn bits(&self, out: &str) -> BTreeMap<String, String> {
        let results = fs::read_dir(self.path(out)).unwrap().map(|entry| entry.unwrap());
        let results = results.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
        results.map(|entry| (entry.file_name().into_string().unwrap(), bits(&entry.path()))).collect()
    }

    /// Folders of workers that did not end.
    fn begun(&self, out: &str) -> usize {
        fs::read_dir(self.path(out).join(".part")).map_or(0, |parts| parts.count())
    }
}

fn bits(result: &Path) -> String {
    let mut outcome: serde_json::Value =
        serde_json::from_slice(&fs::read(result.join("result.json")).unwrap()).unwrap();
    outcome["device"] = serde_json::Value::Null;
    outcome["extent"]["seconds"] = serde_json::Value::Null;
    outcome.to_string()
}

#[test]
fn a_plan_is_the_same_wherever_it_is_made_and_its_tasks_are_done_once() {
    let campaign = Campaign::new(SMALL);
    let plan = fs::read_to_string(campaign.path("plan.jsonl")).unwrap();
    assert_eq!(plan.lines().count(), 20);
    assert_eq!(plan, fs::read_to_string(Campaign::new(SMALL).path("plan.jsonl")).unwrap());

    let first = campaign.work("out", &[]);
    assert!(first.status.success() && err(&first).contains("20 done, 0 already done\n"), "{first:?}");
    let again = campaign.work("out", &[]);
    assert!(again.status.success() && err(&again).contains("0 done, 20 already done\n"), "{again:?}");
    let (collected, account) = campaign.collect(&["out"]);
    assert!(collected.status.success(), "{collected:?}");
    assert_eq!((&account["planned"], &account["counted"], &account["invalid"]), (&20.into(), &20.into(), &0.into()));
    for table in ["rows", "samples", "devices"] {
        let file = campaign.path("campaign").join(table).join("experiment=connect-model/part-0.parquet");
        assert_eq!(fs::read(&file).unwrap()[..4], *b"PAR1", "{}", file.display());
    }
    let page = fs::read_to_string(campaign.path("campaign/campaign.md")).unwrap();
    assert!(page.contains("20 counted") && page.contains("## Agreement"), "{page}");
    assert!(campaign.path("campaign/report.html").is_file() && campaign.path("campaign/claims.md").is_file());
}

#[test]
fn shards_and_workers_beside_each_other_give_the_same_bits_as_one_process() {
    let campaign = Campaign::new(SMALL);
    assert!(campaign.work("one", &["--jobs", "1"]).status.success());
    for shard in ["0/3", "1/3", "2/3"] {
        assert!(campaign.work("shards", &["--shard", shard]).status.success());
    }
    let workers: Vec<Child> = (0..3).map(|_| campaign.worker("shared")).collect();
    let (mut done, mut elsewhere) = (0, 0);
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = err(&output);
        let last = said.lines().last().unwrap().to_owned();
        let number = |what: &str| -> usize {
            let part = last.split(", ").find_map(|part| part.strip_suffix(what));
            part.map_or(0, |number| number.trim().parse().unwrap())
        };
        done += number(" done");
        elsewhere += number(" already done") + number(" done by another worker");
    }
    assert_eq!((done, elsewhere), (20, 40), "each task has one winner");
    let one = campaign.bits("one");
    assert_eq!(one.len(), 20);
    assert!(one == campaign.bits("shards") && one == campaign.bits("shared"));
    assert_eq!(campaign.begun("shared"), 0);
    let (double, account) = campaign.collect(&["one", "shards"]);
    assert_eq!(double.status.code(), Some(1), "{double:?}");
    assert_eq!((account["double"].as_array().unwrap().len(), &account["counted"]), (20, &20.into()));
}

#[test]
fn what_is_missing_damaged_or_differing_is_named_and_ends_in_an_error() {
    let campaign = Campaign::new(SMALL);
    assert!(campaign.work("a", &[]).status.success());
    assert!(campaign.work("b", &["--index", "1"]).status.success());
    let plan = fs::read_to_string(campaign.path("plan.jsonl")).unwrap();
    let ids: Vec<String> = plan
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    fs::remove_dir_all(campaign.path("a").join(&ids[0])).unwrap();
    fs::write(campaign.path("a").join(&ids[2]).join("result.json"), "{}").unwrap();
    let (output, account) = campaign.collect(&["a", "b"]);
    assert_eq!(output.status.code(), Some(1));
    let of =
        |what: &str| account[what].as_array().unwrap().iter().map(|p| p["id"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!((of("missing"), of("double"), of("damaged")), (vec![&*ids[0]], vec![&*ids[1]], vec![&*ids[2]]));
    for part in [format!("missing: connect-model healthy, seed 1, sim ({:.12})", ids[0]), "SHA-256 differs".into()] {
        assert!(err(&output).contains(&part), "{part}\n{}", err(&output));
    }
    let status = lab(&["status", "--plan", &campaign.word("plan.jsonl"), &campaign.word("a")]);
    assert_eq!(status.status.code(), Some(3));
    let said = String::from_utf8(status.stdout).unwrap();
    assert!(said.contains("18 done (0 invalid), 0 running, 0 failed, 1 damaged, 1 not started"), "{said}");
    let status = lab(&["status", "--json", "--plan", &campaign.word("plan.jsonl"), &campaign.word("a")]);
    schema::must_hold("lab-status", std::str::from_utf8(&status.stdout).unwrap());

    let mended = campaign.work("a", &[]);
    assert!(mended.status.success() && err(&mended).contains("2 done, 18 already done"), "{mended:?}");
    assert!(err(&mended).contains(".damaged"), "{mended:?}");
    assert!(campaign.collect(&["a"]).0.status.success());
}

/// Asks a worker to end, as a scheduler does that kills it 5 s later: it ends before they are over.
fn ended_in_time(mut worker: Child) -> Output {
    // Begun before the worker is asked, so that the five seconds are over no later than a scheduler's.
    let mut kill = Command::new("sleep").arg("5").spawn().unwrap();
    assert!(Command::new("kill").arg(worker.id().to_string()).status().unwrap().success());
    let in_time = loop {
        // The worker is asked first: of two that have ended meanwhile, it counts.
        if worker.try_wait().unwrap().is_some() {
            break true;
        }
        if kill.try_wait().unwrap().is_some() {
            break false;
        }
        std::thread::yield_now();
    };
    let _ = kill.kill();
    let _ = kill.wait();
    if !in_time {
        let _ = worker.kill();
    }
    let output = worker.wait_with_output().unwrap();
    assert!(in_time, "it would have been killed: {output:?}");
    output
}

/// Processes that a process has started, by all of its threads.
fn children(of: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn one_with_real_packets_ends_with_its_child_and_nothing_is_left_of_either() {
    let text = "[[set]]\nexperiment = \"connect-model\"\nseeds = 2\nspeeds = [\"netns\"]\n";
    let campaign = Campaign::new(text);
    let mut worker = campaign.worker("out");
    let child = loop {
        assert!(worker.try_wait().unwrap().is_none(), "it ended before it began: {:?}", worker.wait_with_output());
        if let [child, ..] = children(worker.id())[..] {
            break child;
        }
    };
    // It has started programs of its own, in namespaces.
    while children(child).is_empty() {
        assert!(worker.try_wait().unwrap().is_none(), "it ended before it began");
    }
    let output = ended_in_time(worker);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(err(&output).contains("given back") && err(&output).contains("to continue"), "{output:?}");
    assert!(!Path::new(&format!("/proc/{child}")).exists(), "its process is left");
    assert_eq!((campaign.begun("out"), campaign.bits("out").len()), (0, 0));
}

#[test]
fn files_from_the_future_and_from_long_ago_are_what_they_are() {
    let campaign = Campaign::new(SMALL);
    assert!(campaign.work("out", &["--shard", "0/2"]).status.success());
    for (n, entry) in fs::read_dir(campaign.path("out")).unwrap().enumerate() {
        // A host whose clock is ahead by decades, and one that has started in 1970.
        let date = if n % 2 == 0 { "2099-01-01" } else { "1970-01-02" };
        let folder = entry.unwrap().path();
        let files = [folder.join("result.json"), folder.join("task.json"), folder];
        assert!(Command::new("touch").args(["-d", date]).args(files).status().unwrap().success());
    }
    let rest = campaign.work("out", &[]);
    assert!(rest.status.success() && err(&rest).contains("10 done, 10 already done\n"), "{rest:?}");
    assert!(campaign.work("one", &[]).status.success());
    assert!(campaign.bits("out") == campaign.bits("one"));
    assert!(campaign.collect(&["out"]).0.status.success());
}

#[test]
fn a_time_that_nothing_takes_is_refused_and_not_handed_to_a_scheduler() {
    let campaign = Campaign::new(SMALL);
    let plan = fs::read_to_string(campaign.path("plan.jsonl")).unwrap();
    for seconds in ["1e300", "-500"] {
        fs::write(
            campaign.path("wrong.jsonl"),
            plan.replacen("\"seconds\":null", &format!("\"seconds\":{seconds}"), 1),
        )
        .unwrap();
        let words = ["submit", "--engine", "slurm", &campaign.word("wrong.jsonl"), "--out", &campaign.word("out")];
        let output = lab(&words);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(err(&output).contains("line 1: seconds: must be from 0 to 30 days"), "{output:?}");
    }
    // A result that claims one is damaged, whatever its record says of it.
    assert!(campaign.work("out", &["--index", "0"]).status.success());
    let id = campaign.bits("out").into_keys().next().unwrap();
    let file = |name: &str| campaign.path("out").join(&id).join(name);
    let read = |name: &str| -> serde_json::Value { serde_json::from_slice(&fs::read(file(name)).unwrap()).unwrap() };
    let (mut outcome, mut record) = (read("result.json"), read("task.json"));
    outcome["extent"]["seconds"] = 1e30.into();
    let text = outcome.to_string();
    fs::write(file("result.json"), &text).unwrap();
    let sum = Command::new("sha256sum").arg(file("result.json")).output().unwrap();
    record["sha256"] = String::from_utf8(sum.stdout).unwrap().split_whitespace().next().unwrap().into();
    record["brief"]["bytes"] = text.len().into();
    fs::write(file("task.json"), record.to_string()).unwrap();
    let (output, account) = campaign.collect(&["out"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((&account["counted"], &account["damaged"][0]["id"]), (&0.into(), &id.as_str().into()), "{account}");
    let said = lab(&["plan", &campaign.word("campaign.toml"), "--earlier", &campaign.word("out")]);
    assert!(said.status.success() && err(&said) == "20 tasks\n", "{said:?}");
}

#[test]
fn one_that_is_asked_to_end_gives_back_what_it_has_begun() {
    let campaign = Campaign::new(LONG);
    let mut worker = campaign.worker("out");
    while campaign.begun("out") == 0 {
        assert!(worker.try_wait().unwrap().is_none(), "it ended before it began");
    }
    let output = ended_in_time(worker);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(err(&output).contains("4 given back") && err(&output).contains("to continue"), "{output:?}");
    assert_eq!((campaign.begun("out"), campaign.bits("out").len()), (0, 0));
}

#[test]
fn what_a_killed_worker_had_begun_is_done_by_the_next() {
    let campaign = Campaign::new(SMALL);
    let mut worker = campaign.worker("out");
    while campaign.begun("out") == 0 && worker.try_wait().unwrap().is_none() {}
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(campaign.work("out", &[]).status.success());
    assert_eq!(campaign.bits("out").len(), 20);
    assert_eq!(campaign.begun("out"), 0, "nothing is left of the killed one");
    assert!(campaign.collect(&["out"]).0.status.success());
}

#[test]
fn a_plan_of_another_build_is_refused() {
    let campaign = Campaign::new(SMALL);
    let other = campaign.path("headstart-lab");
    // By a process of its own: a child of another test might have the file open for writing, and it could not be executed then.
    let copy =
        Command::new("sh").args(["-c", "cp \"$1\" \"$2\" && printf x >> \"$2\"", "copy", LAB]).arg(&other).status();
    assert!(copy.unwrap().success());
    let mut command = Command::new(&other);
    let output =
        command.args(["work", "--plan", &campaign.word("plan.jsonl"), "--out", &campaign.word("out")]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(err(&output).contains("another build of headstart"), "{output:?}");
    assert!(!campaign.path("out").exists());
}

#[test]
fn a_full_disk_is_an_error_and_leaves_no_result() {
    let campaign = Campaign::new(SMALL);
    let mut command = Command::new("sh");
    // No file may grow: as a full disk, for this process alone.
    command.args(["-c", "ulimit -f 0 && exec \"$@\"", "sh", LAB, "work", "--plan"]);
    let output = command.arg(campaign.path("plan.jsonl")).arg("--out").arg(campaign.path("out")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(err(&output).contains("20 failed") && err(&output).contains("result.json"), "{output:?}");
    let status = lab(&["status", "--json", "--plan", &campaign.word("plan.jsonl"), &campaign.word("out")]);
    schema::must_hold("lab-status", std::str::from_utf8(&status.stdout).unwrap());
    assert_eq!((campaign.bits("out").len(), campaign.begun("out")), (0, 0));
    assert!(campaign.work("out", &[]).status.success());
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_disk_that_is_full_is_told_and_what_was_whole_before_stays() {
    let campaign = Campaign::new(SMALL);
    fs::create_dir(campaign.path("disk")).unwrap();
    // The disk is of this mount namespace; what is to be seen afterwards is copied.
    let script = r#"
        mount -t tmpfs -o size=1m none disk
        lab() { "$LAB" "$@"; echo "$1 ended with $?" >> said; }
        head -c 900k /dev/zero > disk/fill
        lab work --plan plan.jsonl --out disk/out 2> work-full
        lab status --plan plan.jsonl disk/out > status-full
        ls disk/out | grep -c '^[0-9a-f]*$' > results-full
        rm disk/fill
        lab work --plan plan.jsonl --out disk/out 2> work
        cp -r disk/out out
        head -c 2m /dev/zero > disk/fill
        lab collect --plan plan.jsonl out --out disk/campaign 2> collect-full
        rm disk/fill
        rm -r disk/out
        mount -o remount,size=20m disk
        lab collect --plan plan.jsonl out --out disk/campaign 2> collect
        cp disk/campaign/account.json account.json
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script]).env("LAB", LAB);
    let output = command.current_dir(campaign.folder.path()).output().unwrap();
    let read =
        |name: &str| fs::read_to_string(campaign.path(name)).unwrap_or_else(|why| panic!("{name}: {why} {output:?}"));
    let codes =
        "work ended with 1\nstatus ended with 3\nwork ended with 0\ncollect ended with 1\ncollect ended with 0\n";
    assert_eq!(read("said"), codes, "{output:?} {} {}", read("collect-full"), read("work"));
    assert!(read("work-full").contains("No space left on device"), "{}", read("work-full"));
    assert!(read("collect-full").contains("No space left on device"), "{}", read("collect-full"));
    let before: usize = read("results-full").trim().parse().unwrap();
    assert!((1..20).contains(&before), "{before} results on the full disk");
    assert!(read("work").contains(&format!("{} done, {before} already done", 20 - before)), "{}", read("work"));
    assert_eq!((campaign.bits("out").len(), campaign.begun("out")), (20, 0));
    assert!(campaign.work("one", &[]).status.success());
    assert!(campaign.bits("out") == campaign.bits("one"), "what was whole before is what it is elsewhere");
    assert!(read("account.json").contains("\"counted\": 20"));
}

#[test]
fn a_scheduler_is_given_what_is_left_and_named_where_it_is_missing() {
    let campaign = Campaign::new(SMALL);
    assert!(campaign.work("out", &["--index", "3"]).status.success());
    let nowhere = campaign.path("nowhere");
    for (engine, client) in [
        ("slurm", "sbatch"),
        ("parallel", "sh"),
        ("snakemake", "snakemake"),
        ("ray", "python3"),
        ("kubernetes", "kubectl"),
    ] {
        let mut command = Command::new(LAB);
        command.args(["submit", "--engine", engine, &campaign.word("plan.jsonl"), "--go", "--to"]);
        command.arg(campaign.folder.path()).arg("--out").arg(campaign.path("out")).env("PATH", &nowhere);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(127), "{output:?}");
        assert!(err(&output).contains(&format!("`{client}` is not installed")), "{output:?}");
    }
    let array = fs::read_to_string(campaign.path("campaign.sbatch")).unwrap();
    assert!(array.contains("#SBATCH --array=0-2,4-19\n"), "{array}");
    let unknown = lab(&["submit", "--engine", "cron", &campaign.word("plan.jsonl"), "--out", &campaign.word("out")]);
    assert!(unknown.status.code() == Some(2) && err(&unknown).contains("slurm (a job array"), "{unknown:?}");
    // What a scheduler's script says is what a shell can run.
    let mut command = Command::new("sh");
    command.arg(campaign.path("campaign.sbatch")).env("SLURM_ARRAY_TASK_ID", "7");
    let output = command.output().unwrap();
    assert!(output.status.success() && err(&output).contains("1 done, 0 already done"), "{output:?}");
}

#[test]
fn two_campaigns_are_compared_and_without_duckdb_a_question_says_how_to_get_it() {
    let campaign = Campaign::new(SMALL);
    assert!(campaign.work("out", &[]).status.success());
    assert!(campaign.collect(&["out"]).0.status.success());
    let place = campaign.word("campaign");
    let same = lab(&["compare", &place, &place]);
    assert!(same.status.success(), "{same:?}");
    let said = String::from_utf8(same.stdout).unwrap();
    assert!(said.contains(" 0 worse, 0 better, 0 changed,"), "{said}");
    let changes = String::from_utf8(lab(&["compare", "--json", &place, &place]).stdout).unwrap();
    schema::must_hold("lab-compare", &changes);
    assert!(changes.contains("\"judged\":\"same\""), "{changes}");

    let mut command = Command::new(LAB);
    command.args(["query", "SELECT 1", &place]).env("PATH", campaign.path("nowhere"));
    let output = command.env("HEADSTART_PYTHON", campaign.path("nowhere")).output().unwrap();
    assert!(output.status.code() == Some(127) && err(&output).contains("pip install duckdb"), "{output:?}");
}

//! `headstart lab work`: does tasks of a plan, each once.
//!
//! Tasks in virtual time are done in this process, one a processor; those with real packets after them, one by one, each as a process of
//! its own. What must end finishes what it can within [`GRACE`] and gives back the rest: nothing is left but what was whole.

use super::super::child;
use super::super::progress::ProgressLine;
use super::super::run::watched;
use crate::{exit, output};
use anyhow::Context as _;
use headstart_io::clock::Clock;
use headstart_io::sys::signal;
use headstart_lab::bucket::is_bucket;
use headstart_lab::campaign::{Committed, Extent, Look, Part, Results, Shard, Task};
use headstart_lab::experiment::{self, Context, Outcome, Progress};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time to finish tasks after SIGTERM; schedulers kill after 5 s at the soonest.
const GRACE: Duration = Duration::from_secs(4);
/// A run that the machine was too busy for is repeated so often.
const REPEATS: u32 = 3;
/// How often a process is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Where the number of a shard is, in the environment of schedulers, and from which number they count.
const NUMBERS: [(&str, usize); 3] = [("SLURM_ARRAY_TASK_ID", 0), ("JOB_COMPLETION_INDEX", 0), ("PARALLEL_SEQ", 1)];

/// Arguments of `headstart lab work`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan of `headstart lab plan`.
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Folder of results, or s3://BUCKET/PREFIX; workers may share it; finished tasks are skipped.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Do only task N of the plan, from 0. Without --index and --shard: the number that SLURM_ARRAY_TASK_ID,
    /// JOB_COMPLETION_INDEX or PARALLEL_SEQ gives, or else all tasks.
    #[arg(long, value_name = "N", conflicts_with_all = ["shard", "shards"])]
    index: Option<usize>,
    /// Do every N-th task, from task I on.
    #[arg(long, value_name = "I/N", conflicts_with = "shards")]
    shard: Option<Shard>,
    /// Divide the plan into N; the scheduler's variable selects the part.
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Simulated tasks at once [default: all processors].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    format: output::Format,
}

/// What came of a task.
enum Came {
    /// It has a result now, which may be invalid.
    Done { valid: bool },
    /// Another worker was first.
    Another,
    /// It could not be done.
    Failed(String),
    /// This process must end first.
    GivenBack,
}

/// What the main thread hears.
enum Event {
    Task(String, Came),
    /// A thread has no more to do.
    Idle,
    /// This process must end.
    End,
}

/// What all threads share.
struct Shop {
    results: Results,
    worker: String,
    host: String,
    ending: AtomicBool,
    simulated: Mutex<VecDeque<Task>>,
    real: Mutex<VecDeque<Task>>,
    /// Threads that still simulate: real packets want a quiet machine.
    simulating: AtomicUsize,
}

/// Does the tasks.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let plan = super::read(&args.plan)?;
    let shard = chosen(args, plan.tasks.len(), |name| std::env::var(name).ok())?;
    let tasks: Vec<Task> = plan.shard(shard).cloned().collect();
    let builds = super::builds()?;
    for task in &tasks {
        task.check_build(&builds)
            .map_err(|why| exit::Usage(format!("{}: {}", args.plan.display(), exit::one_line(&why))))?;
    }
    if !is_bucket(&args.out) {
        crate::lab::prepare(&args.out)?;
    }
    let ids: HashSet<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    let results = Results::open(&args.out, Extent::Whole, |id| ids.contains(id))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let worker = format!("{host}-{}-{}", std::process::id(), unique());
    let left: Vec<Task> = tasks.iter().filter(|task| !is_done(&results, task, &worker)).cloned().collect();
    let already = tasks.len() - left.len();
    let (real, simulated): (VecDeque<_>, VecDeque<_>) = left.into_iter().partition(|t| t.speed.in_namespaces());
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let jobs = jobs.clamp(1, simulated.len().max(1));
    let shop = Arc::new(Shop {
        results,
        worker,
        host,
        ending: AtomicBool::new(false),
        simulated: Mutex::new(simulated),
        real: Mutex::new(real),
        simulating: AtomicUsize::new(jobs),
    });
    let events = begin(&shop, jobs)?;
    Ok(attend(&shop, &events, (jobs, args.format), tasks.len() - already, already))
}

/// Which tasks of a plan of `tasks`.
fn chosen(args: &Args, tasks: usize, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Shard> {
    let told = NUMBERS.iter().find_map(|(name, first)| Some((*name, *first, variable(name)?)));
    let told = told.map(|(name, first, text)| {
        let number = text.parse::<usize>().ok().and_then(|n| n.checked_sub(first));
        number.ok_or_else(|| exit::Usage(format!("{name}: must be a number from {first} (got {text:?})")))
    });
    if args.shards == Some(0) {
        return Err(exit::Usage("--shards: must be at least 1 (got 0)".into()).into());
    }
    let shard = match (args.index, args.shard, args.shards) {
        (Some(index), ..) => Shard { index, of: tasks },
        (_, Some(shard), _) => return Ok(shard),
        (.., Some(of)) => {
            let index = told.transpose()?.ok_or_else(|| {
                let names = NUMBERS.map(|(name, _)| name).join(", ");
                exit::Usage(format!("--shards: none of {names} is set; use --shard I/{of}"))
            })?;
            Shard { index, of }
        }
        _ => match told.transpose()? {
            Some(index) => Shard { index, of: tasks },
            None => Shard { index: 0, of: 1 },
        },
    };
    if shard.index >= shard.of {
        return Err(
            exit::Usage(format!("number {} of {}: must be from 0 to {}", shard.index, shard.of, shard.of - 1)).into()
        );
    }
    Ok(shard)
}

/// What no other worker is called, on hosts of one name and in namespaces of processes too.
fn unique() -> String {
    let mut bytes = [0u8; 8];
    // Without random bytes the process number alone tells workers of a host apart.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    format!("{:016x}", u64::from_ne_bytes(bytes))
}

/// Whether there is a result of `task`; a damaged one is said, and put aside.
fn is_done(results: &Results, task: &Task, worker: &str) -> bool {
    match results.look(&task.id) {
        Look::Missing => false,
        Look::Done(_) => {
            results.clean(&task.id);
            true
        }
        Look::Damaged(why) => {
            match results.set_aside(&task.id, worker) {
                Ok(place) => crate::complain!("{}: {why}; kept as {}", task.name(), place.display()),
                Err(e) => crate::complain!("{}: {why}; moving it aside failed: {}", task.name(), exit::one_line(&e)),
            }
            false
        }
    }
}

/// Starts the threads, and one that waits for signals.
fn begin(shop: &Arc<Shop>, jobs: usize) -> anyhow::Result<Receiver<Event>> {
    let (tell, events) = channel();
    // Before any thread: they take over the mask.
    let asked = signal::ending().context("handling signals")?;
    for _ in 0..jobs {
        let (shop, tell) = (Arc::clone(shop), tell.clone());
        std::thread::spawn(move || {
            simulate(&shop, &tell);
            if shop.simulating.fetch_sub(1, Ordering::SeqCst) == 1 {
                with_real_packets(&shop, &tell);
            }
            let _ = tell.send(Event::Idle);
        });
    }
    std::thread::spawn(move || {
        while poll(&mut [PollFd::new(&asked, PollFlags::IN)], None).is_err() {}
        let _ = tell.send(Event::End);
    });
    Ok(events)
}

/// Waits for the threads, says how far they are, and ends with what came of it.
fn attend(
    shop: &Shop,
    events: &Receiver<Event>,
    (jobs, format): (usize, output::Format),
    all: usize,
    already: usize,
) -> u8 {
    let progress = ProgressLine::begin();
    let (clock, mut until) = (Clock::new(), None);
    let (mut idle, mut done, mut invalid, mut another) = (0, 0, 0, 0);
    let mut failed: Vec<String> = Vec::new();
    while idle < jobs {
        let event = match until {
            None => events.recv().ok(),
            Some(until) => events.recv_timeout(until - clock.now()).ok(),
        };
        match event {
            Some(Event::Task(name, came)) => {
                match came {
                    Came::Done { valid } => {
                        done += 1;
                        invalid += usize::from(!valid);
                    }
                    Came::Another => another += 1,
                    Came::Failed(why) => failed.push(format!("{name}: {why}")),
                    Came::GivenBack => {}
                }
                progress.step((done + another + failed.len()) as u64, all as u64, &name);
            }
            Some(Event::Idle) => idle += 1,
            Some(Event::End) => {
                shop.ending.store(true, Ordering::SeqCst);
                until = until.or(Some(clock.now() + GRACE));
            }
            None => break,
        }
    }
    progress.end();
    let given_back = all - done - another - failed.len();
    failed.iter().for_each(|why| crate::complain!("failed: {why}"));
    let counts = serde_json::json!({
        "done": done, "already_done": already, "invalid": invalid, "failed": failed, "done_by_another_worker": another,
        "given_back": given_back,
    });
    print(format, counts);
    if given_back > 0 {
        // What threads still write is of tasks that are given back; nothing of it stays.
        shop.results.abandon(&shop.worker);
        crate::complain!("headstart: interrupted; run the same command again to continue");
    }
    if failed.is_empty() && given_back == 0 { exit::OK } else { exit::FAILURE }
}

/// Says how many tasks came to what.
fn print(format: output::Format, counts: serde_json::Value) {
    if format.json {
        return output::document(1, counts);
    }
    let count = |name: &str| counts[name].as_array().map_or_else(|| counts[name].clone(), |list| list.len().into());
    let more =
        ["invalid", "failed", "done_by_another_worker", "given_back"].into_iter().filter(|name| count(name) != 0);
    let more: String = more.map(|name| format!(", {} {}", count(name), name.replace('_', " "))).collect();
    crate::complain!("{} done, {} already done{more}", counts["done"], counts["already_done"]);
}

/// Told whether to stop.
struct Asked(Arc<Shop>);

impl Progress for Asked {
    fn step(&self, _: u64, _: u64, _: &str) {}

    fn stop(&self) -> bool {
        self.0.ending.load(Ordering::SeqCst)
    }
}

/// Takes tasks in virtual time until none is left.
fn simulate(shop: &Arc<Shop>, tell: &Sender<Event>) {
    while let Some(task) = next(shop, &shop.simulated) {
        let came = attempt(shop, &task, |_| {
            let plan = context(&task);
            let cx = Context { progress: Box::new(Asked(Arc::clone(shop))), ..plan };
            let entry = experiment::find(&task.experiment)?;
            let outcome = catch_unwind(AssertUnwindSafe(|| watched(entry, cx)));
            let outcome = outcome.map_err(|_| anyhow::anyhow!("it panicked (see above)"))??;
            // What was stopped says so in its result, which is then not one of the task.
            Ok((outcome.valid || !shop.ending.load(Ordering::SeqCst)).then_some(outcome))
        });
        let _ = tell.send(Event::Task(task.name(), came));
    }
}

/// Takes tasks with real packets until none is left.
fn with_real_packets(shop: &Arc<Shop>, tell: &Sender<Event>) {
    while let Some(task) = next(shop, &shop.real) {
        let came = attempt(shop, &task, |part| {
            let mut words =
                vec!["--condition".to_owned(), task.condition.clone(), "--seed".into(), task.seed.to_string()];
            words.extend(["--speed".to_owned(), task.speed.to_string()]);
            words.extend(task.quick.then(|| "--quick".to_owned()));
            let pages = task.pages.iter().flat_map(|pages| ["--pages".into(), pages.path.clone().into_os_string()]);
            let words: Vec<_> = words.into_iter().map(Into::into).chain(pages).collect();
            let mut child = child::start(&task.experiment, &words, &part.folder)?;
            let status = wait(shop, &mut child)?;
            child::result(&task.experiment, status, &part.folder)
        });
        let _ = tell.send(Event::Task(task.name(), came));
    }
}

/// Waits for a process, which is asked to end as this one is, and killed if it does not.
fn wait(shop: &Shop, child: &mut std::process::Child) -> anyhow::Result<std::process::ExitStatus> {
    let (clock, mut kill_at) = (Clock::new(), None);
    loop {
        if let Some(status) = child.try_wait().context("waiting for its process")? {
            return Ok(status);
        }
        if kill_at.is_none() && shop.ending.load(Ordering::SeqCst) {
            if let Some(pid) = rustix::process::Pid::from_raw(i32::try_from(child.id())?) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            kill_at = Some(clock.now() + GRACE / 2);
        }
        if kill_at.is_some_and(|at| clock.now() >= at) {
            let _ = child.kill();
        }
        clock.sleep(LOOK);
    }
}

fn next(shop: &Shop, queue: &Mutex<VecDeque<Task>>) -> Option<Task> {
    let task = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front();
    (!shop.ending.load(Ordering::SeqCst)).then(task).flatten()
}

/// What is asked of the experiment.
fn context(task: &Task) -> Context {
    let pages = task.pages.as_ref().map(|pages| pages.path.clone());
    let conditions = Some(vec![task.condition.clone()]);
    Context { quick: task.quick, speeds: task.speed, conditions, pages, ..Context::new(task.seed) }
}

/// Does a task by `once`, which gives no result where this process must end first. With real packets an invalid result is tried for
/// again; in virtual time it would be the same.
fn attempt(shop: &Shop, task: &Task, once: impl Fn(&Part) -> anyhow::Result<Option<Outcome>>) -> Came {
    let ready = task.check_host().and_then(|()| task.check_pages());
    let begun = ready.and_then(|()| Ok(shop.results.begin(task, &shop.worker)?));
    let part = match begun {
        Ok(part) => part,
        Err(why) => return failed(shop, task, &why),
    };
    let repeats = if task.speed.in_namespaces() { REPEATS } else { 0 };
    let mut runs = 0;
    let outcome = loop {
        runs += 1;
        match once(&part) {
            Ok(Some(outcome)) if !outcome.valid && runs <= repeats => {}
            Ok(Some(outcome)) => break outcome,
            Ok(None) => {
                shop.results.give_back(part);
                return Came::GivenBack;
            }
            Err(why) => {
                let why = exit::one_line(&why);
                // Where even the reason cannot be noted, it is still said.
                let _ = shop.results.fail(part, &why);
                return Came::Failed(why);
            }
        }
    };
    match shop.results.commit(part, &outcome, &shop.host, runs) {
        Ok(Committed::First) => Came::Done { valid: outcome.valid },
        Ok(Committed::Another) => Came::Another,
        Err(why) => failed(shop, task, &why),
    }
}

/// What comes of a task that could not be begun or whose result could not be kept, unless another worker has done it meanwhile.
fn failed(shop: &Shop, task: &Task, why: &anyhow::Error) -> Came {
    if matches!(shop.results.look(&task.id), Look::Done(_)) {
        return Came::Another;
    }
    let why = exit::one_line(why);
    // Where even the reason cannot be noted, it is still said.
    let _ = shop.results.note(&task.id, &why);
    Came::Failed(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("work"));
        let words = [&["work", "--plan", "p", "--out", "o"], words].concat();
        Args::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    fn of(words: &[&str], set: &[(&str, &str)]) -> Result<Shard, String> {
        let variable = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        chosen(&args(words), 10, variable).map_err(|e| e.to_string())
    }

    #[test]
    fn the_number_comes_from_the_option_before_the_scheduler() {
        let slurm = [("SLURM_ARRAY_TASK_ID", "3")];
        assert_eq!(of(&[], &[]), Ok(Shard { index: 0, of: 1 }));
        assert_eq!(of(&[], &slurm), Ok(Shard { index: 3, of: 10 }));
        assert_eq!(of(&["--index", "4"], &slurm), Ok(Shard { index: 4, of: 10 }));
        assert_eq!(of(&["--shard", "1/2"], &slurm), Ok(Shard { index: 1, of: 2 }));
        assert_eq!(of(&["--shards", "5"], &slurm), Ok(Shard { index: 3, of: 5 }));
        assert_eq!(of(&["--shards", "5"], &[("JOB_COMPLETION_INDEX", "4")]), Ok(Shard { index: 4, of: 5 }));
        assert_eq!(of(&["--shards", "5"], &[("PARALLEL_SEQ", "1")]), Ok(Shard { index: 0, of: 5 }), "it counts from 1");
    }

    /// A worker of a task with real packets, and the folder of its results.
    fn shop(folder: &std::path::Path) -> (Shop, Task) {
        let builds = headstart_lab::campaign::Builds { lab: "x".into(), headstart: Some("y".into()) };
        let (entry, speed) = (experiment::find("connect-model").unwrap(), experiment::Speeds::Namespaces);
        let mut task = Task::new(entry, "healthy", 1, speed, true, None, &builds).unwrap();
        // Of any host.
        task.needs.cores = 1;
        let shop = Shop {
            results: Results::at(folder),
            worker: "one".into(),
            host: "here".into(),
            ending: AtomicBool::new(false),
            simulated: Mutex::default(),
            real: Mutex::default(),
            simulating: AtomicUsize::new(0),
        };
        (shop, task)
    }

    #[test]
    fn an_invalid_run_with_real_packets_is_repeated_three_times_and_then_kept() {
        for (valid_at, runs) in [(None, 4), (Some(2), 2), (Some(4), 4), (Some(1), 1)] {
            let folder = tempfile::tempdir().unwrap();
            let (shop, task) = shop(folder.path());
            let begun = AtomicUsize::new(0);
            let came = attempt(&shop, &task, |_| {
                let run = begun.fetch_add(1, Ordering::SeqCst) + 1;
                let mut outcome = Outcome::new("connect-model", 1);
                if Some(run) != valid_at {
                    outcome.invalidate(format!("busy in run {run}"));
                }
                Ok(Some(outcome))
            });
            assert!(matches!(came, Came::Done { valid } if valid == valid_at.is_some()));
            let Look::Done(found) = shop.results.look(&task.id) else { panic!("it is not kept") };
            assert_eq!((begun.into_inner(), found.0.runs, found.1.valid), (runs, runs as u32, valid_at.is_some()));
            assert!(valid_at.is_some() || found.1.why_invalid == ["busy in run 4"]);
        }
    }

    #[test]
    fn a_task_that_this_host_cannot_do_is_not_begun() {
        let folder = tempfile::tempdir().unwrap();
        let (shop, mut task) = shop(folder.path());
        task.needs.cores = u32::MAX;
        let came = attempt(&shop, &task, |_| panic!("it was begun"));
        assert!(matches!(came, Came::Failed(why) if why.contains("processors; this host gives it")));
        assert!(shop.results.failure(&task.id).is_some_and(|why| why.contains("processors")));
        assert!(!shop.results.is_begun(&task.id));
    }

    #[test]
    fn a_number_that_is_none_or_too_large_is_refused() {
        for (words, set, expected) in [
            (&["--index", "10"][..], &[][..], "must be from 0 to 9"),
            (&["--shards", "2"], &[("SLURM_ARRAY_TASK_ID", "2")], "must be from 0 to 1"),
            (&["--shards", "2"], &[], "use --shard I/2"),
            (&["--shards", "0"], &[("SLURM_ARRAY_TASK_ID", "0")], "must be at least 1"),
            (&[], &[("PARALLEL_SEQ", "0")], "PARALLEL_SEQ: must be a number from 1"),
            (&[], &[("SLURM_ARRAY_TASK_ID", "x")], "got \"x\""),
        ] {
            let why = of(words, set).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}

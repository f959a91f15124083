//! Real programs under a filter, over loopback: scripts, since an interpreter makes the system calls that a script says.
//! Each script connects to a server of the test's and prints what became of it.

use super::*;
use crate::calls::Outstanding;
use crate::control::{Descriptor, Registered};
use crate::folder::{Folder, Library};
use crate::names::Names;
use crate::supervisor::Supervisor;
use crate::supervisor::run::Run;
use crate::supervisor::token::CALLER;
use crate::sys::seccomp::{Listener, Trap};
use headstart_core::connect::{LookupResult, QueryId, Resolve, Settings, Tally, Want, race};
use headstart_core::path::Family;
use headstart_core::wire::shim::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

mod stalled;

/// A test that starts a program forks, and what is forked holds descriptors of the other tests for a moment, which is what
/// exchanges look for.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What scripts begin with. `ask` resolves the server's name as the preloaded library does, which begins a connection.
const PRELUDE: &str = r#"
import os, sys, socket, select, signal, struct, time, errno, threading
signal.alarm(120)
PORT = int(os.environ["PORT"])
def ask():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(os.environ["HEADSTART_DIR"] + "/socket")
    s.send(bytes.fromhex(os.environ["ASK"]))
    s.recv(2000)
    s.close()
def inode(s): return os.fstat(s.fileno()).st_ino
def tcp(family=socket.AF_INET): return socket.socket(family, socket.SOCK_STREAM)
def connect(s, to=None):
    before = inode(s)
    e = s.connect_ex(to or ("127.0.0.1", PORT))
    return ("exchanged" if inode(s) != before else "own", errno.errorcode.get(e, "ok"))
def say(*words): print(*words, flush=True)
def hello(s):
    s.sendall(b"x")
    return s.recv(1) == b"y"
"#;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The number of the run that scripts are.
const RUN: u32 = 1;

struct Outcome {
    said: String,
    tally: Tally,
    /// Calls that still wait.
    held: usize,
}

/// A server that answers `x` with `y`, on a port of its own, and a program that is to visit it.
struct Visit {
    _gate: MutexGuard<'static, ()>,
    folder: Folder,
    rules: PathBuf,
    python: PathBuf,
    server: TcpListener,
    /// What the program was told when it asked for the server's name.
    told: Vec<IpAddr>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.rules);
    }
}

impl Visit {
    /// `None`, and a line about it, where there is no interpreter or no seccomp notification.
    fn new() -> Option<Self> {
        let gate = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Its own file: what is called by this name may be a script that looks for it.
        let script = "import os; print(os.readlink('/proc/self/exe'))";
        let Ok(found) = Command::new("python3").args(["-c", script]).output() else {
            eprintln!("skipped: no python3 here (apt-get install python3)");
            return None;
        };
        let python = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
        let mut probe = Command::new("true");
        let trap = Trap::around(&mut probe).unwrap();
        probe.status().unwrap();
        if let Err(e) = trap.listener() {
            eprintln!("skipped: {e}");
            return None;
        }
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let rules = std::env::temp_dir().join(format!("headstart-rules-{}", std::process::id()));
        Some(Self {
            _gate: gate,
            folder: Folder::create(Library { bytes: b"", id: "none" }).unwrap(),
            rules,
            python,
            server,
            told: vec![LOCALHOST],
        })
    }

    fn app(&self) -> AppId {
        self.python.file_name().unwrap().to_str().unwrap().into()
    }

    fn port(&self) -> u16 {
        self.server.local_addr().unwrap().port()
    }

    fn start(&self, script: &str) -> (Child, Listener) {
        let ask = Request::Resolve {
            app: self.app().to_string(),
            name: "server.example.".into(),
            family: Some(Family::V4),
            port: Some(self.port()),
            configured_only: false,
        };
        let ask: String = ask.encode().as_ref().iter().map(|b| format!("{b:02x}")).collect();
        let mut command = Command::new(&self.python);
        command.arg("-c").arg(format!("{PRELUDE}{script}")).env("PORT", self.port().to_string()).env("ASK", ask);
        command.env("HEADSTART_DIR", self.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let trap = Trap::around(&mut command).unwrap();
        let child = command.spawn().unwrap();
        (child, trap.listener().unwrap())
    }

    /// A supervisor to which is known what the program was told.
    fn supervisor(&self) -> Supervisor {
        // A server must be known; it is not asked, since the test supplies all answers.
        std::fs::create_dir_all(&self.rules).unwrap();
        std::fs::write(self.rules.join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
        let names = Names::from_folder(&self.rules);
        let settings = Settings::of(race::find(race::DEFAULT).unwrap());
        let mut supervisor = Supervisor::new(settings, names).unwrap();
        let engine = &mut supervisor.engine;
        let name = "server.example".into();
        let told = Resolve { app: self.app(), name, want: Want::Only(Family::V4), port: None };
        engine.feed(Input::Resolve(RequestId(CALLER | 0x00ff_ffff), told));
        let answer = LookupResult::Addresses(self.told.clone(), Duration::from_secs(3600));
        engine.feed(Input::Lookup(QueryId(0), answer));
        assert!(engine.returned_addresses.may_have(LOCALHOST), "the lookup was not the connector's first");
        supervisor
    }

    /// Runs a script under a supervisor.
    fn of(self, script: &str) -> Outcome {
        let listening = self.folder.listen().unwrap();
        let (mut child, listener) = self.start(script);
        let mut supervisor = self.supervisor();
        let registered = Registered { command: Vec::new(), via: "auto".into(), pid: std::process::id() };
        let mut run = Run::new(&supervisor.engine, RUN, registered);
        let outstanding = Outstanding::new().unwrap();
        let descriptors = vec![
            (Descriptor::PreloadListener, listening),
            (Descriptor::PreloadFilter, self.folder.filter().unwrap().into()),
            (Descriptor::SeccompListener, listener.as_fd().try_clone_to_owned().unwrap()),
            (Descriptor::Outstanding, outstanding.as_fd().try_clone_to_owned().unwrap()),
            (Descriptor::Duty, rustix::pipe::pipe().unwrap().1),
        ];
        run.add(&mut supervisor.engine, descriptors).unwrap();
        supervisor.runs.insert(RUN, run);
        let serving = serve(self.server.try_clone().unwrap());
        let ended = crate::process_end(child.id() as i32).unwrap();
        supervisor.serve(&ended, Duration::ZERO).unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{said}");
        serving.stop(self.port());
        let seccomp = supervisor.runs[&RUN].seccomp.as_ref().unwrap();
        let held = seccomp.held.len() + seccomp.calls.unanswered();
        // Of those that were let go too: what is written down of one call is not another's.
        assert_eq!(u64::from(seccomp.next_held), seccomp.connects(), "each connect has a number of its own");
        Outcome { said: said.trim().to_owned(), tally: supervisor.engine.connector.tally_of(RUN), held }
    }
}

struct Serving(std::thread::JoinHandle<()>, std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Serving {
    fn stop(self, port: u16) {
        self.1.store(true, std::sync::atomic::Ordering::SeqCst);
        drop(std::net::TcpStream::connect(("127.0.0.1", port)));
        self.0.join().unwrap();
    }
}

/// Answers `x` with `y` on every connection.
fn serve(server: TcpListener) -> Serving {
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = std::sync::Arc::clone(&over);
    let thread = std::thread::spawn(move || {
        for stream in server.incoming() {
            if stop.load(std::sync::atomic::Ordering::SeqCst) {
                return;
            }
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut byte = [0];
                while stream.read(&mut byte).is_ok_and(|n| n == 1)
                    && std::io::Write::write_all(&mut stream, b"y").is_ok()
                {}
            });
        }
    });
    Serving(thread, over)
}

#[test]
fn a_blocking_connect_gets_a_connection_of_ours_with_the_programs_options() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(r#"
s = tcp()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
t = tcp()
os.set_inheritable(t.fileno(), True)
for x in (s, t):
    say(*connect(x), hello(x), os.get_inheritable(x.fileno()), os.get_blocking(x.fileno()),
        x.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), x.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        x.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 77, x.getpeername()[1] == PORT)
"#);
    assert_eq!(outcome.said, "exchanged ok True False True 1 1 True True\nexchanged ok True True True 0 0 False True");
    assert!(outcome.tally.passed.is_empty(), "{:?}", outcome.tally.passed);
    assert_eq!(outcome.tally.handed_over, 2);
}

#[test]
fn a_non_blocking_connect_gets_what_is_there_and_never_waits() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(r#"
s = tcp()
s.setblocking(False)
say(connect(s)[0])
select.select([], [s], [])
say(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0)
for i in range(50):
    ask()
    s = tcp()
    s.setblocking(False)
    how, result = connect(s)
    select.select([], [s], [])
    s.setblocking(True)
    if how == "exchanged" and hello(s):
        break
say(how, result in ("ok", "EINPROGRESS"))
"#);
    assert_eq!(outcome.said, "own\nTrue\nexchanged True");
}

#[test]
fn a_v4_mapped_connect_of_an_ipv6_socket_gets_an_ipv6_socket() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(r#"
s = tcp(socket.AF_INET6)
say(*connect(s, ("::ffff:127.0.0.1", PORT)), hello(s), s.getpeername()[0])
s = tcp(socket.AF_INET6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
say(*connect(s, ("::ffff:127.0.0.1", PORT)))
"#);
    assert_eq!(outcome.said, "exchanged ok True ::ffff:127.0.0.1\nown ENETUNREACH");
}

#[test]
fn sockets_that_nothing_can_stand_in_for_keep_their_place() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(r#"
s = tcp()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
say(*connect(s), hello(s))
s = tcp()
s.bind(("127.0.0.1", 0))
say(*connect(s), hello(s))
s = tcp()
say(*connect(s, ("127.0.0.2", PORT)))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
say(*connect(u), u.getpeername()[1] == PORT)
"#);
    assert_eq!(outcome.said, "own ok True\nown ok True\nown ECONNREFUSED\nown ok True");
    let reasons: Vec<_> = outcome.tally.passed.into_iter().collect();
    assert_eq!(reasons, [(Pass::UnknownAddress, 1), (Pass::SocketOption, 1), (Pass::NotNew, 1)]);
}

#[test]
fn a_socket_that_is_in_use_elsewhere_is_put_back() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(r#"
import subprocess
# Under another descriptor.
s = tcp()
t = s.dup()
say(*connect(s), hello(t))
# In another process.
s = tcp()
p = subprocess.Popen(["sleep", "100"], stdin=s.fileno(), stdout=subprocess.DEVNULL)
say(*connect(s), hello(s))
s.close()
p.kill()
p.wait()
# In a child that goes on with it.
s = tcp()
r, w = os.pipe()
if os.fork() == 0:
    os.read(r, 1)
    os._exit(0 if hello(s) else 1)
say(*connect(s))
os.write(w, b"x")
say(os.waitstatus_to_exitcode(os.wait()[1]))
# Passed to another process, received there.
a, b = socket.socketpair()
s = tcp()
r, w = os.pipe()
if os.fork() == 0:
    s.close()
    _, fds, _, _ = socket.recv_fds(b, 1, 1)
    os.write(w, b"x")
    b.recv(1)
    os._exit(0 if hello(socket.socket(fileno=fds[0])) else 1)
socket.send_fds(a, [b"x"], [s.fileno()])
os.read(r, 1)
say(*connect(s))
a.send(b"x")
say(os.waitstatus_to_exitcode(os.wait()[1]))
"#);
    assert_eq!(outcome.said, "own ok True\nown ok True\nown ok\n0\nown ok\n0");
    assert_eq!(outcome.tally.passed.into_iter().collect::<Vec<_>>(), [(Pass::SharedSocket, 4)]);
}

#[test]
fn connects_to_addresses_that_no_program_was_given_are_the_kernels_and_are_counted() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of("for _ in range(3): say(*connect(tcp(), ('127.0.0.9', PORT)))");
    assert_eq!(outcome.said, ["own ECONNREFUSED"; 3].join("\n"));
    assert_eq!(outcome.tally.passed.into_iter().collect::<Vec<_>>(), [(Pass::UnknownAddress, 3)]);
}

#[test]
fn registrations_in_epoll_sets_survive_the_exchange() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(r#"
sets = [select.epoll(), select.epoll()]
s = tcp()
s.setblocking(True)
sets[0].register(s.fileno(), select.EPOLLIN | select.EPOLLET)
sets[1].register(s.fileno(), select.EPOLLOUT)
say(*connect(s))
say(sets[1].poll(60) == [(s.fileno(), select.EPOLLOUT)])
s.sendall(b"x")
say(sets[0].poll(60) == [(s.fileno(), select.EPOLLIN)])
sets[1].modify(s.fileno(), select.EPOLLIN)
say(sets[1].poll(60) == [(s.fileno(), select.EPOLLIN)])
for e in sets: e.unregister(s.fileno())
# EPOLLEXCLUSIVE has a place in a queue that nobody can give back.
t = tcp()
sets[0].register(t.fileno(), select.EPOLLIN | 1 << 28)
say(*connect(t))
"#);
    assert_eq!(outcome.said, "exchanged ok\nTrue\nTrue\nTrue\nown ok");
    assert_eq!(outcome.tally.passed.into_iter().collect::<Vec<_>>(), [(Pass::EventSet, 1)]);
}

#[test]
fn a_program_with_epoll_sets_and_many_descriptors_connects_by_itself_and_no_other_connection_is_opened() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(r#"
import resource
made = select.epoll()
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
few, low = tcp(), tcp()
few.setblocking(True)
say(*connect(few))
many = [os.dup(0) for _ in range(600)]
low.setblocking(True)
say(*connect(low))
high = tcp()
high.setblocking(True)
say(*connect(high))
for n in many: os.close(n)
again = tcp()
again.setblocking(True)
say(*connect(again))
"#);
    assert_eq!(outcome.said, "exchanged ok\nown ok\nown ok\nexchanged ok");
    assert_eq!(outcome.tally.passed.into_iter().collect::<Vec<_>>(), [(Pass::ManyDescriptors, 2)]);
    assert_eq!((outcome.tally.handed_over, outcome.tally.unused), (2, 0));
}

/// Fills the queue of a server of the script's own, so that a connect to it waits.
const FULL: &str = r#"
full = socket.socket()
full.bind(("127.0.0.1", 0))
full.listen(0)
FULL = full.getsockname()
fillers = []
while True:
    f = tcp()
    f.setblocking(False)
    f.connect_ex(FULL)
    fillers.append(f)
    if not select.select([], [f], [], 0.5)[1]: break
"#;

#[test]
fn a_blocking_connect_waits_no_longer_than_its_send_timeout() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(&format!(
        "{FULL}{}",
        r#"
s = tcp()
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 300000))
say(*connect(s, FULL), os.get_blocking(s.fileno()))
"#
    ));
    assert_eq!(outcome.said, "own EINPROGRESS True");
}

#[test]
fn a_signal_ends_a_blocking_connect_as_it_would_without_us() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(&format!(
        "{FULL}{}",
        r#"
class Enough(Exception): pass
def handler(*_): raise Enough
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
s = tcp()
try: say(*connect(s, FULL))
except Enough: say("signal")
say(s.getsockname()[1] != 0)
"#
    ));
    assert_eq!(outcome.said, "signal\nTrue", "and the connection is on its way in the program's own socket");
    assert_eq!(outcome.tally.passed.get(&Pass::Signal), Some(&1));
}

#[test]
fn what_another_thread_opens_under_the_number_of_a_waiting_call_is_not_touched() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(&format!(
        "{FULL}{}",
        r#"
s = tcp()
number = s.fileno()
results = []
t = threading.Thread(target=lambda: results.append(s.connect_ex(FULL)))
t.start()
time.sleep(0.3)
os.close(number)
r, w = os.pipe()
say(r == number)
before = os.fstat(r).st_ino
for f in fillers: f.close()
full.settimeout(0.2)
while t.is_alive():
    try: full.accept()
    except OSError: pass
say(os.fstat(r).st_ino == before, errno.errorcode.get(results[0]))
s.detach()
"#
    ));
    assert_eq!(outcome.said, "True\nTrue EBADF");
}

#[test]
fn a_program_that_is_killed_while_it_waits_leaves_nothing_behind() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(&format!(
        "{FULL}{}",
        r#"
child = os.fork()
if child == 0:
    connect(tcp(), FULL)
    os._exit(0)
time.sleep(0.5)
os.kill(child, signal.SIGKILL)
say(os.waitstatus_to_exitcode(os.wait()[1]))
# A death is noticed at the next look.
time.sleep(0.5)
"#
    ));
    assert_eq!(outcome.said, "-9");
    assert_eq!(outcome.held, 0);
}

#[test]
fn many_connects_of_many_threads_and_processes_are_all_answered() {
    let Some(visit) = Visit::new() else { return };
    let outcome = visit.of(r#"
def many(n):
    for _ in range(n):
        s = tcp()
        if connect(s)[1] != "ok" or not hello(s): say("failed")
        s.close()
        u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(20): u.connect(("127.0.0.1", 9))
for _ in range(3):
    if os.fork() == 0:
        threads = [threading.Thread(target=many, args=(25,)) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        os._exit(0)
for _ in range(3): os.wait()
say("done")
"#);
    assert_eq!(outcome.said, "done");
}

#[test]
fn the_watchdog_answers_what_a_dead_supervisor_had_received_and_what_comes_later() {
    let Some(visit) = Visit::new() else { return };
    let (mut child, listener) = visit.start(&format!(
        "{FULL}{}",
        r#"
# Waits for ever, unless the kernel makes the call: then the server makes room.
def wait(): say(*connect(tcp(), FULL))
t = threading.Thread(target=wait)
t.start()
time.sleep(0.5)
for f in fillers: f.close()
while True:
    full.settimeout(1)
    try: full.accept()
    except OSError: pass
    if not t.is_alive(): break
say(*connect(tcp()))
"#
    ));
    let outstanding = Outstanding::new().unwrap();
    let kept = (listener.try_clone().unwrap(), outstanding.try_clone().unwrap());
    let serving = serve(visit.server.try_clone().unwrap());
    // A supervisor that receives and dies.
    let supervisor = std::thread::spawn(move || {
        // The fillers, none of which waits here; then the one that does.
        loop {
            let mut ready = [PollFd::new(&listener, PollFlags::IN)];
            poll(&mut ready, None).unwrap();
            let Some(call) = listener.receive().unwrap() else { continue };
            outstanding.note(call.id, call.id);
            let flags = || rustix::fs::fcntl_getfl(process::descriptor(call.thread, call.number).unwrap()).unwrap();
            if call.kind == Kind::Connect && !flags().contains(rustix::fs::OFlags::NONBLOCK) {
                return;
            }
            listener.resume(call.id).unwrap();
        }
    });
    supervisor.join().unwrap();
    crate::watchdog::take_over(&kept.0, &kept.1).unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    serving.stop(visit.port());
    assert_eq!(said.trim(), "own ok\nown ok");
}

#[test]
fn a_second_listener_over_the_same_program_is_refused_and_the_program_runs() {
    let Some(visit) = Visit::new() else { return };
    // The inner program is started by the outer one, which is under a filter; here the test itself plays the inner start.
    let (mut child, listener) = visit.start("say(*connect(tcp(), ('127.0.0.3', PORT)))");
    let mut inner = Command::new("true");
    let outer = Trap::around(&mut inner).unwrap();
    let inner_trap = Trap::around(&mut inner).unwrap();
    assert!(inner.status().unwrap().success());
    let (first, second) = (outer.listener(), inner_trap.listener());
    assert!(first.is_ok());
    assert!(matches!(second, Err(crate::sys::seccomp::TrapError::Taken)), "{second:?}");
    crate::watchdog::take_over(&listener, &Outstanding::new().unwrap()).unwrap();
    assert!(child.wait().unwrap().success());
}

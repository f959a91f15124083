//! Which process has a socket open: found in /proc by a thread of its own, so that no packet waits for it.
//!
//! A walk through /proc takes longer than a connection to a neighbour; a process that closed its socket by then is never found. So
//! what costs microseconds is done at once ([`Finder::at_once`]), while the program still waits: most connections of a host are
//! made by the process that made the last one, on the same descriptor or the next; most others by one that was just started, with
//! few descriptors. The thread is started with the first question, so that a process that forks before has none to lose. It takes
//! all that was asked until then into one walk: a process with ten thousand sockets is looked through once, not once for each.

use super::owner::{Owners, Process};
use super::sockets::{self, Options};
use crate::sys::netns::NetNs;
use crate::sys::process::descriptor;
use headstart_core::forward::FlowId;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, RawDir, open};
use rustix::net::sockopt;
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Processes that are looked at first.
const MOST_RECENT: usize = 8;
/// Of these, how many are looked at while a connection waits. 3: a browser's network process, and two more.
const AT_ONCE: usize = 3;

/// Descriptors on either side of the last one that are looked at, where many are opened and closed at a time.
const NEAR: RawFd = 4;
/// The latest processes and threads of the host that are looked at while a connection waits; 16: a shell's pipeline.
const MOST_NEW: i32 = 16;
/// Descriptors of each of them: a process that was just started has few.
const FEW: usize = 64;
/// Descriptors of the process that was found last, which is looked at most closely; 256: a microsecond each.
const MANY: usize = 256;
/// Bytes of a descriptor in a list of them: a header of 19 bytes, up to 4 digits and a zero, in eights. The shortest list and the longest one.
const ENTRY: usize = 24;
const LEAST_LIST: usize = 256;
const LONGEST_LIST: usize = 32 * 1024;
/// How often they are checked without result until there is another one.
const MOST_VAIN: u32 = 4;
/// The descriptor of a process that was not looked at yet.
const ANY: RawFd = -1;

/// What is to be found out.
#[derive(Debug)]
pub(super) struct Question {
    /// For which connection.
    pub flow: FlowId,
    /// The number of the program's socket.
    pub inode: u32,
    /// Its ends, if it is a connection's: one that is closed by now need not be looked for.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// Whose it is, if that is known.
    pub known: Option<Process>,
    /// Whether its options are wanted too.
    pub options: bool,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Answer {
    /// For which connection.
    pub flow: FlowId,
    /// Whose it is.
    pub process: Option<Process>,
    /// The program's options, if they were asked for and could be seen.
    pub options: Option<Options>,
    /// When that was asked, as the finder counts; none where whose it is was known.
    learned: Option<u64>,
}

/// Finds the processes of sockets.
#[derive(Debug)]
pub(super) struct Finder {
    /// The namespace, and the congestion control of its connections.
    namespace: (u64, String),
    /// The thread's own way to ask, until it is started.
    owners: Option<Owners>,
    bell: Arc<OwnedFd>,
    desk: Option<Desk>,
    /// The processes found last, and to which look each belongs.
    recent: VecDeque<(Process, u64)>,
    /// Looks at processes so far.
    looks: u64,
    /// The latest process when the latest ones were looked at last, and how often that had no result.
    latest: (i32, u32),
}

/// The thread, and the ways to it and from it.
#[derive(Debug)]
struct Desk {
    questions: Sender<(Question, u64)>,
    answers: Receiver<Answer>,
    thread: JoinHandle<()>,
}

impl Finder {
    /// One for the processes of a network namespace.
    pub fn new(namespace: &NetNs) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let owners = Some(Owners::of(namespace)?);
        let (id, recent) = (namespace.id()?, VecDeque::new());
        let is_here = NetNs::current()?.id()? == id;
        let congestion = if is_here { usual_congestion_control() } else { namespace.run(usual_congestion_control)? };
        let namespace = (id, congestion);
        Ok(Self { namespace, owners, bell, desk: None, recent, looks: 0, latest: (0, 0) })
    }

    /// A process that is likely to have the next socket.
    pub fn expect(&mut self, pid: i32) {
        self.recent.push_front((Process { pid, name: String::new(), group: None, fd: ANY }, self.looks));
    }

    /// The process, if it is one that was found before and has the socket near where the last one was, or one that is new.
    pub fn at_once(&mut self, inode: u32) -> Option<Process> {
        self.looks += 1;
        let link = format!("socket:[{inode}]");
        let found = self.at_the_same_place(&link).or_else(|| self.of_the_new(&link)).or_else(|| self.nearby(&link));
        let found = found.or_else(|| self.anywhere(&link))?;
        self.remember(&found, self.looks);
        Some(found)
    }

    fn at_the_same_place(&mut self, link: &str) -> Option<Process> {
        let found = self.recent.iter().take(AT_ONCE).find_map(|(process, _)| {
            if process.fd == ANY {
                return holds(process.pid, link, usize::MAX);
            }
            let fd = [process.fd, process.fd + 1].into_iter().find(|fd| is_at(process.pid, *fd, link))?;
            Some(Process { fd, ..process.clone() })
        });
        // Looking at all descriptors of a process is not done twice.
        self.recent.retain(|(process, _)| process.fd != ANY);
        found
    }

    fn nearby(&self, link: &str) -> Option<Process> {
        self.recent.iter().take(AT_ONCE).find_map(|(process, _)| {
            let mut near = (process.fd - NEAR).max(0)..=process.fd + NEAR;
            let fd = near.find(|fd| is_at(process.pid, *fd, link))?;
            Some(Process { fd, ..process.clone() })
        })
    }

    /// A port scanner opens and closes as it likes, and what is refused is closed before any other thread could look.
    fn anywhere(&self, link: &str) -> Option<Process> {
        holds(self.recent.front()?.0.pid, link, MANY)
    }

    /// The process, if it is among the latest of the host: their numbers count up.
    fn of_the_new(&mut self, link: &str) -> Option<Process> {
        let last = latest()?;
        if last != self.latest.0 {
            self.latest = (last, 0);
        }
        if self.latest.1 >= MOST_VAIN {
            return None;
        }
        let numbers = (0..MOST_NEW).map(|n| last - n).take_while(|number| *number > 0);
        let found = numbers.filter_map(|number| holds(number, link, FEW)).find_map(process_of);
        self.latest.1 += u32::from(found.is_none());
        found
    }

    /// Notes the process that has the socket asked about at a look; what is known of a later one stays.
    fn remember(&mut self, process: &Process, look: u64) {
        if self.recent.iter().any(|(recent, later)| recent.pid == process.pid && *later > look) {
            return;
        }
        self.recent.retain(|(recent, _)| recent.pid != process.pid);
        self.recent.push_front((process.clone(), look));
        self.recent.truncate(MOST_RECENT);
    }

    /// Asks; whether there will be an answer.
    pub fn ask(&mut self, question: Question) -> bool {
        if self.desk.is_none() {
            let owners = self.owners.take();
            self.desk =
                owners.and_then(|owners| Desk::open(self.namespace.clone(), owners, Arc::clone(&self.bell)).ok());
        }
        self.desk.as_ref().is_some_and(|desk| desk.questions.send((question, self.looks)).is_ok())
    }

    /// What was found since the last time. To be called when the descriptor can be read.
    pub fn answers(&mut self) -> Vec<Answer> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        let answers: Vec<_> = self.desk.iter().flat_map(|desk| desk.answers.try_iter()).collect();
        for answer in &answers {
            if let (Some(process), Some(look)) = (&answer.process, answer.learned) {
                self.remember(process, look);
            }
        }
        answers
    }

    /// Waits for everything that was asked.
    pub fn finish(&mut self) -> Vec<Answer> {
        let Some(Desk { questions, answers, thread }) = self.desk.take() else { return Vec::new() };
        drop(questions);
        let rest = answers.iter().collect();
        let _ = thread.join();
        rest
    }
}

impl AsFd for Finder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Desk {
    fn open((namespace, congestion): (u64, String), owners: Owners, bell: Arc<OwnedFd>) -> io::Result<Self> {
        let (questions, asked) = channel::<(Question, u64)>();
        let (answer, answers) = channel();
        let work = move || {
            let mut search = Search { namespace, congestion, owners, recent: VecDeque::new(), looks: 0 };
            while let Ok(first) = asked.recv() {
                let mut heard = true;
                search.answer(std::iter::once(first).chain(asked.try_iter()).collect(), |found| {
                    heard &= answer.send(found).is_ok();
                    // It is full where no reader has come for 2^64 answers.
                    let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
                });
                if !heard {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("owners".into()).spawn(work)?;
        Ok(Self { questions, answers, thread })
    }
}

/// The thread's own.
struct Search {
    namespace: u64,
    /// The congestion control of its connections.
    congestion: String,
    owners: Owners,
    recent: VecDeque<i32>,
    /// Descriptors that were looked at in walks.
    looks: u64,
}

/// Questions about sockets whose process is not known, by what their descriptors lead to.
type Wanted = HashMap<String, Vec<(Question, u64)>>;

impl Search {
    /// Answers all that was asked: first what takes no walk, and then the rest in one.
    fn answer(&mut self, questions: Vec<(Question, u64)>, mut say: impl FnMut(Answer)) {
        let mut wanted = Wanted::new();
        for (question, look) in questions {
            let link = format!("socket:[{}]", question.inode);
            match &question.known {
                Some(process) if is_at(process.pid, process.fd, &link) => {
                    say(answer(&question, Some(process.clone()), None, &self.congestion));
                }
                // In its place another socket may be by now.
                known if question.ends.is_some_and(|ends| self.is_closed(question.inode, ends)) => {
                    say(Answer { flow: question.flow, process: known.clone(), options: None, learned: None });
                }
                _ => wanted.entry(link).or_default().push((question, look)),
            }
        }
        let walked: Vec<i32> = self.recent.iter().copied().collect();
        walked.iter().for_each(|pid| self.walk(*pid, &mut wanted, &mut say));
        if wanted.is_empty() {
            return;
        }
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids: Vec<i32> = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        // New processes are those most often asked about.
        pids.sort_unstable_by(|a, b| b.cmp(a));
        for pid in pids.into_iter().filter(|pid| !walked.contains(pid)) {
            if !wanted.is_empty() && self.is_here(pid) {
                self.walk(pid, &mut wanted, &mut say);
            }
        }
        for (Question { flow, known, .. }, _) in wanted.into_values().flatten() {
            say(Answer { flow, process: known, options: None, learned: None });
        }
    }

    /// Looks through the descriptors of a process for what is wanted; what is found is said, and wanted no more.
    fn walk(&mut self, pid: i32, wanted: &mut Wanted, say: &mut impl FnMut(Answer)) {
        if wanted.is_empty() {
            return;
        }
        let Ok(folder) = fs::read_dir(format!("/proc/{pid}/fd")) else { return };
        let mut name = None;
        for entry in folder.flatten() {
            self.looks += 1;
            let link = fs::read_link(entry.path()).ok();
            let Some(questions) = link.and_then(|link| wanted.remove(link.to_str()?)) else { continue };
            let Some(fd) = entry.file_name().to_str().and_then(|fd| fd.parse().ok()) else { continue };
            let name = name.get_or_insert_with(|| name_of(pid)).clone();
            let process = Process { pid, name, group: None, fd };
            for (question, look) in &questions {
                say(answer(question, Some(process.clone()), Some(*look), &self.congestion));
            }
            if wanted.is_empty() {
                break;
            }
        }
        if name.is_some() {
            self.recent.retain(|recent| *recent != pid);
            self.recent.push_front(pid);
            self.recent.truncate(MOST_RECENT);
        }
    }

    /// Whether the program has closed its connection: what is left of it has no owner.
    fn is_closed(&mut self, inode: u32, (app, peer): (SocketAddr, SocketAddr)) -> bool {
        self.owners.of_tcp(app, peer).is_ok_and(|owner| owner.is_none_or(|owner| owner.inode != inode))
    }

    /// Whether a process is in the namespace.
    fn is_here(&self, pid: i32) -> bool {
        let link = fs::read_link(format!("/proc/{pid}/ns/net"));
        link.is_ok_and(|link| link.to_str() == Some(&format!("net:[{}]", self.namespace)))
    }
}

/// What is said of a socket whose process this is, learned for a question of that look.
fn answer(question: &Question, process: Option<Process>, learned: Option<u64>, usual: &str) -> Answer {
    let options = process.as_ref().filter(|_| question.options).and_then(|process| options(process, usual));
    Answer { flow: question.flow, process, options, learned }
}

/// The options of a program's socket, in a namespace with this congestion control.
///
/// The descriptor is taken for a moment: it must not keep open what the program closes.
fn options(process: &Process, usual: &str) -> Option<Options> {
    let socket = descriptor(process.pid, process.fd).ok()?;
    let congestion = sockopt::tcp_congestion(&socket).ok().filter(|own| own != usual);
    Some(Options {
        no_delay: sockopt::tcp_nodelay(&socket).ok()?,
        user_timeout: sockopt::tcp_user_timeout(&socket).ok()?,
        congestion: congestion.filter(|_| !usual.is_empty()),
        priority: sockets::priority(&socket),
    })
}

/// The congestion control of connections in the calling thread's namespace; empty if the kernel does not tell.
fn usual_congestion_control() -> String {
    let name = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    name.trim().to_owned()
}

fn is_at(pid: i32, fd: RawFd, link: &str) -> bool {
    fs::read_link(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|to| to.to_str() == Some(link))
}

/// The process, if the socket is among the first `most` of its descriptors.
///
/// No more of them are asked for than are looked at: the kernel takes a microsecond for each that it lists.
fn holds(pid: i32, link: &str, most: usize) -> Option<Process> {
    let folder = open(format!("/proc/{pid}/fd"), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let mut room = Vec::with_capacity(most.saturating_mul(ENTRY).clamp(LEAST_LIST, LONGEST_LIST));
    let mut list = RawDir::new(folder.ok()?, room.spare_capacity_mut());
    let mut left = most;
    while left > 0 {
        let entry = list.next()?.ok()?;
        // Not `.` and `..`.
        let Some(fd) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) else { continue };
        if is_at(pid, fd, link) {
            return Some(Process { pid, name: name_of(pid), group: None, fd });
        }
        left -= 1;
    }
    None
}

/// The name of a process.
fn name_of(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The number that was given to a process or thread last (proc_loadavg(5)).
fn latest() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.parse().ok()
}

/// The process of what may be one of its threads, by that one's number.
fn process_of(thread: Process) -> Option<Process> {
    let status = fs::read_to_string(format!("/proc/{}/status", thread.pid)).ok()?;
    let pid: i32 = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
    if pid == thread.pid {
        return Some(thread);
    }
    Some(Process { pid, name: name_of(pid), ..thread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn ask(finder: &mut Finder, inode: u32, known: Option<Process>) -> Answer {
        assert!(finder.ask(Question { flow: FlowId(7), inode, ends: None, known, options: true }));
        let mut heard = [rustix::event::PollFd::new(&finder.bell, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut heard, None).unwrap();
        finder.answers().pop().expect("the bell has rung")
    }

    #[test]
    fn a_socket_of_ours_is_found_to_be_ours_and_then_at_once() {
        let namespace = NetNs::current().unwrap();
        let mut owners = Owners::of(&namespace).unwrap();
        let mut finder = Finder::new(&namespace).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (app, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let owner = owners.of_tcp(app, peer).unwrap().expect("it is there");
        finder.latest = (latest().unwrap(), MOST_VAIN);
        let Answer { flow, process, options, .. } = ask(&mut finder, owner.inode, None);
        let process = process.expect("it is ours");
        let usual = Options { no_delay: false, user_timeout: 0, congestion: None, priority: Some(0) };
        assert_eq!((flow, process.pid, options), (FlowId(7), std::process::id() as i32, Some(usual)));
        assert_eq!(finder.at_once(owner.inode), Some(process.clone()));
        stream.set_nodelay(true).unwrap();
        sockopt::set_tcp_user_timeout(&stream, 2000).unwrap();
        // One that every kernel has, and every user may set, or else what is usual.
        let reno = Some("reno".to_owned()).filter(|name| *name != usual_congestion_control());
        sockopt::set_tcp_congestion(&stream, "reno").unwrap();
        let wanted = Options { no_delay: true, user_timeout: 2000, congestion: reno, priority: Some(5) };
        sockets::mirror(&stream, &Options { congestion: None, ..wanted.clone() });
        assert_eq!(ask(&mut finder, owner.inode, Some(process)).options.as_ref(), Some(&wanted));
        // And another socket gets them.
        let other = TcpStream::connect(peer).unwrap();
        sockets::mirror(&other, &wanted);
        let got = (other.nodelay().unwrap(), sockopt::tcp_user_timeout(&other).unwrap(), sockets::priority(&other));
        assert_eq!(got, (true, 2000, Some(5)));
        assert_eq!(sockopt::tcp_congestion(&other).unwrap(), sockopt::tcp_congestion(&stream).unwrap());
        // What is expected is found the first time, and one that is closed is not looked for.
        let mut other = Finder::new(&namespace).unwrap();
        other.expect(std::process::id() as i32);
        assert_eq!(other.at_once(owner.inode).map(|process| process.pid), Some(std::process::id() as i32));
        drop(stream);
        let ends = Some((app, peer));
        assert!(other.ask(Question { flow: FlowId(8), inode: owner.inode, ends, known: None, options: false }));
        assert_eq!(other.finish().pop().expect("an answer").process, None);
    }

    #[test]
    fn of_who_was_found_last_many_descriptors_are_looked_at() {
        let namespace = NetNs::current().unwrap();
        let (mut owners, mut finder) = (Owners::of(&namespace).unwrap(), Finder::new(&namespace).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let streams: Vec<_> = (0..40).map(|_| TcpStream::connect(to).unwrap()).collect();
        let mut inode = |n: usize| owners.of_tcp(streams[n].local_addr().unwrap(), to).unwrap().unwrap().inode;
        finder.expect(std::process::id() as i32);
        assert!(finder.at_once(inode(0)).is_some());
        // New processes aside, and far from the last one.
        finder.latest = (latest().unwrap(), MOST_VAIN);
        assert_eq!(finder.at_once(inode(39)).map(|process| process.pid), Some(std::process::id() as i32));
    }

    #[test]
    fn an_answer_that_comes_late_does_not_undo_what_was_seen_meanwhile() {
        let namespace = NetNs::current().unwrap();
        let (mut owners, mut finder) = (Owners::of(&namespace).unwrap(), Finder::new(&namespace).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let [one, other] = [(); 2].map(|()| TcpStream::connect(to).unwrap());
        let mut inode = |s: &TcpStream| owners.of_tcp(s.local_addr().unwrap(), to).unwrap().unwrap().inode;
        let (first_inode, second_inode) = (inode(&one), inode(&other));
        finder.expect(std::process::id() as i32);
        let first = finder.at_once(first_inode).expect("it is ours");
        assert!(finder.ask(Question { flow: FlowId(1), inode: first_inode, ends: None, known: None, options: false }));
        let second = finder.at_once(second_inode).expect("so is this one");
        // The thread may have answered any time since; it is heard now.
        let mut heard = [rustix::event::PollFd::new(&finder.bell, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut heard, None).unwrap();
        assert_eq!(finder.answers().pop().expect("an answer").process, Some(first));
        assert_eq!(finder.recent.front().map(|(process, _)| process), Some(&second));
    }

    #[test]
    fn a_hundred_sockets_of_a_process_are_found_in_one_walk() {
        let namespace = NetNs::current().unwrap();
        let mut owners = Owners::of(&namespace).unwrap();
        let sockets: Vec<_> = (0..100).map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let asked = |(n, socket): (usize, &std::net::UdpSocket)| {
            let own = socket.local_addr().unwrap();
            let inode = owners.of_udp(own, own).unwrap().expect("it is there").inode;
            (Question { flow: FlowId(n as u64), inode, ends: None, known: None, options: false }, 0)
        };
        let questions: Vec<_> = sockets.iter().enumerate().map(asked).collect();
        let own = std::process::id() as i32;
        let (namespace, congestion) = (namespace.id().unwrap(), String::new());
        let mut search = Search { namespace, congestion, owners, recent: [own].into(), looks: 0 };
        let mut found = 0;
        search.answer(questions, |answer| {
            found += u32::from(answer.process.is_some_and(|process| process.pid == own));
        });
        // A walk for each would be 5050 looks at least. Other tests of this process have descriptors too, though not so many.
        assert_eq!(found, 100);
        assert!(search.looks < 2000, "{} descriptors were looked at", search.looks);
    }

    #[test]
    fn who_has_just_been_started_is_found_at_once() {
        let namespace = NetNs::current().unwrap();
        let (mut owners, mut finder) = (Owners::of(&namespace).unwrap(), Finder::new(&namespace).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        // Others start processes too, and between the thread and the look there may be too many.
        let mut tries = 0..10_000;
        let found = tries.find_map(|_| {
            let stream = TcpStream::connect(to).unwrap();
            listener.accept().unwrap();
            let owner = owners.of_tcp(stream.local_addr().unwrap(), to).unwrap().unwrap();
            finder.latest = (0, 0);
            // A thread has the same descriptors, and is new.
            let child = std::thread::spawn(move || std::thread::park_timeout(std::time::Duration::from_secs(60)));
            let found = finder.of_the_new(&format!("socket:[{}]", owner.inode));
            child.thread().unpark();
            child.join().unwrap();
            found
        });
        assert_eq!(found.map(|process| process.pid), Some(std::process::id() as i32), "not its thread");
        // A process that is not found is not looked for without end.
        finder.latest = (0, 0);
        for _ in 0..10_000 {
            assert_eq!(finder.of_the_new("socket:[0]"), None);
            if finder.latest.1 == MOST_VAIN {
                return;
            }
        }
        panic!("it is looked for each time");
    }

    #[test]
    fn what_was_asked_is_answered_before_the_end() {
        let mut finder = Finder::new(&NetNs::current().unwrap()).unwrap();
        assert!(finder.finish().is_empty(), "no program has asked");
        // No socket has the number 0.
        assert!((0..3).all(|n| finder.ask(Question {
            flow: FlowId(n),
            inode: 0,
            ends: None,
            known: None,
            options: false
        })));
        let answers = finder.finish();
        assert_eq!(answers.iter().map(|answer| answer.flow.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(answers.iter().all(|answer| answer.process.is_none()));
    }
}

//! A store that is killed, damaged, full, of the future, used by two, and read again.

use super::*;
use crate::clock::Clock;
use headstart_core::connect::memory::{Follower, Name};
use headstart_core::path::NetworkId;
use headstart_core::path::record::{MAX_PEERS_RECORDED, PeerRecord};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A folder that is gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("headstart-store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> Store {
        Store::in_folder(self.0.clone())
    }

    fn file(&self) -> PathBuf {
        self.0.join("history.redb")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn memory(apps: &[(&str, &[&str])]) -> Memory {
    let name = |name: &&str| Name { name: (*name).to_owned(), a: true, launches: 2, share: 0.75, ..Name::default() };
    let program = |(app, names): &(&str, &[&str])| Program {
        app: (*app).to_owned(),
        launches: 2,
        names: names.iter().map(name).collect(),
    };
    Memory { programs: apps.iter().map(program).collect() }
}

fn network(id: u64) -> NetworkRecord {
    let peer = PeerRecord {
        address: [192, 0, 2, 1].into(),
        rtt: None,
        has_answered: false,
        used_ago_s: 5,
        failed_ago_s: Some(5),
    };
    NetworkRecord { id: NetworkId(id), peers: vec![peer], ..NetworkRecord::default() }
}

#[test]
fn what_was_saved_is_loaded_by_the_next_and_the_files_are_the_users_alone() {
    let scratch = Scratch::new("next");
    let learned = memory(&[("curl", &["www.example.org"]), ("git", &["git.example.org"])]);
    assert!(scratch.store().save(&learned, &[network(1), network(2)]));
    for name in ["history.redb", "history.key"] {
        assert_eq!(fs::metadata(scratch.0.join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    let mut next = scratch.store();
    let mut kept = next.load();
    kept.memory.programs.sort_by(|a, b| a.app.cmp(&b.app));
    kept.networks.sort_by_key(|n| n.id.0);
    assert_eq!(kept.memory, learned);
    assert!(kept.networks.iter().map(|n| n.id.0).eq([1, 2]) && kept.networks[0].peers[0].used_ago_s >= 5);
    assert!(next.notes().is_empty());
    assert!(!next.save(&learned, &[network(1).aged(Duration::from_secs(60))]), "nothing new");
}

#[test]
fn the_folder_is_made_when_there_is_something_to_keep_and_not_before() {
    let scratch = Scratch::new("folder");
    let inner = scratch.0.join("state/headstart");
    let mut store = Store::in_folder(inner.clone());
    assert_eq!(store.load(), Kept::default());
    assert!(!store.save(&Memory::default(), &[]));
    assert!(!inner.exists());
    assert!(store.save(&memory(&[("curl", &[])]), &[]));
    assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn nothing_in_the_file_can_be_read_by_itself() {
    let scratch = Scratch::new("sealed");
    scratch.store().save(&memory(&[("some-program", &["www.example.org"])]), &[network(1)]);
    let bytes = fs::read(scratch.file()).unwrap();
    for secret in [&b"example"[..], b"some-program", b"192.0.2.1"] {
        assert!(!bytes.windows(secret.len()).any(|w| w == secret));
    }
}

#[test]
fn a_store_without_its_key_is_dropped_with_a_word() {
    let scratch = Scratch::new("keyless");
    let learned = memory(&[("curl", &["www.example.org"])]);
    scratch.store().save(&learned, &[]);
    fs::write(scratch.0.join("history.key"), b"short").unwrap();
    let mut store = scratch.store();
    assert_eq!(store.load(), Kept::default());
    let notes = store.notes();
    assert!(notes.iter().any(|n| n.contains("history.key") && n.contains("a new one is started")), "{notes:?}");
    assert!(store.save(&learned, &[]));
    assert_eq!(scratch.store().load().memory, learned);
}

fn is_set_aside(scratch: &Scratch, said: &str) {
    let learned = memory(&[("curl", &["www.example.org"])]);
    let mut store = scratch.store();
    assert_eq!(store.load(), Kept::default());
    let notes = store.notes().join("\n");
    assert!(notes.contains(said) && notes.contains("set-aside"), "{notes:?}");
    assert!(scratch.0.join("history.set-aside.redb").exists() && !scratch.file().exists());
    assert!(store.save(&learned, &[]) && store.notes().is_empty());
    assert_eq!(scratch.store().load().memory, learned);
}

#[test]
fn a_damaged_store_is_set_aside_with_a_message() {
    for (n, bytes) in [&b""[..], b"x", &[0; 4096], &[0xff; 100_000]].into_iter().enumerate() {
        let scratch = Scratch::new(&format!("damaged-{n}"));
        scratch.store().save(&memory(&[("curl", &[])]), &[]);
        fs::write(scratch.file(), bytes).unwrap();
        is_set_aside(&scratch, "is damaged");
    }
}

#[test]
fn a_store_of_a_later_version_is_set_aside_with_a_message() {
    let scratch = Scratch::new("newer");
    scratch.store().save(&memory(&[("curl", &[])]), &[]);
    fs::remove_file(scratch.file()).unwrap();
    file::write_format(&scratch.file(), 2);
    is_set_aside(&scratch, "has format 2");
}

#[test]
fn a_place_that_cannot_be_written_to_is_told_once_and_nothing_else_happens() {
    let scratch = Scratch::new("nowhere");
    fs::write(scratch.0.join("file"), "").unwrap();
    let mut store = Store::in_folder(scratch.0.join("file/headstart"));
    assert_eq!(store.load(), Kept::default());
    assert!(!store.save(&memory(&[("curl", &[])]), &[]) && !store.save(&memory(&[("curl", &[])]), &[]));
    let notes = store.notes();
    assert!(notes.last().is_some_and(|n| n.contains("only in memory")), "{notes:?}");
    assert!(notes.len() <= 2, "{notes:?}");
}

#[test]
fn a_full_disk_pauses_learning_and_is_told_in_one_line() {
    let full = FileError::Full { path: "/state".into(), source: std::io::ErrorKind::StorageFull.into() };
    assert!(!full.is_of_the_file(), "the file is good: it stays");
    let scratch = Scratch::new("full");
    let mut store = scratch.store();
    store.upkeep.note(&full);
    let notes = store.notes();
    assert!(
        matches!(&notes[..], [one] if one.contains("new history is kept only") && !one.contains('\n')),
        "{notes:?}"
    );
}

#[test]
fn what_is_too_old_goes_and_what_is_from_the_future_stays() {
    let scratch = Scratch::new("clock");
    let mut store = scratch.store();
    let learned = memory(&[("curl", &["www.example.org"])]);
    store.wall = || 2_000_000_000;
    store.save(&learned, &[network(1)]);
    // The clock was wrong and is set back.
    let mut store = scratch.store();
    store.wall = || 1_700_000_000;
    let kept = store.load();
    assert_eq!((kept.memory, kept.networks[0].peers[0].used_ago_s), (learned.clone(), 5));
    // A season later.
    let mut store = scratch.store();
    store.wall = || 2_000_000_000 + 91 * 86_400;
    assert_eq!(store.load(), Kept::default());
    assert!(store.save(&memory(&[("git", &[])]), &[]));
    let mut store = scratch.store();
    store.wall = || 2_000_000_000;
    assert_eq!(store.load().memory.programs.len(), 1, "and is gone for good");
}

#[test]
fn a_program_a_host_or_all_of_it_can_be_forgotten() {
    let scratch = Scratch::new("forget");
    let mut learned = memory(&[("curl", &["a.example", "b.example"]), ("git", &["a.example"])]);
    learned.programs[0].names[1].followers.push(Follower { name: "a.example".into(), times: 3, ..Follower::default() });
    scratch.store().save(&learned, &[network(1)]);
    assert_eq!(scratch.store().forget(Some("wget"), None).unwrap(), 0);
    assert_eq!(scratch.store().forget(Some("curl"), Some("A.Example.")).unwrap(), 1);
    let mut kept = scratch.store().load().memory;
    kept.programs.sort_by(|a, b| a.app.cmp(&b.app));
    assert_eq!(kept, memory(&[("curl", &["b.example"]), ("git", &["a.example"])]));
    assert_eq!(scratch.store().forget(Some("git"), None).unwrap(), 1);
    assert_eq!(scratch.store().load().memory, memory(&[("curl", &["b.example"])]));
    assert_eq!(scratch.store().forget(None, None).unwrap(), 2);
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
    assert_eq!(scratch.store().forget(None, None).unwrap(), 0, "there is nothing");
}

#[test]
fn two_supervisors_of_a_user_take_turns() {
    let scratch = Scratch::new("two");
    std::thread::scope(|scope| {
        for app in ["curl", "git", "wget", "ssh"] {
            let mut store = scratch.store();
            scope.spawn(move || {
                for n in 0..10 {
                    let host = format!("{n}.example");
                    assert!(store.save(&memory(&[(app, &[&host])]), &[]), "{:?}", store.notes());
                }
            });
        }
    });
    let mut store = scratch.store();
    let kept = store.load();
    assert_eq!((kept.memory.programs.len(), store.notes()), (4, Vec::new()));
    assert!(kept.memory.programs.iter().all(|p| p.names[0].name == "9.example"));
}

#[test]
fn so_many_peers_of_so_many_networks_have_room_in_a_record() {
    let scratch = Scratch::new("room");
    let mut large = network(1);
    let peer = large.peers[0].clone();
    large.peers = (0..MAX_PEERS_RECORDED as u32)
        .map(|n| PeerRecord { address: std::net::Ipv6Addr::from(u128::MAX - u128::from(n)).into(), ..peer.clone() })
        .collect();
    assert!(scratch.store().save(&Memory::default(), &[large]));
    assert_eq!(scratch.store().load().networks[0].peers.len(), MAX_PEERS_RECORDED);
}

/// Not a test: a supervisor that saves without end, to be killed (`--exact store::tests::saves_until_it_is_killed`).
#[test]
#[ignore = "run by the test below"]
fn saves_until_it_is_killed() {
    let Some(folder) = std::env::var_os("HEADSTART_TEST_STORE") else { return };
    let mut store = Store::in_folder(folder.into());
    println!("begun");
    for n in 0u64.. {
        let host = format!("{n}.example");
        store.save(&memory(&[("curl", &[&host]), ("git", &[&host])]), &[network(n % 8)]);
    }
}

#[test]
fn a_supervisor_that_is_killed_while_it_writes_never_loses_what_was_written() {
    let scratch = Scratch::new("killed");
    let mut saved = false;
    for n in 0..12u64 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::saves_until_it_is_killed", "--include-ignored", "--nocapture"])
            .env("HEADSTART_TEST_STORE", &scratch.0)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Some die before their first record, some in the middle of one.
        Clock::new().sleep(Duration::from_millis(60 + 17 * n));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut store = scratch.store();
        let kept = store.load();
        assert!(store.notes().is_empty(), "{:?}", store.notes());
        assert!(!saved || kept.memory.programs.len() == 2, "what was there is still there");
        saved |= !kept.memory.programs.is_empty();
        // Both were written in one change.
        assert!(kept.memory.programs.windows(2).all(|pair| pair[0].names == pair[1].names));
    }
    let left = |p: &Path| fs::read_dir(p).unwrap().flatten().any(|e| e.file_name() == *"history.redb");
    assert!(!saved || left(&scratch.0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_to_the_bytes_of_a_store_it_is_read_or_set_aside(
        at in any::<proptest::sample::Index>(), with in proptest::collection::vec(any::<u8>(), 1..200), cut in any::<bool>(),
    ) {
        let scratch = Scratch::new("fuzzed");
        scratch.store().save(&memory(&[("curl", &["www.example.org"])]), &[network(1)]);
        let mut bytes = fs::read(scratch.file()).unwrap();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        }
        let end = (at + with.len()).min(bytes.len());
        bytes[at.min(end)..end].copy_from_slice(&with[..end - at.min(end)]);
        fs::write(scratch.file(), &bytes).unwrap();
        let mut store = scratch.store();
        store.load();
        let learned = memory(&[("git", &["git.example.org"])]);
        store.save(&learned, &[]);
        prop_assert!(scratch.store().load().memory.programs.contains(&learned.programs[0]), "{:?}", store.notes());
    }
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn on_a_full_disk_learning_pauses_and_nothing_that_was_kept_is_lost() {
    use crate::sys::mountns::MountNs;
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    let scratch = Scratch::new("disk");
    let in_it = MountNs::copy(|| -> std::io::Result<()> {
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        mount("tmpfs", &scratch.0, "tmpfs", MountFlags::empty(), c"size=3m")?;
        let names: Vec<String> = (0..5000).map(|n| format!("{n}.example")).collect();
        let much = memory(&[("git", &names.iter().map(String::as_str).collect::<Vec<_>>())]);
        let little = memory(&[("curl", &["www.example.org"])]);
        assert!(scratch.store().save(&little, &[]));
        let fill = scratch.0.join("fill");
        // Until nothing goes in any more.
        let mut file = fs::File::create(&fill)?;
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        drop(file);
        let mut store = scratch.store();
        assert_eq!(store.load().memory, little);
        assert!(!store.save(&much, &[]) && !store.save(&much, &[]));
        let notes = store.notes();
        assert!(
            matches!(&notes[..], [one] if one.contains("new history is kept only") && !one.contains('\n')),
            "{notes:?}"
        );
        fs::remove_file(fill)?;
        let mut later = scratch.store();
        assert_eq!(later.load().memory, little, "{:?}", later.notes());
        assert!(later.save(&much, &[]), "{:?}", later.notes());
        Ok(())
    });
    if let Err(why) = in_it {
        eprintln!("skipped: no mount namespace with a file system of its own for this user: {why}");
    }
}

//! How the commands are linked: what makes a bug in them harder to use, read from their ELF headers as the kernel and the dynamic linker
//! read them (elf(5)).
#![forbid(unsafe_code)]

use std::process::Command;

const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");
const LAB: &str = env!("CARGO_BIN_EXE_headstart-lab");

/// A little-endian number in `bytes`.
fn number(bytes: &[u8], at: u64, length: usize) -> u64 {
    let at = usize::try_from(at).unwrap();
    bytes[at..at + length].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Type, flags, place and length in the file, of each segment.
fn segments(bytes: &[u8]) -> Vec<(u64, u64, u64, u64)> {
    assert_eq!(bytes[..6], *b"\x7fELF\x02\x01", "64 bits, little-endian");
    let (first, size, count) = (number(bytes, 32, 8), number(bytes, 54, 2), number(bytes, 56, 2));
    let segment = |n| {
        let at = first + n * size;
        (number(bytes, at, 4), number(bytes, at + 4, 4), number(bytes, at + 8, 8), number(bytes, at + 32, 8))
    };
    (0..count).map(segment).collect()
}

/// What is missing of a hardened program.
fn missing(bytes: &[u8]) -> Vec<&'static str> {
    const SHARED_OBJECT: u64 = 3;
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
    const STACK: u64 = 0x6474_e551;
    const RELRO: u64 = 0x6474_e552;
    const EXECUTABLE: u64 = 1;
    const WRITABLE: u64 = 2;
    const BIND_NOW: u64 = 24;
    const FLAGS: u64 = 30;
    const FLAGS_1: u64 = 0x6fff_fffb;
    let segments = segments(bytes);
    let of = |kind| segments.iter().find(|segment| segment.0 == kind);
    let entries = of(DYNAMIC).map_or(Vec::new(), |(_, _, at, length)| {
        (0..length / 16).map(|n| (number(bytes, at + 16 * n, 8), number(bytes, at + 16 * n + 8, 8))).collect()
    });
    let is_now = entries.iter().any(|(tag, value)| match *tag {
        BIND_NOW => true,
        FLAGS => value & 8 != 0,
        FLAGS_1 => value & 1 != 0,
        _ => false,
    });
    let both = |flags: u64| flags & EXECUTABLE != 0 && flags & WRITABLE != 0;
    let all = [
        (number(bytes, 16, 2) == SHARED_OBJECT, "position-independent (PIE)"),
        (of(STACK).is_some_and(|stack| stack.1 & EXECUTABLE == 0), "stack not executable (NX)"),
        (!segments.iter().any(|segment| segment.0 == LOAD && both(segment.1)), "nothing writable and executable"),
        (of(RELRO).is_some(), "relocations read-only (RELRO)"),
        (is_now, "bound at the start (-z now, full RELRO)"),
    ];
    all.into_iter().filter(|(has, _)| !has).map(|(_, what)| what).collect()
}

#[test]
fn the_commands_are_hardened() {
    // The preloaded library is the one that the commands carry.
    for file in [HEADSTART, env!("CARGO_BIN_EXE_headstart-run"), LAB, env!("HEADSTART_LIBRARY")] {
        assert_eq!(missing(&std::fs::read(file).unwrap()), [""; 0], "{file}");
    }
}

/// The names of functions and data, as they are mangled, one after the other.
fn symbols(bytes: &[u8]) -> String {
    const TABLE_OF_SYMBOLS: u64 = 2;
    let (first, size, count) = (number(bytes, 40, 8), number(bytes, 58, 2), number(bytes, 60, 2));
    let section = |n: u64| first + n * size;
    let table = (0..count).map(section).find(|at| number(bytes, at + 4, 4) == TABLE_OF_SYMBOLS).expect("not stripped");
    let names = section(number(bytes, table + 40, 4));
    let [at, length] = [24, 32].map(|of| usize::try_from(number(bytes, names + of, 8)).unwrap());
    String::from_utf8_lossy(&bytes[at..at + length]).into_owned()
}

#[test]
fn the_command_links_nothing_of_the_lab() {
    let [plain, lab] = [HEADSTART, LAB].map(|file| symbols(&std::fs::read(file).unwrap()));
    for part in ["13headstart_lab", "7smoltcp"] {
        assert!(lab.contains(part), "{part} is not in headstart-lab: this test looks for the wrong name");
        let found: Vec<_> = plain.split('\0').filter(|name| name.contains(part)).collect();
        assert_eq!(found, [""; 0], "{part}");
    }
}

#[test]
fn a_program_without_any_of_it_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("soft.c"), folder.path().join("soft"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let linked = Command::new("cc")
        .args(["-no-pie", "-Wl,-z,norelro", "-Wl,-z,execstack", "-Wl,-z,lazy", "-o"])
        .args([&program, &source])
        .output()
        .unwrap();
    assert!(linked.status.success(), "{linked:?}");
    let missing = missing(&std::fs::read(&program).unwrap());
    assert_eq!(missing.len(), 4, "{missing:?}");
}

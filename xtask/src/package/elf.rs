//! How a program or library is linked: what makes a bug in it harder to use and what it carries, read from its ELF headers as the kernel
//! and the dynamic linker read them (elf(5)). Of packages, every build is looked at; of what is being worked on, `--test hardening` is.

/// A segment of a program: what the kernel maps.
struct Segment {
    kind: u64,
    flags: u64,
    at: u64,
    length: u64,
}

/// A section of a file: what the linker has put together.
struct Section {
    kind: u64,
    /// It is in memory when the program runs (SHF_ALLOC).
    is_loaded: bool,
    at: u64,
    length: u64,
    /// Where its name is in the table of names.
    name: u64,
    /// The number of the section that belongs to it.
    link: u64,
}

/// A little-endian number in `bytes`; 0 where there are none.
fn number(bytes: &[u8], at: u64, length: usize) -> u64 {
    let found = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(length)?));
    found.unwrap_or_default().iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Bytes of a file that a header names; none where the file has them not.
fn part(bytes: &[u8], at: u64, length: u64) -> &[u8] {
    let range = usize::try_from(at).ok().zip(usize::try_from(at.saturating_add(length)).ok());
    range.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default()
}

fn segments(bytes: &[u8]) -> Vec<Segment> {
    let (first, size, count) = (number(bytes, 32, 8), number(bytes, 54, 2), number(bytes, 56, 2));
    let segment = |n| {
        let at = first + n * size;
        let [kind, flags] = [0, 4].map(|of| number(bytes, at + of, 4));
        Segment { kind, flags, at: number(bytes, at + 8, 8), length: number(bytes, at + 32, 8) }
    };
    (0..count).map(segment).collect()
}

fn sections(bytes: &[u8]) -> Vec<Section> {
    let (first, size, count) = (number(bytes, 40, 8), number(bytes, 58, 2), number(bytes, 60, 2));
    let section = |n| {
        let at = first + n * size;
        let [name, kind, link] = [0, 4, 40].map(|of| number(bytes, at + of, 4));
        let is_loaded = number(bytes, at + 8, 8) & 2 != 0;
        Section { kind, is_loaded, at: number(bytes, at + 24, 8), length: number(bytes, at + 32, 8), name, link }
    };
    (0..count).map(section).collect()
}

/// What is missing of a hardened program or library.
pub fn missing(bytes: &[u8]) -> Vec<&'static str> {
    const SHARED_OBJECT: u64 = 3;
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
    const STACK: u64 = 0x6474_e551;
    const RELRO: u64 = 0x6474_e552;
    const EXECUTABLE: u64 = 1;
    const WRITABLE: u64 = 2;
    const TEXT_RELOCATIONS: u64 = 22;
    const BIND_NOW: u64 = 24;
    const FLAGS: u64 = 30;
    const FLAGS_1: u64 = 0x6fff_fffb;
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
        return vec!["an ELF file of 64 bits, little-endian"];
    }
    let segments = segments(bytes);
    let of = |kind| segments.iter().find(|segment| segment.kind == kind);
    let entries: Vec<_> = of(DYNAMIC).map_or(Vec::new(), |segment| {
        let entry = |n| (number(bytes, segment.at + 16 * n, 8), number(bytes, segment.at + 16 * n + 8, 8));
        (0..segment.length / 16).map(entry).collect()
    });
    let is_now = entries.iter().any(|(tag, value)| match *tag {
        BIND_NOW => true,
        FLAGS => value & 8 != 0,
        FLAGS_1 => value & 1 != 0,
        _ => false,
    });
    let writes_code = entries.iter().any(|(tag, value)| match *tag {
        TEXT_RELOCATIONS => true,
        FLAGS => value & 4 != 0,
        _ => false,
    });
    let both = |flags: u64| flags & EXECUTABLE != 0 && flags & WRITABLE != 0;
    let all = [
        (number(bytes, 16, 2) == SHARED_OBJECT, "position-independent (PIE)"),
        (of(STACK).is_some_and(|stack| stack.flags & EXECUTABLE == 0), "stack not executable (NX)"),
        (
            !segments.iter().any(|segment| segment.kind == LOAD && both(segment.flags)),
            "nothing writable and executable",
        ),
        (of(RELRO).is_some(), "relocations read-only (RELRO)"),
        (is_now, "bound at the start (-z now, full RELRO)"),
        (!writes_code, "no relocations in code"),
    ];
    all.into_iter().filter(|(has, _)| !has).map(|(_, what)| what).collect()
}

/// The names of functions and data that a file defines, as they are mangled, one after the other; none where they were stripped.
pub fn symbols(bytes: &[u8]) -> Option<String> {
    const TABLE_OF_SYMBOLS: u64 = 2;
    names(bytes, TABLE_OF_SYMBOLS)
}

/// The names that the dynamic linker looks up in a file or for it.
pub fn dynamic_symbols(bytes: &[u8]) -> Option<String> {
    const TABLE_OF_DYNAMIC_SYMBOLS: u64 = 11;
    names(bytes, TABLE_OF_DYNAMIC_SYMBOLS)
}

fn names(bytes: &[u8], kind: u64) -> Option<String> {
    let sections = sections(bytes);
    let table = sections.iter().find(|section| section.kind == kind)?;
    let of = sections.get(usize::try_from(table.link).ok()?)?;
    Some(String::from_utf8_lossy(part(bytes, of.at, of.length)).into_owned())
}

/// The sections of a file that only debuggers read. Not what is loaded, as the line in which the standard library names scripts of gdb
/// (`.debug_gdb_scripts`): strip(1) leaves it.
pub fn of_debuggers(bytes: &[u8]) -> Vec<String> {
    let sections = sections(bytes);
    let names = usize::try_from(number(bytes, 62, 2)).ok().and_then(|n| sections.get(n));
    let names = names.map_or(&[][..], |of| part(bytes, of.at, of.length));
    let name = |section: &Section| {
        let rest = usize::try_from(section.name).ok().and_then(|at| names.get(at..)).unwrap_or_default();
        String::from_utf8_lossy(rest.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
    };
    sections.iter().filter(|section| !section.is_loaded).map(name).filter(|name| name.starts_with(".debug")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::process::Command;

    const TEXT: &str =
        "int puts(const char *);\nint named(void) { return puts(\"x\"); }\nint main(void) { return named(); }\n";

    fn linked(name: &str, flags: &[&str]) -> Vec<u8> {
        compiled(TEXT, name, flags)
    }

    /// A program of this text by the C compiler of this host, with these flags.
    pub fn compiled(text: &str, name: &str, flags: &[&str]) -> Vec<u8> {
        let folder = std::env::temp_dir().join(format!("headstart-elf-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, program) = (folder.join("it.c"), folder.join("it"));
        std::fs::write(&source, text).unwrap();
        let output = Command::new("cc").args(flags).arg("-o").args([&program, &source]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let bytes = std::fs::read(&program).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        bytes
    }

    #[test]
    fn a_program_without_any_of_it_is_told_apart() {
        let soft = linked("soft", &["-no-pie", "-Wl,-z,norelro", "-Wl,-z,execstack", "-Wl,-z,lazy"]);
        assert_eq!(missing(&soft).len(), 4, "{:?}", missing(&soft));
        let hard = linked("hard", &["-fPIE", "-pie", "-Wl,-z,relro,-z,now"]);
        assert_eq!(missing(&hard), [""; 0]);
        assert_eq!(missing(b"#!/bin/sh\n").len(), 1, "not a program at all");
        assert_eq!(missing(&hard[..100]).len(), 3, "cut short: what its tables say is not there");
    }

    #[test]
    fn relocations_in_code_are_told() {
        // GNU ld and lld both make them where they are asked to.
        let flags = ["-shared", "-fno-pic", "-mcmodel=large", "-Wl,-z,notext", "-Wl,-z,now"];
        if cfg!(target_arch = "x86_64") {
            assert!(missing(&linked("text", &flags)).contains(&"no relocations in code"));
        }
    }

    #[test]
    fn what_only_debuggers_read_is_told_and_stripping_takes_it() {
        let whole = linked("whole", &["-g"]);
        assert!(symbols(&whole).unwrap().contains("named"));
        assert!(of_debuggers(&whole).contains(&".debug_info".to_owned()));
        let stripped = linked("stripped", &["-g", "-s"]);
        assert_eq!((symbols(&stripped), of_debuggers(&stripped)), (None, Vec::new()));
        assert!(dynamic_symbols(&stripped).unwrap().split('\0').any(|name| name == "puts"));
        let scripts = "__attribute__((section(\".debug_gdb_scripts\"), used)) const char scripts[] = \"x\";\n";
        let loaded = compiled(&format!("{scripts}{TEXT}"), "loaded", &["-s"]);
        let has_it = |bytes: &[u8]| bytes.windows(18).any(|part| part == b".debug_gdb_scripts");
        assert_eq!((has_it(&loaded), of_debuggers(&loaded)), (true, Vec::new()));
    }
}

//! How the commands are linked: what makes a bug in them harder to use, and that the plain one has nothing of the lab. Packages are looked
//! at in the same way when they are made (`cargo xtask package`).
#![forbid(unsafe_code)]

#[path = "../../../xtask/src/package/elf.rs"]
#[allow(dead_code)]
mod elf;

const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");
const LAB: &str = env!("CARGO_BIN_EXE_headstart-lab");

#[test]
fn the_commands_are_hardened() {
    // The preloaded library is the one that the commands carry.
    for file in [HEADSTART, env!("CARGO_BIN_EXE_headstart-run"), LAB, env!("HEADSTART_LIBRARY")] {
        assert_eq!(elf::missing(&std::fs::read(file).unwrap()), [""; 0], "{file}");
    }
}

#[test]
fn the_command_links_nothing_of_the_lab() {
    let [plain, lab] = [HEADSTART, LAB].map(|file| elf::symbols(&std::fs::read(file).unwrap()).expect("not stripped"));
    for part in ["13headstart_lab", "7parquet"] {
        assert!(lab.contains(part), "{part} is not in headstart-lab: this test looks for the wrong name");
        let found: Vec<_> = plain.split('\0').filter(|name| name.contains(part)).collect();
        assert_eq!(found, [""; 0], "{part}");
    }
}

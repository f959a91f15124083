//! What is shipped, looked at before it is packed: programs and libraries are linked so that a bug in them is harder to use ([`elf`]), are
//! stripped, and are not larger than is said here.

use super::{elf, failed};
use crate::Failure;
use std::path::Path;

/// A program or library of the packages.
struct Shipped {
    file: &'static str,
    /// What it may have at most, in bytes. docs/results/packages.md says what it has.
    most: u64,
    /// Whether C is compiled into it whose stacks are guarded: programs have such functions of ring, of the library it is not known.
    is_guarded: bool,
}

const ALL: [Shipped; 4] = [
    Shipped { file: "target/dist/headstart", most: 18_500_000, is_guarded: true },
    Shipped { file: "target/dist/headstart-run", most: 2_000_000, is_guarded: false },
    Shipped { file: "target/dist/headstart-lab", most: 20_500_000, is_guarded: true },
    Shipped { file: "target/stage/realtime/usr/lib/libheadstart_realtime.so", most: 1_500_000, is_guarded: false },
];

/// Looks at all of it, and says how large each is.
pub fn check(root: &Path) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for shipped in &ALL {
        let file = root.join(shipped.file);
        let bytes = std::fs::read(&file).map_err(|e| failed(&file, &e))?;
        println!("xtask: {}: {} bytes", shipped.file, bytes.len());
        wrong.extend(complaints(shipped, &bytes).into_iter().map(|what| format!("{}: {what}", shipped.file)));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Failed(wrong.join("\n"))) }
}

fn complaints(shipped: &Shipped, bytes: &[u8]) -> Vec<String> {
    let mut all: Vec<String> = elf::missing(bytes).into_iter().map(|what| format!("missing: {what}")).collect();
    all.extend(elf::of_debuggers(bytes).into_iter().map(|name| format!("{name} is for debuggers alone: not stripped")));
    all.extend(elf::symbols(bytes).map(|_| "its functions have names: not stripped".to_owned()));
    let asks = elf::dynamic_symbols(bytes).unwrap_or_default();
    if shipped.is_guarded && !asks.split('\0').any(|name| name == "__stack_chk_fail") {
        all.push("no stack of its C is guarded (-fstack-protector-strong)".to_owned());
    }
    if bytes.len() as u64 > shipped.most {
        all.push(format!("{} bytes, at most {} are wanted", bytes.len(), shipped.most));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::elf::tests::compiled;
    use super::*;

    const GUARDED: &[&str] = &["-fPIE", "-pie", "-s", "-Wl,-z,relro,-z,now", super::super::GUARDED];

    fn linked(name: &str, flags: &[&str]) -> Vec<u8> {
        let text = "char *getwd(char *);\nint main(void) { char line[4096]; return getwd(line) != 0; }\n";
        compiled(text, &format!("shipped-{name}"), flags)
    }

    #[test]
    fn what_is_soft_or_whole_or_large_or_unguarded_is_not_shipped() {
        let shipped = |most| Shipped { file: "it", most, is_guarded: true };
        let good = linked("good", GUARDED);
        assert_eq!(complaints(&shipped(good.len() as u64), &good), [""; 0]);
        let told = |flags: &[&str], most: u64| complaints(&shipped(most), &linked("bad", flags)).join("\n");
        let large = told(GUARDED, good.len() as u64 - 1);
        assert!(large.contains("are wanted") && !large.contains('\n'), "{large}");
        let unguarded = told(&[GUARDED, &["-fno-stack-protector"]].concat(), u64::MAX);
        assert!(unguarded.contains("guarded") && !unguarded.contains('\n'), "{unguarded}");
        let whole: Vec<_> = GUARDED.iter().filter(|flag| **flag != "-s").copied().chain(["-g"]).collect();
        let told_of_it = told(&whole, u64::MAX);
        assert!(told_of_it.contains(".debug_info is for debuggers alone") && told_of_it.contains("have names"));
        assert!(
            told(&["-no-pie", "-s", "-fstack-protector-strong"], u64::MAX).contains("missing: position-independent")
        );
    }
}

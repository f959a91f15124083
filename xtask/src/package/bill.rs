//! The bill of materials beside the packages: what the programs are made of, in CycloneDX 1.5, from what cargo(1) resolves for them and
//! the check sums of Cargo.lock. Tests and build tools are not in it.

use super::{Commit, failed, version};
use crate::Failure;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Writes it.
pub fn write(root: &Path, commit: &Commit, to: &Path) -> Result<(), Failure> {
    let words = ["tree", "--locked", "-p", "headstart", "-e", "normal", "--prefix", "none", "--format", "{p}|{l}"];
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo).args(words).current_dir(root).output().map_err(|e| failed(root, &e))?;
    if !output.status.success() {
        return Err(Failure::Failed(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim())));
    }
    let lock = root.join("Cargo.lock");
    let sums = std::fs::read_to_string(&lock).map_err(|e| failed(&lock, &e))?;
    let text = bill(&String::from_utf8_lossy(&output.stdout), &sums, &version(root)?, commit);
    std::fs::write(to, text).map_err(|e| failed(to, &e))
}

fn bill(tree: &str, lock: &str, version: &str, commit: &Commit) -> String {
    let parts: BTreeSet<String> = tree.lines().filter_map(|line| component(line, lock)).collect();
    format!(
        "{{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\"metadata\":{{\"component\":{{\"type\":\"application\",\
         \"name\":\"headstart\",\"version\":\"{version}\",\"properties\":[{{\"name\":\"commit\",\"value\":\"{}\"}}]}}}},\"components\":[\n{}\n]}}\n",
        commit.hash,
        parts.into_iter().collect::<Vec<_>>().join(",\n")
    )
}

/// A line `NAME vVERSION [(…)]|LICENCE` of the tree.
fn component(line: &str, lock: &str) -> Option<String> {
    let (package, licence) = line.split_once('|')?;
    let (name, rest) = package.split_once(" v")?;
    let version = rest.split(' ').next()?;
    // Says that a package is shown above.
    let licence = licence.trim_end_matches(" (*)");
    let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let of_it = lock.split("[[package]]\n").find(|package| package.starts_with(&entry))?;
    let sum = of_it.lines().find_map(|line| line.strip_prefix("checksum = \"")?.strip_suffix('"'));
    let sum = sum.map(|sum| format!(",\"hashes\":[{{\"alg\":\"SHA-256\",\"content\":\"{sum}\"}}]")).unwrap_or_default();
    Some(format!(
        "{{\"type\":\"library\",\"name\":\"{name}\",\"version\":\"{version}\",\"purl\":\"pkg:cargo/{name}@{version}\",\
         \"licenses\":[{{\"expression\":\"{}\"}}]{sum}}}",
        licence.replace('/', " OR ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_in_the_bill_once_with_its_sum_and_its_licence() {
        let tree = "headstart v0.1.0 (/x/crates/cli)|MIT OR Apache-2.0\nanyhow v1.0.9|MIT/Apache-2.0\nanyhow v1.0.9|MIT/Apache-2.0 (*)\n";
        let lock = "version = 4\n\n[[package]]\nname = \"anyhow\"\nversion = \"1.0.9\"\nsource = \"x\"\nchecksum = \"abcd\"\n\n\
                    [[package]]\nname = \"headstart\"\nversion = \"0.1.0\"\n";
        let text = bill(tree, lock, "0.1.0", &Commit { hash: "f00d".into(), time: "0".into() });
        assert_eq!(text.matches("pkg:cargo/anyhow@1.0.9").count(), 1, "{text}");
        assert!(text.contains("\"content\":\"abcd\"") && text.contains("MIT OR Apache-2.0") && text.contains("f00d"));
        assert!(!text.contains("/x/") && text.contains("pkg:cargo/headstart@0.1.0"), "{text}");
    }
}

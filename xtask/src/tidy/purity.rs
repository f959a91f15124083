//! Pure floors do no input or output, start no thread and read no clock, not even through the standard library.
//!
//! Addresses (`std::net::IpAddr` and its kin) and traits of `std::io` are values and allowed.

use super::Violation;
use super::floors::PURE;
use crate::source::{code_only, paths_from, production, production_lines};
use crate::tree::Tree;

/// Modules of `std` that act on the world.
const ACTING: &[&str] = &["env", "fs", "os", "process", "thread"];
/// Types that act on the world, wherever they come from.
const SOCKETS: &[&str] = &["TcpStream", "TcpListener", "UdpSocket", "UnixStream", "UnixListener", "UnixDatagram"];

/// Finds every use of them in production code.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let Some(floor) = PURE.iter().find(|floor| file.path.starts_with(&format!("crates/{floor}/src/"))) else {
            continue;
        };
        let code = code_only(&file.text);
        let end = production_lines(&code);
        let named = paths_from(&code, "std").into_iter().filter_map(|(line, path)| Some((line, path.get(1)?.clone())));
        let mut acts: Vec<_> = named.filter(|(line, head)| *line <= end && ACTING.contains(&head.as_str())).collect();
        for (line, text) in production(&code) {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            acts.extend(words.filter(|word| SOCKETS.contains(word)).map(|word| (line, word.to_owned())));
        }
        acts.sort();
        acts.dedup();
        for (line, act) in acts {
            let what = format!("`{floor}` is pure, `{act}` acts on the world: do it in io and pass the result in");
            found.push(Violation::at(&file.path, line, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn files_threads_and_sockets_are_found() {
        let text = "use std::fs;\nuse std::{net::IpAddr, thread};\nfn f(_: std::net::UdpSocket) {}\n";
        assert_eq!(lines("crates/core/src/wire.rs", text), [1, 2, 3]);
    }

    #[test]
    fn addresses_traits_tests_and_other_floors_are_fine() {
        let text = "use std::net::{IpAddr, SocketAddr};\nuse std::io::Read;\n#[cfg(test)]\nmod t {\nuse std::fs;\n}\n";
        assert_eq!(lines("crates/link/src/trace.rs", text), []);
        assert_eq!(lines("crates/io/src/files.rs", "use std::fs;\n"), []);
    }
}

//! The engine alone, as an app carries it: `headstart-engine SOCKET` is `headstart engine --socket SOCKET` without the other verbs.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(socket), None) = (words.next(), words.next()) else {
        eprintln!("usage: headstart-engine SOCKET");
        return ExitCode::from(2);
    };
    match headstart_io::engine::serve(&socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("headstart-engine: {why}");
            ExitCode::FAILURE
        }
    }
}

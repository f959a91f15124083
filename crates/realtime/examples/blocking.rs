//! The same without async: a server thread sends each message back, the program counts them.
//!
//! `cargo run -p headstart-realtime --example blocking`. Over loopback.
#![forbid(unsafe_code)]

use headstart_realtime::blocking::{Listener, Session};
use headstart_realtime::{Config, Kind};

const MESSAGES: u64 = 100;

/// How many came back as they were sent.
fn talk() -> Result<u64, Box<dyn std::error::Error>> {
    let listener = Listener::bind("127.0.0.1:0")?;
    let address = listener.address().ok_or("it listens nowhere")?.to_string();
    let server = std::thread::spawn(move || {
        let session = listener.accept()?;
        while let Some(message) = session.receive() {
            session.send(message.lane, message.kind, message.key, &message.bytes).ok()?;
        }
        Some(())
    });
    let session = Session::connect(&address, Config::default())?;
    let mut back = 0;
    for n in 0..MESSAGES {
        session.send(0, Kind::Ordered, 0, &n.to_be_bytes())?;
        let message = session.receive().ok_or("the session ended")?;
        back += u64::from(message.bytes == n.to_be_bytes());
    }
    session.close();
    server.join().map_err(|_| "the server panicked")?;
    Ok(back)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{} of {MESSAGES} messages came back in order", talk()?);
    Ok(())
}

#[test]
fn all_come_back() {
    assert_eq!(talk().unwrap(), MESSAGES);
}

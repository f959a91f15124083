//! A client that never ends what it has begun to say: it is refused before it fills anybody's memory.

use crate::client::connected;
use crate::scene::{Scratch, Server};

/// A HEADERS frame of 2^30 bytes (RFC 9114, section 7.1: type, length), of which none ever completes it.
const ENDLESS: [u8; 9] = [0x01, 0xc0, 0, 0, 0, 0x40, 0, 0, 0];
/// A control stream (section 6.2.1) whose SETTINGS are of that length.
const CONTROL: [u8; 10] = [0x00, 0x04, 0xc0, 0, 0, 0, 0x40, 0, 0, 0];
/// H3_EXCESSIVE_LOAD: section 8.1.
const EXCESSIVE: u32 = 0x107;
/// More than anybody has to listen to: what is taken in, and twice a window of flow control.
const MOST: u64 = 1 << 20;

/// Writes for ever; how much was written until that was refused, and why.
async fn flood(send: &mut quinn::SendStream, begin: &[u8]) -> (u64, quinn::WriteError) {
    send.write_all(begin).await.unwrap();
    let mut written = 0;
    loop {
        match send.write(&[0; 16 * 1024]).await {
            Ok(some) => written += some as u64,
            Err(why) => return (written, why),
        }
        assert!(written <= MOST, "{written} bytes of an unfinished frame were taken in");
    }
}

#[test]
fn what_never_ends_is_refused_and_others_are_served() {
    let scratch = Scratch::new();
    scratch.file("file.bin", 1000);
    let server = Server::start(scratch, &[]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let connection = connected(&server).await;
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        let (_, why) = flood(&mut send, &ENDLESS).await;
        assert!(matches!(why, quinn::WriteError::Stopped(code) if code == EXCESSIVE.into()), "{why:?}");
        // Without its control stream a connection is nothing (section 6.2.1): it ends, or the stream does.
        let mut send = connection.open_uni().await.unwrap();
        let (_, why) = flood(&mut send, &CONTROL).await;
        assert!(matches!(why, quinn::WriteError::Stopped(_) | quinn::WriteError::ConnectionLost(_)), "{why:?}");
    });
    let told = &server.get(&server.url("file.bin"), &server.scratch.path("f"), &["--http", "3"]).objects()[0];
    assert_eq!(told["bytes"], 1000);
}

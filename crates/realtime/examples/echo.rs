//! Both ends of a session in one program, with async: a hundred positions of which only the newest counts, and a message that must come.
//!
//! `cargo run -p headstart-realtime --example echo`. Over loopback.
#![forbid(unsafe_code)]

use headstart_realtime::{Config, Kind, Listener, Session};

/// The answer to the order, the newest position that the server knows, and how many of them came.
async fn talk() -> Result<(String, String, u32), Box<dyn std::error::Error>> {
    let listener = Listener::bind("127.0.0.1:0").await?;
    let address = listener.address().ok_or("it listens nowhere")?;
    let server = tokio::spawn(async move {
        let session = listener.accept().await?;
        let (mut newest, mut came) = (Vec::new(), 0);
        while let Some(message) = session.receive().await {
            match message.kind {
                Kind::Latest => (newest, came) = (message.bytes, came + 1),
                _ => {
                    // The same lane back.
                    let _ = session.lane(message.lane, message.kind).send(&message.bytes).await;
                    break;
                }
            }
        }
        session.close().await;
        Some((String::from_utf8_lossy(&newest).into_owned(), came))
    });

    let session = Session::connect(address, Config::default()).await?;
    let (positions, orders) = (session.lane(0, Kind::Latest), session.lane(1, Kind::Ordered));
    for x in 1..=100 {
        positions.send_value(1, format!("x={x}").as_bytes()).await?;
    }
    // Lanes do not wait for each other.
    session.delivered().await;
    orders.send(b"stop").await?;
    let answer = session.receive().await.ok_or("no answer")?;
    let (newest, came) = server.await?.ok_or("no session")?;
    Ok((String::from_utf8_lossy(&answer.bytes).into_owned(), newest, came))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (answer, newest, came) = talk().await?;
    println!("answer: {answer}\nnewest position: {newest}");
    println!("{came} of 100 positions came; the others were overtaken");
    Ok(())
}

#[tokio::test]
async fn the_newest_position_and_the_order_arrive() {
    let (answer, newest, came) = talk().await.unwrap();
    assert_eq!((answer.as_str(), newest.as_str()), ("stop", "x=100"));
    assert!((1..=100).contains(&came), "{came}");
}

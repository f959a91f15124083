//! Tokens as quinn seals and opens them, and one that a real client carries from one server to another.

use super::*;
use crate::tests::{configurations, until};
use crate::{Clock, Medium, NetworkId, Options, Sample, Store};
use headstart_core::cwnd::history::{Outcome, Trust};
use headstart_core::time::Duration;
use quinn::{ClientConfig, Endpoint, ServerConfig};

const SECOND: Duration = Duration::from_secs(1);

/// A server's memory, whose clock says 2023; they share the key, not the secret.
fn server(secret: u8) -> CarefulResume {
    let clock = Clock::new(TokioRuntime.now(), Duration::from_secs(1_700_000_000));
    CarefulResume::with_options(Store::new(clock, [secret; 16]), Options::default())
}

fn now(memory: &CarefulResume) -> Instant {
    memory.clock().moment(TokioRuntime.now())
}

fn key() -> Arc<dyn HandshakeTokenKey> {
    Arc::new(ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(&[9; 32]))
}

fn teach(memory: &CarefulResume, at: Instant, remote: IpAddr) {
    let (rtt, rate) = (Duration::from_millis(40), 12_000_000);
    let (outcome, medium) = (Outcome::Clean, Medium::Wired);
    let (window, carried, limited, shared) = (480_000, 480_000, false, false);
    let sample = Sample { window, carried, rtt, rate, loss: 0.0, limited, shared, outcome, medium };
    memory.with(|history| history.learn(at, NetworkId::default(), remote, &sample));
}

fn known(memory: &CarefulResume, remote: IpAddr) -> Option<(u64, Trust)> {
    let now = now(memory);
    let known = memory.with(|history| history.recall(now, NetworkId::default(), remote))?;
    Some((known.trust.of(known.window), known.trust))
}

/// A token for `remote` as quinn has it before it is sealed.
fn plain(remote: IpAddr) -> Vec<u8> {
    let address = match remote {
        IpAddr::V4(ip) => [&[1, 0], &ip.octets()[..]].concat(),
        IpAddr::V6(ip) => [&[1, 1], &ip.octets()[..]].concat(),
    };
    [&address[..], &1_700_000_000u64.to_be_bytes()].concat()
}

fn sealed(memory: &CarefulResume, remote: IpAddr, name: u8) -> Vec<u8> {
    let mut token = plain(remote);
    memory.carried(key()).aead_from_hkdf(&[name; 16]).seal(&mut token, &[]).unwrap();
    token
}

fn opened(by: &dyn HandshakeTokenKey, token: &[u8], name: u8) -> Option<Vec<u8>> {
    let mut token = token.to_vec();
    by.aead_from_hkdf(&[name; 16]).open(&mut token, &[]).ok().map(|plain| plain.to_vec())
}

#[test]
fn what_one_server_knows_of_a_client_the_next_one_knows_at_half_the_window() {
    for remote in ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap()) {
        let (first, second) = (server(1), server(2));
        let empty = sealed(&first, remote, 1);
        teach(&first, now(&first), remote);
        let token = sealed(&first, remote, 2);
        assert_eq!(empty.len(), token.len(), "its length does not say whether there is a record");
        let by = second.carried(key());
        assert_eq!(opened(&*by, &empty, 1), Some(plain(remote)));
        assert_eq!(known(&second, remote), None);
        assert_eq!(opened(&*by, &token, 2), Some(plain(remote)), "quinn has what it has sealed");
        assert_eq!(known(&second, remote), Some((240_000, Trust::Fleet)));
        let neighbour = ["192.0.2.77", "2001:db8::77"].map(|ip| ip.parse().unwrap())[usize::from(remote.is_ipv6())];
        assert_eq!(known(&second, neighbour), Some((120_000, Trust::FleetPrefix)));
    }
}

#[test]
fn a_token_that_is_changed_or_of_another_key_brings_nothing_and_one_without_a_record_is_a_token() {
    let (first, second, remote) = (server(1), server(2), IpAddr::from([192, 0, 2, 1]));
    teach(&first, now(&first), remote);
    let mut token = sealed(&first, remote, 2);
    let by = second.carried(key());
    assert_eq!(opened(&*by, &token, 3), None, "another name is another key");
    token[20] ^= 1;
    assert_eq!(opened(&*by, &token, 2), None);
    assert_eq!(known(&second, remote), None);
    let mut bare = plain(remote);
    key().aead_from_hkdf(&[4; 16]).seal(&mut bare, &[]).unwrap();
    assert_eq!(opened(&*by, &bare, 4), Some(plain(remote)));
    // A Retry's names an address, too.
    let mut retry = [&[0], &plain(remote)[1..]].concat();
    let sent = retry.clone();
    by.aead_from_hkdf(&[5; 16]).seal(&mut retry, &[]).unwrap();
    assert_eq!(opened(&*key(), &retry, 5), Some(sent), "nothing is added to it");
}

#[test]
fn a_token_is_used_once_and_what_has_misled_does_not_come_back_with_another() {
    let (first, second, remote) = (server(1), server(2), IpAddr::from([192, 0, 2, 1]));
    teach(&first, now(&first), remote);
    let tokens = [2, 3].map(|name| sealed(&first, remote, name));
    let by = second.carried(key());
    assert!(opened(&*by, &tokens[0], 2).is_some() && known(&second, remote).is_some());
    second.with(|history| history.flush());
    assert!(opened(&*by, &tokens[0], 2).is_some(), "whether it is a token that is still good, quinn decides");
    assert_eq!(known(&second, remote), None);
    let keys = second.with(|history| history.keys(NetworkId::default(), remote));
    second.has_misled(keys, now(&second));
    assert!(opened(&*by, &tokens[1], 3).is_some());
    assert_eq!(known(&second, remote), None);
    // What was learned after that is another matter.
    let later = now(&second) + SECOND;
    second.bring(later + SECOND, remote, &Record { at: later, ..record(&first, remote) }.encode());
    assert!(second.with(|history| history.recall(later + SECOND, NetworkId::default(), remote)).is_some());
}

fn record(memory: &CarefulResume, remote: IpAddr) -> Record {
    memory.with(|history| *history.record(history.keys(NetworkId::default(), remote).exact).unwrap())
}

#[test]
fn what_is_old_is_not_carried_and_what_a_server_knows_itself_is_not_replaced() {
    let (first, second, remote) = (server(1), server(2), IpAddr::from([192, 0, 2, 1]));
    teach(&first, now(&first), remote);
    let learned = record(&first, remote);
    let carried = learned.encode();
    let lifetime = first.with(|history| history.settings().lifetime(learned.medium));
    let third = server(3);
    third.bring(learned.at + lifetime, remote, &carried);
    assert!(!third.with(|history| history.is_empty()), "it is good to the last");
    let later = now(&second) + Duration::from_secs(7200);
    assert_eq!(first.to_carry(later, remote), None);
    second.bring(later, remote, &carried);
    assert!(second.with(|history| history.is_empty()));
    teach(&second, now(&second), remote);
    second.bring(now(&second), remote, &Record { window: 9_000_000, ..record(&first, remote) }.encode());
    assert_eq!(known(&second, remote), Some((480_000, Trust::Exact)));
}

#[test]
fn of_what_is_remembered_to_be_used_the_newest_stay() {
    let mut recent = Recent::default();
    let all = 3 * REMEMBERED;
    assert!((0..all).all(|n| recent.insert(n, ()).is_none()));
    assert!((all - REMEMBERED..all).all(|n| recent.get(&n).is_some()) && recent.get(&0).is_none());
    assert!(recent.new.len() + recent.old.len() <= 2 * REMEMBERED);
}

/// The server's end of one connection, after which it has learned of the path or not.
async fn served(endpoint: &Endpoint, memory: &CarefulResume, config: &ServerConfig) -> Option<(u64, Trust)> {
    let incoming = endpoint.accept().await.unwrap();
    // The token was opened by now.
    let begins_with = known(memory, incoming.remote_address().ip());
    let connection = memory.accept(incoming, config).unwrap().await.unwrap();
    let mut stream = connection.accept_bi().await.unwrap().0;
    stream.write_all(&[7; 300_000]).await.unwrap();
    stream.finish().unwrap();
    connection.closed().await;
    begins_with
}

async fn fetch(client: &Endpoint, config: &ClientConfig, to: &Endpoint) {
    let connection = client.connect_with(config.clone(), to.local_addr().unwrap(), "localhost").unwrap().await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(b"?").await.unwrap();
    assert_eq!(receive.read_to_end(1 << 20).await.unwrap().len(), 300_000);
    connection.close(0u8.into(), b"");
}

#[tokio::test]
async fn a_real_client_carries_the_learned_its_path_to_a_server_that_never_saw_it() {
    let (config, client_config) = configurations();
    let memories = [server(1), server(2)];
    let configs = memories.each_ref().map(|memory| {
        let mut config = config.clone();
        let mut tokens = quinn::ValidationTokenConfig::default();
        tokens.log(Arc::new(quinn::BloomTokenLog::default()));
        config.token_key(memory.carried(key())).validation_token_config(tokens);
        config
    });
    let endpoints = configs.each_ref().map(|c| Endpoint::server(c.clone(), ([127, 0, 0, 1], 0).into()).unwrap());
    let client = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let from = client.local_addr().unwrap().ip();
    for visit in 0..3 {
        let (served, ()) = tokio::join!(
            served(&endpoints[0], &memories[0], &configs[0]),
            fetch(&client, &client_config, &endpoints[0])
        );
        assert_eq!(served.is_some(), visit > 0);
        until(|| known(&memories[0], from).is_some()).await;
    }
    let elsewhere = served(&endpoints[1], &memories[1], &configs[1]);
    let (begins_with, ()) = tokio::join!(elsewhere, fetch(&client, &client_config, &endpoints[1]));
    let (window, trust) = begins_with.expect("it came with the client");
    assert!(window > 0 && trust == Trust::Fleet, "{window} {trust:?}");
}

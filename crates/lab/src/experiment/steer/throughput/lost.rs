//! A channel that is lost in mid-transfer, without notice: for how long nothing arrives.
//!
//! Frames of the channel go to an Ethernet address that no host has, both ways, until it is put back.

use super::rig::Rig;
use crate::experiment::measure::throughput;
use headstart_core::steer::Channel;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::Netlink;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// The transfer runs for so long before the channel goes, and the channel is gone for so long.
const BEFORE: Duration = Duration::from_millis(600);
const GONE: Duration = Duration::from_millis(1_500);
/// And on from there.
const AFTER: Duration = Duration::from_millis(900);
/// A piece of the stream, and one every so often: 0.8 Mbit/s, which either channel has room for.
const PIECE: [u8; 1_000] = [7; 1_000];
const EVERY: Duration = Duration::from_millis(10);

/// Sends a piece now and then to each client, for as long as it listens.
pub fn serve(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        std::thread::spawn(move || {
            let (mut stream, clock) = (stream, Clock::new());
            let _ = stream.set_nodelay(true);
            while stream.write_all(&PIECE).is_ok() {
                clock.sleep(EVERY);
            }
        });
    }
}

/// A transfer from the gateway while `channel` goes and comes back: for how long nothing arrived at most, in ms. A connection
/// that is lost is an error. A `download` asks for as much as goes, a stream for nothing.
pub fn stall(rig: &Rig, from: SocketAddr, channel: Channel, download: bool) -> anyhow::Result<f64> {
    let clock = Clock::new();
    let mut stream = rig.host.run(|| TcpStream::connect(from))??;
    if download {
        stream.write_all(&[throughput::DOWN])?;
    }
    let until = clock.now() + BEFORE + GONE + AFTER;
    let reader = std::thread::spawn(move || arrivals(&mut stream, clock, until));
    clock.sleep(BEFORE);
    let gone = clock.now();
    silence(rig, channel, true)?;
    clock.sleep(GONE);
    silence(rig, channel, false)?;
    let back = clock.now();
    let arrivals = reader.join().map_err(|_| anyhow::anyhow!("a reader died"))??;
    Ok(longest(&arrivals, gone, back).as_secs_f64() * 1e3)
}

/// When something arrived, until `until`.
fn arrivals(stream: &mut TcpStream, clock: Clock, until: Instant) -> io::Result<Vec<Instant>> {
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20)))?;
    let (mut arrivals, mut room) = (vec![clock.now()], vec![0; 64 << 10]);
    while clock.now() < until {
        if stream.read(&mut room)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        arrivals.push(clock.now());
    }
    Ok(arrivals)
}

/// The longest time without an arrival that has a part of `from` to `to` in it.
fn longest(arrivals: &[Instant], from: Instant, to: Instant) -> Duration {
    let gaps = arrivals.windows(2).filter(|gap| gap[1] > from && gap[0] < to);
    gaps.map(|gap| gap[1].since(gap[0])).max().unwrap_or_default()
}

/// Has a channel lose everything, both ways, or nothing any more.
fn silence(rig: &Rig, channel: Channel, silent: bool) -> anyhow::Result<()> {
    for (ns, to) in [(&rig.host, 2), (&rig.gateway, 1)] {
        ns.run(|| {
            let mut netlink = Netlink::open()?;
            let index = netlink.index(channel.name())?;
            let (ip, mut mac) = Rig::neighbour(channel, to);
            if silent {
                mac[5] = 99;
            }
            netlink.neighbour(index, ip, mac)
        })??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_overlaps_the_loss_is_a_stall() {
        let at = |ms: &[u64]| ms.iter().map(|ms| Instant::from_millis(*ms)).collect::<Vec<_>>();
        let arrivals = at(&[0, 400, 410, 600, 610, 900]);
        let [from, to] = [500, 605].map(Instant::from_millis);
        assert_eq!(longest(&arrivals, from, to), Duration::from_millis(190));
        assert_eq!(longest(&arrivals[..1], from, to), Duration::ZERO);
    }
}

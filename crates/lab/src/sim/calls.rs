//! A call and a game beside a download, over two channels: what does not wait, beside what takes all that there is.
//!
//! The call is G.711 as RTP sends it (RFC 3551), 50 packets a second either way; the game sends 60 small datagrams a second
//! either way. The download is one connection of [`super::tcp`]: halves of a handshake of TLS, a request, and a response
//! without end. All of it ends where the channels end: what lies behind is the same for every policy. `Channels` steers, as for
//! pages. What is not modelled: the jitter buffer of a call, and its codec.

use super::channels::{Channels, Gone, Steering};
use super::company::{CALL, Carried, FRAME, VOICE};
use super::driver::Driven;
use super::packet::{Body, Packet};
use super::tcp::{DELAYED_ACK, Tcp};
use headstart_core::time::{Duration, Instant};
use headstart_link::ParseError;
use headstart_link::medium::Way;

/// The stream of the game among datagrams.
const GAME: u8 = 1;
/// Between two datagrams of the game: a tick of a fast game's server, and a screen's frame. Ours.
const TICK: Duration = Duration::from_nanos(16_666_667);
/// Bytes of payload of the game, from the host (keys and pointer) and to it (what has changed). Ours.
const STATE: [usize; 2] = [60, 150];
/// What has not come for so long has not come at all.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// The connection of the download.
const DOWNLOAD: u16 = 0;

/// When what begins, and how long it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// The download is there; else call and game are alone.
    pub download: bool,
    /// What is sent before this is not measured: the download has found its window then.
    pub before: Duration,
    /// So long it is measured from then on.
    pub measured: Duration,
    /// A channel that is lost meanwhile.
    pub gone: Option<Gone>,
}

/// What became of a stream of datagrams: a delay each in ms, those of the host first; none for what was lost.
pub type Delays = Vec<Option<f64>>;

/// What was heard.
#[derive(Clone, Debug, PartialEq)]
pub struct Talked {
    /// Of the call.
    pub call: Delays,
    /// Of the game.
    pub game: Delays,
    /// Bits a second that the download has brought while it was measured.
    pub goodput: f64,
    /// The longest time in which the download brought nothing, while it was measured.
    pub stall: Duration,
    /// Bytes on the fat channel and on the fast one, from the beginning to the end.
    pub bytes: [u64; 2],
}

/// A stream of datagrams, both ways.
struct Stream {
    id: u8,
    next: Instant,
    every: Duration,
    bytes: [usize; 2],
    /// When each was made and when it came, by direction.
    records: [Vec<(Instant, Option<Instant>)>; 2],
}

impl Stream {
    /// What is to be sent at `now`.
    fn due(&mut self, now: Instant, until: Instant) -> Vec<Carried> {
        let mut out = Vec::new();
        while self.next <= now && self.next < until {
            for (record, (bytes, up)) in self.records.iter_mut().zip(self.bytes.into_iter().zip([true, false])) {
                out.push(Carried::Datagram { stream: self.id, number: record.len(), bytes, up });
                record.push((self.next, None));
            }
            self.next += self.every;
        }
        out
    }

    fn delays(&self, from: Instant) -> Delays {
        let delay = |(made, came): &(Instant, Option<Instant>)| {
            came.map(|came| came.since(*made)).filter(|delay| *delay < PATIENCE).map(|delay| delay.as_secs_f64() * 1e3)
        };
        self.records.iter().flatten().filter(|(made, _)| *made >= from).map(delay).collect()
    }
}

/// What is sent before the response: the sender (0 is the host), and its bytes. A client's half of a handshake with a hybrid key
/// share, a server's with two certificates, a request. Ours.
const OPENING: [(usize, usize); 3] = [(0, 1_800), (1, 4_000), (0, 500)];

struct Playing {
    /// What is sent between these is measured.
    from: Instant,
    until: Instant,
    /// How much of [`OPENING`] was written.
    written: usize,
    channels: Channels,
    streams: [Stream; 2],
    /// The host's end of the download, and the other.
    download: Option<[Tcp; 2]>,
    /// Since when the download has brought nothing, what it had brought by then, and the longest such time.
    brought: (Instant, u64),
    stall: Duration,
}

impl Driven for Playing {
    fn deadline(&mut self) -> Option<Instant> {
        let streams = self.streams.iter().map(|stream| stream.next).filter(|next| *next < self.until);
        let ends = self.download.iter().flatten().filter_map(Tcp::deadline);
        streams.chain(ends).chain(self.channels.poll_timeout()).min()
    }

    fn woken(&mut self, now: Instant) {
        if self.downloaded() > self.brought.1 {
            self.stands_until(now);
        }
        while let Some((at, way, packet)) = self.channels.poll(now) {
            self.arrived(at, way, packet);
        }
        for n in 0..self.streams.len() {
            for carried in self.streams[n].due(now, self.until) {
                self.send(now, carried);
            }
        }
        for end in 0..2 {
            if let Some(download) = &mut self.download
                && download[end].deadline().is_some_and(|at| at <= now)
            {
                download[end].timeout(now);
                self.pump(now, end);
            }
        }
    }
}

impl Playing {
    fn send(&mut self, now: Instant, carried: Carried) {
        let way = if carried.is_up() { Way::Up } else { Way::Down };
        self.channels.send(now, way, Packet::company(carried));
    }

    fn arrived(&mut self, now: Instant, way: Way, packet: Packet) {
        match packet.body {
            Body::Company(Carried::Datagram { stream, number, .. }) => {
                let record = &mut self.streams[usize::from(stream)].records[way.index()];
                if let Some((_, came)) = record.get_mut(number) {
                    came.get_or_insert(now);
                }
            }
            Body::Company(Carried::Message { segment, .. }) => {
                let end = usize::from(way == Way::Up);
                if let Some(download) = &mut self.download {
                    download[end].receive(now, &segment);
                }
                self.pump(now, end);
                self.speak(now);
            }
            _ => {}
        }
    }

    /// Sends what an end of the download has to send.
    fn pump(&mut self, now: Instant, end: usize) {
        while let Some(segment) = self.download.as_mut().and_then(|download| download[end].poll(now)) {
            self.send(now, Carried::Message { connection: DOWNLOAD, up: end == 0, segment });
        }
    }

    /// An end that has heard all that was said to it speaks.
    fn speak(&mut self, now: Instant) {
        let Some(download) = &mut self.download else { return };
        let heard = |by: usize| -> u64 {
            OPENING[..self.written].iter().filter(|(sender, _)| *sender != by).map(|(_, n)| *n as u64).sum()
        };
        let by = OPENING.get(self.written).map_or(1, |(sender, _)| *sender);
        if self.written > OPENING.len() || download[by].arrived() < heard(by) {
            return;
        }
        match OPENING.get(self.written) {
            Some((_, bytes)) => download[by].write(&vec![0; *bytes]),
            None => download[by].write_for_ever(),
        }
        self.written += 1;
        self.pump(now, by);
    }

    /// The download has brought nothing until now.
    fn stands_until(&mut self, now: Instant) {
        self.stall = self.stall.max(now.since(self.brought.0));
        self.brought = (now.max(self.from), self.downloaded());
    }

    fn downloaded(&self) -> u64 {
        self.download.as_ref().map_or(0, |[host, _]| host.arrived())
    }
}

/// Plays it. The same `steering` and `seed` give the same delays to the nanosecond; index *i* is the same datagram under
/// every policy.
pub fn play(steering: &Steering, calls: Calls, seed: u64) -> Result<Talked, ParseError> {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x00ca_11ed);
    let mut phase = |every: Duration| Instant::ZERO + Duration::from_nanos(rng.u64(..every.as_nanos() as u64));
    let stream = |id, next, every, bytes| Stream { id, next, every, bytes, records: Default::default() };
    let streams = [stream(CALL, phase(FRAME), FRAME, [VOICE; 2]), stream(GAME, phase(TICK), TICK, STATE)];
    let mut channels = Channels::new(seed, &[], steering)?;
    if let Some(gone) = calls.gone {
        channels.lose(gone);
    }
    // The connection is open already.
    let end = || Tcp::new(DELAYED_ACK, FIRST_RTT).with_segments(steering.segment() as usize);
    let download = calls.download.then(|| [end(), end()]);
    let from = Instant::ZERO + calls.before;
    let until = from + calls.measured;
    let (brought, stall) = ((from, 0), Duration::ZERO);
    let mut playing = Playing { from, until, written: 0, channels, streams, download, brought, stall };
    playing.speak(Instant::ZERO);
    playing.run(from, |_| false);
    let before = playing.downloaded();
    playing.run(until, |_| false);
    let brought = playing.downloaded() - before;
    if playing.download.take().is_some() {
        playing.stands_until(until);
    }
    playing.run(until + PATIENCE, |_| false);
    let goodput = brought as f64 * 8.0 / calls.measured.as_secs_f64();
    let [call, game] = playing.streams.each_ref().map(|stream| stream.delays(from));
    Ok(Talked { call, game, goodput, stall: playing.stall, bytes: playing.channels.bytes() })
}

/// The round trip that the handshake of the download has measured. Ours; its own samples replace it at once.
const FIRST_RTT: Duration = Duration::from_millis(30);

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::steer::{Channel, policy};

    fn steering(policy: &str, fat: &str, fast: &str, tunnel: bool) -> Steering {
        let policy = policy::find(policy).unwrap();
        Steering { fat: fat.into(), fast: fast.into(), policy, tunnel, bound: Default::default() }
    }

    const ALONE: Calls =
        Calls { download: false, before: Duration::ZERO, measured: Duration::from_secs(1), gone: None };
    const BESIDE: Calls =
        Calls { download: true, before: Duration::from_secs(2), measured: Duration::from_secs(2), gone: None };
    const FAT: &str = "rate=20mbit,delay=25ms,queue=200p";
    const FAST: &str = "rate=2mbit,delay=2500us,queue=infinite";

    fn all(delays: &[Option<f64>]) -> Vec<f64> {
        delays.iter().map(|d| d.unwrap_or(f64::INFINITY)).collect()
    }

    #[test]
    fn alone_every_datagram_takes_its_channel_and_no_longer() {
        let one = |policy: &str| play(&steering(policy, FAT, FAST, false), ALONE, 1).unwrap();
        // 200 bytes at 20 Mbit/s are 80 us; the game may be in the way.
        assert!(all(&one("single-fat").call).iter().all(|d| (25.07..25.2).contains(d)));
        // At 2 Mbit/s they are 0.8 ms, and the game's 0.352 or 0.712 ms.
        assert!(all(&one("single-fast").call).iter().all(|d| (3.29..4.1).contains(d)));
        assert_eq!((one("value").call.len(), one("value").game.len()), (100, 120));
        assert!(all(&one("value").game).iter().all(|d| *d < 4.1));
    }

    #[test]
    fn a_download_takes_what_the_fat_channel_has_and_fills_its_queue() {
        let beside = play(&steering("single-fat", FAT, FAST, false), BESIDE, 1).unwrap();
        // 20 Mbit/s less headers are 19.31; what a hole has held back before, a full queue at most, may come on top.
        assert!((15e6..20.5e6).contains(&beside.goodput), "{}", beside.goodput);
        let came: Vec<f64> = beside.call.iter().copied().flatten().collect();
        assert!(came.len() >= 190 && came.iter().any(|d| *d > 80.0) && came.iter().all(|d| *d <= 146.0));
        assert!(beside.bytes[1] == 0);
    }

    #[test]
    fn a_download_that_loses_the_fat_channel_stands_for_less_than_300_ms_and_a_call_beside_it_goes_on() {
        const FAR: &str = "rate=500mbit,delay=2ms,queue=2000p";
        const THIN: &str = "rate=10mbit,delay=500us,queue=infinite";
        let gone =
            Gone { channel: Channel::Fat, from: Instant::from_millis(2_500), until: Instant::from_millis(4_000) };
        let calls = Calls { measured: Duration::from_secs(3), gone: Some(gone), ..BESIDE };
        for seed in 0..4 {
            let talked = play(&steering("value", FAR, THIN, true), calls, seed).unwrap();
            assert!(talked.stall < Duration::from_millis(300), "{:?}", talked.stall);
            // What goes while the loss is not known is lost; 170 ms are a 17th of the time.
            let late = talked.call.iter().filter(|delay| delay.is_none_or(|ms| ms > 60.0)).count();
            assert!(late * 15 < talked.call.len(), "{late} of {}", talked.call.len());
        }
    }

    /// How long downloads over such a fat channel stand when it is lost, each 13 ms later than the one before, in ms, the shortest first.
    fn stalls(fat: &str, fast: &str) -> Vec<u64> {
        let one = |n: u64| {
            let from = Instant::from_millis(2_500 + 13 * n);
            let gone = Gone { channel: Channel::Fat, from, until: from + Duration::from_millis(1_500) };
            let calls = Calls { measured: Duration::from_millis(2_500), gone: Some(gone), ..BESIDE };
            play(&steering("value", fat, fast, true), calls, n).unwrap().stall.as_millis() as u64
        };
        let mut all: Vec<u64> = (0..6).map(one).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn whatever_the_round_trip_is_a_download_goes_on_when_the_loss_of_its_channel_is_known() {
        const THIN: &str = "rate=10mbit,delay=500us,queue=infinite";
        for (fat, fast, most) in [
            ("rate=500mbit,delay=2ms,queue=2000p", THIN, 200),
            ("rate=60mbit,delay=15ms,queue=200p", FAST, 200),
            // Its queue is 113 ms long, and three round trips pass until it is given up.
            ("rate=20mbit,delay=25ms,queue=200p", FAST, 350),
        ] {
            let all = stalls(fat, fast);
            println!("{fat}: {all:?} ms");
            assert!(all[5] < most, "{fat}: {all:?} ms");
        }
    }

    #[test]
    fn through_a_tunnel_it_ends_and_is_the_same_twice() {
        for policy in policy::ALL {
            let steering = steering(policy.name, FAT, FAST, true);
            let short = Calls { before: Duration::from_millis(300), measured: Duration::from_millis(500), ..BESIDE };
            let one = play(&steering, short, 7).unwrap();
            assert_eq!(one, play(&steering, short, 7).unwrap());
            assert_eq!(one.call.len(), 50, "{}", policy.name);
        }
    }
}

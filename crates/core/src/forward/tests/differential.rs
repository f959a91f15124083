//! Another TCP (smoltcp) as the program, over a queue that loses, doubles and delays packets, and a socket that takes what it
//! likes: what was said is what is heard, in both directions.

use super::*;
use proptest::prelude::*;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Address};
use std::collections::VecDeque;

#[derive(Default)]
struct Queue {
    to_program: VecDeque<Vec<u8>>,
    from_program: Vec<Vec<u8>>,
}

struct Rx(Vec<u8>);
struct Tx<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Rx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Queue {
    type RxToken<'a> = Rx;
    type TxToken<'a> = Tx<'a>;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Rx, Tx<'_>)> {
        Some((Rx(self.to_program.pop_front()?), Tx(&mut self.from_program)))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Tx<'_>> {
        Some(Tx(&mut self.from_program))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ip, 1500);
        // What is to be filled in by the other side stays so.
        capabilities.checksum = smoltcp::phy::ChecksumCapabilities::ignored();
        capabilities.checksum.ipv4 = smoltcp::phy::Checksum::Both;
        capabilities
    }
}

/// What happens to the packets of a connection.
#[derive(Clone, Copy, Debug)]
struct Weather {
    seed: u64,
    /// Of a hundred packets in either direction, so many are lost, and as many doubled.
    lost: u8,
    /// Bytes that the socket takes each millisecond.
    taken: usize,
}

/// A program sends `up` and gets `down`, each side closing behind its data; what the two have heard.
fn converse(up: &[u8], down: &[u8], weather: Weather) -> (Vec<u8>, Vec<u8>) {
    let mut luck = fastrand::Rng::with_seed(weather.seed);
    let mut rig = Rig::new();
    let (app, peer) = (rig.app, rig.peer);
    let mut queue = Queue::default();
    let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut queue, smoltcp::time::Instant::ZERO);
    interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(app.ip().into(), 24)).unwrap());
    interface.routes_mut().add_default_ipv4_route(Ipv4Address::new(192, 0, 2, 1)).unwrap();
    let mut sockets = SocketSet::new(Vec::new());
    let buffer = || SocketBuffer::new(vec![0; 20_000]);
    let socket = sockets.add(Socket::new(buffer(), buffer()));
    sockets.get_mut::<Socket>(socket).connect(interface.context(), peer, app.port()).unwrap();
    let (mut said, mut given, mut ended) = (0, 0, false);
    let mut heard: Vec<u8> = Vec::new();
    let start = rig.now;
    rig.takes = 0;
    while rig.now.since(start) < Duration::from_secs(3600) {
        let time = smoltcp::time::Instant::from_micros((rig.now.as_nanos() / 1000) as i64);
        interface.poll(time, &mut queue, &mut sockets);
        let program = sockets.get_mut::<Socket>(socket);
        if program.can_send() && said < up.len() {
            said += program.send_slice(&up[said..]).unwrap();
        }
        if said == up.len() && program.may_send() && program.state() == State::Established
            || said == up.len() && program.state() == State::CloseWait
        {
            program.close();
        }
        while program.can_recv() {
            program.recv(|data| (data.len(), heard.extend_from_slice(data))).unwrap();
        }
        // What was acknowledged to a program that is done may still be on its way to the other side.
        if matches!(program.state(), State::Closed | State::TimeWait) && !rig.forwarder.is_needed() {
            break;
        }
        interface.poll(time, &mut queue, &mut sockets);
        let batch = luck.bool();
        let row = batch && luck.bool();
        if batch {
            rig.input(Input::Batch);
        }
        if row {
            rig.input(Input::Row);
        }
        for packet in std::mem::take(&mut queue.from_program) {
            let times = [0, 2].get(usize::from(luck.u8(0..100) / weather.lost.max(1))).copied().unwrap_or(1);
            let times = if weather.lost == 0 { 1 } else { times };
            for _ in 0..times {
                rig.input(Input::Packet { bytes: packet.clone(), segment: None });
            }
        }
        if row {
            rig.input(Input::RowEnd);
        }
        if batch {
            rig.input(Input::BatchEnd);
        }
        rig.takes = weather.taken;
        if let Some(flow) = rig.flow {
            if rig.forwarder.open().first().is_some_and(|flow| flow.connected.is_none()) {
                rig.input(Input::Connected { flow, mss: Some(1448) });
            }
            rig.input(Input::Writable { flow });
            let room = rig.forwarder.room(rig.now, flow).min(down.len() - given);
            if room > 0 {
                rig.peer(&down[given..given + room]);
                given += room;
            } else if given == down.len() && !ended {
                ended = true;
                rig.input(Input::Ended { flow });
            }
        }
        rig.pass(Duration::from_millis(1));
        for (header, payload) in std::mem::take(&mut rig.packets) {
            for packet in cut(&header, &payload) {
                if luck.u8(0..100) >= weather.lost {
                    let place = luck.usize(..=queue.to_program.len());
                    let place = if luck.u8(0..100) < weather.lost { place } else { queue.to_program.len() };
                    queue.to_program.insert(place, packet);
                }
            }
        }
    }
    (rig.sent, heard)
}

/// The segments of a packet, as a device would hand them over.
fn cut(header: &Header, payload: &[u8]) -> Vec<Vec<u8>> {
    let (segment, data) = tcp::parse(payload).unwrap();
    let pieces: Vec<&[u8]> = if data.is_empty() { vec![data] } else { data.chunks(1448).collect() };
    let mut at = 0;
    let packet = |piece: &&[u8]| {
        let segment = Segment { sequence: segment.sequence.wrapping_add(at), ..segment };
        at += piece.len() as u32;
        tcp::packet(header, &segment, piece)
    };
    pieces.iter().map(packet).collect()
}

#[test]
fn a_calm_conversation_is_heard_as_it_was_said() {
    let (up, down) = (text(100_000), text(150_000));
    let weather = Weather { seed: 1, lost: 0, taken: usize::MAX };
    let (sent, heard) = converse(&up, &down, weather);
    assert!(sent == up && heard == down, "{} {}", sent.len(), heard.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whatever_the_weather_what_is_heard_was_said(
        seed in any::<u64>(),
        lost in 0..20_u8,
        taken in 1..4000_usize,
        up in 0..30_000_usize,
        down in 0..60_000_usize,
    ) {
        let (up, down) = (text(up), text(down));
        let (sent, heard) = converse(&up, &down, Weather { seed, lost, taken });
        prop_assert!(sent == up, "{} of {} bytes went up", sent.len(), up.len());
        prop_assert!(heard == down, "{} of {} bytes came down", heard.len(), down.len());
    }
}

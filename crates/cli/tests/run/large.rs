//! Packets that are large between programs and the forwarder: long segments where there are no super-packets, and trains of datagrams.

use crate::lab::{HEADSTART, Lab, inside, python};
use headstart_core::wire::ip;
use headstart_io::sys::train;
use headstart_io::sys::tun::Tun;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;

/// The site of the lab's world that has a server.
const PEER: &str = "198.19.0.1";

/// Lengths of the packets of a capture of one protocol, from programs and to them.
fn captured(file: &Path, protocol: u8) -> [Vec<usize>; 2] {
    let bytes = std::fs::read(file).unwrap();
    let (mut lengths, mut rest) = ([Vec::new(), Vec::new()], &bytes[..]);
    let word = |bytes: &[u8], at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    // Of an Enhanced Packet Block: kind, length, interface, time in two words, captured and original length, packet.
    while rest.len() >= 32 {
        let len = word(rest, 4);
        if word(rest, 0) == 6 {
            let packet = &rest[28..28 + word(rest, 20)];
            if ip::parse(packet).is_some_and(|(header, _)| header.protocol == protocol) {
                lengths[word(rest, 8)].push(packet.len());
            }
        }
        rest = &rest[len..];
    }
    lengths
}

inside!(without_super_packets_an_interface_with_a_long_mtu_carries_long_segments, || {
    let lab = Lab::new();
    let Some(python) = python() else { return };
    let listener = lab.network.on_servers(|| TcpListener::bind((PEER, 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut data = vec![0; 100_000];
            while let Ok(len @ 1..) = stream.read(&mut data) {
                stream.write_all(&data[..len]).unwrap();
            }
        }
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/programs/embedding.py");
    let (flows, capture) = (lab.scratch.path("flows"), lab.scratch.path("capture"));
    let mut told = Vec::new();
    for mtu in ["65535", "1500"] {
        let files = [flows.to_str().unwrap(), capture.to_str().unwrap()];
        let words = [python.as_str(), script, HEADSTART, files[0], PEER, "0", mtu, &port, files[1]];
        let ended = lab.bare(&words);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let said: Vec<&str> = ended.out.lines().collect();
        let size = said[0].strip_prefix("segments of ").and_then(|rest| rest.strip_suffix(" bytes True"));
        let size: usize = size.unwrap_or_else(|| panic!("{ended:?}")).parse().unwrap();
        let longest = captured(&capture, ip::TCP).map(|lengths| lengths.into_iter().max().unwrap_or_default());
        // What the path takes is what is counted.
        let line = std::fs::read_to_string(&flows).unwrap();
        let line: serde_json::Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
        for packets in ["up_packets", "down_packets"] {
            assert!(line[packets].as_u64().unwrap() >= (4 << 20) / 1500, "{line}");
        }
        told.push((size, longest));
    }
    let [(long, longest), (honest, shortest)] = told[..] else { panic!("{told:?}") };
    // A sender takes half of the first window at most, which is 64 KiB; BBR less, by its pace (29,000 bytes were seen).
    assert!(long > 30_000 && longest[0] > 15_000, "{told:?}");
    // What comes back is as long as what had come when the forwarder looked.
    assert!(longest[1] > 1500, "{told:?}");
    // A packet for the program is one of many segments until it is written.
    assert!(honest <= 1460 && shortest[0] <= 1500, "{told:?}");
});

/// Sends twenty datagrams at once, and hears twenty.
const TRAIN: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(60)
s.setsockopt(17, 103, 1000)
said = bytes(n // 1000 for n in range(20000))
s.sendto(said, ('198.19.0.1', int(sys.argv[1])))
heard = [s.recv(65536) for _ in range(20)]
print(b''.join(heard) == said, {len(one) for one in heard})
";

inside!(datagrams_that_a_program_sends_at_once_are_one_packet_to_the_forwarder, || {
    let lab = Lab::new();
    let Some(python) = python() else { return };
    let server = lab.network.on_servers(|| UdpSocket::bind((PEER, 0)).unwrap()).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let echo = std::thread::spawn(move || {
        let (mut heard, mut bytes) = (Vec::new(), [0; 65_536]);
        loop {
            let (len, from) = server.recv_from(&mut bytes).unwrap();
            assert_eq!(len, 1000);
            heard.extend_from_slice(&bytes[..len]);
            if heard.len() == 20_000 {
                return train::send(&server, from, &heard, 1000).unwrap();
            }
        }
    });
    let capture = lab.scratch.path("capture");
    let words = [python.as_str(), "-c", TRAIN, &port];
    let ours = lab.ours_with(&["--measure", "--pcapng", capture.to_str().unwrap()], &words);
    assert_eq!((ours.code, ours.out.trim()), (Some(0), "True {1000}"), "{ours:?}");
    echo.join().unwrap();
    let [up, down] = captured(&capture, ip::UDP);
    assert!(up.iter().chain(&down).all(|len| *len > 1000), "{up:?} {down:?}");
    let mut tun = lab.network.on_client(|| Tun::create("probe0", 1).unwrap()).unwrap();
    tun.take_trains();
    if tun.takes_trains() {
        assert_eq!(up, [20_028]);
    } else {
        println!("skipped: this kernel has no super-packets of UDP (Linux 6.2)");
    }
});

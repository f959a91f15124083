//! Any frame that the kernel calls a super-packet is cut or refused; what is cut holds its payload once, in order.
//!
//! The frame is foreign: programs behind an emulated link may send what they like.
#![no_main]

use headstart_io::sys::offload::Offload;
use headstart_lab::netns::super_packet::{Cut, finish, transport_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u8; 10], Vec<u8>, u8)| {
    let (header, frame, run) = input;
    let _ = transport_of(&frame);
    let Some(offload) = Offload::read(header) else { return };
    if let Some(checksum) = offload.checksum {
        finish(&mut frame.clone(), checksum);
    }
    let Some(cut) = offload.segments.and_then(|segments| Cut::plan(&frame, segments)) else { return };
    let run = usize::from(run).max(1);
    let mut payload = Vec::new();
    for start in (0..cut.count()).step_by(run) {
        let segments = start..cut.count().min(start + run);
        let headers = cut.headers(&frame, &segments);
        assert_eq!(headers.offload.segments.is_some(), segments.len() > 1);
        payload.extend_from_slice(&frame[cut.payload(&segments)]);
        assert!(headers.bytes().len() + payload.len() <= frame.len());
    }
    assert!(frame.ends_with(&payload));
});

//! Any bytes are a packet that can be steered or none; what is compressed comes out to the bit.
#![no_main]

use headstart_core::steer::Facts;
use headstart_core::steer::compress::{Compressor, Decompressor, Encoding};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|packets: Vec<Vec<u8>>| {
    let (mut compressor, mut decompressor) = (Compressor::default(), Decompressor::default());
    let (mut said, mut out) = (Vec::new(), Vec::new());
    for packet in packets {
        let Some(facts) = Facts::parse(&packet, (1, 2)) else { continue };
        assert!(facts.payload <= facts.len && facts.len == packet.len());
        match compressor.compress(facts.flow, &packet, &mut said) {
            Encoding::Whole => out.clone_from(&said),
            Encoding::Context => decompressor.context(&said, &mut out).expect("a context that was just said"),
            Encoding::Compressed => decompressor.decompress(&said, &mut out).expect("in a context that was just said"),
        }
        assert_eq!(out, packet);
    }
});

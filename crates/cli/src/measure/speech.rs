//! What `headstart measure` and `headstart measure serve` say to each other, over TCP: a hello of eight bytes, the last of
//! which is the wish, then what was wished for. Nothing is sent to an address that has not proved itself, for TCP has.

/// The beginning of a hello, with the version.
pub const HELLO: [u8; 7] = *b"HSMEAS1";
/// Each message is sent back.
pub const ECHO: u8 = b'p';
/// Data comes until the other end closes.
pub const DOWN: u8 = b'd';
/// Data goes until this end says that it was all; the answer is how many bytes came, in eight bytes.
pub const UP: u8 = b'u';
/// Bytes of a message that is sent back.
pub const MESSAGE: usize = 64;
/// Bytes of a read or a write.
pub const CHUNK: usize = 64 * 1024;

//! Bytes to meaning and back, without state. Foreign bytes never panic here: they parse or they are an error.

#[cfg(feature = "dns")]
pub mod dns;
pub mod options;
#[cfg(feature = "dns")]
pub mod relay;
pub mod shim;
pub mod sockaddr;

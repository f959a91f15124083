//! ASAP, as paper 5 (section 4.2) describes and compares it: by the phase of HTTP that a packet belongs to.
//!
//! Names, handshakes of TCP and TLS, and requests are fast; responses are fat. Turns tell the phase: the second
//! turn of a flow with TLS is the server's handshake, the fourth its first response. Everything that a host sends is taken
//! for a request, as it mostly is; where it is not (uploads, long requests) ASAP pays for it, as in the paper.

use super::{Choice, Policy, View};
use crate::steer::packet::Kind;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Asap;

/// The turn of the server's handshake in TLS 1.3.
const HANDSHAKE: u8 = 2;

impl Policy for Asap {
    fn choose(&self, view: &View<'_>) -> Choice {
        if view.uplink {
            return Choice::fast("request");
        }
        match view.packet.kind {
            Kind::Dns => Choice::fast("name"),
            Kind::Open => Choice::fast("handshake"),
            Kind::Data if view.packet.tls && view.flow.turns <= HANDSHAKE => Choice::fast("handshake"),
            _ => Choice::fat("response"),
        }
    }
}

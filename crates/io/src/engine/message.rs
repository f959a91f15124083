//! What an app and its engine say to each other: JSON objects with a `kind`. `docs/reference/engine.md` is for people,
//! `docs/reference/schemas/engine.json` for the tests of both sides.
//!
//! Kinds and fields that are not known are ignored, so that either side may be newer than the other.

use crate::forward::board::Board;
use headstart_core::path::NetworkId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use siphasher::sip::SipHasher24;
use std::net::{IpAddr, SocketAddr};

/// The version of the protocol; it counts up when an older side could no longer follow.
pub const VERSION: u32 = 1;
/// Descriptors that come with one message at most.
pub const MOST_DESCRIPTORS: usize = 4;
/// Percent at which a battery is low: where Android says so.
const LOW: u8 = 15;
/// Characters of a name that the app gives to something, at most.
const LONGEST_NAME: usize = 256;

/// What an app says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToEngine {
    /// The answer to the engine's own greeting.
    Hello {
        /// [`VERSION`] of the app.
        version: u32,
        /// What it is, for people.
        app: String,
    },
    /// Forward the packets of the interface whose descriptor is attached. Answered by [`ToApp::Started`].
    Start {
        /// How.
        #[serde(default)]
        settings: Settings,
        /// The network that it begins on.
        network: Network,
        /// The state of the device.
        #[serde(default)]
        device: Device,
    },
    /// Forward the packets of this interface, whose descriptor is attached, from now on instead of the one before.
    Interface,
    /// The device is on another network, or knows more of it.
    Network {
        /// The network.
        network: Network,
    },
    /// The state of the device has changed.
    Device {
        /// The state.
        device: Device,
    },
    /// The answer to [`ToApp::Owner`].
    Owner {
        /// The number of the question.
        question: u64,
        /// The user id of the app whose flow it is; none if that is not known.
        #[serde(default)]
        uid: Option<u32>,
        /// What that app is called, for people and in lines.
        #[serde(default)]
        name: Option<String>,
    },
    /// The answer to [`ToApp::Protect`].
    Protected {
        /// The number of the question.
        question: u64,
        /// Whether packets of the socket will not come back to the interface.
        ok: bool,
    },
    /// Whether statistics are sent: once a second until switched off.
    Subscribe {
        /// Whether they are.
        on: bool,
    },
    /// Write to the file whose descriptor is attached. Answered by [`ToApp::Exported`].
    Export {
        /// What.
        what: What,
        /// Of this app alone.
        #[serde(default)]
        app: Option<String>,
        /// Of packets: whether they are written from now on (with a descriptor), or no longer.
        #[serde(default = "yes")]
        on: bool,
    },
    /// End the session. Answered by [`ToApp::Ended`].
    Stop,
}

impl ToEngine {
    /// The body of its frame.
    pub fn body(&self) -> Vec<u8> {
        // Nothing in it is a map with keys that are no text, which alone could fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The kinds of [`ToEngine`].
const KINDS: [&str; 10] =
    ["hello", "start", "interface", "network", "device", "owner", "protected", "subscribe", "export", "stop"];

fn yes() -> bool {
    true
}

/// What can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A line of JSON for each connection, lookup and UDP flow that has ended (the latest; see `forward::lines`).
    Lines,
    /// Packets, from now on.
    Pcapng,
}

/// How an engine forwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Whether connections are raced over all addresses that the app got for the peer's name.
    pub accelerate: bool,
    /// Whether, besides, apps are answered by what servers told them before, as long as that holds, and names are looked up and
    /// connections opened before apps want them.
    pub ahead: bool,
    /// The race, by its name in the registry; the default one if none.
    pub race: Option<String>,
    /// How long answers are kept: `ttl`, `off`, or seconds as `3600s`.
    pub cache: String,
    /// How long a connection that could be raced waits until it is known whose it is, in milliseconds. 100: a call of Android's takes one.
    pub owner_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { accelerate: true, ahead: false, race: None, cache: "ttl".into(), owner_ms: 100 }
    }
}

/// A network as an app sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// A name for it that is the same when the device comes back to it. Never shown.
    pub id: String,
    /// `wifi`, `cellular`, `ethernet`, or whatever else the app says.
    pub transport: String,
    /// Whether data costs.
    pub metered: bool,
    /// Whether the system has reached the Internet over it.
    pub validated: bool,
    /// Whether it asks for a login first: the engine forwards and races nothing.
    pub captive: bool,
    /// The device's own addresses on it. Connections that begin at another are over; none: that is not known.
    pub addresses: Vec<IpAddr>,
    /// Its DNS servers, which make it another network where they differ.
    pub dns: Vec<IpAddr>,
    /// The server of private DNS, if lookups are encrypted.
    pub private_dns: Option<String>,
    /// Whether it leads anywhere by IPv4.
    pub v4: bool,
    /// Whether it leads anywhere by IPv6.
    pub v6: bool,
}

impl Network {
    /// Its identity, under which what is learned is kept.
    pub fn identity(&self) -> NetworkId {
        let mut text = format!("{}\n{}\n", self.id.escape_default(), self.transport.escape_default());
        self.dns.iter().for_each(|server| text += &format!("{server}\n"));
        NetworkId(SipHasher24::new_with_key(b"headstart engine").hash(text.as_bytes()))
    }
}

/// The state of a device, which a measurement carries (paper 3, section 5: what a measurement is worth depends on it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Percent of the battery.
    pub battery: Option<u8>,
    /// Whether it is being charged.
    pub charging: Option<bool>,
    /// Whether the system saves power.
    pub power_save: Option<bool>,
    /// Whether the system is in doze.
    pub doze: Option<bool>,
    /// Whether the screen is on.
    pub screen: Option<bool>,
    /// Android's thermal status, from 0 (none) to 6 (shutdown).
    pub thermal: Option<u8>,
}

impl Device {
    /// Whether its battery is to be spared: low and not being charged, or the system says so.
    fn spares_battery(&self) -> bool {
        let is_low = self.battery.is_some_and(|percent| percent <= LOW) && self.charging != Some(true);
        is_low || self.power_save == Some(true) || self.doze == Some(true)
    }
}

/// Whether something may be sent that no app has asked for yet.
pub fn may_be_ahead(network: &Network, device: &Device) -> bool {
    !network.metered && !device.spares_battery()
}

/// What an engine says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToApp {
    /// The first message.
    Hello {
        /// [`VERSION`] of the engine.
        version: u32,
        /// What it is, for people.
        engine: String,
    },
    /// It forwards.
    Started,
    /// Whose is this flow? Asked once a flow; no packet waits for the answer.
    Owner {
        /// The number of the question.
        question: u64,
        /// `tcp` or `udp`.
        protocol: String,
        /// The end of the flow on this device.
        local: SocketAddr,
        /// The other end.
        peer: SocketAddr,
    },
    /// Keep packets of the socket whose descriptor is attached out of the interface.
    Protect {
        /// The number of the question.
        question: u64,
        /// The descriptor.
        descriptors: u32,
    },
    /// How it stands.
    Statistics {
        /// The kind of network.
        transport: String,
        /// Programs, connections and wake-ups, shortened until it fits into a frame.
        board: Box<Board>,
    },
    /// It is written.
    Exported {
        /// What.
        what: What,
        /// How many lines; none of packets.
        lines: Option<usize>,
    },
    /// Something was not understood, or could not be done.
    Error {
        /// What is wrong.
        name: Wrong,
        /// The kind of message that it is about, if that is known.
        of: Option<String>,
        /// The same, for people.
        what: String,
    },
    /// The session has ended; the process ends with it.
    Ended {
        /// `stop`, or `interface` where that is no more.
        why: String,
    },
}

/// What may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// Another version of the protocol. The session ends.
    Version,
    /// A frame that is none. The session ends.
    Frame,
    /// A body that is no message.
    Message,
    /// A message that has no place here: before `hello`, before `start`, or a second time.
    Order,
    /// A descriptor that is missing, or of the wrong kind.
    Descriptor,
    /// A setting with a value that it cannot have.
    Setting,
    /// A file that could not be written.
    File,
}

/// A body, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// What it says; none if it is of a kind that is not known here, which is ignored.
    pub message: Option<ToEngine>,
    /// Descriptors that belong to it.
    pub descriptors: usize,
}

/// A body that is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NoMessage {
    /// The kind that it says it is, if that is a known one.
    pub kind: Option<&'static str>,
    /// Descriptors that belong to it all the same.
    pub descriptors: usize,
    /// What is wrong.
    pub what: String,
}

/// Reads a body.
pub fn read(body: &[u8]) -> Result<Body, NoMessage> {
    let wrong = |kind, descriptors, what: String| NoMessage { kind, descriptors, what };
    let value: Value = serde_json::from_slice(body).map_err(|e| wrong(None, 0, format!("not JSON: {e}")))?;
    let count = value.get("descriptors").map_or(Some(0), Value::as_u64);
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= MOST_DESCRIPTORS);
    let Some(descriptors) = count else {
        return Err(wrong(None, 0, format!("`descriptors` must be from 0 to {MOST_DESCRIPTORS}")));
    };
    let Some(said) = value.get("kind").and_then(Value::as_str) else {
        return Err(wrong(None, descriptors, "an object with a `kind` is expected".into()));
    };
    let Some(kind) = KINDS.into_iter().find(|known| *known == said) else {
        return Ok(Body { message: None, descriptors });
    };
    match serde_json::from_value::<ToEngine>(value) {
        Ok(message) if is_short(&message) => Ok(Body { message: Some(message), descriptors }),
        Ok(_) => Err(wrong(Some(kind), descriptors, format!("a name of more than {LONGEST_NAME} bytes"))),
        Err(e) => Err(wrong(Some(kind), descriptors, e.to_string())),
    }
}

/// Whether names are of a length that lines may carry.
fn is_short(message: &ToEngine) -> bool {
    let of_network = |network: &Network| {
        [&network.id, &network.transport].into_iter().chain(&network.private_dns).all(|name| name.len() <= LONGEST_NAME)
    };
    match message {
        ToEngine::Owner { name: Some(name), .. } => name.len() <= LONGEST_NAME,
        ToEngine::Start { network, .. } | ToEngine::Network { network } => of_network(network),
        _ => true,
    }
}

#[cfg(test)]
mod tests;

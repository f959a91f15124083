//! The file of a tunnel, in WireGuard's form (wg-quick(8)), with one endpoint a channel.
//!
//! ```text
//! [Interface]
//! PrivateKey = …                     # headstart steer genkey
//! Address = 10.77.0.2/24, fd77::2/64
//! FatInterface = eth0                # or FatLocal = 192.0.2.7: where each channel leaves this host
//! FastInterface = wwan0
//! FatRate = 300mbit                  # what a channel carries; the fast one's must be known
//! FastRate = 2mbit
//! FastUse = secondary                # primary, secondary, backup, never
//! FastCap = 2gb/30d                  # bytes in a period, both directions together
//!
//! [Peer]
//! PublicKey = …
//! AllowedIPs = 10.77.0.0/24
//! FatEndpoint = 198.51.100.1:51820
//! FastEndpoint = 203.0.113.1:51821
//! ```
//!
//! At the gateway `FatListen` and `FastListen` are ports, and endpoints are learned. What is not known is refused with its
//! line: a word that is misspelt must not be a rule that is not kept. Which end of the tunnel this host is ([`Role`]) is not in it.

use super::keys::{PublicKey, SecretKey};
pub use headstart_core::steer::Prefix;
use headstart_core::steer::{ProbeSettings, Use, policy};
use headstart_core::time::Duration;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// MTU inside where none is set: 1500 less IPv6, UDP, WireGuard and eight bytes of ours.
const MTU: u16 = 1412;
/// Every host of IPv6 must be able to carry so much (RFC 8200, section 5); the least inner MTU.
const LEAST_MTU: u16 = 1280;
/// The most inner MTU: frames say their length in 16 bits, and kernels make no larger ones of UDP.
const MOST_MTU: u16 = 8_900;
/// The fat channel's rate where none is set, in bits a second: so much that it never seems to wait.
const FAT_RATE: u64 = 1_000_000_000;
/// Seconds between packets that keep a way open: translators forget UDP after 30 and more; a session of WireGuard ends after 180.
const KEEPALIVE: RangeInclusive<u64> = 5..=120;
/// The interface's name where none is set; the kernel puts a number in.
const NAME: &str = "steer%d";

/// Where one channel leaves this host, and where it leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uplink {
    /// The interface that its packets leave by.
    pub interface: Option<String>,
    /// The address that its packets come from.
    pub local: Option<IpAddr>,
    /// The port that is listened on; 0 is one of the kernel's choice.
    pub listen: u16,
    /// Where the other end is; learned if it is not set.
    pub endpoint: Option<SocketAddr>,
    /// Bits a second, each way.
    pub rate: u64,
    /// What it may be used for.
    pub uses: Use,
    /// Bytes that it may carry in a period.
    pub cap: Option<(u64, Duration)>,
}

/// A tunnel, as its file says.
#[derive(Clone, Debug)]
pub struct Config {
    /// This end's key.
    pub key: SecretKey,
    /// Addresses of the interface.
    pub addresses: Vec<Prefix>,
    /// Its MTU.
    pub mtu: u16,
    /// Its name.
    pub name: String,
    /// The policy.
    pub policy: &'static policy::Entry,
    /// Small segments of thin streams inside carry those before them again (core::realtime::bundle).
    pub bundle: bool,
    /// The fat channel and the fast one.
    pub ways: [Uplink; 2],
    /// The other end's key.
    pub peer: PublicKey,
    /// A secret that both ends know besides.
    pub preshared: Option<SecretKey>,
    /// Addresses that are behind the other end: packets go to these, and may come from these alone.
    pub allowed: Vec<Prefix>,
    /// Between packets that keep the way open while nothing else is sent, where it is set.
    pub persistent_keepalive: Option<Duration>,
}

/// Which end of the tunnel a host is; its file does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The host's: it opens the sessions.
    Host,
    /// The network's: it waits for them.
    Gateway,
}

/// Why a file is none of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A line cannot be read.
    #[error("line {line}: {what}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// Something that must be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The file contradicts itself.
    #[error("{0}")]
    Senseless(String),
}

/// Bits a second: `300mbit`, `2mbit`, `500kbit`, `1gbit`.
fn rate(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let (number, factor) = [("kbit", 1_000.0), ("mbit", 1e6), ("gbit", 1e9)]
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim().parse::<f64>().ok()?, factor)))?;
    let bits = number * factor;
    (1_000.0..=1e12).contains(&bits).then_some(bits as u64)
}

/// Bytes in a period: `2gb/30d`, `500mb/24h`.
fn cap(text: &str) -> Option<(u64, Duration)> {
    let text = text.to_ascii_lowercase();
    let (bytes, period) = text.split_once('/')?;
    let measure = |text: &str, units: &[(&str, f64)]| {
        let (number, factor) =
            units.iter().find_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?, factor)))?;
        Some(number.trim().parse::<f64>().ok()? * factor)
    };
    let bytes = measure(bytes, &[("kb", 1e3), ("mb", 1e6), ("gb", 1e9), ("tb", 1e12)])?;
    let seconds = measure(period, &[("h", 3_600.0), ("d", 86_400.0)])?;
    // A year is long enough; less than a minute is a rate.
    let fits = (1_000.0..=1e18).contains(&bytes) && (60.0..=366.0 * 86_400.0).contains(&seconds);
    fits.then(|| (bytes as u64, Duration::from_secs(seconds as u64)))
}

/// Secret keys are longer: 43 characters of base64 and a `=`, or 64 hexadecimal digits.
const SHORTEST_SECRET: usize = 32;

/// A line `Key = value`, for what is said about it.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// From 1.
    number: usize,
    /// As it was written.
    key: &'a str,
    value: &'a str,
}

impl Line<'_> {
    /// What is wrong, without anything that is as long as a secret key, which may have been written in a wrong place.
    fn fail(&self, what: impl Into<String>) -> ConfigError {
        let long = [self.key, self.value].into_iter().filter(|word| word.len() >= SHORTEST_SECRET);
        let what = long.fold(what.into(), |what: String, word| what.replace(word, "…"));
        ConfigError::Line { line: self.number, what }
    }

    /// What the value is not.
    fn no(&self, what: &str) -> ConfigError {
        self.fail(format!("{:?} is not a valid {what}", self.value))
    }

    /// The value, as one of its kind.
    fn read<T: FromStr>(&self, what: &str) -> Result<T, ConfigError> {
        self.value.parse().map_err(|_| self.no(what))
    }

    /// The value, where its kind has a message of its own.
    fn read_named<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<T, ConfigError> {
        self.value.parse().map_err(|e| self.fail(format!("{name}: {e}")))
    }

    fn prefixes(&self) -> Result<Vec<Prefix>, ConfigError> {
        let each = self.value.split(',').map(str::trim).filter(|part| !part.is_empty());
        each.map(|part| part.parse().map_err(|()| self.no("address with a prefix length, such as 10.77.0.2/24")))
            .collect()
    }

    fn unknown(&self, section: &str) -> ConfigError {
        // With a colon in place of `=`, the `=` at the end of a base64 key is the first one.
        if !self.key.chars().all(char::is_alphanumeric) {
            return self.fail(format!("unknown key in [{section}]: must be `Key = value`"));
        }
        self.fail(format!("there is no {:?} in [{section}]", self.key))
    }
}

/// A file that has been read so far.
struct Draft {
    key: Option<SecretKey>,
    peer: Option<PublicKey>,
    preshared: Option<SecretKey>,
    mtu: u16,
    name: String,
    policy: &'static str,
    bundle: bool,
    addresses: Vec<Prefix>,
    allowed: Vec<Prefix>,
    ways: [Uplink; 2],
    persistent_keepalive: Option<Duration>,
}

impl Draft {
    fn new() -> Self {
        Self {
            key: None,
            peer: None,
            preshared: None,
            mtu: MTU,
            name: NAME.to_owned(),
            policy: policy::DEFAULT,
            bundle: false,
            addresses: Vec::new(),
            allowed: Vec::new(),
            ways: [Uplink { rate: FAT_RATE, ..Uplink::default() }, Uplink::default()],
            persistent_keepalive: None,
        }
    }

    /// A line of [Interface].
    fn interface(&mut self, line: Line<'_>) -> Result<(), ConfigError> {
        match line.key.to_ascii_lowercase().as_str() {
            "privatekey" => self.key = Some(line.read_named("PrivateKey")?),
            "address" => self.addresses.extend(line.prefixes()?),
            "mtu" => {
                let mtu = line.value.parse().ok().filter(|mtu| (LEAST_MTU..=MOST_MTU).contains(mtu));
                let wrong = || line.fail(format!("MTU: must be from {LEAST_MTU} to {MOST_MTU} (got {})", line.value));
                self.mtu = mtu.ok_or_else(wrong)?;
            }
            "name" => self.name = line.value.to_owned(),
            "bundle" => {
                self.bundle = match line.value.to_ascii_lowercase().as_str() {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(line.no("answer (yes or no)")),
                };
            }
            "policy" => {
                let entry = policy::find(line.value).map_err(|e| line.fail(e.to_string()))?;
                if (entry.new)().object(&policy::Object { bytes: None, urgency: 7 }).is_some() {
                    let what = "it chooses by objects, which a tunnel does not see";
                    return Err(line.fail(format!("Policy = {}: {what}", line.value)));
                }
                self.policy = entry.name;
            }
            word => match of_channel(word) {
                Some((n, rest)) => return self.ways[n].read(rest, line),
                None => return Err(line.unknown("interface")),
            },
        }
        Ok(())
    }

    /// A line of [Peer].
    fn peer(&mut self, line: Line<'_>) -> Result<(), ConfigError> {
        match line.key.to_ascii_lowercase().as_str() {
            "publickey" => self.peer = Some(line.read_named("PublicKey")?),
            "presharedkey" => self.preshared = Some(line.read_named("PresharedKey")?),
            "persistentkeepalive" => {
                let seconds = line.value.parse().ok().filter(|seconds| KEEPALIVE.contains(seconds));
                let (value, least, most) = (line.value, KEEPALIVE.start(), KEEPALIVE.end());
                let what =
                    format!("PersistentKeepalive: must be a number of seconds from {least} to {most} (got {value})");
                self.persistent_keepalive = Some(Duration::from_secs(seconds.ok_or_else(|| line.fail(what))?));
            }
            "allowedips" => self.allowed.extend(line.prefixes()?.iter().map(Prefix::network)),
            word => match of_channel(word) {
                Some((n, "endpoint")) => self.ways[n].endpoint = Some(line.read("ADDRESS:PORT")?),
                _ => return Err(line.unknown("peer")),
            },
        }
        Ok(())
    }

    fn finish(self) -> Result<Config, ConfigError> {
        let Self { mtu, name, bundle, addresses, allowed, ways, preshared, persistent_keepalive, .. } = self;
        let config = Config {
            key: self.key.ok_or(ConfigError::Missing("PrivateKey in [Interface]"))?,
            peer: self.peer.ok_or(ConfigError::Missing("PublicKey in [Peer]"))?,
            preshared,
            addresses,
            allowed,
            persistent_keepalive,
            mtu,
            name,
            bundle,
            ways,
            policy: policy::find(self.policy).map_err(|e| ConfigError::Senseless(e.to_string()))?,
        };
        config.check()?;
        Ok(config)
    }
}

/// Which channel a key is of, and what it says of it.
fn of_channel(word: &str) -> Option<(usize, &str)> {
    word.strip_prefix("fat").map(|rest| (0, rest)).or(word.strip_prefix("fast").map(|rest| (1, rest)))
}

impl Uplink {
    /// A line of [Interface] of this channel.
    fn read(&mut self, word: &str, line: Line<'_>) -> Result<(), ConfigError> {
        match word {
            "interface" => self.interface = Some(line.value.to_owned()),
            "local" => self.local = Some(line.read("address of this host")?),
            "listen" => self.listen = line.read("port")?,
            "rate" => self.rate = rate(line.value).ok_or_else(|| line.no("rate, such as 300mbit or 500kbit"))?,
            "use" => {
                let uses = Use::find(&line.value.to_ascii_lowercase());
                self.uses = uses.ok_or_else(|| line.no("use of a channel (primary, secondary, backup, never)"))?;
            }
            "cap" => self.cap = Some(cap(line.value).ok_or_else(|| line.no("cap, such as 2gb/30d or 500mb/24h"))?),
            _ => return Err(line.unknown("interface")),
        }
        Ok(())
    }
}

impl FromStr for Config {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut draft = Draft::new();
        let mut section = String::new();
        for (number, text) in (1..).zip(text.lines()) {
            let fail = |what: String| ConfigError::Line { line: number, what };
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            if let Some(head) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = head.trim().to_ascii_lowercase();
                if !["interface", "peer"].contains(&section.as_str()) {
                    let name = if head.len() < SHORTEST_SECRET { head } else { "…" };
                    return Err(fail(format!("unknown section [{name}]; choose one of [Interface], [Peer]")));
                }
                if section == "peer" && draft.peer.is_some() {
                    return Err(fail("a second [Peer]: a tunnel has only one peer".into()));
                }
                continue;
            }
            let parts = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let (key, value) = parts.ok_or_else(|| fail("must be `Key = value`".into()))?;
            let line = Line { number, key, value };
            match section.as_str() {
                "interface" => draft.interface(line)?,
                "peer" => draft.peer(line)?,
                _ => return Err(line.fail("it is outside a section: start with [Interface]")),
            }
        }
        draft.finish()
    }
}

impl Config {
    /// Between packets that keep the way open while nothing else is sent: as set, else by the host alone, which knows where the other
    /// end is.
    pub fn keepalive(&self, role: Role) -> Option<Duration> {
        let of_host = || ProbeSettings::default().rest.filter(|_| role == Role::Host);
        self.persistent_keepalive.or_else(of_host)
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.addresses.is_empty() {
            return Err(ConfigError::Missing("Address in [Interface]"));
        }
        if self.allowed.is_empty() {
            return Err(ConfigError::Missing("AllowedIPs in [Peer]"));
        }
        if self.ways[1].rate == 0 {
            return Err(ConfigError::Missing("FastRate in [Interface] (the rate of the fast channel, such as 2mbit)"));
        }
        if self.ways.iter().all(|way| way.uses == Use::Never) {
            return Err(ConfigError::Senseless("FatUse and FastUse are both never: nothing could be sent".into()));
        }
        let names = [("Fat", &self.ways[0]), ("Fast", &self.ways[1])];
        for (name, way) in names {
            if way.endpoint.is_none() && way.listen == 0 {
                let what = format!("neither {name}Endpoint nor {name}Listen is set: no peer could be reached over it");
                return Err(ConfigError::Senseless(what));
            }
            let looped = way.endpoint.filter(|to| self.allowed.iter().any(|prefix| prefix.contains(to.ip())));
            if let (Some(to), None) = (looped, &way.interface) {
                let what = format!(
                    "{name}Endpoint {to} is in AllowedIPs, so that the tunnel would lead into itself: set {name}Interface, or \
                     leave it out of AllowedIPs"
                );
                return Err(ConfigError::Senseless(what));
            }
        }
        if self.ways[0].listen != 0
            && self.ways[0].listen == self.ways[1].listen
            && self.ways[0].local == self.ways[1].local
        {
            return Err(ConfigError::Senseless(
                "FatListen and FastListen are the same port: give each channel its own".into(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub const SECRETS: [&str; 2] =
        ["aBUH9dBXSeTBJgQCK4fAQFxiSZlVOCFb9uJWhpJRlXU=", "yK5qMPE1oKgmP5EFIuqPzxXJbIxZQyOlWKj7hIz1LmU="];

    /// A file of a host or of its gateway.
    pub fn file(gateway: bool) -> String {
        let n = usize::from(gateway);
        let peer = SECRETS[1 - n].parse::<SecretKey>().unwrap().public();
        let [own, ends] = if gateway {
            ["10.77.0.1/24, fd77::1/64", "AllowedIPs = 10.77.0.2/32, fd77::2/128"]
        } else {
            let ends =
                "AllowedIPs = 10.77.0.0/24, fd77::/64\nFatEndpoint = 192.0.2.1:7000\nFastEndpoint = 192.0.2.1:7001";
            ["10.77.0.2/24, fd77::2/64", ends]
        };
        let listen = if gateway { "FatListen = 7000\nFastListen = 7001\n" } else { "" };
        let secret = SECRETS[n];
        format!(
            "# a tunnel\n[Interface]\nPrivateKey = {secret}\nAddress = {own}\nFastRate = 2mbit\n{listen}\n[Peer]\nPublicKey = {peer}\n{ends}\n"
        )
    }

    #[test]
    fn a_file_reads_with_its_defaults() {
        let config: Config = file(false).parse().unwrap();
        assert_eq!(
            (config.mtu, config.policy.name, config.ways[0].rate, config.ways[1].rate),
            (1412, "value", 1_000_000_000, 2_000_000)
        );
        assert_eq!(
            config.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.77.0.2/24", "fd77::2/64"]
        );
        assert_eq!(config.allowed[0].to_string(), "10.77.0.0/24");
        assert!(
            config.allowed[0].contains("10.77.0.9".parse().unwrap())
                && !config.allowed[0].contains("10.78.0.9".parse().unwrap())
        );
        assert!(
            config.allowed[1].contains("fd77::9".parse().unwrap())
                && !config.allowed[1].contains("10.77.0.9".parse().unwrap())
        );
        assert!(file(true).parse::<Config>().is_ok());
        let all = Prefix { address: "0.0.0.0".parse().unwrap(), bits: 0 };
        assert!(all.contains("203.0.113.5".parse().unwrap()));
    }

    #[test]
    fn a_channel_has_a_use_and_a_cap() {
        let text = file(false).replace("2mbit", "2mbit\nFastUse = Backup\nFatCap = 1.5 GB / 12h\nFastCap=20mb/30d");
        let [fat, fast] = text.parse::<Config>().unwrap().ways;
        assert_eq!((fat.uses, fast.uses), (Use::Primary, Use::Backup));
        assert_eq!(fat.cap, Some((1_500_000_000, Duration::from_secs(43_200))));
        assert_eq!(fast.cap, Some((20_000_000, Duration::from_secs(30 * 86_400))));
    }

    #[test]
    fn the_host_keeps_the_way_open_unless_told_otherwise() {
        let seconds = |text: &str, role| text.parse::<Config>().unwrap().keepalive(role).map(|every| every.as_secs());
        let own = [(file(false), Role::Host), (file(true), Role::Gateway)];
        assert_eq!(own.clone().map(|(text, role)| seconds(&text, role)), [Some(100), None]);
        let set = |text: &str| text.replace("AllowedIPs", "PersistentKeepalive = 25\nAllowedIPs");
        assert_eq!(own.map(|(text, role)| seconds(&set(&text), role)), [Some(25); 2]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |from: &str, to: &str| file(false).replace(from, to).parse::<Config>().unwrap_err().to_string();
        assert_eq!(told("FastRate = 2mbit", "FastRat = 2mbit"), "line 5: there is no \"FastRat\" in [interface]");
        assert_eq!(
            told("FastRate = 2mbit", ""),
            "FastRate in [Interface] (the rate of the fast channel, such as 2mbit) is missing"
        );
        assert_eq!(told("2mbit", "fast"), "line 5: \"fast\" is not a valid rate, such as 300mbit or 500kbit");
        assert!(
            told("10.77.0.2/24", "10.77.0.2/33").starts_with("line 4: "),
            "{}",
            told("10.77.0.2/24", "10.77.0.2/33")
        );
        assert!(told("AllowedIPs = 10.77.0.0/24", "AllowedIPs = 0.0.0.0/0").contains("lead into itself"));
        assert!(told("[Peer]", "[Pear]").contains("unknown section [Pear]"));
        assert!(told("FastRate = 2mbit", "FastRate = 2mbit\nMTU = 100").contains("from 1280 to 8900"));
        assert!(told("FastRate = 2mbit", "FastRate = 2mbit\nPolicy = obj-priority").contains("by objects"));
        assert!(told("FastEndpoint = 192.0.2.1:7001", "").contains("neither FastEndpoint nor FastListen"));
        assert!(told("2mbit", "2mbit\nFatUse = never\nFastUse = never").contains("nothing could be sent"));
        assert!(told("2mbit", "2mbit\nBundle = maybe").contains("yes or no"));
        assert!(told("2mbit", "2mbit\nFastUse = always").contains("primary, secondary, backup, never"));
        for wrong in ["2gb", "2gb/0d", "2gb/30m", "gb/30d", "-1gb/30d", "nangb/30d", "2/30d"] {
            assert!(told("2mbit", &format!("2mbit\nFastCap = {wrong}")).starts_with("line 6: "), "{wrong}");
        }
        for wrong in ["0", "121", "soon", "-1", ""] {
            let text = format!("PersistentKeepalive = {wrong}\nAllowedIPs");
            assert!(told("AllowedIPs", &text).contains("of seconds from 5 to 120"), "{wrong}");
        }
        assert!(told("PrivateKey = ", "PrivateKey = x").contains("headstart steer genkey"));
    }

    #[test]
    fn no_message_has_a_secret_key_in_it() {
        let secret = SECRETS[0];
        let relay = "6b3345f7".repeat(8);
        for text in [
            format!("headstart-relay-key-1 {relay}"),
            format!("[Interface]\n{secret}"),
            format!("[Interface]\nPrivateKey: {secret}"),
            format!("[Interface]\nPrivateKey {relay} = x"),
            format!("[Interface]\n{relay} = x"),
            format!("[Interface]\n{} =", "k".repeat(43)),
            format!("[Interface]\nPrivateKey = {secret}x"),
            format!("[{secret}]"),
            format!("[Interface]\nAddress = {secret}"),
            format!("[Interface]\nMTU = {secret}"),
            format!("[Interface]\nPolicy = {secret}"),
            format!("[Interface]\nFastRate = {secret}"),
            format!("[Peer]\nFastEndpoint = {secret}"),
            format!("[Peer]\nPersistentKeepalive = {relay}"),
        ] {
            let told = text.parse::<Config>().unwrap_err().to_string();
            let shown = [&secret[..32], &relay[..32], &"k".repeat(32)].iter().any(|part| told.contains(part));
            assert!(!shown && told.starts_with("line "), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_file_or_an_error(text in "(\\[(Interface|Peer)\\]|(Fat|Fast)?(Rate|Use|Cap|PersistentKeepalive|Endpoint|Listen|MTU|Address|AllowedIPs) ?= ?[0-9a-f:./]{0,20}|.{0,20}|\n){0,20}") {
            let _ = text.parse::<Config>();
        }
    }
}

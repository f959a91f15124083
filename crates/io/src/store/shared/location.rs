//! Where a shared store is, how to get in, and how to find it: `redis://`, `rediss://` (TLS), `redis+unix://`, and by way of Sentinels
//! `redis+sentinel://` and `rediss+sentinel://`.
//!
//! What is shown of a location never has its password.

use crate::store::seal::{SITE_KEY, Seal};
use headstart_core::cwnd::history::Secret;
use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsCertificates};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// How long a server may take for an answer before it counts as gone; its clients have gone on long before.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// The port of Sentinels, where none is given.
const SENTINELS_PORT: u16 = 26379;
/// What a location looks like, for errors.
const FORMS: &str = "redis://[USER:PASSWORD@]HOST[:PORT] (nodes of a cluster: HOST,HOST), rediss:// for TLS, redis+unix:///PATH or \
                     redis+sentinel://HOST[:PORT],HOST[:PORT]/NAME, with ?user=NAME, ?password-file=FILE, ?ca=FILE or ?seal-key=FILE \
                     behind it";

/// Where a shared store is.
#[derive(Clone)]
pub struct Location {
    /// Without a password.
    shown: String,
    way: Way,
    /// Authorities to trust, in PEM; those of the host if none.
    authorities: Option<Vec<u8>>,
    /// The key of the site that seals records.
    seal_key: Option<[u8; SITE_KEY]>,
}

#[derive(Clone)]
enum Way {
    /// A server, or some nodes of a cluster.
    Servers(Vec<ConnectionInfo>),
    /// The server that one of these says is the master of a name; `like` is how to get into it.
    Sentinels { sentinels: Vec<ConnectionInfo>, name: String, like: Box<ConnectionInfo> },
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({})", self.shown)
    }
}

/// Bytes of a file that a location names: all authorities of a host take 0.3 MiB.
const LONGEST_FILE: u64 = 16 << 20;

/// All that is in a file, which may be a device without end.
fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(io::Error::other(format!("it is larger than {} MiB", LONGEST_FILE >> 20)));
    }
    Ok(bytes)
}

/// The key of a site in the file `path`: 32 bytes in hexadecimal digits, for the owner of the file alone.
pub fn site_key_of(path: &Path) -> Result<[u8; SITE_KEY], String> {
    let text = bounded(path).map_err(|why| why.to_string())?;
    site_key(path, &text)
}

/// The key of a site in `text`, as `headstart relay key` or `openssl rand -hex 32` write one; for the owner of the file alone.
fn site_key(path: &Path, text: &[u8]) -> Result<[u8; SITE_KEY], String> {
    let about = std::fs::metadata(path).map_err(|why| why.to_string())?;
    if about.permissions().mode() & 0o077 != 0 {
        return Err("other users can read it: chmod 600".into());
    }
    let none =
        || format!("it does not contain a key ({} hexadecimal digits, as of `headstart relay key FILE`)", 2 * SITE_KEY);
    let text = std::str::from_utf8(text).map_err(|_| none())?;
    let digits = text.split_whitespace().last().filter(|digits| digits.len() == 2 * SITE_KEY).ok_or_else(none)?;
    let mut key = [0; SITE_KEY];
    for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
        *byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(none)?;
    }
    Ok(key)
}

/// What stands behind the question mark of a location.
#[derive(Default)]
struct Options {
    user: Option<String>,
    password: Option<String>,
    authorities: Option<Vec<u8>>,
    seal_key: Option<[u8; SITE_KEY]>,
}

impl Options {
    /// Reads the options, and the files that they name.
    fn read(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let file = || bounded(Path::new(value)).map_err(|why| format!("{name}={value}: {why}"));
            match name {
                "user" => options.user = Some(value.to_owned()),
                "password-file" => {
                    let text = String::from_utf8(file()?).map_err(|_| format!("{name}={value}: it is not UTF-8"))?;
                    options.password = Some(text.trim_end_matches(['\r', '\n']).to_owned());
                }
                "ca" => options.authorities = Some(file()?),
                "seal-key" => {
                    let key = file().and_then(|text| {
                        site_key(Path::new(value), &text).map_err(|why| format!("{name}={value}: {why}"))
                    });
                    options.seal_key = Some(key?);
                }
                _ => return Err(format!("unknown option `{name}`; choose one of user, password-file, ca, seal-key")),
            }
        }
        Ok(options)
    }

    /// The way into a server with what the options add.
    fn as_server(&self, info: ConnectionInfo) -> ConnectionInfo {
        let mut way = info.redis_settings().clone();
        if let Some(user) = &self.user {
            way = way.set_username(user);
        }
        if let Some(password) = &self.password {
            way = way.set_password(password);
        }
        info.set_redis_settings(way)
    }
}

impl std::str::FromStr for Location {
    type Err = String;

    /// Reads a location, with the files that it names.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, options) = text.split_once('?').unwrap_or((text, ""));
        let wrong = |why: String| format!("{}: {why}", shown(address));
        let none = || wrong(format!("not the address of a shared store: {FORMS}"));
        let options = Options::read(options).map_err(wrong)?;
        let (scheme, rest) = address.split_once("://").ok_or_else(none)?;
        // A fragment would switch off the check of certificates.
        if rest.contains('#') {
            return Err(none());
        }
        let server = |url: String| url.into_connection_info().map_err(|_| none());
        let (user, at, hosts) = rest.rsplit_once('@').map_or(("", "", rest), |(user, hosts)| (user, "@", hosts));
        let way = match scheme {
            "redis" | "rediss" => {
                let (hosts, base) = hosts.split_once('/').unwrap_or((hosts, ""));
                let each = |host| Ok(options.as_server(server(format!("{scheme}://{user}{at}{host}/{base}"))?));
                Way::Servers(hosts.split(',').map(each).collect::<Result<_, String>>()?)
            }
            "redis+unix" if rest.starts_with('/') => Way::Servers(vec![options.as_server(server(address.to_owned())?)]),
            "redis+sentinel" | "rediss+sentinel" => {
                let plain = scheme.trim_end_matches("+sentinel");
                let (hosts, name) = hosts.split_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(none)?;
                let sentinels = hosts.split(',').map(|host| {
                    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
                    let port = if has_port { String::new() } else { format!(":{SENTINELS_PORT}") };
                    server(format!("{plain}://{host}{port}"))
                });
                let like = Box::new(options.as_server(server(format!("{plain}://{user}{at}master"))?));
                Way::Sentinels { sentinels: sentinels.collect::<Result<_, _>>()?, name: name.to_owned(), like }
            }
            _ => return Err(none()),
        };
        if options.authorities.is_some() && !scheme.starts_with("rediss") {
            return Err(wrong("ca: only rediss:// speaks TLS".to_owned()));
        }
        let Options { authorities, seal_key, .. } = options;
        let location = Self { shown: shown(address), way, authorities, seal_key };
        // Authorities that are none are said now, not when a connection begins.
        location.client(location.like().clone()).map_err(|why| format!("{}: {why}", location.shown))?;
        Ok(location)
    }
}

/// An address without the password in it.
fn shown(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    match rest.rsplit_once('@') {
        Some((user, rest)) => format!("{scheme}://{}@{rest}", user.split(':').next().unwrap_or_default()),
        None => address.to_owned(),
    }
}

impl Location {
    /// Connects once, to see whether there is a server that lets us in.
    pub fn try_to_connect(&self) -> Result<(), impl fmt::Display + use<>> {
        let mut tried = (0..self.addresses().len()).map(|number| self.connect(number).map(drop));
        let first = tried.next().unwrap_or(Ok(()));
        if first.is_err() && tried.any(|other| other.is_ok()) { Ok(()) } else { first }
    }

    /// The hosts and ports of its servers; none of one that is a socket or is found by Sentinels.
    pub(super) fn addresses(&self) -> Vec<Option<(String, u16)>> {
        let Way::Servers(servers) = &self.way else { return vec![None] };
        let address = |info: &ConnectionInfo| match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Some((host.clone(), *port)),
            _ => None,
        };
        servers.iter().map(address).collect()
    }

    /// How to get into a server that is named elsewhere.
    fn like(&self) -> &ConnectionInfo {
        match &self.way {
            Way::Servers(servers) => &servers[0],
            Way::Sentinels { like, .. } => like,
        }
    }

    /// What seals records and names peers, where the site has a key.
    pub(super) fn seal(&self) -> Option<(Seal, Secret)> {
        let (seal, names) = Seal::of_site(self.seal_key.as_ref()?)?;
        Some((seal, Secret::new(names)))
    }

    /// A connection to the server of this number, which answers in time or counts as gone.
    pub(super) fn connect(&self, number: usize) -> RedisResult<Connection> {
        let (sentinels, name) = match &self.way {
            Way::Servers(servers) => return self.open(servers[number].clone()),
            Way::Sentinels { sentinels, name, .. } => (sentinels, name),
        };
        let mut last = None;
        for sentinel in sentinels {
            match self.open(sentinel.clone()).and_then(|mut sentinel| ask(&mut sentinel, name)) {
                Ok(Some((host, port))) => match self.connect_to(&host, port) {
                    Ok(open) => return Ok(open),
                    // It may be the one that is gone, which this Sentinel does not know yet.
                    Err(why) => last = Some(why),
                },
                Ok(None) => {}
                Err(why) => last = Some(why),
            }
        }
        let unknown = || redis::RedisError::from(std::io::Error::other(format!("no Sentinel knows {name:?}")));
        Err(last.unwrap_or_else(unknown))
    }

    /// A connection to the server that a node or a Sentinel has named.
    pub(super) fn connect_to(&self, host: &str, port: u16) -> RedisResult<Connection> {
        let like = self.like();
        self.open(like.clone().set_addr(moved(like.addr(), host.to_owned(), port)))
    }

    fn open(&self, info: ConnectionInfo) -> RedisResult<Connection> {
        // A user may have the rights to what is used here and no other.
        let way = info.redis_settings().clone().set_skip_set_lib_name();
        let info = info.set_redis_settings(way);
        let open = self.client(info)?.get_connection_with_timeout(PATIENCE)?;
        open.set_read_timeout(Some(PATIENCE))?;
        open.set_write_timeout(Some(PATIENCE))?;
        Ok(open)
    }

    fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        match &self.authorities {
            Some(pem) => {
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert: Some(pem.clone()) })
            }
            None => Client::open(info),
        }
    }
}

/// Where a Sentinel says that the master of `name` is.
fn ask(sentinel: &mut Connection, name: &str) -> RedisResult<Option<(String, u16)>> {
    redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name).query(sentinel)
}

/// `like` at another host.
fn moved(like: &ConnectionAddr, host: String, port: u16) -> ConnectionAddr {
    match like {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Location, String> {
        text.parse()
    }

    #[test]
    fn places_are_read_and_shown_without_their_password() {
        for (text, expected) in [
            ("redis://cache", "redis://cache"),
            ("redis://[::1]:7000/", "redis://[::1]:7000/"),
            ("redis://host/2", "redis://host/2"),
            ("redis://u:s3cret@a,[::1]:7000", "redis://u@a,[::1]:7000"),
            ("rediss://fleet:s3cret@cache:6380", "rediss://fleet@cache:6380"),
            ("redis://:s3cret@cache", "redis://@cache"),
            ("redis+unix:///run/redis.sock?user=fleet", "redis+unix:///run/redis.sock"),
            ("redis+sentinel://u:s3cret@a,b:7000/paths", "redis+sentinel://u@a,b:7000/paths"),
        ] {
            let location = read(text).unwrap();
            assert_eq!((location.to_string().as_str(), format!("{location:?}").contains("s3cret")), (expected, false));
        }
    }

    #[test]
    fn sentinels_have_a_port_of_their_own_and_the_master_a_password() {
        let Way::Sentinels { sentinels, name, like } = read("redis+sentinel://u:p@a,[::1],b:7000/paths").unwrap().way
        else {
            panic!("no Sentinels")
        };
        let addresses: Vec<_> = sentinels.iter().map(|info| info.addr().clone()).collect();
        let at = |host: &str, port| ConnectionAddr::Tcp(host.into(), port);
        assert_eq!((addresses, name.as_str()), (vec![at("a", 26379), at("::1", 26379), at("b", 7000)], "paths"));
        assert_eq!((like.redis_settings().username(), like.redis_settings().password()), (Some("u"), Some("p")));
        assert!(sentinels.iter().all(|info| info.redis_settings().password().is_none()), "they are asked without");
    }

    #[test]
    fn nodes_of_a_cluster_have_one_user_and_what_they_name_too() {
        let location = read("redis://u:p@a,[::1]:7000,b:7001").unwrap();
        let at = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(location.addresses(), [at("a", 6379), at("::1", 7000), at("b", 7001)]);
        let Way::Servers(servers) = &location.way else { panic!("no servers") };
        assert!(servers.iter().all(|info| info.redis_settings().password() == Some("p")));
    }

    #[test]
    fn a_password_is_read_from_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\n").unwrap();
        let text = format!("redis://cache?user=fleet&password-file={}", file.path().display());
        let location = read(&text).unwrap();
        let info = location.like();
        assert_eq!(
            (info.redis_settings().username(), info.redis_settings().password()),
            (Some("fleet"), Some("s3cret"))
        );
    }

    #[test]
    fn a_key_of_a_site_is_its_owners_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let digits = "0123456789abcdef".repeat(4);
        let of = |text: &str, mode| {
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            read(&format!("redis://cache?seal-key={}", file.path().display()))
        };
        for text in [digits.clone() + "\n", format!("headstart key {digits}\n")] {
            let location = of(&text, 0o600).unwrap();
            assert_eq!(location.seal_key.map(|key| key[..3].to_vec()), Some(vec![0x01, 0x23, 0x45]));
            assert!(!format!("{location:?} {location}").contains("0123"));
        }
        for text in ["", "0123", &format!("+1{}", &digits[2..]), &format!("{digits}0"), "é"] {
            let why = of(text, 0o600).unwrap_err();
            assert!(why.contains("64 hexadecimal digits") && !why.contains("0123"), "{text}: {why}");
        }
        assert!(of(&digits, 0o640).unwrap_err().contains("chmod 600"));
    }

    #[test]
    fn what_is_no_place_is_refused_without_its_password() {
        for (text, expected) in [
            ("", "redis://"),
            ("redis://", "redis://"),
            ("redis+unix://relative", "redis+unix:///PATH"),
            ("http://x", "not the address"),
            ("redis://x/paths", "not the address"),
            ("redis://x,", "not the address"),
            ("redis://x,y:port", "not the address"),
            ("rediss://x/#insecure", "not the address"),
            ("redis+sentinel://a,b", "not the address"),
            ("redis://x?colour=red", "unknown option `colour`"),
            ("redis://x?password-file=/nowhere/file", "/nowhere/file"),
            ("redis://x?seal-key=/nowhere/key", "/nowhere/key"),
            ("redis://x?seal-key=/dev/zero", "larger than 16 MiB"),
            ("redis://x?password-file=/dev/zero", "larger than 16 MiB"),
            ("rediss://x?ca=/dev/zero", "larger than 16 MiB"),
            ("rediss://x?ca=/nowhere/ca.pem", "/nowhere/ca.pem"),
            ("redis://x?ca=/dev/null", "only rediss://"),
            ("redis://u:s3cret@x/paths", "redis://u@x/paths"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(expected) && !why.contains("s3cret"), "{text}: {why}");
        }
    }
}

//! The host's own rules about names: which are DNS's business, and which server is asked (hosts(5), resolv.conf(5),
//! nsswitch.conf(5)). What these files decide otherwise is left to the C library, which reads them too.

use headstart_core::connect::Patience;
use headstart_core::time::Duration;
use headstart_core::wire::shim::Pass;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Servers that are asked at most: MAXNS of resolv.conf(5).
const MAX_SERVERS: usize = 3;
/// Sources of nsswitch.conf(5) that say nothing of names with a dot that DNS knows, or are DNS.
const SOURCES_UNDERSTOOD: [&str; 8] =
    ["files", "dns", "myhostname", "mymachines", "mdns_minimal", "mdns4_minimal", "mdns6_minimal", "libvirt"];
/// Asks systemd-resolved, which may know other names and servers than resolv.conf(5) tells, unless that leads to it as well.
const RESOLVED: &str = "resolve";
/// Where systemd-resolved listens for DNS (systemd-resolved.service(8)).
const OF_RESOLVED: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 53), Ipv4Addr::new(127, 0, 0, 54)];
/// Options of resolv.conf(5), without their values, that change neither what is asked nor how.
const OPTIONS_UNDERSTOOD: [&str; 13] = [
    "timeout",
    "attempts",
    "ndots",
    "rotate",
    "edns0",
    "trust-ad",
    "single-request",
    "single-request-reopen",
    "debug",
    "inet6",
    "no-tld-query",
    "no-check-names",
    "no-reload",
];

/// The four files, read again when they change.
#[derive(Debug)]
pub struct Names {
    files: [(PathBuf, Option<SystemTime>); 4],
    rules: Rules,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rules {
    hosts: HashSet<String>,
    servers: Vec<SocketAddr>,
    /// Servers are named that cannot be understood, such as link-local ones of an interface that is not there.
    other_servers: bool,
    /// An option that is not understood, such as `use-vc` or `no-aaaa`.
    other_options: bool,
    searches: bool,
    ndots: usize,
    patience: Patience,
    dns_only: bool,
    /// Sources behind DNS, which are asked where that knows no name or no addresses of it.
    asks_others_after: bool,
    /// IPv4 addresses have a higher precedence than global IPv6 ones.
    prefers_v4: bool,
}

impl Names {
    /// The rules of this host, from /etc.
    pub fn of_host() -> Self {
        Self::from_folder(Path::new("/etc"))
    }

    /// The rules in the files `hosts`, `resolv.conf`, `nsswitch.conf` and `gai.conf` of `folder`; a missing file has no rules.
    pub fn from_folder(folder: &Path) -> Self {
        let files = ["hosts", "resolv.conf", "nsswitch.conf", "gai.conf"].map(|f| (folder.join(f), None));
        let mut names = Self { files, rules: Rules::default() };
        names.read();
        names
    }

    /// Reads the files again if one has changed. Returns whether one had.
    pub fn refresh(&mut self) -> bool {
        let changed = self.files.iter().any(|(path, known)| modified(path) != *known);
        if changed {
            self.read();
        }
        changed
    }

    fn read(&mut self) {
        let texts = self.files.each_mut().map(|(path, known)| {
            *known = modified(path);
            std::fs::read(&*path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
        });
        let hostname = rustix::system::uname();
        let has_domain = hostname.nodename().to_bytes().contains(&b'.');
        self.rules = Rules::parse(&texts[0], &texts[1], &texts[2], has_domain);
        self.rules.prefers_v4 = prefers_v4(&texts[3]);
    }

    /// The servers to ask, in order.
    pub fn servers(&self) -> &[SocketAddr] {
        &self.rules.servers
    }

    /// How long the C library asks them.
    pub fn patience(&self) -> Patience {
        self.rules.patience
    }

    /// Whether gai.conf(5) puts IPv4 addresses first.
    pub fn prefers_v4(&self) -> bool {
        self.rules.prefers_v4
    }

    /// Whether [these](Self::servers) are all that programs may ask.
    pub fn knows_all_servers(&self) -> bool {
        !self.rules.other_servers
    }

    /// Whether `name` is for DNS as it stands; else why it is left to the C library.
    pub fn check(&self, name: &str) -> Result<(), Pass> {
        self.rules.check(name)
    }

    /// Whether the C library would go on where DNS has no addresses for `name`: with search domains, or with other sources.
    pub fn would_go_on(&self, name: &str) -> Option<Pass> {
        let searches = self.would_search(name).then_some(Pass::SearchDomain);
        searches.or(self.rules.asks_others_after.then_some(Pass::NameService))
    }

    /// Whether the C library would try search domains after DNS has no answer for `name`.
    pub fn would_search(&self, name: &str) -> bool {
        self.rules.searches && !name.ends_with('.')
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}

impl Rules {
    fn parse(hosts: &str, resolv: &str, nsswitch: &str, has_domain: bool) -> Self {
        let mut rules = Self { ndots: 1, dns_only: true, searches: has_domain, ..Self::default() };
        let words = |line: &str, comments: &[char]| -> Vec<String> {
            let line = line.split(comments).next().unwrap_or_default();
            line.split_ascii_whitespace().map(str::to_ascii_lowercase).collect()
        };
        for line in hosts.lines() {
            rules.hosts.extend(words(line, &['#']).into_iter().skip(1));
        }
        for line in resolv.lines().map(|l| words(l, &['#', ';'])) {
            match line.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["nameserver", addr, ..] if rules.servers.len() < MAX_SERVERS => match server(addr) {
                    Some(server) => rules.servers.push(server),
                    None => rules.other_servers = true,
                },
                ["search" | "domain", ref list @ ..] => rules.searches = !matches!(list, [] | ["."]),
                ["options", ref list @ ..] => {
                    let ndots = list.iter().filter_map(|o| o.strip_prefix("ndots:")).filter_map(|n| n.parse().ok());
                    rules.ndots = ndots.fold(rules.ndots, |_, n| n);
                    rules.wait(list);
                    let is_understood = |o: &&str| OPTIONS_UNDERSTOOD.contains(&o.split(':').next().unwrap_or(o));
                    rules.other_options |= !list.iter().all(is_understood);
                }
                _ => {}
            }
        }
        if rules.servers.is_empty() {
            // resolv.conf(5): without a nameserver line, the one on this host.
            rules.servers.push(SocketAddr::from(([127, 0, 0, 1], 53)));
        }
        let line = nsswitch.lines().map(|l| words(l, &['#'])).find(|l| l.first().is_some_and(|w| w == "hosts:"));
        if let Some(line) = line {
            let mut sources = line[1..].iter().map(String::as_str).filter(|w| !w.starts_with('[') && !w.ends_with(']'));
            let asks_resolved = |server: &SocketAddr| OF_RESOLVED.map(IpAddr::V4).contains(&server.ip());
            let is_dns = |s: &str| s == "dns" || s == RESOLVED && rules.servers.iter().all(asks_resolved);
            let all_understood = sources.clone().all(|s| SOURCES_UNDERSTOOD.contains(&s) || is_dns(s));
            rules.dns_only = all_understood && sources.any(is_dns);
            // What is left are those behind the first that is DNS.
            rules.asks_others_after = sources.any(|s| !is_dns(s) && s != "files");
        }
        rules
    }

    /// How long the C library waits, within its own limits (RES_MAXRETRANS, RES_MAXRETRY).
    fn wait(&mut self, options: &[&str]) {
        for option in options {
            match option.split_once(':').map(|(name, n)| (name, n.parse::<u32>())) {
                Some(("timeout", Ok(n))) => self.patience.timeout = Duration::from_secs(n.clamp(1, 30).into()),
                Some(("attempts", Ok(n))) => self.patience.attempts = n.clamp(1, 5),
                _ => {}
            }
        }
    }

    fn check(&self, name: &str) -> Result<(), Pass> {
        let absolute = name.ends_with('.');
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let dots = name.matches('.').count();
        let last = name.rsplit('.').next().unwrap_or_default();
        if !is_hostname(&name) {
            Err(Pass::BadName)
        } else if self.hosts.contains(&name) {
            Err(Pass::HostsFile)
        } else if dots == 0 || ["local", "localhost", "onion", "internal", "home", "lan"].contains(&last) {
            Err(Pass::LocalName)
        } else if dots < self.ndots && !absolute && self.searches {
            Err(Pass::SearchDomain)
        } else if !self.dns_only || self.other_servers || self.other_options {
            Err(Pass::NameService)
        } else {
            Ok(())
        }
    }
}

/// A server of resolv.conf(5): an address, a link-local one with its interface.
fn server(text: &str) -> Option<SocketAddr> {
    let Some((ip, interface)) = text.split_once('%') else { return Some(SocketAddr::new(text.parse().ok()?, 53)) };
    let scope = interface.parse().ok().or_else(|| interface_index(interface))?;
    Some(SocketAddrV6::new(ip.parse().ok()?, 53, 0, scope).into())
}

/// Whether the last line of gai.conf(5) about them gives IPv4 addresses a higher precedence than the 40 of all other IPv6 ones.
fn prefers_v4(gai: &str) -> bool {
    let precedence = |line: &str| {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let is_it = words.next() == Some("precedence") && words.next() == Some("::ffff:0:0/96");
        words.next().filter(|_| is_it)?.parse::<u32>().ok()
    };
    gai.lines().filter_map(precedence).next_back().is_some_and(|precedence| precedence > 40)
}

fn interface_index(name: &str) -> Option<u32> {
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    rustix::net::netdevice::name_to_index(any, name).ok()
}

/// Whether `name` is spelled as names of hosts are (RFC 1123, section 2.1, and the underscore, which the C library lets
/// pass). What it makes of others it knows best.
fn is_hostname(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label =
        |l: &str| (1..=63).contains(&l.len()) && l.bytes().all(good) && !l.starts_with('-') && !l.ends_with('-');
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(hosts: &str, resolv: &str, nsswitch: &str) -> Rules {
        Rules::parse(hosts, resolv, nsswitch, false)
    }
    const PLAIN: &str = "nameserver 192.0.2.53\n";

    #[test]
    fn names_in_etc_hosts_are_left_alone_whatever_their_case() {
        let r = rules("192.0.2.1 Intranet.example.org intranet # the.old.one\n", PLAIN, "");
        assert_eq!(r.check("intranet.EXAMPLE.org."), Err(Pass::HostsFile));
        assert_eq!(r.check("the.old.one"), Ok(()));
    }

    #[test]
    fn names_that_no_host_may_have_are_left_to_the_c_library() {
        let r = rules("", PLAIN, "");
        let long = format!("{}.example", "x".repeat(64));
        for name in ["a..b", "with space.example", "-dash.example", "dash-.example", "a.exam*le", ".", "", &long] {
            assert_eq!(r.check(name), Err(Pass::BadName), "{name:?}");
        }
        assert_eq!(r.check("under_score.xn--bcher-kva.example."), Ok(()));
    }

    #[test]
    fn names_that_are_not_for_dns_are_left_alone() {
        let r = rules("", PLAIN, "");
        for name in ["printer", "printer.local", "x.onion", "a.localhost", "router.lan"] {
            assert_eq!(r.check(name), Err(Pass::LocalName), "{name}");
        }
        assert_eq!(r.check("www.example.org"), Ok(()));
    }

    #[test]
    fn servers_options_and_search_lists_are_read_as_the_c_library_reads_them() {
        let text = "# comment\nnameserver 192.0.2.1\nnameserver 2001:db8::1 ; second\nnameserver fe80::1%7\n\
                    nameserver 192.0.2.3\nsearch example.org\noptions timeout:1 ndots:2\n";
        let r = rules("", text, "");
        let servers: Vec<String> = r.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%7]:53"]);
        assert_eq!(r.check("www.example"), Err(Pass::SearchDomain), "one dot is fewer than two");
        assert_eq!(r.check("www.example."), Ok(()), "absolute");
        assert_eq!(r.check("a.b.example"), Ok(()));
        assert_eq!(r.patience, Patience { timeout: Duration::from_secs(1), attempts: 2 });
        let most = rules("", "options timeout:99 attempts:9\noptions attempts:x rotate\n", "").patience;
        assert_eq!(most, Patience { timeout: Duration::from_secs(30), attempts: 5 });
        assert_eq!(rules("", "", "").patience, Patience::default());
        assert_eq!(rules("", "", "").servers, [SocketAddr::from(([127, 0, 0, 1], 53))]);
        assert!(!rules("", "search .\n", "").searches);
    }

    #[test]
    fn servers_and_options_that_are_not_understood_leave_names_to_the_c_library() {
        let says = |text: &str| rules("", text, "").check("www.example.org");
        for text in [
            "nameserver bad\n",
            "nameserver fe80::1%no-such-one\nnameserver 192.0.2.1\n",
            "options use-vc\n",
            "options rotate no-aaaa\n",
        ] {
            assert_eq!(says(text), Err(Pass::NameService), "{text:?}");
        }
        assert_eq!(says("nameserver fe80::1%lo\noptions rotate edns0 timeout:1 trust-ad\n"), Ok(()));
    }

    #[test]
    fn the_line_that_puts_ipv4_first_is_read() {
        assert!(
            prefers_v4("# prefer\nprecedence ::ffff:0:0/96  100 # so\n")
                && !prefers_v4("#precedence ::ffff:0:0/96  100\n")
        );
        assert!(!prefers_v4("precedence ::ffff:0:0/96 10\nprecedence ::/0 40\n") && !prefers_v4(""));
    }

    #[test]
    fn what_systemd_resolved_knows_it_is_asked_for() {
        let says = |resolv: &str, line: &str| rules("", resolv, line).check("www.example.org");
        let line = "hosts: files resolve [!UNAVAIL=return] dns";
        assert_eq!(says(PLAIN, line), Err(Pass::NameService), "it may have servers of its own for some names");
        assert_eq!(says("nameserver 127.0.0.53\n", line), Ok(()), "it is asked either way");
    }

    #[test]
    fn sources_behind_dns_are_asked_where_it_knows_nothing() {
        let goes_on = |line: &str| rules("", PLAIN, line).asks_others_after;
        assert!(goes_on("hosts: files dns myhostname") && goes_on("hosts: dns mymachines"));
        assert!(!goes_on("hosts: files mdns4_minimal [NOTFOUND=return] dns") && !goes_on("hosts: files dns"));
        assert!(!goes_on("passwd: files"));
    }

    #[test]
    fn other_name_services_keep_their_names() {
        let ours = |line| rules("", PLAIN, line).check("www.example.org");
        assert_eq!(ours("hosts: files mdns4_minimal [NOTFOUND=return] dns myhostname"), Ok(()));
        assert_eq!(ours("hosts: files ldap dns"), Err(Pass::NameService));
        assert_eq!(ours("hosts: files"), Err(Pass::NameService));
        assert_eq!(ours("passwd: files"), Ok(()), "no line: the default has dns");
    }
}

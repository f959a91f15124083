//! Third-party programs by a line of shell each: whatever opens a TCP connection to a host that it is told, and says something
//! there. Beside [`super::ALL`], whose programs fetch pages that are looked at.
//!
//! A line is told a URL (`$1`), the URL's host (`$2`) and a folder of its own (`$3`). What it asks for there does not matter, nor
//! what it makes of the answer: that it was heard is seen on the wire. No line reads settings of the user where it can help it.

use super::{compile, search_path, write};
use headstart_io::program::find;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of the table.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its name in tables, hyphenated.
    pub name: &'static str,
    /// The file on the PATH without which it is not there.
    pub file: &'static str,
    /// The Debian package that brings it.
    pub package: &'static str,
    /// What is run, by `sh -c`.
    script: &'static str,
    /// A source file by its name, and the line that makes a program of it in the folder; nothing to make if none.
    made: Option<(&'static str, &'static str, &'static str)>,
    /// Whether headstart is known not to reach it: it is never worse for it, and never better.
    pub uncovered: bool,
}

const fn line(name: &'static str, file: &'static str, package: &'static str, script: &'static str) -> Line {
    Line { name, file, package, script, made: None, uncovered: false }
}

const fn made(line: Line, source: &'static str, text: &'static str, make: &'static str) -> Line {
    Line { made: Some((source, text, make)), ..line }
}

/// Every line, in the order of tables.
pub const LINES: &[Line] = &[
    line("curl-4", "curl", "curl", r#"exec curl -q -4 -s -f "$1""#),
    line(
        "perl",
        "perl",
        "perl",
        r#"exec perl -MHTTP::Tiny -e '$r = HTTP::Tiny->new->get($ARGV[0]); print $r->{content}; exit !$r->{success}' "$1""#,
    ),
    line(
        "perl-lwp",
        "lwp-request",
        "libwww-perl",
        r#"exec perl -MLWP::UserAgent -e '$r = LWP::UserAgent->new->get($ARGV[0]); print $r->content; exit !$r->is_success' "$1""#,
    ),
    line("ruby", "ruby", "ruby", r#"exec ruby -rnet/http -e 'print Net::HTTP.get(URI(ARGV[0]))' "$1""#),
    line("php", "php", "php-cli", r#"exec php -n -r 'exit(readfile($argv[1]) ? 0 : 1);' -- "$1""#),
    line("busybox", "busybox", "busybox", r#"exec busybox wget -q -O - "$1""#),
    made(
        line("musl", "musl-gcc", "musl-tools", r#"exec "$3/reach" "$2""#),
        "reach.c",
        include_str!("scripts/reach.c"),
        "musl-gcc -static -O2 -o reach reach.c",
    ),
    Line {
        uncovered: true,
        ..made(
            line("io-uring", "gcc", "liburing-dev", r#"exec "$3/uring" "$2""#),
            "uring.c",
            include_str!("scripts/uring.c"),
            "gcc -O2 -o uring uring.c -luring",
        )
    },
    made(
        line("go-cgo", "go", "golang-go", r#"exec "$3/fetch" "$1""#),
        "fetch.go",
        include_str!("scripts/fetch.go"),
        "CGO_ENABLED=1 GO111MODULE=on GOTOOLCHAIN=local GOFLAGS= go build -tags netcgo -o fetch fetch.go",
    ),
    made(
        line("java-url", "javac", "default-jdk-headless", r#"exec java -cp "$3" Plain "$1""#),
        "Plain.java",
        include_str!("scripts/Plain.java"),
        "javac Plain.java",
    ),
    line(
        "node-http",
        "node",
        "nodejs",
        r#"exec node -e 'require("http").get(process.argv[1], a => a.pipe(process.stdout))' "$1""#,
    ),
    line("httpie", "http", "httpie", r#"HOME=$3 exec http --ignore-stdin --check-status GET "$1""#),
    line("git-http", "git", "git", r#"HOME=$3 GIT_TERMINAL_PROMPT=0 exec git ls-remote "${1}repo.git""#),
    line("git-daemon", "git", "git", r#"HOME=$3 exec git ls-remote "git://$2:80/repo""#),
    line(
        "ssh",
        "ssh",
        "openssh-client",
        r#"exec ssh -F none -p 80 -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "$2" true"#,
    ),
    line("rsync", "rsync", "rsync", r#"exec rsync "rsync://$2:80/""#),
    line(
        "apt",
        "apt-get",
        "apt",
        r#"exec /usr/lib/apt/apt-helper -o APT::Sandbox::User=root -o Acquire::Retries=0 download-file "$1" "$3/page.$$""#,
    ),
    line(
        "pip",
        "pip",
        "python3-pip",
        r#"HOME=$3 exec pip --isolated download --no-cache-dir --disable-pip-version-check --retries 0 -d "$3" "${1}x-1.tar.gz""#,
    ),
    line(
        "npm",
        "npm",
        "npm",
        r#"HOME=$3 exec npm --registry "$1" --fetch-retries 0 --cache "$3/npm" --no-update-notifier view x"#,
    ),
    line(
        "cargo",
        "cargo",
        "cargo",
        r#"cd "$3" && CARGO_HOME=$3 CARGO_NET_RETRY=0 exec cargo search --index "sparse+$1" x"#,
    ),
    line("psql", "psql", "postgresql-client", r#"exec psql "host=$2 port=80 user=x dbname=x sslmode=disable" -c ''"#),
    line("redis-cli", "redis-cli", "redis-tools", r#"exec redis-cli -h "$2" -p 80 PING"#),
    line("ffmpeg", "ffprobe", "ffmpeg", r#"exec ffprobe -v error "$1""#),
    line(
        "firefox",
        "firefox-esr",
        "firefox-esr",
        r#"p=$(mktemp -d "$3/profile.XXXXXX"); trap 'rm -rf "$p"' EXIT
        HOME=$p firefox-esr --headless --no-remote --profile "$p" --screenshot "$p/page.png" "$1""#,
    ),
    line("nc", "nc", "netcat-openbsd", r#"printf 'GET / HTTP/1.0\r\n\r\n' | nc "$2" 80"#),
    line("ncat", "ncat", "ncat", r#"printf 'GET / HTTP/1.0\r\n\r\n' | ncat "$2" 80"#),
    line("socat", "socat", "socat", r#"printf 'GET / HTTP/1.0\r\n\r\n' | socat - "TCP:$2:80""#),
    line(
        "bash",
        "bash",
        "bash",
        r#"exec bash -c 'exec 3<>"/dev/tcp/$0/80"; printf "GET / HTTP/1.0\r\n\r\n" >&3; cat <&3' "$2""#,
    ),
    line("openssl", "openssl", "openssl", r#"exec openssl s_client -connect "$2:80""#),
    line("gnutls", "gnutls-cli", "gnutls-bin", r#"exec gnutls-cli --insecure -p 80 "$2""#),
    line("lftp", "lftp", "lftp", r#"HOME=$3 exec lftp -c "set net:max-retries 1; cat $1""#),
    line(
        "aria2",
        "aria2c",
        "aria2",
        r#"exec aria2c --no-conf -q --max-tries=1 --allow-overwrite=true --enable-dht=false -d "$3" -o "page.$$" "$1""#,
    ),
    line("axel", "axel", "axel", r#"exec axel -q -n 1 -o "$3/page.$$" "$1""#),
    line("w3m", "w3m", "w3m", r#"HOME=$3 exec w3m -dump_source "$1""#),
    line("lynx", "lynx", "lynx", r#"HOME=$3 exec lynx -source "$1""#),
    line("elinks", "elinks", "elinks", r#"HOME=$3 exec elinks -dump "$1""#),
    line("links", "links", "links", r#"HOME=$3 exec links -source "$1""#),
    line("mosquitto", "mosquitto_pub", "mosquitto-clients", r#"exec mosquitto_pub -h "$2" -p 80 -t x -m x"#),
    line("svn", "svn", "subversion", r#"HOME=$3 exec svn info --non-interactive "$1""#),
    line("ldapsearch", "ldapsearch", "ldap-utils", r#"exec ldapsearch -x -H "ldap://$2:80" -b x"#),
    line("whois", "whois", "whois", r#"exec whois -h "$2" -p 80 x"#),
    line("dig-tcp", "dig", "bind9-dnsutils", r#"exec dig +tcp +tries=1 -p 80 "@$2" x.example"#),
    line("docker", "docker", "docker-cli", r#"HOME=$3 exec docker -H "tcp://$2:80" version"#),
];

impl Line {
    /// Makes it ready in `workdir`, a folder that exists and is its own; none if it is not on this machine.
    pub fn prepare(&'static self, workdir: &Path) -> anyhow::Result<Option<Prepared>> {
        if find(OsStr::new(self.file), Some(&search_path())).is_none() {
            return Ok(None);
        }
        if let Some((name, text, make)) = self.made {
            write(workdir, name, text)?;
            compile(Command::new("/bin/sh").args(["-c", make]).current_dir(workdir), "program")?;
        }
        Ok(Some(Prepared { line: self, workdir: workdir.to_owned() }))
    }
}

/// A line that is ready to be run.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What it is.
    pub line: &'static Line,
    workdir: PathBuf,
}

impl Prepared {
    /// Its words: a program and its arguments. `url` ends with a slash.
    pub fn words(&self, url: &str, host: &str) -> Vec<std::ffi::OsString> {
        let Self { line, workdir } = self;
        let first = ["/bin/sh", "-c", line.script, "sh", url, host].map(Into::into);
        first.into_iter().chain([workdir.clone().into_os_string()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_unique_among_all_programs_and_use_what_they_are_told() {
        for (i, line) in LINES.iter().enumerate() {
            let others = LINES[..i].iter().map(|l| l.name).chain(super::super::ALL.iter().map(|p| p.name));
            assert!(others.into_iter().all(|name| name != line.name), "{} twice", line.name);
            assert!(["$1", "${1}", "$2"].iter().any(|told| line.script.contains(told)), "{}", line.name);
            let parsed = Command::new("/bin/sh").args(["-n", "-c", line.script]).output().unwrap();
            assert!(parsed.status.success(), "{}: {}", line.name, String::from_utf8_lossy(&parsed.stderr));
        }
    }

    #[test]
    fn a_line_that_needs_a_program_is_made_and_one_that_is_missing_is_said_to_be() {
        const ABSENT: Line = line("absent", "no-such-program-here", "none", "exec no-such-program-here \"$1\"");
        const MAKING: Line =
            made(line("making", "sh", "dash", r#"exec "$3/it" "$1""#), "it", "echo \"$1\"", "chmod +x it");
        let folder = tempfile::tempdir().unwrap();
        assert!(ABSENT.prepare(folder.path()).unwrap().is_none());
        let ready = MAKING.prepare(folder.path()).unwrap().unwrap();
        let words = ready.words("http://h.example/", "h.example");
        let said = Command::new(&words[0]).args(&words[1..]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "http://h.example/\n");
    }
}

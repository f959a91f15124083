//! Wrong input of every verb, one line a mistake: the exit code, the words (`''` is an empty one), and what the error contains.

use crate::wrong_input::headstart;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

/// In files and arguments that hold a key or a password; in no message.
const SECRET: &str = "hunter2hunter2hunter2hunter2hunt";

const TABLE: &[(i32, &str, &str)] = &[
    (2, "serve", "the following required arguments were not provided"),
    (2, "serve /nonexistent", "/nonexistent: No such file"),
    (2, "serve file", "file: Not a directory"),
    (2, "serve d --listen nonsense", "invalid value 'nonsense' for '--listen <ADDRESS:PORT>':"),
    (2, "serve d --listen 1.2.3.4:99999", "invalid value '1.2.3.4:99999' for '--listen"),
    (1, "serve d --listen 203.0.113.7:80", "203.0.113.7:80 is not an address of this host: list"),
    (2, "serve d --cert /nonexistent", "the following required arguments were not provided"),
    (2, "serve d --cert file", "the following required arguments were not provided"),
    (2, "serve d --cert file --key file", "file: no valid certificate in it"),
    (2, "serve d --key file", "the following required arguments were not provided"),
    (2, "serve d --start-most -1", "invalid value '-1' for '--start-most <BYTES>'"),
    (2, "serve d --start-most abc", "invalid value 'abc' for '--start-most <BYTES>'"),
    (2, "serve d --start-lifetime 0", "invalid value '0' for '--start-lifetime <SECONDS>': must be"),
    (2, "serve d --start-lifetime abc", "invalid value 'abc' for '--start-lifetime <SECONDS>':"),
    (
        2,
        "serve d --start-share 101",
        "invalid value '101' for '--start-share <PERCENT>': must be from 0 to 100 (got 101)",
    ),
    (2, "serve d --start-share abc", "invalid value 'abc' for '--start-share <PERCENT>'"),
    (2, "serve d --grace abc", "invalid value 'abc' for '--grace <SECONDS>'"),
    (2, "serve d --grace nan", "invalid value 'nan' for '--grace <SECONDS>'"),
    (2, "serve d --store redis://", "not the address of a shared store"),
    (2, "serve d --store ''", "unknown store ``; choose one of `user`, `memory`, a folder (with a"),
    (2, "serve d --bogus", "unexpected argument '--bogus' found"),
    (2, "get", "the following required arguments were not provided"),
    (2, "get nonsense", "\"nonsense\" cannot be fetched: it must begin with https://"),
    (2, "get http://localhost/", "\"http://localhost/\" cannot be fetched: only https is"),
    (2, "get ftp://localhost/", "\"ftp://localhost/\" cannot be fetched: only https is supported,"),
    (2, "get https://", "it has no host name"),
    (2, "get https:///x", "it has no host name"),
    (2, "get https://localhost:99999/", "\"https://localhost:99999/\" cannot be fetched: \"99999\" is no"),
    (2, "get https://localhost:1/ -o d", "d is a folder: give a file name in it"),
    (2, "get https://localhost:1/ --ca /nonexistent -o /dev/null", "/nonexistent: No such file"),
    (2, "get https://localhost:1/ --ca file -o /dev/null", "file contains no valid certificate"),
    (2, "get https://localhost:1/ --ca zero -o /dev/null", "zero contains no valid certificate"),
    (2, "get https://localhost:1/ --http 4", "invalid value '4' for '--http <VERSION>'"),
    (2, "get https://localhost:1/ --times 0", "invalid value '0' for '--times <N>': must be from 1 to 10000 (got 0)"),
    (
        2,
        "get https://localhost:1/ --times -1",
        "invalid value '-1' for '--times <N>': must be from 1 to 10000 (got -1)",
    ),
    (2, "get https://localhost:1/ --times x", "invalid value 'x' for '--times <N>'"),
    (2, "get https://localhost:1/ --start bogus", "unknown start rule `bogus`; choose one of default,"),
    (
        5,
        "get https://localhost:1/ --http 1.1 --start careful-resume -o /dev/null",
        "cannot connect to localhost: 127.0.0.1:1 over TCP:",
    ),
    (2, "get https://user:pw@localhost:1/ -o /dev/null", "user names in URLs are not supported"),
    (2, "get https://[::1/ -o /dev/null", "invalid authority"),
    (2, "run", "the following required arguments were not provided"),
    (2, "run --", "the following required arguments were not provided"),
    (127, "run -- /nonexistent", "/nonexistent: No such file"),
    (127, "run -- nonexistent-program", "nonexistent-program: No such file or directory (os error 2)"),
    (126, "run -- ./file", "./file: Permission denied (os error 13)"),
    (126, "run -- ./d", "./d: Permission denied (os error 13)"),
    (2, "run --via bogus -- true", "invalid value 'bogus' for '--via <VIA>'"),
    (2, "run --via", "a value is required for '--via <VIA>' but none was supplied"),
    (2, "run --race '' -- true", "unknown race ``; choose one of sequential,"),
    (2, "run --explore 2 -- true", "--explore: must be a number from 0 to 1 (got 2)"),
    (2, "run --explore x -- true", "--explore: must be a number from 0 to 1 (got x)"),
    (2, "run --explore nan -- true", "--explore: must be a number from 0 to 1 (got NaN)"),
    (2, "run --cache-lifetime -5s -- true", "--cache-lifetime: must be `ttl`, `off`, or seconds"),
    (2, "run --cache-lifetime 5m -- true", "--cache-lifetime: must be `ttl`, `off`, or seconds such as"),
    (2, "run --flows x -- true", "the following required arguments were not provided"),
    (2, "run --pcapng x -- true", "the following required arguments were not provided"),
    (2, "run --snap 10 -- true", "the following required arguments were not provided"),
    (2, "run --request-rtt -- true", "the following required arguments were not provided"),
    (2, "run --accelerate -- true", "the following required arguments were not provided"),
    (2, "run --no-lookout -- true", "the following required arguments were not provided"),
    (2, "run --bogus -- true", "unexpected argument '--bogus' found"),
    (2, "rnu -- true", "unrecognized subcommand 'rnu'"),
    (2, "watch -i 0", "must be from 0.1 to 3600 seconds (got 0)"),
    (2, "watch -i -1", "must be from 0.1 to 3600 seconds (got -1)"),
    (2, "watch -i x", "must be a number"),
    (2, "top abc", "invalid value 'abc' for '[PID]'"),
    (2, "metrics --listen x", "invalid value 'x' for '--listen <ADDRESS:PORT>'"),
    (1, "metrics --listen 203.0.113.7:80", "203.0.113.7:80 is not an address of this host"),
    (2, "metrics --print bogus", "invalid value 'bogus' for '--print <WHAT>'"),
    (2, "trace", "the following required arguments were not provided"),
    (2, "trace --format bogus -- true", "invalid value 'bogus' for '--format <FORMAT>'"),
    (2, "trace --snap 0 -- true", "--snap 0: must be at least 1"),
    (2, "trace --via ebpf -- true", "--via ebpf: only tun sees packets"),
    (2, "run --measure --pcapng x --snap 0 -- true", "--snap 0: must be at least 1"),
    (2, "lab plan /nonexistent", "/nonexistent: No such file"),
    (2, "lab status --plan /nonexistent d", "/nonexistent: No such file"),
    (5, "engine --socket /nonexistent/x", "/nonexistent/x"),
    (2, "engine --socket ''", "--socket: must be the path of a Unix socket"),
    (2, "engine --socket @", "--socket: must be the path of a Unix socket"),
    (2, "forward --tun-fd -1", "must be from 0 to 2147483647 (got -1)"),
    (2, "forward --tun-fd 777", "--tun-fd 777: headstart inherits no such descriptor"),
    (2, "get https://localhost:1/ --timeout 3", "tip: there is no such limit; use timeout(1)"),
    (2, "nosuch", "headstart: unrecognized subcommand 'nosuch'"),
    (2, "relay key", "Usage: headstart relay key"),
    (2, "trace --snap x -- true", "invalid value 'x' for '--snap <BYTES>'"),
    (2, "measure", "Usage: headstart measure <COMMAND>"),
    (2, "measure bogus", "unrecognized subcommand 'bogus'"),
    (2, "measure network", "the following required arguments were not provided"),
    (2, "measure network nonsense", "\"nonsense\" has no port: write HOST:PORT"),
    (2, "measure network localhost:99999", "\"99999\" is not a valid port"),
    (5, "measure network 127.0.0.1:1", "Connection refused"),
    (2, "measure network 127.0.0.1", "has no port"),
    (2, "measure network 127.0.0.1:1 --seconds 0", "--seconds: must be from 0.1 to 600 (got 0)"),
    (2, "measure serve --listen x", "invalid value 'x' for '--listen <ADDRESS:PORT>'"),
    (1, "measure serve --listen 203.0.113.7:1", "203.0.113.7:1 is not an address of this host"),
    (2, "measure serve --most 0", "--most 0: must be at least 1"),
    (2, "measure serve --connections 0", "--connections 0: must be at least 1"),
    (2, "measure lte --blocks 99999", "must be from 1 to 110 (got 99999)"),
    (2, "measure lte --cqi 0", "--cqi 0: must be from 1 to 15"),
    (2, "measure lte --cqi x", "invalid value 'x' for '--cqi <CQI>'"),
    (2, "measure lte --packet -1", "invalid value '-1' for '--packet <BYTES>': must be from"),
    (2, "measure lte --packet 99999999999999999999", "invalid value '99999999999999999999' for '--packet"),
    (2, "measure lte --bogus", "unexpected argument '--bogus' found"),
    (2, "realtime", "Usage: headstart realtime <COMMAND>"),
    (2, "realtime send", "the following required arguments were not provided"),
    (2, "realtime send nonsense", "invalid value 'nonsense' for '<HOST:PORT>': \"nonsense\" has"),
    (2, "realtime send 127.0.0.1", "invalid value '127.0.0.1' for '<HOST:PORT>': \"127.0.0.1\""),
    (2, "realtime send 127.0.0.1:1 --mode bogus", "unexpected argument '--mode' found"),
    (2, "realtime send 127.0.0.1:1 --interval 0", "--interval, --messages and --streams must be at least 1"),
    (2, "realtime send 127.0.0.1:1 --messages 0", "--interval, --messages and --streams must be at least 1"),
    (2, "realtime send 127.0.0.1:1 --bytes 999999999", "--bytes 999999999: must be from 20 to 16384"),
    (2, "realtime send 127.0.0.1:1 --streams 0", "--interval, --messages and --streams must be at least 1"),
    (5, "realtime send 127.0.0.1:1", "no connection to the peer: Connection refused"),
    (2, "realtime receive --listen x", "invalid value 'x' for '--listen <ADDRESS:PORT>'"),
    (1, "realtime receive --listen 203.0.113.7:80", "203.0.113.7:80 is not an address of this host"),
    (2, "realtime receive --senders x", "invalid value 'x' for '--senders <COUNT>'"),
    (2, "forward", "the following required arguments were not provided"),
    (2, "forward --tun-fd x", "invalid value 'x' for '--tun-fd <N>'"),
    (2, "up", "nothing to do: choose at least one of --initcwnd (larger"),
    (2, "up --bogus", "unexpected argument '--bogus' found"),
    (2, "up --flows x", "the following required arguments were not provided"),
    (2, "up --capture 198.51.100.0/24", "the following required arguments were not provided"),
    (2, "up --capture-default", "the following required arguments were not provided"),
    (2, "up --accelerate", "the following required arguments were not provided"),
    (2, "up --measure --capture x", "--capture x: must be ADDRESS/BITS, as in 198.51.100.0/24 or"),
    (2, "up --measure --capture 198.51.100.0/33", "--capture 198.51.100.0/33: the prefix length must be from 0"),
    (2, "up --measure --capture 0.0.0.0/0", "--capture 0.0.0.0/0: use --capture-default to capture"),
    (2, "up --steer /nonexistent", "/nonexistent: No such file"),
    (2, "up --steer file", "file contains a secret but other users can read it: chmod"),
    (2, "up --steer d", "d: Is a directory (os error 21)"),
    (2, "down --bogus", "unexpected argument '--bogus' found"),
    (2, "plan", "nothing to do: choose at least one of --initcwnd (larger"),
    (2, "plan", "realtime.bundle), --all"),
    (2, "plan --steer x", "unexpected argument '--steer' found"),
    (2, "recover --bogus", "unexpected argument '--bogus' found"),
    (2, "status --bogus", "unexpected argument '--bogus' found"),
    (2, "relay", "Usage: headstart relay <COMMAND>"),
    (2, "relay key --bogus", "unexpected argument '--bogus' found"),
    (2, "relay key /nonexistent/x", "/nonexistent/x: No such file"),
    (2, "relay key file", "chmod 600 file"),
    (2, "relay serve", "the following required arguments were not provided"),
    (2, "relay serve --key /nonexistent", "the following required arguments were not provided"),
    (2, "relay serve --key file", "the following required arguments were not provided"),
    (2, "relay ports", "the following required arguments were not provided"),
    (2, "relay ports --key file", "the following required arguments were not provided"),
    (2, "relay ports --to x", "unexpected argument '--to' found"),
    (2, "proxy", "the following required arguments were not provided"),
    (2, "proxy --fat lo", "the following required arguments were not provided"),
    (2, "proxy --fat lo --fast 127.0.0.2 --policy bogus", "unknown steering policy `bogus`; choose one of"),
    (2, "proxy --fat lo --fast 127.0.0.2 --listen x", "invalid value 'x' for '--listen <ADDRESS:PORT>'"),
    (
        2,
        "proxy --fat lo --fast 127.0.0.2 --listen 203.0.113.9:1",
        "--listen 203.0.113.9:1 is open to other hosts: add --users",
    ),
    (2, "proxy --fat lo --fast 127.0.0.2 --users /nonexistent", "/nonexistent: No such file"),
    (2, "proxy --fat lo --fast 127.0.0.2 --users bin", "bin: not UTF-8: invalid utf-8 sequence of 1 bytes"),
    (2, "proxy --fat lo --fast 127.0.0.2 --allow x", "invalid value 'x' for '--allow <HOST:PORT>': \"x\" has no"),
    (
        2,
        "proxy --fat lo --fast 127.0.0.2 --allow x:99999",
        "invalid value 'x:99999' for '--allow <HOST:PORT>': \"99999\"",
    ),
    (2, "proxy --fat lo --fast 127.0.0.2 --grace -1", "invalid value '-1' for '--grace <SECONDS>'"),
    (2, "gateway", "the following required arguments were not provided"),
    (2, "gateway /nonexistent", "/nonexistent: No such file"),
    (2, "gateway file", "file contains a secret but other users can read it: chmod"),
    (2, "gateway bin", "bin: not UTF-8: invalid utf-8 sequence of 1 bytes"),
    (2, "gateway d", "d: Is a directory (os error 21)"),
    (2, "steer", "Usage: headstart steer <COMMAND>"),
    (2, "steer pubkey", "standard input: not a key: it is 44 characters of base64,"),
    (2, "steer genkey x", "unexpected argument 'x' found"),
    (2, "lab", "Usage: headstart lab <COMMAND>"),
    (2, "lab bogus", "unrecognized subcommand 'bogus'"),
    (2, "lab list x", "unknown experiment `x`"),
    (2, "lab run", "the following required arguments were not provided"),
    (2, "lab run connect-model --seed x", "invalid value 'x' for '--seed <SEED>'"),
    (2, "lab run connect-model --seed -1", "invalid value '-1' for '--seed <SEED>'"),
    (2, "lab run connect-model --repeats 0", "unexpected argument '--repeats' found"),
    (2, "lab run connect-model --repeats x", "unexpected argument '--repeats' found"),
    (2, "lab run connect-model --speed bogus", "unknown speed `bogus`; choose one of sim (virtual time), netns"),
    (2, "lab run connect-model --out file", "cannot write file: File exists (os error 17); give a"),
    (2, "lab run connect-model --quick x", "unexpected argument 'x' found"),
    (2, "lab report", "the following required arguments were not provided"),
    (2, "lab report /nonexistent", "/nonexistent: No such file"),
    (2, "lab report empty", "empty/result.json: No such file"),
    (2, "lab report file", "not a result of this version"),
    (2, "lab scenario", "the following required arguments were not provided"),
    (2, "lab scenario file", "file:1: key with no value, expected `=`"),
    (2, "lab scenario dumbell", "unknown scenario `dumbell` (did you mean `dumbbell`?); choose one of"),
    (2, "lab scenario bad.toml", "bad.toml:1: key with no value, expected `=`"),
    (2, "lab scenario d", "d: Is a directory"),
    (2, "lab scenario zero", "zero:1: missing field `name`"),
    (2, "lab scenario bad.toml --time bogus", "invalid value 'bogus' for '--time <TIME>'"),
    (2, "lab shell --link", "a value is required for '--link <LINK>' but none was"),
    (2, "lab shell --link rate=x", "`rate=x`: `x` is not a rate: write a number above zero and"),
    (2, "lab shell --link rate=-1mbit", "`rate=-1mbit`: `-1mbit` is not a rate: write a number above"),
    (2, "lab shell --link delay=5", "`delay=5`: `5` is not a duration: write a number and one of"),
    (2, "lab shell --link loss=2", "`loss=2`: `2` is not a share: write a percentage from 0% to"),
    (2, "lab shell --link loss=-0.1", "`loss=-0.1`: `-0.1` is not a share: write a percentage from"),
    (2, "lab shell --link rate=1mbit,rate=2mbit", "`rate=2mbit`: rate is given twice for one direction"),
    (2, "lab shell --link bogus=1", "unknown key `bogus` in `bogus=1`; choose one of rate, delay,"),
    (2, "lab shell --link ''", "an empty link in ``: write a preset (lte, 3g, good,"),
    (2, "lab record", "the following required arguments were not provided"),
    (2, "lab record --out file -- true", "cannot write file: File exists (os error 17)"),
    (2, "lab replay", "the following required arguments were not provided"),
    (2, "lab replay /nonexistent -- true", "No such file"),
    (2, "lab replay file -- true", "Not a directory"),
    (2, "lab replay empty -- true", "holds no recording"),
    (2, "list ''", "unknown list ``; choose one of races, starts, controllers,"),
    (2, "list races x", "unexpected argument 'x' found"),
    (2, "history", "Usage: headstart history <COMMAND>"),
    (2, "config", "Usage: headstart config <COMMAND>"),
    (2, "config bogus", "unrecognized subcommand 'bogus'"),
    (2, "config init file", "file already exists and was not changed: give another file"),
    (2, "config check /nonexistent", "/nonexistent: No such file"),
    (2, "config check bad.toml", "bad.toml:1: key with no value, expected `=`"),
    (2, "config check bin", "cannot read settings from bin: not UTF-8"),
    (2, "config check d", "cannot read settings from d: Is a directory (os error 21)"),
    (2, "-c", "a value is required for '--config <FILE>' but none was"),
    (2, "completions", "the following required arguments were not provided"),
    (2, "completions bogus", "invalid value 'bogus' for '<SHELL>'"),
    (2, "man file", "cannot write file: File exists (os error 17)"),
    (2, "ui --port 99999", "invalid value '99999' for '--port <PORT>': must be from 0 to 65535 (got 99999)"),
    (2, "ui --port x", "invalid value 'x' for '--port <PORT>'"),
    (2, "ui --port -1", "invalid value '-1' for '--port <PORT>': must be from 0 to 65535 (got -1)"),
    (2, "doctor x", "unexpected argument 'x' found"),
    (2, "demo x", "unexpected argument 'x' found"),
    (2, "demo --seed x", "invalid value 'x' for '--seed <SEED>'"),
    (2, "demo --seed -1", "invalid value '-1' for '--seed <SEED>'"),
    (2, "--bogus", "unexpected argument '--bogus' found"),
    (2, "bogus", "unrecognized subcommand 'bogus'"),
    (2, "help bogus", "unrecognized subcommand 'bogus'"),
    (2, "serve d --name ''", "--name \"\": must be a host name"),
    (2, "serve d --name x..y", "must be a host name"),
    (2, "serve d --listen x", "must be ADDRESS:PORT, as in 127.0.0.1:8443"),
    (2, "serve d --grace 5s", "must be a whole number"),
    (2, "serve bin", "bin: Not a directory"),
    (2, "serve d --cert /nonexistent --key file", "/nonexistent: No such file"),
    (2, "explain ''", "HOST: must be a host name or an address (got \"\")"),
    (2, "top -i x", "must be a number"),
    (2, "top --interval 1e300", "must be from 0.1 to 3600 seconds (got 1e300)"),
    (2, "history show --app ''", "--app: must not be empty"),
    (2, "history forget --bogus", "unexpected argument '--bogus'"),
    (2, "lab scenario ./nonexistent.toml", "./nonexistent.toml: No such file"),
    (2, "lab scenario ./bin", "not UTF-8"),
    (2, "lab scenario ./zero", ""),
    (2, "lab shell --link lte,bogus", "bogus"),
    (2, "lab shell --link queue=-1p", "`-1p`"),
    (2, "lab shell --link rate=trace:bin", "bin"),
    (2, "lab shell --link delay=normal:5ms", "normal"),
    (2, "lab replay d --link bogus -- true", "unknown preset `bogus`"),
    (2, "lab run connect-model --pages d", "connect-model does not use it"),
    (2, "-c /nonexistent config show", "/nonexistent: No such file"),
    (2, "-c bad.toml config show", "bad.toml:1: "),
    (2, "-c bad.toml run -- true", "bad.toml:1: "),
    (2, "-c bin config show", "not UTF-8"),
    (2, "config show x", "unexpected argument 'x'"),
    (2, "config schema x", "unexpected argument 'x'"),
    (2, "gateway secret", "secret"),
    (2, "up --steer secret", "secret"),
    (2, "relay key secret", "secret"),
    (2, "steer pubkey x", "unexpected argument 'x'"),
    (2, "proxy --fat lo --fast lo", "--fat and --fast are the same"),
    (2, "measure serve --bogus", "unexpected argument '--bogus'"),
    (2, "measure network 127.0.0.1:1 --flows 0", "must be from 1 to 32 (got 0)"),
    (2, "measure network 127.0.0.1:1 --times 0", "must be from 1 to 1000 (got 0)"),
    (2, "realtime send 127.0.0.1:1 --technique bogus", "bogus"),
    (2, "realtime send 127.0.0.1:1 --relay 127.0.0.1:2", "the following required arguments were not provided"),
    (
        2,
        "relay serve --key /nonexistent --client df39d3ed1748acbb2d56cacf9c34369d6ad037632591f2083ae177b9adb79a25",
        "/nonexistent: No such file",
    ),
    (2, "relay serve --key file --client xyz", "invalid value 'xyz'"),
    (2, "get https://localhost:1/ -C", "--continue needs `-o FILE`"),
    (2, "get https://localhost:1/ --start-share 200", "must be from 0 to 100 (got 200)"),
    (2, "man --bogus", "unexpected argument '--bogus'"),
    (2, "ui --bogus", "unexpected argument '--bogus'"),
    (2, "history show --app /", "must end in the file name of a program"),
    (2, "history forget --app d/..", "must end in the file name of a program"),
    (2, "history show /usr/bin/curl", "unexpected argument '/usr/bin/curl'"),
    (2, "proxy --fat 127.0.0.2 --fast ::ffff:127.0.0.2", "--fat and --fast are the same"),
    (
        2,
        "relay ports --relay nonsense --relay-key df39d3ed1748acbb2d56cacf9c34369d6ad037632591f2083ae177b9adb79a25 --key k",
        "\"nonsense\" has no port",
    ),
    (
        2,
        "realtime send a:1 --relay a..b:1 --key k --relay-key df39d3ed1748acbb2d56cacf9c34369d6ad037632591f2083ae177b9adb79a25",
        "\"a..b\" is not a valid host",
    ),
    (2, "lab reproduce --quick --docs d", "--docs d is not a checkout of headstart"),
    (2, "serve d --store redi://u:hunter2hunter2hunter2hunter2hunt@h", "unknown store `redi://…@h`; choose"),
    (2, "serve d --store u:hunter2hunter2hunter2hunter2hunt@h", "unknown store `…@h`; choose"),
    (
        2,
        "get https://u:hunter2hunter2hunter2hunter2hunt@localhost/",
        "\"https://…@localhost/\" cannot be fetched: user names in",
    ),
    (
        2,
        "get http://u:hunter2hunter2hunter2hunter2hunt@localhost/",
        "\"http://…@localhost/\" cannot be fetched: only https is",
    ),
    (2, "gateway key", "key: line 1: must be `Key = value`"),
    (2, "up --steer key", "key: line 1: must be `Key = value`"),
    (2, "gateway colon", "colon: line 2: unknown key in [interface]"),
    (2, "proxy --fat lo --fast 127.0.0.2 --users key", "line 1: must be NAME:PASSWORD"),
    (2, "config check key", "key:1: "),
    (2, "-c key run -- true", "key:1: "),
    (2, "lab list page-loda", "(did you mean `page-load`?)"),
    (2, "lab run page-loda", "(did you mean `page-load`?)"),
    (2, "lab run connect-model --condition x", "connect-model: unknown condition `x`; choose one of"),
    (2, "lab run page-load --pages /nonexistent", "/nonexistent: No such file"),
    (2, "lab run connect-model --seed 9007199254740993", "must be from 0 to 9007199254740991 (got 9007199254740993)"),
    (2, "demo --seed 9007199254740993", "must be from 0 to 9007199254740991"),
    (2, "lab replay d --seed 9007199254740993 -- true", "must be from 0 to 9007199254740991"),
    (2, "lab fleet simulate --seed 9007199254740993 --out x", "must be from 0 to 9007199254740991"),
    (2, "list linkz", "(did you mean `links`?)"),
    (2, "get https://localhost:1/ --start careful-resum", "(did you mean `careful-resume`?)"),
    (2, "run --summary d -- true", "d: Is a directory"),
    (5, "realtime send 127.0.0.1:1", "hint: start it first, or check the address"),
    (2, "lab shell --link rate=trace:/nonexistent", "cannot read `/nonexistent`: No such file"),
    (2, "-c /nonexistent list", "/nonexistent: No such file"),
    (2, "-c bad.toml history show", "bad.toml:1: "),
    (2, "-c bad.toml get https://localhost:1/", "bad.toml:1: "),
    (2, "-c bad.toml serve d", "bad.toml:1: "),
    (2, "-c bad.toml steer pubkey", "bad.toml:1: "),
    (2, "-c bad.toml lab list", "bad.toml:1: "),
];

/// Every option and argument that names an output; nothing can be made at `file/x`.
const OUTPUTS: &[&str] = &[
    "config init file/x",
    "config init nosuch/nosuch/x",
    "demo --out file/x",
    "get https://localhost:1/ -o file/x",
    "lab collect --plan plan.jsonl d --out file/x",
    "lab fleet simulate --out file/x",
    "lab record --out file/x -- true",
    "lab report result.json --out file/x",
    "lab reproduce --quick --speed sim --out file/x",
    "lab run connect-model --out file/x",
    "lab shell --events file/x -- true",
    "lab shell --pcapng file/x -- true",
    "lab submit --engine parallel plan.jsonl --out file/x",
    "lab submit --engine parallel plan.jsonl --out d --to file/x",
    "lab work --plan plan.jsonl --out file/x",
    "man file/x",
    "man file/x --markdown",
    "relay key file/x",
    "run --measure --flows file/x -- true",
    "run --measure --pcapng file/x -- true",
    "run --summary file/x -- true",
    "get https://127.0.0.1:1/ --qlog file/x",
    "serve d --qlog file/x",
    "serve d --qlog nosuch/nosuch",
    "serve d --write-cert file/x",
    "steer log file/x",
    "trace -w file/x -- true",
    "trace --format har -w file/x -- true",
];

#[test]
fn an_output_that_cannot_be_written_has_one_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    fs::write(
        folder.path().join("campaign.toml"),
        "[[set]]\nexperiment = \"connect-model\"\nseeds = 1\nquick = true\n",
    )
    .unwrap();
    let plan = headstart(&["lab", "plan", "campaign.toml"]).current_dir(folder.path()).output().unwrap();
    assert!(plan.status.success(), "{plan:?}");
    fs::write(folder.path().join("plan.jsonl"), plan.stdout).unwrap();
    let mut run = headstart(&["lab", "run", "connect-model", "--quick", "--out", "result.json"]);
    // On a busy machine the result is not valid; it is there all the same.
    let ran = run.current_dir(folder.path()).output().unwrap();
    assert!(folder.path().join("result.json/result.json").is_file(), "{ran:?}");
    let mut wrong = Vec::new();
    for line in OUTPUTS {
        let words: Vec<&str> = line.split(' ').collect();
        let output = headstart(&words).current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let place = words.iter().find(|word| word.contains('/') && !word.contains("://")).unwrap();
        let whole = folder.path().join(place);
        let names =
            [Path::new(place), &whole].iter().any(|path| said.contains(&format!("cannot write {}", path.display())));
        if output.status.code() != Some(2) || !names {
            wrong.push(format!("{line}: {:?}: {said}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), OUTPUTS.len(), wrong.join("\n"));
    assert!(!folder.path().join("nosuch").exists());
}

#[test]
fn every_mistake_is_named_with_its_own_exit_code_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8], mode: u32| {
        fs::write(folder.path().join(name), bytes).unwrap();
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    file("file", b"x\n", 0o644);
    file("secret", b"x\n", 0o600);
    file("key", format!("headstart-relay-key-1 {SECRET}{SECRET}\n").as_bytes(), 0o600);
    file("colon", format!("[Interface]\nPrivateKey: {SECRET}AAA=\n").as_bytes(), 0o600);
    file("bin", &[0xff, 0xfe], 0o644);
    file("zero", b"", 0o644);
    file("bad.toml", b"nonsense\n", 0o644);
    let before = entries(folder.path());
    let mut wrong = Vec::new();
    for (code, line, says) in TABLE {
        let words: Vec<&str> = line.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
        let mut command = headstart(&words);
        let output = command.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(*code) || !said.contains(says) || said.contains(SECRET) {
            wrong.push(format!("{line}: {:?} instead of {code}: {said}", output.status.code()));
        }
    }
    assert!(TABLE.len() >= 150, "{} mistakes", TABLE.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), TABLE.len(), wrong.join("\n"));
    assert_eq!(entries(folder.path()), before, "nothing was written");
}

fn entries(folder: &std::path::Path) -> Vec<std::ffi::OsString> {
    let mut all: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    all.sort_unstable();
    all
}

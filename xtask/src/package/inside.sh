# What users do with the packages, in a Debian that systemd has booted: install, use, upgrade while it runs, remove, purge, install again.
# In /packages: the packages, and in /packages/previous the same with an older version. Ends at the first thing that is not as it should be.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root
cd /

say() { echo "== $*"; }
die() {
    echo "FAILED: $*" >&2
    exit 1
}
apt() { apt-get -qq -y --no-install-recommends "$@" >/tmp/apt 2>&1 || { cat /tmp/apt; die "apt-get $*"; }; }
# Every path of what packages and programs leave; not the records of dpkg and of systemd themselves.
listing() {
    find / -xdev \( -path /packages -o -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/tmp -o -path /var/lib/dpkg \
        -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /var/lib/systemd -o -path /etc/machine-id \) -prune -o -print |
        sort
    getent group | cut -d: -f1 | sort
    find /run -path /run/headstart\* | sort
}
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" | head -n 1; }

install() {
    apt install "$1"/headstart_*.deb
    [ "$(headstart --version)" = "headstart $(dpkg-query -Wf '${Version}' headstart | cut -d- -f1 | cut -d~ -f1)" ] || die version
    getent group headstart >/dev/null || die "no group headstart"
    [ "$(stat -c %a /etc/headstart)" = 755 ] || die "/etc/headstart"
    for unit in headstart headstart-gateway headstart-relay headstart-serve; do
        [ "$(systemctl is-enabled $unit 2>/dev/null)" = disabled ] || die "$unit is not there, or was enabled unasked"
        systemctl is-active -q $unit && die "$unit was started unasked"
    done
    headstart config check /etc/headstart/config.toml >/dev/null || die "the packaged settings"
}

networks() {
    ip netns add near
    ip netns add far
    ip link add near0 netns near type veth peer name far0 netns far
    for side in near far; do
        ip -n $side link set lo up
        ip -n $side link set ${side}0 up
    done
    ip -n near address add 192.0.2.1/24 dev near0
    ip -n far address add 192.0.2.2/24 dev far0
    mkdir -p /tmp/site
    head -c 4000000 /dev/urandom >/tmp/site/big
    echo hello >/tmp/site/small
    grep -q www.test /etc/hosts || echo "192.0.2.2 www.test" >>/etc/hosts
    ip netns exec far headstart serve /tmp/site --listen 192.0.2.2:8443 --name www.test --write-cert /tmp/cert.pem --store memory \
        >/tmp/serve 2>&1 &
    serving=$!
    until [ -s /tmp/serve ]; do kill -0 $serving 2>/dev/null || { cat /tmp/serve; die serve; }; sleep 0.1; done
}
fetch() { ip netns exec near headstart run "$@" -- curl -sS --fail --cacert /tmp/cert.pem https://www.test:8443/small; }

[ -e /etc/hosts ] || echo "127.0.0.1 localhost" >/etc/hosts
listing >/tmp/before
sum_before=$(sha256sum </etc/hosts)

say "install the previous package"
install /packages/previous
say "doctor"
headstart doctor --json >/tmp/doctor || true
grep -q '"package"' /tmp/doctor || die "doctor says nothing of the package"
headstart doctor | grep -i " package" || true

say "headstart run -- curl between two namespaces"
networks
[ "$(fetch --summary /tmp/summary 2>/tmp/said)" = hello ] || { cat /tmp/said; die "curl under headstart"; }
cat /tmp/said
grep -q '"connections"' /tmp/summary || grep -q connect /tmp/summary || die "no summary"
[ "$(ip netns exec near headstart-run curl -sS --cacert /tmp/cert.pem https://www.test:8443/small 2>/dev/null)" = hello ] || die headstart-run

say "headstart up as a service"
sed -i 's/^# initcwnd = false/initcwnd = true/' /etc/headstart/config.toml
grep -q '^initcwnd = true' /etc/headstart/config.toml || die "the setting that switches it on has another name"
systemctl enable --now headstart.service 2>&1 || { journalctl -u headstart --no-pager | tail -20; die "the unit does not start"; }
headstart status || die "status ($?)"
first=$(systemctl show -p MainPID --value headstart)
[ "$(stat -c %G /run/headstart/control-*)" = headstart ] || { ls -l /run/headstart; die "the socket is not the group's"; }

say "upgrade while the daemon, a supervised program and a transfer run"
ip netns exec near headstart run -- curl -sS --fail --limit-rate 20k --cacert /tmp/cert.pem -o /tmp/big https://www.test:8443/big 2>/tmp/slow &
transfer=$!
until [ -s /tmp/big ]; do kill -0 $transfer 2>/dev/null || { cat /tmp/slow; die transfer; }; sleep 0.1; done
begun=$(date +%s%N)
apt install /packages/headstart_*.deb
kill -0 $transfer 2>/dev/null || die "the transfer was over before the upgrade: nothing was shown"
until headstart status >/dev/null 2>&1; do sleep 0.05; done
echo "upgraded in $((($(date +%s%N) - begun) / 1000000)) ms"
[ "$(systemctl show -p MainPID --value headstart)" != "$first" ] || die "the daemon is still the previous one"
grep -q '^initcwnd = true' /etc/headstart/config.toml || die "the administrator's settings were lost"
so_far=$(stat -c %s /tmp/big)
until [ "$(stat -c %s /tmp/big)" -gt "$so_far" ]; do
    kill -0 $transfer 2>/dev/null || { cat /tmp/slow; die "the transfer did not survive"; }
    sleep 0.1
done
cmp -n "$so_far" /tmp/big /tmp/site/big || die "the transfer is not what was sent"
kill $transfer
wait $transfer || true
[ "$(fetch 2>/dev/null)" = hello ] || die "a run after the upgrade"

say "the lab as a package of its own"
headstart demo 2>&1 | grep -q "install the package headstart-lab" || die "demo does not name the package"
apt install /packages/headstart-lab_*.deb
headstart lab list | grep -q connect-programs || die "lab list"
headstart lab run connect-model --quick --speed sim --json --out /tmp/results | grep -q '"experiment":"connect-model"' || die "lab run"
apt purge headstart-lab

say "the library"
apt install /packages/libheadstart-realtime-dev_*.deb
[ -e /usr/include/headstart_realtime.h ] && [ -e /usr/lib/libheadstart_realtime.so ] || die "library"
apt purge libheadstart-realtime-dev

say "remove"
kill $serving
wait $serving || true
ip netns delete near
ip netns delete far
apt remove headstart
systemctl is-active -q headstart && die "the daemon outlived the package"
ip rule | grep -q 18515 && die "rules outlived the package"
[ -e /etc/headstart/config.toml ] || die "settings are removed by purge alone"

say "purge"
apt purge headstart
sed -i '/www.test/d' /etc/hosts
[ "$sum_before" = "$(sha256sum </etc/hosts)" ] || die "/etc/hosts"
# What users' runs have learned is theirs and stays (docs/guide/operating.md): here root's.
rm -rf "$HOME"/.local/state/headstart && rmdir -p --ignore-fail-on-non-empty "$HOME"/.local/state 2>/dev/null || true
listing >/tmp/after
diff /tmp/before /tmp/after || die "the purged package left this behind"

say "a second install starts from zero"
install /packages
[ ! -e /var/lib/headstart ] && [ ! -e /var/lib/private/headstart ] || die "state of the first"
grep -q '^initcwnd' /etc/headstart/config.toml && die "settings of the first"
apt purge headstart
listing >/tmp/after
diff /tmp/before /tmp/after || die "the second purge left this behind"
say "all is well"

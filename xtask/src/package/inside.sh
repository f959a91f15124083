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
# How long a unit was down when it was last restarted, as systemd has timed it, in ms.
gap() {
    down=$(systemctl show -p ActiveExitTimestampMonotonic --value "$1")
    up=$(systemctl show -p ActiveEnterTimestampMonotonic --value "$1")
    [ "$up" -gt "$down" ] || die "$1 was not restarted"
    echo $(((up - down) / 1000))
}
start() { systemctl enable --now "$@" 2>&1 || { journalctl -u "$1" --no-pager | tail -20; die "$1 does not start"; }; }
local_fetch() { curl -sS --fail --max-time 30 --noproxy '*' --cacert "$1" --resolve www.test:"$2":127.0.0.1 https://www.test:"$2"/small; }
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

say "headstart gateway as a service"
(
    umask 077
    headstart steer genkey >/tmp/gateway.key
    cat >/etc/headstart/gateway.conf <<CONF
[Interface]
PrivateKey = $(cat /tmp/gateway.key)
Address = 10.77.0.1/24
Name = steer0
FatListen = 7000
FastListen = 7001
FastRate = 2mbit

[Peer]
PublicKey = $(headstart steer genkey | headstart steer pubkey)
AllowedIPs = 10.77.0.2/32
CONF
)
forwarding=$(cat /proc/sys/net/ipv4/ip_forward)
start headstart-gateway.service
headstart status || die "status of the gateway ($?)"
ip address show steer0 | grep -q 10.77.0.1/24 || die "the tunnel has no interface"
[ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ] || die "the gateway forwards nothing"
systemctl disable --now headstart-gateway.service 2>&1
ip link show steer0 >/dev/null 2>&1 && die "the interface outlived the gateway"
[ "$(cat /proc/sys/net/ipv4/ip_forward)" = "$forwarding" ] || die "the gateway left the host forwarding"

say "headstart serve as a service, on the sockets of its socket unit"
mkdir -p /srv/www
cp /tmp/site/small /srv/www
# Nothing in a home, nothing in /tmp: the unit sees neither.
certificate=/var/lib/headstart-serve/certificate.pem
echo "HEADSTART_SERVE_OPTIONS=\"/srv/www --name www.test --write-cert $certificate\"" >/etc/headstart/serve.env
start headstart-serve.socket
systemctl is-active -q headstart-serve.service && die "the server runs before it is asked"
curl -sk --max-time 30 --resolve www.test:443:127.0.0.1 -o /dev/null https://www.test/small ||
    { journalctl -u headstart-serve.service --no-pager | tail -20; die "no answer on the socket"; }
[ "$(local_fetch $certificate 443)" = hello ] || die "serve"
[ "$(stat -c %U "/proc/$(systemctl show -p MainPID --value headstart-serve)")" != root ] || die "serve runs as root"

say "headstart relay as a service"
client=$(headstart relay key /tmp/client.key)
echo "HEADSTART_RELAY_OPTIONS=\"--listen 127.0.0.1:7601 --client $client --allow 127.0.0.1:443\"" >/etc/headstart/relay.env
start headstart-relay.service
until [ -s /var/lib/headstart-relay/relay.key ]; do systemctl is-active -q headstart-relay || die "relay"; sleep 0.1; done
relay=$(headstart relay key /var/lib/headstart-relay/relay.key)
headstart relay ports --relay 127.0.0.1:7601 --relay-key "$relay" --key /tmp/client.key --forward 2222=127.0.0.1:443 >/tmp/ports 2>&1 &
ports=$!
until [ -s /tmp/ports ]; do kill -0 $ports 2>/dev/null || { cat /tmp/ports; die "relay ports"; }; sleep 0.1; done
[ "$(local_fetch $certificate 2222)" = hello ] || { cat /tmp/ports; die "through the relay"; }
kill $ports
wait $ports || true

say "a service of others under headstart, by the drop-in"
mkdir -p /etc/systemd/system/other.service.d
printf '[Service]\nType=oneshot\nExecStart=/bin/false\n' >/etc/systemd/system/other.service
sed "s|/usr/bin/COMMAND|/usr/bin/curl -sS --fail -o /var/lib/headstart-other/answer --cacert $certificate --connect-to www.test:443:localhost:443 https://www.test/small|" \
    /usr/share/doc/headstart/examples/run.conf >/etc/systemd/system/other.service.d/headstart.conf
systemctl daemon-reload
systemctl start other.service || { journalctl -u other --no-pager | tail -20; die "the service under headstart"; }
[ "$(cat /var/lib/headstart-other/answer)" = hello ] || die "what the service fetched"
rm -r /etc/systemd/system/other.service /etc/systemd/system/other.service.d /var/lib/headstart-other
systemctl daemon-reload

say "headstart up as a service"
sed -i 's/^# initcwnd = false/initcwnd = true/' /etc/headstart/config.toml
grep -q '^initcwnd = true' /etc/headstart/config.toml || die "the setting that switches it on has another name"
start headstart.service
headstart status || die "status ($?)"
first=$(systemctl show -p MainPID --value headstart)
[ "$(stat -c %G /run/headstart/control-*)" = headstart ] || { ls -l /run/headstart; die "the socket is not the group's"; }

say "headstart up as a service that measures in the kernel, by the drop-in"
mkdir -p /etc/systemd/system/headstart.service.d
cp /usr/share/doc/headstart/examples/measure.conf /etc/systemd/system/headstart.service.d/
systemctl daemon-reload
systemctl restart headstart || { journalctl -u headstart --no-pager | tail -20; die "the service that measures"; }
[ "$(local_fetch $certificate 443)" = hello ] || die "a measured program"
headstart top --once --interval 2 >/tmp/top || { systemctl status headstart --no-pager; journalctl -u headstart --no-pager | tail -20; die top; }
grep "in the kernel (eBPF)" /tmp/top && grep -w curl /tmp/top || { cat /tmp/top; die "what is measured is not shown"; }
rm -r /etc/systemd/system/headstart.service.d
systemctl daemon-reload
systemctl restart headstart || die "the service without the drop-in"
first=$(systemctl show -p MainPID --value headstart)

say "upgrade while the daemon, a supervised program and a transfer run"
ip netns exec near headstart run -- curl -sS --fail --limit-rate 20k --cacert /tmp/cert.pem -o /tmp/big https://www.test:8443/big 2>/tmp/slow &
transfer=$!
until [ -s /tmp/big ]; do kill -0 $transfer 2>/dev/null || { cat /tmp/slow; die transfer; }; sleep 0.1; done
relay_first=$(systemctl show -p MainPID --value headstart-relay)
# Whatever ends this script ends that.
trap 'touch /tmp/enough' EXIT
(
    while [ ! -e /tmp/enough ]; do
        if curl -sk --max-time 30 --resolve www.test:443:127.0.0.1 -o /dev/null https://www.test/small; then echo answered; else echo "refused ($?)"; fi
    done
) >/tmp/asked 2>&1 &
asking=$!
begun=$(date +%s%N)
apt install /packages/headstart_*.deb
kill -0 $transfer 2>/dev/null || die "the transfer was over before the upgrade: nothing was shown"
until headstart status >/dev/null 2>&1; do sleep 0.05; done
echo "upgraded in $((($(date +%s%N) - begun) / 1000000)) ms"
for unit in headstart headstart-relay headstart-serve; do echo "$unit.service was down for $(gap $unit) ms"; done
[ "$(systemctl show -p MainPID --value headstart-relay)" != "$relay_first" ] || die "the relay is still the previous one"
# Until the new one has answered.
answers=$(grep -c answered /tmp/asked)
until [ "$(grep -c answered /tmp/asked)" -gt $((answers + 2)) ] || grep -q refused /tmp/asked; do sleep 0.1; done
touch /tmp/enough
wait $asking
echo "serve answered $(grep -c answered /tmp/asked) requests meanwhile and refused $(grep -c refused /tmp/asked)"
grep -q refused /tmp/asked && { sort /tmp/asked | uniq -c; die "serve refused a connection while it was upgraded"; }
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

say "a downgrade refuses newer state"
newer=$(find /var/lib/headstart/ -name 'changes-*')
[ -n "$newer" ] || die "the daemon has no journal"
systemctl stop headstart
[ -z "$(find /var/lib/headstart/ -name 'changes-*')" ] || die "a stopped daemon left changes behind"
echo '{"version":9,"boot":"of a later version","netns":1}' >"$newer"
sum=$(sha256sum <"$newer")
apt --allow-downgrades install /packages/previous/headstart_*.deb
systemctl start headstart 2>/dev/null && die "the older program took up what a newer one wrote"
systemctl stop headstart
journalctl -u headstart --no-pager -o cat | grep "was written by a later version of headstart" | sort -u || die "no word of a later version"
headstart recover 2>/tmp/said && die "recover of the older program says that all is well"
grep "was written by a later version of headstart" /tmp/said || { cat /tmp/said; die "recover does not say why"; }
[ "$sum" = "$(sha256sum <"$newer")" ] || die "what the newer program wrote was changed"
rm "$newer"
apt install /packages/headstart_*.deb
systemctl reset-failed headstart
systemctl start headstart || die "headstart after it was upgraded again"

say "the lab as a package of its own"
headstart demo 2>&1 | grep -q "install the package headstart-lab" || die "demo does not name the package"
apt install /packages/headstart-lab_*.deb
headstart lab list | grep -q connect-programs || die "lab list"
headstart lab run connect-model --quick --speed sim --json --out /tmp/results | grep -q '"experiment":"connect-model"' || die "lab run"
apt purge headstart-lab

say "the image, by the lines of its Containerfile"
recipe=/packages/container/Containerfile
cp /packages/headstart_*.deb /packages/container/assemble.sh /tmp/
sed -n 's/^RUN //p' $recipe | sh -e || die "the image is not assembled"
cp -r /srv/www /tmp/image/srv
# As every container engine has it; serve asks it where links have led.
mkdir /tmp/image/proc
mount --bind /proc /tmp/image/proc
in_image() { env -i $(sed -n 's/^ENV //p' $recipe) /usr/sbin/chroot --userspec="$(sed -n 's/^USER //p' $recipe)" /tmp/image "$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]/\1/p' $recipe)" "$@"; }
[ "$(in_image --version)" = "$(headstart --version)" ] || die "the image's version"
in_image serve /srv --listen 127.0.0.1:9443 --name www.test --write-cert /var/lib/headstart/certificate.pem >/tmp/contained 2>&1 &
contained=$!
until [ -s /tmp/contained ]; do kill -0 $contained 2>/dev/null || { cat /tmp/contained; die "serve in the image"; }; sleep 0.1; done
[ "$(local_fetch /tmp/image/var/lib/headstart/certificate.pem 9443)" = hello ] || { cat /tmp/contained; die "from the image"; }
kill $contained
wait $contained || true
umount /tmp/image/proc
echo "the image has $(find /tmp/image -type f | wc -l) files, $(du -sm /tmp/image | cut -f1) MB; its user is $(sed -n 's/^USER //p' $recipe)"

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
for unit in headstart.service headstart-relay.service headstart-serve.service headstart-serve.socket; do
    systemctl is-active -q $unit && die "$unit outlived the package"
done
ip rule | grep -q 18515 && die "rules outlived the package"
[ -e /etc/headstart/config.toml ] || die "settings are removed by purge alone"

say "purge"
# What the administrator wrote is the administrator's.
rm -r /etc/headstart/gateway.conf /etc/headstart/serve.env /etc/headstart/relay.env /srv/www
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

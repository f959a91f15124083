# Boots the systemd of the Debian in folder $1, in namespaces of its own: as root, under
# `unshare --mount --pid --fork --net --uts --ipc --cgroup --kill-child`. The host keeps its mounts; what is mounted here goes with init.
set -eu
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs -o mode=755 dev "$root/dev"
device() { mknod -m 666 "$root/dev/$1" c "$2" "$3"; }
device null 1 3
device zero 1 5
device full 1 7
device random 1 8
device urandom 1 9
device tty 5 0
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
device net/tun 10 200
mount -t devpts -o newinstance,ptmxmode=0666 pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for n in 0 1 2; do ln -s "fd/$n" "$root/dev/$(echo stdin stdout stderr | cut -d' ' -f$((n + 1)))"; done
# The hierarchy that the host has: one, or systemd's own beside those of version 1.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
    mount -t tmpfs -o mode=755 cgroup "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/systemd"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
# As a boot without a container has it: what systemd mounts for services (credentials) must reach them.
mount --make-rshared /
exec env -i container=headstart PATH=/usr/bin:/usr/sbin:/bin:/sbin /sbin/init

# Downloads QEMU and kernels from Debian's archive and unpacks them here, where nothing of this host is changed, and makes an initramfs of
# a test program: sh prepare.sh FOLDER TESTS KERNEL-PACKAGE...
set -eu
folder=$1 tests=$2
shift 2
mkdir -p "$folder/debs" "$folder/root"
cd "$folder/debs"
# A package that only names the newest of its kind, by what it depends on.
newest() { apt-cache depends "$1" | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1; }
kernels=""
for package in "$@"; do kernels="$kernels $(newest "$package")"; done
# QEMU with all that this host does not have of what it needs.
needed=$(apt-get install --print-uris -qq --no-install-recommends qemu-system-x86 | sed 's/^[^ ]* \([^_]*\)_.*/\1/')
for package in qemu-system-x86 busybox-static $needed $kernels; do
	set -- "$package"_*.deb
	[ -f "$1" ] || apt-get download -qq "$package"
done
cd "$folder"
for deb in debs/*.deb; do
	case $deb in
	*/linux-image-*) dpkg-deb --fsys-tarfile "$deb" | tar -x -C root ./boot ;;
	*) [ -e "root/.$(basename "$deb")" ] || { dpkg -x "$deb" root && : >"root/.$(basename "$deb")"; } ;;
	esac
done
rm -rf image
mkdir -p image/bin image/proc image/sys image/dev image/tmp
cp root/bin/busybox image/bin/busybox
# busybox's ip knows nothing of MPTCP.
for program in bash ip; do cp -L "$(PATH=$PATH:/usr/sbin:/sbin command -v "$program")" "image/bin/$program"; done
cp "$tests" image/tests
for program in image/tests image/bin/bash image/bin/ip; do ldd "$program"; done | grep -o '/[^ ]*' | sort -u | while read -r library; do
	mkdir -p "image$(dirname "$library")"
	cp -L "$library" "image$library"
done
cat >image/init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin RUST_BACKTRACE=0
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
echo "kernel: $(uname -r)"
/tests --show-output $(cat /filters) 2>&1
echo "verdict: $?"
poweroff -f
INIT
chmod +x image/init
echo "forward::ebpf daemon::starts cgroup::" >image/filters
(cd image && find . | ../root/bin/busybox cpio -o -H newc 2>/dev/null) | gzip -1 >image.gz
for kernel in $kernels; do echo "kernel root/boot/vmlinuz-${kernel#linux-image-}"; done

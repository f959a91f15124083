#!/bin/sh
# Puts the files of the image in folder $2: out of package $1, and out of the Debian that this runs in, as root.
set -eu
package=$1 image=$2
authorities=/etc/ssl/certs/ca-certificates.crt
if [ ! -s "$authorities" ]; then
    apt-get -qq update
    apt-get -qq -y --no-install-recommends install ca-certificates
fi
mkdir -p "$image/tmp" "$image/etc" "$image/var/lib/headstart"
dpkg-deb --fsys-tarfile "$package" | tar -xC "$image" ./usr/bin ./usr/share/doc/headstart
chmod 1777 "$image/tmp"
chown 65532:65532 "$image/var/lib/headstart"
echo 'headstart:x:65532:65532::/var/lib/headstart:/sbin/nologin' >"$image/etc/passwd"
echo 'headstart:x:65532:' >"$image/etc/group"
# The dynamic linker and the libraries, by the names under which they are looked for.
ldd "$image/usr/bin/headstart" "$image/usr/bin/headstart-run" | grep -o '/lib[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$image${library%/*}"
    cp -L "$library" "$image$library"
done
mkdir -p "$image${authorities%/*}"
cp -L "$authorities" "$image$authorities"

#!/bin/sh
# Installs the C interface: static and shared library, header, pkg-config file.
#   cargo build --release -p headstart-realtime && crates/realtime/install.sh PREFIX [STATIC_LIBRARY]
# PREFIX: /usr/local, say; DESTDIR is put before it, but not into the files. Needs cc with GNU ld or lld.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:?usage: install.sh PREFIX [STATIC_LIBRARY]}
static=${2:-$here/../../target/release/libheadstart_realtime.a}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
# The interface: as long as the major version is 0, each minor version may break it.
soname=libheadstart_realtime.so.$(echo "$version" | cut -d. -f1-2)
lib=${DESTDIR-}$prefix/lib
mkdir -p "$lib/pkgconfig" "${DESTDIR-}$prefix/include"
cp "$here/include/headstart_realtime.h" "${DESTDIR-}$prefix/include/"
cp "$static" "$lib/libheadstart_realtime.a"
# Only what the header names, each with the version of the interface; bound at the start and read-only from then on.
cc -shared -o "$lib/$soname" -Wl,-soname,"$soname" -Wl,--version-script="$here/headstart_realtime.map" \
    -Wl,--whole-archive "$static" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,-z,relro,-z,now,-z,defs \
    -lgcc_s -lpthread -lm -ldl -lc
ln -sf "$soname" "$lib/libheadstart_realtime.so"
cat >"$lib/pkgconfig/headstart-realtime.pc" <<PC
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: headstart-realtime
Description: Small messages over TCP that do not wait behind a lost segment
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lheadstart_realtime
Libs.private: -lgcc_s -lpthread -lm -ldl
PC

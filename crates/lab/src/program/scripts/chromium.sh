# Prints a page as Chromium shows it, with a profile of its own that is gone afterwards.
# $1 Chromium, $2 work folder, $3 hash of an authority's key or nothing, $4 URL, $5 its host. It looks up no other name:
# its maker's hosts, which it would ask for whatever it is told not to do, are none of the page's.
set -eu
folder=$(mktemp -d "$2/profile.XXXXXX")
trap 'rm -rf "$folder"' EXIT
set -- "$1" "$folder" "${3:+--ignore-certificate-errors-spki-list=$3}" "$4" "$5"
# Not the user's own settings.
export HOME="$2" XDG_CONFIG_HOME="$2" XDG_CACHE_HOME="$2"
"$1" --headless=new --no-sandbox --disable-quic --no-first-run --disable-gpu --disable-background-networking \
	--disable-component-update --disable-sync --disable-dev-shm-usage --user-data-dir="$2" ${3:+"$3"} \
	--host-resolver-rules="MAP * ~NOTFOUND, EXCLUDE $5" --dump-dom "$4" </dev/null

# Starts nginx with a configuration made for it, asks it for one page over a Unix socket, prints the page, ends nginx.
# $1 URL, $2 work folder, $3 "start" or "request" (when the upstream's name is looked up), $4 authority's certificate or
# nothing, $5 file to send or nothing. What connects to the URL's host is nginx alone.
set -eu
scheme=${1%%://*}
rest=${1#*://}
host=${rest%%/*}
path=/${rest#*/}
folder=$(mktemp -d "$2/nginx.XXXXXX")
trap 'rm -rf "$folder"' EXIT
case $3 in
start) target="proxy_pass $scheme://$host;" ;;
*)
	server=$(sed -n 's/^nameserver[[:space:]]*//p' /etc/resolv.conf | head -n 1)
	case $server in *:*) server="[$server]" ;; esac
	target="resolver $server; set \$upstream $host; proxy_pass $scheme://\$upstream\$request_uri;"
	;;
esac
trust=
[ -z "$4" ] || trust="proxy_ssl_trusted_certificate $4; proxy_ssl_verify on;"
cat >"$folder/nginx.conf" <<END
daemon off;
master_process off;
pid $folder/pid;
error_log stderr error;
events { use epoll; }
http {
	access_log off;
	client_body_temp_path $folder/body;
	proxy_temp_path $folder/proxy;
	fastcgi_temp_path $folder/fastcgi;
	uwsgi_temp_path $folder/uwsgi;
	scgi_temp_path $folder/scgi;
	client_max_body_size 0;
	server {
		listen unix:$folder/socket;
		location / {
			$target
			$trust
			proxy_ssl_server_name on;
			proxy_ssl_name ${host%%:*};
			proxy_set_header Host $host;
			proxy_connect_timeout 60s;
		}
	}
}
END
nginx -p "$folder" -c "$folder/nginx.conf" -e stderr &
nginx=$!
trap 'kill "$nginx" 2>/dev/null; wait "$nginx" || :; rm -rf "$folder"' EXIT
until [ -S "$folder/socket" ]; do
	kill -0 "$nginx"
	sleep 0.01
done
set -- "$path" "$5"
send=
[ -z "$2" ] || send="--data-binary @$2"
# No blanks in the folder's path: it is the lab's own.
# shellcheck disable=SC2086
curl --disable --silent --show-error --fail --unix-socket "$folder/socket" $send "http://localhost$1"

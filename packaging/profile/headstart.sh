# A login shell under headstart, with all that is started from it. Copy this file to /etc/profile.d (every user), or source it at the
# end of ~/.profile. HEADSTART=off, or `touch ~/.no-headstart`, leaves a login as it is.
#
# By the preloaded library alone: a filter of system calls would take its rights from sudo.
case $- in
*i*)
	if [ -z "${HEADSTART_DIR:-}${HEADSTART_SESSION:-}" ] && [ "${HEADSTART:-}" != off ] && [ ! -e "${HOME:-}/.no-headstart" ] &&
		[ -x "${SHELL:-}" ] && headstart run -q --via preload -- true 2>/dev/null; then
		export HEADSTART_SESSION=1
		exec headstart run -q --via preload -- "$SHELL" -l
	fi
	;;
esac

# Clones the repository that a URL's path begins with and prints the file that the rest of it names:
# https://host/repo.git/a.txt is the file a.txt of https://host/repo.git. Leaves nothing behind.
set -eu
repository=${1%%.git/*}.git
file=${1#*.git/}
folder=$(mktemp -d "${2}/clone.XXXXXX")
trap 'rm -rf "$folder"' EXIT
# Not the user's own settings.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
git clone --quiet "$repository" "$folder/clone" </dev/null
cat "$folder/clone/$file"

# shellcheck shell=bash
# Defines what all parts of a release share: the version, the time, the names of the platform, and
# how archives are made. `build` sources this file, and the parts use it.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)

# The program of the command line comes first.
programs=(tenon tenon-operator tenon-router tenon-runtime-node)

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# The version of everything: the workspace's.
version=$(sed -n '/^version = /{s/.*"\(.*\)"$/\1/p;q}' "$repository/Cargo.toml")

# The names that archives, npm, Debian and images have for the machine's platform.
case $(uname -m) in
x86_64) platform=x86_64-linux npm_platform=linux-x64 machine=amd64 ;;
aarch64) platform=aarch64-linux npm_platform=linux-arm64 machine=arm64 ;;
*) fail "unsupported architecture $(uname -m); use x86_64 or aarch64" ;;
esac

# The time of every file in every archive: SOURCE_DATE_EPOCH, or else the time of the last commit,
# or else 0.
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$repository" log -1 --format=%ct 2>/dev/null || echo 0)}

# archive FOLDER FILE: packs the directory FOLDER, with its name, into a compressed tar that depends
# only on the contents of the directory.
archive() {
    tar --create --directory "${1%/*}" --format=ustar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX "${1##*/}" | gzip --no-name "-$level" >"$2"
}

# put MODE FILE TARGET: copies a file, and creates the directories above it.
put() {
    install -D --mode "$1" "$2" "$3"
}

# put_command ROOT ZSH: copies the command line to ROOT as a distribution lays it out: the program,
# its link for kubectl, its manual pages and its completions; those of zsh are copied to the
# directory ROOT/ZSH.
put_command() {
    local root=$1 tenon=$stripped/tenon
    local pages=$1/share/man/man1 bash=$1/share/bash-completion/completions fish=$1/share/fish/vendor_completions.d zsh=$1/$2
    put 755 "$tenon" "$root/bin/tenon"
    ln -s tenon "$root/bin/kubectl-tenon"
    mkdir -p "$pages" "$bash" "$fish" "$zsh"
    "$tenon" man "$pages"
    "$tenon" completions bash >"$bash/tenon"
    "$tenon" completions fish >"$fish/tenon.fish"
    "$tenon" completions zsh >"$zsh/_tenon"
}

# shellcheck shell=bash
# How the parts' Go programs are compiled. Sourced by the parts; `here` is the folder of `build`.

export CGO_ENABLED=0

# compile MODULE OUT LDFLAGS PACKAGE…: of the module in that folder, as `go build` does with -o OUT.
compile() {
    local module=$1 out=$2 ldflags=$3
    shift 3
    (cd "$here/$module" && nice go build -trimpath -buildvcs=false -ldflags "-s -w $ldflags" -o "$out" "$@")
}

# module_version MODULE PATH: the version of PATH that the module in that folder builds with.
module_version() {
    (cd "$here/$1" && go list -m -f '{{.Version}}' "$2")
}

# kubernetes_stamp: what /version reports; clients negotiate by it.
kubernetes_stamp() {
    local version minor package=k8s.io/component-base/version
    version=$(module_version go k8s.io/kubernetes)
    minor=${version#v1.}
    echo "-X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*} -X $package.gitTreeState=clean"
}

# make_image FOLDER BINARY: into the folder's images, called after the binary.
make_image() {
    local name=${2##*/} maker
    maker=$(mktemp -d)
    compile go "$maker/" "" ./image
    mkdir -p "$1/images"
    "$maker/image" "$1/images/$name.tar" "cluster.tenon.dev/$name:1" "$2"
    rm -r "$maker"
}

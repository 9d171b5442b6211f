# shellcheck shell=bash
# Compiles the Go programs of the parts, which source this file. `here` is the directory of `build`.

export CGO_ENABLED=0

# compile MODULE OUT LDFLAGS PACKAGE…: builds packages of the module in the directory MODULE, with
# -o OUT.
compile() {
    local module=$1 out=$2 ldflags=$3
    shift 3
    (cd "$here/$module" && nice go build -trimpath -buildvcs=false -ldflags "-s -w $ldflags" -o "$out" "$@")
}

# module_version MODULE PATH: prints the version of PATH in the module in the directory MODULE.
module_version() {
    (cd "$here/$1" && go list -m -f '{{.Version}}' "$2")
}

# kubernetes_stamp: prints the linker flags that set the version, which /version reports and clients
# use for negotiation.
kubernetes_stamp() {
    local version minor package=k8s.io/component-base/version
    version=$(module_version go k8s.io/kubernetes)
    minor=${version#v1.}
    echo "-X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*} -X $package.gitTreeState=clean"
}

# make_image FOLDER BINARY: writes an image of the binary, with its name, to the directory `images`.
make_image() {
    local name=${2##*/} maker
    maker=$(mktemp -d)
    compile go "$maker/" "" ./image
    mkdir -p "$1/images"
    "$maker/image" "$1/images/$name.tar" "cluster.tenon.dev/$name:1" "$2"
    rm -r "$maker"
}

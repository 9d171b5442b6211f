# shellcheck shell=bash
# A registry of OCI artifacts. It is a Go module of its own, so that neither its dependencies nor
# those of Kubernetes change for the other.

made_of=(parts/go.sh go/registry)

# build_into FOLDER
build_into() {
    source "$here/parts/go.sh"
    compile go/registry "$1/bin/" "" github.com/distribution/distribution/v3/cmd/registry
}

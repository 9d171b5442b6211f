# shellcheck shell=bash
# Builds a registry of OCI artifacts. It is a Go module of its own, so that its dependencies and
# those of Kubernetes do not affect each other.

inputs=(parts/go.sh go/registry)

# build_into FOLDER
build_into() {
    source "$here/parts/go.sh"
    compile go/registry "$1/bin/" "" github.com/distribution/distribution/v3/cmd/registry
}

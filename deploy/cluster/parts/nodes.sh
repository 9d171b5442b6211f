# shellcheck shell=bash
# Builds the programs of nodes, and the scheduler. They belong to the same Go module as the control
# plane, so that shared packages of Kubernetes are compiled once. containerd has a module of its
# own, which differs only in the version of the CRI. runc is not built, because it contains C and
# every distribution has it.

inputs=(parts/go.sh go/go.mod go/go.sum go/node go/coredns go/pause go/image go/containerd)

# build_into FOLDER
build_into() {
    local bin=$1/bin name containerd=github.com/containerd/containerd/v2 cni=github.com/containernetworking/plugins/plugins
    source "$here/parts/go.sh"
    # A program named `node` would hide Node.js from the commands of run-in.
    compile go "$bin/kube-node" "$(kubernetes_stamp)" ./node
    for name in kubelet kube-proxy kube-scheduler; do
        ln -s kube-node "$bin/$name"
    done
    compile go/containerd "$bin/" "-X $containerd/version.Version=$(module_version go/containerd "$containerd")" \
        "$containerd"/cmd/{containerd,containerd-shim-runc-v2,ctr}
    compile go "$1/cni/" "" "$cni"/{main/ptp,main/loopback,ipam/host-local,meta/portmap}

    compile go "$1/made/" "" ./coredns ./pause
    make_image "$1" "$1/made/coredns"
    make_image "$1" "$1/made/pause"
    rm -r "$1/made"
}

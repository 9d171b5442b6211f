# shellcheck shell=bash
# Builds the control plane, kubectl, and the programs that create the control plane's certificates
# and forward its port.

inputs=(parts/go.sh go/go.mod go/go.sum go/kube go/pki go/forward)

# build_into FOLDER
build_into() {
    local bin=$1/bin name
    source "$here/parts/go.sh"
    compile go "$bin/kube" "$(kubernetes_stamp)" ./kube
    compile go "$bin/" "" ./pki ./forward
    for name in etcd kube-apiserver kube-controller-manager kubectl; do
        ln -s kube "$bin/$name"
    done
}

# shellcheck shell=bash
# Defines functions for the cluster's Kubernetes nodes. Such a node is a tree of processes in
# namespaces of its own (mounts, network, processes, host name, cgroups), and is attached to the
# cluster's network. Its first
# process is `node-init`. When `node-init` is killed, the kernel kills the other processes, and
# only the node's disk remains.

source "$here/cgroups.sh"

# disk_of NAME: prints the directory of the node's state that survives a power cut: images,
# containers, volumes, logs.
disk_of() {
    echo "$run/nodes/$1"
}

# number_of NAME: prints the number in the name of a node.
number_of() {
    [[ $1 =~ ^node-([1-9][0-9]?)$ ]] || fail "invalid node name $1; use node-1 to node-99"
    echo "${BASH_REMATCH[1]}"
}

# address_of NAME: prints the IP address of a node.
address_of() {
    echo "192.0.2.$((10 + $(number_of "$1")))"
}

# pods_of NAME: prints the address range of the node's Pods.
pods_of() {
    echo "10.244.$(number_of "$1").0/24"
}

# cgroup_of NAME: prints the name of the node's cgroup, which differs between clusters of different
# clones.
cgroup_of() {
    local clone
    clone=$(sha256sum <<<"$run")
    echo "tenon-cluster-${clone:0:8}-$1"
}

# start_node NAME: starts a node unless it is running.
start_node() {
    local name=$1 address
    [ -z "$(pid_of "$name")" ] || return 0
    address=$(address_of "$name")
    mkdir -p "$(disk_of "$name")"
    [ -s "$run/pki/$name.kubeconfig" ] || "$bin/pki" node "$run/pki" "$name" "$address"
    setsid unshare --mount --net --pid --uts --ipc --fork "$here/node-init" "$name" \
        </dev/null >>"$run/log/$name.log" 2>&1 &
    wait_until 10 "$name" is_running "$name"
    plug_in "$name" "$address"
}

is_running() {
    [ -n "$(pid_of "$1")" ]
}

# plug_in NAME ADDRESS: attaches a node to the network with a veth pair. One end is the node's eth0,
# the other is a port of the control plane's eth0, which is a bridge. The control plane also has the
# routes from node to node.
plug_in() {
    local name=$1 address=$2
    # The kernel also removes the link of a node that has ended, but not immediately.
    inside ip link delete "$name" 2>/dev/null || true
    inside ip link add "$name" type veth peer name eth0 netns "$(pid_of "$name")"
    inside ip link set "$name" master eth0 up
    inside ip route replace "$(pods_of "$name")" via "$address"
}

# stop_node NAME: simulates a power cut.
stop_node() {
    halt "$1"
    remove_cgroup "$(cgroup_of "$1")"
}

# all_nodes: prints the names of all nodes that were ever started.
all_nodes() {
    local disk
    for disk in "$run"/nodes/node-*/; do
        [ -d "$disk" ] && basename "$disk"
    done
    return 0
}

# enter_node NAME COMMAND…: runs a command in the node's namespaces.
enter_node() {
    local name=$1 pid
    shift
    pid=$(pid_of "$name") || true
    [ -n "$pid" ] || fail "$name is not running"
    nsenter --target "$pid" --mount --net --pid --uts --ipc --cgroup env PATH="$nodes/bin:$PATH" "$@"
}

# keep_image ARCHIVE: stores an image for the next import of running nodes, and for nodes that start
# later.
keep_image() {
    local sum
    sum=$(sha256sum <"$1")
    mkdir -p "$run/images"
    cp --reflink=auto "$1" "$run/images/${sum:0:16}.next"
    mv "$run/images/${sum:0:16}".{next,tar}
}

# import_images NAME: imports the images that were stored since the node's last import, in the order
# in which they were stored. If two archives have the same reference, the later one wins.
import_images() {
    local name=$1 mark archive
    mark=$(disk_of "$name")/imported
    touch "$mark.next"
    while read -r archive; do
        if [ ! -e "$mark" ] || [ "$archive" -nt "$mark" ]; then
            enter_node "$name" ctr --namespace k8s.io images import - <"$archive" >>"$run/log/$name.log" 2>&1 ||
                fail "$name cannot import an image; see $run/log/$name.log"
        fi
    done < <(ls -tr "$run"/images/*.tar)
    mv "$mark.next" "$mark"
}

# import_images_everywhere: imports the images on all running nodes, concurrently.
import_images_everywhere() {
    local name import
    local -a imports=()
    for name in $(all_nodes); do
        is_running "$name" || continue
        wait_until 30 "containerd of $name" has_containerd "$name"
        import_images "$name" &
        imports+=($!)
    done
    for import in "${imports[@]}"; do
        wait "$import"
    done
}

has_containerd() {
    is_running "$1" || fail "$1 ended; see $run/log/$1.log"
    enter_node "$1" ctr version >/dev/null 2>&1
}

# These options keep kube-proxy from changing settings of the whole machine.
kube_proxy=(
    kube-proxy --proxy-mode nftables --cluster-cidr "$pod_addresses"
    --conntrack-max-per-core 0 --conntrack-min 0
    --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0
    --oom-score-adj 0
)

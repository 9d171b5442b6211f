# shellcheck shell=bash
# Nodes, as the machine sees them: each is a tree of processes in namespaces of its own (mounts, network, processes, host
# name, cgroups), plugged into the cluster's network. The first of its processes is `node-init`; when that is killed, the
# kernel kills the others, and what the node leaves is what is on its disk.

source "$here/cgroups.sh"

# What a node keeps when its power is cut: images, containers, volumes, logs.
disk_of() {
    echo "$run/nodes/$1"
}

# number_of NAME
number_of() {
    [[ $1 =~ ^node-([1-9][0-9]?)$ ]] || fail "a node is called node-1 to node-99, not $1"
    echo "${BASH_REMATCH[1]}"
}

# address_of NAME
address_of() {
    echo "192.0.2.$((10 + $(number_of "$1")))"
}

# pods_of NAME: the addresses of the Pods on it.
pods_of() {
    echo "10.244.$(number_of "$1").0/24"
}

# cgroup_of NAME: clusters of several clones must not meet.
cgroup_of() {
    local clone
    clone=$(sha256sum <<<"$run")
    echo "tenon-cluster-${clone:0:8}-$1"
}

# start_node NAME: unless it runs.
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

# One end of the cable is the node's eth0, the other is in the bridge that the control plane calls eth0, which also knows
# the way from node to node.
plug_in() {
    local name=$1 address=$2
    # The end of a node that is gone goes too, but takes its time.
    inside ip link delete "$name" 2>/dev/null || true
    inside ip link add "$name" type veth peer name eth0 netns "$(pid_of "$name")"
    inside ip link set "$name" master eth0 up
    inside ip route replace "$(pods_of "$name")" via "$address"
}

# stop_node NAME: a power cut.
stop_node() {
    halt "$1"
    remove_cgroup "$(cgroup_of "$1")"
}

# all_nodes: the names of those that were ever started.
all_nodes() {
    local disk
    for disk in "$run"/nodes/node-*/; do
        [ -d "$disk" ] && basename "$disk"
    done
    return 0
}

# enter_node NAME COMMAND…: inside it.
enter_node() {
    local name=$1 pid
    shift
    pid=$(pid_of "$name") || true
    [ -n "$pid" ] || fail "$name is not running"
    nsenter --target "$pid" --mount --net --pid --uts --ipc --cgroup env PATH="$nodes/bin:$PATH" "$@"
}

# keep_image ARCHIVE: for the nodes that run, at their next import, and for those that will.
keep_image() {
    local sum
    sum=$(sha256sum <"$1")
    mkdir -p "$run/images"
    cp --reflink=auto "$1" "$run/images/${sum:0:16}.next"
    mv "$run/images/${sum:0:16}".{next,tar}
}

# import_images NAME: those that were kept since it was last asked, in the order in which they were: of two archives with
# the same reference, the later one counts.
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

# import_images_everywhere: on all nodes that run, at once.
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

# It changes nothing that the machine has only one of.
kube_proxy=(
    kube-proxy --proxy-mode nftables --cluster-cidr "$pod_addresses"
    --conntrack-max-per-core 0 --conntrack-min 0
    --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0
    --oom-score-adj 0
)

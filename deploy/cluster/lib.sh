# shellcheck shell=bash
# Defines the paths of the cluster's files, and functions that start, find and stop its processes.
# The commands in this directory source this file.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# source_part NAME: sources the definition of a part for `build`: its inputs in `inputs`, and the
# function `build_into`.
source_part() {
    case $1 in
        control) source "$here/parts/control.sh" ;;
        nodes) source "$here/parts/nodes.sh" ;;
        tools) source "$here/parts/tools.sh" ;;
        registry) source "$here/parts/registry.sh" ;;
        *) fail "unknown part $1; use control, nodes, tools or registry" ;;
    esac
}

# part NAME: prints the directory of a built part. The directory's name contains a hash of the
# part's inputs, so that clones share the directory.
part() (
    set -e
    source_part "$1"
    cd "$here"
    hash=$(find "parts/$1.sh" "${inputs[@]}" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
    echo "${TENON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tenon}/cluster/$1-${hash:0:16}"
)

bin=$(part control)/bin
nodes=$(part nodes)
tools=$(part tools)
registry=$(part registry)

# The directory of the running cluster: certificates, etcd's data, logs, process ids. Each clone has
# a cluster of its own.
run=${TENON_CLUSTER_RUN:-$repository/target/cluster}

# The audit log, which contains the requests of service accounts to the API server (see audit.yaml).
audit_log=$run/log/audit.jsonl

# The inner kubeconfig is for processes inside the cluster's network namespace. `up` derives the
# outer one from it, for processes outside.
inner_kubeconfig=$run/pki/admin.kubeconfig
outer_kubeconfig=$run/kubeconfig

# The range of the Pods of all nodes. Each node has a /24 of this range.
pod_addresses=10.244.0.0/16
service_addresses=10.96.0.0/16

# install_packages COMMAND=PACKAGE…: installs the distribution's packages of missing commands.
install_packages() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
        fail "these packages are missing: ${missing[*]}; install them"
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# pid_of NAME: prints the process id of NAME if the process is running. A recycled id is recognized
# by its start time.
pid_of() {
    local pid started
    [ -s "$run/$1.pid" ] || return
    read -r pid started <"$run/$1.pid"
    [ "$(start_time "$pid")" = "$started" ] && echo "$pid"
}

# start_time PID: prints the start time in clock ticks since boot, or nothing if there is no such
# process. This is field 22 of stat. It is counted from the closing parenthesis of the command,
# because the command may contain spaces.
start_time() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    stat=${stat##*) }
    cut -d ' ' -f 20 <<<"$stat"
}

# spawn NAME COMMAND…: starts a process in a session of its own, so that Ctrl-C in a terminal does
# not reach it. Its output goes to NAME.log.
spawn() {
    local name=$1
    shift
    [ -n "$(pid_of "$name")" ] && return
    setsid "$@" </dev/null >>"$run/log/$name.log" 2>&1 &
    echo "$! $(start_time $!)" >"$run/$name.pid"
}

# spawn_inside NAME COMMAND…: does the same as spawn, in the cluster's network namespace.
spawn_inside() {
    local name=$1
    shift
    spawn "$name" nsenter --net="$(namespace)" "$@"
}

# halt NAME: kills a process with SIGKILL. None of these processes holds state that outlives the
# cluster, and a sudden loss of a component is the harder case for the components that depend on it.
halt() {
    local pid
    pid=$(pid_of "$1") || true
    rm -f "$run/$1.pid"
    [ -n "$pid" ] || return 0
    kill -KILL "$pid" 2>/dev/null || true
    wait_until 10 "$1 to end" has_ended "$pid"
}

# A zombie has ended, although its parent has not waited for it yet.
has_ended() {
    ! grep -q '^State:[[:space:]]*[^Z]' "/proc/$1/status" 2>/dev/null
}

# inside COMMAND…: runs a command in the cluster's network namespace.
inside() {
    nsenter --net="$(namespace)" "$@"
}

# kubectl ARGUMENT…: runs kubectl as the cluster's administrator.
kubectl() {
    inside "$bin/kubectl" --kubeconfig "$inner_kubeconfig" "$@"
}

# namespace: prints the file of the cluster's network namespace.
namespace() {
    local pid
    pid=$(pid_of namespace) || true
    [ -n "$pid" ] || fail "the cluster is not up; start it with deploy/cluster/up"
    echo "/proc/$pid/ns/net"
}

# wait_until SECONDS WHAT COMMAND…: waits until the command succeeds.
wait_until() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || fail "timed out waiting for $what; see $run/log"
        sleep 0.1
    done
}

# print_exports: prints the exports for a shell outside the namespace.
print_exports() {
    local folder path=
    for folder in "$bin" "$nodes/bin" "$tools/bin"; do
        [ ! -d "$folder" ] || path+=$folder:
    done
    echo "export KUBECONFIG=$outer_kubeconfig PATH=$path\$PATH"
}

# The options for reaching kubelets and for aggregated API servers are set even without nodes, so
# that the API server need not be restarted when nodes join.
start_apiserver() {
    local pki=$run/pki
    spawn_inside kube-apiserver "$bin/kube-apiserver" \
        --etcd-servers http://127.0.0.1:2379 \
        --bind-address 0.0.0.0 --secure-port 6443 --advertise-address 192.0.2.1 \
        --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
        --client-ca-file "$pki/ca.crt" \
        --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" \
        --kubelet-certificate-authority "$pki/ca.crt" --kubelet-preferred-address-types InternalIP \
        --kubelet-client-certificate "$pki/kubelet-client.crt" --kubelet-client-key "$pki/kubelet-client.key" \
        --requestheader-client-ca-file "$pki/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client \
        --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
        --requestheader-extra-headers-prefix X-Remote-Extra- \
        --proxy-client-cert-file "$pki/front-proxy-client.crt" --proxy-client-key-file "$pki/front-proxy-client.key" \
        --service-account-issuer https://kubernetes.default.svc.cluster.local \
        --service-account-key-file "$pki/sa.pub" --service-account-signing-key-file "$pki/sa.key" \
        --service-cluster-ip-range "$service_addresses" \
        --audit-policy-file "$here/audit.yaml" --audit-log-path "$audit_log"
    wait_until 60 "kube-apiserver" apiserver_is_ready
}

apiserver_is_ready() {
    [ -n "$(pid_of kube-apiserver)" ] || fail "kube-apiserver ended; see $run/log/kube-apiserver.log"
    kubectl get --raw /readyz >/dev/null 2>&1
}

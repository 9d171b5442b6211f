# shellcheck shell=bash
# A node's cgroups: one in each hierarchy of cgroup v1, or one in the only hierarchy of cgroup v2.
# These cgroups are directly below the root, so that commands find them regardless of the cgroup in
# which the commands run. The node's processes see them as the roots.

has_cgroup_v2() {
    [ -e /sys/fs/cgroup/cgroup.controllers ]
}

# Prints the mount point of each hierarchy. On a machine with both v1 and v2, v2 has no controllers.
hierarchies() {
    local folder
    if has_cgroup_v2; then
        echo /sys/fs/cgroup
        return
    fi
    for folder in /sys/fs/cgroup/*; do
        # A link is another name for a hierarchy of several controllers.
        [ -e "$folder/cgroup.procs" ] && [ ! -L "$folder" ] && [ ! -e "$folder/cgroup.controllers" ] && echo "$folder"
    done
    return 0
}

# join_cgroup NAME: makes the cgroup NAME if necessary, and moves the calling shell into it.
join_cgroup() {
    local hierarchy file
    ! has_cgroup_v2 || prepare_v2_root
    for hierarchy in $(hierarchies); do
        mkdir -p "$hierarchy/$1"
        if ! has_cgroup_v2 && [ -e "$hierarchy/cpuset.cpus" ]; then
            # In v1 these files are empty at first, and a cgroup without CPUs cannot hold processes.
            for file in cpuset.cpus cpuset.mems; do
                cat "$hierarchy/$file" >"$hierarchy/$1/$file"
            done
        fi
        echo 0 >"$hierarchy/$1/cgroup.procs"
    done
}

# In v2, only the machine's true root may hold processes beside cgroups with controllers. In a
# container the visible root is not the true one, so its processes move into a child cgroup.
prepare_v2_root() {
    local process
    if [ -e /sys/fs/cgroup/cgroup.type ]; then
        mkdir -p /sys/fs/cgroup/init
        while read -r process; do
            echo "$process" >/sys/fs/cgroup/init/cgroup.procs 2>/dev/null || true
        done </sys/fs/cgroup/cgroup.procs
    fi
    pass_controllers_on
}

# Passes all controllers on to child cgroups. kubelet reports a controller that it requires and that
# is missing.
pass_controllers_on() {
    local controller
    local -a controllers
    read -ra controllers </sys/fs/cgroup/cgroup.controllers
    for controller in "${controllers[@]}"; do
        echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
    done
}

# mount_own_cgroups: in the node's own namespaces (mount, network, cgroup), mounts a /sys that shows
# the node's network, with the node's cgroups as the roots of the hierarchies.
mount_own_cgroups() {
    local hierarchy controllers
    local -a all
    mapfile -t all < <(hierarchies)
    umount --recursive --lazy /sys
    mount -t sysfs sysfs /sys
    if [ "${all[*]}" = /sys/fs/cgroup ]; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        # This is not the machine's root: see prepare_v2_root.
        mkdir /sys/fs/cgroup/system
        echo 0 >/sys/fs/cgroup/system/cgroup.procs
        pass_controllers_on
        return
    fi
    mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    for hierarchy in "${all[@]}"; do
        mkdir "$hierarchy"
        controllers=${hierarchy##*/}
        [ "$controllers" != systemd ] || controllers=none,name=systemd
        mount -t cgroup -o "$controllers" cgroup "$hierarchy"
    done
}

# remove_cgroup NAME: removes the cgroup NAME and all cgroups below it. Their processes must have
# ended, or must end within ten seconds.
remove_cgroup() {
    wait_until 10 "the cgroup $1 to be empty" try_to_remove_cgroup "$1"
}

try_to_remove_cgroup() {
    local hierarchy
    for hierarchy in $(hierarchies); do
        [ ! -d "$hierarchy/$1" ] || find "$hierarchy/$1" -depth -type d -exec rmdir {} + 2>/dev/null || return
    done
}

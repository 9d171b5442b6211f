# shellcheck shell=bash
# A node's cgroups: one in each hierarchy of cgroup v1, or one in the only hierarchy of cgroup v2, directly below its root:
# wherever a command was called from, it finds them again. To the node's processes they are the roots themselves.

has_cgroup_v2() {
    [ -e /sys/fs/cgroup/cgroup.controllers ]
}

# Where each hierarchy is mounted. On a machine that has v1 beside v2, no controller is in v2's.
hierarchies() {
    local folder
    if has_cgroup_v2; then
        echo /sys/fs/cgroup
        return
    fi
    for folder in /sys/fs/cgroup/*; do
        # A link is one more name for a hierarchy of several controllers.
        [ -e "$folder/cgroup.procs" ] && [ ! -L "$folder" ] && [ ! -e "$folder/cgroup.controllers" ] && echo "$folder"
    done
    return 0
}

# join_cgroup NAME: makes the cgroup called NAME where it is not there, and puts the calling shell into it.
join_cgroup() {
    local hierarchy file
    ! has_cgroup_v2 || prepare_v2_root
    for hierarchy in $(hierarchies); do
        mkdir -p "$hierarchy/$1"
        if ! has_cgroup_v2 && [ -e "$hierarchy/cpuset.cpus" ]; then
            # In v1 these start empty, and who has no CPU cannot be.
            for file in cpuset.cpus cpuset.mems; do
                cat "$hierarchy/$file" >"$hierarchy/$1/$file"
            done
        fi
        echo 0 >"$hierarchy/$1/cgroup.procs"
    done
}

# In v2 only the machine's true root may hold processes beside cgroups that have controllers. In a container the root that
# is seen is not the true one, so whoever is in it moves down.
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

# All that there are: which ones a kubelet cannot do without, it says itself.
pass_controllers_on() {
    local controller
    local -a controllers
    read -ra controllers </sys/fs/cgroup/cgroup.controllers
    for controller in "${controllers[@]}"; do
        echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
    done
}

# mount_own_cgroups: in namespaces of the node's own (mount, network, cgroup), has /sys show that network and, as the roots
# of the hierarchies, the node's cgroups.
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

# remove_cgroup NAME: and all below it. Nobody may live in there any more.
remove_cgroup() {
    wait_until 10 "the cgroup $1 to be empty" try_to_remove_cgroup "$1"
}

try_to_remove_cgroup() {
    local hierarchy
    for hierarchy in $(hierarchies); do
        [ ! -d "$hierarchy/$1" ] || find "$hierarchy/$1" -depth -type d -exec rmdir {} + 2>/dev/null || return
    done
}

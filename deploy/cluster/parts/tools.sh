# shellcheck shell=bash
# What is installed on a cluster rather than being of it: Helm, metrics-server, Prometheus. A Go module apart, because
# Helm and metrics-server want newer dependencies than those that Kubernetes was released with.

made_of=(parts/go.sh go/tools go/image)

# build_into FOLDER
build_into() {
    local bin=$1/bin helm=helm.sh/helm/v4 metrics=sigs.k8s.io/metrics-server
    source "$here/parts/go.sh"
    compile go/tools "$bin/" "-X $helm/internal/version.version=$(module_version go/tools "$helm")" "$helm/cmd/helm"
    compile go/tools "$1/made/" "-X k8s.io/component-base/version.gitVersion=$(module_version go/tools "$metrics")" \
        "$metrics/cmd/metrics-server"
    make_image "$1" "$1/made/metrics-server"
    rm -r "$1/made"
    add_prometheus "$1"
}

# From the distribution, whose package takes seconds where compiling takes minutes. It is unpacked, not installed: installing
# it starts a service.
add_prometheus() {
    local bin=$1/bin aside=$1/prometheus
    local -a libraries
    if command -v promtool >/dev/null; then
        cp "$(command -v prometheus)" "$(command -v promtool)" "$bin/"
    else
        command -v apt-get >/dev/null || fail "please install: prometheus"
        mkdir "$aside"
        (cd "$aside" && apt-get -qq -o APT::Sandbox::User=root download prometheus && dpkg-deb --extract ./*.deb .)
        mv "$aside"/usr/bin/{prometheus,promtool} "$bin/"
        rm -r "$aside"
    fi
    # None where it is static.
    mapfile -t libraries < <(ldd "$bin/prometheus" 2>/dev/null | grep -o '/[^ ]*' || true)
    make_image "$1" "$bin/prometheus" "${libraries[@]}"
}

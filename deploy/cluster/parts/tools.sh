# shellcheck shell=bash
# What is installed on a cluster rather than being of it: Helm, metrics-server, Prometheus. A Go module apart, because
# Helm and metrics-server want newer dependencies than those that Kubernetes was released with.

made_of=(parts/go.sh go/tools)

# build_into FOLDER
build_into() {
    local bin=$1/bin
    source "$here/parts/go.sh"
    compile go/tools "$bin/" "-X helm.sh/helm/v4/internal/version.version=$(module_version go/tools helm.sh/helm/v4)" \
        helm.sh/helm/v4/cmd/helm
    compile go/tools "$bin/" "-X k8s.io/component-base/version.gitVersion=$(module_version go/tools sigs.k8s.io/metrics-server)" \
        sigs.k8s.io/metrics-server/cmd/metrics-server
    add_prometheus "$1"
}

# From the distribution, whose package takes seconds where compiling takes minutes. It is unpacked, not installed: installing
# it starts a service.
add_prometheus() {
    local bin=$1/bin aside=$1/prometheus
    if command -v prometheus promtool >/dev/null; then
        ln -s "$(command -v prometheus)" "$(command -v promtool)" "$bin/"
        return
    fi
    command -v apt-get >/dev/null || fail "please install: prometheus"
    mkdir "$aside"
    (cd "$aside" && apt-get -qq -o APT::Sandbox::User=root download prometheus && dpkg-deb --extract ./*.deb .)
    mv "$aside"/usr/bin/{prometheus,promtool} "$bin/"
    rm -r "$aside"
}

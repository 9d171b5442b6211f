# shellcheck shell=bash
# Builds programs that are used with a cluster: Helm, metrics-server, Prometheus. They are a
# separate Go module, because they need newer dependencies than this release of Kubernetes has.

inputs=(parts/go.sh go/tools go/image)

# build_into FOLDER
build_into() {
    local bin=$1/bin helm=helm.sh/helm/v4 metrics=sigs.k8s.io/metrics-server prometheus=github.com/prometheus/prometheus
    source "$here/parts/go.sh"
    compile go/tools "$bin/" "-X $helm/internal/version.version=$(module_version go/tools "$helm")" "$helm/cmd/helm"
    compile go/tools "$1/made/" "-X k8s.io/component-base/version.gitVersion=$(module_version go/tools "$metrics")" \
        "$metrics/cmd/metrics-server"
    # Prometheus is built with service discovery for Kubernetes only.
    GOFLAGS=-tags=remove_all_sd,enable_kubernetes_sd compile go/tools "$1/made/" \
        "-X github.com/prometheus/common/version.Version=$(module_version go/tools "$prometheus")" "$prometheus/cmd/prometheus"
    make_image "$1" "$1/made/metrics-server"
    make_image "$1" "$1/made/prometheus"
    rm -r "$1/made"
}

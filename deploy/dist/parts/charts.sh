# shellcheck shell=bash
# Packs the Helm charts with Helm's own library.

build_charts() {
    local chart
    for chart in tenon tenon-crds; do
        (cd charts/tests && go run ./pack --version "$version" --out "$out" "../$chart") >&2
    done
}

# shellcheck shell=bash
# Makes the images of the servers from the same programs as their archives, with their bills of
# materials.

build_images() {
    local program name
    deploy/images/build --binaries "$stripped" --tag "$version" --out "$scratch/images" --level "$level" "${programs[@]:1}" >&2
    for program in "${programs[@]:1}"; do
        name=$program-$version-image-$machine
        mv "$scratch/images/$program.tar" "$out/$name.tar"
        mv "$scratch/images/$program.spdx.json" "$out/$name.spdx.json"
    done
}

# shellcheck shell=bash
# Makes two npm packages: `tenon`, with the command, and the package with the program for this
# platform, on which `tenon` depends optionally. npm installs only the package for its platform, so
# nothing has to run at installation.

scope=@tenon-dev

build_npm() {
    local main=$scratch/npm/tenon native=$scratch/npm/native
    put 755 "$here/npm/tenon.js" "$main/tenon.js"
    put 644 "$here/npm/README.md" "$main/README.md"
    put 644 LICENSE "$main/LICENSE"
    # Every platform that is released is a dependency, at exactly this version.
    jq --arg version "$version" '.version = $version | .optionalDependencies |= map_values($version)' \
        "$here/npm/package.json" >"$main/package.json"
    jq --exit-status --arg name "$scope/$npm_platform" '.optionalDependencies | has($name)' "$main/package.json" >/dev/null ||
        fail "deploy/dist/npm/package.json does not depend on $scope/$npm_platform; add it to optionalDependencies"

    put 755 "$stripped/tenon" "$native/bin/tenon"
    put 644 LICENSE "$native/LICENSE"
    put 644 "$notices" "$native/THIRD-PARTY"
    jq --arg version "$version" --arg name "$scope/$npm_platform" --arg os "${npm_platform%-*}" --arg cpu "${npm_platform#*-}" \
        '.version = $version | .name = $name | .os = [$os] | .cpu = [$cpu]' "$here/npm/native.json" >"$native/package.json"

    pack "$main" "tenon-$version-npm.tgz"
    pack "$native" "tenon-$version-npm-$npm_platform.tgz"
}

# pack FOLDER NAME: packs a package as `npm pack` does, with files in the directory `package`, but
# with the release's time and level of compression.
pack() {
    mv "$1" "$scratch/package"
    archive "$scratch/package" "$out/$2"
    rm -r "$scratch/package"
}

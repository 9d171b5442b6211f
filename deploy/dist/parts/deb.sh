# shellcheck shell=bash
# Makes the Debian package of the command line. It has no scripts that run at installation.

build_deb() {
    local root=$scratch/deb doc=$scratch/deb/usr/share/doc/tenon page size
    put_command "$root/usr" share/zsh/vendor-completions
    for page in "$root"/usr/share/man/man1/*.1; do
        gzip --no-name --best "$page"
    done
    put 644 "$here/deb/copyright" "$doc/copyright"
    gzip --no-name --best <"$notices" >"$doc/THIRD-PARTY.gz"
    gzip --no-name --best <CHANGELOG.md >"$doc/changelog.gz"

    mkdir "$root/DEBIAN"
    (cd "$root" && find usr -type f -print0 | LC_ALL=C sort --zero-terminated | xargs --null md5sum) >"$scratch/md5sums"
    mv "$scratch/md5sums" "$root/DEBIAN/md5sums"
    size=$(find "$root/usr" -type f -printf '%s\n' | awk '{ bytes += $1 } END { print int((bytes + 1023) / 1024) }')
    control "$size" >"$root/DEBIAN/control"
    chmod --recursive u=rwX,go=rX "$root"
    # Every version of dpkg can unpack gzip. `--level` of deploy/dist/build sets the level.
    dpkg-deb --root-owner-group -Zgzip "-z$level" --build "$root" "$out/tenon_$(debian_version)_$machine.deb" >/dev/null
    rm -r "$root"
}

# Debian orders 0.2.0~rc.1 before 0.2.0, as Semantic Versioning orders 0.2.0-rc.1.
debian_version() {
    echo "${version/-/\~}"
}

# control SIZE: prints the control file of the package, whose installed size is SIZE, in KiB.
control() {
    sed -e "s/@VERSION@/$(debian_version)/" -e "s/@ARCHITECTURE@/$machine/" -e "s/@SIZE@/$1/" \
        -e "s/@DEPENDS@/$("$here/requirements" --debian "$stripped/tenon")/" "$here/deb/control"
}

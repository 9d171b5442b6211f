# shellcheck shell=bash
# Packs each program with its licenses, packs its debug information, and copies its bill of
# materials. The archive of the command line can be unpacked to a prefix such as /usr/local.

build_archives() {
    local program name
    for program in "${programs[@]}"; do
        name=$program-$version-$platform
        if [ "$program" = tenon ]; then
            put_command "$scratch/$name" share/zsh/site-functions
        else
            put 755 "$stripped/$program" "$scratch/$name/bin/$program"
        fi
        put 644 LICENSE "$scratch/$name/share/doc/$program/LICENSE"
        put 644 "$notices" "$scratch/$name/share/doc/$program/THIRD-PARTY"
        archive "$scratch/$name" "$out/$name.tar.gz"

        put 644 "$debug/$program.debug" "$scratch/$name-debug/$program.debug"
        archive "$scratch/$name-debug" "$out/$name-debug.tar.gz"

        cp "$bills/$program.spdx.json" "$out/$name.spdx.json"
        rm -r "$scratch/$name" "$scratch/$name-debug"
    done
}

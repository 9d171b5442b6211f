# Writes the provenance of a release as an in-toto statement
# (https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md) with SLSA's predicate. It
# contains no time of the build, so that a repeated build yields the same statement. Arguments:
# $version, the URI of the $builder, the commit ($revision) and its time ($epoch), whether files were
# $changed after it, the $parts, the $profile of the binaries, and lines: $subjects and $materials
# are checksums with names, $tools are versions.

def lines: split("\n") | map(select(. != ""));

# The format of sha256sum.
def checksums: lines | map(capture("^(?<sha256>[0-9a-f]{64}) [ *](?<name>.*)$"));

"https://github.com/tenon-dev/tenon" as $repository
| {
    _type: "https://in-toto.io/Statement/v1",
    subject: ($subjects | checksums | map({name, digest: {sha256}})),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "\($repository)/blob/HEAD/deploy/dist/README.md#provenance",
        externalParameters: {source: "git+\($repository)", version: $version, parts: ($parts | split(" "))},
        internalParameters: {profile: $profile, sourceDateEpoch: ($epoch | tonumber), tools: ($tools | lines)},
        resolvedDependencies: (
          [
            {name: "source", uri: "git+\($repository)"}
            # A commit does not identify changed files.
            + if $changed or $revision == "" then {annotations: {uncommittedChanges: true}}
              else {digest: {gitCommit: $revision}} end
          ]
          + ($materials | checksums | map({name, uri: "git+\($repository)#\(.name)", digest: {sha256}}))
        )
      },
      runDetails: {builder: {id: $builder}}
    }
  }

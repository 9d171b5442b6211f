# Converts `cargo metadata` to SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/). Arguments: $name
# and $version of the image or program, its $purpose, the $digest of the program, the packages of the
# $distribution, one per line, and the time at which it was $created, in seconds.

# The linked dependencies: no dependencies of builds or tests, and no macros, which run in the
# compiler.
def linked($packages):
  .deps
  | map(select(any(.dep_kinds[]; .kind == null)) | .pkg)
  | map(select(any($packages[.].targets[].kind[]; . == "proc-macro") | not));

# The nodes that can be reached from $ids. Each step adds the neighbors that were not seen before.
def reachable($ids; $edges):
  {seen: ($ids | map({(.): true}) | add), next: $ids}
  | until(.next == [];
      .seen as $seen
      | ([.next[] | $edges[.][]] | unique | map(select($seen[.] | not))) as $new
      | {seen: ($seen + ($new | map({(.): true}) | add)), next: $new})
  | .seen | keys;

# An SPDX id consists of letters, digits, dots and dashes.
def spdx_id($prefix; $name; $version): "SPDXRef-\($prefix)-\($name)-\($version)" | gsub("[^a-zA-Z0-9.-]"; "-");

# Old crates separate licenses by a slash.
def license: if . == null then "NOASSERTION" else gsub(" */ *"; " OR ") end;

def package($id; $name; $version): {
  SPDXID: $id,
  name: $name,
  versionInfo: $version,
  downloadLocation: "NOASSERTION",
  filesAnalyzed: false,
  licenseConcluded: "NOASSERTION",
  licenseDeclared: "NOASSERTION",
  copyrightText: "NOASSERTION"
};

def located($purl): {externalRefs: [{
  referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: $purl
}]};

def crate:
  package(spdx_id("Crate"; .name; .version); .name; .version)
  + {licenseDeclared: (.license | license)}
  # Crates without a registry belong to Tenon.
  + if .source == null then {} else
      {downloadLocation: "https://crates.io/api/v1/crates/\(.name)/\(.version)/download"}
      + located("pkg:cargo/\(.name)@\(.version)")
    end;

def distributed:
  split(" ") as [$package, $version, $architecture]
  | package(spdx_id("Package"; $package; $version); $package; $version)
  + if $architecture == "file" then {} else located("pkg:deb/debian/\($package)@\($version)?arch=\($architecture)") end;

(.packages | map({(.id): .}) | add) as $packages
| (.resolve.nodes | map({(.id): linked($packages)}) | add) as $edges
| ($packages[] | select(.source == null and any(.targets[]; .name == $name and .kind == ["bin"])) | .id) as $root
| reachable([$root]; $edges) as $crates
| ($distribution | split("\n") | map(select(. != ""))) as $lines
| package("SPDXRef-" + {CONTAINER: "Image", APPLICATION: "Program"}[$purpose]; $name; $version) as $image
| {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: "\($name)-\($version)",
    documentNamespace: "https://github.com/tenon-dev/tenon/sbom/\($purpose | ascii_downcase)/\($name)-\($version)-\($digest)",
    creationInfo: {created: ($created | todate), creators: ["Organization: Tenon", "Tool: deploy-images-sbom"]},
    packages: (
      [$image + {primaryPackagePurpose: $purpose, licenseDeclared: "Apache-2.0"}]
      + ($crates | map($packages[.] | crate))
      + ($lines | map(distributed))
    ),
    relationships: (
      [
        {spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: $image.SPDXID},
        {spdxElementId: $image.SPDXID, relationshipType: "CONTAINS", relatedSpdxElement: ($packages[$root] | crate.SPDXID)}
      ]
      + ($lines | map({
          spdxElementId: $image.SPDXID, relationshipType: "CONTAINS", relatedSpdxElement: (distributed | .SPDXID)
        }))
      + [$crates[] as $from | $edges[$from][] as $to | {
          spdxElementId: ($packages[$from] | crate.SPDXID),
          relationshipType: "DEPENDS_ON",
          relatedSpdxElement: ($packages[$to] | crate.SPDXID)
        }]
    )
  }

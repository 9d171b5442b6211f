//! Tests that the committed YAML is the output of `make crds`.

use std::path::Path;

#[test]
fn the_committed_crds_are_fresh() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/tenon-crds/templates");
    for ((name, text), crd) in tenon_crds::files().unwrap().into_iter().zip(tenon_crds::all()) {
        let path = directory.join(name);
        let committed = std::fs::read_to_string(&path).unwrap();
        assert!(committed == text, "{} is stale: run `make crds`", path.display());
        // The template must also parse as plain YAML and equal the CRD.
        let committed: serde_json::Value = serde_yaml::from_str(&committed).unwrap();
        assert_eq!(committed, serde_json::to_value(&crd).unwrap());
    }
}

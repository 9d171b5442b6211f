//! The committed YAML is what the types say.

use std::path::Path;

#[test]
fn the_committed_crds_are_fresh() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/tenon-crds/templates");
    for crd in tenon_crds::all() {
        let path = directory.join(format!("{}.yaml", crd.spec.names.plural));
        let committed: serde_json::Value = serde_yaml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(committed, serde_json::to_value(&crd).unwrap(), "{} is stale: run `make crds`", path.display());
    }
}

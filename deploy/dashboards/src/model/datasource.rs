//! The data source of panels and variables.

use serde::{Deserialize, Serialize};

/// A reference to a data source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datasource {
    #[serde(rename = "type")]
    kind: String,
    uid: String,
}

impl Datasource {
    /// Returns the data source that the variable `datasource` selects.
    pub(super) fn prometheus() -> Self {
        Self { kind: "prometheus".to_owned(), uid: "${datasource}".to_owned() }
    }
}

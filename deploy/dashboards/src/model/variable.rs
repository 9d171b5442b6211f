//! The variables whose values users choose at the top of a dashboard.

use serde::{Deserialize, Serialize};

use super::datasource::Datasource;

/// A variable, whose value users choose at the top of a dashboard.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variable {
    pub name: String,
    pub label: String,
    #[serde(rename = "type")]
    pub kind: VariableKind,
    /// `label_values(SERIES, LABEL)`, or the type of a data source.
    pub query: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    datasource: Option<Datasource>,
    #[serde(default)]
    pub multi: bool,
    #[serde(default)]
    include_all: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all_value: Option<String>,
    /// The event at which the values are refreshed: 1 means the load of the dashboard, and 2 a
    /// change of the time range.
    refresh: u8,
    /// The order of the values: 1 means alphabetical.
    sort: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VariableKind {
    Datasource,
    Query,
}

impl Variable {
    fn plain(name: &str, label: &str, kind: VariableKind) -> Self {
        Self {
            name: name.to_owned(),
            label: label.to_owned(),
            kind,
            query: String::new(),
            definition: None,
            datasource: None,
            multi: false,
            include_all: false,
            all_value: None,
            refresh: 2,
            sort: 1,
        }
    }

    /// Returns the variable that selects the data source of all queries.
    pub(super) fn datasource() -> Self {
        Self {
            query: "prometheus".to_owned(),
            refresh: 1,
            ..Self::plain("datasource", "Data source", VariableKind::Datasource)
        }
    }

    /// Returns a variable that selects one of the values that the label `of` has in the series that
    /// match `series`.
    pub fn one(name: &str, label: &str, series: &str, of: &str) -> Self {
        let query = format!("label_values({series}, {of})");
        let datasource = Some(Datasource::prometheus());
        Self {
            definition: Some(query.clone()),
            query,
            datasource,
            ..Self::plain(name, label, VariableKind::Query)
        }
    }

    /// Returns a variable that selects any number of the values that the label `of` has in the
    /// series that match `series`; by default all of them.
    pub fn any(name: &str, label: &str, series: &str, of: &str) -> Self {
        Self {
            multi: true,
            include_all: true,
            all_value: Some(".*".to_owned()),
            ..Self::one(name, label, series, of)
        }
    }
}

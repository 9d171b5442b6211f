//! Tenon's Grafana dashboards: made from the queries in [`boards`], checked against a Prometheus, and drawn without a Grafana.
//!
//! ```text
//!  boards ─► model ─► charts/tenon/dashboards/*.json ─► Grafana
//!                              │
//!                              └─► check, draw ─► Prometheus
//! ```
//!
//! - [`boards`]: which panels there are; [`model`]: what Grafana calls them; [`unit`]: what they are measured in.
//! - [`variables`]: what a dashboard's variables stand for where nobody chooses.
//! - [`prometheus`]: its HTTP API, by whatever way there is to it.
//! - [`check`]: which panels have no data; [`draw`]: what they show, as a picture.
//!
//! The queries rely on what a scrape adds: `job="tenon"`, `namespace` and `pod`, `component` and, of nodes, `pool`; and that it
//! leaves the labels alone that are there, as a Worker's series have its own `namespace`. `scrape.yaml` beside this does so.

pub mod boards;
pub mod check;
pub mod draw;
pub mod model;
pub mod prometheus;
pub mod unit;
pub mod variables;

use std::io;
use std::path::{Path, PathBuf};

use model::Dashboard;

/// Why a directory's dashboards cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {0}: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("{0} is not a dashboard that `make dashboards` has made: {1}")]
    Malformed(PathBuf, #[source] serde_json::Error),
    #[error("there is no dashboard in {0}; name a directory with *.json")]
    None(PathBuf),
}

/// The dashboards of a directory, in the order of their files' names.
///
/// # Errors
/// When there is none, or one that cannot be read.
pub fn read(directory: &Path) -> Result<Vec<Dashboard>, ReadError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| ReadError::Unreadable(path, error)
    };
    let entries = std::fs::read_dir(directory).map_err(unreadable(directory))?;
    let mut paths =
        entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>().map_err(unreadable(directory))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let dashboards = paths.iter().map(|path| {
        let text = std::fs::read_to_string(path).map_err(unreadable(path))?;
        serde_json::from_str(&text).map_err(|error| ReadError::Malformed(path.clone(), error))
    });
    match dashboards.collect::<Result<Vec<_>, _>>()? {
        none if none.is_empty() => Err(ReadError::None(directory.to_owned())),
        dashboards => Ok(dashboards),
    }
}

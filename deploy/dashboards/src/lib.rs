//! Generates Tenon's Grafana dashboards from the queries in [`boards`], checks them against a
//! Prometheus server, and draws them without Grafana.
//!
//! ```text
//!  boards ─► model ─► charts/tenon/dashboards/*.json ─► Grafana
//!                              │
//!                              └─► check, draw ─► Prometheus
//! ```
//!
//! - [`boards`] defines the panels, [`model`] is Grafana's schema, and [`unit`] has the units.
//! - [`variables`] selects values for a dashboard's variables that the user has not set.
//! - [`prometheus`] is a client of Prometheus' HTTP API, over any transport.
//! - [`check`] finds panels without data; [`draw`] draws dashboards as pictures.
//!
//! The queries rely on labels that the scrape configuration adds: `job="tenon"`, `namespace`,
//! `pod`, `component`, and `pool` for nodes. The configuration must keep labels that exist already,
//! because a Worker's series have a `namespace` of their own. `scrape.yaml` in this crate is such a
//! configuration.

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

/// The reasons why the dashboards of a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {0}: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("{0} is not a generated dashboard; run `make dashboards`: {1}")]
    Malformed(PathBuf, #[source] serde_json::Error),
    #[error("{0} contains no dashboard; set a directory with *.json files")]
    None(PathBuf),
}

/// Reads the dashboards of a directory, ordered by file name.
///
/// # Errors
/// Fails if the directory or a dashboard in it cannot be read, or if the directory has no
/// dashboards.
pub fn read(directory: &Path) -> Result<Vec<Dashboard>, ReadError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| ReadError::Unreadable(path, error)
    };
    let entries = std::fs::read_dir(directory).map_err(unreadable(directory))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(unreadable(directory))?;
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

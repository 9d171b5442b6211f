//! Finds panels without data. Every query of a panel is checked, because a query without results
//! usually names a metric that does not exist, or a label that has another name.

use crate::model::Dashboard;
use crate::prometheus::{QueryError, Transport, Window};
use crate::variables::{self, Values};

/// The settings of a check.
#[derive(Clone, Debug)]
pub struct Settings {
    pub window: Window,
    /// The interval over which rates are computed, in seconds: at least four times the scrape
    /// interval.
    pub interval: u64,
    /// Values that the user has set for variables.
    pub set: Values,
}

/// One query of a panel, and its outcome.
#[derive(Clone, Debug)]
pub struct Finding {
    pub dashboard: String,
    pub panel: String,
    /// The query as it was sent.
    pub query: String,
    pub outcome: Outcome,
}

/// The outcome of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The query found this many series.
    Data(usize),
    /// The query found no series.
    Nothing,
    /// Prometheus rejected the query, with this message.
    Refused(String),
}

impl Finding {
    pub fn has_data(&self) -> bool {
        matches!(self.outcome, Outcome::Data(_))
    }
}

/// Runs every query of every panel.
///
/// # Errors
/// Fails if Prometheus cannot be reached, sends an invalid response, or refuses to list the values
/// of a variable. A panel's query that Prometheus refuses is a finding, not an error.
pub async fn check(
    dashboards: &[Dashboard],
    prometheus: &impl Transport,
    settings: &Settings,
) -> Result<Vec<Finding>, QueryError> {
    let Settings { window, interval, set } = settings;
    let mut findings = Vec::new();
    for dashboard in dashboards {
        let values = variables::choose(dashboard, prometheus, *window, *interval, set).await?;
        for panel in dashboard.queried() {
            for target in &panel.targets {
                let query = variables::fill(&target.expr, &values);
                let outcome = match prometheus.range(&query, *window).await {
                    Ok(series) if series.is_empty() => Outcome::Nothing,
                    Ok(series) => Outcome::Data(series.len()),
                    Err(QueryError::Refused(why)) => Outcome::Refused(why),
                    Err(error) => return Err(error),
                };
                let (dashboard, panel) = (dashboard.title.clone(), panel.title.clone());
                findings.push(Finding { dashboard, panel, query, outcome });
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Panel, Variable};
    use crate::unit::Unit;

    /// Returns data only for queries of `up` for the Worker `cart`.
    struct OnlyUp;

    impl Transport for OnlyUp {
        async fn get(&self, path: &str) -> Result<String, QueryError> {
            Ok(match path {
                values if values.contains("/label/worker/values") => {
                    r#"{"status":"success","data":["cart","menu"]}"#
                }
                nonsense if nonsense.contains("nonsense") => {
                    r#"{"status":"error","error":"what?"}"#
                }
                up if up.contains("query=up%7Bworker%3D%22cart%22%7D") => {
                    r#"{"status":"success","data":{"result":[{"metric":{},"values":[[1,"1"]]}]}}"#
                }
                _ => r#"{"status":"success","data":{"result":[]}}"#,
            }
            .to_owned())
        }
    }

    #[test]
    fn every_query_without_data_is_reported() {
        let panel = |title, queries: &[_]| Panel::lines(title, Unit::Count, "How many.", queries);
        let dashboard = Dashboard::new("test", "Test", "A test.")
            .with(Variable::one("worker", "Worker", "up", "worker"));
        let dashboard = dashboard.row(
            "Row",
            [
                panel("Good", &[(r#"up{worker="$worker"}"#, "up")]),
                panel("Half", &[(r#"up{worker="$worker"}"#, "up"), ("down", "down")]),
                panel("Wrong", &[("nonsense(", "wrong")]),
            ],
        );
        let window = Window { start: 0, end: 60, step: 15 };
        let settings = Settings { window, interval: 60, set: Values::new() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(check(&[dashboard], &OnlyUp, &settings)).unwrap();
        let found: Vec<_> =
            found.into_iter().map(|finding| (finding.panel, finding.outcome)).collect();
        let expected = [
            ("Good".to_owned(), Outcome::Data(1)),
            ("Half".to_owned(), Outcome::Data(1)),
            ("Half".to_owned(), Outcome::Nothing),
            ("Wrong".to_owned(), Outcome::Refused("what?".to_owned())),
        ];
        assert_eq!(found, expected);
    }
}

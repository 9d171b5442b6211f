//! Selects the values of a dashboard's variables. If the user has not set a variable, all values
//! are selected, or the first one that exists.

use std::collections::BTreeMap;

use crate::model::{Dashboard, Variable, VariableKind};
use crate::prometheus::{QueryError, Transport, Window};

/// Values by the names of their variables.
pub type Values = BTreeMap<String, String>;

/// Returns the series and the label of a variable with the query `label_values(SERIES, LABEL)`, or
/// `None` if the variable has another query.
pub fn label_values(variable: &Variable) -> Option<(&str, &str)> {
    let inside = variable.query.strip_prefix("label_values(")?.strip_suffix(')')?;
    let (series, label) = inside.rsplit_once(',')?;
    Some((series.trim(), label.trim()))
}

/// Replaces the variables in a query, including Grafana's own, with their values.
pub fn fill(query: &str, values: &Values) -> String {
    // The longest names come first, because one name may be a prefix of another.
    let mut names: Vec<_> = values.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names.into_iter().fold(query.to_owned(), |query, (name, value)| {
        query.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value)
    })
}

/// Selects the values of a dashboard's variables. The value of a variable is the one that is set,
/// otherwise all values if the variable allows that, and otherwise the first value that Prometheus
/// has.
///
/// # Arguments
/// * `interval` - the interval over which rates are computed, in seconds.
///
/// # Errors
/// Fails if Prometheus does not respond, refuses the request, or sends an invalid response.
pub async fn choose(
    dashboard: &Dashboard,
    prometheus: &impl Transport,
    window: Window,
    interval: u64,
    set: &Values,
) -> Result<Values, QueryError> {
    let mut values = built_in(window, interval);
    for variable in &dashboard.templating.list {
        let value = match (set.get(&variable.name), variable.kind) {
            (Some(value), _) => value.clone(),
            (None, VariableKind::Datasource) => continue,
            (None, VariableKind::Query) if variable.multi => ".*".to_owned(),
            (None, VariableKind::Query) => {
                let Some((series, label)) = label_values(variable) else { continue };
                let found = prometheus.label_values(&fill(series, &values), label, window).await?;
                found.into_iter().next().unwrap_or_default()
            }
        };
        values.insert(variable.name.clone(), value);
    }
    Ok(values)
}

/// Returns the values of the variables that Grafana defines.
pub fn built_in(window: Window, interval: u64) -> Values {
    let seconds = |seconds: u64| format!("{seconds}s");
    Values::from([
        ("__rate_interval".to_owned(), seconds(interval)),
        ("__interval".to_owned(), seconds(window.step)),
        ("__range".to_owned(), seconds(window.end - window.start)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_whose_name_is_a_prefix_of_another_is_distinguished() {
        let values = Values::from([("pod".into(), "a".into()), ("pods".into(), "b".into())]);
        assert_eq!(
            fill(r#"up{pod="$pod",pods="${pods}",more="$pods"}"#, &values),
            r#"up{pod="a",pods="b",more="b"}"#
        );
    }

    #[test]
    fn the_series_of_a_variable_may_have_commas() {
        let variable = Variable::one("worker", "Worker", r#"up{a="1",b="2"}"#, "worker");
        assert_eq!(label_values(&variable), Some((r#"up{a="1",b="2"}"#, "worker")));
    }
}

//! The part of Prometheus' HTTP API that is needed to run a panel's query.
//!
//! A [`Transport`] sends the requests. [`Http`] sends them to a URL; other implementations can send
//! them through a cluster's API server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::time::timeout;

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A range of time in Unix seconds, and the distance between its points in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: u64,
    pub end: u64,
    pub step: u64,
}

/// A series that a query found: its labels, and its values over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub labels: BTreeMap<String, String>,
    /// Times in Unix seconds with their values, none of which is NaN.
    pub points: Vec<(f64, f64)>,
}

/// The reasons why a query has no result.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("cannot query Prometheus: {0}")]
    Unreachable(String),
    #[error("Prometheus rejected the query: {0}")]
    Refused(String),
    #[error("the response is not from Prometheus: {0}")]
    InvalidResponse(String),
}

/// A transport to Prometheus.
pub trait Transport {
    /// Sends a GET request, and returns the body of the response, regardless of its status.
    ///
    /// # Arguments
    /// * `path` - the path from `/api/v1` on, with its query.
    ///
    /// # Errors
    /// Fails with [`QueryError::Unreachable`] if there is no response.
    fn get(&self, path: &str) -> impl Future<Output = Result<String, QueryError>>;

    /// Runs a query over a range of time.
    ///
    /// # Errors
    /// Fails if Prometheus does not respond, refuses the query, or sends an invalid response.
    fn range(
        &self,
        query: &str,
        window: Window,
    ) -> impl Future<Output = Result<Vec<Series>, QueryError>> {
        async move {
            let Window { start, end, step } = window;
            let path = format!(
                "/api/v1/query_range?query={}&start={start}&end={end}&step={step}",
                encode(query)
            );
            let Matrix { result } = parse(&self.get(&path).await?)?;
            Ok(result
                .into_iter()
                .map(Row::into_series)
                .filter(|series| !series.points.is_empty())
                .collect())
        }
    }

    /// Returns the values of a label in the series that match `series`, sorted by Prometheus.
    ///
    /// # Errors
    /// Fails if Prometheus does not respond, refuses the request, or sends an invalid response.
    fn label_values(
        &self,
        series: &str,
        label: &str,
        window: Window,
    ) -> impl Future<Output = Result<Vec<String>, QueryError>> {
        async move {
            let Window { start, end, .. } = window;
            let series = encode(series);
            let path = format!(
                "/api/v1/label/{label}/values?match%5B%5D={series}&start={start}&end={end}"
            );
            parse(&self.get(&path).await?)
        }
    }
}

/// A transport to a URL, over plain HTTP.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client<HttpConnector, Empty<Bytes>>,
    url: String,
}

impl Http {
    /// Returns a transport to `url`.
    ///
    /// # Errors
    /// Fails if the URL is not `http://HOST[:PORT][/PATH]`.
    pub fn at(url: &Uri) -> Result<Self, QueryError> {
        if url.host().is_none() || url.scheme_str() != Some("http") {
            return Err(QueryError::Unreachable(format!("{url} is not http://HOST[:PORT][/PATH]")));
        }
        let client = Client::builder(TokioExecutor::new()).build_http();
        Ok(Self { client, url: url.to_string().trim_end_matches('/').to_owned() })
    }
}

impl Transport for Http {
    async fn get(&self, path: &str) -> Result<String, QueryError> {
        let unreachable = |error: &dyn std::fmt::Display| {
            QueryError::Unreachable(format!("{}: {error}", self.url))
        };
        let url: Uri =
            format!("{}{path}", self.url).parse().map_err(|error| unreachable(&error))?;
        let answer = async {
            let response = self.client.get(url).await.map_err(|error| unreachable(&error))?;
            response.into_body().collect().await.map_err(|error| unreachable(&error))
        };
        let answer = timeout(REQUEST_TIMEOUT, answer)
            .await
            .map_err(|_| unreachable(&"no response within 30 s"))??;
        Ok(String::from_utf8_lossy(&answer.to_bytes()).into_owned())
    }
}

#[derive(Deserialize)]
struct ApiResponse<T> {
    status: String,
    error: Option<String>,
    data: Option<T>,
}

#[derive(Deserialize)]
struct Matrix {
    result: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

impl Row {
    fn into_series(self) -> Series {
        let points = self
            .values
            .into_iter()
            .filter_map(|(at, value)| Some((at, value.parse::<f64>().ok()?)));
        Series {
            labels: self.metric,
            points: points.filter(|(_, value)| !value.is_nan()).collect(),
        }
    }
}

fn parse<T: for<'de> Deserialize<'de>>(body: &str) -> Result<T, QueryError> {
    let invalid = || QueryError::InvalidResponse(body.chars().take(200).collect());
    let answer: ApiResponse<T> = serde_json::from_str(body).map_err(|_| invalid())?;
    match (answer.status.as_str(), answer.data) {
        ("success", Some(data)) => Ok(data),
        ("error", _) => Err(QueryError::Refused(answer.error.unwrap_or_default())),
        _ => Err(invalid()),
    }
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    write!(encoded, "{}", utf8_percent_encode(text, NON_ALPHANUMERIC))
        .expect("writing to a String cannot fail");
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Canned(&'static str);

    impl Transport for Canned {
        async fn get(&self, path: &str) -> Result<String, QueryError> {
            assert!(
                path.starts_with(
                    "/api/v1/query_range?query=up%7Ba%3D%22b%22%7D&start=0&end=60&step=15"
                ),
                "{path}"
            );
            Ok(self.0.to_owned())
        }
    }

    fn query(answer: &'static str) -> Result<Vec<Series>, QueryError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime
            .block_on(Canned(answer).range(r#"up{a="b"}"#, Window { start: 0, end: 60, step: 15 }))
    }

    #[test]
    fn values_that_are_not_numbers_are_dropped() {
        let series = query(
            r#"{"status":"success","data":{"resultType":"matrix","result":[
                {"metric":{"pod":"one"},"values":[[15,"NaN"],[30,"0.5"]]},
                {"metric":{"pod":"two"},"values":[[15,"NaN"]]}
            ]}}"#,
        )
        .unwrap();
        let labels = BTreeMap::from([("pod".to_owned(), "one".to_owned())]);
        assert_eq!(series, [Series { labels, points: vec![(30.0, 0.5)] }]);
    }

    #[test]
    fn an_invalid_query_is_reported_with_the_error_of_prometheus() {
        let refused =
            query(r#"{"status":"error","errorType":"bad_data","error":"unexpected end of input"}"#);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "Prometheus rejected the query: unexpected end of input"
        );
        assert!(matches!(query("<html>"), Err(QueryError::InvalidResponse(_))));
    }

    #[test]
    fn only_plain_http_urls_are_accepted() {
        assert!(Http::at(&"http://localhost:9090/prometheus/".parse().unwrap()).is_ok());
        assert!(Http::at(&"https://localhost:9090".parse().unwrap()).is_err());
    }
}

//! The arguments of a process that records spans. Those that concern the export can also be set
//! with the environment variables that OpenTelemetry specifies.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ArgAction;
use http::Uri;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use percent_encoding::percent_decode_str;
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::Endpoint;

use crate::SpansConfig;
use crate::collector::{CertificatesError, Collector, Connector};
use crate::sampling::{Ratio, Sampling};
use crate::span::attribute;

/// Arguments of spans.
#[derive(Clone, Debug, clap::Args)]
pub struct SpanArgs {
    /// URL of an OpenTelemetry collector, which receives spans of requests by OTLP over gRPC:
    /// http://HOST:4317, or https:// with TLS. By default, no spans are recorded.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<Uri>,

    /// Headers for the collector, such as credentials: NAME=VALUE, separated by commas, with values
    /// in percent-encoding.
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_HEADERS",
        value_name = "LIST",
        hide_env_values = true,
        default_value_t
    )]
    otlp_headers: Pairs,

    /// File with PEM certificates of authorities that issue the collector's certificate. By
    /// default, the authorities of the system are trusted.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_CERTIFICATE", value_name = "FILE")]
    otlp_certificate: Option<PathBuf>,

    /// Attributes of this process in its spans, such as k8s.cluster.name=NAME: NAME=VALUE,
    /// separated by commas, with values in percent-encoding.
    #[arg(long, env = "OTEL_RESOURCE_ATTRIBUTES", value_name = "LIST", default_value_t)]
    otlp_resource: Pairs,

    /// Share of the requests that have a span, from 0 to 1. A request from --trusted-proxies that
    /// continues a trace has a span if the trace is sampled.
    #[arg(long, env = "TENON_TRACE_RATIO", value_name = "RATIO", default_value = "0.01")]
    trace_ratio: Ratio,

    /// Also record spans of requests that fail with a status of 500 or above.
    #[arg(
        long,
        env = "TENON_TRACE_ERRORS",
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set
    )]
    trace_errors: bool,
}

/// The reason why the arguments are invalid.
#[derive(Debug, thiserror::Error)]
pub enum SpanArgsError {
    #[error("--otlp-endpoint: {0} is not a URL such as http://collector:4317")]
    Endpoint(Uri),
    #[error("--otlp-headers: {0} is not a valid header")]
    Header(String),
    #[error("--otlp-certificate: {0}")]
    Certificates(#[from] CertificatesError),
}

impl SpanArgs {
    /// Returns the configuration, or `None` if there is no collector.
    ///
    /// # Arguments
    /// * `service` - the kind of the process, such as `tenon-router`.
    /// * `instance` - the name of the process.
    ///
    /// # Errors
    /// Fails if an argument is invalid, or the certificates cannot be read.
    pub fn config(
        &self,
        service: &str,
        instance: &str,
    ) -> Result<Option<SpansConfig>, SpanArgsError> {
        let Some(url) = &self.otlp_endpoint else { return Ok(None) };
        if !matches!(url.scheme_str(), Some("http" | "https")) || url.authority().is_none() {
            return Err(SpanArgsError::Endpoint(url.clone()));
        }
        let endpoint = Endpoint::from(url.clone());
        let agent = concat!("tenon/", env!("CARGO_PKG_VERSION"));
        let endpoint =
            endpoint.user_agent(agent).map_err(|_| SpanArgsError::Endpoint(url.clone()))?;
        let collector = Collector {
            endpoint,
            connector: Connector::new(url, self.otlp_certificate.as_deref())?,
            headers: headers(&self.otlp_headers)?,
            resource: resource(service, instance, &self.otlp_resource),
        };
        let sampling = Sampling { ratio: self.trace_ratio, errors: self.trace_errors };
        Ok(Some(SpansConfig { sampling, collector }))
    }
}

fn headers(pairs: &Pairs) -> Result<MetadataMap, SpanArgsError> {
    let mut headers = MetadataMap::new();
    for (name, value) in &pairs.0 {
        // The error names only the header, because its value may be secret.
        let invalid = || SpanArgsError::Header(name.clone());
        let name: MetadataKey<_> = name.to_lowercase().parse().map_err(|_| invalid())?;
        let mut value: MetadataValue<_> = value.parse().map_err(|_| invalid())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns the attributes that describe this process in its spans. An attribute of the arguments
/// replaces the process's own attribute of that name.
fn resource(service: &str, instance: &str, pairs: &Pairs) -> Resource {
    let own = [
        ("service.name", service),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ];
    let is_replaced = |name: &str| pairs.0.iter().any(|(other, _)| other == name);
    let own = own.into_iter().filter(|(name, _)| !is_replaced(name));
    let stated = pairs.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let attributes = own.chain(stated);
    let attributes =
        attributes.map(|(name, value)| attribute(name, Value::StringValue(value.to_owned())));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}

/// A list of names and values, in the form of W3C's Baggage without properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pairs(Vec<(String, String)>);

/// The error for text that is not a list of names and values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the list does not have the form NAME=VALUE,NAME=VALUE, with values in percent-encoding")]
struct InvalidPairs;

impl FromStr for Pairs {
    type Err = InvalidPairs;

    fn from_str(text: &str) -> Result<Self, InvalidPairs> {
        let pair = |member: &str| {
            let (name, value) = member.split_once('=').ok_or(InvalidPairs)?;
            let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| InvalidPairs)?;
            let name = name.trim();
            if name.is_empty() { Err(InvalidPairs) } else { Ok((name.to_owned(), value.into())) }
        };
        let members = text.split(',').map(str::trim).filter(|member| !member.is_empty());
        members.map(pair).collect::<Result<_, _>>().map(Self)
    }
}

impl std::fmt::Display for Pairs {
    /// Writes the names only, because values may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        names.join(",").fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Process {
        #[command(flatten)]
        spans: SpanArgs,
    }

    fn config(args: &[&str]) -> Result<Option<SpansConfig>, SpanArgsError> {
        let args = std::iter::once(&"process").chain(args);
        Process::try_parse_from(args).unwrap().spans.config("tenon-router", "router-1")
    }

    #[test]
    fn without_a_collector_there_are_no_spans() {
        assert!(config(&[]).unwrap().is_none());
    }

    #[test]
    fn the_url_of_a_collector_has_a_scheme_and_a_host() {
        assert!(config(&["--otlp-endpoint=http://collector:4317"]).unwrap().is_some());
        for url in ["collector:4317", "/collector", "ftp://collector"] {
            let error = config(&["--otlp-endpoint", url]).unwrap_err();
            assert!(matches!(error, SpanArgsError::Endpoint(_)), "{url}: {error}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let error =
            config(&["--otlp-endpoint=https://collector:4317", "--otlp-certificate=/dev/null"])
                .unwrap_err();
        assert!(error.to_string().starts_with("--otlp-certificate: /dev/null: "), "{error}");
    }

    #[test]
    fn headers_are_decoded_and_not_shown() {
        let url = "--otlp-endpoint=http://collector:4317";
        let config = config(&[url, "--otlp-headers= Api-Key=a%2Cb , x=y"]).unwrap().unwrap();
        assert_eq!(config.collector.headers.get("api-key").unwrap(), "a,b");
        assert_eq!(config.collector.headers.get("x").unwrap(), "y");
        assert!(!format!("{config:?}").contains("a,b"));
    }

    #[test]
    fn an_attribute_of_the_process_can_be_replaced() {
        let url = "--otlp-endpoint=http://collector:4317";
        let attributes = "--otlp-resource=service.name=edge,k8s.cluster.name=eu%20west";
        let config = config(&[url, attributes]).unwrap().unwrap();
        let attributes: Vec<_> = config
            .collector
            .resource
            .attributes
            .iter()
            .map(|attribute| match attribute.value.clone().unwrap().value.unwrap() {
                Value::StringValue(value) => (attribute.key.clone(), value),
                other => panic!("{other:?} is not text"),
            })
            .collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert!(attributes.contains(&pair("service.name", "edge")));
        assert!(attributes.contains(&pair("service.instance.id", "router-1")));
        assert!(attributes.contains(&pair("k8s.cluster.name", "eu west")));
        assert_eq!(attributes.len(), 4);
    }

    #[test]
    fn a_malformed_list_of_pairs_is_refused() {
        for text in ["a", "=b", "a=b,c", "a=%ff"] {
            assert_eq!(text.parse::<Pairs>(), Err(InvalidPairs), "{text}");
        }
        assert_eq!("".parse::<Pairs>(), Ok(Pairs::default()));
    }
}

//! Sends the batches of all threads to the collector, one after another.
//!
//! ```text
//!  batch ─► export ─┬─► accepted, or refused in part
//!            ▲      ├─► refused
//!            │      └─► unavailable ─► wait for longer each time ─┐
//!            └────────────────────── for half a minute at most ◄──┘
//! ```
//!
//! While the exporter waits, further batches wait too, until no more fit and threads drop spans.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use crate::collector::Collector;
use crate::metrics::{Fate, SpanMetrics};
use crate::recorder::BATCH;
use crate::span::Span;

/// The time for which the exporter tries to send a batch.
const RETRY_FOR: Duration = Duration::from_secs(30);

/// The first and the longest delay after a failed attempt. The delay doubles with each attempt.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(8);

/// Sends spans to the collector.
pub struct Exporter {
    batches_rx: mpsc::Receiver<Vec<Span>>,
    collector: Collector,
    metrics: SpanMetrics,
    /// Whether the last batch has failed, which is logged once.
    has_failed: bool,
}

impl Exporter {
    pub(crate) fn new(
        batches_rx: mpsc::Receiver<Vec<Span>>,
        collector: Collector,
        metrics: SpanMetrics,
    ) -> Self {
        Self { batches_rx, collector, metrics, has_failed: false }
    }

    /// Exports spans until every recorder has been dropped.
    pub async fn run(mut self) {
        let mut client = TraceServiceClient::new(self.collector.connect());
        while let Some(mut spans) = self.batches_rx.recv().await {
            while spans.len() < BATCH
                && let Ok(more) = self.batches_rx.try_recv()
            {
                spans.extend(more);
            }
            let number = spans.len();
            match send(&mut client, &self.collector, spans).await {
                Ok(rejected) => {
                    let rejected = rejected.min(number);
                    self.metrics.count(Fate::Exported, number - rejected);
                    self.metrics.count(Fate::Failed, rejected);
                    self.has_failed = false;
                }
                Err(status) => {
                    self.metrics.count(Fate::Failed, number);
                    if !std::mem::replace(&mut self.has_failed, true) {
                        let (code, message) = (status.code(), status.message());
                        tracing::warn!(?code, message, "cannot export spans");
                    }
                }
            }
        }
    }
}

/// Sends spans, and retries if a retry may succeed. Returns the number of spans that the collector
/// has rejected.
async fn send(
    client: &mut TraceServiceClient<Channel>,
    collector: &Collector,
    spans: Vec<Span>,
) -> Result<usize, Status> {
    let message = message(collector, spans);
    let (until, mut delay) = (Instant::now() + RETRY_FOR, FIRST_DELAY);
    loop {
        let mut request = Request::new(message.clone());
        *request.metadata_mut() = collector.headers.clone();
        let status = match client.export(request).await {
            Ok(response) => {
                let partial = response.into_inner().partial_success.unwrap_or_default();
                if !partial.error_message.is_empty() {
                    tracing::debug!(
                        message = partial.error_message,
                        "the collector has accepted spans with a message"
                    );
                }
                return Ok(usize::try_from(partial.rejected_spans).unwrap_or_default());
            }
            Err(status) => status,
        };
        let Some(wait) = retry_after(&status, delay) else { return Err(status) };
        if Instant::now() + wait > until {
            return Err(status);
        }
        tokio::time::sleep(wait).await;
        delay = (2 * delay).min(LONGEST_DELAY);
    }
}

/// Returns the time after which a batch is sent again, or `None` if the collector would refuse the
/// batch again (section *Failures* of the OTLP specification).
///
/// # Arguments
/// * `delay` - the mean of the random delay that applies unless the collector states one.
fn retry_after(status: &Status, delay: Duration) -> Option<Duration> {
    let stated = status.get_details_retry_info().and_then(|info| info.retry_delay);
    match status.code() {
        // A collector that can recover states a delay.
        Code::ResourceExhausted => stated,
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => Some(stated.unwrap_or_else(|| delay.mul_f64(0.5 + fastrand::f64()))),
        _ => None,
    }
}

fn message(collector: &Collector, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let spans = spans.into_iter().map(Span::into_message).collect();
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(collector.resource.clone()),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn only_a_temporary_failure_is_retried() {
        let delay = Duration::from_secs(2);
        let waits = |code| retry_after(&Status::new(code, ""), delay);
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted] {
            let wait = waits(code).unwrap();
            assert!(wait >= delay / 2 && wait < 2 * delay, "{wait:?}");
        }
        for code in [Code::InvalidArgument, Code::Unauthenticated, Code::ResourceExhausted] {
            assert_eq!(waits(code), None);
        }
    }

    #[test]
    fn a_collector_states_when_it_accepts_spans_again() {
        let stated = Duration::from_secs(3);
        let details = ErrorDetails::with_retry_info(Some(stated));
        for code in [Code::ResourceExhausted, Code::Unavailable] {
            let status = Status::with_error_details(code, "", details.clone());
            assert_eq!(retry_after(&status, Duration::from_secs(1)), Some(stated));
        }
    }
}

//! The spans of a thread, from the beginning of a request until a batch of them is handed to the
//! exporter.
//!
//! A recorder belongs to one thread. It wakes the exporter's thread once for each batch.

use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::context::Context;
use crate::metrics::{Fate, SpanMetrics};
use crate::sampling::Sampling;
use crate::span::{Origin, Span};

/// The maximum number of spans that wait on a thread, and leave it as one batch. A span takes about
/// 2 KiB.
pub(crate) const BATCH: usize = 512;

/// The number of waiting spans at which a request that is not sampled gets no span even if it
/// fails. An outage thus leaves room for the spans of sampled requests.
const ERRORS: usize = BATCH / 2;

/// The delay with which spans are handed to the exporter.
const DELAY: Duration = Duration::from_secs(1);

/// The reason for the failure of a request whose client disconnected before the end.
pub const DISCONNECTED: &str = "client_disconnected";

/// The parts of a recorder that can be sent to its thread.
#[derive(Clone)]
pub struct RecorderParts {
    pub(crate) sampling: Sampling,
    pub(crate) batches_tx: mpsc::Sender<Vec<Span>>,
    pub(crate) metrics: SpanMetrics,
}

/// The spans of a thread.
pub struct Recorder {
    parts: RecorderParts,
    ended: RefCell<Vec<Span>>,
    is_due: Cell<bool>,
}

/// The span of a request that has not ended. The span ends when this value is dropped.
pub struct OpenSpan {
    pub span: Span,
    context: Context,
    started: Instant,
    is_answered: bool,
    /// The number of bytes of the response's body that have been sent. `None` before the first
    /// piece.
    sent: Option<u64>,
    recorder: Rc<Recorder>,
}

impl Recorder {
    /// Creates a thread's recorder, on that thread.
    pub fn new(parts: RecorderParts) -> Rc<Self> {
        Rc::new(Self { parts, ended: RefCell::default(), is_due: Cell::new(false) })
    }

    /// Returns whether a request is sampled, and thus has a span even if it succeeds.
    ///
    /// # Arguments
    /// * `parent` - the context of a sender that is trusted; `None` if the request begins a trace.
    /// * `random` - random bits.
    pub fn samples(&self, parent: Option<&Context>, random: u64) -> bool {
        self.parts.sampling.samples(parent, random)
    }

    /// Begins the span of a request.
    ///
    /// # Arguments
    /// * `started` - the beginning of the request, which has just begun.
    /// * `random` - returns random bits.
    pub fn begin(
        self: &Rc<Self>,
        origin: &Origin,
        started: Instant,
        random: impl FnMut() -> u128,
    ) -> Box<OpenSpan> {
        let context = origin.begin(random);
        let span = Span::server(&context, origin, SystemTime::now());
        let recorder = self.clone();
        Box::new(OpenSpan { span, context, started, is_answered: false, sent: None, recorder })
    }

    /// Returns whether requests have a span if they fail.
    pub fn records_errors(&self) -> bool {
        self.parts.sampling.errors
    }

    /// Records the span of a request that has failed, and was not sampled.
    ///
    /// # Arguments
    /// * `took` - the time that has passed since the request began.
    /// * `random` - returns random bits.
    /// * `describe` - adds the attributes. It is called only if there is room for the span.
    pub fn record_error(
        self: &Rc<Self>,
        origin: &Origin,
        took: Duration,
        random: impl FnMut() -> u128,
        describe: impl FnOnce(&mut Span),
    ) {
        if self.ended.borrow().len() >= ERRORS {
            return self.parts.metrics.count(Fate::Dropped, 1);
        }
        let now = SystemTime::now();
        let started = now.checked_sub(took).unwrap_or(now);
        let mut span = Span::server(&origin.begin(random), origin, started);
        describe(&mut span);
        span.end(took);
        self.record(span);
    }

    /// Hands all spans to the exporter, or drops them if the exporter has no room.
    pub fn flush(&self) {
        let batch = mem::take(&mut *self.ended.borrow_mut());
        let spans = batch.len();
        if spans > 0 && self.parts.batches_tx.try_send(batch).is_err() {
            self.parts.metrics.count(Fate::Dropped, spans);
        }
    }

    fn record(self: &Rc<Self>, span: Span) {
        if self.ended.borrow().len() >= BATCH {
            self.flush();
        }
        self.ended.borrow_mut().push(span);
        if !self.is_due.replace(true) {
            let this = self.clone();
            spawn_local(async move {
                tokio::time::sleep(DELAY).await;
                this.is_due.set(false);
                this.flush();
            });
        }
    }
}

impl OpenSpan {
    /// Returns the context that the next process gets.
    pub fn context(&self) -> Context {
        self.context
    }

    /// Adds the outcome of the request. A span without an outcome reports that the client
    /// disconnected.
    pub fn answered(&mut self, describe: impl FnOnce(&mut Span)) {
        self.is_answered = true;
        describe(&mut self.span);
    }

    /// Counts bytes of the response's body.
    pub fn count_sent(&mut self, bytes: usize) {
        self.sent = Some(self.sent.unwrap_or(0) + bytes as u64);
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let mut span = mem::take(&mut self.span);
        if !self.is_answered {
            span.fail(DISCONNECTED);
        }
        if let Some(sent) = self.sent {
            span.number("http.response.body.size", sent.try_into().unwrap_or(i64::MAX));
        }
        span.end(self.started.elapsed());
        self.recorder.record(span);
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;
    use tokio::task::LocalSet;

    use super::*;

    /// Runs a test with a recorder whose exporter has room for two batches.
    fn run(ratio: &str, test: impl AsyncFnOnce(Rc<Recorder>, mpsc::Receiver<Vec<Span>>, Registry)) {
        let registry = Registry::new();
        let (batches_tx, batches_rx) = mpsc::channel(2);
        let sampling = Sampling { ratio: ratio.parse().unwrap(), errors: true };
        let metrics = SpanMetrics::register(&registry).unwrap();
        let recorder = Recorder::new(RecorderParts { sampling, batches_tx, metrics });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, test(recorder, batches_rx, registry));
    }

    fn begin(recorder: &Rc<Recorder>) -> Option<Box<OpenSpan>> {
        let begin = || recorder.begin(&Origin::Nothing, Instant::now(), || 7);
        recorder.samples(None, 7).then(begin)
    }

    fn fail(recorder: &Rc<Recorder>) {
        let took = Duration::from_millis(1);
        recorder.record_error(&Origin::Nothing, took, || 7, |span| span.fail("internal"));
    }

    fn dropped(registry: &Registry) -> u64 {
        let families = registry.gather();
        let metrics = families[0].get_metric().iter();
        let mut dropped =
            metrics.filter(|metric| metric.get_label()[0].value() == Fate::Dropped.as_str());
        dropped.next().unwrap().get_counter().get_value() as u64
    }

    #[test]
    fn the_spans_of_a_second_are_handed_over_together() {
        run("1", async |recorder, mut batches_rx, _| {
            let spans: Vec<_> = (0..3).map(|_| begin(&recorder)).collect();
            drop(spans);
            assert_eq!(batches_rx.recv().await.unwrap().len(), 3);
            drop(begin(&recorder));
            assert_eq!(batches_rx.recv().await.unwrap().len(), 1);
        });
    }

    #[test]
    fn a_request_that_is_not_sampled_has_a_span_only_if_it_fails() {
        run("0", async |recorder, mut batches_rx, _| {
            assert!(begin(&recorder).is_none());
            fail(&recorder);
            assert_eq!(batches_rx.recv().await.unwrap().len(), 1);
        });
    }

    #[test]
    fn a_request_without_an_outcome_has_failed() {
        run("1", async |recorder, mut batches_rx, _| {
            let mut answered = begin(&recorder).unwrap();
            answered.answered(|span| span.number("http.response.status_code", 200));
            drop((answered, begin(&recorder)));
            recorder.flush();
            let spans = batches_rx.recv().await.unwrap().into_iter().map(Span::into_message);
            let failed: Vec<bool> = spans.map(|span| span.status.is_some()).collect();
            assert_eq!(failed, [false, true]);
        });
    }

    #[test]
    fn spans_are_dropped_while_the_exporter_has_no_room() {
        run("1", async |recorder, mut batches_rx, registry| {
            for _ in 0..4 * BATCH {
                drop(begin(&recorder));
            }
            recorder.flush();
            assert_eq!(dropped(&registry), 2 * BATCH as u64);
            assert_eq!(batches_rx.recv().await.unwrap().len(), BATCH);
            drop(begin(&recorder));
            recorder.flush();
            assert_eq!(batches_rx.recv().await.unwrap().len(), BATCH);
            assert_eq!(batches_rx.recv().await.unwrap().len(), 1);
        });
    }

    #[test]
    fn failures_leave_room_for_sampled_requests() {
        run("1", async |recorder, mut batches_rx, registry| {
            for _ in 0..BATCH {
                fail(&recorder);
            }
            assert_eq!(dropped(&registry), (BATCH - ERRORS) as u64);
            drop(begin(&recorder));
            recorder.flush();
            assert_eq!(batches_rx.recv().await.unwrap().len(), ERRORS + 1);
        });
    }
}

//! The log of the process, in which tests look for lines.

use std::fmt::Write;
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Collects every line that the platform and its Workers log.
pub(crate) fn collect() {
    let subscriber = tracing_subscriber::registry().with(Collector);
    tracing::subscriber::set_global_default(subscriber).expect("a subscriber is already set");
}

/// Returns every line so far, as `LEVEL field=value …`.
pub(crate) fn lines() -> Vec<String> {
    LINES.lock().expect("nothing panics while it holds the log").clone()
}

struct Collector;

impl<S: tracing::Subscriber> Layer<S> for Collector {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("tenon") {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            LINES.lock().expect("nothing panics while it holds the log").push(line.0);
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("writing to a `String` cannot fail");
    }
}

//! Records the CPU profile of one isolate, through a session of V8's inspector that only this
//! module uses.
//!
//! Unlike a client of an [`Inspector`](super::Inspector), a profiler never pauses code, and the
//! limits of the Worker apply. V8 interrupts the isolate's thread once per [`INTERVAL`] of
//! wall-clock time, and records the stack if the thread has entered the isolate.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use v8::inspector::{
    Channel, ChannelImpl, StringBuffer, StringView, V8Inspector, V8InspectorClient,
    V8InspectorClientImpl, V8InspectorClientTrustLevel, V8InspectorSession,
};

/// Time between two samples. This is V8's default.
const INTERVAL: Duration = Duration::from_millis(1);

/// The number of the group of contexts to which the session belongs. The group is empty, because a
/// profile covers all contexts of the isolate.
const GROUP: i32 = 1;

/// The call that ends the recording, and the text around the profile in V8's response to the call.
const STOP: &str = r#"{"id":4,"method":"Profiler.stop"}"#;
const BEFORE: &str = r#"{"id":4,"result":{"profile":"#;
const AFTER: &str = "}}";

/// A recording of an isolate. It belongs to the isolate's thread, and must be dropped while the
/// isolate is entered and in a handle scope.
pub(crate) struct CpuProfiler {
    // The session refers to the inspector, and is dropped first.
    session: V8InspectorSession,
    _inspector: V8Inspector,
    response: Rc<RefCell<String>>,
}

impl CpuProfiler {
    /// Begins a recording of an isolate that is entered and in a handle scope.
    pub(crate) fn start(isolate: &mut v8::Isolate) -> Self {
        let inspector = V8Inspector::create(isolate, V8InspectorClient::new(Box::new(Passive)));
        let response = Rc::<RefCell<String>>::default();
        let session = inspector.connect(
            GROUP,
            Channel::new(Box::new(LastResponse(Rc::clone(&response)))),
            StringView::empty(),
            V8InspectorClientTrustLevel::FullyTrusted,
        );
        let interval = format!(
            r#"{{"id":2,"method":"Profiler.setSamplingInterval","params":{{"interval":{}}}}}"#,
            INTERVAL.as_micros()
        );
        let calls = [
            r#"{"id":1,"method":"Profiler.enable"}"#,
            &interval,
            r#"{"id":3,"method":"Profiler.start"}"#,
        ];
        calls.into_iter().for_each(|call| dispatch(&session, call));
        Self { session, _inspector: inspector, response }
    }

    /// Ends the recording. Returns the profile in JSON, as the inspector protocol defines it, or
    /// `None` if V8 has recorded none. The isolate must be entered and in a handle scope.
    pub(crate) fn stop(self) -> Option<String> {
        dispatch(&self.session, STOP);
        let mut response = self.response.take();
        let is_profile = response.starts_with(BEFORE) && response.ends_with(AFTER);
        is_profile.then(|| {
            response.truncate(response.len() - AFTER.len());
            response.split_off(BEFORE.len())
        })
    }
}

fn dispatch(session: &V8InspectorSession, call: &str) {
    session.dispatch_protocol_message(StringView::from(call.as_bytes()));
}

/// The embedder's part of V8's inspector interface. A profiler needs none of its functions.
struct Passive;

impl V8InspectorClientImpl for Passive {}

/// A channel that keeps V8's last response.
struct LastResponse(Rc<RefCell<String>>);

impl ChannelImpl for LastResponse {
    fn send_response(&self, _: i32, message: v8::UniquePtr<StringBuffer>) {
        if let Some(message) = message.as_ref() {
            *self.0.borrow_mut() = message.string().to_string();
        }
    }

    fn send_notification(&self, _: v8::UniquePtr<StringBuffer>) {}

    fn flush_protocol_notifications(&self) {}
}

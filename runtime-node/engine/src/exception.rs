//! Describes thrown values for the Worker's log. Callers never see these descriptions.

use std::fmt;

use tenon_proto::failure::Place;
use tenon_proto::revision::Revision;

use super::inspector::agent::Agent;
use super::source_maps;
use super::string::beginning;

/// Maximum length of a text that is taken from a thrown value, in bytes, because the value may be
/// as large as the heap.
const TEXT: usize = 8 * 1024;

/// Receives the exceptions that Workers do not catch. They are also written to the Workers' logs.
/// Only `tenon dev` has such a sink.
pub trait ExceptionSink: fmt::Debug + Send + Sync {
    /// Receives one exception. The caller is the thread of the isolate, in a turn or after it.
    ///
    /// # Arguments
    /// * `request_id` - the id of the request, or an empty string for the start of the Worker and
    ///   for code that runs for no request.
    fn uncaught(&self, revision: &Revision, request_id: &str, exception: &Exception);
}

/// A description of a thrown value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    pub message: String,
    /// The position in the author's file, or in the module if no source map contains it. `None` if
    /// V8 does not know the position.
    pub location: Option<Place>,
    /// JavaScript's `stack`, which begins with the message.
    pub stack: Option<String>,
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.location, &self.stack) {
            (Some(location), Some(stack)) => write!(f, "{location}: {stack}"),
            (Some(location), None) => write!(f, "{location}: {}", self.message),
            (None, Some(stack)) => f.write_str(stack),
            (None, None) => f.write_str(&self.message),
        }
    }
}

impl Exception {
    /// Returns the placeholder for a terminated turn. It is never shown, because the limit is
    /// reported instead.
    pub fn terminated() -> Self {
        Self { message: "terminated".to_owned(), location: None, stack: None }
    }

    /// Describes `value`, which nothing has caught, and reports it to the clients of an inspector.
    /// The caller must be within a turn, because reading `stack` may run the Worker's code.
    pub fn describe<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>) -> Self {
        v8::tc_scope!(let scope, scope);
        let message = v8::Exception::create_message(scope, value);
        if let Some(agent) = Agent::of(scope) {
            agent.report(scope, message, value);
        }
        let text = beginning(scope, message.get(scope), TEXT);
        let file = message.get_script_resource_name(scope).and_then(|name| name.to_string(scope));
        let location =
            file.map(|file| beginning(scope, file, TEXT)).zip(message.get_line_number(scope));
        // V8 returns -1 if it does not know the column.
        let column = message.get_start_column().checked_add(1);
        let location = location.zip(column).and_then(|((file, line), column)| {
            let (line, column) = u32::try_from(line).ok().zip(u32::try_from(column).ok())?;
            Some(source_maps::place(scope, &file, line, column).unwrap_or(Place {
                file,
                line,
                column,
            }))
        });
        let stack = stack(scope, value)
            .map(|stack| beginning(scope, stack, TEXT))
            .filter(|stack| stack.contains("\n    at "));
        Self { message: text.trim_start_matches("Uncaught ").to_owned(), location, stack }
    }
}

fn stack<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
) -> Option<v8::Local<'s, v8::String>> {
    if !value.is_native_error() {
        return None;
    }
    let key = v8::String::new(scope, "stack")?;
    value.to_object(scope)?.get(scope, key.into())?.try_into().ok()
}

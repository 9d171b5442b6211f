//! Runs one turn: delivers an input to an isolate that the thread has entered, runs JavaScript
//! until nothing is left to run, and returns the next step of the invocation.
//!
//! This module treats an isolate as a function from an input to the next [`Step`]. The function
//! never blocks and is the same in every architecture. A Worker of this benchmark awaits one
//! operation at a time, so a step has at most one operation.

use std::time::Duration;

use v8::MapFnTo as _;

use crate::scenario::WorkerId;

/// Number of turns between two runs of V8's own tasks for an isolate. These tasks are housekeeping,
/// and polling for them takes a lock that all isolates share.
const HOUSEKEEPING: u32 = 64;

pub struct Request {
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
}

pub struct Response {
    pub status: u16,
    #[expect(dead_code, reason = "created because a real client would read it")]
    pub body: String,
}

/// The input of a turn.
pub enum Input {
    Request(Request),
    Completed(OperationId, Outcome),
}

/// The result of a turn.
pub enum Step {
    Responded(Response),
    Awaits(OperationId, Operation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationId(u32);

/// An operation that JavaScript awaits.
pub enum Operation {
    Sleep(Duration),
    Fetch { url: String },
}

/// The result of an operation.
pub enum Outcome {
    Slept,
    Fetched { status: u16, body: String },
}

impl Request {
    /// Creates a request as a simple client would send it.
    pub fn to(worker: &WorkerId) -> Self {
        let host = "tenon.localhost:8080";
        let headers = vec![("host", host.to_owned()), ("accept", "*/*".to_owned())];
        Self { method: "GET", url: format!("http://{host}/{worker}"), headers }
    }
}

/// The state in a slot of V8's isolate, where native functions store the next step. This type is
/// `Send`, because threads may share the isolate.
#[derive(Default)]
pub struct Outbox {
    step: Option<Step>,
    operations: u32,
    turns: u32,
}

/// A context in which the Worker has been evaluated, and the functions that call the Worker.
pub struct Realm {
    pub context: v8::Global<v8::Context>,
    pub deliver: v8::Global<v8::Function>,
    pub complete: v8::Global<v8::Function>,
    pub handler: v8::Global<v8::Object>,
    pub env: v8::Global<v8::Object>,
}

/// Runs a turn. The isolate must be entered, and `realm` must be a context of it.
///
/// # Panics
/// Panics if the Worker throws, or if it neither responds nor awaits an operation.
pub fn take(isolate: &mut v8::Isolate, realm: &Realm, input: Input) -> Step {
    {
        v8::scope!(let scope, &mut *isolate);
        let context = v8::Local::new(scope, &realm.context);
        let scope = &mut v8::ContextScope::new(scope, context);
        deliver(scope, realm, input).expect("a Worker of the benchmark threw");
        scope.perform_microtask_checkpoint();
    }
    let outbox: &mut Outbox = isolate.get_slot_mut().expect("the isolate has no outbox");
    outbox.turns += 1;
    let (step, turns) = (outbox.step.take(), outbox.turns);
    if turns % HOUSEKEEPING == 0 {
        while v8::Platform::pump_message_loop(&v8::V8::get_current_platform(), isolate, false) {}
    }
    step.expect("a Worker of the benchmark neither responded nor awaits an operation")
}

fn deliver(scope: &mut v8::PinScope<'_, '_>, realm: &Realm, input: Input) -> Option<()> {
    let undefined = v8::undefined(scope).into();
    match input {
        Input::Request(request) => {
            let mut headers = Vec::with_capacity(2 * request.headers.len());
            for (name, value) in &request.headers {
                headers.push(v8::String::new(scope, name)?.into());
                headers.push(v8::String::new(scope, value)?.into());
            }
            let arguments = [
                v8::Local::new(scope, &realm.handler).into(),
                v8::Local::new(scope, &realm.env).into(),
                v8::String::new(scope, request.method)?.into(),
                v8::String::new(scope, &request.url)?.into(),
                v8::Array::new_with_elements(scope, &headers).into(),
            ];
            v8::Local::new(scope, &realm.deliver).call(scope, undefined, &arguments)?;
        }
        Input::Completed(OperationId(id), outcome) => {
            let id = v8::Integer::new_from_unsigned(scope, id).into();
            let complete = v8::Local::new(scope, &realm.complete);
            match outcome {
                Outcome::Slept => complete.call(scope, undefined, &[id])?,
                Outcome::Fetched { status, body } => {
                    let status = v8::Integer::new_from_unsigned(scope, status.into()).into();
                    let body = v8::String::new(scope, &body)?.into();
                    complete.call(scope, undefined, &[id, status, body])?
                }
            };
        }
    }
    Some(())
}

/// Adds the native functions to `internal`, an object of `js/bootstrap.js`. Returns `None` if V8
/// has thrown an exception.
pub fn install(
    scope: &mut v8::PinScope<'_, '_>,
    internal: v8::Local<'_, v8::Object>,
) -> Option<()> {
    let natives: [(&str, v8::FunctionCallback); 2] =
        [("begin", begin.map_fn_to()), ("respond", respond.map_fn_to())];
    for (name, native) in natives {
        let key = v8::String::new(scope, name)?;
        let function = v8::Function::builder_raw(native).build(scope)?;
        internal.set(scope, key.into(), function.into())?;
    }
    Some(())
}

/// Implements `begin(kind, argument)`, which stores the operation and returns its number.
fn begin(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let operation = match args.get(0).to_rust_string_lossy(scope).as_str() {
        "sleep" => Operation::Sleep(Duration::from_millis(
            args.get(1).uint32_value(scope).unwrap_or_default().into(),
        )),
        _ => Operation::Fetch { url: args.get(1).to_rust_string_lossy(scope) },
    };
    let outbox: &mut Outbox = scope.get_slot_mut().expect("the isolate has no outbox");
    outbox.operations += 1;
    rv.set_uint32(outbox.operations);
    outbox.step = Some(Step::Awaits(OperationId(outbox.operations), operation));
}

/// Implements `respond(status, body)`.
fn respond(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let status = args
        .get(0)
        .uint32_value(scope)
        .and_then(|status| status.try_into().ok())
        .unwrap_or_default();
    let body = args.get(1).to_rust_string_lossy(scope);
    let outbox: &mut Outbox = scope.get_slot_mut().expect("the isolate has no outbox");
    outbox.step = Some(Step::Responded(Response { status, body }));
}

//! One turn: something is delivered into an isolate that the thread is inside of, JavaScript runs until it has nothing
//! more to do, and what it then wants is taken out.
//!
//! An isolate is a function from what is delivered to the next [`Step`] here. It waits for nothing, and does not know
//! its architecture. A Worker of this benchmark waits for one thing at a time, so that a step is one thing too.

use std::time::Duration;

use v8::MapFnTo as _;

use crate::sandbox::World;
use crate::scenario::WorkerId;

/// V8's own tasks for an isolate are housekeeping, and asking for them takes a lock that all isolates have in common:
/// once in so many turns.
const HOUSEKEEPING: u32 = 64;

pub struct Request {
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
}

pub struct Response {
    pub status: u16,
    #[expect(dead_code, reason = "made, as for a client that reads it")]
    pub body: String,
}

/// What is delivered.
pub enum Input {
    Request(Request),
    Completed(OperationId, Outcome),
}

/// What the turn came to.
pub enum Step {
    Responded(Response),
    Awaits(OperationId, Operation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationId(u32);

/// What JavaScript waits for.
pub enum Operation {
    Sleep(Duration),
    Fetch { url: String },
}

/// And what it gets.
pub enum Outcome {
    Slept,
    Fetched { status: u16, body: String },
}

impl Request {
    /// As a browser's simple request comes.
    pub fn to(worker: &WorkerId) -> Self {
        let host = "tenon.localhost:8080";
        let headers = vec![("host", host.to_owned()), ("accept", "*/*".to_owned())];
        Self { method: "GET", url: format!("http://{host}/{worker}"), headers }
    }
}

/// Where JavaScript leaves its step: in a slot of its isolate, all of it `Send`.
#[derive(Default)]
pub struct Outbox {
    step: Option<Step>,
    operations: u32,
    turns: u32,
}

/// Takes the turn. The isolate is entered, and `world` is a context of it.
pub fn take(isolate: &mut v8::Isolate, world: &World, input: Input) -> Step {
    {
        v8::scope!(let scope, &mut *isolate);
        let context = v8::Local::new(scope, &world.context);
        let scope = &mut v8::ContextScope::new(scope, context);
        deliver(scope, world, input).expect("the Workers of the benchmark do not throw");
        scope.perform_microtask_checkpoint();
    }
    let outbox: &mut Outbox = isolate.get_slot_mut().expect("every isolate has one");
    outbox.turns += 1;
    let (step, turns) = (outbox.step.take(), outbox.turns);
    if turns % HOUSEKEEPING == 0 {
        while v8::Platform::pump_message_loop(&v8::V8::get_current_platform(), isolate, false) {}
    }
    step.expect("a Worker of the benchmark responds or waits")
}

fn deliver(scope: &mut v8::PinScope<'_, '_>, world: &World, input: Input) -> Option<()> {
    let undefined = v8::undefined(scope).into();
    match input {
        Input::Request(request) => {
            let mut headers = Vec::with_capacity(2 * request.headers.len());
            for (name, value) in &request.headers {
                headers.push(v8::String::new(scope, name)?.into());
                headers.push(v8::String::new(scope, value)?.into());
            }
            let arguments = [
                v8::Local::new(scope, &world.handler).into(),
                v8::Local::new(scope, &world.env).into(),
                v8::String::new(scope, request.method)?.into(),
                v8::String::new(scope, &request.url)?.into(),
                v8::Array::new_with_elements(scope, &headers).into(),
            ];
            v8::Local::new(scope, &world.deliver).call(scope, undefined, &arguments)?;
        }
        Input::Completed(OperationId(id), outcome) => {
            let id = v8::Integer::new_from_unsigned(scope, id).into();
            let complete = v8::Local::new(scope, &world.complete);
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

/// Gives `internal` of `js/bootstrap.js` its native functions.
pub fn install(scope: &mut v8::PinScope<'_, '_>, internal: v8::Local<'_, v8::Object>) -> Option<()> {
    let natives: [(&str, v8::FunctionCallback); 2] = [("begin", begin.map_fn_to()), ("respond", respond.map_fn_to())];
    for (name, native) in natives {
        let key = v8::String::new(scope, name)?;
        let function = v8::Function::builder_raw(native).build(scope)?;
        internal.set(scope, key.into(), function.into())?;
    }
    Some(())
}

/// `begin(kind, argument)`: the operation's number.
fn begin(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, mut rv: v8::ReturnValue<'_>) {
    let operation = match args.get(0).to_rust_string_lossy(scope).as_str() {
        "sleep" => Operation::Sleep(Duration::from_millis(args.get(1).uint32_value(scope).unwrap_or_default().into())),
        _ => Operation::Fetch { url: args.get(1).to_rust_string_lossy(scope) },
    };
    let outbox: &mut Outbox = scope.get_slot_mut().expect("every isolate has one");
    outbox.operations += 1;
    rv.set_uint32(outbox.operations);
    outbox.step = Some(Step::Awaits(OperationId(outbox.operations), operation));
}

/// `respond(status, body)`.
fn respond(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>) {
    let status = args.get(0).uint32_value(scope).and_then(|status| status.try_into().ok()).unwrap_or_default();
    let body = args.get(1).to_rust_string_lossy(scope);
    let outbox: &mut Outbox = scope.get_slot_mut().expect("every isolate has one");
    outbox.step = Some(Step::Responded(Response { status, body }));
}

//! The native half of `rpc-connect.js`: opens the stream of a session with another Worker.
//!
//! ```text
//!  caller: a pipe ─► request body ─► hooks.rpc of the callee
//!          a stream ◄─ response body ◄┘
//! ```
//!
//! Native code carries the messages and does not read them.

use tenon_engine::byte_stream::ByteStream;
use tenon_engine::ids::InvocationId;
use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::streams::{Body, StreamId};
use tenon_engine::thrown::Thrown;
use tenon_engine::{CallContext, FetchRequest};
use tenon_op::op;
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::Rpc;

use crate::fetch::head::{self, Outcome, Received};
use crate::fetch::outbound::Outbound;
use crate::ops::Promised;
use crate::service::calls::CallResponse;
use crate::service::{STAGE, call, caller_and_callee, message_of, over_limit};

/// The maximum length of the method's name by which logs name a session, in characters.
const MAX_NAME: usize = 128;

/// The remedy that is appended to the failure with which an older version refuses a session.
const UPGRADE_HINT: &str =
    "; if a router or node has an older version, which takes no calls, upgrade it";

/// The status of a response that carries a session.
const OPENED: u16 = 200;

/// Opens a session with the Worker that the revision's binding at index `service` names. Returns a
/// promise of the outcome, as `service_send` does; the body of the response carries the callee's
/// messages.
///
/// # Arguments
/// * `method` - the first method that the session calls, for logs.
/// * `owner`, `stream` - the stream of the caller's messages.
///
/// # Errors
/// Returns a `TypeError` if the invocation has ended, or if there is no such binding or stream.
#[op]
pub(crate) fn rpc_open<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    service: usize,
    method: String,
    (owner, stream): (InvocationId, StreamId),
) -> Result<Promised<'s, Outcome>, Thrown> {
    let state = State::of(scope);
    let (invocation, callee) = caller_and_callee(scope, &state, service)?;
    let messages = state
        .take_stream(owner, stream)
        .ok_or_else(|| Thrown::type_error("The session has ended"))?;
    let rpc = Rpc { method: method.chars().take(MAX_NAME).collect() };
    let request = request(Body::from(messages).into_stream());
    let called = match call(&state, invocation, callee, request, Some(rpc)) {
        Ok(call) => Outbound::of(scope).services.call(call),
        Err(most) => return Ok(over_limit(scope, most)),
    };
    let promise = promise(scope, async move { Ok(called.await) }, move |scope, called| {
        let body = match called {
            Ok(CallResponse { status: OPENED, body, .. }) => body,
            Ok(CallResponse { status, .. }) => {
                let message = format!("the Worker answered with the status {status}");
                return head::failure(scope, STAGE, &message);
            }
            Err(failure) => {
                let mut message = message_of(&failure);
                if failure.code == FailureCode::BadRequest {
                    message.push_str(UPGRADE_HINT);
                }
                return head::failure(scope, STAGE, &message);
            }
        };
        let received = Received {
            status: OPENED,
            reason: bytes::Bytes::new(),
            url: "",
            redirected: false,
            body: body.map(Body::Stream),
            socket: None,
        };
        received.into_value(scope, invocation, std::iter::empty())
    });
    Ok(promise.into())
}

/// Returns the request that opens a session, except for what [`call`] adds.
fn request(messages: ByteStream) -> FetchRequest {
    FetchRequest {
        request_id: String::new(),
        method: String::new(),
        url: String::new(),
        headers: Vec::new(),
        body: Body::Stream(messages),
        entry: None,
        call_context: CallContext::default(),
    }
}

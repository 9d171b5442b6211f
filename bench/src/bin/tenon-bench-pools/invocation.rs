//! A request's path through an isolate: turns, and the operations that it awaits between them.

use crate::host::Host;
use crate::residence::Isolate;
use crate::turn::{Input, Request, Response, Step};

/// Serves a request. The thread is inside the isolate only during turns; the caller decides whether
/// other requests may use the isolate between them.
pub async fn invoke(isolate: &impl Isolate, host: &Host, request: Request) -> Response {
    let mut step = isolate.turn(Input::Request(request));
    loop {
        match step {
            Step::Responded(response) => return response,
            Step::Awaits(id, operation) => {
                let outcome = host.perform(operation).await;
                step = isolate.turn(Input::Completed(id, outcome));
            }
        }
    }
}

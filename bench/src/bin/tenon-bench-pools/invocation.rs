//! A request's way through an isolate: turns, and between them what it waits for.

use crate::outside::Outside;
use crate::residence::Isolate;
use crate::turn::{Input, Request, Response, Step};

/// Takes a request to its response. Only the turns are inside of the isolate; whether others may have it between
/// them is for the caller to say.
pub async fn invoke(isolate: &impl Isolate, outside: &Outside, request: Request) -> Response {
    let mut step = isolate.turn(Input::Request(request));
    loop {
        match step {
            Step::Responded(response) => return response,
            Step::Awaits(id, operation) => {
                let outcome = outside.perform(operation).await;
                step = isolate.turn(Input::Completed(id, outcome));
            }
        }
    }
}

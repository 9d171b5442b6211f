//! What is done with an invocation that has been matched and admitted, whoever asks for it: a client at the front door, or
//! a node or the operator at the inner one.
//!
//! ```text
//!  pick ─► forward ─► reply
//!   ▲         │
//!   └─ retry ◄┘
//! ```

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenon_proto::failure::{Failure, FailureCode, Phase};

use crate::exchange::{self, Reply};
use crate::thread::{Accounts, RouterThread, Permit};
use crate::pick::Picker;
pub(crate) use crate::retry::Again;
use crate::retry::Attempts;
use crate::table::{Table, Worker};
use crate::trace::Trace;
use crate::tunnels::Place;
use crate::upload::Upload;

/// How much later than the node, which enforces the Worker's wall limit, we give up. Covers a cold start.
const SLACK: Duration = Duration::from_secs(2);

/// Room for one more.
///
/// # Errors
/// When there is none.
pub(crate) fn admit(thread: &RouterThread, accounts: &Accounts) -> Result<Permit, Failure> {
    let permit = thread.permit(accounts).ok_or_else(overloaded)?;
    thread.budget.borrow_mut().request(Instant::now());
    Ok(permit)
}

/// Room for a tunnel.
///
/// # Errors
/// When there is none.
pub(crate) fn admit_tunnel(thread: &RouterThread, accounts: &Accounts) -> Result<Place, Failure> {
    thread.tunnels.place(accounts).ok_or_else(overloaded)
}

/// # Arguments
/// * `head` - the framed message, with the body inside unless that streams.
///
/// # Errors
/// When no node would take it, or the one that did has failed.
pub(crate) async fn forward(
    thread: &Rc<RouterThread>,
    view: &Table,
    worker: &Worker,
    head: &Bytes,
    upload: Option<&Rc<Upload>>,
    again: Again,
    trace: &mut Trace,
) -> Result<Reply, Failure> {
    let pool = view.pool(&worker.pool).ok_or_else(no_node)?;
    let mut picker = Picker::new(thread, pool, worker.key, view.nodes_version());
    let mut attempts = Attempts::new(again);
    let patience = worker.wall + SLACK;
    let deadline = tokio::time::Instant::now() + patience;
    let mut link = picker.next().ok_or_else(no_node)?;
    loop {
        trace.shard(link.shard());
        let mishap = match exchange::invoke(&link, head, upload, patience, deadline).await {
            Ok(reply) => {
                if let Some(upload) = upload {
                    upload.settle();
                }
                return Ok(reply);
            }
            Err(mishap) => mishap,
        };
        picker.failed(&link, &mishap);
        let replayable = upload.is_none_or(|upload| upload.is_replayable());
        let again = attempts.may_go_on(&mishap, replayable, &mut thread.budget.borrow_mut(), Instant::now());
        let Some(next) = (if again { picker.next() } else { None }) else { return Err(mishap.into_failure()) };
        thread.metrics.retry(mishap.reason());
        link = next;
    }
}

fn no_node() -> Failure {
    Failure::new(FailureCode::NoNode, Phase::Admission, "No node that could run the Worker can be reached.")
}

/// There is no room for a request, or no memory.
pub(crate) fn overloaded() -> Failure {
    Failure::new(FailureCode::Overloaded, Phase::Admission, "The router has no room for this request now.")
}

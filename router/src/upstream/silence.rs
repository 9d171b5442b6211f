//! Decides what the silence of a shard means for the requests that wait for it.
//!
//! A silent shard ([`pulse`](crate::upstream::pulse)) gets no new requests in any case. The requests that it
//! has are a different matter: a shard answers nothing during a turn, so a stopped shard and a
//! computing one look the same. Therefore:
//!
//! * A **pinned shard of a node with lanes** has short turns only, because heavy Workers run in the
//!   lanes. Its silence suffices: its requests leave it.
//! * On a **lane**, and on the shards of a node without lanes, a turn of 30 seconds is allowed. To
//!   leave it because of its silence would discard a computation and repeat it elsewhere; a request
//!   that always takes that long would never be answered by the first process. So the router probes
//!   the node's other processes ([`Link::answers`]), which costs them no JavaScript: if one sends
//!   anything, the node is alive, and the requests wait. Its supervisor ends a turn that does not
//!   end, and that breaks the connection. If none does, the node is stopped or cut off, and its
//!   requests leave it.
//!
//! ```text
//!  silent ─┬─ pinned, and the node has lanes ──────────────────► leave
//!          └─ else: probe the others ─────┬─ no answer ─────────► leave
//!                   ▲                     └─ an answer ─► wait ─┐
//!                   └──────────── after a second ───────────────┘
//! ```
//!
//! A request that leaves is repeated elsewhere. This is allowed only if it is idempotent or has not
//! been sent, and only if another node takes it. Any other request keeps waiting on its stream
//! until its deadline: a node that was stopped and resumes answers it.
//!
//! Belongs to one thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{FutureExt as _, LocalBoxFuture, Shared};
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::table::Table;
use crate::thread::RouterThread;
use crate::upstream::link::Link;
use crate::upstream::pick::Target;

/// The maximum number of a node's processes that are probed. Shards come first: their turns are
/// short.
const ASKED: usize = 4;

/// How long the answer of a node is valid.
const ANSWER_LASTS: Duration = Duration::from_secs(1);

/// The last probe of whether a node answers, shared by all requests that wait for the same shard.
#[derive(Default)]
pub(crate) struct Inquiry(RefCell<Option<(Instant, Shared<LocalBoxFuture<'static, bool>>)>>);

/// Waits until the requests that wait for this target should leave it.
pub(crate) async fn lost(thread: &RouterThread, view: &Table, target: &Target) {
    loop {
        target.link.silence().await;
        if target.turns_are_short || !node_answers(thread, view, &target.link).await {
            return;
        }
        tokio::time::sleep(ANSWER_LASTS).await;
    }
}

/// Returns whether any other process of the node answers.
pub(crate) async fn node_answers(thread: &RouterThread, view: &Table, silent: &Link) -> bool {
    let answer = {
        let mut asked = silent.inquiry.0.borrow_mut();
        match &*asked {
            Some((when, answer)) if when.elapsed() < ANSWER_LASTS => answer.clone(),
            _ => {
                let answer = any_answers(others(thread, view, silent)).boxed_local().shared();
                *asked = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    };
    answer.await
}

fn others(thread: &RouterThread, view: &Table, silent: &Link) -> Vec<Rc<Link>> {
    let node = &silent.shard().node;
    let others = view.processes_of(node).filter(|shard| *shard != silent.shard());
    let links = others.map(|shard| thread.link(shard)).filter(|link| !link.is_passed_by());
    links.take(ASKED).collect()
}

async fn any_answers(links: Vec<Rc<Link>>) -> bool {
    let mut answers: FuturesUnordered<_> = links.iter().map(Link::answers).collect();
    while let Some(answers) = answers.next().await {
        if answers {
            return true;
        }
    }
    false
}

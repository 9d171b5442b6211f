//! Decides what the silence of a shard means for the requests that wait for it.
//!
//! A silent shard ([`pulse`](super::pulse)) gets no new requests. For the requests that the shard
//! already has, silence is ambiguous: a shard answers nothing during a turn, so a stopped shard and
//! a busy one look the same. Therefore:
//!
//! * A **pinned shard of a node with lanes** has short turns only, because heavy Workers run in the
//!   lanes. Its requests leave it as soon as it is silent.
//! * On a **lane**, and on the shards of a node without lanes, a turn of 30 seconds is allowed. If
//!   requests left because of the silence, a computation would be discarded and repeated elsewhere;
//!   a request that always takes that long would never be answered by its first process. The router
//!   therefore probes the node's other processes ([`Link::answers`]), which costs them no
//!   JavaScript. If a process sends anything, the node is alive, and the requests wait. If a turn
//!   does not end, the node's supervisor ends its process, which breaks the connection. If no
//!   process sends anything, the node is stopped or cut off, and its requests leave it.
//!
//! ```text
//!  silent ─┬─ pinned, and the node has lanes ──────────────────► leave
//!          └─ else: probe the others ─────┬─ no answer ─────────► leave
//!                   ▲                     └─ an answer ─► wait ─┐
//!                   └──────────── after a second ───────────────┘
//! ```
//!
//! A request that leaves is repeated elsewhere. A request may leave only if it is idempotent or has
//! not been sent, and only if another node takes requests. Any other request keeps waiting on its
//! stream until its deadline, because a stopped node that resumes answers the request.
//!
//! The functions run on one thread.

use std::rc::Rc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tenon_table::Table;

use crate::upstream::link::Link;
use crate::upstream::links::Links;
use crate::upstream::pick::Target;
use crate::upstream::shared_probe::RESULT_LIFETIME;

/// The maximum number of a node's processes that are probed. Shards come first: their turns are
/// short.
const MAX_PROBED: usize = 4;

/// Waits until the requests that wait for this target should leave it.
pub(crate) async fn until_lost(links: &Links, view: &Table, target: &Target) {
    loop {
        target.link.until_silent().await;
        if target.turns_are_short || !node_answers(links, view, &target.link).await {
            return;
        }
        tokio::time::sleep(RESULT_LIFETIME).await;
    }
}

/// Returns whether another process of the node answers. At most [`MAX_PROBED`] of those that are
/// not avoided are probed.
pub(crate) async fn node_answers(links: &Links, view: &Table, silent: &Link) -> bool {
    silent.probe.result(|| any_answers(others(links, view, silent))).await
}

fn others(links: &Links, view: &Table, silent: &Link) -> Vec<Rc<Link>> {
    let node = &silent.shard().node;
    let others = view.processes_of(node).filter(|shard| *shard != silent.shard());
    others.map(|shard| links.to(shard)).filter(|link| !link.is_avoided()).take(MAX_PROBED).collect()
}

async fn any_answers(links: Vec<Rc<Link>>) -> bool {
    let mut answers: FuturesUnordered<_> = links.iter().map(Link::answers).collect();
    while let Some(has_answered) = answers.next().await {
        if has_answered {
            return true;
        }
    }
    false
}

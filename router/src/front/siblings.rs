//! Hands a client's connection to the thread of another shard of the node, if that shard runs the
//! Worker of the connection's first request. The requests of the connection then need no hop.
//!
//! ```text
//!  accept ─► first bytes, peeked at ─► whose? ─┬─ a sibling's ─► give ─► its thread
//!                                              └─ any other ────► serve here
//! ```
//!
//! The bytes are only peeked at, so the other thread reads the connection from its beginning, and
//! picks a shard itself. A wrong guess therefore costs nothing but a hop. A connection is handed
//! over at most once, and only before it has been read: TLS and the PROXY protocol have state in
//! the process that accepted the connection.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::task::{Poll, ready};
use std::time::Instant;

use memchr::memmem;
use tenon_proto::id::ShardId;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;

use crate::thread::RouterThread;

/// The maximum length of the first bytes that are peeked at. Longer heads are served where they
/// arrive.
const FIRST: usize = 4 * 1024;

/// Whether a connection may be handed to another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handover {
    /// The kernel has chosen this thread, so another thread may suit the connection better.
    Allowed,
    /// This thread has to serve the connection.
    Forbidden,
}

/// Waits for the first bytes of a connection, and hands the connection over if a sibling runs the
/// requested Worker. Returns the connection if this thread has to serve it.
///
/// # Errors
/// Fails if the connection is broken.
pub(super) async fn hand_over(
    thread: &RouterThread,
    stream: TcpStream,
) -> io::Result<Option<TcpStream>> {
    let own = thread.colocated.as_ref();
    let Some(siblings) = own.and_then(|own| own.siblings.as_ref()) else { return Ok(Some(stream)) };
    let destination = poll_fn(|cx| {
        let mut space = [const { MaybeUninit::uninit() }; FIRST];
        let mut first = ReadBuf::uninit(&mut space);
        ready!(stream.poll_peek(cx, &mut first))?;
        Poll::Ready(io::Result::Ok(destination(thread, first.filled())))
    });
    let Some(shard) = destination.await? else { return Ok(Some(stream)) };
    match siblings.give(shard, stream.into_std()?) {
        Ok(()) => Ok(None),
        Err(stream) => TcpStream::from_std(stream).map(Some),
    }
}

/// Returns the shard that runs the Worker of a request, if it is another shard of this node, the
/// Worker is not in a lane, and this thread is not leaving.
fn destination(thread: &RouterThread, first: &[u8]) -> Option<ShardId> {
    let own = thread.colocated.as_ref()?;
    let (host, path) = host_and_path(first)?;
    let view = thread.view();
    let worker = view.route(&host, path)?;
    let pool = view.pool(&worker.pool)?;
    let shard = &pool.shards[pool.ring.first(worker.key)?.get()];
    let is_in_lane =
        || thread.upstream.placements.borrow().is_in_lane(&worker.digest, Instant::now());
    let is_sibling = shard.node == own.node && shard.id != own.id;
    (is_sibling && !thread.leaving.get() && !is_in_lane()).then_some(shard.id)
}

/// Returns the host and the path of a complete head of HTTP/1.1.
fn host_and_path(first: &[u8]) -> Option<(String, &str)> {
    let end = memmem::find(first, b"\r\n\r\n")?;
    let mut lines = std::str::from_utf8(&first[..end]).ok()?.split("\r\n");
    let mut request = lines.next()?.split(' ').skip(1);
    let (target, version) = (request.next()?, request.next()?);
    if version != "HTTP/1.1" || !target.starts_with('/') {
        return None;
    }
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let (_, host) = fields.find(|(name, _)| name.eq_ignore_ascii_case("host"))?;
    let host = host.trim();
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name =
        host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
    Some((name.to_ascii_lowercase(), target.split(['?', '#']).next().unwrap_or(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_head_of_http1_names_a_host_and_a_path() {
        let found = |head: &'static str| host_and_path(head.as_bytes());
        assert_eq!(
            found("GET /a/b?c=d HTTP/1.1\r\naccept: */*\r\nHost: Shop.Example:8080\r\n\r\n"),
            Some(("shop.example".to_owned(), "/a/b"))
        );
        assert_eq!(
            found("POST / HTTP/1.1\r\nhost: [::1]:80\r\n\r\nbody: x\r\n\r\n"),
            Some(("[::1]".to_owned(), "/"))
        );
        for other in [
            "",
            "GET / HTTP/1.1\r\nhost: shop\r\n",
            "GET / HTTP/1.0\r\nhost: shop\r\n\r\n",
            "GET http://shop/ HTTP/1.1\r\nhost: shop\r\n\r\n",
            "GET / HTTP/1.1\r\naccept: */*\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            assert_eq!(found(other), None, "{other:?}");
        }
        assert_eq!(host_and_path(b"GET /\xff HTTP/1.1\r\nhost: shop\r\n\r\n"), None);
    }
}

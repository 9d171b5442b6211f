//! Gives fuzz targets access to functions that are otherwise private.

use std::net::IpAddr;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Method, Response};
use tenon_clients::head::{Ahead, Messages};
use tenon_proto::failure::Failure;
use tenon_proto::invoke::HeadWriter;

use crate::front::error;
use crate::front::fast_path::{reference, request};
use crate::front::forwarded::{Sender, TrustedProxies};
use crate::front::handshake::Handshake;
use crate::front::headers::{self, Edge};
use crate::front::scheme::Scheme;
use crate::front::target::Target;

/// The head of a request as a server has read it.
pub use crate::front::fast_path::reference::Facts;
/// The `:protocol` of an extended CONNECT in HTTP/2.
pub use hyper::ext::Protocol;

/// Returns the head that a node receives for a client's request, as one message.
///
/// # Errors
/// Fails if no Worker can serve the request.
pub fn head(parts: &Parts, peer: IpAddr) -> Result<Bytes, Failure> {
    let handshake = Handshake::of(parts, false)?;
    let method = if handshake.is_some() { &Method::GET } else { &parts.method };
    let target = Target::of(parts, method)?;
    let request_id = headers::valid_request_id(&parts.headers).unwrap_or("made-here");
    let sender = Sender::of(peer, Scheme::Http, &parts.headers, &TrustedProxies::default());
    let url = ["http://", target.authority(), target.path_and_query()];
    let mut head = HeadWriter::new("namespace/name", &[7; 32], request_id, method.as_str(), url);
    let replaced =
        |name: &HeaderName| handshake.as_ref().is_some_and(|handshake| handshake.replaces(name));
    let host = target.authority();
    let edge = Edge { sender, host, requested_host: host, peer, request_id };
    headers::write(&mut head, &parts.headers, replaced, &edge);
    handshake.as_ref().inspect(|handshake| handshake.write(&mut head, Default::default));
    Ok(head.finish(b"", handshake.is_some()))
}

/// Returns the response that a client receives for a failure.
pub fn answer(failure: &Failure, request: &Parts) -> Response<Bytes> {
    error::response(failure, request, "made-here")
}

/// Returns the first head of these bytes, and what the fast path reads from it, if the fast path
/// accepts it.
pub fn plain_request(bytes: &[u8]) -> Option<(&[u8], Facts)> {
    let Ahead::Head(len) = Messages::default().look_ahead(bytes) else { return None };
    let head = &bytes[..len];
    request::parse(head).map(|request| (head, reference::facts(&request)))
}

/// Returns what hyper reads from a request without a body, or `None` if hyper refuses the request.
pub fn read_by_hyper(head: &[u8]) -> Option<Facts> {
    reference::read(head)
}

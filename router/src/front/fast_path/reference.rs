//! hyper's HTTP/1 server, to which tests and fuzz targets compare the fast path.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::pin;

use futures::FutureExt as _;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The number of bytes that a connection holds in each direction.
const CAPACITY: usize = 1 << 20;

/// The head of a request as a server has read it: the method, target and version, and the names and
/// values of the headers.
pub type Facts = ([String; 3], Vec<(String, Vec<u8>)>);

/// Returns what a server has read.
pub(crate) fn facts<B>(request: &Request<B>) -> Facts {
    let line = [
        request.method().to_string(),
        request.uri().to_string(),
        format!("{:?}", request.version()),
    ];
    let headers = request.headers().iter();
    (line, headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect())
}

/// Returns what hyper reads from a request, or `None` if hyper refuses the request.
pub(crate) fn read(head: &[u8]) -> Option<Facts> {
    let read = RefCell::new(None);
    serve(head, |request| {
        assert!(request.body().is_end_stream(), "hyper expects a body");
        assert!(read.replace(Some(facts(&request))).is_none(), "hyper has read two requests");
        Response::new(String::new())
    });
    read.into_inner()
}

/// Serves the requests in `head`, and returns what hyper writes.
pub(crate) fn serve<B>(head: &[u8], respond: impl Fn(Request<Incoming>) -> Response<B>) -> Vec<u8>
where
    B: Body + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let (mut client, server) = tokio::io::duplex(CAPACITY);
    let sent = client.write_all(head).now_or_never();
    sent.expect("the bytes exceed the capacity").expect("the connection is broken");
    let service = service_fn(|request| {
        let response = respond(request);
        async { Ok::<_, Infallible>(response) }
    });
    {
        let mut connection = http1::Builder::new();
        connection.header_read_timeout(None);
        // The connection waits for another request, or fails.
        let _ = pin!(connection.serve_connection(TokioIo::new(server), service)).now_or_never();
    }
    let mut written = Vec::new();
    let read = client.read_to_end(&mut written).now_or_never();
    read.expect("the connection is open").expect("the connection is broken");
    written
}

//! Serves HTTP/3: the connections of a thread's endpoint, and their requests, which take the same
//! path as those of the other versions of HTTP.
//!
//! ```text
//!  attempt ─► memory for the client? ─► handshake ─► request, request, … ─► GOAWAY ─► close
//!                └─ no: refused                          │
//!                                                        └─► path ─► response
//! ```
//!
//! A client keeps the address with which it has completed the handshake, even if it changes its
//! address later. A client can spoof the source address of its datagrams, and the router learns
//! only afterwards whether the client receives what is sent there. If the router used a later
//! address, a Worker could see requests from an address that their sender does not have.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use http::response::Parts;
use http::{HeaderValue, Method, Response, header};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt as _;
use tenon_clients::order::Order;
use tenon_clients::quota::Hold;
use tenon_http3::{Arrival, Attempt, Closing, Connection, Endpoint, Reply, StreamError, Window};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::Instant;

use crate::front::body::ClientBody;
use crate::front::connection::{SEND_TIMEOUT, Stage, respond, until_ordered_to_end, until_stage};
use crate::front::path::Caller;
use crate::front::response::{WrittenResponse, has_body};
use crate::front::scheme::Scheme;
use crate::front::{ConnectionCount, connection};
use crate::thread::RouterThread;

/// The timeout for a client to send the head of a request, once the request has begun.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a piece of a response, in bytes. A client must take each piece within
/// [`SEND_TIMEOUT`], and so at least 273 bytes per second.
const PIECE: usize = 16 * 1024;

/// The maximum number of canceled requests of a connection. Each answered request makes up for one
/// that was canceled before. A browser cancels all requests of a page that its user leaves.
const MAX_CANCELED: u32 = 2 * tenon_http3::STREAMS;

/// The minimum time between announcing the end of a connection and ending it. Requests that the
/// client sent before it received the announcement arrive in this time.
const LAST_REQUESTS: Duration = Duration::from_millis(500);

/// Serves the clients of an endpoint until the thread stops accepting connections, and then refuses
/// further clients.
pub(super) async fn serve(
    thread: Rc<RouterThread>,
    endpoint: Rc<Endpoint>,
    stage_rx: watch::Receiver<Stage>,
) {
    let mut closing_rx = stage_rx.clone();
    {
        let mut closing = pin!(closing_rx.wait_for(|stage| *stage >= Stage::Closing));
        loop {
            let attempt = tokio::select! {
                biased;
                _ = closing.as_mut() => break,
                attempt = endpoint.attempt() => attempt,
            };
            let Some(attempt) = attempt else { return };
            admit(&thread, attempt, &stage_rx);
        }
    }
    // The drain waits for the receivers of the stage, each of which stands for a connection.
    drop((closing_rx, stage_rx));
    while let Some(attempt) = endpoint.attempt().await {
        attempt.refuse();
    }
}

/// Serves a client, unless there is no memory for its connection.
fn admit(thread: &Rc<RouterThread>, attempt: Attempt, stage_rx: &watch::Receiver<Stage>) {
    let address = attempt.address();
    // A load balancer that names its clients with the PROXY protocol cannot do so over UDP.
    let admitted = match thread.shared.trusted_proxies.use_proxy_protocol(address) {
        true => None,
        false => thread.clients.admit(address, tenon_http3::MEMORY),
    };
    let Some(admitted) = admitted else { return attempt.refuse() };
    let (thread, stage_rx) = (thread.clone(), stage_rx.clone());
    let gauge = ConnectionCount::new(&thread);
    spawn_local(async move {
        let client = admitted.client().clone();
        let accepted = tokio::select! {
            biased;
            accepted = attempt.accept(&client) => accepted,
            () = until_ordered_to_end(&client) => None,
        };
        if let Some(connection) = accepted {
            let accounts = thread.accounts(address);
            let caller = Rc::new(Caller { address, scheme: Scheme::Https, client, accounts });
            if let Err(error) = serve_connection(thread, connection, caller, stage_rx).await {
                tracing::debug!(%error, peer = %address, "lost a connection");
            }
        }
        drop((gauge, admitted));
    });
}

/// Serves the requests of a connection until it ends.
async fn serve_connection(
    thread: Rc<RouterThread>,
    mut connection: Connection,
    caller: Rc<Caller>,
    stage_rx: watch::Receiver<Stage>,
) -> connection::Served {
    let client = caller.client.clone();
    let has_request = Cell::new(false);
    let mut requests = JoinSet::new();
    let mut canceled = Canceled::default();
    let mut leaving = pin!(until_stage(&stage_rx, Stage::Leaving, &has_request));
    // The time at which the connection ends if it has no requests, once its end has been announced.
    let mut end = None;
    loop {
        let last = async {
            match end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => pending().await,
            }
        };
        let arrival = tokio::select! {
            biased;
            order = client.orders.next() => match order {
                Order::End => break,
                Order::Rest if requests.is_empty() && client.activity.may_rest() => {
                    client.activity.set_resting(true);
                    client.rest();
                    continue;
                }
                Order::Rest => continue,
            },
            Some(ended) = requests.join_next() => {
                if requests.is_empty() {
                    connection.window().narrow();
                }
                if canceled.count(!matches!(ended, Ok(Ended::Early))) {
                    connection.close(Closing::ExcessiveLoad);
                    break;
                }
                continue;
            }
            () = leaving.as_mut(), if end.is_none() => {
                connection.go_away().await?;
                let wait = LAST_REQUESTS.max(3 * connection.round_trip()).min(SEND_TIMEOUT);
                end = Some(Instant::now() + wait);
                continue;
            }
            () = last, if requests.is_empty() => break,
            arrival = connection.next() => arrival?,
        };
        let Some(arrival) = arrival else { break };
        has_request.set(true);
        client.activity.set_resting(false);
        // Without memory, the stream ends when the arrival is dropped.
        let has_memory = client.hold(tenon_http3::CONNECTION);
        if let Some(memory) = client.memory(tenon_http3::STREAM).filter(|_| has_memory) {
            let window = connection.window().clone();
            let request = serve_request(thread.clone(), caller.clone(), window, arrival, memory);
            requests.spawn_local(request);
        }
    }
    connection.close(Closing::Regular);
    Ok(())
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Answered,
    /// The node has not completed its response.
    Truncated,
    /// The client has canceled the request, was too slow, or has broken the protocol.
    Early,
}

/// Limits how many requests of a connection the client may begin without taking the answer. A
/// client could otherwise begin and cancel any number of requests without exceeding the limit of
/// concurrent requests.
#[derive(Debug, Default)]
struct Canceled(u32);

impl Canceled {
    /// Counts a request that has ended. Returns whether the client has exceeded the limit.
    fn count(&mut self, is_answered: bool) -> bool {
        self.0 = if is_answered { self.0.saturating_sub(1) } else { self.0 + 1 };
        self.0 > MAX_CANCELED
    }
}

/// Answers one request.
async fn serve_request(
    thread: Rc<RouterThread>,
    caller: Rc<Caller>,
    window: Rc<Window>,
    arrival: Arrival,
    _memory: Hold,
) -> Ended {
    let answered = async {
        let head = tokio::time::timeout(HEAD_TIMEOUT, arrival.head()).await;
        let (request, mut reply) = head.map_err(|_| StreamError::TooSlow)??;
        let is_head = *request.method() == Method::HEAD;
        let request = request.map(|body| Some(ClientBody::from(body)));
        // Dropping the request tells the node that the client has disconnected.
        let response = tokio::select! {
            biased;
            () = reply.stopped() => return Ok(Ended::Early),
            response = respond(&thread, &caller, request) => response,
        };
        let Ok::<_, Infallible>(response) = response;
        send(&thread, &window, reply, response, is_head).await
    };
    let answered: Result<Ended, StreamError> = answered.await;
    answered.unwrap_or_else(|error| {
        tracing::debug!(%error, "a request has ended early");
        Ended::Early
    })
}

/// Sends a response.
async fn send(
    thread: &RouterThread,
    window: &Window,
    mut reply: Reply,
    response: Response<WrittenResponse>,
    is_head: bool,
) -> Result<Ended, StreamError> {
    let (mut parts, mut body) = response.into_parts();
    complete(&mut parts, is_head, body.size_hint().exact(), || {
        let date = thread.date.borrow_mut().at(SystemTime::now());
        HeaderValue::from_bytes(&date).expect("a date is not valid in a header")
    });
    reply.head(Response::from_parts(parts, ()), SEND_TIMEOUT).await?;
    // The request stays in flight until the client has received the response: the end of the
    // connection would cut the response off.
    let ended = send_body(window, &mut reply, &mut body).await?;
    body.wait_for_client();
    match ended {
        Ended::Answered => reply.finish(SEND_TIMEOUT).await?,
        Ended::Truncated | Ended::Early => reply.abort(),
    }
    Ok(ended)
}

/// Sends a body, until it is complete or cannot be completed.
async fn send_body(
    window: &Window,
    reply: &mut Reply,
    body: &mut WrittenResponse,
) -> Result<Ended, StreamError> {
    while !body.is_end_stream() {
        let frame = tokio::select! {
            biased;
            () = reply.stopped() => return Ok(Ended::Early),
            frame = body.frame() => frame,
        };
        match frame.map(|frame| frame.map(Frame::into_data)) {
            None => break,
            Some(Ok(Ok(mut data))) => {
                body.wait_for_client();
                while !data.is_empty() {
                    let piece = data.split_to(data.len().min(PIECE));
                    reply.data(piece, SEND_TIMEOUT, || window.widen()).await?;
                }
            }
            Some(Ok(Err(frame))) => {
                if let Ok(trailers) = frame.into_trailers() {
                    reply.trailers(trailers, SEND_TIMEOUT).await?;
                }
            }
            Some(Err(_)) => return Ok(Ended::Truncated),
        }
    }
    Ok(Ended::Answered)
}

/// Adds the headers that hyper adds to the responses of the other versions of HTTP.
///
/// # Arguments
/// * `length` - the length of the body, in bytes, if it is known.
fn complete(
    parts: &mut Parts,
    is_head: bool,
    length: Option<u64>,
    date: impl FnOnce() -> HeaderValue,
) {
    if let Some(length) = length.filter(|_| has_body(parts.status, is_head)) {
        parts.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    parts.headers.entry(header::DATE).or_insert_with(date);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(
        status: u16,
        is_head: bool,
        stated: Option<&'static str>,
        length: Option<u64>,
    ) -> Option<String> {
        let mut parts = Response::builder().status(status).body(()).unwrap().into_parts().0;
        let stated = stated.map(HeaderValue::from_static);
        stated.map(|stated| parts.headers.insert(header::CONTENT_LENGTH, stated));
        complete(&mut parts, is_head, length, || HeaderValue::from_static("now"));
        assert_eq!(parts.headers[header::DATE], "now");
        parts.headers.get(header::CONTENT_LENGTH).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_response_states_the_length_of_its_body_if_it_is_known() {
        assert_eq!(completed(200, false, None, Some(5)).as_deref(), Some("5"));
        assert_eq!(completed(200, false, None, Some(0)).as_deref(), Some("0"));
        assert_eq!(completed(200, false, Some("7"), None).as_deref(), Some("7"));
        assert_eq!(completed(200, false, None, None), None);
    }

    #[test]
    fn a_client_may_cancel_requests_if_it_takes_other_answers() {
        let mut canceled = Canceled::default();
        assert!((0..MAX_CANCELED).all(|_| !canceled.count(false)));
        assert!(!canceled.count(true) && !canceled.count(false));
        assert!(canceled.count(false));
        let mut mixed = Canceled::default();
        assert!((0..10 * MAX_CANCELED).all(|i| !mixed.count(i % 2 == 0)));
    }

    #[test]
    fn a_response_without_a_body_keeps_the_length_of_the_response_to_get() {
        assert_eq!(completed(200, true, Some("7"), Some(0)).as_deref(), Some("7"));
        assert_eq!(completed(304, false, Some("7"), Some(0)).as_deref(), Some("7"));
        assert_eq!(completed(204, false, None, Some(0)), None);
    }
}

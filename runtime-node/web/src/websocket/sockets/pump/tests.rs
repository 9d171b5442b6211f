//! Tests of sockets without an isolate, in paused time.

use std::future::{pending, poll_fn};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tenon_engine::byte_stream::{ByteStream, StreamError};
use tenon_engine::log_rate::LogRates;
use tenon_engine::pipe;
use tenon_proto::id::WorkerId;
use tenon_proto::revision::Revision;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::coding::Data;

use super::super::keepalive::PING;
use super::event::ABNORMAL;
use super::*;

fn state() -> Rc<State> {
    let worker = WorkerId::new("default", "socket");
    let log_rate = LogRates::default().of(&worker, Instant::now());
    let revision = Revision::with_modules(worker, []);
    let digest = revision.digest();
    State::new(Rc::new(revision), digest, BufferBudget::new(1 << 20), log_rate, Rc::default())
}

/// Returns a Worker's socket, and the pipe that its client reads.
fn socket(state: &Rc<State>, incoming: ByteStream) -> (Pump, Rc<SendQueue>, pipe::Reader) {
    let (writer, reader) = pipe::pipe();
    let queue = Rc::<SendQueue>::default();
    let owner = InvocationId::from_number(1.0);
    let wire = Wire::of_streams(incoming, writer);
    (
        Pump::new(wire, Role::Server, Rc::clone(&queue), pending().boxed_local(), (owner, state)),
        queue,
        reader,
    )
}

fn masked(first: u8, payload: &[u8]) -> Bytes {
    [&[first, 0x80 | payload.len() as u8, 0, 0, 0, 0], payload].concat().into()
}

/// Reads everything that the client receives.
async fn read_all(mut reader: pipe::Reader) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(Ok(piece)) = reader.next().await {
        all.extend_from_slice(&piece);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_vanished_client_is_pinged_and_disconnected() {
    let state = state();
    let (mut pump, _queue, reader) = socket(&state, stream::pending().boxed_local());
    let event = timeout(Duration::from_secs(300), poll_fn(|cx| pump.poll(cx)))
        .await
        .expect("the pump did not report the unresponsive peer");
    assert!(
        matches!(event, Event::Closed(Closed { code: ABNORMAL, has_failed: true, .. })),
        "{event:?}"
    );
    drop(pump);
    assert!(read_all(reader).await.starts_with(b"\x89\x0cstill there?"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_pings_stays_connected() {
    let state = state();
    let answers = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(40)).await;
        Some((Ok::<_, StreamError>(masked(0x8a, PING)), ()))
    });
    let (mut pump, _queue, _reader) = socket(&state, answers.boxed_local());
    let event = timeout(Duration::from_secs(3_600), poll_fn(|cx| pump.poll(cx))).await;
    assert!(event.is_err(), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected() {
    let state = state();
    let (mut pump, queue, reader) = socket(&state, stream::pending().boxed_local());
    let bytes = Bytes::from(vec![7; 1 << 20]);
    let charge = state.buffers.charge(1).unwrap();
    queue.push(SendEntry::Message(Message { kind: Data::Binary, bytes, _charge: charge }));
    let event = timeout(Duration::from_secs(300), poll_fn(|cx| pump.poll(cx)))
        .await
        .expect("the pump did not report the unresponsive peer");
    assert!(
        matches!(event, Event::Closed(Closed { code: ABNORMAL, has_failed: true, .. })),
        "{event:?}"
    );
    drop(pump);
    assert!(
        read_all(reader).await.len() < 128 << 10,
        "the network has accepted more bytes than its buffer can hold"
    );
}

#[tokio::test(start_paused = true)]
async fn pings_are_read_only_as_fast_as_their_answers_are_sent() {
    let state = state();
    let taken = Rc::new(std::cell::Cell::new(0));
    let count = Rc::clone(&taken);
    let pings = stream::repeat_with(move || {
        count.set(count.get() + 1);
        Ok::<_, StreamError>(masked(0x89, &[7; 125]))
    });
    let (mut pump, _queue, reader) = socket(&state, pings.boxed_local());
    let event = timeout(Duration::from_secs(300), poll_fn(|cx| pump.poll(cx)))
        .await
        .expect("the pump did not report the unresponsive peer");
    assert!(matches!(event, Event::Closed(_)), "{event:?}");
    let answer = 2 + 125;
    assert!(
        taken.get() <= 2 + (64 * 1024 + FRAGMENT) / answer,
        "{} pings have been read",
        taken.get()
    );
    drop((pump, reader));
}

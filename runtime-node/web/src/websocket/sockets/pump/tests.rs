//! Tests of sockets without an isolate, while tokio's clock is paused.

use std::future::{pending, poll_fn};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tenon_egress::handshake::{Deflate, Offer};
use tenon_engine::byte_stream::{ByteStream, StreamError};
use tenon_engine::invocation::{Event as Delivered, Invocation};
use tenon_engine::log_rate::LogRates;
use tenon_engine::pipe;
use tenon_proto::id::WorkerId;
use tenon_proto::revision::Revision;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::coding::Data;

use super::super::keepalive::PING;
use super::super::link::Wire;
use super::event::ABNORMAL;
use super::*;

fn state() -> Rc<State> {
    let worker = WorkerId::new("default", "socket");
    let log_rate = LogRates::default().of(&worker, Instant::now());
    let revision = Revision::with_modules(worker, []);
    let digest = revision.digest();
    State::new(Rc::new(revision), digest, BufferBudget::new(1 << 20), log_rate, None, Rc::default())
}

/// Returns the pump and the queue of a Worker's socket, and the pipe that its client reads.
fn socket(state: &Rc<State>, incoming: ByteStream) -> (Pump, Rc<SendQueue>, pipe::Reader) {
    socket_of(state, incoming, InvocationId::from_number(1.0), None)
}

/// Returns the same for a socket of the invocation `owner`, whose messages are compressed if there
/// is an agreement.
fn socket_of(
    state: &Rc<State>,
    incoming: ByteStream,
    owner: InvocationId,
    deflate: Option<Deflate>,
) -> (Pump, Rc<SendQueue>, pipe::Reader) {
    let (writer, reader) = pipe::pipe();
    let queue = Rc::<SendQueue>::default();
    let socket =
        UnacceptedSocket { wire: Wire::of_streams(incoming, writer), role: Role::Server, deflate };
    let pump = Pump::new(socket, Rc::clone(&queue), pending().boxed_local(), (owner, state));
    (pump, queue, reader)
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

#[tokio::test(start_paused = true)]
async fn messages_are_compressed_only_while_the_invocation_has_cpu_time_to_spare() {
    let state = state();
    let cpu = Duration::from_millis(state.revision.limits.cpu_ms.into());
    let deflate = Offer::read_all([&b"permessage-deflate"[..]].into_iter())[0].accept();
    for (spent, first) in [(Duration::ZERO, 0xc2), (cpu * 2 / 3, 0x82)] {
        let invocation = Invocation::new(Delivered::Fetch, "compressed".to_owned(), cpu, 0);
        let owner = state.begin(invocation);
        state.charge(Some(owner), spent);
        let (mut pump, queue, reader) =
            socket_of(&state, stream::pending().boxed_local(), owner, Some(deflate));
        let charge = state.buffers.charge(1).unwrap();
        let bytes = Bytes::from(vec![7; 1000]);
        queue.push(SendEntry::Message(Message { kind: Data::Binary, bytes, _charge: charge }));
        let poll = futures::poll!(poll_fn(|cx| pump.poll(cx)));
        assert!(poll.is_pending(), "{poll:?}");
        drop(pump);
        assert_eq!(read_all(reader).await[0], first, "after {spent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_compressed_with_pauses_for_other_tasks() {
    let state = state();
    let cpu = Duration::from_secs(3_600);
    let owner = state.begin(Invocation::new(Delivered::Fetch, "paused".to_owned(), cpu, 0));
    let deflate = Offer::read_all([&b"permessage-deflate"[..]].into_iter())[0].accept();
    let (mut pump, queue, reader) =
        socket_of(&state, stream::pending().boxed_local(), owner, Some(deflate));
    let charge = state.buffers.charge(1).unwrap();
    let bytes = Bytes::from(vec![7; 4 << 20]);
    queue.push(SendEntry::Message(Message { kind: Data::Binary, bytes, _charge: charge }));
    let mut polls = 0;
    while queue.buffered() > 0 {
        let poll = futures::poll!(poll_fn(|cx| pump.poll(cx)));
        assert!(poll.is_pending(), "{poll:?}");
        polls += 1;
    }
    let pieces = (4 << 20) / FRAGMENT;
    assert!(polls >= pieces / MAX_PIECES as usize, "{polls} polls");
    drop((pump, reader));
}

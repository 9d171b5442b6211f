//! Bytes that come over time, in native hands.
//!
//! ```text
//!  a request's body ──┐                            ┌─► JavaScript: all of it, or piece by piece
//!  what was fetched ──┼─► a number of an invocation ┼─► its response, past JavaScript
//!  a pipe's read end ─┘                            └─► the body of a fetch, past JavaScript
//! ```
//!
//! JavaScript knows them by numbers. Each has one consumer, who takes it from here; what nobody takes goes with its
//! invocation. See [`pipe`](super::pipe) for those that JavaScript writes.

use std::borrow::Cow;

use bytes::Bytes;
use futures::stream::{LocalBoxStream, StreamExt as _};
use rustc_hash::FxHashMap;
use tenon_proto::failure::Failure;

use super::invocation::InvocationId;
use super::pipe;
use super::state::State;

/// Pieces as they come. Nobody reads ahead of the consumer.
pub type ByteStream = LocalBoxStream<'static, Result<Bytes, Broken>>;

/// Why no more bytes come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The caller is to be told of it, whatever the Worker makes of it: its request is at fault.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// What was to send them is gone.
    #[error("{0}")]
    Lost(Cow<'static, str>),
}

/// A body, from whoever sends it.
pub enum Body {
    /// All of it.
    Full(Bytes),
    /// To be read when somebody asks for it.
    Stream(ByteStream),
}

/// Names a stream of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StreamId(u32);

impl StreamId {
    /// The request's body.
    pub(super) const REQUEST: Self = Self(0);

    pub(super) fn to_number(self) -> f64 {
        self.0.into()
    }

    pub(super) fn from_number(number: f64) -> Self {
        Self(number as u32)
    }
}

/// What is there to be taken.
pub(super) enum Incoming {
    Body(Body),
    /// What this Worker's JavaScript writes.
    Pipe(pipe::Reader),
}

impl From<Incoming> for Body {
    fn from(incoming: Incoming) -> Self {
        match incoming {
            Incoming::Body(body) => body,
            Incoming::Pipe(reader) => Self::Stream(reader.boxed_local()),
        }
    }
}

/// The streams of one invocation that nobody has taken yet, and the write ends of its pipes.
#[derive(Default)]
pub(super) struct Streams {
    /// Apart: most invocations have no other.
    request: Option<Incoming>,
    others: FxHashMap<StreamId, Incoming>,
    writers: FxHashMap<StreamId, pipe::Writer>,
    made: u32,
}

impl Streams {
    /// Those of an invocation whose request has this body.
    pub(super) fn of_request(body: Body) -> Self {
        let is_empty = matches!(&body, Body::Full(bytes) if bytes.is_empty());
        Self { request: (!is_empty).then_some(Incoming::Body(body)), ..Self::default() }
    }

    pub(super) fn has_request_body(&self) -> bool {
        self.request.is_some()
    }

    /// Gives it a number.
    pub(super) fn add(&mut self, body: Body) -> StreamId {
        let id = self.next();
        self.others.insert(id, Incoming::Body(body));
        id
    }

    /// Makes a pipe.
    pub(super) fn add_pipe(&mut self) -> StreamId {
        let id = self.next();
        let (writer, reader) = pipe::pipe();
        self.writers.insert(id, writer);
        self.others.insert(id, Incoming::Pipe(reader));
        id
    }

    fn next(&mut self) -> StreamId {
        self.made += 1;
        StreamId(self.made)
    }

    pub(super) fn take(&mut self, id: StreamId) -> Option<Incoming> {
        if id == StreamId::REQUEST { self.request.take() } else { self.others.remove(&id) }
    }

    /// The consumer has had a piece, and will be back.
    pub(super) fn put_back(&mut self, id: StreamId, rest: Incoming) {
        if id == StreamId::REQUEST {
            self.request = Some(rest);
        } else {
            self.others.insert(id, rest);
        }
    }

    pub(super) fn writer(&self, id: StreamId) -> Option<&pipe::Writer> {
        self.writers.get(&id)
    }

    /// Nothing more will be written.
    pub(super) fn take_writer(&mut self, id: StreamId) -> Option<pipe::Writer> {
        self.writers.remove(&id)
    }
}

impl State {
    /// Takes a stream for its consumer. `None` when somebody has it, or its invocation has ended.
    pub(super) fn take_stream(&self, owner: InvocationId, number: StreamId) -> Option<Incoming> {
        self.invocations.borrow_mut().get_mut(owner)?.streams.take(number)
    }
}

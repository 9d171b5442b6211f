//! The head of a client's request, as its Worker gets it. This module is pure, except for random
//! numbers: it draws the revisions of the Workers that the Worker may call, and the key of a
//! handshake.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};
use tenon_proto::invoke::{HeadSink, HeadWriter};
use tenon_proto::runtime::InvokeHead;
use tenon_spans::Context;
use tenon_table::{Table, Worker};

use crate::front::handshake::Handshake;
use crate::front::headers::{self, Edge};
use crate::front::span;
use crate::front::target::Target;
use crate::thread::RouterThread;
use crate::upstream::heads::Head;

/// The parts of a client's request from which the head is made.
pub(crate) struct ClientHead<'a> {
    pub(crate) thread: &'a RouterThread,
    pub(crate) view: &'a Table,
    pub(crate) worker: &'a Worker,
    /// The method that the Worker sees.
    pub(crate) method: &'a Method,
    pub(crate) target: &'a Target<'a>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) edge: Edge<'a>,
    pub(crate) handshake: Option<&'a Handshake>,
    /// The context of the request's span, if it has one.
    pub(crate) context: Option<Context>,
    /// Whether the client takes the trailers of the response.
    pub(crate) takes_trailers: bool,
    /// The whole body, unless it streams.
    pub(crate) body: Bytes,
    pub(crate) more_body: bool,
}

impl ClientHead<'_> {
    fn url(&self) -> [&str; 3] {
        let Self { target, edge, .. } = self;
        [edge.sender.scheme.prefix(), target.authority(), target.path_and_query()]
    }

    /// Writes the headers, the context of the span and the Workers that the Worker may call.
    fn write(&self, sink: &mut impl HeadSink) {
        let Self { thread, view, worker, headers, edge, handshake, context, .. } = self;
        let replaced = |name: &HeaderName| {
            handshake.is_some_and(|handshake| handshake.replaces(name))
                || context.is_some() && span::replaces(name, edge.sender.is_trusted)
        };
        headers::write(sink, headers, replaced, edge);
        handshake.inspect(|handshake| handshake.write(sink, || thread.random().to_ne_bytes()));
        context.as_ref().inspect(|context| span::write(context, sink));
        if self.takes_trailers {
            sink.take_trailers();
        }
        view.services_of(worker)
            .map(|service| thread.draw(service))
            .for_each(|service| sink.service(service.id.as_str(), service.digest.as_bytes()));
    }
}

impl Head for ClientHead<'_> {
    fn framed(&self) -> Bytes {
        let Self { worker, method, edge, body, more_body, .. } = self;
        let mut writer = HeadWriter::new(
            worker.id.as_str(),
            worker.digest.as_bytes(),
            edge.request_id,
            method.as_str(),
            self.url(),
        );
        self.write(&mut writer);
        writer.finish(body, *more_body)
    }

    fn value(&self) -> InvokeHead {
        let Self { worker, method, edge, body, more_body, .. } = self;
        let mut head = InvokeHead {
            worker: worker.id.to_string(),
            digest: Bytes::copy_from_slice(worker.digest.as_bytes()),
            request_id: edge.request_id.to_owned(),
            method: method.to_string(),
            url: self.url().concat(),
            body: body.clone(),
            more_body: *more_body,
            ..InvokeHead::default()
        };
        self.write(&mut head);
        head
    }
}

//! The destinations to which a request's head is written: a message for another process, or a value
//! for a shard of the same thread.

use bytes::Bytes;

use super::HeadWriter;
use crate::runtime::{Header, InvokeHead, Service};

/// The destination of those parts of a head that may occur several times or not at all.
pub trait HeadSink {
    /// Adds a header of the request.
    fn header(&mut self, name: &str, value: &[u8]);

    /// Adds a Worker that the invoked Worker may call, and the digest of its current revision.
    fn service(&mut self, worker: &str, digest: &[u8; 32]);

    /// Sets the context of the request's span.
    fn trace(&mut self, context: &str);

    /// States that the sender of the request takes the trailers of the response.
    fn take_trailers(&mut self);
}

impl HeadSink for HeadWriter {
    fn header(&mut self, name: &str, value: &[u8]) {
        self.header(name, value);
    }

    fn service(&mut self, worker: &str, digest: &[u8; 32]) {
        self.service(worker, digest);
    }

    fn trace(&mut self, context: &str) {
        self.trace(context);
    }

    fn take_trailers(&mut self) {
        self.take_trailers();
    }
}

impl HeadSink for InvokeHead {
    fn header(&mut self, name: &str, value: &[u8]) {
        let (name, value) = (name.to_owned(), Bytes::copy_from_slice(value));
        self.headers.push(Header { name, value });
    }

    fn service(&mut self, worker: &str, digest: &[u8; 32]) {
        let (worker, digest) = (worker.to_owned(), Bytes::copy_from_slice(digest));
        self.services.push(Service { worker, digest });
    }

    fn trace(&mut self, context: &str) {
        context.clone_into(&mut self.trace);
    }

    fn take_trailers(&mut self) {
        self.takes_trailers = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Decoder;
    use crate::runtime::{InvokeRequest, invoke_request::Part};

    fn write(sink: &mut dyn HeadSink) {
        sink.header("accept", b"*/*");
        sink.header("x-name", &[0xff, 0]);
        sink.service("shop/cart", &[3; 32]);
        sink.trace("00-1-2-01");
        sink.take_trailers();
    }

    #[test]
    fn both_destinations_get_the_same_head() {
        let mut value = InvokeHead {
            worker: "shop/page".to_owned(),
            digest: Bytes::copy_from_slice(&[7; 32]),
            request_id: "id".to_owned(),
            method: "GET".to_owned(),
            url: "http://shop/".to_owned(),
            ..InvokeHead::default()
        };
        write(&mut value);
        let mut writer =
            HeadWriter::new("shop/page", &[7; 32], "id", "GET", ["http://", "shop", "/"]);
        write(&mut writer);
        let mut decoder = Decoder::default();
        decoder.push(writer.finish(&[], false));
        let read = decoder.next::<InvokeRequest>().unwrap().unwrap().part;
        assert_eq!(read, Some(Part::Head(value)));
    }
}

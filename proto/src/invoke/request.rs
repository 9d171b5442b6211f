//! Encodes an invocation's head directly from the request into one gRPC message.
//!
//! The generated types would first copy every header into a string of its own. The encoding is that
//! of `InvokeRequest`, field by field, and a test decodes it with the generated types.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::field::{
    PART_ENTRY_HEAD, PART_HEAD, key_len, message_key_len, put, put_key, put_message,
};
use crate::frame::HEADER_LEN;
use crate::runtime::InvokeHead;

// The numbers of the fields of `InvokeHead`.
const WORKER: u32 = 1;
const DIGEST: u32 = 2;
const REQUEST_ID: u32 = 3;
const METHOD: u32 = 4;
const URL: u32 = 5;
const HEADERS: u32 = 6;
const BODY: u32 = 7;
const MORE_BODY: u32 = 8;
const SERVICES: u32 = 12;
const STAY: u32 = 13;
const TRACE: u32 = 15;
const TAKES_TRAILERS: u32 = 17;
// The numbers of the fields of `Header`, which are also those of `Service`.
const NAME: u32 = 1;
const VALUE: u32 = 2;

/// Size, in bytes, of the space for what precedes the head and can be written only after the head:
/// gRPC's header, the key of the part, and the part's length in up to five bytes.
const PROLOGUE: usize = HEADER_LEN + 1 + 5;

/// The initial capacity of the buffer of a head, in bytes. A typical head fits.
const CAPACITY: usize = 1024;

/// A writer that encodes one head.
pub struct HeadWriter {
    buffer: BytesMut,
}

impl HeadWriter {
    /// Begins a head.
    ///
    /// # Arguments
    /// * `worker` - the Worker's id.
    /// * `digest` - the digest of its revision.
    /// * `url` - the parts of the URL, which are joined.
    pub fn new(
        worker: &str,
        digest: &[u8; 32],
        request_id: &str,
        method: &str,
        url: [&str; 3],
    ) -> Self {
        let mut buffer = BytesMut::with_capacity(CAPACITY);
        buffer.put_bytes(0, PROLOGUE);
        put(WORKER, worker.as_bytes(), &mut buffer);
        put(DIGEST, digest, &mut buffer);
        put(REQUEST_ID, request_id.as_bytes(), &mut buffer);
        put(METHOD, method.as_bytes(), &mut buffer);
        put_key(URL, url.iter().map(|part| part.len()).sum(), &mut buffer);
        url.iter().for_each(|part| buffer.put_slice(part.as_bytes()));
        Self { buffer }
    }

    /// Adds a header of the request.
    pub fn header(&mut self, name: &str, value: &[u8]) {
        self.pair(HEADERS, name, value);
    }

    /// Adds a Worker that the invoked Worker may call, and the digest of its current revision.
    pub fn service(&mut self, worker: &str, digest: &[u8; 32]) {
        self.pair(SERVICES, worker, digest);
    }

    /// Adds the context of the request's span.
    pub fn trace(&mut self, context: &str) {
        put(TRACE, context.as_bytes(), &mut self.buffer);
    }

    /// States that the sender of the request takes the trailers of the response.
    pub fn take_trailers(&mut self) {
        self.flag(TAKES_TRAILERS);
    }

    fn flag(&mut self, field: u32) {
        encode_key(field, WireType::Varint, &mut self.buffer);
        encode_varint(1, &mut self.buffer);
    }

    fn pair(&mut self, field: u32, name: &str, value: &[u8]) {
        let field_len = |len| key_len(len) + len;
        put_key(field, field_len(name.len()) + field_len(value.len()), &mut self.buffer);
        put(NAME, name.as_bytes(), &mut self.buffer);
        put(VALUE, value, &mut self.buffer);
    }

    /// Returns the framed message.
    ///
    /// # Arguments
    /// * `body` - the first bytes of the body, or all of them if `more_body` is false.
    /// * `more_body` - whether more of the body follows in further messages.
    pub fn finish(mut self, body: &[u8], more_body: bool) -> Bytes {
        if !body.is_empty() {
            put(BODY, body, &mut self.buffer);
        }
        if more_body {
            self.flag(MORE_BODY);
        }
        // The length of the head, and the number of bytes that encode this length, are known only
        // now. The prologue is therefore right-aligned.
        let head_len = self.buffer.len() - PROLOGUE;
        let unused = PROLOGUE - message_key_len(head_len);
        put_message(PART_HEAD, head_len, &mut &mut self.buffer[unused..PROLOGUE]);
        self.buffer.freeze().slice(unused..)
    }
}

/// Returns the framed message that contains this head.
pub fn encode_head(head: &InvokeHead) -> Bytes {
    let len = head.encoded_len();
    let mut message = BytesMut::with_capacity(message_key_len(len) + len);
    let part = if head.entry.is_some() { PART_ENTRY_HEAD } else { PART_HEAD };
    put_message(part, len, &mut message);
    head.encode_raw(&mut message);
    message.freeze()
}

/// Returns the same framed head with `stay` set. Protobuf merges a head that occurs twice in a
/// message, so the field follows as a head of its own.
///
/// # Arguments
/// * `head` - one framed message that contains a head.
pub fn with_stay(head: &[u8]) -> Bytes {
    let message = &head[HEADER_LEN..];
    // The key of the part, which takes one byte, says which kind of head it is.
    let part = message.first().copied().unwrap_or_default();
    let more = [part, 2, (STAY << 3) as u8, 1];
    let mut stays = BytesMut::with_capacity(head.len() + more.len());
    stays.put_u8(0);
    stays.put_u32((message.len() + more.len()) as u32);
    stays.put_slice(message);
    stays.put_slice(&more);
    stays.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{self, Decoder};
    use crate::runtime::{Entry, Header, InvokeHead, InvokeRequest, Service, invoke_request::Part};
    use proptest::prelude::*;

    fn read(stream: impl IntoIterator<Item = Bytes>) -> Option<Part> {
        let mut decoder = Decoder::default();
        stream.into_iter().for_each(|data| decoder.push(data));
        let message = decoder.next::<InvokeRequest>().unwrap().unwrap();
        decoder.finish().unwrap();
        message.part
    }

    proptest! {
        #[test]
        fn a_written_head_decodes_as_the_generated_type(
            worker in ".*", digest in any::<[u8; 32]>(), id in ".*", method in "[A-Z]+", host in ".*", path in ".{0,300}",
            headers in prop::collection::vec((".*", any::<Vec<u8>>()), 0..20),
            services in prop::collection::vec((".*", any::<[u8; 32]>()), 0..5),
            trace in ".*", body in any::<Vec<u8>>(), more: bool, takes_trailers: bool,
        ) {
            let mut writer = HeadWriter::new(&worker, &digest, &id, &method, ["http://", &host, &path]);
            headers.iter().for_each(|(name, value)| writer.header(name, value));
            services.iter().for_each(|(worker, digest)| writer.service(worker, digest));
            writer.trace(&trace);
            if takes_trailers {
                writer.take_trailers();
            }
            let service = |(worker, digest): (String, [u8; 32])| Service { worker, digest: digest.to_vec().into() };
            let header = |(name, value): (String, Vec<u8>)| Header { name, value: value.into() };
            let expected = InvokeHead {
                worker,
                digest: digest.to_vec().into(),
                request_id: id,
                method,
                url: format!("http://{host}{path}"),
                headers: headers.into_iter().map(header).collect(),
                body: body.clone().into(),
                more_body: more,
                services: services.into_iter().map(service).collect(),
                trace,
                takes_trailers,
                ..InvokeHead::default()
            };
            let head = writer.finish(&body, more);
            prop_assert_eq!(read([encode_head(&expected)]), Some(Part::Head(expected.clone())));
            let stays = InvokeHead { stay: true, ..expected.clone() };
            prop_assert_eq!(read([with_stay(&head)]), Some(Part::Head(stays)));
            prop_assert_eq!(read([head]), Some(Part::Head(expected)));
        }
    }

    #[test]
    fn the_head_for_an_entry_keeps_its_kind_when_it_stays() {
        let entry = Some(Entry { export: "Admin".to_owned(), rpc: None });
        let head = InvokeHead { worker: "shop/cart".to_owned(), entry, ..InvokeHead::default() };
        let part = Some(head.clone().into_part());
        let message = frame::encode(&InvokeRequest { part });
        assert_eq!(encode_head(&head), message);
        let stays = InvokeHead { stay: true, ..head };
        assert_eq!(read([with_stay(&message)]), Some(Part::EntryHead(stays)));
    }
}

//! Tests the serialized responses, alone and in comparison with hyper's.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use http_body::{Body, Frame, SizeHint};
use proptest::prelude::*;

use super::*;
use crate::front::fast_path::outbox::SLICES;
use crate::front::fast_path::reference;

const DATE: &Date = b"Sun, 06 Nov 1994 08:49:37 GMT";

/// A body in pieces, whose length may be known.
#[derive(Clone, Debug)]
struct Pieces {
    pieces: VecDeque<Bytes>,
    is_known: bool,
}

impl Pieces {
    fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_known && self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_known { SizeHint::with_exact(self.length()) } else { SizeHint::default() }
    }
}

/// Returns the bytes of a response.
fn serialize(is_head: bool, response: Response<Pieces>) -> Result<Vec<u8>, FramingError> {
    let (parts, body) = response.into_parts();
    let mut outbox = Outbox::default();
    let length = body.is_known.then(|| body.length());
    let Head { mut framing, .. } = write_head(outbox.text(), &parts, is_head, length, DATE)?;
    let mut pieces = body.pieces.into_iter();
    while !framing.is_complete() {
        let Some(piece) = pieces.next() else {
            framing.end(&mut outbox)?;
            break;
        };
        framing.add(piece, &mut outbox);
    }
    let mut slices = [IoSlice::new(&[]); SLICES];
    let count = outbox.slices(&mut slices);
    Ok(slices[..count].iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>())
}

/// Returns the lines of the head in a comparable order, and the body.
fn split(response: &[u8]) -> (Vec<String>, Vec<u8>) {
    let end = response.windows(4).position(|end| end == b"\r\n\r\n").expect("the head has no end");
    let (head, body) = response.split_at(end + 4);
    let mut lines: Vec<_> = head
        .split(|byte| *byte == b'\n')
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    lines[1..].sort_unstable();
    (lines, body.to_vec())
}

fn text(is_head: bool, response: Response<Pieces>) -> String {
    String::from_utf8(serialize(is_head, response).unwrap()).unwrap()
}

fn pieces(pieces: &[&'static str], is_known: bool) -> Pieces {
    Pieces {
        pieces: pieces.iter().map(|piece| Bytes::from_static(piece.as_bytes())).collect(),
        is_known,
    }
}

#[test]
fn a_body_of_known_length_has_a_content_length() {
    let response = Response::builder().header("x-a", "1").header("content-length", "9");
    assert_eq!(
        text(false, response.body(pieces(&["he", "llo"], true)).unwrap()),
        "HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 5\r\n\
         date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello"
    );
    let response = Response::builder().status(404).header("date", "today");
    assert_eq!(
        text(false, response.body(pieces(&[], true)).unwrap()),
        "HTTP/1.1 404 Not Found\r\ndate: today\r\ncontent-length: 0\r\n\r\n"
    );
}

#[test]
fn a_body_of_unknown_length_is_chunked() {
    let response = Response::builder().header("date", "today");
    assert_eq!(
        text(false, response.body(pieces(&["hello, ", "", "wonderful world"], false)).unwrap()),
        "HTTP/1.1 200 OK\r\ndate: today\r\ntransfer-encoding: chunked\r\n\r\n\
         7\r\nhello, \r\nF\r\nwonderful world\r\n0\r\n\r\n"
    );
}

#[test]
fn a_worker_may_state_the_length_of_a_streamed_body_but_cannot_send_another_length() {
    let stated = |length: &str, more: &[&'static str]| {
        let response = Response::builder().header("date", "today").header("content-length", length);
        serialize(false, response.body(pieces(more, false)).unwrap())
    };
    let expected = b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(stated("5", &["hel", "lo"]).unwrap(), expected);
    assert_eq!(stated("5", &["hel", "lo, HTTP/1.1 200 OK"]).unwrap(), expected);
    assert_eq!(stated("5", &["hel"]), Err(FramingError::TooShort(2)));
    for invalid in ["", "-1", "+5", "5, 5", "x", "99999999999999999999"] {
        assert_eq!(stated(invalid, &["hello"]), Err(FramingError::InvalidLength), "{invalid:?}");
    }
}

#[test]
fn a_response_that_must_not_have_a_body_has_none() {
    for status in [204_u16, 304] {
        let response = Response::builder().status(status).header("content-length", "5");
        let (lines, body) =
            split(&serialize(false, response.body(pieces(&[], true)).unwrap()).unwrap());
        assert!(body.is_empty() && lines.len() == 4, "{lines:?}");
    }
    let response = Response::builder().header("content-length", "5");
    let answer = text(true, response.body(pieces(&[], true)).unwrap());
    assert!(answer.contains("\r\ncontent-length: 5\r\n") && answer.ends_with("\r\n\r\n"));
}

#[test]
fn a_response_that_closes_the_connection_is_recognized() {
    for (value, closes) in [("close", true), ("x, Close", true), ("keep-alive", false)] {
        let response = Response::builder().header("connection", value).body(()).unwrap();
        let head = write_head(&mut Vec::new(), &response.into_parts().0, false, Some(0), DATE);
        assert_eq!(head, Ok(Head { framing: Framing::Length(0), closes }), "{value}");
    }
}

fn response() -> impl Strategy<Value = Response<Pieces>> {
    let status =
        prop::sample::select(&[200_u16, 200, 200, 204, 206, 301, 304, 404, 500, 503, 799][..]);
    let name = prop::sample::select(&["x-a", "x-b", "set-cookie", "vary", "etag", "date"][..]);
    let headers = prop::collection::vec((name, "[ -~]{0,9}"), 0..6);
    let pieces = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..5);
    let stated = prop::option::of("(0|[1-9][0-9]?)?");
    (status, headers, pieces, any::<bool>(), stated).prop_map(
        |(status, headers, pieces, is_known, stated)| {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            // hyper requires that a stated length is the one that is known.
            if let Some(stated) = stated.filter(|_| !is_known) {
                response = response.header("content-length", stated);
            }
            let pieces = pieces.into_iter().map(Bytes::from).collect();
            response.body(Pieces { pieces, is_known }).unwrap()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]
    #[test]
    fn hyper_sends_the_same_response(response in response(), is_head in any::<bool>()) {
        // The router never gives a body to a response that must have none.
        let mut response = response;
        if is_head || matches!(response.status().as_u16(), 204 | 304) {
            *response.body_mut() = Pieces { pieces: VecDeque::new(), is_known: true };
        }
        let request = match is_head {
            true => &b"HEAD / HTTP/1.1\r\nhost: shop\r\n\r\n"[..],
            false => b"GET / HTTP/1.1\r\nhost: shop\r\n\r\n",
        };
        let by_hyper = reference::serve(request, |_| response.clone());
        match serialize(is_head, response.clone()) {
            Ok(ours) => {
                let (mut theirs, mut ours) = (split(&by_hyper), split(&ours));
                for (lines, _) in [&mut theirs, &mut ours] {
                    lines.retain(|line| !line.ends_with(" GMT\r"));
                }
                prop_assert_eq!(ours, theirs);
            }
            Err(_) => prop_assert!(by_hyper.is_empty(), "hyper has sent a response"),
        }
    }
}

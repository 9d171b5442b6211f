//! Tests where messages end, and which of them are refused.

use proptest::prelude::*;

use super::*;

/// Returns the messages that pass if the bytes arrive in pieces of `piece` bytes.
fn messages(bytes: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, Refusal> {
    let (mut follower, mut held, mut all, mut current) =
        (Messages::default(), Vec::new(), Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        held.extend_from_slice(piece);
        while !held.is_empty() {
            match follower.step(&held) {
                Step::Pass(passed) => {
                    assert!(passed > 0, "{held:?}");
                    current.extend(held.drain(..passed));
                    if follower.is_in_head() {
                        all.push(std::mem::take(&mut current));
                    }
                }
                Step::Hold => break,
                Step::Refuse(refusal) => return Err(refusal),
            }
        }
    }
    Ok(all)
}

#[track_caller]
fn assert_refused(bytes: impl AsRef<[u8]>, refusal: Refusal) {
    let bytes = bytes.as_ref();
    for piece in [1, 7, bytes.len()] {
        assert_eq!(messages(bytes, piece), Err(refusal), "{}", String::from_utf8_lossy(bytes));
    }
}

fn with(headers: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: shop\r\n{headers}\r\n")
}

#[test]
fn messages_are_separated_however_their_bytes_are_split() {
    let sent = [
        "GET / HTTP/1.1\r\nHost: shop\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length:  3 \r\n\r\nabc",
        "\r\nPOST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n0A\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-type: a\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /last HTTP/1.1\r\n\r\n",
    ];
    let whole = sent.concat();
    for piece in 1..=whole.len() {
        assert_eq!(
            messages(whole.as_bytes(), piece).unwrap(),
            sent.map(|message| message.as_bytes().to_vec()),
            "in pieces of {piece} bytes"
        );
    }
}

#[test]
fn an_ambiguous_head_is_refused() {
    assert_refused("GET / HTTP/1.1\nHost: shop\r\n\r\n", Refusal::BareLineFeed);
    assert_refused("GET / HTTP/1.1\r\nHost: shop\n\r\n", Refusal::BareLineFeed);
    assert_refused("GET / HTTP/1.1\r\nHost: shop\r\n\n", Refusal::BareLineFeed);
    assert_refused(with("x: y\r\n z\r\n"), Refusal::Folded);
    assert_refused(with("Content-Length: 1\r\nContent-Length: 1\r\n"), Refusal::ManyLengths);
    assert_refused(with("Content-Length: 1\r\nContent-Length: 2\r\n"), Refusal::ManyLengths);
    for not_a_number in ["", "+1", "-1", "1, 1", "0x1", "1 1", "1a"] {
        assert_refused(
            with(&format!("Content-Length: {not_a_number}\r\n")),
            Refusal::InvalidLength,
        );
    }
    for huge in ["18446744073709551615", "18446744073709551616", "9223372036854775808"] {
        assert_refused(with(&format!("Content-Length: {huge}\r\n")), Refusal::Huge);
    }
    assert_refused(
        with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
        Refusal::TwoFramings,
    );
    assert_refused(
        with("Transfer-Encoding: chunked\r\nContent-Length : 1\r\n"),
        Refusal::TwoFramings,
    );
    for coding in [
        "gzip, chunked",
        "chunked, chunked",
        "identity",
        "chunked, identity",
        "",
        "xchunked",
        "chunked;q=1",
    ] {
        assert_refused(with(&format!("Transfer-Encoding: {coding}\r\n")), Refusal::Coding);
    }
    assert_refused(
        with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        Refusal::Coding,
    );
}

#[test]
fn a_malformed_chunked_body_is_refused() {
    for body in [
        "3\nabc\r\n",
        "3\r\nabc\n",
        "3\r\nabcd\r\n",
        "\r\n",
        " 3\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "0x3\r\nabc\r\n",
        "-3\r\nabc\r\n",
        "g\r\n",
        "8000000000000000\r\n",
        "00000000000000003\r\nabc\r\n",
        "3;a\nb\r\nabc\r\n",
        "0\r\nx: y\n\r\n",
        "0\r\n x: y\r\n\r\n",
        "0\r\n\n",
    ] {
        assert_refused(with("Transfer-Encoding: chunked\r\n") + body, Refusal::Chunk);
    }
    assert_refused(
        with("Transfer-Encoding: chunked\r\n") + "3;" + &"x".repeat(2000),
        Refusal::Chunk,
    );
    assert_refused(
        with("Transfer-Encoding: chunked\r\n") + "0\r\n" + &"x: y\r\n".repeat(4000),
        Refusal::Chunk,
    );
}

#[test]
fn another_protocol_is_refused_before_a_whole_head_has_arrived() {
    for bytes in [&b"\x16\x03\x01"[..], b"\0", b" GET", b"\n", b"\r\n\r\n", b"\r\n\n", b"\xff"] {
        let refusal = messages(bytes, 1).unwrap_err();
        assert!(matches!(refusal, Refusal::NotHttp | Refusal::BareLineFeed), "{bytes:?}");
    }
}

#[test]
fn a_head_beyond_the_size_limit_is_refused() {
    let long = |len: usize| format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(len));
    assert_eq!(messages(long(60_000).as_bytes(), 1000).unwrap().len(), 1);
    assert_eq!(messages(long(70_000).as_bytes(), 1000), Err(Refusal::TooLong));
    assert_eq!(messages(long(70_000).as_bytes(), 100_000), Err(Refusal::TooLong));
}

proptest! {
    #[test]
    fn the_result_for_arbitrary_bytes_does_not_depend_on_their_pieces(
        bytes in "([a-z:;, \r\n0-9]|\r\n|chunked|Content-Length: |Transfer-Encoding: ){0,60}",
        piece in 1_usize..40,
    ) {
        prop_assert_eq!(messages(bytes.as_bytes(), piece), messages(bytes.as_bytes(), 1));
    }
}

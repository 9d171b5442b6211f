//! Fuzzes the responses of a proxy. A tunnel is established only after the proxy has sent a 2xx
//! response, no matter what else the proxy sends and how the bytes are split.

#![no_main]

use arbitrary::Arbitrary;
use http::uri::Authority;
use libfuzzer_sys::fuzz_target;
use tenon_egress::Proxy;
use tenon_egress::fuzzing::tunnel;
use tenon_fuzz::pieces;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    cuts: Vec<u8>,
    answer: &'a [u8],
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("cannot create a runtime");
}

fuzz_target!(|input: Input<'_>| {
    let proxy: Proxy =
        "http://user:word@proxy.test:3128".parse().expect("the URL is not that of a proxy");
    let target = Authority::from_static("203.0.113.1:443");
    let is_established = RUNTIME.with(|runtime| {
        tokio::task::LocalSet::new().block_on(runtime, async {
            let (near, mut far) = tokio::io::duplex(1 << 16);
            let answers = async move {
                // Read the whole request first.
                let (mut request, mut byte) = (Vec::new(), [0]);
                while !request.ends_with(b"\r\n\r\n") && matches!(far.read(&mut byte).await, Ok(1))
                {
                    request.push(byte[0]);
                }
                for piece in pieces(input.answer, &input.cuts) {
                    // The client may have closed the connection.
                    let _ = far.write_all(&piece).await;
                    tokio::task::yield_now().await;
                }
                request
            };
            let (is_established, request) = tokio::join!(tunnel(&proxy, near, &target), answers);
            assert!(request.starts_with(b"CONNECT 203.0.113.1:443 HTTP/1.1\r\n"));
            is_established
        })
    });
    if is_established {
        // Interim (1xx) responses may precede the final one.
        let answer = String::from_utf8_lossy(input.answer);
        assert!(answer.contains("HTTP/1.1 2") || answer.contains("HTTP/1.0 2"), "{answer:?}");
    }
});

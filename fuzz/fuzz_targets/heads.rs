//! Fuzzes HTTP/1 messages. The same messages pass the filter no matter how the bytes are split.
//! Each message that passes is unambiguous: its lines have one kind of line ending, and at most one
//! header states where its body ends.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tenon_clients::fuzzing::messages;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    piece: u8,
    bytes: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let whole = messages(input.bytes, input.bytes.len());
    assert_eq!(whole, messages(input.bytes, usize::from(input.piece) + 1));
    let Ok(passed) = whole else { return };
    assert!(input.bytes.starts_with(&passed.concat()));
    for message in passed {
        let end = message.windows(4).position(|end| end == b"\r\n\r\n");
        let end = end.map(|at| at + 4).expect("the head does not end with an empty line");
        let head = message[..end].to_ascii_lowercase();
        let lines: Vec<_> = head.split(|byte| *byte == b'\n').collect();
        let (last, lines) = lines.split_last().expect("the head has no lines");
        assert!(last.is_empty() && lines.iter().all(|line| line.ends_with(b"\r")));
        // The request line is not a header, even if it looks like one.
        let headers = || lines.iter().skip_while(|line| **line == b"\r").skip(1);
        let count = |name: &str| headers().filter(|line| line.starts_with(name.as_bytes())).count();
        assert!(count("content-length:") + count("transfer-encoding:") <= 1);
    }
});

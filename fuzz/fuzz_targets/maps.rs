//! Fuzzes source maps and stack frames. A source map maps a position to another valid position, or
//! to none. A stack frame is reassembled into the text from which it was parsed.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tenon_engine::fuzzing::{frame, place};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    line: u16,
    column: u16,
    frame: &'a str,
    map: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    if let Some((before, module, line, column, after)) = frame(input.frame) {
        assert!(input.frame.starts_with(before) && input.frame.ends_with(after));
        let written = format!("{before}{module}:{line}:{column}{after}");
        assert_eq!(frame(&written), Some((before, module, line, column, after)));
    }

    let (line, column) = (u32::from(input.line), u32::from(input.column));
    let found = place(input.map, line, column);
    if let Some((_, line, column)) = &found {
        assert!(*line >= 1 && *column >= 1);
    }
    // Lines and columns are counted from 1.
    assert!(found.is_none() || (line > 0 && column > 0));
});

//! What fuzz targets reach of this room beyond what it shows to everybody.

use super::heap::BufferBudget;
use super::source_maps::{self, Decoded};
use super::wasm::check::{self, Check, Refused};

/// What is said of a WebAssembly module before V8 sees it.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// It is none.
    Invalid,
    /// It is more than can be borne.
    Refused(String),
}

/// What is said of a module, in how many steps, and whether the validator says by itself that it is one.
pub fn look_at_module(bytes: &[u8]) -> (Verdict, usize, bool) {
    let (mut check, mut steps) = (Check::new(), 0);
    let verdict = loop {
        steps += 1;
        match check.step(bytes) {
            Ok(None) => {}
            Ok(Some(_)) => break Verdict::Fine,
            Err(Refused::Invalid { .. }) => break Verdict::Invalid,
            Err(refused) => break Verdict::Refused(refused.to_string()),
        }
    };
    (verdict, steps, check::is_valid(bytes))
}

/// Where a place of a module was written, by this source map: the file, the line and the column.
pub fn place(map: &[u8], line: u32, column: u32) -> Option<(String, u32, u32)> {
    let decoded = Decoded::of(map, &BufferBudget::new(1 << 30))?;
    decoded.place(line, column).map(|place| (place.file, place.line, place.column))
}

/// Tells the line and the column, from zero, of every place that a source map leads to.
pub fn every_place(map: &[u8], mut tell: impl FnMut(u32, u32)) {
    let Some(decoded) = Decoded::of(map, &BufferBudget::new(1 << 30)) else { return };
    for (line, column) in decoded.written() {
        tell(line, column);
    }
}

/// A frame of a stack taken apart.
pub fn frame(frame: &str) -> Option<(&str, &str, u32, u32, &str)> {
    source_maps::parts(frame)
}

//! The engine's internals that fuzz targets need beyond its public interface.

use super::heap::BufferBudget;
use super::source_maps::{self, Decoded};
use super::wasm::check::{self, Check, Refused};

/// The verdict on a WebAssembly module before V8 sees it.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// An invalid module.
    Invalid,
    /// A module that exceeds a limit.
    Refused(String),
}

/// Returns the verdict on a module, the number of steps, and whether the validator alone accepts it
/// in one pass.
pub fn check_module(bytes: &[u8]) -> (Verdict, usize, bool) {
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

/// Returns the original file, line and column of a place in a module, by this source map.
pub fn place(map: &[u8], line: u32, column: u32) -> Option<(String, u32, u32)> {
    let decoded = Decoded::of(map, &BufferBudget::new(1 << 30))?;
    decoded.place(line, column).map(|place| (place.file, place.line, place.column))
}

/// Calls `tell` with the line and column, from zero, of every place that a source map leads to.
pub fn every_place(map: &[u8], mut tell: impl FnMut(u32, u32)) {
    let Some(decoded) = Decoded::of(map, &BufferBudget::new(1 << 30)) else { return };
    for (line, column) in decoded.written() {
        tell(line, column);
    }
}

/// Takes a stack frame apart.
pub fn frame(frame: &str) -> Option<(&str, &str, u32, u32, &str)> {
    source_maps::parts(frame)
}

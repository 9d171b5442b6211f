//! Entry points for fuzz targets, which are not part of this crate's public interface.

use super::heap::BufferBudget;
use super::source_maps::{self, Decoded};
use super::wasm::check::{self, Check, ModuleRefused};

/// The result of checking a WebAssembly module before V8 compiles it.
#[derive(Debug, PartialEq, Eq)]
pub enum ModuleCheck {
    Fine,
    /// An invalid module.
    Invalid,
    /// A module that exceeds a limit.
    Refused(String),
}

/// Checks a WebAssembly module. Returns the result, the number of the check's steps, and whether
/// the validator alone, in one pass, accepts the module.
pub fn check_module(bytes: &[u8]) -> (ModuleCheck, usize, bool) {
    let (mut check, mut steps) = (Check::new(), 0);
    let verdict = loop {
        steps += 1;
        match check.step(bytes) {
            Ok(None) => {}
            Ok(Some(_)) => break ModuleCheck::Fine,
            Err(ModuleRefused::Invalid { .. }) => break ModuleCheck::Invalid,
            Err(refused) => break ModuleCheck::Refused(refused.to_string()),
        }
    };
    (verdict, steps, check::is_valid(bytes))
}

/// Returns the original file, line and column of a place in a module, according to this source map.
pub fn place(map: &[u8], line: u32, column: u32) -> Option<(String, u32, u32)> {
    let decoded = Decoded::of(map, &BufferBudget::new(1 << 30))?;
    decoded.place(line, column).map(|place| (place.file, place.line, place.column))
}

/// Calls `visit` with every original line and column of a source map, counted from zero.
pub fn every_place(map: &[u8], mut visit: impl FnMut(u32, u32)) {
    let Some(decoded) = Decoded::of(map, &BufferBudget::new(1 << 30)) else { return };
    for (line, column) in decoded.original_positions() {
        visit(line, column);
    }
}

/// Splits a stack frame into its parts. Returns `None` if the text is not a frame.
pub fn frame(frame: &str) -> Option<(&str, &str, u32, u32, &str)> {
    source_maps::parts(frame)
}

//! Maps positions in running code to positions in the author's files.
//!
//! ```text
//!  worker.ts:3:14 ─► the module's source map "worker.ts.map", decoded once ─► src/cart.ts:12:5
//! ```
//!
//! A revision's code may have been generated, from TypeScript or by a bundler. A source map
//! (ECMA-426) is then a module beside each generated module. Isolates of other revisions only check
//! that there is no source map.
//!
//! A source map comes from a tenant, so it is decoded only on demand, by a crate that refuses
//! malformed maps. The total size of an isolate's maps is bounded, and their memory counts against
//! the isolate's budget. If the budget has no room, positions are shown unmapped.

use std::rc::Rc;
use std::sync::Arc;

use oxc_sourcemap::{SourceMap, Token};
use rustc_hash::FxHashMap;
use tenon_proto::failure::Place;
use tenon_proto::module::{ModuleKind, source_map_of};
use tenon_proto::revision::Revision;

use super::collection;
use super::heap::{BufferBudget, Charge};
use super::slot::{slot, slot_value};

/// Maximum total size of the source maps that an isolate decodes, in bytes. Decoding a megabyte
/// takes a few milliseconds, once.
const MAX_SIZE: usize = 2 << 20;

/// Returns whether any module of a revision has a source map.
pub fn are_in(revision: &Revision) -> bool {
    revision.modules.keys().any(|name| ModuleKind::of(name) == ModuleKind::SourceMap)
}

/// Returns the position in the author's file for a position in a module, or `None` if the module
/// has no usable source map, or the map does not contain the position.
pub fn place(
    scope: &mut v8::PinScope<'_, '_>,
    module: &str,
    line: u32,
    column: u32,
) -> Option<Place> {
    let revision = slot_value::<Rc<Revision>>(scope);
    let text = revision.modules.get(&source_map_of(module))?;
    let buffers = collection::buffers(scope);
    slot::<SourceMaps>(scope).of(module, text, &buffers)?.place(line, column)
}

/// The positions in the author's files for positions in a revision's modules, for callers that have
/// not entered the isolate.
pub(crate) struct Origins<'a> {
    revision: &'a Revision,
    buffers: &'a Arc<BufferBudget>,
    maps: SourceMaps,
}

impl<'a> Origins<'a> {
    /// Creates an empty collection, which decodes source maps on demand.
    ///
    /// # Arguments
    /// * `buffers` - the budget of the isolate, to which the decoded maps are charged.
    pub(crate) fn of(revision: &'a Revision, buffers: &'a Arc<BufferBudget>) -> Self {
        Self { revision, buffers, maps: SourceMaps::default() }
    }

    /// Returns the position in the author's file, as [`place`] does.
    pub(crate) fn place(&mut self, module: &str, line: u32, column: u32) -> Option<Place> {
        let text = self.revision.modules.get(&source_map_of(module))?;
        self.maps.of(module, text, self.buffers)?.place(line, column)
    }
}

/// Replaces the position in a stack frame of V8, such as `f (worker.js:1:2)` or `async
/// worker.js:1:2`, with the position in the author's file. Returns `None` if that is unknown.
pub fn frame(scope: &mut v8::PinScope<'_, '_>, frame: &str) -> Option<String> {
    let (before, module, line, column, after) = parts(frame)?;
    let place = place(scope, module, line, column)?;
    Some(format!("{before}{place}{after}"))
}

/// Splits a frame into the text before the position, the module, the line, the column, and the text
/// after the position.
pub fn parts(frame: &str) -> Option<(&str, &str, u32, u32, &str)> {
    let (rest, after) = frame.strip_suffix(')').map_or((frame, ""), |rest| (rest, ")"));
    let (rest, column) = rest.rsplit_once(':')?;
    let (rest, line) = rest.rsplit_once(':')?;
    // Module names contain none of these characters.
    let start = rest.rfind([' ', '(', ',']).map_or(0, |at| at + 1);
    let (before, module) = rest.split_at(start);
    Some((before, module, line.parse().ok()?, column.parse().ok()?, after))
}

/// The decoded source maps of an isolate, which V8 keeps in one of its slots for embedders' data.
#[derive(Default)]
struct SourceMaps {
    by_module: FxHashMap<String, Option<Decoded>>,
    /// Total size of the maps that have been considered for decoding, in bytes.
    decoded: usize,
}

impl SourceMaps {
    fn of(&mut self, module: &str, text: &[u8], buffers: &Arc<BufferBudget>) -> Option<&Decoded> {
        if !self.by_module.contains_key(module) {
            self.decoded += text.len();
            let decoded = (self.decoded <= MAX_SIZE).then(|| Decoded::of(text, buffers)).flatten();
            self.by_module.insert(module.to_owned(), decoded);
        }
        self.by_module.get(module)?.as_ref()
    }
}

/// A decoded source map.
pub struct Decoded {
    /// The names of the author's files, by the index that mappings refer to.
    files: Vec<String>,
    /// The mappings, sorted by generated line and column.
    tokens: Box<[Token]>,
    _charge: Charge,
}

impl Decoded {
    /// Decodes a source map. Returns `None` if it is malformed, or if the budget has no room for
    /// it.
    pub fn of(text: &[u8], buffers: &Arc<BufferBudget>) -> Option<Self> {
        let map = SourceMap::from_json_string(std::str::from_utf8(text).ok()?).ok()?;
        let files: Vec<_> = map.get_sources().map(str::to_owned).collect();
        let tokens = map.into_parts().tokens;
        let size = size_of_val(&*tokens)
            + files.iter().map(|file| file.len() + size_of::<String>()).sum::<usize>();
        Some(Self { files, tokens, _charge: buffers.charge_quietly(size)? })
    }

    /// Returns the original position for a generated position.
    ///
    /// # Arguments
    /// * `line` and `column` - the generated position, counted from one.
    pub fn place(&self, line: u32, column: u32) -> Option<Place> {
        let (line, column) = (line.checked_sub(1)?, column.checked_sub(1)?);
        let after = self
            .tokens
            .partition_point(|token| (token.get_dst_line(), token.get_dst_col()) <= (line, column));
        let token =
            self.tokens.get(after.checked_sub(1)?).filter(|token| token.get_dst_line() == line)?;
        let file = self.files.get(token.get_source_id()? as usize)?.clone();
        Some(Place {
            file,
            line: token.get_src_line().checked_add(1)?,
            column: token.get_src_col().checked_add(1)?,
        })
    }

    /// Returns all original lines and columns, counted from zero.
    #[cfg(fuzzing)]
    pub fn original_positions(&self) -> impl Iterator<Item = (u32, u32)> {
        let known = self.tokens.iter().filter(|token| token.get_source_id().is_some());
        known.map(|token| (token.get_src_line(), token.get_src_col()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stack_frame_of_v8_is_parsed() {
        assert_eq!(parts("f (lib/a.js:3:14)"), Some(("f (", "lib/a.js", 3, 14, ")")));
        assert_eq!(parts("worker.js:3:14"), Some(("", "worker.js", 3, 14, "")));
        assert_eq!(parts("async worker.js:3:14"), Some(("async ", "worker.js", 3, 14, "")));
        assert_eq!(
            parts("new Cart (worker.js:3:14)"),
            Some(("new Cart (", "worker.js", 3, 14, ")"))
        );
        let evaluated = "eval (eval at f (worker.js:1:2), <anonymous>:1:1)";
        assert_eq!(
            parts(evaluated),
            Some(("eval (eval at f (worker.js:1:2), ", "<anonymous>", 1, 1, ")"))
        );
        for other in ["Array.map (<anonymous>)", "Promise.all (index 0)", "", ")", "a:b:c"] {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    fn decoded(mappings: &str) -> Option<Decoded> {
        let map = format!(
            r#"{{"version":3,"sources":["a.ts","b.ts"],"names":[],"mappings":"{mappings}"}}"#
        );
        Decoded::of(map.as_bytes(), &BufferBudget::new(1 << 20))
    }

    #[test]
    fn a_position_maps_to_the_last_mapping_before_it_on_its_line() {
        // The mappings are from 1:1 to a.ts:1:1, from 1:5 to a.ts:3:3, and from 3:2 to b.ts:3:3.
        let map = decoded("AAAA,IAEE;;CCAA").unwrap();
        let place = |line, column| map.place(line, column).map(|place| place.to_string());
        assert_eq!(place(1, 1).as_deref(), Some("a.ts:1:1"));
        assert_eq!(place(1, 4).as_deref(), Some("a.ts:1:1"));
        assert_eq!(place(1, 5).as_deref(), Some("a.ts:3:3"));
        assert_eq!(place(1, 500).as_deref(), Some("a.ts:3:3"));
        assert_eq!(place(2, 1), None);
        assert_eq!(place(3, 1), None);
        assert_eq!(place(3, 2).as_deref(), Some("b.ts:3:3"));
        assert_eq!(place(4, 1), None);
        assert_eq!(place(0, 0), None);
    }

    #[test]
    fn malformed_source_maps_and_those_beyond_the_budget_are_ignored() {
        assert!(decoded("AAAA,IAEE").is_some());
        assert!(decoded("AAZZZZ").is_none() && decoded("!").is_none());
        assert!(Decoded::of(b"{}", &BufferBudget::new(1 << 20)).is_none());
        let map = r#"{"version":3,"sources":["a.ts"],"names":[],"mappings":"AAAA,IAEE"}"#;
        assert!(Decoded::of(map.as_bytes(), &BufferBudget::new(16)).is_none());
    }

    proptest! {
        #[test]
        fn the_parts_of_an_arbitrary_frame_contain_its_text(frame in "[a-z(): ,0-9.]{0,40}") {
            if let Some((before, module, line, column, after)) = parts(&frame) {
                // The texts are equal except for leading zeros of the numbers.
                let digits = |text: &str| text.replace('0', "");
                let joined = format!("{before}{module}:{line}:{column}{after}");
                prop_assert_eq!(digits(&joined), digits(&frame));
            }
        }

        #[test]
        fn arbitrary_mappings_do_not_panic(
            mappings in "[A-Za-z0-9+/,;]{0,200}",
            line in 0..10_u32,
            column in 0..100_u32,
        ) {
            if let Some(map) = decoded(&mappings) {
                let _ = map.place(line, column);
            }
        }
    }
}

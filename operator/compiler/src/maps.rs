//! The source maps that are generated from TypeScript and those that authors provide.
//!
//! Bundlers write a source map beside a module, as `worker.js.map`, or into a comment at the end of
//! the module, `//# sourceMappingURL=data:application/json;base64,…`. A node needs only positions,
//! so a map is stored without the texts of sources and the names of variables that it may contain,
//! always as `NAME.map`. A malformed map is ignored, because code runs without a map.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use oxc_sourcemap::{SourceMap, Token};
use tenon_proto::module::{ModuleKind, resolve, source_map_of};
use tenon_proto::revision::{MAX_MODULES, MAX_SOURCE_BYTES};

/// The prefix of the comment in a module's last line that names the source map (ECMA-426).
const COMMENT: &str = "//# sourceMappingURL=";

/// Returns the code of a JavaScript module, without an inline source map, and the source map, if
/// the author provides one that can be read.
///
/// # Arguments
/// * `content` - the bytes of `source`.
pub(super) fn from_author(
    modules: &BTreeMap<String, Bytes>,
    file: &str,
    source: &str,
    content: &Bytes,
) -> (Bytes, Option<Bytes>) {
    let (code, map) = as_written(modules, file, source, content);
    (code, map.and_then(|json| read(&json)))
}

/// Returns the code and the source map like [`from_author`], but with all fields of the map, as its
/// author wrote it.
pub(super) fn as_written(
    modules: &BTreeMap<String, Bytes>,
    file: &str,
    source: &str,
    content: &Bytes,
) -> (Bytes, Option<Bytes>) {
    let url = comment(source);
    if let Some((before, data)) =
        url.and_then(|(before, url)| Some((before, url.strip_prefix("data:")?)))
    {
        let json = data.split_once(";base64,").and_then(|(_, data)| STANDARD.decode(data).ok());
        return (content.slice(..before.len()), json.map(Bytes::from));
    }
    let exists = |name: &str| modules.contains_key(name);
    let named = url.and_then(|(_, url)| {
        resolve(file, url, exists).or_else(|| resolve(file, &format!("./{url}"), exists))
    });
    let name = named.unwrap_or_else(|| source_map_of(file));
    (content.clone(), modules.get(&name).cloned())
}

/// Returns the text before the comment that refers to a source map, and the URL in the comment.
fn comment(source: &str) -> Option<(&str, &str)> {
    let (before, url) = source.trim_end().rsplit_once(COMMENT)?;
    (!url.contains(char::is_whitespace)).then_some((before, url))
}

fn read(json: &[u8]) -> Option<Bytes> {
    let map = SourceMap::from_json_string(std::str::from_utf8(json).ok()?).ok()?;
    Some(positions_only(map))
}

/// Returns a map reduced to positions, with source names relative to the Worker's root.
pub(super) fn positions_only(map: SourceMap<'_>) -> Bytes {
    let sources = names(&map).map(Cow::Owned).collect();
    let places = map.get_tokens().map(|token| {
        let (line, column) = (token.get_dst_line(), token.get_dst_col());
        Token::new(
            line,
            column,
            token.get_src_line(),
            token.get_src_col(),
            token.get_source_id(),
            None,
        )
    });
    let places = places.collect();
    SourceMap::new(None, Vec::new(), None, sources, Vec::new(), places, None)
        .to_json_string()
        .into()
}

/// Returns the names of a map's sources, relative to the Worker's root.
fn names(map: &SourceMap<'_>) -> impl Iterator<Item = String> {
    let root = map
        .get_source_root()
        .map(|root| root.trim_end_matches('/'))
        .filter(|root| !root.is_empty());
    map.get_sources().map(move |source| match root {
        Some(root) => format!("{root}/{source}"),
        None => without_leading_dots(source).to_owned(),
    })
}

/// Returns the text of a file by the name that stack traces show: of a module as it was written, or
/// of a source that a map contains.
pub(super) fn text_of(modules: &BTreeMap<String, Bytes>, file: &str) -> Option<String> {
    if let Some(content) = modules.get(file) {
        return String::from_utf8(content.to_vec()).ok();
    }
    let mut scripts = modules.keys().filter(|name| ModuleKind::of(name) == ModuleKind::JavaScript);
    scripts.find_map(|name| {
        let content = &modules[name];
        let json = as_written(modules, name, std::str::from_utf8(content).ok()?, content).1?;
        let map = SourceMap::from_json_string(std::str::from_utf8(&json).ok()?).ok()?;
        let index = u32::try_from(names(&map).position(|name| name == file)?).ok()?;
        map.get_source_content(index).map(str::to_owned)
    })
}

/// Removes leading `./` and `../` segments. Bundlers write these because they name a source
/// relative to the bundle.
fn without_leading_dots(mut path: &str) -> &str {
    while let Some(rest) = path.strip_prefix("../").or_else(|| path.strip_prefix("./")) {
        path = rest;
    }
    path
}

/// Adds source maps to modules, the smallest maps first, as long as modules and maps together do
/// not exceed [`MAX_SOURCE_BYTES`] and [`MAX_MODULES`]. Stack traces of a module whose map does not
/// fit show lines of the JavaScript.
///
/// # Arguments
/// * `maps` - the source maps, by the names of their modules.
pub(super) fn add(modules: &mut BTreeMap<String, Bytes>, maps: BTreeMap<String, Bytes>) {
    let maps = maps.into_iter().map(|(module, map)| (source_map_of(&module), map));
    insert_up_to(MAX_SOURCE_BYTES, modules, maps.collect());
}

/// Leaves out the largest source maps of compiled modules if not all maps fit into a size.
///
/// # Arguments
/// * `max_bytes` - the maximum total size of modules, maps and their names, in bytes. All modules
///   are kept, even if they exceed this size.
#[must_use]
pub fn without_maps_beyond(
    max_bytes: usize,
    compiled: BTreeMap<String, Bytes>,
) -> BTreeMap<String, Bytes> {
    let is_map = |name: &str| ModuleKind::of(name) == ModuleKind::SourceMap;
    let (maps, mut modules) =
        compiled.into_iter().partition::<BTreeMap<_, _>, _>(|(name, _)| is_map(name));
    insert_up_to(max_bytes, &mut modules, maps);
    modules
}

fn insert_up_to(
    max_bytes: usize,
    modules: &mut BTreeMap<String, Bytes>,
    maps: BTreeMap<String, Bytes>,
) {
    let size = |(name, content): (&String, &Bytes)| name.len() + content.len();
    let mut by_size: Vec<_> = maps.into_iter().collect();
    by_size.sort_by_key(|(_, map)| map.len());
    let mut room = max_bytes.saturating_sub(modules.iter().map(size).sum());
    for (name, map) in by_size {
        let size = size((&name, &map));
        if size > room || modules.len() == MAX_MODULES {
            break;
        }
        room -= size;
        modules.insert(name, map);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = r#"{"version":3,"sourceRoot":"","sources":["../src/./a.ts","b.ts"],"sourcesContent":["let a","let b"],"names":["x"],"mappings":"AAAAA,CCAA;;"}"#;

    fn modules(sources: &[(&str, &str)]) -> BTreeMap<String, Bytes> {
        sources
            .iter()
            .map(|(name, source)| ((*name).to_owned(), Bytes::copy_from_slice(source.as_bytes())))
            .collect()
    }

    /// Returns the code and map of the first module.
    fn code_and_map_of_first(sources: &[(&str, &str)]) -> (String, Option<String>) {
        let all = modules(sources);
        let (file, source) = sources[0];
        let (code, map) = from_author(&all, file, source, &all[file]);
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        (text(code), map.map(text))
    }

    #[test]
    fn the_text_of_a_file_is_found_by_the_name_in_stack_traces() {
        let all = modules(&[("worker.js", "let c"), ("worker.js.map", MAP), ("w.ts", "let t: 1")]);
        let text = |file| text_of(&all, file);
        assert_eq!(text("w.ts").as_deref(), Some("let t: 1"));
        assert_eq!(text("worker.js").as_deref(), Some("let c"));
        assert_eq!(text("src/./a.ts").as_deref(), Some("let a"));
        assert_eq!(text("b.ts").as_deref(), Some("let b"));
        assert_eq!(text("../b.ts"), None);
    }

    #[test]
    fn a_map_beside_a_module_is_kept_without_unused_fields() {
        let (code, map) = code_and_map_of_first(&[("worker.js", "let a"), ("worker.js.map", MAP)]);
        assert_eq!(code, "let a");
        let map = map.unwrap();
        assert!(
            map.contains(r#""sources":["src/./a.ts","b.ts"]"#)
                && map.contains(r#""mappings":"AAAA,CCAA"#),
            "{map}"
        );
        assert!(!map.contains("let") && !map.contains('x'), "{map}");
    }

    #[test]
    fn the_last_line_of_a_module_may_name_its_source_map() {
        let code = "let a\n//# sourceMappingURL=maps/w.map\n";
        let (kept, map) = code_and_map_of_first(&[("lib/w.js", code), ("lib/maps/w.map", MAP)]);
        assert!(map.is_some());
        assert_eq!(kept, code);
    }

    #[test]
    fn an_inline_source_map_is_extracted_from_its_module() {
        let data = STANDARD.encode(MAP);
        let code = format!(
            "let a\n//# sourceMappingURL=data:application/json;charset=utf-8;base64,{data}\n"
        );
        let (kept, map) = code_and_map_of_first(&[("worker.js", &code)]);
        assert_eq!(kept, "let a\n");
        assert!(map.is_some());
    }

    #[test]
    fn an_unreadable_map_is_ignored() {
        for map in [
            "",
            "{}",
            r#"{"version":3,"sections":[]}"#,
            r#"{"version":3,"sources":[],"mappings":"AAAA"}"#,
        ] {
            assert_eq!(
                code_and_map_of_first(&[("worker.js", "let a"), ("worker.js.map", map)]).1,
                None,
                "{map}"
            );
        }
        let code = "//# sourceMappingURL=data:application/json;base64,%%%";
        assert_eq!(code_and_map_of_first(&[("worker.js", code)]), (String::new(), None));
        let code = "let a = '//# sourceMappingURL=data:,x'; let b";
        assert_eq!(code_and_map_of_first(&[("worker.js", code)]), (code.to_owned(), None));
    }

    #[test]
    fn source_maps_that_exceed_the_limit_are_left_out() {
        const MAX_BYTES: usize = 10_000;
        let mut all =
            modules(&[("a.js", "a"), ("b.js", "b"), ("c.js", &"c".repeat(MAX_BYTES - 1_000))]);
        let map = |len: usize| Bytes::from(vec![b'm'; len]);
        let maps = [
            ("a.js.map".to_owned(), map(600)),
            ("b.js.map".to_owned(), map(300)),
            ("c.js.map".to_owned(), map(100)),
        ];
        all.extend(maps);
        let all = without_maps_beyond(MAX_BYTES, all);
        let names: Vec<_> = all.keys().map(String::as_str).collect();
        assert_eq!(names, ["a.js", "b.js", "b.js.map", "c.js", "c.js.map"]);
    }
}

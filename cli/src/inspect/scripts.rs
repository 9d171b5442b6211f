//! Describes each of a Worker's modules to clients by a URL and by a source map with the author's
//! source. This module is pure.
//!
//! A module that was read from a folder has the URL of its file, so an editor opens that file and
//! sets breakpoints in it. A module in a YAML file has a URL of its own, and clients show the
//! source that the map contains. A revision's source maps contain only positions, so this module
//! adds the sources. A map that the module's author wrote is passed on unchanged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::Value;
use tenon_engine::inspector::Script;
use tenon_proto::id::WorkerId;
use tenon_proto::module::{ModuleKind, source_map_of};
use url::Url;

/// Returns the URL below which a Worker's modules are.
///
/// # Arguments
/// * `folder` - the absolute path of the folder from which the modules were read, if they were read
///   from one.
pub(crate) fn base(worker: &WorkerId, folder: Option<PathBuf>) -> Url {
    let of_folder = folder.and_then(|folder| Url::from_directory_path(folder).ok());
    let url = of_folder.map_or_else(|| format!("tenon://{worker}/"), String::from);
    // Parsing removes segments such as `..`, which editors do not expect.
    url.parse().expect("a path that has been encoded, and names of objects, are valid in URLs")
}

/// Returns the description of each module of code for clients.
///
/// # Arguments
/// * `base` - the URL below which the modules are.
/// * `written` - the modules as their author wrote them.
/// * `compiled` - the modules as the Worker runs them, with their source maps.
pub(crate) fn of(
    base: &Url,
    written: &BTreeMap<String, Bytes>,
    compiled: &BTreeMap<String, Bytes>,
) -> BTreeMap<String, Script> {
    let code = compiled.keys().filter(|name| ModuleKind::of(name).is_code());
    code.map(|name| {
        let source_map_url = source_map(name, written, compiled).as_deref().map(data_url);
        (name.clone(), Script { url: url(base, name), source_map_url })
    })
    .collect()
}

fn url(base: &Url, name: &str) -> String {
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(name.split('/'));
    }
    url.into()
}

fn source_map(
    name: &str,
    written: &BTreeMap<String, Bytes>,
    compiled: &BTreeMap<String, Bytes>,
) -> Option<Bytes> {
    if ModuleKind::of(name) == ModuleKind::JavaScript {
        return tenon_compiler::source_map_as_written(written, name);
    }
    with_sources(compiled.get(&source_map_of(name))?, written)
}

/// Adds the text of a source map's sources to the map. Returns `None` if the map is malformed.
fn with_sources(map: &[u8], written: &BTreeMap<String, Bytes>) -> Option<Bytes> {
    let mut map: Value = serde_json::from_slice(map).ok()?;
    let source = |name: &Value| {
        let text = std::str::from_utf8(written.get(name.as_str()?)?).ok()?;
        Some(Value::from(text))
    };
    let sources = map.get("sources")?.as_array()?.iter();
    let sources: Vec<_> = sources.map(|name| source(name).unwrap_or_default()).collect();
    map.as_object_mut()?.insert("sourcesContent".to_owned(), sources.into());
    serde_json::to_vec(&map).ok().map(Bytes::from)
}

fn data_url(map: &[u8]) -> String {
    format!("data:application/json;base64,{}", BASE64_STANDARD.encode(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(modules: &[(&str, &str)]) -> BTreeMap<String, Bytes> {
        let modules = modules.iter();
        modules.map(|(name, text)| ((*name).to_owned(), Bytes::from((*text).to_owned()))).collect()
    }

    fn map_of(script: &Script) -> Value {
        let url = script.source_map_url.as_deref().unwrap();
        let encoded = url.strip_prefix("data:application/json;base64,").unwrap();
        serde_json::from_slice(&BASE64_STANDARD.decode(encoded).unwrap()).unwrap()
    }

    #[test]
    fn modules_of_a_folder_have_file_urls_and_others_have_urls_of_their_worker() {
        let worker = WorkerId::new("default", "shop");
        let url = |folder: Option<&str>, name| url(&base(&worker, folder.map(Into::into)), name);
        assert_eq!(url(Some("/a b/c/../shop"), "worker.ts"), "file:///a%20b/shop/worker.ts");
        assert_eq!(url(None, "lib/cart.js"), "tenon://default/shop/lib/cart.js");
        assert_eq!(url(None, "what?.js"), "tenon://default/shop/what%3F.js");
    }

    #[test]
    fn the_map_of_typescript_contains_the_source() {
        let written = modules(&[("worker.ts", "let a: 1;"), ("data.txt", "")]);
        let compiled = modules(&[
            ("worker.ts", "let a;"),
            ("worker.ts.map", r#"{"version":3,"sources":["worker.ts"],"mappings":"AAAA"}"#),
            ("data.txt", ""),
        ]);
        let worker = WorkerId::new("default", "shop");
        let scripts = of(&base(&worker, None), &written, &compiled);
        assert_eq!(scripts.keys().collect::<Vec<_>>(), ["worker.ts"]);
        let map = map_of(&scripts["worker.ts"]);
        assert_eq!(map["sourcesContent"][0], "let a: 1;");
        assert_eq!(map["mappings"], "AAAA");
    }

    #[test]
    fn the_map_of_a_bundle_is_the_one_that_its_author_wrote() {
        let map = r#"{"version":3,"sources":["../src/a.ts"],"sourcesContent":["a"],"mappings":""}"#;
        let bundle = [("worker.js", "a"), ("worker.js.map", map)];
        let worker = WorkerId::new("default", "shop");
        let scripts = of(&base(&worker, None), &modules(&bundle), &modules(&bundle[..1]));
        assert_eq!(map_of(&scripts["worker.js"])["sources"][0], "../src/a.ts");
        let plain = modules(&[("worker.js", "a")]);
        assert_eq!(of(&base(&worker, None), &plain, &plain)["worker.js"].source_map_url, None);
    }
}

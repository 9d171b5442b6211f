//! Schemas of maps with bounds that schemars has no attribute for.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Maximum length of each module: in characters for text, in bytes for data in base64. The size of
/// all modules together is bounded by etcd, where an object is at most 1.5 MiB.
const MAX_MODULE_LENGTH: u32 = 1024 * 1024;

/// Returns the schema of a revision's modules, which may come from a ConfigMap with up to 1,000
/// keys.
pub(crate) fn modules(_: &mut SchemaGenerator) -> Schema {
    up_to(1_000)
}

const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

/// Returns the schema of a revision's binary modules, in Base64.
pub(crate) fn binary_modules(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Modules that are not text.",
        "type": "object",
        "maxProperties": 1_000,
        // The format `byte` is not used, because the API server then accepts a list as well.
        "additionalProperties": {
            "type": "string",
            "pattern": BASE64,
            "maxLength": MAX_MODULE_LENGTH / 3 * 4 + 4,
        },
    })
}

pub(crate) fn inline_modules(_: &mut SchemaGenerator) -> Schema {
    let mut schema = up_to(256);
    schema.insert("nullable".to_owned(), true.into());
    schema
}

/// Returns the schema of text modules, of which there may be at most `modules`.
fn up_to(modules: u32) -> Schema {
    json_schema!({
        "description": "Source text by module name, a relative path such as `worker.js` or `lib/greet.ts`.",
        "type": "object",
        "minProperties": 1,
        "maxProperties": modules,
        "additionalProperties": { "type": "string", "maxLength": MAX_MODULE_LENGTH },
    })
}

/// Returns a CEL expression that holds if every key of a map matches a pattern.
///
/// # Arguments
/// * `pattern` - the pattern, a regular expression.
pub(crate) fn all_names(pattern: &str) -> String {
    format!("self.all(name, name.matches('{pattern}'))")
}

pub(crate) fn vars(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Variables, in the handler's `env`: text by name.",
        "type": "object",
        "maxProperties": 128,
        "additionalProperties": { "type": "string", "maxLength": 32768 },
    })
}

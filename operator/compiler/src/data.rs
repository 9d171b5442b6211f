//! Checks that the content of a module that is not code matches the module's kind.

use serde::de::IgnoredAny;
use tenon_proto::module::ModuleKind;

use super::CompileError;

/// Checks a module's content.
///
/// # Errors
/// Fails if the content is malformed. The error names the position.
pub(super) fn check(kind: ModuleKind, file: &str, content: &[u8]) -> Result<(), CompileError> {
    if !matches!(kind, ModuleKind::Json | ModuleKind::Text) {
        return Ok(());
    }
    let text = std::str::from_utf8(content).map_err(|error| {
        let valid = std::str::from_utf8(&content[..error.valid_up_to()]).unwrap_or_default();
        let message =
            "the module is not valid UTF-8; use an extension for binary data, such as .bin";
        CompileError::at(file, valid, valid.len(), message)
    })?;
    if kind == ModuleKind::Json { check_json(file, text) } else { Ok(()) }
}

/// Checks JSON. Values are skipped without recursion, so they may be nested to any depth.
fn check_json(file: &str, text: &str) -> Result<(), CompileError> {
    // A byte order mark, which some editors write, is not part of the text.
    let json = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Err(error) = serde_json::from_str::<IgnoredAny>(json) else { return Ok(()) };
    let before: usize =
        json.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let offset = text.len() - json.len() + before + error.column().saturating_sub(1);
    let message = error.to_string();
    let reason = message.split(" at line ").next().unwrap_or_default();
    Err(CompileError::at(file, text, offset, format!("malformed JSON: {reason}")))
}

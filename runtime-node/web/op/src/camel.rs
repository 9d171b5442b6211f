//! Names ops and the fields of records in JavaScript. The build script of `tenon-web` includes this
//! file as well.

/// Converts a name from snake case to camel case, and drops the leading underscore of an unused
/// parameter.
pub fn camel(name: &str) -> String {
    let mut words = name.trim_start_matches('_').split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut letters = word.chars();
        name.extend(letters.next().map(|initial| initial.to_ascii_uppercase()));
        name.push_str(letters.as_str());
        name
    })
}

//! The names of ops and of records' fields in JavaScript. The build script of `tenon-web` includes
//! this file as well.

/// Returns a name in snake case in camel case, without the leading underscore of a parameter that
/// is not used.
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

//! Patterns of paths: text, `:name` for a part of one segment, and `*` for any text. This module is
//! pure.
//!
//! A pattern has at most one `*`, after which only text may follow, so that a match is one pass
//! over the path.

use std::collections::BTreeMap;

/// The maximum length of a pattern, in bytes.
pub const MAX_PATTERN: usize = 1_000;

/// A pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Matches one or more characters other than `/`.
    Name(String),
    /// Matches any text, including `/`.
    Splat,
}

/// The parts of a path that a pattern's names matched. The name of `*` is `splat`.
pub type Captures<'p> = BTreeMap<&'p str, &'p str>;

/// The reason why a string is not a pattern.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidPattern {
    #[error("the path does not begin with /")]
    NoSlash,
    #[error("the path is longer than {MAX_PATTERN} bytes")]
    Long,
    #[error("the path has more than one *, or a :name after the *")]
    Splat,
}

impl Pattern {
    /// Parses a pattern such as `/blog/:year/*`.
    ///
    /// # Errors
    /// Fails if the text is not a pattern.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        if !text.starts_with('/') {
            return Err(InvalidPattern::NoSlash);
        }
        if text.len() > MAX_PATTERN {
            return Err(InvalidPattern::Long);
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let end = rest.find([':', '*']).unwrap_or(rest.len());
            let (before, from) = rest.split_at(end);
            push_text(&mut parts, before);
            rest = from;
            if let Some(after) = rest.strip_prefix('*') {
                if parts.contains(&Part::Splat) {
                    return Err(InvalidPattern::Splat);
                }
                parts.push(Part::Splat);
                rest = after;
            } else if let Some(after) = rest.strip_prefix(':') {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
                match &after[..end] {
                    name if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                        if parts.contains(&Part::Splat) {
                            return Err(InvalidPattern::Splat);
                        }
                        parts.push(Part::Name(name.to_owned()));
                    }
                    text => push_text(&mut parts, &format!(":{text}")),
                }
                rest = &after[end..];
            }
        }
        Ok(Self { parts })
    }

    /// Returns the only path that the pattern matches, if the pattern consists only of text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.parts[..] {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns whether the pattern matches a path.
    pub fn matches(&self, path: &str) -> bool {
        self.captures(path).is_some()
    }

    /// Returns the parts of a path that the names match, or `None` if the pattern does not match.
    pub fn captures<'p>(&'p self, path: &'p str) -> Option<Captures<'p>> {
        let (mut captures, mut rest) = (Captures::new(), path);
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            match part {
                Part::Text(text) => rest = rest.strip_prefix(text.as_str())?,
                Part::Name(name) => {
                    let segment = &rest[..rest.find('/').unwrap_or(rest.len())];
                    let end = match parts.peek() {
                        Some(Part::Text(text)) if !text.starts_with('/') => {
                            let text = text.split('/').next().unwrap_or_default();
                            segment.find(text)?
                        }
                        _ => segment.len(),
                    };
                    let (value, after) = rest.split_at(end);
                    if value.is_empty() {
                        return None;
                    }
                    captures.insert(name, value);
                    rest = after;
                }
                Part::Splat => {
                    let end = match parts.next() {
                        Some(Part::Text(text)) => rest.strip_suffix(text.as_str())?.len(),
                        _ => rest.len(),
                    };
                    captures.insert("splat", &rest[..end]);
                    rest = "";
                }
            }
        }
        rest.is_empty().then_some(captures)
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(before)) => before.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// Returns the template with every `:name` replaced with the text that the name has matched. Names
/// without a match stay unchanged.
pub fn substitute(template: &str, captures: &Captures<'_>) -> String {
    let (mut text, mut rest) = (String::with_capacity(template.len()), template);
    while let Some((before, after)) = rest.split_once(':') {
        text.push_str(before);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
        match captures.get(&after[..end]) {
            Some(value) => text.push_str(value),
            None => {
                text.push(':');
                text.push_str(&after[..end]);
            }
        }
        rest = &after[end..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pattern: &str, path: &str) -> Option<Vec<(String, String)>> {
        let pattern = Pattern::parse(pattern).unwrap();
        let captures = pattern.captures(path)?;
        Some(captures.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn a_pattern_matches_text_segments_and_the_rest() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for (pattern, path, expected) in [
            ("/a", "/a", Some(vec![])),
            ("/a", "/a/", None),
            ("/*", "/", Some(vec![pair("splat", "")])),
            ("/a/*", "/a/b/c", Some(vec![pair("splat", "b/c")])),
            ("/*.js", "/x/y.js", Some(vec![pair("splat", "x/y")])),
            ("/*.js", "/x/y.css", None),
            ("/b/:id", "/b/7", Some(vec![pair("id", "7")])),
            ("/b/:id", "/b/7/8", None),
            ("/b/:id", "/b/", None),
            ("/b/:id.html", "/b/7.html", Some(vec![pair("id", "7")])),
            ("/:a-:b/x", "/1-2/x", Some(vec![pair("a", "1"), pair("b", "2")])),
            ("/:8080", "/:8080", Some(vec![])),
        ] {
            assert_eq!(captured(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_refused() {
        for (text, error) in [
            ("a", InvalidPattern::NoSlash),
            ("/*/*", InvalidPattern::Splat),
            ("/*/:a", InvalidPattern::Splat),
        ] {
            assert_eq!(Pattern::parse(text), Err(error), "{text}");
        }
        assert_eq!(Pattern::parse(&"/".repeat(1_001)), Err(InvalidPattern::Long));
    }

    #[test]
    fn names_are_replaced_with_what_they_matched() {
        let pattern = Pattern::parse("/b/:year/*").unwrap();
        let captures = pattern.captures("/b/2024/x/y").unwrap();
        assert_eq!(
            substitute("https://h:8080/:year/:splat?:none", &captures),
            "https://h:8080/2024/x/y?:none"
        );
    }

    proptest::proptest! {
        #[test]
        fn matching_any_path_against_any_pattern_does_not_panic(
            pattern in "/[a:*/é.-]{0,12}",
            path in "/[a:*/é.-]{0,12}",
        ) {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                let _ = pattern.captures(&path);
            }
        }
    }
}

//! Parses `_headers`, in which each path is followed by indented lines with headers for the
//! responses to the path.

use http::{HeaderName, HeaderValue, header};

use super::{HEADERS_FILE, InvalidRule, RuleFault};
use crate::pattern::{Pattern, substitute};

/// The maximum number of paths with headers.
const MAX_RULES: usize = 100;

/// The maximum number of headers of all paths together.
const MAX_HEADERS: usize = 500;

/// Headers that describe how a response is transferred. A site may not change these headers.
const RESERVED: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The headers of a site's responses.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    rules: Vec<(Pattern, Vec<Change>)>,
}

/// A change of a response's headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a header, or adds a value if another rule has set the header.
    Set(HeaderName, String),
    Remove(HeaderName),
}

impl Headers {
    /// Parses the content of a file.
    ///
    /// # Errors
    /// Returns the lines that are not valid rules, and an entry for each limit that is exceeded.
    pub fn parse(text: &str) -> Result<Self, Vec<InvalidRule>> {
        let (mut rules, mut faults) = (Vec::<(Pattern, Vec<Change>)>::new(), Vec::new());
        // Whether the path of the current headers is invalid.
        let mut is_path_invalid = false;
        for (at, line) in text.lines().enumerate() {
            let content = line.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let parsed = if line.starts_with([' ', '\t']) {
                match rules.last_mut() {
                    _ if is_path_invalid => Ok(()),
                    None => Err(RuleFault::NoPath),
                    Some((_, changes)) => parse_change(content).map(|change| changes.push(change)),
                }
            } else {
                let parsed = Pattern::parse(content).map_err(RuleFault::from);
                is_path_invalid = parsed.is_err();
                parsed.map(|pattern| rules.push((pattern, Vec::new())))
            };
            if let Err(fault) = parsed {
                faults.push(InvalidRule { file: HEADERS_FILE, line: at + 1, fault });
            }
        }
        let headers: usize = rules.iter().map(|(_, changes)| changes.len()).sum();
        for (count, max) in [(rules.len(), MAX_RULES), (headers, MAX_HEADERS)] {
            if count > max {
                let line = text.lines().count();
                faults.push(InvalidRule { file: HEADERS_FILE, line, fault: RuleFault::Count(max) });
            }
        }
        if faults.is_empty() { Ok(Self { rules }) } else { Err(faults) }
    }

    /// Returns the changes for a path, in the order of the rules. Placeholders such as `:name` in
    /// values are replaced with the text that they matched.
    pub fn of(&self, path: &str) -> Vec<Change> {
        let mut found = Vec::new();
        for (pattern, changes) in &self.rules {
            let Some(captures) = pattern.captures(path) else { continue };
            found.extend(changes.iter().map(|change| match change {
                Change::Set(name, value) if value.contains(':') => {
                    Change::Set(name.clone(), substitute(value, &captures))
                }
                change => change.clone(),
            }));
        }
        found
    }
}

fn parse_change(content: &str) -> Result<Change, RuleFault> {
    let name = |text: &str| {
        let name: HeaderName = text.trim().parse().map_err(|_| RuleFault::Header)?;
        if RESERVED.contains(&name) { Err(RuleFault::Reserved(name.to_string())) } else { Ok(name) }
    };
    if let Some(removed) = content.strip_prefix('!') {
        return name(removed).map(Change::Remove);
    }
    let (before, value) = content.split_once(':').ok_or(RuleFault::Header)?;
    let value = value.trim();
    HeaderValue::from_str(value).map_err(|_| RuleFault::Header)?;
    Ok(Change::Set(name(before)?, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &'static str, value: &str) -> Change {
        Change::Set(HeaderName::from_static(name), value.to_owned())
    }

    #[test]
    fn a_path_has_the_headers_of_every_rule_that_matches() {
        let text = "# all\n/*\n  X-Frame-Options: DENY\n  Link: <https://h/:splat>; rel=x\n\n/a/*\n\tCache-Control: no-store\n  ! Link\n";
        let headers = Headers::parse(text).unwrap();
        let of = |path: &str| headers.of(path);
        let all = [set("x-frame-options", "DENY"), set("link", "<https://h/b>; rel=x")];
        assert_eq!(of("/b"), all);
        assert_eq!(
            of("/a/b")[2..],
            [set("cache-control", "no-store"), Change::Remove(header::LINK)]
        );
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let text = "  A: b\n/a\n  nothing\n  Content-Length: 1\nb\n  A: b\n";
        let faults = Headers::parse(text).unwrap_err();
        let lines: Vec<_> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 3, 4, 5]);
        assert_eq!(
            faults[2].to_string(),
            "_headers:4: the header content-length is set by the router; remove it"
        );
    }

    #[test]
    fn the_number_of_rules_is_bounded() {
        let many = "/a\n  A: b\n".repeat(MAX_RULES + 1);
        assert!(Headers::parse(&many).is_err());
        let many = format!("/a\n{}", "  A: b\n".repeat(MAX_HEADERS + 1));
        assert!(Headers::parse(&many).is_err());
    }
}

//! Parses `_redirects`, which has a line for each redirect, such as `/old/:id /new/:id 301`. The
//! first line that matches applies; lines with neither names nor `*` have precedence over the
//! others.

use std::collections::HashMap;

use super::{InvalidRule, REDIRECTS_FILE, RuleFault};
use crate::path;
use crate::pattern::{Pattern, substitute};

/// The maximum number of redirects whose path has neither names nor `*`.
const MAX_STATIC: usize = 2_000;
/// The maximum number of redirects whose path has names or `*`. A request may be compared with each
/// of them.
const MAX_DYNAMIC: usize = 100;

const FOUND: u16 = 302;

/// The redirects of a site.
#[derive(Clone, Debug, Default)]
pub struct Redirects {
    by_path: HashMap<String, Redirect>,
    by_pattern: Vec<(Pattern, Redirect)>,
}

/// A redirect, or a path whose content is served instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The status of the response; 200 if the content of the target is served without a redirect.
    pub status: u16,
    /// A path, or a URL.
    pub target: String,
}

impl Redirects {
    /// Parses the content of a file.
    ///
    /// # Errors
    /// Returns the lines that are not valid rules or exceed a limit.
    pub fn parse(text: &str) -> Result<Self, Vec<InvalidRule>> {
        let (mut redirects, mut faults) = (Self::default(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let content = line.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            if let Err(fault) = redirects.add(content) {
                faults.push(InvalidRule { file: REDIRECTS_FILE, line: at + 1, fault });
            }
        }
        if faults.is_empty() { Ok(redirects) } else { Err(faults) }
    }

    fn add(&mut self, content: &str) -> Result<(), RuleFault> {
        let words: Vec<_> =
            content.split_ascii_whitespace().take_while(|word| !word.starts_with('#')).collect();
        let (from, target, status) = match words[..] {
            [from, target] => (from, target, FOUND),
            [from, target, status] => (from, target, parse_status(status)?),
            _ => return Err(RuleFault::Words),
        };
        let is_path = target.starts_with('/');
        let is_url = target.starts_with("https://") || target.starts_with("http://");
        if !(is_path || is_url && status != 200)
            || !target.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(RuleFault::Target);
        }
        let redirect = Redirect { status, target: target.to_owned() };
        let pattern = Pattern::parse(from)?;
        match pattern.as_text() {
            Some(_) if self.by_path.len() == MAX_STATIC => {
                return Err(RuleFault::Count(MAX_STATIC));
            }
            Some(path) => _ = self.by_path.entry(path.to_owned()).or_insert(redirect),
            None if self.by_pattern.len() == MAX_DYNAMIC => {
                return Err(RuleFault::Count(MAX_DYNAMIC));
            }
            None => self.by_pattern.push((pattern, redirect)),
        }
        Ok(())
    }

    /// Returns the redirect of a decoded path, or `None` if no redirect matches. Names in the
    /// target are replaced with the text that they matched.
    pub fn of(&self, path: &str) -> Option<Redirect> {
        if let Some(redirect) = self.by_path.get(path) {
            return Some(redirect.clone());
        }
        self.by_pattern.iter().find_map(|(pattern, Redirect { status, target })| {
            let captures = pattern.captures(path)?;
            // The path is decoded, but the target is part of a URL.
            let encoded: Vec<_> =
                captures.iter().map(|(name, value)| (*name, path::encode(value))).collect();
            let captures = encoded.iter().map(|(name, value)| (*name, value.as_str())).collect();
            Some(Redirect {
                status: *status,
                target: same_host(target, substitute(target, &captures)),
            })
        })
    }
}

/// Returns the target. If the template is a path, the target is changed so that it stays on the
/// same host, because clients interpret `//host` as another host.
fn same_host(template: &str, target: String) -> String {
    let is_slash = |c| c == '/' || c == '\\';
    if template.starts_with('/') && target[1..].starts_with(is_slash) {
        format!("/{}", target.trim_start_matches(is_slash))
    } else {
        target
    }
}

fn parse_status(word: &str) -> Result<u16, RuleFault> {
    match word.parse() {
        Ok(status @ (200 | 301 | 302 | 303 | 307 | 308)) => Ok(status),
        _ => Err(RuleFault::Status(word.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_redirect_of_a_path_applies() {
        let text = "# old\n/a /b\n/a /c 301\n/blog/:id https://b.example/:id 308 # moved\n/app/* /index.html 200\n/out/* /:splat\n/:x /never 303\n";
        let redirects = Redirects::parse(text).unwrap();
        let of = |path: &str| {
            redirects.of(path).map(|Redirect { status, target }| format!("{status} {target}"))
        };
        assert_eq!(of("/a").as_deref(), Some("302 /b"));
        assert_eq!(of("/blog/7").as_deref(), Some("308 https://b.example/7"));
        assert_eq!(of("/app/x/y").as_deref(), Some("200 /index.html"));
        assert_eq!(of("/x/y"), None);
        assert_eq!(of("/out//evil.example").as_deref(), Some("302 /evil.example"));
        assert_eq!(of("/out/\\/evil.example").as_deref(), Some("302 /%5C/evil.example"));
        assert_eq!(of("/blog/a b\r\n").as_deref(), Some("308 https://b.example/a%20b%0D%0A"));
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let text = "/a\n/a /b 404\na /b\n/a ftp://b\n/a https://b 200\n/a /b 301 x\n";
        let faults = Redirects::parse(text).unwrap_err();
        assert_eq!(faults.len(), 6);
        assert_eq!(
            faults[1].to_string(),
            "_redirects:2: \"404\" is not a redirect status; use 200, 301, 302, 303, 307 or 308"
        );
    }

    #[test]
    fn the_number_of_redirects_is_bounded() {
        let lines =
            |count: usize, form: fn(usize) -> String| (0..count).map(form).collect::<String>();
        assert!(Redirects::parse(&lines(MAX_STATIC, |i| format!("/{i} /b\n"))).is_ok());
        assert!(Redirects::parse(&lines(MAX_STATIC + 1, |i| format!("/{i} /b\n"))).is_err());
        assert!(Redirects::parse(&lines(MAX_DYNAMIC + 1, |i| format!("/{i}/* /b\n"))).is_err());
    }
}

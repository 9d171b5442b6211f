//! Writes the page of a failure as HTML. This module is pure.
//!
//! All texts may be hostile: a package that throws chooses its message, and a client its path. They
//! are escaped, and the page's policy lets no script run except the page's own, by its hash.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use sha2::{Digest as _, Sha256};
use tenon_proto::failure::Failure;
use tenon_proto::id::WorkerId;

use super::BUILD_PATH;
use crate::dev::excerpt::Excerpt;

/// The style of the page.
const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; white-space: pre-wrap; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
pre { overflow-x: auto; padding: 0.75rem; border-left: 3px solid #c33; tab-size: 4;
  background: color-mix(in srgb, currentColor 6%, transparent); }
pre, code, li, summary { font-family: ui-monospace, monospace; font-size: 0.9rem; }
mark { background: color-mix(in srgb, #c33 25%, transparent); color: inherit; }
ol { list-style: none; padding: 0; }
ul { padding-left: 1.2rem; }
footer, .about { color: color-mix(in srgb, currentColor 65%, transparent); font-size: 0.9rem; }
";

/// The script of the page: reloads the page when the name of the build changes. While `tenon dev`
/// does not run, the script keeps asking.
const SCRIPT: &str = r#"
const { build, path } = document.currentScript.dataset;
const look = async () => {
  try {
    const response = await fetch(path, { cache: "no-store" });
    if (response.ok && (await response.text()) !== build) return location.reload();
  } catch {}
  setTimeout(look, 500);
};
look();
"#;

static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = BASE64_STANDARD.encode(Sha256::digest(SCRIPT));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    policy.parse().expect("the policy is valid in a header")
});

/// Returns the Content-Security-Policy of every page.
pub(super) fn policy() -> HeaderValue {
    POLICY.clone()
}

/// The content of a page.
pub(super) struct Report<'a> {
    pub(super) failure: &'a Failure,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) request_id: &'a str,
    pub(super) worker: Option<&'a WorkerId>,
    /// The messages of exceptions, each with its stack.
    pub(super) exceptions: Vec<(String, Vec<Frame>)>,
    pub(super) problems: Vec<String>,
    /// Number of problems that are not shown.
    pub(super) hidden: usize,
    /// The URLs of all Workers, for a request that belongs to none.
    pub(super) urls: Vec<(String, WorkerId)>,
    /// The current build, if the page reloads itself once there is another one.
    pub(super) build: Option<String>,
}

/// A frame of a stack.
pub(super) struct Frame {
    pub(super) text: String,
    pub(super) excerpt: Option<Excerpt>,
    /// Whether the code is the author's own.
    pub(super) is_own: bool,
}

impl Report<'_> {
    /// Returns the page.
    pub(super) fn html(&self) -> String {
        let mut html = String::new();
        self.write(&mut html).expect("writing to a `String` cannot fail");
        html
    }

    fn write(&self, html: &mut String) -> fmt::Result {
        let Failure { code, message, .. } = self.failure;
        let title = self.exceptions.first().map_or(message, |(message, _)| message);
        write!(
            html,
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n<p class=\"about\"><code>{code}</code> · {} {}",
            escaped(title),
            escaped(self.method),
            escaped(self.path)
        )?;
        if let Some(worker) = self.worker {
            write!(html, " · Worker {}", escaped(worker.as_str()))?;
        }
        html.push_str("</p>\n");
        if self.exceptions.is_empty() {
            writeln!(html, "<h1>{}</h1>", escaped(message))?;
        }
        for (message, frames) in &self.exceptions {
            writeln!(html, "<h1>{}</h1>", escaped(message))?;
            write_stack(html, frames)?;
        }
        if !self.problems.is_empty() {
            html.push_str("<h2>Problems in the files</h2>\n");
            for problem in &self.problems {
                writeln!(html, "<pre>{}</pre>", escaped(problem))?;
            }
            if self.hidden > 0 {
                writeln!(html, "<p>The terminal shows {} more.</p>", self.hidden)?;
            }
        }
        if !self.urls.is_empty() {
            html.push_str("<h2>Workers</h2>\n<ul>\n");
            for (url, worker) in &self.urls {
                let (shown, worker) = (escaped(url), escaped(worker.as_str()));
                // A URL with a wildcard cannot be opened.
                match url.contains('*') {
                    true => writeln!(html, "<li>{shown} {worker}</li>")?,
                    false => writeln!(html, "<li><a href=\"{shown}\">{shown}</a> {worker}</li>")?,
                }
            }
            html.push_str("</ul>\n");
        }
        writeln!(html, "<footer><p>Request {}. ", escaped(self.request_id))?;
        if self.build.is_some() {
            html.push_str("The page reloads itself after the next build. ");
        }
        html.push_str("On a cluster, clients get only the code.</p></footer>\n");
        if let Some(build) = &self.build {
            let build = escaped(build);
            writeln!(
                html,
                "<script data-build=\"{build}\" data-path=\"{BUILD_PATH}\">{SCRIPT}</script>"
            )?;
        }
        Ok(())
    }
}

/// Writes a stack. The first frame of the author's own code that has an excerpt shows it, or else
/// the first frame that has one. The others show theirs on a click.
fn write_stack(html: &mut String, frames: &[Frame]) -> fmt::Result {
    let has_source = |frame: &Frame| frame.excerpt.is_some();
    let own = frames.iter().position(|frame| has_source(frame) && frame.is_own);
    let open = own.or_else(|| frames.iter().position(has_source));
    html.push_str("<ol>\n");
    for (at, frame) in frames.iter().enumerate() {
        let text = escaped(&frame.text);
        match &frame.excerpt {
            Some(excerpt) => {
                let open = if open == Some(at) { " open" } else { "" };
                write!(html, "<li><details{open}><summary>{text}</summary>")?;
                write_source(html, excerpt)?;
                html.push_str("</details></li>\n");
            }
            None => writeln!(html, "<li>{text}</li>")?,
        }
    }
    html.push_str("</ol>\n");
    Ok(())
}

fn write_source(html: &mut String, excerpt: &Excerpt) -> fmt::Result {
    let width = excerpt.gutter();
    html.push_str("<pre>");
    for (number, line, is_marked) in excerpt.numbered() {
        let line = escaped(line);
        match is_marked {
            true => {
                let indent = excerpt.indent();
                writeln!(html, "<mark>{number:width$} | {line}</mark>")?;
                writeln!(html, "{:width$} | {indent}^", "")?;
            }
            false => writeln!(html, "{number:width$} | {line}")?,
        }
    }
    html.push_str("</pre>");
    Ok(())
}

/// Escapes a text for HTML: as the content of an element, and as a quoted attribute.
fn escaped(text: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        for c in text.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Invisible characters could hide or reorder the text around them.
                c if is_hidden(c) => write!(f, "{}", c.escape_unicode())?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    })
}

/// Returns whether a character controls the text, other than a line end or a tab.
fn is_hidden(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use tenon_proto::failure::{FailureCode, Phase, Place};

    use super::*;

    const HOSTILE: &str = "</title></pre><script>alert(1)</script><img src=x onerror='a()' \"&amp;";

    #[test]
    fn hostile_texts_add_no_element_and_no_attribute() {
        let failure = Failure::new(FailureCode::WorkerException, Phase::Handler, HOSTILE);
        let place = Place { file: "a.js".to_owned(), line: 1, column: 3 };
        let frame = || Frame {
            text: HOSTILE.to_owned(),
            excerpt: Excerpt::of(HOSTILE, &place),
            is_own: true,
        };
        let worker = WorkerId::new("default", "shop");
        let report = Report {
            failure: &failure,
            method: "GET",
            path: HOSTILE,
            request_id: HOSTILE,
            worker: Some(&worker),
            exceptions: vec![(HOSTILE.to_owned(), vec![frame(), frame()])],
            problems: vec![HOSTILE.to_owned()],
            hidden: 1,
            urls: vec![(format!("http://{HOSTILE}/"), worker.clone())],
            build: Some(HOSTILE.to_owned()),
        };
        let html = report.html();
        assert_eq!(html.matches("<script").count(), 1, "{html}");
        assert!(!html.contains("<img") && html.contains("&lt;img"), "{html}");
        assert_eq!(html.matches("</title>").count(), 1, "{html}");
        assert!(!html.contains("onerror='"), "{html}");
        let harmless = Report { exceptions: Vec::new(), ..report };
        assert!(harmless.html().contains("<h1>&lt;/title&gt;"));
    }

    #[test]
    fn characters_that_hide_or_reorder_text_are_shown() {
        assert_eq!(escaped("a\u{202e}b\u{1b}\tc\n").to_string(), "a\\u{202e}b\\u{1b}\tc\n");
    }

    #[test]
    fn the_policy_allows_the_script_of_the_page_by_its_hash() {
        let policy = policy();
        let policy = policy.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'unsafe-inline'; "), "{policy}");
        assert!(policy.contains("script-src 'sha256-") && !policy.contains("script-src 'unsafe"));
    }
}

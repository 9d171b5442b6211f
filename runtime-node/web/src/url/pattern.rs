//! The native half of `urlpattern.js`: parsing of patterns, and of the inputs that are matched with
//! them.
//!
//! A pattern becomes eight components, each a regular expression that V8 compiles and runs, and can
//! terminate at any time. The work of this module is bounded by the length of the text, which is
//! limited.
//!
//! The crate `urlpattern` parses URLs, both in patterns and in inputs, with the crate `url` and not
//! with the parser of `URL`: the serializations of patterns and inputs must agree, and `URL`
//! encodes a `^` in a path, which the crate `url` does not.

use std::cell::OnceCell;
use std::panic::{self, AssertUnwindSafe};

use regex::bytes::{Regex, RegexBuilder};
use tenon_engine::thrown::Thrown;
use tenon_op::{Record, op};
use url::Url;
use urlpattern::component::Component;
use urlpattern::quirks::{self, MatchInput, StringOrInit};
use urlpattern::regexp::RegExp;
use urlpattern::{RegexSyntax, UrlPattern, UrlPatternInit, UrlPatternOptions};

use crate::ops::{Argument, Arguments, Nullable};

/// The number of components of an init and of a pattern, which are in the order of `urlpattern.js`.
/// An init also has a base URL.
const COMPONENTS: usize = 8;

/// The maximum length of a pattern's text or of each component of an init, in bytes: the search for
/// duplicate names takes quadratic time.
const MAX_PATTERN: usize = 4096;

/// Limits on the regular expression of a protocol, which is matched here: its length and its
/// memory, in bytes, and the nesting depth of its groups.
const PROTOCOL_LENGTH: usize = 256;
const PROTOCOL_MEMORY: usize = 32 << 10;
const PROTOCOL_DEPTH: u32 = 16;

/// A regular expression in V8's syntax. It is matched here only to find out whether the protocol is
/// a special one. The crate `regex` then compiles it; an expression that both V8 and `regex`
/// support has the same meaning in both. Only ASCII letters are supported: schemes have no others.
struct Expression {
    text: String,
    compiled: OnceCell<Option<Regex>>,
}

impl Expression {
    fn compiled(&self) -> Option<&Regex> {
        let compile = || {
            let mut builder = RegexBuilder::new(&self.text);
            builder
                .unicode(false)
                .size_limit(PROTOCOL_MEMORY)
                .dfa_size_limit(PROTOCOL_MEMORY)
                .nest_limit(PROTOCOL_DEPTH);
            if self.text.len() <= PROTOCOL_LENGTH { builder.build().ok() } else { None }
        };
        self.compiled.get_or_init(compile).as_ref()
    }
}

impl RegExp for Expression {
    fn syntax() -> RegexSyntax {
        RegexSyntax::EcmaScript
    }

    fn parse(pattern: &str, _flags: &str, _force_eval: bool) -> Result<Self, ()> {
        Ok(Self { text: pattern.to_owned(), compiled: OnceCell::new() })
    }

    fn matches<'a>(&self, text: &'a str) -> Option<Vec<Option<&'a str>>> {
        self.compiled()?.is_match(text.as_bytes()).then(Vec::new)
    }

    fn pattern_string(&self) -> &str {
        &self.text
    }
}

/// A pattern's or an input's source.
pub(crate) enum Input {
    Text(String),
    /// The components, with the base URL last.
    Init(Box<[Option<String>; COMPONENTS + 1]>),
}

impl Input {
    fn longest(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Init(parts) => {
                parts[..COMPONENTS].iter().flatten().map(String::len).max().unwrap_or_default()
            }
        }
    }

    fn into_quirks(self) -> StringOrInit<'static> {
        match self {
            Self::Text(text) => StringOrInit::String(text.into()),
            Self::Init(parts) => {
                let [
                    protocol,
                    username,
                    password,
                    hostname,
                    port,
                    pathname,
                    search,
                    hash,
                    base_url,
                ] = *parts;
                StringOrInit::Init(quirks::UrlPatternInit {
                    protocol,
                    username,
                    password,
                    hostname,
                    port,
                    pathname,
                    search,
                    hash,
                    base_url,
                })
            }
        }
    }
}

/// A string, or an array of strings and `undefined`.
impl<'s> Argument<'s> for Input {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let value: v8::Local<'_, v8::Value> = arguments.take(scope)?;
        let Ok(list) = value.try_cast::<v8::Array>() else {
            return Ok(Self::Text(value.to_rust_string_lossy(scope)));
        };
        let part = |index: usize| {
            let part = list.get_index(scope, index as u32)?.try_cast::<v8::String>().ok()?;
            Some(part.to_rust_string_lossy(scope))
        };
        Ok(Self::Init(Box::new(std::array::from_fn(part))))
    }
}

/// Runs the parser. The parser is intricate and its input comes from a tenant, so a panic is
/// treated as an invalid input.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("it cannot be parsed".to_owned()))
}

fn parse(
    input: Input,
    base: Option<&str>,
    ignore_case: bool,
) -> Result<UrlPattern<Expression>, String> {
    if input.longest() > MAX_PATTERN {
        return Err(format!("a pattern may have at most {MAX_PATTERN} bytes"));
    }
    catch_panic(|| {
        let init = match input.into_quirks() {
            StringOrInit::String(text) => {
                let base = base.map(Url::parse).transpose().map_err(|error| error.to_string())?;
                UrlPatternInit::parse_constructor_string::<Expression>(&text, base)
                    .map_err(|error| error.to_string())?
            }
            init => quirks::process_construct_pattern_input(init, base)
                .map_err(|error| error.to_string())?,
        };
        let options = UrlPatternOptions { regex_syntax: RegexSyntax::EcmaScript, ignore_case };
        UrlPattern::parse(init, options).map_err(|error| error.to_string())
    })
}

/// A pattern that has been parsed.
#[derive(Record)]
pub(crate) struct Pattern {
    /// Set if the pattern contains a regular expression that its author has written.
    has_reg_exp_groups: bool,
    /// The components in the order of `urlpattern.js`.
    components: Vec<ComponentPattern>,
}

/// A component of a pattern: its text, and the regular expression with the names of its groups.
#[derive(Record)]
pub(crate) struct ComponentPattern {
    text: String,
    expression: String,
    group_names: Vec<String>,
}

/// Parses a pattern.
///
/// # Errors
/// Returns a `TypeError` if the pattern is invalid.
#[op]
pub(crate) fn url_pattern(
    input: Input,
    base: Option<String>,
    ignore_case: bool,
) -> Result<Pattern, Thrown> {
    let pattern = parse(input, base.as_deref(), ignore_case).map_err(invalid)?;
    let has_reg_exp_groups = pattern.has_regexp_groups();
    let UrlPattern { protocol, username, password, hostname, port, pathname, search, hash } =
        pattern;
    let components = [protocol, username, password, hostname, port, pathname, search, hash];
    let components = components.into_iter().map(|component| {
        let Component { pattern_string, regexp, group_name_list, .. } = component;
        let expression = regexp.map_or_else(|_| String::new(), |expression| expression.text);
        ComponentPattern { text: pattern_string, expression, group_names: group_name_list }
    });
    Ok(Pattern { has_reg_exp_groups, components: components.collect() })
}

fn invalid(why: String) -> Thrown {
    Thrown::type_error(format!("URLPattern: {why}"))
}

fn components(input: Input, base: Option<&str>) -> Result<Option<MatchInput>, String> {
    catch_panic(|| {
        let input = quirks::process_match_input(input.into_quirks(), base)
            .map_err(|error| error.to_string())?;
        Ok(input.and_then(|(input, _)| quirks::parse_match_input(input)))
    })
}

/// Returns the eight components of an input; null if the input cannot match any pattern.
///
/// # Errors
/// Returns a `TypeError` if there is a base URL together with an init, or if the parser panics.
#[op]
pub(crate) fn url_pattern_input(
    input: Input,
    base: Option<String>,
) -> Result<Nullable<Vec<String>>, Thrown> {
    let input = components(input, base.as_deref()).map_err(invalid)?;
    Ok(Nullable(input.map(|input| {
        let MatchInput { protocol, username, password, hostname, port, pathname, search, hash } =
            input;
        vec![protocol, username, password, hostname, port, pathname, search, hash]
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pathname(text: &str) -> String {
        let mut parts = [const { None }; COMPONENTS + 1];
        parts[5] = Some(text.to_owned());
        parse(Input::Init(Box::new(parts)), None, false).unwrap().pathname.pattern_string
    }

    #[test]
    fn a_pattern_is_serialized_in_its_simplest_form() {
        assert_eq!(pathname("/books/:id(\\d+)"), "/books/:id(\\d+)");
        assert_eq!(pathname("/(.*)"), "/*");
    }

    #[test]
    fn a_pattern_that_makes_the_parser_panic_is_refused() {
        assert!(catch_panic::<()>(|| panic!("as a parser might")).is_err());
        for text in ["https://a]b/", "https://[a]]:80/", "{", "(", ":", "https://:80", "\\"] {
            let _either = parse(Input::Text(text.to_owned()), None, false);
        }
    }

    #[test]
    fn a_long_pattern_is_refused() {
        let text = format!("https://host/{}", "a".repeat(MAX_PATTERN));
        assert!(parse(Input::Text(text), None, false).is_err());
    }

    #[test]
    fn a_pattern_that_matches_a_special_scheme_is_treated_as_special() {
        let pattern = parse(Input::Text("http{s}?://host:8080/a".to_owned()), None, false).unwrap();
        assert_eq!(pattern.port.pattern_string, "8080");
        assert_eq!(pattern.pathname.pattern_string, "/a");
    }
}

//! The native half of `urlpattern.js`: parsing of patterns, and of the inputs that they are matched
//! with.
//!
//! A pattern becomes eight components, each a regular expression that V8 compiles and runs, where
//! it can be terminated however long it takes. This module does only work that is bounded by the
//! length of the text, which is limited.

use std::cell::OnceCell;
use std::panic::{self, AssertUnwindSafe};

use regex::bytes::{Regex, RegexBuilder};
use tenon_engine::thrown::Thrown;
use url::Url;
use urlpattern::component::Component;
use urlpattern::quirks::{self, MatchInput, StringOrInit};
use urlpattern::regexp::RegExp;
use urlpattern::{RegexSyntax, UrlPattern, UrlPatternInit, UrlPatternOptions};

crate::ops::native! {
    "urlPattern(input: string | string[], base: string | undefined, ignoreCase: boolean): Pattern" => pattern,
    "urlPatternInput(input: string | string[], base: string | undefined): string[] | null" => input,
}

/// The components of an init and of a pattern, in the order of `urlpattern.js`; an init also has a
/// base URL.
const COMPONENTS: usize = 8;

/// The longest text of a pattern, in bytes: the search for duplicate names takes quadratic time.
const LONGEST_PATTERN: usize = 4096;

/// Limits on a protocol's expression that is matched here: its length and its memory, in bytes, and
/// the nesting depth of its groups.
const PROTOCOL: usize = 256;
const PROTOCOL_MEMORY: usize = 32 << 10;
const PROTOCOL_DEPTH: u32 = 16;

/// A regular expression in V8's syntax. It is matched here only to find out whether the protocol is
/// a special one, and then in the syntax of the `regex` crate, which has the same meaning except
/// for features that only V8 has. Only ASCII letters are supported: schemes have no others.
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
            if self.text.len() <= PROTOCOL { builder.build().ok() } else { None }
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
enum Input {
    Text(String),
    /// The components, with the base URL last.
    Init(Box<[Option<String>; COMPONENTS + 1]>),
}

impl Input {
    /// Converts a string, or an array of strings and undefined.
    fn from_value(scope: &mut v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> Self {
        let Ok(list) = value.try_cast::<v8::Array>() else {
            return Self::Text(value.to_rust_string_lossy(scope));
        };
        let part = |index: usize| {
            let part = list.get_index(scope, index as u32)?.try_cast::<v8::String>().ok()?;
            Some(part.to_rust_string_lossy(scope))
        };
        Self::Init(Box::new(std::array::from_fn(part)))
    }

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

/// Runs the parser. It is intricate and its input comes from a tenant: a panic makes the input
/// invalid.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("it cannot be parsed".to_owned()))
}

fn parse(
    input: Input,
    base: Option<&str>,
    ignore_case: bool,
) -> Result<UrlPattern<Expression>, String> {
    if input.longest() > LONGEST_PATTERN {
        return Err(format!("a pattern may have at most {LONGEST_PATTERN} bytes"));
    }
    guarded(|| {
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

/// `urlPattern(input, base | undefined, ignoreCase)`: returns [whether it contains an expression
/// written by its author, then each component's text, expression and array of group names]. Throws
/// a `TypeError` if the pattern is invalid.
pub(crate) fn pattern(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let input = Input::from_value(scope, args.get(0));
    let base =
        args.get(1).try_cast::<v8::String>().ok().map(|base| base.to_rust_string_lossy(scope));
    match parse(input, base.as_deref(), args.get(2).is_true()) {
        Ok(pattern) => {
            if let Some(parts) = shown(scope, &pattern) {
                result.set(v8::Array::new_with_elements(scope, &parts).into());
            }
        }
        Err(why) => Thrown::type_error(format!("URLPattern: {why}")).throw(scope),
    }
}

fn shown<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    pattern: &UrlPattern<Expression>,
) -> Option<Vec<v8::Local<'s, v8::Value>>> {
    let UrlPattern { protocol, username, password, hostname, port, pathname, search, hash } =
        pattern;
    let mut parts = vec![v8::Boolean::new(scope, pattern.has_regexp_groups()).into()];
    for component in [protocol, username, password, hostname, port, pathname, search, hash] {
        let Component { pattern_string, regexp, group_name_list, .. } = component;
        let expression = regexp.as_ref().map_or("", |regexp| regexp.pattern_string());
        parts.push(v8::String::new(scope, pattern_string)?.into());
        parts.push(v8::String::new(scope, expression)?.into());
        let names: Option<Vec<v8::Local<'_, v8::Value>>> =
            group_name_list.iter().map(|name| Some(v8::String::new(scope, name)?.into())).collect();
        parts.push(v8::Array::new_with_elements(scope, &names?).into());
    }
    Some(parts)
}

fn components(input: Input, base: Option<&str>) -> Result<Option<MatchInput>, String> {
    guarded(|| {
        let input = quirks::process_match_input(input.into_quirks(), base)
            .map_err(|error| error.to_string())?;
        Ok(input.and_then(|(input, _)| quirks::parse_match_input(input)))
    })
}

/// `urlPatternInput(input, base | undefined)`: returns the input's eight components, or null if it
/// cannot match. Throws a `TypeError` for a base URL beside an init.
pub(crate) fn input(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let input = Input::from_value(scope, args.get(0));
    let base =
        args.get(1).try_cast::<v8::String>().ok().map(|base| base.to_rust_string_lossy(scope));
    match components(input, base.as_deref()) {
        Ok(None) => result.set_null(),
        Ok(Some(input)) => {
            let MatchInput { protocol, username, password, hostname, port, pathname, search, hash } =
                input;
            let parts = [protocol, username, password, hostname, port, pathname, search, hash];
            let strings: Option<Vec<v8::Local<'_, v8::Value>>> =
                parts.iter().map(|part| Some(v8::String::new(scope, part)?.into())).collect();
            if let Some(strings) = strings {
                result.set(v8::Array::new_with_elements(scope, &strings).into());
            }
        }
        Err(why) => Thrown::type_error(format!("URLPattern: {why}")).throw(scope),
    }
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
    fn a_pattern_says_itself_in_its_simplest_form() {
        assert_eq!(pathname("/books/:id(\\d+)"), "/books/:id(\\d+)");
        assert_eq!(pathname("/(.*)"), "/*");
    }

    #[test]
    fn what_makes_the_parser_panic_is_refused() {
        assert!(guarded::<()>(|| panic!("as a parser might")).is_err());
        for text in ["https://a]b/", "https://[a]]:80/", "{", "(", ":", "https://:80", "\\"] {
            let _either = parse(Input::Text(text.to_owned()), None, false);
        }
    }

    #[test]
    fn a_long_pattern_is_refused() {
        let text = format!("https://host/{}", "a".repeat(LONGEST_PATTERN));
        assert!(parse(Input::Text(text), None, false).is_err());
    }

    #[test]
    fn a_special_scheme_is_known_by_any_expression_that_matches_it() {
        let pattern = parse(Input::Text("http{s}?://host:8080/a".to_owned()), None, false).unwrap();
        assert_eq!(pattern.port.pattern_string, "8080");
        assert_eq!(pattern.pathname.pattern_string, "/a");
    }
}

//! The native half of `url.js`: the parser and the serializer.
//!
//! A URL is passed to JavaScript as its serialization, which is ASCII, and the offsets of its
//! parts. The offsets are written to a `Uint32Array` that JavaScript keeps for that purpose; they
//! are valid until the next call.

mod amends;
pub(crate) mod pattern;
mod plain;

use std::panic::{self, AssertUnwindSafe};

use tenon_engine::bytes::cells;
use tenon_op::op;
use url::{Position, Url, form_urlencoded, quirks};

/// The number of offsets that describe a URL.
const OFFSETS: usize = 11;

/// Returns the offsets of all parts of a serialization, in the order of `record` in `url.js`.
fn offsets(url: &Url) -> [usize; OFFSETS] {
    let at = |position: Position| url[..position].len();
    let username_end = at(Position::AfterUsername);
    // The positions around the password are wrong if there is a user name but no password.
    let password = url.password().map_or(username_end..username_end, |password| {
        let start = username_end + ":".len();
        start..start + password.len()
    });
    [
        at(Position::AfterScheme),
        at(Position::BeforeUsername),
        username_end,
        password.start,
        password.end,
        at(Position::BeforeHost),
        at(Position::AfterHost),
        at(Position::AfterPort),
        at(Position::BeforePath),
        at(Position::AfterPath),
        at(Position::AfterQuery),
    ]
}

/// A part that has a setter.
#[derive(Clone, Copy)]
enum Part {
    Protocol,
    Username,
    Password,
    Host,
    Hostname,
    Port,
    Pathname,
    Search,
    Hash,
}

impl Part {
    /// Returns the part with this number in `url.js`.
    fn from_number(number: u32) -> Option<Self> {
        use Part::*;
        [Protocol, Username, Password, Host, Hostname, Port, Pathname, Search, Hash]
            .get(number as usize)
            .copied()
    }

    /// Implements the setter. An invalid value leaves the URL unchanged, as the standard requires.
    fn set(self, url: &mut Url, value: &str) {
        let _unchanged_if_refused = match self {
            Self::Protocol => quirks::set_protocol(url, value),
            Self::Username => quirks::set_username(url, value),
            Self::Password => quirks::set_password(url, value),
            Self::Host => quirks::set_host(url, value),
            Self::Hostname => quirks::set_hostname(url, value),
            Self::Port => quirks::set_port(url, value),
            Self::Pathname => {
                if !amends::set_path_alone(url, value) {
                    quirks::set_pathname(url, value);
                }
                Ok(())
            }
            Self::Search => {
                quirks::set_search(url, value);
                Ok(())
            }
            Self::Hash => {
                quirks::set_hash(url, value);
                Ok(())
            }
        };
    }
}

/// A URL and its offsets.
struct Parsed {
    url: Url,
    offsets: [usize; OFFSETS],
}

fn parse(input: &str, base: Option<&str>) -> Option<Parsed> {
    guarded(|| match base {
        None => Url::parse(input).ok(),
        Some(base) => Url::parse(base).ok()?.join(input).ok(),
    })
}

fn set(href: &str, part: Part, value: &str) -> Option<Parsed> {
    guarded(|| {
        let mut url = Url::parse(href).ok()?;
        part.set(&mut url, value);
        Some(url)
    })
}

/// Runs the parser. Its input comes from a tenant and the parser is intricate: a panic makes the
/// URL invalid instead of ending the process.
fn guarded(make: impl FnOnce() -> Option<Url>) -> Option<Parsed> {
    let made = panic::catch_unwind(AssertUnwindSafe(|| {
        let url = amends::amended(make()?);
        let offsets = offsets(&url);
        Some(Parsed { url, offsets })
    }));
    made.ok().flatten()
}

/// The result of parsing an input.
enum Resolved {
    /// The input is a serialization already.
    Same([usize; OFFSETS]),
    Other(Parsed),
}

fn resolve(text: &str, base: Option<&str>) -> Option<Resolved> {
    if base.is_none()
        && let Some(offsets) = plain::offsets(text)
    {
        return Some(Resolved::Same(offsets));
    }
    let parsed = parse(text, base)?;
    Some(if parsed.url.as_str() == text {
        Resolved::Same(parsed.offsets)
    } else {
        Resolved::Other(parsed)
    })
}

/// Returns the serialization of a URL, and writes its offsets; `undefined` if the input is invalid.
#[op]
pub(crate) fn url_parse<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    input: v8::Local<'s, v8::String>,
    base: Option<String>,
    offsets: v8::Local<'s, v8::Uint32Array>,
) -> Option<v8::Local<'s, v8::String>> {
    let resolved = {
        let view = v8::ValueView::new(scope, input);
        resolve(&view.to_cow_lossy(), base.as_deref())
    };
    match resolved? {
        Resolved::Same(parts) => {
            write_offsets(&parts, offsets);
            Some(input)
        }
        Resolved::Other(parsed) => {
            write_offsets(&parsed.offsets, offsets);
            v8::String::new(scope, parsed.url.as_str())
        }
    }
}

/// Sets a part of the URL `href` by its number in `url.js`. Returns the new serialization, and
/// writes its offsets.
#[op]
pub(crate) fn url_set(
    href: String,
    part: u32,
    value: String,
    offsets: v8::Local<'_, v8::Uint32Array>,
) -> Option<String> {
    let Parsed { url, offsets: parts } = set(&href, Part::from_number(part)?, &value)?;
    write_offsets(&parts, offsets);
    Some(url.into())
}

fn write_offsets(offsets: &[usize; OFFSETS], into: v8::Local<'_, v8::Uint32Array>) {
    let mut packed = [0; size_of::<[u32; OFFSETS]>()];
    for (into, offset) in packed.chunks_exact_mut(size_of::<u32>()).zip(offsets) {
        // The parser itself stores them as u32.
        into.copy_from_slice(&(*offset as u32).to_ne_bytes());
    }
    cells(into.into(), |cells| cells.iter().zip(packed).for_each(|(cell, byte)| cell.set(byte)));
}

/// Returns the names and values of an `application/x-www-form-urlencoded` string, as one flat array.
#[op]
pub(crate) fn form_parse(text: String) -> Vec<String> {
    let pairs = form_urlencoded::parse(text.as_bytes());
    pairs.flat_map(|(name, value)| [name.into_owned(), value.into_owned()]).collect()
}

/// Returns the text encoded as a name or a value of `application/x-www-form-urlencoded`.
#[op]
pub(crate) fn form_escape(text: String) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets_of(input: &str) -> [usize; OFFSETS] {
        parse(input, None).unwrap().offsets
    }

    #[test]
    fn offsets_point_at_the_parts_of_the_serialization() {
        let href = "https://u:p@host:81/path?query#hash";
        let at = |part: &str| href.find(part).unwrap();
        let (user, host, path) = (at("u:"), at("host"), at("/path"));
        let expected =
            [5, user, user + 1, at("p@"), at("@"), host, at(":81"), path, path, at("?"), at("#")];
        assert_eq!(offsets_of(href), expected);
    }

    #[test]
    fn a_user_may_have_no_password() {
        assert_eq!(offsets_of("http://u@h/"), [4, 7, 8, 8, 8, 9, 10, 10, 10, 11, 11]);
    }

    #[test]
    fn offsets_of_an_absent_host_coincide() {
        assert_eq!(offsets_of("data:text/plain,x"), [4, 5, 5, 5, 5, 5, 5, 5, 5, 17, 17]);
    }

    #[test]
    fn a_setter_ignores_a_value_that_does_not_fit() {
        assert_eq!(
            set("https://host/", Part::Port, "not a port").unwrap().url.as_str(),
            "https://host/"
        );
        assert_eq!(
            set("https://host/", Part::Protocol, "mailto").unwrap().url.as_str(),
            "https://host/"
        );
    }

    #[test]
    fn an_input_is_resolved_against_its_base() {
        assert_eq!(
            parse("../c?d", Some("https://host/a/b")).unwrap().url.as_str(),
            "https://host/c?d"
        );
        assert!(parse("/a", None).is_none());
        assert!(parse("https://host/", Some("not a base")).is_none());
    }

    #[test]
    fn a_panic_of_the_parser_is_a_parse_error() {
        assert!(guarded(|| panic!("as a parser might")).is_none());
    }
}

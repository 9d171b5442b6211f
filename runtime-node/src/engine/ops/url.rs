//! The native half of `url.js`: the parser and the serializer.
//!
//! A URL crosses over as its serialization, which is ASCII, and the offsets at which its parts begin and end. The
//! offsets go into a `Uint32Array` that JavaScript keeps for the purpose; they are valid until the next call.

use std::borrow::Cow;

use url::{Position, Url, form_urlencoded, quirks};

use super::bytes::cells;

super::ops! {
    "urlParse" => url_parse,
    "urlSet" => url_set,
    "formParse" => form_parse,
    "formEscape" => form_escape,
}

/// What JavaScript needs to cut every part out of a serialization. The order is that of `record` in `url.js`.
const OFFSETS: [Position; 11] = [
    Position::AfterScheme,
    Position::BeforeUsername,
    Position::AfterUsername,
    Position::BeforePassword,
    Position::AfterPassword,
    Position::BeforeHost,
    Position::AfterHost,
    Position::AfterPort,
    Position::BeforePath,
    Position::AfterPath,
    Position::AfterQuery,
];

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
    /// By its number in `url.js`.
    fn from_number(number: u32) -> Option<Self> {
        use Part::*;
        [Protocol, Username, Password, Host, Hostname, Port, Pathname, Search, Hash].get(number as usize).copied()
    }

    /// Does what the setter does. A value that does not fit leaves the URL as it is, as the standard has it.
    fn set(self, url: &mut Url, value: &str) {
        let _unchanged_if_refused = match self {
            Self::Protocol => quirks::set_protocol(url, value),
            Self::Username => quirks::set_username(url, value),
            Self::Password => quirks::set_password(url, value),
            Self::Host => quirks::set_host(url, value),
            Self::Hostname => quirks::set_hostname(url, value),
            Self::Port => quirks::set_port(url, value),
            Self::Pathname => {
                quirks::set_pathname(url, value);
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

fn parse(input: &str, base: Option<&str>) -> Option<Url> {
    match base {
        None => Url::parse(input).ok(),
        Some(base) => Url::parse(base).ok()?.join(input).ok(),
    }
}

/// `urlParse(input, base | undefined, offsets)` → the serialization, or undefined.
fn url_parse(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Ok(input) = args.get(0).try_cast::<v8::String>() else { return };
    let base = args.get(1).try_cast::<v8::String>().ok().map(|base| base.to_rust_string_lossy(scope));
    let (url, unchanged) = {
        let view = v8::ValueView::new(scope, input);
        let text: Cow<'_, str> = view.to_cow_lossy();
        let Some(url) = parse(&text, base.as_deref()) else { return };
        let unchanged = *text == *url.as_str();
        (url, unchanged)
    };
    write_offsets(&url, args.get(2));
    if unchanged {
        result.set(input.into());
    } else if let Some(href) = v8::String::new(scope, url.as_str()) {
        result.set(href.into());
    }
}

/// `urlSet(href, part, value, offsets)` → the new serialization.
fn url_set(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, mut result: v8::ReturnValue<'_>) {
    let href = args.get(0).to_rust_string_lossy(scope);
    let value = args.get(2).to_rust_string_lossy(scope);
    let part = args.get(1).uint32_value(scope).and_then(Part::from_number);
    let (Some(part), Some(mut url)) = (part, parse(&href, None)) else { return };
    part.set(&mut url, &value);
    write_offsets(&url, args.get(3));
    if let Some(href) = v8::String::new(scope, url.as_str()) {
        result.set(href.into());
    }
}

fn write_offsets(url: &Url, into: v8::Local<'_, v8::Value>) {
    let Ok(view) = into.try_cast::<v8::ArrayBufferView>() else { return };
    let mut packed = [0; size_of::<[u32; OFFSETS.len()]>()];
    for (into, position) in packed.chunks_exact_mut(4).zip(OFFSETS) {
        // A string of V8's is shorter than 2³⁰, and so then is what it parses to.
        let offset = url[..position].len() as u32;
        into.copy_from_slice(&offset.to_ne_bytes());
    }
    cells(view, |cells| cells.iter().zip(packed).for_each(|(cell, byte)| cell.set(byte)));
}

/// `formParse(string)` → the names and values of an `application/x-www-form-urlencoded` string, as one flat array.
fn form_parse(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let input = args.get(0).to_rust_string_lossy(scope);
    let parts: Option<Vec<v8::Local<'_, v8::Value>>> = form_urlencoded::parse(input.as_bytes())
        .flat_map(|(name, value)| [name, value])
        .map(|part| Some(v8::String::new(scope, &part)?.into()))
        .collect();
    if let Some(parts) = parts {
        result.set(v8::Array::new_with_elements(scope, &parts).into());
    }
}

/// `formEscape(string)` → the string as a name or a value of `application/x-www-form-urlencoded`.
fn form_escape(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let input = args.get(0).to_rust_string_lossy(scope);
    let escaped: String = form_urlencoded::byte_serialize(input.as_bytes()).collect();
    if let Some(escaped) = v8::String::new(scope, &escaped) {
        result.set(escaped.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(input: &str) -> Vec<usize> {
        let url = parse(input, None).unwrap();
        OFFSETS.iter().map(|position| url[..*position].len()).collect()
    }

    #[test]
    fn offsets_are_those_of_the_parts_in_the_serialization() {
        let href = "https://u:p@host:81/path?query#hash";
        let at = |part: &str| href.find(part).unwrap();
        assert_eq!(
            offsets(href),
            [
                5,
                at("u:"),
                at(":p"),
                at("p@"),
                at("@"),
                at("host"),
                at(":81"),
                at("/path"),
                at("/path"),
                at("?"),
                at("#")
            ]
        );
    }

    #[test]
    fn offsets_of_a_url_without_a_host_meet_where_the_host_would_be() {
        assert_eq!(offsets("data:text/plain,x"), [4, 5, 5, 5, 5, 5, 5, 5, 5, 17, 17]);
    }

    #[test]
    fn a_setter_ignores_a_value_that_does_not_fit() {
        let mut url = parse("https://host/", None).unwrap();
        Part::Port.set(&mut url, "not a port");
        Part::Protocol.set(&mut url, "mailto");
        assert_eq!(url.as_str(), "https://host/");
    }

    #[test]
    fn an_input_is_resolved_against_its_base() {
        assert_eq!(parse("../c?d", Some("https://host/a/b")).unwrap().as_str(), "https://host/c?d");
        assert!(parse("/a", None).is_none());
        assert!(parse("https://host/", Some("not a base")).is_none());
    }
}

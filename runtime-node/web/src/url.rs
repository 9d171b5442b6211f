//! The native half of `url.js`: the parser and the serializer.
//!
//! A URL is passed to JavaScript as its serialization, which is ASCII, and the offsets of its
//! parts. The offsets are written to a `Uint32Array` that JavaScript keeps for that purpose, and
//! are valid until the next call.
//!
//! The parser is Ada. Outbound requests and URL patterns use the crate `url`, which does not change
//! `http:` and `https:` URLs that Ada has serialized.

mod ada;
pub(crate) mod pattern;
mod plain;

use ada_url::Url;
use tenon_engine::bytes::cells;
use tenon_op::op;
use url::form_urlencoded;

use ada::{Part, offsets, parse, set};

/// The number of offsets that describe a URL.
const OFFSETS: usize = 11;

/// The result of parsing an input.
enum Resolved {
    /// The input is its own serialization.
    Same([usize; OFFSETS]),
    Other(Url),
}

fn resolve(text: &str, base: Option<&str>) -> Option<Resolved> {
    if base.is_none()
        && let Some(offsets) = plain::offsets(text)
    {
        return Some(Resolved::Same(offsets));
    }
    let url = parse(text, base)?;
    Some(if url.href() == text { Resolved::Same(offsets(&url)) } else { Resolved::Other(url) })
}

/// Returns the serialization of a URL, and writes its offsets; `undefined` if the input is invalid.
#[op]
pub(crate) fn url_parse<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    input: v8::Local<'s, v8::String>,
    base: Option<String>,
    into: v8::Local<'s, v8::Uint32Array>,
) -> Option<v8::Local<'s, v8::String>> {
    let resolved = {
        let view = v8::ValueView::new(scope, input);
        resolve(&view.to_cow_lossy(), base.as_deref())
    };
    match resolved? {
        Resolved::Same(parts) => {
            write_offsets(&parts, into);
            Some(input)
        }
        Resolved::Other(url) => {
            write_offsets(&offsets(&url), into);
            v8::String::new(scope, url.href())
        }
    }
}

/// Sets a part of the URL `href`: the one with the number `part` in `url.js`. Returns the new
/// serialization, and writes its offsets; `undefined` if the domain is refused.
#[op]
pub(crate) fn url_set(
    href: String,
    part: u32,
    value: String,
    into: v8::Local<'_, v8::Uint32Array>,
) -> Option<String> {
    let url = set(&href, Part::from_number(part)?, &value)?;
    write_offsets(&offsets(&url), into);
    Some(url.into())
}

fn write_offsets(offsets: &[usize; OFFSETS], into: v8::Local<'_, v8::Uint32Array>) {
    let mut packed = [0; size_of::<[u32; OFFSETS]>()];
    for (into, offset) in packed.chunks_exact_mut(size_of::<u32>()).zip(offsets) {
        // The parser itself stores the offsets as `u32`.
        into.copy_from_slice(&(*offset as u32).to_ne_bytes());
    }
    cells(into.into(), |cells| cells.iter().zip(packed).for_each(|(cell, byte)| cell.set(byte)));
}

/// Returns the names and values of an `application/x-www-form-urlencoded` string, as one flat
/// array.
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

//! Determines which part of a file's content a client requests, and whether the client has the
//! content, from `Range`, `If-Range` and `If-None-Match`. This module is pure.

use http::{HeaderMap, HeaderValue, header};
use tenon_compression::Coding;

use crate::front::fields::members;

/// Returns the entity tag of content in a coding.
pub(crate) fn entity_tag(hash: &[u8; 16], coding: Option<Coding>) -> String {
    let suffix = coding.map_or("", |coding| coding.as_str());
    let dash = if coding.is_some() { "-" } else { "" };
    format!("\"{:032x}{dash}{suffix}\"", u128::from_be_bytes(*hash))
}

/// Returns whether the client has the content in any coding.
pub(crate) fn has_content(request: &HeaderMap, hash: &[u8; 16]) -> bool {
    let is_same = |tag: &str| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        let tag = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        tag.is_some_and(|tag| {
            let (content, _) = tag.split_once('-').unwrap_or((tag, ""));
            content.len() == 32
                && u128::from_str_radix(content, 16) == Ok(u128::from_be_bytes(*hash))
        })
    };
    members(request, &header::IF_NONE_MATCH).any(|tag| tag == "*" || is_same(tag))
}

/// The part of the content that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// The bytes from the first to the last position, both included.
    Range(u64, u64),
    /// The content has no such part.
    Unsatisfiable,
}

/// Returns the part that a request asks for (RFC 9110, section 14.2). A request for several ranges,
/// or for a range of content that has changed, gets the whole content.
///
/// # Arguments
/// * `tag` - the entity tag of the uncompressed content.
pub(crate) fn part(request: &HeaderMap, length: u64, tag: &str) -> Part {
    let text = |name| request.get(name).map(HeaderValue::as_bytes);
    let range = text(header::RANGE).and_then(|range| std::str::from_utf8(range).ok());
    let Some(range) = range.and_then(|range| range.strip_prefix("bytes=")) else {
        return Part::Whole;
    };
    if text(header::IF_RANGE).is_some_and(|condition| condition != tag.as_bytes()) {
        return Part::Whole;
    }
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number beyond 64 bits is beyond any content.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = match range.trim().split_once('-') {
        Some(("", suffix)) => match number(suffix) {
            Some(0) => return Part::Unsatisfiable,
            Some(suffix) => (length.saturating_sub(suffix), u64::MAX),
            None => return Part::Whole,
        },
        Some((first, "")) => match number(first) {
            Some(first) => (first, u64::MAX),
            None => return Part::Whole,
        },
        Some((first, last)) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => (first, last),
            _ => return Part::Whole,
        },
        None => return Part::Whole,
    };
    match length.checked_sub(1) {
        Some(end) if first <= end => Part::Range(first, last.min(end)),
        _ => Part::Unsatisfiable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn request(headers: &[(HeaderName, &str)]) -> HeaderMap {
        headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_client_with_the_content_in_any_coding_has_the_content() {
        let hash = [0xab; 16];
        let tags = [entity_tag(&hash, None), entity_tag(&hash, Some(Coding::Brotli))];
        assert_eq!(tags[1], format!("\"{}-br\"", "ab".repeat(16)));
        for value in
            [tags[0].clone(), format!("W/{}", tags[1]), format!("\"x\", {}", tags[0]), "*".into()]
        {
            let headers = request(&[(header::IF_NONE_MATCH, &value)]);
            assert!(has_content(&headers, &hash), "{value}");
            assert_eq!(has_content(&headers, &[1; 16]), value == "*", "{value}");
        }
    }

    #[test]
    fn a_range_selects_a_part_of_the_content() {
        let tag = entity_tag(&[1; 16], None);
        for (range, length, expected) in [
            ("bytes=0-0", 10, Part::Range(0, 0)),
            ("bytes=2-", 10, Part::Range(2, 9)),
            ("bytes=-3", 10, Part::Range(7, 9)),
            ("bytes=-30", 10, Part::Range(0, 9)),
            ("bytes=5-99", 10, Part::Range(5, 9)),
            ("bytes=5-99999999999999999999999", 10, Part::Range(5, 9)),
            ("bytes=10-", 10, Part::Unsatisfiable),
            ("bytes=-0", 10, Part::Unsatisfiable),
            ("bytes=0-", 0, Part::Unsatisfiable),
            ("bytes=3-2", 10, Part::Whole),
            ("bytes=0-1,3-4", 10, Part::Whole),
            ("bytes=+1-2", 10, Part::Whole),
            ("items=0-1", 10, Part::Whole),
        ] {
            let headers = request(&[(header::RANGE, range)]);
            assert_eq!(part(&headers, length, &tag), expected, "{range}");
        }
        let with = |condition: &str| {
            part(&request(&[(header::RANGE, "bytes=0-0"), (header::IF_RANGE, condition)]), 10, &tag)
        };
        assert_eq!((with(&tag), with("\"other\"")), (Part::Range(0, 0), Part::Whole));
    }
}

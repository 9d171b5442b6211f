//! A fast path for nearly every URL of a request: `http(s)://name[:port]/path[?query]` that parsing
//! would not change. Recognizing such a URL takes a tenth of the time of parsing it. The parser
//! handles all other text.

use super::OFFSETS;

/// Returns the offsets of a URL that is its own serialization; `None` if only the parser can
/// determine that.
pub(crate) fn offsets(text: &str) -> Option<[usize; OFFSETS]> {
    let text = text.as_bytes();
    let (scheme, default_port) = match text {
        [b'h', b't', b't', b'p', b':', b'/', b'/', ..] => ("http".len(), 80),
        [b'h', b't', b't', b'p', b's', b':', b'/', b'/', ..] => ("https".len(), 443),
        _ => return None,
    };
    let host = scheme + "://".len();
    let path = host + text[host..].iter().position(|byte| *byte == b'/')?;
    let host_end =
        host + text[host..path].iter().position(|byte| *byte == b':').unwrap_or(path - host);
    let query =
        path + text[path..].iter().position(|byte| *byte == b'?').unwrap_or(text.len() - path);
    let plain = is_name(&text[host..host_end])
        && is_port(&text[host_end..path], default_port)
        && is_path(&text[path..query])
        && text[query..].iter().all(|byte| *byte != b'\'' && is_plain(*byte));
    plain.then_some([scheme, host, host, host, host, host, host_end, path, path, query, text.len()])
}

/// Returns whether the host is a domain in lower case, without punycode, whose last label does not
/// begin with a digit, as the last label of an address does.
fn is_name(host: &[u8]) -> bool {
    let mut labels = host.split(|byte| *byte == b'.');
    let is_label = |label: &[u8]| {
        !label.is_empty()
            && !label.starts_with(b"xn--")
            && label.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    };
    labels.clone().next_back().is_some_and(|last| last.first().is_some_and(u8::is_ascii_lowercase))
        && labels.all(is_label)
}

/// Returns whether the port is empty, or a colon and a number in canonical form that is not the
/// scheme's default.
fn is_port(port: &[u8], default: u16) -> bool {
    match port {
        [] => true,
        [b':', digits @ ..] => std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.starts_with(|first: char| matches!(first, '1'..='9')))
            .and_then(|digits| digits.parse::<u16>().ok())
            .is_some_and(|port| port != default),
        _ => false,
    }
}

/// Returns whether the path has only plain bytes and certainly no segment that the parser would
/// normalize, such as `..` or one of its spellings with `%2e`.
fn is_path(path: &[u8]) -> bool {
    path.iter().all(|byte| *byte != b'?' && is_plain(*byte))
        && !path.windows(2).any(|pair| matches!(pair, b"/." | b"%2"))
}

/// Returns whether the byte stands for itself in a path and, except for the single quote, in a
/// query.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::url::{ada, parse};

    #[test]
    fn urls_of_ordinary_requests_are_recognized() {
        for plain in [
            "http://h/",
            "https://shop.example.com/cart/~me?item=1&q=a+b%20c",
            "http://hello.default.tenon.localhost:8080/a.b/c",
        ] {
            assert_eq!(offsets(plain), Some(ada::offsets(&parse(plain, None).unwrap())), "{plain}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn a_recognized_url_parses_to_itself(
            url in "(http|https|ftp)://[a-z0-9.:_@-]{0,12}(xn--)?[a-z0-9.-]{0,4}(:[0-9]{1,5})?/[a-z./%2eE?'#:@\\\\ |^]{0,12}"
        ) {
            if let Some(offsets) = offsets(&url) {
                let parsed = parse(&url, None).expect("the recognized text is a URL");
                prop_assert_eq!(parsed.href(), &url);
                prop_assert_eq!(ada::offsets(&parsed), offsets);
            }
        }

        #[test]
        fn a_recognized_url_of_plain_characters_is_unchanged_by_the_parser(
            url in "https?://[a-z]{1,5}(\\.[a-z][a-z0-9_-]{0,5}){0,2}(:[1-9][0-9]{0,4})?(/[ -~]{0,8}){1,2}(\\?[ -~]{0,8})?"
        ) {
            if let Some(offsets) = offsets(&url) {
                let parsed = parse(&url, None).expect("the recognized text is a URL");
                prop_assert_eq!(parsed.href(), &url);
                prop_assert_eq!(ada::offsets(&parsed), offsets);
            }
        }
    }
}

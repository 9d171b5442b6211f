//! The parser: Ada, with corrections where it departs from the standard.
//!
//! One fault remains, which Node.js shares: Ada takes the first segment of a `file:` URL for a
//! drive letter if it only begins with one, so that `..` does not remove the segment `C:x`.

use ada_url::{SchemeType, Url};

use super::OFFSETS;

/// A part that has a setter.
#[derive(Clone, Copy)]
pub(super) enum Part {
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
    pub(super) fn from_number(number: u32) -> Option<Self> {
        use Part::*;
        [Protocol, Username, Password, Host, Hostname, Port, Pathname, Search, Hash]
            .get(number as usize)
            .copied()
    }

    /// Implements the setter. An invalid value leaves the URL unchanged, as the standard requires.
    ///
    /// # Errors
    /// Fails if Ada refuses the value, or a part of it.
    fn set(self, url: &mut Url, value: &str) -> Result<(), ()> {
        let zero_port = url.port() == "0";
        match self {
            Self::Protocol => {
                let set = url.set_protocol(value);
                // Ada takes 0 for the default port of schemes that have none.
                if zero_port && url.scheme_type() == SchemeType::NotSpecial {
                    url.set_port(Some("0"))
                } else {
                    set
                }
            }
            Self::Username => url.set_username(Some(value)),
            Self::Password => url.set_password(Some(value)),
            Self::Host => url.set_host(Some(value)),
            Self::Hostname => url.set_hostname(Some(value)),
            Self::Port => url.set_port(Some(value)),
            Self::Pathname => url.set_pathname(Some(value)),
            Self::Search => {
                url.set_search(Some(value));
                Ok(())
            }
            Self::Hash => {
                url.set_hash(Some(value));
                Ok(())
            }
        }
    }
}

/// The longest domain that is converted to ASCII, in bytes of the input: the conversion takes
/// quadratic time. The Domain Name System allows 253.
const LONGEST_DOMAIN: usize = 4096;

/// Parses an input, with a base if there is one.
pub(super) fn parse(input: &str, base: Option<&str>) -> Option<Url> {
    if has_long_domain(input, base) || base.is_some_and(|base| has_long_domain(base, None)) {
        return None;
    }
    let url = Url::parse(input, base).ok()?;
    // A relative URL has no meaning beside an opaque path, except for a fragment alone (URL §4.4,
    // the no scheme state). Ada accepts whatever has a fragment.
    if let Some(base) = base
        && input.contains('#')
        && !input.trim_start_matches(is_ignored_at_start).starts_with('#')
        && has_opaque_path(&Url::parse(base, None).ok()?)
        && !Url::can_parse(input, None)
    {
        return None;
    }
    is_stable(&url).then_some(url)
}

/// Returns the URL `href` after a part was set. A value that does not fit leaves it unchanged, and
/// a domain that is refused is `None`.
pub(super) fn set(href: &str, part: Part, value: &str) -> Option<Url> {
    let mut url = Url::parse(href, None).ok()?;
    if matches!(part, Part::Host | Part::Hostname) {
        if url.scheme_type() != SchemeType::NotSpecial && is_long_domain(up_to_path(value)) {
            return None;
        }
        if !has_host(&url) && !has_opaque_path(&url) {
            return Some(with_host(url, part, value));
        }
    }
    // What is set before a failure remains set, as in the standard: a host before an invalid port.
    let _refused = part.set(&mut url, value);
    is_stable(&url).then_some(url)
}

/// Returns whether the parser ignores the character at the start of its input.
fn is_ignored_at_start(character: char) -> bool {
    character <= ' '
}

/// Returns whether Ada accepts the domain of a URL that it has made. It does not if it has encoded
/// a label that contains `xn--`: such a URL is refused, because JavaScript could not parse it
/// again.
fn is_stable(url: &Url) -> bool {
    !url.hostname().contains("xn--xn--") || Url::can_parse(url, None)
}

/// Returns whether the input may have a domain that would take long to convert. Only special URLs
/// have domains.
fn has_long_domain(input: &str, base: Option<&str>) -> bool {
    if input.len() <= LONGEST_DOMAIN {
        return false;
    }
    let input = input.trim_start_matches(is_ignored_at_start);
    let after_scheme = match input.split_once(':') {
        Some((scheme, rest)) if is_special(scheme) => rest,
        // Only `//host` is relative and has a host.
        _ if base.is_some() && input.starts_with(is_slash) => input,
        _ => return false,
    };
    let authority =
        up_to_path(after_scheme.trim_start_matches(|c| is_slash(c) || is_ignored_anywhere(c)));
    is_long_domain(authority.rsplit('@').next().unwrap_or_default())
}

fn is_long_domain(host: &str) -> bool {
    let is_converted = || {
        let lower = without_ignored(host).to_ascii_lowercase();
        !host.is_ascii() || host.contains('%') || lower.contains("xn--")
    };
    host.len() > LONGEST_DOMAIN && is_converted()
}

fn is_special(scheme: &str) -> bool {
    let scheme = without_ignored(scheme).to_ascii_lowercase();
    matches!(&*scheme, "http" | "https" | "ws" | "wss" | "ftp" | "file")
}

fn is_slash(character: char) -> bool {
    matches!(character, '/' | '\\')
}

/// Returns whether the parser ignores the character wherever it is.
fn is_ignored_anywhere(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r')
}

fn without_ignored(text: &str) -> String {
    text.replace(is_ignored_anywhere, "")
}

fn up_to_path(text: &str) -> &str {
    let end = text.find(|c| is_slash(c) || matches!(c, '?' | '#'));
    &text[..end.unwrap_or(text.len())]
}

/// Returns a URL that had no host with the one that is set. Ada leaves the `/.` before the path
/// that only a URL without a host has if a port is set as well, gives the URL an empty host if the
/// value is invalid, and ignores an empty value.
fn with_host(url: Url, part: Part, value: &str) -> Url {
    let path = url.components().pathname_start.unwrap_or_default() as usize;
    let hosted = parse(&format!("{}//{}", url.protocol(), &url.href()[path..]), None);
    let hosted = hosted.and_then(|mut hosted| part.set(&mut hosted, value).ok().map(|()| hosted));
    hosted.unwrap_or(url)
}

/// Returns whether the URL has a host, which may be empty.
fn has_host(url: &Url) -> bool {
    url.href()[url.components().protocol_end as usize..].starts_with("//")
}

fn has_opaque_path(url: &Url) -> bool {
    !has_host(url) && !url.pathname().starts_with('/')
}

/// Returns the offsets of all parts of a serialization, in the order of `record` in `url.js`.
pub(super) fn offsets(url: &Url) -> [usize; OFFSETS] {
    let (href, parts) = (url.href(), url.components());
    let [after_scheme, username_end, credentials_end, host_end] =
        [parts.protocol_end, parts.username_end, parts.host_start, parts.host_end]
            .map(|offset| offset as usize);
    let username_start = if has_host(url) { after_scheme + "//".len() } else { after_scheme };
    // A password follows the user name and a colon. An `@` ends both.
    let password_start = credentials_end.min(username_end + ":".len());
    let host_start =
        credentials_end + usize::from(href[credentials_end..host_end].starts_with('@'));
    // Without a host, a path that begins with two slashes is written after `/.`.
    let path_start = parts.pathname_start.map_or(host_end, |start| start as usize);
    let port_end = if parts.port.is_some() { path_start } else { host_end };
    let query_end = parts.hash_start.map_or(href.len(), |start| start as usize);
    let path_end = parts.search_start.map_or(query_end, |start| start as usize);
    [
        after_scheme - ":".len(),
        username_start,
        username_end,
        password_start,
        credentials_end,
        host_start,
        host_end,
        port_end,
        path_start,
        path_end,
        query_end,
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offsets_of(input: &str) -> [usize; OFFSETS] {
        offsets(&parse(input, None).unwrap())
    }

    fn href(input: &str) -> String {
        parse(input, None).unwrap().into()
    }

    fn after(href: &str, part: Part, value: &str) -> String {
        set(href, part, value).unwrap().into()
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
    fn a_password_may_have_no_user() {
        assert_eq!(offsets_of("http://:p@h/"), [4, 7, 7, 8, 9, 10, 11, 11, 11, 12, 12]);
    }

    #[test]
    fn offsets_of_an_absent_host_coincide() {
        assert_eq!(offsets_of("data:text/plain,x"), [4, 5, 5, 5, 5, 5, 5, 5, 5, 17, 17]);
    }

    #[test]
    fn the_dot_before_the_path_of_a_url_without_a_host_is_no_part_of_it() {
        assert_eq!(offsets_of("a:/.//x"), [1, 2, 2, 2, 2, 2, 2, 2, 4, 7, 7]);
    }

    #[test]
    fn an_empty_host_precedes_the_path() {
        assert_eq!(offsets_of("file:///x"), [4, 7, 7, 7, 7, 7, 7, 7, 7, 9, 9]);
    }

    #[test]
    fn a_setter_ignores_a_value_that_does_not_fit() {
        assert_eq!(after("https://host/", Part::Port, "not a port"), "https://host/");
        assert_eq!(after("https://host/", Part::Protocol, "mailto"), "https://host/");
        assert_eq!(after("a:/x", Part::Host, "not a host"), "a:/x");
        assert_eq!(after("a:/.//x", Part::Hostname, ":"), "a:/.//x");
    }

    #[test]
    fn a_host_that_is_set_replaces_the_dot_before_the_path() {
        assert_eq!(after("a:/.///:x", Part::Host, "h"), "a://h///:x");
        assert_eq!(after("a:/.//x?q#f", Part::Host, "h:80"), "a://h:80//x?q#f");
        assert_eq!(after("a:/.//x", Part::Hostname, ""), "a:////x");
        assert_eq!(after("a:/x", Part::Host, ""), "a:///x");
        assert_eq!(after("a:x", Part::Host, "h"), "a:x");
    }

    #[test]
    fn the_port_zero_is_no_default() {
        assert_eq!(after("a://h:0/", Part::Protocol, "b"), "b://h:0/");
        assert_eq!(after("http://h:0/", Part::Protocol, "ftp"), "ftp://h:0/");
    }

    #[test]
    fn an_input_is_resolved_against_its_base() {
        let join = |input, base| parse(input, Some(base)).map(String::from);
        assert_eq!(join("../c?d", "https://host/a/b").unwrap(), "https://host/c?d");
        assert!(parse("/a", None).is_none());
        assert_eq!(join("https://host/", "not a base"), None);
    }

    #[test]
    fn only_a_fragment_is_resolved_against_an_opaque_path() {
        let join = |input| parse(input, Some("data:x?y#z")).map(String::from);
        assert_eq!(join(" #f").unwrap(), "data:x?y#f");
        assert_eq!(join("b:c#f").unwrap(), "b:c#f");
        assert_eq!(
            [join("c#f"), join("/#f"), join("?#f"), join("//h#f"), join("")],
            [const { None }; 5]
        );
    }

    #[test]
    fn a_caret_is_encoded_in_paths_and_nowhere_else() {
        assert_eq!(href("http://h/a^b?^#^"), "http://h/a%5Eb?^#^");
        assert_eq!(href("data:a^b"), "data:a^b");
        assert_eq!(after("http://h/", Part::Pathname, "^"), "http://h/%5E");
    }

    #[test]
    fn the_last_space_of_an_opaque_path_is_encoded_before_what_follows() {
        assert_eq!(href("data:a  ?b"), "data:a %20?b");
        assert_eq!(href("data:a  "), "data:a");
        assert_eq!(after("data:a %20#b", Part::Hash, ""), "data:a %20");
    }

    #[test]
    fn a_path_does_not_become_a_host() {
        let path = |href, path| after(href, Part::Pathname, path);
        assert_eq!(path("foo:/a?q#f", "//h"), "foo:/.//h?q#f");
        assert_eq!(path("foo:/.//h", "b c?"), "foo:/b%20c%3F");
        assert_eq!(path("foo:/a", "/../b/."), "foo:/b/");
        assert_eq!(path("foo:/a", ""), "foo:/");
        assert_eq!(path("foo://h/a", "//b"), "foo://h//b");
    }

    #[test]
    fn a_domain_is_refused_if_it_could_not_be_parsed_again() {
        assert!(parse("http://\u{4f8b}xn--a/", None).is_none());
        assert!(set("http://h/", Part::Host, "\u{4f8b}xn--a").is_none());
    }

    #[test]
    fn a_long_domain_is_refused_if_it_has_to_be_converted() {
        let long = "\u{4f8b}".repeat(LONGEST_DOMAIN);
        let encoded = format!("xn--{}", "a".repeat(LONGEST_DOMAIN));
        for host in [&long, &encoded, &encoded.replace('x', "\tX"), &encoded.replace('x', "%78")] {
            for input in [
                format!("http://{host}/"),
                format!(" ht\ntp:{host}"),
                format!("ws:/\n/u:p@{host}:80?x"),
            ] {
                assert!(parse(&input, None).is_none(), "{}", &input[..20]);
                assert!(parse("/", Some(&input)).is_none());
            }
            assert!(parse(&format!("/\t\\{host}"), Some("http://h")).is_none());
            assert!(set("http://h/", Part::Hostname, host).is_none());
        }
        for input in [
            format!("data:{long}"),
            format!("a://{long}"),
            format!("http://h/{long}"),
            format!("http://{}/", "a".repeat(LONGEST_DOMAIN)),
            format!("http://{long}@h/"),
            format!("http://h?{long}"),
        ] {
            assert!(parse(&input, None).is_some(), "{}", &input[..20]);
        }
        assert!(parse(&format!("{long}/{encoded}"), Some("http://h")).is_some());
        assert!(set("a://h/", Part::Host, &long).is_some());
    }

    /// Text of characters that mean something in a URL.
    const TEXT: &str = "(/|//|/\\.|\\.\\.|\\\\|[?#@:;=%|^ \t]|%2e|[a-c]|C:|:80|0x7f\\.1|\\[::1\\]|localhost|\u{fc}|\u{df}|\u{3002}|xn--){0,6}";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn a_serialization_parses_to_the_same_url(
            scheme in "https?:|file:|a:",
            text in TEXT,
            number in 0..9_u32,
            value in TEXT,
        ) {
            let Some(url) = parse(&format!("{scheme}{text}"), None) else { return Ok(()) };
            let url = set(url.href(), Part::from_number(number).unwrap(), &value).unwrap_or(url);
            let again = parse(url.href(), None).expect("a serialization is a URL");
            prop_assert_eq!(again.href(), url.href());
            prop_assert_eq!(offsets(&again), offsets(&url));
            prop_assert!(url.is_ascii());
        }

        #[test]
        fn the_parser_of_the_network_client_changes_no_serialization(
            scheme in "https?:",
            text in TEXT,
        ) {
            let Some(url) = parse(&format!("{scheme}{text}"), None) else { return Ok(()) };
            if let Ok(client) = url::Url::parse(url.href()) {
                prop_assert_eq!(client.as_str(), url.href());
            }
        }
    }
}

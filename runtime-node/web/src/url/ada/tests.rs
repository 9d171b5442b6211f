//! Tests of the parser, of the offsets of a URL's parts, and of the setters.

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
fn a_url_may_have_a_user_without_a_password() {
    assert_eq!(offsets_of("http://u@h/"), [4, 7, 8, 8, 8, 9, 10, 10, 10, 11, 11]);
}

#[test]
fn a_url_may_have_a_password_without_a_user() {
    assert_eq!(offsets_of("http://:p@h/"), [4, 7, 7, 8, 9, 10, 11, 11, 11, 12, 12]);
}

#[test]
fn offsets_of_an_absent_host_coincide() {
    assert_eq!(offsets_of("data:text/plain,x"), [4, 5, 5, 5, 5, 5, 5, 5, 5, 17, 17]);
}

#[test]
fn the_dot_before_the_path_of_a_url_without_a_host_is_not_part_of_the_path() {
    assert_eq!(offsets_of("a:/.//x"), [1, 2, 2, 2, 2, 2, 2, 2, 4, 7, 7]);
}

#[test]
fn an_empty_host_precedes_the_path() {
    assert_eq!(offsets_of("file:///x"), [4, 7, 7, 7, 7, 7, 7, 7, 7, 9, 9]);
}

#[test]
fn a_setter_ignores_an_invalid_value() {
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
fn port_zero_is_not_a_default_port() {
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
fn a_caret_is_encoded_only_in_paths() {
    assert_eq!(href("http://h/a^b?^#^"), "http://h/a%5Eb?^#^");
    assert_eq!(href("data:a^b"), "data:a^b");
    assert_eq!(after("http://h/", Part::Pathname, "^"), "http://h/%5E");
}

#[test]
fn the_last_space_of_an_opaque_path_is_encoded_if_a_query_or_fragment_follows() {
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
    let long = "\u{4f8b}".repeat(MAX_DOMAIN);
    let encoded = format!("xn--{}", "a".repeat(MAX_DOMAIN));
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
        format!("http://{}/", "a".repeat(MAX_DOMAIN)),
        format!("http://{long}@h/"),
        format!("http://h?{long}"),
    ] {
        assert!(parse(&input, None).is_some(), "{}", &input[..20]);
    }
    assert!(parse(&format!("{long}/{encoded}"), Some("http://h")).is_some());
    assert!(set("a://h/", Part::Host, &long).is_some());
}

/// Text of characters that have a meaning in a URL.
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
    fn the_parser_of_the_network_client_leaves_serializations_unchanged(
        scheme in "https?:",
        text in TEXT,
    ) {
        let Some(url) = parse(&format!("{scheme}{text}"), None) else { return Ok(()) };
        if let Ok(client) = url::Url::parse(url.href()) {
            prop_assert_eq!(client.as_str(), url.href());
        }
    }
}

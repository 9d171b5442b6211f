//! Rules of the current standard that the parser does not implement, or not yet: a `^` in a path is
//! encoded (URL §1.3, the path percent-encode set); so is the last of the spaces that end an opaque
//! path before a query or a fragment (§4.4, the opaque path state); and a path that begins with two
//! slashes does not become a host if there is none (§4.5).

use url::{Position, Url};

/// Returns the URL with its path as the standard requires.
pub(crate) fn amended(url: Url) -> Url {
    let path = url.path();
    let path = match path.strip_suffix(' ') {
        Some(start) if url.cannot_be_a_base() => format!("{start}%20"),
        _ if path.contains('^') && !url.cannot_be_a_base() => path.replace('^', "%5E"),
        _ => return url,
    };
    let text = format!("{}{path}{}", &url[..Position::BeforePath], &url[Position::AfterPath..]);
    Url::parse(&text).unwrap_or(url)
}

/// Sets the path of a URL that has no authority, so that the path is not taken for one. Returns
/// false for any other URL.
pub(crate) fn set_path_alone(url: &mut Url, path: &str) -> bool {
    if url.has_authority() || url.cannot_be_a_base() {
        return false;
    }
    let path = path.replace('?', "%3F").replace('#', "%23").replace(' ', "%20");
    let slash = if path.starts_with('/') { "" } else { "/" };
    // A segment of a single dot means nothing, and keeps what follows from being an authority.
    let text = format!("{}:/.{slash}{path}{}", url.scheme(), &url[Position::AfterPath..]);
    if let Ok(made) = Url::parse(&text) {
        *url = made;
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::url::{Part, parse, set};

    #[test]
    fn a_caret_is_encoded_in_paths_and_nowhere_else() {
        let url = |input| parse(input, None).unwrap().url.to_string();
        assert_eq!(url("http://h/a^b?^#^"), "http://h/a%5Eb?^#^");
        assert_eq!(url("data:a^b"), "data:a^b");
        assert_eq!(set("http://h/", Part::Pathname, "^").unwrap().url.as_str(), "http://h/%5E");
        assert_eq!(parse("../^", Some("http://h/a/b")).unwrap().url.as_str(), "http://h/%5E");
    }

    #[test]
    fn the_last_space_of_an_opaque_path_is_encoded_before_what_follows() {
        let url = |input| parse(input, None).unwrap().url.to_string();
        assert_eq!(url("data:a  ?b"), "data:a %20?b");
        assert_eq!(url("data:a  #b"), "data:a %20#b");
        assert_eq!(url("data:a  "), "data:a");
        assert_eq!(set("data:a %20#b", Part::Hash, "").unwrap().url.as_str(), "data:a %20");
    }

    #[test]
    fn a_path_does_not_become_a_host() {
        let path = |href, path| set(href, Part::Pathname, path).unwrap().url.to_string();
        assert_eq!(path("foo:/a?q#f", "//h"), "foo:/.//h?q#f");
        assert_eq!(path("foo:/.//h", "b c?"), "foo:/b%20c%3F");
        assert_eq!(path("foo:/a", "/../b/."), "foo:/b/");
        assert_eq!(path("foo:/a", ""), "foo:/");
        assert_eq!(path("foo://h/a", "//b"), "foo://h//b");
    }
}

//! The URL parser: Ada, with corrections where Ada departs from the standard.
//!
//! One fault remains, which Node.js shares: Ada takes the first segment of a `file:` URL for a
//! drive letter if the segment merely begins with a drive letter, so that `..` does not remove the
//! segment `C:x`.

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

    /// Implements the setter. As the standard requires, an invalid value leaves the part unchanged.
    ///
    /// # Errors
    /// Fails if Ada refuses the value, or a part of it.
    fn set(self, url: &mut Url, value: &str) -> Result<(), ()> {
        let zero_port = url.port() == "0";
        match self {
            Self::Protocol => {
                let set = url.set_protocol(value);
                // Ada takes 0 for the default port of schemes that have no default port.
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

/// The maximum length of a domain that is converted to ASCII, in bytes of the input: the conversion
/// takes quadratic time. The Domain Name System allows 253.
const MAX_DOMAIN: usize = 4096;

/// Parses an input, with a base if there is one. Returns `None` if the input is not a URL, or if
/// its domain or the base's is too long to be converted.
pub(super) fn parse(input: &str, base: Option<&str>) -> Option<Url> {
    if has_long_domain(input, base) || base.is_some_and(|base| has_long_domain(base, None)) {
        return None;
    }
    let url = Url::parse(input, base).ok()?;
    // If the base has an opaque path, the input must not be relative, except a fragment (URL §4.4,
    // "no scheme state"). Ada accepts any input with a fragment.
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

/// Returns the URL `href` with one part set to `value`. An invalid value leaves the URL unchanged,
/// except for what precedes the invalid piece of the value. Returns `None` if the domain is
/// refused.
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
    // As in the standard, a part that was set before a failure remains set, such as a host before
    // an invalid port.
    let _refused = part.set(&mut url, value);
    is_stable(&url).then_some(url)
}

/// Returns whether the parser ignores the character at the start of its input.
fn is_ignored_at_start(character: char) -> bool {
    character <= ' '
}

/// Returns whether Ada accepts the domain of a URL that it has serialized. Ada rejects a label that
/// it has encoded and that contains `xn--`; such a URL is refused, because JavaScript could not
/// parse it again.
fn is_stable(url: &Url) -> bool {
    !url.hostname().contains("xn--xn--") || Url::can_parse(url, None)
}

/// Returns whether the input may have a domain that would take too long to convert. Only special
/// URLs have domains.
fn has_long_domain(input: &str, base: Option<&str>) -> bool {
    if input.len() <= MAX_DOMAIN {
        return false;
    }
    let input = input.trim_start_matches(is_ignored_at_start);
    let after_scheme = match input.split_once(':') {
        Some((scheme, rest)) if is_special(scheme) => rest,
        // A relative URL has a host only if it begins with two slashes.
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
    host.len() > MAX_DOMAIN && is_converted()
}

fn is_special(scheme: &str) -> bool {
    let scheme = without_ignored(scheme).to_ascii_lowercase();
    matches!(&*scheme, "http" | "https" | "ws" | "wss" | "ftp" | "file")
}

fn is_slash(character: char) -> bool {
    matches!(character, '/' | '\\')
}

/// Returns whether the parser ignores the character everywhere in its input.
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

/// Gives a URL without a host the host in `value`. Ada's own setter has three faults: if a port is
/// set as well, it keeps the `/.` before the path, which only a URL without a host has; if the
/// value is invalid, it gives the URL an empty host; and it ignores an empty value.
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
mod tests;

//! The session of a request for `spec.sessionAffinity`: the value of a cookie or of a header, which
//! selects a revision of the request's Worker. It is not the session of a method call.

use http::{HeaderMap, header};
use tenon_proto::runtime::Header;
use tenon_table::traffic::SessionAffinity;

/// Returns the session of a client's request, or `None` if the request has none.
pub(super) fn of_client<'r>(
    headers: &'r HeaderMap,
    affinity: &SessionAffinity,
) -> Option<&'r [u8]> {
    match affinity {
        SessionAffinity::Header(name) => Some(headers.get(name)?.as_bytes()),
        SessionAffinity::Cookie(name) => {
            let mut lines = headers.get_all(header::COOKIE).iter();
            lines.find_map(|line| cookie(line.as_bytes(), name))
        }
    }
}

/// Returns the session of another Worker's call, or `None` if the call has none.
pub(super) fn of_call<'r>(headers: &'r [Header], affinity: &SessionAffinity) -> Option<&'r [u8]> {
    match affinity {
        SessionAffinity::Header(name) => values(headers, name.as_str()).next(),
        SessionAffinity::Cookie(name) => {
            values(headers, "cookie").find_map(|line| cookie(line, name))
        }
    }
}

/// Returns the values of a call's headers with this name.
fn values<'r>(headers: &'r [Header], name: &str) -> impl Iterator<Item = &'r [u8]> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| &header.value[..])
}

/// Returns the value of a cookie in a `cookie` header (RFC 6265, section 4.2.1).
fn cookie<'r>(line: &'r [u8], name: &str) -> Option<&'r [u8]> {
    let pairs = line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let mut values =
        pairs.filter_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    values.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sid() -> SessionAffinity {
        SessionAffinity::Cookie("sid".into())
    }

    #[test]
    fn a_cookie_is_found_among_others_and_in_any_of_several_headers() {
        let mut headers = HeaderMap::new();
        headers.append("cookie", "asid=1; sid2=2".parse().unwrap());
        assert_eq!(of_client(&headers, &sid()), None);
        headers.append("cookie", "a=b;  sid=x=y ; sid=later".parse().unwrap());
        assert_eq!(of_client(&headers, &sid()), Some(&b"x=y"[..]));
    }

    #[test]
    fn a_header_of_any_case_names_the_session_of_a_call() {
        let header = Header { name: "X-User".into(), value: "ada".into() };
        let affinity = SessionAffinity::Header("x-user".parse().unwrap());
        assert_eq!(of_call(&[header], &affinity), Some(&b"ada"[..]));
        assert_eq!(of_call(&[], &affinity), None);
        let cookies =
            ["a=b", "sid=7"].map(|value| Header { name: "cookie".into(), value: value.into() });
        assert_eq!(of_call(&cookies, &sid()), Some(&b"7"[..]));
    }
}

//! The target of a request: its host and path, for every version of HTTP.
//!
//! The path is the one that the Worker sees in `request.url`: the URL Standard removes dot
//! segments, even if they are written with `%2e` or backslashes, and percent-encodes some
//! characters. A router that matched the path as it was sent would let `/x/../admin` bypass the
//! route `/admin`.
//!
//! This module is pure.

use std::borrow::Cow;

use http::request::Parts;
use http::uri::Authority;
use http::{Method, Version, header};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use url::{Position, Url};

/// The host, path and query of a request.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    authority: Cow<'a, Authority>,
    path_and_query: Cow<'a, str>,
    /// The length of the path in `path_and_query`, in bytes.
    path: usize,
}

impl<'a> Target<'a> {
    /// Extracts the target of a request.
    ///
    /// # Arguments
    /// * `method` - the method that the Worker sees.
    ///
    /// # Errors
    /// Fails if no Worker can serve the target.
    pub(crate) fn of(parts: &'a Parts, method: &Method) -> Result<Self, Failure> {
        let Parts { uri, headers, .. } = parts;
        if matches!(*method, Method::CONNECT | Method::TRACE) {
            return Err(bad("the methods CONNECT and TRACE are not supported"));
        }
        if !uri.path().starts_with('/') {
            return Err(bad("the request's target is not a path"));
        }
        let mut hosts = headers.get_all(header::HOST).into_iter();
        let host = hosts.next();
        if hosts.next().is_some() {
            return Err(bad("the request has more than one Host header"));
        }
        // The authority of the request's target takes precedence over the header (RFC 9112, section
        // 3.2.2).
        let authority = match (uri.authority(), host) {
            // HTTP/2 forbids two different names (RFC 9113, section 8.3.1).
            (Some(authority), Some(host))
                if parts.version >= Version::HTTP_2
                    && !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
            {
                return Err(bad("the request's :authority and Host header differ"));
            }
            (Some(authority), _) => Cow::Borrowed(authority),
            (None, Some(host)) => {
                let authority = Authority::try_from(host.as_bytes())
                    .map_err(|_| bad("the Host header is not a valid host"))?;
                Cow::Owned(authority)
            }
            (None, None) if parts.version < Version::HTTP_11 => {
                return Err(bad("the Host header is missing; HTTP/1.0 requests need it too"));
            }
            (None, None) => return Err(bad("the request has no host")),
        };
        if authority.as_str().contains('@') {
            return Err(bad("the host contains a user name"));
        }
        if !has_valid_port(&authority) {
            return Err(bad("the host's port is not valid"));
        }
        let (path_and_query, path) = seen_by_the_worker(uri.path(), uri.query())?;
        Ok(Self { authority, path_and_query, path })
    }

    /// Returns the target with another host or path.
    ///
    /// # Errors
    /// Fails if the host or the path is not valid.
    pub(crate) fn rewritten(
        &self,
        host: Option<&str>,
        path: Option<&str>,
    ) -> Result<Target<'static>, Failure> {
        let authority = match host {
            Some(host) => Authority::try_from(host)
                .map_err(|_| bad("the host to which the request is rewritten is not valid"))?,
            None => Authority::clone(&self.authority),
        };
        let (path_and_query, path) = seen_by_the_worker(path.unwrap_or(self.path()), self.query())?;
        let path_and_query = Cow::Owned(path_and_query.into_owned());
        Ok(Target { authority: Cow::Owned(authority), path_and_query, path })
    }

    pub(crate) fn host(&self) -> &str {
        self.authority.host()
    }

    pub(crate) fn port(&self) -> Option<u16> {
        self.authority.port_u16()
    }

    /// Returns the host, and the port if there is one.
    pub(crate) fn authority(&self) -> &str {
        self.authority.as_str()
    }

    pub(crate) fn path(&self) -> &str {
        &self.path_and_query[..self.path]
    }

    pub(crate) fn query(&self) -> Option<&str> {
        self.path_and_query[self.path..].strip_prefix('?')
    }

    pub(crate) fn path_and_query(&self) -> &str {
        &self.path_and_query
    }
}

/// Returns whether the host is followed by nothing, or by a colon and a port number, which may be
/// empty.
fn has_valid_port(authority: &Authority) -> bool {
    let after = &authority.as_str()[authority.host().len()..];
    let Some(digits) = after.strip_prefix(':') else { return after.is_empty() };
    let value = digits.bytes().try_fold(0_u32, |value, digit| {
        let value = value.checked_mul(10)?.checked_add(u32::from(digit.wrapping_sub(b'0')))?;
        (digit.is_ascii_digit() && value <= u32::from(u16::MAX)).then_some(value)
    });
    value.is_some()
}

/// Returns the path in the form that the Worker sees, followed by the query, and the length of that
/// path in bytes.
fn seen_by_the_worker<'a>(
    path: &'a str,
    query: Option<&'a str>,
) -> Result<(Cow<'a, str>, usize), Failure> {
    if is_plain(path) {
        let whole =
            query.map_or(Cow::Borrowed(path), |query| Cow::Owned([path, "?", query].concat()));
        return Ok((whole, path.len()));
    }
    // The host does not matter.
    let mut url = Url::parse("http://h/").map_err(|_| bad("the path is not valid"))?;
    // `join` would take `//x` for a host.
    url.set_path(path);
    let len = url.path().len();
    let mut whole = url[Position::BeforePath..Position::AfterPath].to_owned();
    if let Some(query) = query {
        whole.push('?');
        whole.push_str(query);
    }
    Ok((Cow::Owned(whole), len))
}

/// Returns `true` only if the URL Standard leaves the path unchanged. For some of these paths, the
/// result is `false`.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let mut before = b'/';
    for (at, &byte) in bytes.iter().enumerate() {
        let plain = match byte {
            b'.' => before != b'/',
            b'%' => !matches!(bytes.get(at + 1..at + 3), Some([b'2', b'e' | b'E'])),
            b'"' | b'#' | b'<' | b'>' | b'?' | b'\\' | b'^' | b'`' | b'{' | b'}' => false,
            byte => byte.is_ascii_graphic(),
        };
        if !plain {
            return false;
        }
        before = byte;
    }
    true
}

fn bad(message: &str) -> Failure {
    Failure::new(FailureCode::BadRequest, Phase::Admission, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts(method: &str, uri: &str, hosts: &[&str]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_host_is_in_the_target_or_in_a_header() {
        for (uri, hosts) in [
            ("/x?y", &["shop:80"][..]),
            ("http://shop:80/x?y", &[]),
            ("http://shop:80/x?y", &["bank"]),
        ] {
            let parts = parts("GET", uri, hosts);
            let target = Target::of(&parts, &parts.method).unwrap();
            assert_eq!(
                (target.host(), target.authority(), target.path()),
                ("shop", "shop:80", "/x")
            );
            assert_eq!(target.path_and_query(), "/x?y");
        }
    }

    #[test]
    fn the_path_is_the_one_that_the_worker_sees() {
        for (sent, forwarded) in [
            ("/x/../admin/secret", "/admin/secret"),
            ("/%2e/admin/secret", "/admin/secret"),
            ("/x/%2e%2e/admin", "/admin"),
            ("/x/%2E./admin?q=/../", "/admin?q=/../"),
            ("/x/.%2E", "/"),
            ("/x\\..\\admin", "/admin"),
            ("/a/./b/", "/a/b/"),
            ("/../../a", "/a"),
            ("//x/..//y", "///y"),
            ("/{x}", "/%7Bx%7D"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a%2fb/..c/c..", "/a%2fb/..c/c.."),
            ("/%252e%252e/a", "/%252e%252e/a"),
            ("/a;b=c/../d", "/d"),
        ] {
            let parts = parts("GET", sent, &["shop"]);
            let target = Target::of(&parts, &parts.method).unwrap();
            assert_eq!(target.path_and_query(), forwarded, "{sent}");
            assert_eq!(target.path(), forwarded.split('?').next().unwrap(), "{sent}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_worker_sees_the_path_that_was_matched(
            path in "(/([.a%2eE\\\\{}~+-]|%2[eEfF]|\\.\\.?){0,4}){1,5}",
        ) {
            let sent = format!("http://shop{path}?a=b");
            proptest::prop_assume!(sent.parse::<http::Uri>().is_ok());
            let parts = parts("GET", &sent, &[]);
            let target = Target::of(&parts, &parts.method).unwrap();
            let parsed = Url::parse(&sent).unwrap();
            proptest::prop_assert_eq!(target.path(), parsed.path());
            proptest::prop_assert_eq!(target.path_and_query(), &parsed[Position::BeforePath..]);
            // The path that is forwarded does not change again.
            let forwarded = Url::parse(&format!("http://shop{}", target.path_and_query())).unwrap();
            proptest::prop_assert_eq!(forwarded.path(), parsed.path());
        }
    }

    #[test]
    fn a_port_must_be_a_valid_number() {
        for (host, valid) in [
            ("shop", true),
            ("shop:80", true),
            ("shop:65535", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("shop:", true),
            ("shop:65536", false),
            ("shop:99999", false),
            ("shop:99999999999999999999", false),
            ("shop:abc", false),
            ("shop:-1", false),
            ("shop:8:0", false),
        ] {
            let parts = parts("GET", "/", &[host]);
            assert_eq!(Target::of(&parts, &parts.method).is_ok(), valid, "{host}");
        }
    }

    #[test]
    fn an_authority_and_a_host_that_differ_are_refused_in_http2() {
        for (host, valid) in [("shop", true), ("SHOP", true), ("bank", false)] {
            let mut parts = parts("GET", "http://shop/", &[host]);
            parts.version = Version::HTTP_2;
            assert_eq!(Target::of(&parts, &parts.method).is_ok(), valid, "{host}");
        }
    }

    #[test]
    fn a_target_that_no_worker_can_serve_is_refused() {
        let cases = [
            ("GET", "/", &[][..]),
            ("GET", "/", &["a", "b"]),
            ("GET", "/", &["user@shop"]),
            ("GET", "/", &["sh op"]),
            ("OPTIONS", "*", &["shop"]),
            ("CONNECT", "shop:80", &["shop"]),
            ("TRACE", "/", &["shop"]),
        ];
        for (method, uri, hosts) in cases {
            let parts = parts(method, uri, hosts);
            let failure = Target::of(&parts, &parts.method).unwrap_err();
            assert_eq!(failure.code, FailureCode::BadRequest, "{method} {uri} {hosts:?}");
        }
    }
}

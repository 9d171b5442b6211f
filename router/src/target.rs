//! What a request is for: its host and path, however its version of HTTP says so.
//!
//! Pure.

use http::request::Parts;
use http::uri::Authority;
use http::{Method, Uri, Version, header};
use tenon_proto::failure::{Failure, FailureCode, Phase};

#[derive(Debug)]
pub(crate) struct Target<'a> {
    authority: std::borrow::Cow<'a, Authority>,
    uri: &'a Uri,
}

impl<'a> Target<'a> {
    /// # Arguments
    /// * `method` - as the Worker gets to see it.
    ///
    /// # Errors
    /// When it is not one that a Worker can be asked for.
    pub(crate) fn of(parts: &'a Parts, method: &Method) -> Result<Self, Failure> {
        let Parts { uri, headers, .. } = parts;
        if matches!(*method, Method::CONNECT | Method::TRACE) {
            return Err(bad("Workers take neither CONNECT nor TRACE."));
        }
        if !uri.path().starts_with('/') {
            return Err(bad("The request is for no path."));
        }
        let mut hosts = headers.get_all(header::HOST).into_iter();
        let host = hosts.next();
        if hosts.next().is_some() {
            return Err(bad("The request has more than one host."));
        }
        // The authority of the request's target goes before the header (RFC 9112, section 3.2.2).
        let authority = match (uri.authority(), host) {
            (Some(authority), _) => std::borrow::Cow::Borrowed(authority),
            (None, Some(host)) => {
                let authority = Authority::try_from(host.as_bytes()).map_err(|_| bad("The host is no host."))?;
                std::borrow::Cow::Owned(authority)
            }
            (None, None) if parts.version < Version::HTTP_11 => return Err(bad("HTTP/1.0 requests need a host, too.")),
            (None, None) => return Err(bad("The request has no host.")),
        };
        if authority.as_str().contains('@') {
            return Err(bad("The host has a user's name in it."));
        }
        Ok(Self { authority, uri })
    }

    pub(crate) fn host(&self) -> &str {
        self.authority.host()
    }

    /// The host, and the port if there is one.
    pub(crate) fn authority(&self) -> &str {
        self.authority.as_str()
    }

    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    pub(crate) fn path_and_query(&self) -> &str {
        self.uri.path_and_query().map_or("/", |path| path.as_str())
    }
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
        for (uri, hosts) in [("/x?y", &["shop:80"][..]), ("http://shop:80/x?y", &[]), ("http://shop:80/x?y", &["bank"])]
        {
            let parts = parts("GET", uri, hosts);
            let target = Target::of(&parts, &parts.method).unwrap();
            assert_eq!((target.host(), target.authority(), target.path()), ("shop", "shop:80", "/x"));
            assert_eq!(target.path_and_query(), "/x?y");
        }
    }

    #[test]
    fn what_no_worker_can_be_asked_for_is_refused() {
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

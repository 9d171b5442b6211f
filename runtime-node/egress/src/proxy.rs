//! The forward proxy for Workers' connections, if the node has one.
//!
//! ```text
//!  proxy's addresses ─► TCP ─► TLS, for https: proxies ─► CONNECT address:port ─► the origin's
//!                                                                                 TLS, HTTP …
//! ```
//!
//! ## One path for both schemes
//!
//! Requests to `http:` URLs go through a tunnel too (CONNECT, RFC 9110 §9.3.6) instead of being
//! handed to the proxy for forwarding. A forwarding proxy is one more parser that a Worker's
//! request might trick; it would share its connections to an origin among tenants, and resolve
//! names on its own. A tunnel carries only bytes. In return, the proxy must allow CONNECT to port
//! 80 and to any other port that Workers may use.
//!
//! ## Name resolution
//!
//! With [`Resolver::Node`], the default, the node resolves the name, judges the addresses
//! ([`policy`](super::policy)) and sends one of exactly these addresses to the proxy, so that the
//! proxy does not connect to another address to which the name resolves a moment later. Origins
//! still see their names, in TLS and in HTTP, but the proxy does not, so it cannot decide by name.
//!
//! [`Resolver::Proxy`] is for nodes whose name servers do not resolve public names, and for proxies
//! that decide by name: the proxy gets the name. A host that the Worker writes as an address, or
//! that the node can resolve without a query, is still judged by the node. For all other names, the
//! proxy decides, and only the proxy can defend against a name that changes its address.
//!
//! ## Trust in the proxy
//!
//! The proxy belongs to the platform: its own address is not judged, and environment variables that
//! are meant for other programs (`HTTP_PROXY`) are not read. Its credentials are sent to the proxy
//! alone; they appear in no error, no log and no `Debug`.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use clap::ValueEnum;
use http::uri::Authority;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use url::{Host, Url};

use super::cause::root_cause;

/// Maximum size of the head of the proxy's response, in bytes. Only the status in it is used.
const HEAD: usize = 16 * 1024;

/// A proxy's address, scheme and credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(super) secure: bool,
    pub(super) host: Host<String>,
    pub(super) port: u16,
    authorization: Option<HeaderValue>,
    pub(super) resolver: Resolver,
}

/// The side that resolves the names of the hosts to which Workers connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Resolver {
    #[default]
    Node,
    Proxy,
}

/// The fault in a proxy's URL or credentials. The messages never quote the URL or the credentials,
/// because they may contain a password.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidProxy {
    #[error("is not a URL such as http://proxy.example.com:3128")]
    NotAUrl,
    #[error("does not begin with http:// or https://, the protocol between the node and the proxy")]
    Scheme,
    #[error("has a path, query or fragment; end it after the port")]
    Path,
    #[error(
        "has a user name with a colon or a control character, which the Basic scheme cannot express"
    )]
    UserName,
    #[error("has a password with a control character, which the Basic scheme cannot express")]
    Password,
    #[error("has credentials, and others are set separately; keep one of them")]
    Twice,
    #[error("has a password but no user name")]
    NoUserName,
}

/// The reason why a proxy did not open a tunnel to an origin.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("the proxy's own name cannot be resolved")]
    Name,
    #[error("the host name is not valid in a CONNECT request")]
    Target,
    #[error("cannot connect to the proxy: {0}")]
    Connect(io::Error),
    #[error("cannot establish TLS with the proxy: {0}")]
    Tls(io::Error),
    #[error("the proxy rejects the configured credentials, or requires credentials")]
    Credentials,
    #[error("the proxy responds with status {0}")]
    Refused(StatusCode),
    #[error("the response is not that of a proxy: {0}")]
    Protocol(String),
    #[error("the attempts took longer than {0:?}")]
    Silent(Duration),
}

impl FromStr for Proxy {
    type Err = InvalidProxy;

    fn from_str(url: &str) -> Result<Self, InvalidProxy> {
        let url = Url::parse(url).map_err(|_| InvalidProxy::NotAUrl)?;
        let secure = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(InvalidProxy::Scheme),
        };
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidProxy::Path);
        }
        let host = url.host().ok_or(InvalidProxy::NotAUrl)?.to_owned();
        let port = url.port_or_known_default().ok_or(InvalidProxy::NotAUrl)?;
        let proxy = Self { secure, host, port, authorization: None, resolver: Resolver::default() };
        match (url.username(), url.password()) {
            ("", None) => Ok(proxy),
            (name, password) => proxy.with_credentials(
                &percent_decode_str(name).collect::<Vec<_>>(),
                &percent_decode_str(password.unwrap_or_default()).collect::<Vec<_>>(),
            ),
        }
    }
}

impl Proxy {
    /// Returns the proxy with credentials for the Basic scheme (RFC 7617).
    ///
    /// # Errors
    /// Fails if the user name is empty, if the Basic scheme cannot express the credentials, or if
    /// the proxy has credentials already.
    pub fn with_credentials(self, user_name: &[u8], password: &[u8]) -> Result<Self, InvalidProxy> {
        if self.authorization.is_some() {
            return Err(InvalidProxy::Twice);
        }
        if user_name.is_empty() {
            return Err(InvalidProxy::NoUserName);
        }
        if user_name.iter().any(|byte| *byte == b':' || byte.is_ascii_control()) {
            return Err(InvalidProxy::UserName);
        }
        if password.iter().any(u8::is_ascii_control) {
            return Err(InvalidProxy::Password);
        }
        let pair = BASE64_STANDARD.encode([user_name, b":", password].concat());
        let mut authorization = HeaderValue::from_str(&format!("Basic {pair}"))
            .expect("base64 is not a valid header value");
        authorization.set_sensitive(true);
        Ok(Self { authorization: Some(authorization), ..self })
    }

    #[must_use]
    pub fn with_resolver(self, resolver: Resolver) -> Self {
        Self { resolver, ..self }
    }

    /// Asks the proxy for a tunnel to the target. Returns the stream, which then leads to the
    /// target.
    ///
    /// # Arguments
    /// * `stream` - a connection to the proxy.
    pub(super) async fn tunnel<S>(&self, stream: S, target: &Authority) -> Result<S, ProxyError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let malformed = |error: hyper::Error| ProxyError::Protocol(root_cause(&error));
        let handshake = http1::Builder::new().max_buf_size(HEAD).handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(malformed)?;
        // The task ends with the sender, or when the upgrade takes over the connection.
        spawn_local(connection.with_upgrades());
        let response = sender.send_request(self.connect(target)).await.map_err(malformed)?;
        match response.status() {
            status if status.is_success() => {}
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => return Err(ProxyError::Credentials),
            status => return Err(ProxyError::Refused(status)),
        }
        let tunnel = hyper::upgrade::on(response).await.map_err(malformed)?;
        let parts = tunnel.downcast::<TokioIo<S>>().expect("the upgraded stream has another type");
        if !parts.read_buf.is_empty() {
            return Err(ProxyError::Protocol("the proxy sent data before the node did".to_owned()));
        }
        Ok(parts.io.into_inner())
    }

    fn connect(&self, target: &Authority) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = Uri::from(target.clone());
        let host = HeaderValue::from_str(target.as_str())
            .expect("an authority is not a valid header value");
        request.headers_mut().insert(header::HOST, host);
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        request
    }
}

/// Formats the proxy as a URL without its credentials, for operators.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { secure, host, port, .. } = self;
        write!(f, "{}://{host}:{port}", if *secure { "https" } else { "http" })
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorization(url: &str) -> Option<String> {
        let proxy: Proxy = url.parse().unwrap();
        proxy.authorization.map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_url_of_a_proxy_has_an_http_or_https_scheme_a_host_and_optionally_a_port() {
        for (url, shown) in [
            ("http://proxy.test:3128", "http://proxy.test:3128"),
            ("http://proxy.test/", "http://proxy.test:80"),
            ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ] {
            assert_eq!(url.parse::<Proxy>().unwrap().to_string(), shown);
        }
        for (url, why) in [
            ("", InvalidProxy::NotAUrl),
            ("proxy.test", InvalidProxy::NotAUrl),
            ("proxy.test:3128", InvalidProxy::Scheme),
            ("socks5://proxy.test:1080", InvalidProxy::Scheme),
            ("http://proxy.test:3128/path", InvalidProxy::Path),
            ("http://proxy.test:3128?query", InvalidProxy::Path),
            ("http://proxy.test:99999", InvalidProxy::NotAUrl),
            ("http://:secret@proxy.test:3128", InvalidProxy::NoUserName),
            ("http://a%3Ab:secret@proxy.test:3128", InvalidProxy::UserName),
            ("http://a:b%0D%0A@proxy.test:3128", InvalidProxy::Password),
        ] {
            assert_eq!(url.parse::<Proxy>(), Err(why), "{url}");
        }
    }

    #[test]
    fn credentials_use_the_basic_scheme() {
        assert_eq!(authorization("http://proxy.test"), None);
        // This is the example of RFC 7617 §2.
        let expected = Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned());
        assert_eq!(authorization("http://Aladdin:open%20sesame@proxy.test"), expected);
        assert_eq!(authorization("http://token@proxy.test"), Some("Basic dG9rZW46".to_owned()));
        let twice = "http://a:b@proxy.test".parse::<Proxy>().unwrap().with_credentials(b"c", b"d");
        assert_eq!(twice, Err(InvalidProxy::Twice));
    }

    #[test]
    fn credentials_do_not_appear_in_display_and_debug_output() {
        let proxy: Proxy = "http://alice:hunter2@proxy.test:3128".parse().unwrap();
        let encoded = BASE64_STANDARD.encode("alice:hunter2");
        for shown in
            [format!("{proxy}"), format!("{proxy:?}"), format!("{:?}", proxy.authorization)]
        {
            assert!(
                !shown.contains("hunter2") && !shown.contains("alice") && !shown.contains(&encoded),
                "{shown}"
            );
        }
    }
}

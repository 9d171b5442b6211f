//! Connects to an origin by its name: the result is a byte stream.
//!
//! ```text
//!  origin ─► names ─► policy ─► dial ──────────────────────────────────► stream
//!                        └────► dial the proxy ─► CONNECT the address ─────┘
//!  origin ─► known here? ─► policy, as above
//!                └─ no, and the proxy resolves: dial the proxy ─► CONNECT the name
//! ```
//!
//! This module makes every connection to an origin, so that nothing is sent to an address that the
//! policy has not allowed, except through a proxy that resolves names itself.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use url::Host;

use super::dial::{Candidate, dial, first_success};
use super::error::Stage;
use super::names::Names;
use super::origin::{Origin, server_name};
use super::policy::{Allowed, Policy};
use super::proxy::{Proxy, ProxyError, Resolver};
use super::{EgressError, Settings};

/// A stream to an origin, directly or through a proxy. The TLS layer, if there is one, is that of
/// the connection to the proxy.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A shard's connector.
pub(super) struct Connector {
    policy: Policy,
    names: Names,
    proxy: Option<ProxyConnector>,
    /// Time limit for all attempts together, including the attempts to reach a proxy.
    timeout: Duration,
}

struct ProxyConnector {
    proxy: Arc<Proxy>,
    tls: Arc<ClientConfig>,
}

/// The destination of a tunnel through a proxy.
#[derive(Clone, Copy)]
enum Target<'a> {
    Address(Allowed),
    Name(&'a str),
}

impl Connector {
    pub(super) fn new(settings: &Settings) -> Self {
        let proxy = settings.proxy.as_ref().map(|proxy| {
            // There is no protocol to negotiate, because CONNECT requests use HTTP/1.1.
            let mut tls = (*settings.tls).clone();
            tls.alpn_protocols.clear();
            ProxyConnector { proxy: Arc::clone(proxy), tls: Arc::new(tls) }
        });
        Self {
            policy: settings.policy.clone(),
            names: Names::new(settings),
            proxy,
            timeout: settings.bounds.connect_timeout,
        }
    }

    /// Connects to an origin, if Workers may reach it.
    ///
    /// # Errors
    /// Fails if the name cannot be resolved, the policy refuses the origin, or no attempt to
    /// connect succeeds.
    pub(super) async fn connect(&self, origin: &Origin) -> Result<Stream, EgressError> {
        let Some(via) = &self.proxy else {
            let addresses = self.resolve(&origin.host).await?;
            return self.direct(origin, &addresses).await;
        };
        let known = match via.proxy.resolver {
            Resolver::Proxy => self.names.without_query(&origin.host),
            Resolver::Node => Some(self.names.addresses(&origin.host).await?),
        };
        let targets = match (known, &origin.host) {
            (Some(addresses), _) => {
                self.judge(&origin.host, addresses)?.into_iter().map(Target::Address).collect()
            }
            (None, Host::Domain(name)) => {
                vec![Target::Name(name.strip_suffix('.').unwrap_or(name))]
            }
            (None, _) => unreachable!("an IP address needs no query"),
        };
        self.via_proxy(via, origin, &targets).await
    }

    /// Returns the addresses of a host that the policy allows, at least one.
    ///
    /// # Errors
    /// Fails if the name cannot be resolved, if only a proxy may resolve names, or if the policy
    /// refuses all addresses.
    pub(super) async fn resolve(&self, host: &Host<String>) -> Result<Vec<Allowed>, EgressError> {
        let addresses = match &self.proxy {
            Some(via) if via.proxy.resolver == Resolver::Proxy => {
                let why = "only the platform's proxy resolves names";
                let failed = || EgressError::Name { host: host.to_string(), why };
                self.names.without_query(host).ok_or_else(failed)?
            }
            _ => self.names.addresses(host).await?,
        };
        self.judge(host, addresses)
    }

    /// Returns the addresses of a host that the policy allows.
    fn judge(
        &self,
        host: &Host<String>,
        addresses: Vec<IpAddr>,
    ) -> Result<Vec<Allowed>, EgressError> {
        let mut allowed = Vec::new();
        for address in addresses {
            match self.policy.judge(address) {
                Ok(address) => allowed.push(address),
                // The address is in the Worker's URL, so the error may name the reason.
                Err(why) if !matches!(host, Host::Domain(_)) => {
                    return Err(EgressError::RefusedAddress { host: host.to_string(), why });
                }
                Err(_) => {}
            }
        }
        if allowed.is_empty() {
            Err(EgressError::RefusedName { host: host.to_string() })
        } else {
            Ok(allowed)
        }
    }

    async fn direct(&self, origin: &Origin, addresses: &[Allowed]) -> Result<Stream, EgressError> {
        let seconds = self.timeout.as_secs();
        let timed_out =
            |_| EgressError::TimedOut { stage: Stage::Connect, host: origin.host(), seconds };
        let connected = tokio::time::timeout(self.timeout, dial(addresses, origin.port))
            .await
            .map_err(timed_out)?;
        let failed =
            |source| EgressError::Connect { host: origin.host(), port: origin.port, source };
        connected.map(Either::Left).map_err(failed)
    }

    async fn via_proxy(
        &self,
        via: &ProxyConnector,
        origin: &Origin,
        targets: &[Target<'_>],
    ) -> Result<Stream, EgressError> {
        let connected = async {
            let addresses =
                self.names.addresses(&via.proxy.host).await.map_err(|_| ProxyError::Name)?;
            let addresses = &addresses;
            first_success(targets, |target| via.tunnel(addresses, target.authority(origin.port)))
                .await
        };
        let connected = tokio::time::timeout(self.timeout, connected).await;
        connected.unwrap_or(Err(ProxyError::Silent(self.timeout))).map_err(|fault| {
            EgressError::Proxy {
                proxy: via.proxy.to_string(),
                host: origin.host(),
                port: origin.port,
                fault,
            }
        })
    }
}

impl ProxyConnector {
    /// Opens a tunnel to the target.
    ///
    /// # Arguments
    /// * `addresses` - the addresses of the proxy.
    /// * `target` - the target, or `None` if it cannot be written as an authority.
    async fn tunnel(
        &self,
        addresses: &[IpAddr],
        target: Option<Authority>,
    ) -> Result<Stream, ProxyError> {
        let target = target.ok_or(ProxyError::Target)?;
        let stream = dial(addresses, self.proxy.port).await.map_err(ProxyError::Connect)?;
        let stream = if self.proxy.secure {
            let name = server_name(&self.proxy.host).ok_or(ProxyError::Name)?;
            let secured = TlsConnector::from(Arc::clone(&self.tls))
                .connect(name, stream)
                .await
                .map_err(ProxyError::Tls)?;
            Either::Right(Box::new(secured))
        } else {
            Either::Left(stream)
        };
        self.proxy.tunnel(stream, &target).await
    }
}

impl Target<'_> {
    fn authority(self, port: u16) -> Option<Authority> {
        let text = match self {
            Self::Address(address) => SocketAddr::new(address.address(), port).to_string(),
            Self::Name(name) => format!("{name}:{port}"),
        };
        Authority::try_from(text).ok()
    }
}

impl Candidate for Target<'_> {
    fn is_ipv6(&self) -> bool {
        matches!(self, Self::Address(address) if address.address().is_ipv6())
    }
}

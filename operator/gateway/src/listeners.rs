//! The listeners of a Gateway: which of them the routers can serve, and why they cannot serve the
//! others. This module is pure.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use tenon_lifecycle::tls::identity::{self, CERTIFICATE, KEY};

use crate::Key;
use crate::objects::{GROUP, Gateway, Listener, ObjectReference, RouteGroupKind};
use crate::references::{ReferenceGrants, Referrer, Target};

/// The ports of the routers' public Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    pub http: i32,
    /// The port for clients that use TLS, if there is one.
    pub https: Option<i32>,
}

impl Default for Ports {
    fn default() -> Self {
        Self { http: 80, https: Some(443) }
    }
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    Https,
}

/// The fields of a listener, and whether the routers can serve it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerState {
    pub name: String,
    pub port: i32,
    pub hostname: Option<String>,
    /// The protocol, or the reason why the listener is not accepted.
    pub accepted: Result<Protocol, NotAccepted>,
    pub conflict: Option<Conflict>,
    /// The Secret with the certificate, if the listener uses TLS, or the reason why there is none.
    pub certificate: Result<Option<Key>, NoCertificate>,
    /// Whether HTTPRoutes may attach.
    pub allows_http_routes: bool,
    /// An unsupported kind of route that the listener names.
    pub invalid_kind: Option<String>,
}

/// The reason why a listener is not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotAccepted {
    #[error("protocol: {0} is not supported; use HTTP or HTTPS")]
    Protocol(String),
    #[error("port: the routers' Service has no port {port} for {protocol}; {remedy}")]
    Port { port: i32, protocol: &'static str, remedy: String },
    #[error("tls.mode: {0} is not supported, because the routers terminate TLS; use Terminate")]
    Mode(String),
    #[error(
        "spec.tls: not supported, so the listener would not verify its clients; remove it, and use \
         tls.certificateRefs of the listeners"
    )]
    GatewayTls,
}

impl NotAccepted {
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Protocol(_) => "UnsupportedProtocol",
            Self::Port { .. } => "PortUnavailable",
            Self::Mode(_) | Self::GatewayTls => "UnsupportedValue",
        }
    }
}

/// The conflict between a listener and another listener of its Gateway.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Conflict {
    #[error(
        "listener {0} has the same port and hostname; give each listener a hostname of its own"
    )]
    Hostname(String),
    #[error("listener {0} has the same port and another protocol; use one protocol for each port")]
    Protocol(String),
}

impl Conflict {
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Hostname(_) => "HostnameConflict",
            Self::Protocol(_) => "ProtocolConflict",
        }
    }
}

/// The reason why a listener has no certificate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoCertificate {
    #[error("tls.certificateRefs: missing; name a Secret of type kubernetes.io/tls")]
    None,
    #[error("tls.certificateRefs: {0} is not supported; name a Secret of type kubernetes.io/tls")]
    Kind(String),
    #[error("tls.certificateRefs: there is no Secret {0}/{1}; create it")]
    Missing(String, String),
    #[error(
        "tls.certificateRefs: the Gateway may not use Secret {0}/{1}; create a ReferenceGrant in \
         namespace {0}"
    )]
    NotPermitted(String, String),
    #[error("tls.certificateRefs: Secret {0}/{1}: {2}")]
    Malformed(String, String, String),
}

impl NoCertificate {
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotPermitted(..) => "RefNotPermitted",
            Self::None | Self::Kind(_) | Self::Missing(..) | Self::Malformed(..) => {
                "InvalidCertificateRef"
            }
        }
    }
}

impl ListenerState {
    /// Returns the protocol of the listener if routers serve the listener.
    pub fn programmed(&self) -> Option<Protocol> {
        let is_served = self.conflict.is_none()
            && self.certificate.is_ok()
            && (self.allows_http_routes || self.invalid_kind.is_none());
        self.accepted.as_ref().ok().copied().filter(|_| is_served)
    }
}

/// Returns the listeners of a Gateway, in their order.
///
/// # Arguments
/// * `secret` - returns a Secret, if it exists.
pub fn listeners<'a>(
    gateway: &Gateway,
    ports: Ports,
    grants: &ReferenceGrants,
    secret: &dyn Fn(&Key) -> Option<&'a Secret>,
) -> Vec<ListenerState> {
    let namespace = gateway.namespace().unwrap_or_default();
    let listeners = &gateway.spec.listeners;
    let state = |listener: &Listener| {
        let hostname = listener.hostname.as_deref().filter(|host| !host.is_empty());
        let certificate = match listener.protocol.as_str() {
            "HTTPS" => certificate(listener, &namespace, grants, secret).map(Some),
            _ => Ok(None),
        };
        let kinds = listener.allowed_routes.as_ref().map(|allowed| &*allowed.kinds).unwrap_or(&[]);
        ListenerState {
            name: listener.name.clone(),
            port: listener.port,
            hostname: hostname.map(str::to_ascii_lowercase),
            accepted: match gateway.spec.tls {
                Some(_) => Err(NotAccepted::GatewayTls),
                None => accepted(listener, ports),
            },
            conflict: conflict(listener, listeners),
            certificate,
            allows_http_routes: kinds.is_empty() || kinds.iter().any(is_http_route),
            invalid_kind: kinds
                .iter()
                .find(|kind| !is_http_route(kind))
                .map(|kind| kind.kind.clone()),
        }
    };
    listeners.iter().map(state).collect()
}

fn is_http_route(kind: &RouteGroupKind) -> bool {
    kind.kind == "HTTPRoute" && kind.group.as_deref().unwrap_or(GROUP) == GROUP
}

fn accepted(listener: &Listener, ports: Ports) -> Result<Protocol, NotAccepted> {
    let (protocol, name, available) = match listener.protocol.as_str() {
        "HTTP" => (Protocol::Http, "HTTP", Some(ports.http)),
        "HTTPS" => (Protocol::Https, "HTTPS", ports.https),
        other => return Err(NotAccepted::Protocol(other.to_owned())),
    };
    if available != Some(listener.port) {
        let remedy = match available {
            Some(port) => format!("use port {port}"),
            None => "set router.https.gateways in the chart's values".to_owned(),
        };
        return Err(NotAccepted::Port { port: listener.port, protocol: name, remedy });
    }
    let mode = listener.tls.as_ref().and_then(|tls| tls.mode.as_deref());
    match mode.filter(|mode| protocol == Protocol::Https && *mode != "Terminate") {
        Some(mode) => Err(NotAccepted::Mode(mode.to_owned())),
        None => Ok(protocol),
    }
}

fn conflict(listener: &Listener, all: &[Listener]) -> Option<Conflict> {
    let host =
        |listener: &Listener| listener.hostname.clone().unwrap_or_default().to_ascii_lowercase();
    let mut others =
        all.iter().filter(|other| other.name != listener.name && other.port == listener.port);
    others.find_map(|other| {
        if other.protocol != listener.protocol {
            Some(Conflict::Protocol(other.name.clone()))
        } else if host(other) == host(listener) {
            Some(Conflict::Hostname(other.name.clone()))
        } else {
            None
        }
    })
}

/// Returns the Secret that a reference of a listener names.
pub fn secret_key(reference: &ObjectReference, namespace: &str) -> Key {
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    (namespace.to_owned(), reference.name.clone())
}

/// Returns the Secret with the certificate of a listener. If several are named, the first is used.
fn certificate<'a>(
    listener: &Listener,
    namespace: &str,
    grants: &ReferenceGrants,
    secret: &dyn Fn(&Key) -> Option<&'a Secret>,
) -> Result<Key, NoCertificate> {
    let references = listener.tls.as_ref().map(|tls| &*tls.certificate_refs).unwrap_or(&[]);
    let reference = references.first().ok_or(NoCertificate::None)?;
    let (group, kind) = (reference.group.as_deref(), reference.kind.as_deref());
    if group.is_some_and(|group| !group.is_empty()) || kind.is_some_and(|kind| kind != "Secret") {
        return Err(NoCertificate::Kind(kind.unwrap_or("another group").to_owned()));
    }
    let key = secret_key(reference, namespace);
    let target = Target { group: "", kind: "Secret", namespace: &key.0, name: &key.1 };
    // Without a grant, the status must not reveal whether a Secret of another namespace exists.
    if !grants.permit(Referrer::Gateway, namespace, target) {
        return Err(NoCertificate::NotPermitted(key.0, key.1));
    }
    let Some(found) = secret(&key) else { return Err(NoCertificate::Missing(key.0, key.1)) };
    match check(found) {
        Ok(()) => Ok(key),
        Err(error) => Err(NoCertificate::Malformed(key.0, key.1, error)),
    }
}

/// Returns the certificate and the key of a Secret, in PEM, unless one of them is missing.
pub fn files(secret: &Secret) -> Option<(&[u8], &[u8])> {
    let data = secret.data.as_ref()?;
    Some((&data.get(CERTIFICATE)?.0, &data.get(KEY)?.0))
}

/// Checks that a Secret has a certificate and a key that can be parsed.
fn check(secret: &Secret) -> Result<(), String> {
    if secret.type_.as_deref() != Some("kubernetes.io/tls") {
        return Err("its type is not kubernetes.io/tls; create it with that type".to_owned());
    }
    let missing = || format!("it has no {CERTIFICATE} and {KEY}; add both");
    let (certificate, key) = files(secret).ok_or_else(missing)?;
    identity::certificates(CERTIFICATE, certificate).map_err(|error| error.to_string())?;
    PrivateKeyDer::from_pem_slice(key)
        .map(drop)
        .map_err(|_| format!("{KEY} contains no private key in PEM; replace it"))
}

#[cfg(test)]
mod tests;

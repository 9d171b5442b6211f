//! The errors of requests and sockets of Workers, each with its stage and, in its message, a
//! remedy.
//!
//! Tenants read the messages, which therefore never contain an address that only the node's
//! resolver knows.

use std::fmt;
use std::io;

use super::policy::AddressRefused;
use super::proxy::ProxyError;

/// The reason why a request has no response, a socket is not opened, or a response's body was
/// interrupted.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    #[error("the URL scheme '{0}:' cannot be fetched; http:, https: and data: can")]
    Scheme(String),
    #[error(
        "port {0} is reserved for another protocol and cannot be fetched from; serve HTTP on another port"
    )]
    BadPort(u16),
    #[error(
        "port 25 is for mail between servers, and Workers may not connect to it; submit mail on port 465 or 587"
    )]
    MailDelivery,
    #[error("the Worker's spec.egress.allow does not list {host}:{port}; add it there")]
    NotListed { host: String, port: u16 },
    #[error("the Worker's spec.egress.allow does not list {host}; add it there")]
    HostNotListed { host: String },
    #[error(
        "{host} is {}, which Workers may not reach; an administrator can allow its network with \
         spec.egress.allowCidrs of the RuntimePool, or with --egress-allow",
        .why.as_str()
    )]
    RefusedAddress { host: String, why: AddressRefused },
    #[error(
        "{host} has no address that Workers may reach; an administrator can allow a network with \
         spec.egress.allowCidrs of the RuntimePool, or with --egress-allow"
    )]
    RefusedName { host: String },
    #[error("the request cannot be sent: {0}")]
    Request(String),
    #[error(
        "the invocation has reached its limit of {0} subrequests; make fewer, or raise spec.limits.subrequests"
    )]
    Subrequests(u32),
    #[error(
        "{0} has too many sockets, and responses whose bodies are neither read nor canceled; call socket.close(), and \
         response.body.cancel() where a body is unused"
    )]
    TooManyOpen(&'static str),
    #[error(
        "the connection's data does not fit into the Worker's memory; raise spec.limits.memoryMiB"
    )]
    Memory,
    #[error("the name {host} cannot be resolved: {why}")]
    Name { host: String, why: &'static str },
    #[error("cannot connect to {host}:{port}: {source}")]
    Connect { host: String, port: u16, source: io::Error },
    #[error("cannot connect to {host}:{port} through the platform's proxy {proxy}: {fault}")]
    Proxy { proxy: String, host: String, port: u16, fault: ProxyError },
    #[error("cannot establish TLS with {host}:{port}: {source}")]
    Tls { host: String, port: u16, source: io::Error },
    #[error("{stage} {host} took longer than {seconds} s")]
    TimedOut { stage: Stage, host: String, seconds: u64 },
    #[error("the exchange with {host} failed: {why}")]
    Exchange { host: String, why: String },
    #[error("the redirect cannot be followed: {0}")]
    Redirect(&'static str),
    #[error("the response's body was interrupted: {0}")]
    Body(String),
    #[error("the response's body is not {coding} as its Content-Encoding says: {why}")]
    Decode { coding: &'static str, why: String },
    #[error("the request's body was interrupted: {0}")]
    Upload(String),
}

tenon_lifecycle::label_values! {
    /// The stage at which a request failed, by its name in metrics and errors.
    pub enum Stage {
        Policy = "policy",
        Limit = "limit",
        Request = "request",
        Resolve = "resolve",
        Connect = "connect",
        Proxy = "proxy",
        Tls = "tls",
        Exchange = "exchange",
        Redirect = "redirect",
        Body = "body",
    }
}

impl fmt::Display for Stage {
    /// Formats the stage as the subject of a timeout message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "resolving",
            Self::Connect => "connecting to",
            Self::Tls => "the TLS handshake with",
            _ => "the exchange with",
        })
    }
}

impl EgressError {
    /// Returns the stage at which the request failed.
    pub fn stage(&self) -> Stage {
        match self {
            Self::BadPort(_)
            | Self::MailDelivery
            | Self::NotListed { .. }
            | Self::HostNotListed { .. }
            | Self::RefusedAddress { .. }
            | Self::RefusedName { .. } => Stage::Policy,
            Self::Subrequests(_) | Self::TooManyOpen(_) | Self::Memory => Stage::Limit,
            Self::Scheme(_) | Self::Request(_) | Self::Upload(_) => Stage::Request,
            Self::Name { .. } => Stage::Resolve,
            Self::Connect { .. } => Stage::Connect,
            Self::Proxy { .. } => Stage::Proxy,
            Self::Tls { .. } => Stage::Tls,
            Self::TimedOut { stage, .. } => *stage,
            Self::Exchange { .. } => Stage::Exchange,
            Self::Redirect(_) => Stage::Redirect,
            Self::Body(_) | Self::Decode { .. } => Stage::Body,
        }
    }
}

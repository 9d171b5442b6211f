//! The changes of the Gateway API's objects and of those on which they depend, and what the changes
//! affect.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use tenon_proto::id::WorkerId;

use crate::listeners::Ports;
use crate::objects::{Gateway, GatewayClass, HttpRoute, ReferenceGrant, StatusAddress};
use crate::{Key, Labels};

/// Functions that look up objects that this crate does not store.
pub struct Lookups<'a> {
    /// Returns the labels of a namespace, if it is known.
    pub labels: &'a dyn Fn(&str) -> Option<&'a Labels>,
    /// Returns a Secret, if it exists.
    pub secret: &'a dyn Fn(&Key) -> Option<&'a Secret>,
}

/// A change of an object that this crate reads. An object that is `None` was deleted.
pub enum Changed<'a> {
    Class(&'a str, Option<Arc<GatewayClass>>),
    Gateway(&'a Key, Option<Arc<Gateway>>),
    Route(&'a Key, Option<Arc<HttpRoute>>),
    Grant(&'a Key, Option<Arc<ReferenceGrant>>),
    Secret(&'a Key),
    Worker(&'a WorkerId),
    /// The labels of a namespace.
    Namespace(&'a str),
    /// The routers' Service.
    Service(Ports, Vec<StatusAddress>),
    /// The kinds of the Gateway API no longer exist.
    NoGatewayApi,
}

/// An object with a status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Class(String),
    Gateway(Key),
    Route(Key),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(name) => write!(f, "GatewayClass {name}"),
            Self::Gateway((namespace, name)) => write!(f, "Gateway {namespace}/{name}"),
            Self::Route((namespace, name)) => write!(f, "HTTPRoute {namespace}/{name}"),
        }
    }
}

/// The hosts and objects that a change affects.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// The routes whose hosts may have changed.
    pub claims: BTreeSet<Key>,
    /// The hosts whose rules may have changed.
    pub hosts: BTreeSet<String>,
    /// The hosts whose certificates may have changed.
    pub certificates: BTreeSet<String>,
    /// The objects whose statuses may have changed.
    pub subjects: BTreeSet<Subject>,
}

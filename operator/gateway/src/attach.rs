//! Decides to which listeners of a Gateway a route attaches, and which hosts it serves there. This
//! module is pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};

use crate::Labels;
use crate::hosts::intersection;
use crate::listeners::{ListenerState, Protocol};
use crate::objects::{GROUP, Gateway, HttpRoute, ParentReference};

/// The protocols of the listeners at which a host is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schemes {
    pub http: bool,
    pub https: bool,
}

impl Schemes {
    pub fn add(&mut self, protocol: Protocol) {
        match protocol {
            Protocol::Http => self.http = true,
            Protocol::Https => self.https = true,
        }
    }
}

/// The listeners to which a route is attached by one of its references.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attached {
    /// The names of the listeners, whether routers serve them or not.
    pub listeners: Vec<String>,
    /// The hosts that routers serve, each with its protocols.
    pub hosts: BTreeMap<String, Schemes>,
}

/// The reason why a route attaches to no listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAttached {
    #[error(
        "the Gateway has no listener of this sectionName and port; correct spec.parentRefs, or add \
         the listener"
    )]
    NoMatchingParent,
    #[error(
        "no listener allows HTTPRoutes of this namespace; change allowedRoutes of the Gateway's \
         listeners"
    )]
    NotAllowedByListeners,
    #[error("no listener has a hostname in common with spec.hostnames; change one of the two")]
    NoMatchingListenerHostname,
}

impl NotAttached {
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoMatchingParent => "NoMatchingParent",
            Self::NotAllowedByListeners => "NotAllowedByListeners",
            Self::NoMatchingListenerHostname => "NoMatchingListenerHostname",
        }
    }
}

/// Returns the namespace and name of the Gateway to which a reference points, if it points to one.
///
/// # Arguments
/// * `namespace` - the namespace of the referring object.
pub fn gateway_key(reference: &ParentReference, namespace: &str) -> Option<crate::Key> {
    let is_gateway = reference.group.as_deref().unwrap_or(GROUP) == GROUP
        && reference.kind.as_deref().unwrap_or("Gateway") == "Gateway";
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    is_gateway.then(|| (namespace.to_owned(), reference.name.clone()))
}

/// Attaches a route to a Gateway.
///
/// # Arguments
/// * `states` - the states of the Gateway's listeners, in the order of the listeners.
/// * `labels` - returns the labels of a namespace, or `None` if the namespace is not known yet.
///
/// # Errors
/// Fails if the route attaches to no listener.
pub fn attach<'a>(
    route: &HttpRoute,
    reference: &ParentReference,
    gateway: &Gateway,
    states: &[ListenerState],
    labels: &dyn Fn(&str) -> Option<&'a Labels>,
) -> Result<Attached, NotAttached> {
    let namespace = route.namespace().unwrap_or_default();
    let mut all: Vec<_> = gateway.spec.listeners.iter().zip(states).collect();
    let section = reference.section_name.as_deref();
    all.retain(|(listener, _)| {
        section.is_none_or(|name| name == listener.name)
            && reference.port.is_none_or(|port| port == listener.port)
    });
    if all.is_empty() {
        return Err(NotAttached::NoMatchingParent);
    }
    all.retain(|(listener, state)| {
        let allowed = listener.allowed_routes.as_ref();
        let allowed = allowed.and_then(|allowed| allowed.namespaces.as_ref());
        let selector = allowed.and_then(|allowed| allowed.selector.as_ref());
        let from = allowed.and_then(|allowed| allowed.from.as_deref()).unwrap_or("Same");
        let allows_namespace = match from {
            "All" => true,
            "Selector" => selector.is_some_and(|selector| selects(selector, labels(&namespace))),
            "Same" => gateway.namespace().as_deref() == Some(&*namespace),
            _ => false,
        };
        allows_namespace && state.allows_http_routes
    });
    if all.is_empty() {
        return Err(NotAttached::NotAllowedByListeners);
    }
    let mut attached = Attached::default();
    for (_, state) in all {
        let hosts = intersection(state.hostname.as_deref(), &route.spec.hostnames);
        if hosts.is_empty() {
            continue;
        }
        attached.listeners.push(state.name.clone());
        if let Some(protocol) = state.programmed() {
            for host in hosts {
                attached.hosts.entry(host).or_default().add(protocol);
            }
        }
    }
    if attached.listeners.is_empty() {
        return Err(NotAttached::NoMatchingListenerHostname);
    }
    Ok(attached)
}

/// Returns whether a selector matches the labels of a namespace. It never matches a namespace that
/// has not been seen yet.
fn selects(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let selector = Selector::try_from(selector.clone());
    labels.is_some_and(|labels| selector.is_ok_and(|selector| selector.matches(labels)))
}

#[cfg(test)]
mod tests;

//! The statuses of the objects of the Gateway API. This module is pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use tenon_crds::{Condition, ConditionStatus, condition};
use tenon_proto::id::WorkerId;

use crate::compile::InvalidBackend;
use crate::gateways::{Gateways, MAX_HOSTS, Parent, Route, Served};
use crate::listeners::ListenerState;
use crate::objects::{
    GROUP, GatewayClass, GatewayClassStatus, GatewayStatus, HttpRoute, HttpRouteStatus,
    ListenerStatus, ParentStatus, RouteGroupKind,
};
use crate::{CONTROLLER, Key};

/// The condition that records the hosts that a route holds, separated by spaces. After a restart,
/// an operator thus knows which claims precede others.
const HOSTS: &str = "tenon.dev/Hosts";

/// The reason why a route does not hold a host that it requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostHost {
    pub reason: &'static str,
    pub message: String,
}

/// Facts about routes that this crate does not know.
pub struct RouteFacts<'a> {
    /// Returns why a route does not hold a host, or `None` if it does.
    pub lost: &'a dyn Fn(&Key, &str) -> Option<LostHost>,
    /// Returns whether a Worker exists.
    pub exists: &'a dyn Fn(&WorkerId) -> bool,
}

/// Returns the hosts that a route holds according to its status.
pub fn recorded_hosts(route: &HttpRoute) -> BTreeSet<String> {
    let parents = route.status.iter().flat_map(|status| &status.parents);
    let ours = parents.filter(|parent| parent.controller_name == CONTROLLER);
    let conditions = ours.flat_map(|parent| &parent.conditions);
    let recorded = conditions.filter(|condition| condition.type_ == HOSTS);
    recorded.flat_map(|condition| condition.message.split(' ')).map(str::to_owned).collect()
}

/// The new conditions of one object, and what they are made from.
struct Conditions<'a> {
    before: &'a [Condition],
    generation: Option<i64>,
    now: Timestamp,
    list: Vec<Condition>,
}

impl Conditions<'_> {
    fn set(
        &mut self,
        type_: &str,
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: impl Into<String>,
    ) {
        let Self { before, generation, now, .. } = self;
        self.list.push(condition(before, type_, status, reason, message, *generation, *now));
    }
}

impl Gateways {
    /// Returns a GatewayClass and its new status, if the class belongs to the platform.
    pub fn class_status(
        &self,
        name: &str,
        now: Timestamp,
    ) -> Option<(&GatewayClass, GatewayClassStatus)> {
        let class = &**self.classes.get(name)?;
        if class.spec.controller_name != CONTROLLER {
            return None;
        }
        let before = class.status.as_ref().map(|status| &*status.conditions).unwrap_or(&[]);
        let generation = class.metadata.generation;
        let mut conditions = Conditions { before, generation, now, list: Vec::new() };
        match class.spec.parameters_ref {
            None => conditions.set("Accepted", true, "Accepted", "the routers serve this class"),
            Some(_) => {
                let message = "spec.parametersRef: not supported; remove it";
                conditions.set("Accepted", false, "InvalidParameters", message);
            }
        }
        Some((class, GatewayClassStatus { conditions: conditions.list }))
    }

    /// Returns a Gateway and its new status, if the Gateway belongs to the platform.
    pub fn gateway_status(
        &self,
        key: &Key,
        now: Timestamp,
    ) -> Option<(&crate::objects::Gateway, GatewayStatus)> {
        let served = self.served.get(key)?;
        let gateway = &*served.object;
        let none = GatewayStatus::default();
        let before = gateway.status.as_ref().unwrap_or(&none);
        let listeners = served.listeners.iter();
        let listeners =
            listeners.map(|listener| listener_status(served, listener, before, now)).collect();
        let generation = gateway.metadata.generation;
        let before = &*before.conditions;
        let mut conditions = Conditions { before, generation, now, list: Vec::new() };
        let is_valid =
            |listener: &&ListenerState| listener.accepted.is_ok() && listener.conflict.is_none();
        let valid = served.listeners.iter().filter(is_valid).count();
        let programmed = served.listeners.iter().filter_map(ListenerState::programmed).count();
        let total = served.listeners.len();
        let not_valid = "a listener cannot be served; see its conditions";
        if gateway.spec.tls.is_some() {
            let message = "spec.tls: not supported; remove it, and use tls of the listeners";
            conditions.set("Accepted", false, "InvalidParameters", message);
        } else if !gateway.spec.addresses.is_empty() {
            let message =
                "spec.addresses: not supported; remove it, and configure the routers' Service";
            conditions.set("Accepted", false, "UnsupportedAddress", message);
        } else if valid == total {
            conditions.set("Accepted", true, "Accepted", "the routers serve this Gateway");
        } else {
            conditions.set("Accepted", valid > 0, "ListenersNotValid", not_valid);
        }
        if programmed == 0 {
            conditions.set(
                "Programmed",
                false,
                "Invalid",
                "no listener can be served; see the conditions of the listeners",
            );
        } else if self.addresses.is_empty() {
            let message = "the routers' Service has no address yet";
            conditions.set("Programmed", false, "AddressNotAssigned", message);
        } else {
            conditions.set("Programmed", true, "Programmed", "the routers have the listeners");
        }
        let status = GatewayStatus {
            addresses: self.addresses.clone(),
            conditions: conditions.list,
            listeners,
        };
        Some((gateway, status))
    }

    /// Returns a route and its new status, if the route refers to a Gateway of the platform or did
    /// so. Entries of other controllers are kept.
    pub fn route_status(
        &self,
        key: &Key,
        facts: &RouteFacts<'_>,
        now: Timestamp,
    ) -> Option<(&HttpRoute, HttpRouteStatus)> {
        let route = self.routes.get(key)?;
        let none = HttpRouteStatus::default();
        let before = route.object.status.as_ref().unwrap_or(&none);
        let is_ours = |parent: &ParentStatus| parent.controller_name == CONTROLLER;
        if route.parents.is_empty() && !before.parents.iter().any(is_ours) {
            return None;
        }
        let (held, lost) = self.divide(key, route, facts);
        // Entries keep their places, so that no two controllers reorder them again and again.
        let mut parents = before.parents.clone();
        let is_current = |entry: &ParentStatus| {
            !is_ours(entry)
                || route.parents.iter().any(|parent| parent.reference == entry.parent_ref)
        };
        parents.retain(is_current);
        for parent in &route.parents {
            let is_of_parent =
                |entry: &&mut ParentStatus| is_ours(entry) && entry.parent_ref == parent.reference;
            let entry = parents.iter_mut().find(is_of_parent);
            let before = entry.as_ref().map(|entry| entry.conditions.clone()).unwrap_or_default();
            let generation = route.object.metadata.generation;
            let conditions = Conditions { before: &before, generation, now, list: Vec::new() };
            let conditions = parent_conditions(route, parent, &held, &lost, facts, conditions);
            match entry {
                Some(entry) => entry.conditions = conditions,
                None => parents.push(ParentStatus {
                    parent_ref: parent.reference.clone(),
                    controller_name: CONTROLLER.to_owned(),
                    conditions,
                }),
            }
        }
        Some((&route.object, HttpRouteStatus { parents }))
    }

    /// Divides the hosts of a route into those that it holds and those that it does not hold. Each
    /// of the latter has the reason.
    fn divide(
        &self,
        key: &Key,
        route: &Route,
        facts: &RouteFacts<'_>,
    ) -> (BTreeSet<String>, BTreeMap<String, LostHost>) {
        let (mut held, mut lost) = (BTreeSet::new(), BTreeMap::new());
        for host in route.hosts.keys() {
            let holds = |route: &Key| (facts.lost)(route, host).is_none();
            if let Some(reason) = (facts.lost)(key, host) {
                lost.insert(host.clone(), reason);
            } else if self.rules_and_left_out(host, &holds).1.contains(key) {
                let message =
                    format!("older HTTPRoutes have too many rules for {host}; remove some of them");
                lost.insert(host.clone(), LostHost { reason: "TooManyRules", message });
            } else {
                held.insert(host.clone());
            }
        }
        (held, lost)
    }
}

fn parent_conditions(
    route: &Route,
    parent: &Parent,
    held: &BTreeSet<String>,
    lost: &BTreeMap<String, LostHost>,
    facts: &RouteFacts<'_>,
    mut conditions: Conditions<'_>,
) -> Vec<Condition> {
    let mut partial = None;
    match (&route.compiled, &parent.attached) {
        (Err(unsupported), _) => {
            conditions.set("Accepted", false, "UnsupportedValue", unsupported.to_string());
        }
        (Ok(_), Err(refused)) => {
            conditions.set("Accepted", false, refused.reason(), refused.to_string());
        }
        (Ok(_), Ok(attached)) => {
            let lost = attached.hosts.keys().find_map(|host| lost.get(host));
            let holds_one = attached.hosts.keys().any(|host| held.contains(host));
            match lost {
                Some(lost) if !holds_one => {
                    conditions.set("Accepted", false, lost.reason, lost.message.clone());
                }
                lost => {
                    partial = lost.map(|lost| (lost.reason, lost.message.clone()));
                    let names = attached.listeners.join(", ");
                    let message = format!("the route is attached to the listeners {names}");
                    conditions.set("Accepted", true, "Accepted", message);
                }
            }
            if route.has_more_hosts {
                let message = format!(
                    "the route has more than {MAX_HOSTS} hosts at its listeners; divide them among \
                     routes"
                );
                partial.get_or_insert(("UnsupportedValue", message));
            }
        }
    }
    if let Some((reason, message)) = partial {
        conditions.set("PartiallyInvalid", true, reason, message);
    }
    let compiled = route.compiled.as_ref().ok();
    let missing = || {
        let workers = compiled.into_iter().flat_map(|compiled| &compiled.workers);
        let missing = workers.filter(|worker| !(facts.exists)(worker)).cloned();
        missing.map(InvalidBackend::NotFound).next()
    };
    match compiled.and_then(|compiled| compiled.invalid.clone()).or_else(missing) {
        Some(invalid) => {
            conditions.set("ResolvedRefs", false, invalid.reason(), invalid.to_string());
        }
        None => conditions.set("ResolvedRefs", true, "ResolvedRefs", "all backends exist"),
    }
    if !held.is_empty() {
        let hosts = held.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        conditions.set(HOSTS, true, "Held", hosts);
    }
    conditions.list
}

fn listener_status(
    served: &Served,
    listener: &ListenerState,
    before: &GatewayStatus,
    now: Timestamp,
) -> ListenerStatus {
    let before = before.listeners.iter().find(|before| before.name == listener.name);
    let before = before.map(|before| &*before.conditions).unwrap_or(&[]);
    let generation = served.object.metadata.generation;
    let mut conditions = Conditions { before, generation, now, list: Vec::new() };
    match (&listener.accepted, &listener.conflict) {
        (Err(error), _) => conditions.set("Accepted", false, error.reason(), error.to_string()),
        (Ok(_), Some(conflict)) => {
            conditions.set("Accepted", false, conflict.reason(), conflict.to_string());
        }
        (Ok(_), None) => {
            conditions.set("Accepted", true, "Accepted", "the routers support the listener");
        }
    }
    match &listener.conflict {
        None => conditions.set("Conflicted", false, "NoConflicts", "no other listener conflicts"),
        Some(conflict) => {
            conditions.set("Conflicted", true, conflict.reason(), conflict.to_string());
        }
    }
    match (&listener.certificate, &listener.invalid_kind) {
        (Err(error), _) => {
            conditions.set("ResolvedRefs", false, error.reason(), error.to_string());
        }
        (Ok(_), Some(kind)) => {
            let message = format!("allowedRoutes.kinds: {kind} is not supported; use HTTPRoute");
            conditions.set("ResolvedRefs", false, "InvalidRouteKinds", message);
        }
        (Ok(_), None) => {
            conditions.set("ResolvedRefs", true, "ResolvedRefs", "all references are resolved");
        }
    }
    match listener.programmed() {
        Some(_) => {
            conditions.set("Programmed", true, "Programmed", "the routers have the listener")
        }
        None => {
            let message = "the listener cannot be served; see its other conditions";
            conditions.set("Programmed", false, "Invalid", message);
        }
    }
    let http_route = RouteGroupKind { group: Some(GROUP.to_owned()), kind: "HTTPRoute".to_owned() };
    ListenerStatus {
        name: listener.name.clone(),
        supported_kinds: listener.allows_http_routes.then_some(http_route).into_iter().collect(),
        attached_routes: served.attached.get(&listener.name).copied().unwrap_or_default(),
        conditions: conditions.list,
    }
}

#[cfg(test)]
mod tests;

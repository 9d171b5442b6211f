//! The state of all objects of the Gateway API, and what a change of one of them affects.
//!
//! The change of one object concerns the objects that refer to it, and the hosts of their routes.
//! Its cost does not grow with the number of other objects. Only a change of the routers' Service
//! concerns all Gateways of the platform. This module is pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use tenon_proto::catalog::{GatewayCertificate, HostRules};
use tenon_proto::id::WorkerId;

use crate::attach::{Attached, NotAttached, Schemes, attach, gateway_key};
use crate::change::{Changed, Effects, Lookups, Subject};
use crate::compile::{Compiled, UnsupportedValue, compile};
use crate::hosts::ANY;
use crate::listeners::{ListenerState, Ports, Protocol, files, listeners, secret_key};
use crate::objects::{Gateway, GatewayClass, HttpRoute, ParentReference, StatusAddress};
use crate::precedence::{self, Member};
use crate::references::ReferenceGrants;
use crate::uses::Uses;
use crate::{CONTROLLER, Key};

/// The maximum number of hosts of a route. A hostname counts once for each listener that narrows
/// it.
pub const MAX_HOSTS: usize = 16;

/// A route, and what follows from it.
pub(crate) struct Route {
    pub(crate) object: Arc<HttpRoute>,
    pub(crate) compiled: Result<Compiled, UnsupportedValue>,
    /// The references to Gateways of the platform, in the order of the spec.
    pub(crate) parents: Vec<Parent>,
    /// The hosts that the route requests.
    pub(crate) hosts: BTreeMap<String, Schemes>,
    /// Whether hosts beyond [`MAX_HOSTS`] were left out.
    pub(crate) has_more_hosts: bool,
}

impl Route {
    /// Returns a route that is not attached yet.
    fn new(object: Arc<HttpRoute>) -> Self {
        Self {
            object,
            compiled: Ok(Compiled::default()),
            parents: Vec::new(),
            hosts: BTreeMap::new(),
            has_more_hosts: false,
        }
    }
}

pub(crate) struct Parent {
    pub(crate) reference: ParentReference,
    pub(crate) gateway: Key,
    pub(crate) attached: Result<Attached, NotAttached>,
}

/// A Gateway of the platform, and what follows from it.
pub(crate) struct Served {
    pub(crate) object: Arc<Gateway>,
    pub(crate) listeners: Vec<ListenerState>,
    /// The number of accepted routes that are attached to each listener, by its name.
    pub(crate) attached: BTreeMap<String, i32>,
}

/// A certificate of a listener, in order of precedence: the time at which the Gateway was created,
/// its namespace and name, the listener, and the Secret.
type Offer = (Option<Timestamp>, Key, String, Key);

/// All objects of the Gateway API.
#[derive(Default)]
pub struct Gateways {
    pub(crate) classes: HashMap<String, Arc<GatewayClass>>,
    /// All Gateways, including those of other controllers.
    objects: HashMap<Key, Arc<Gateway>>,
    pub(crate) served: HashMap<Key, Served>,
    pub(crate) routes: HashMap<Key, Route>,
    grants: ReferenceGrants,
    ports: Ports,
    pub(crate) addresses: Vec<StatusAddress>,
    routes_by_gateway: Uses<Key>,
    routes_by_host: Uses<String>,
    routes_by_worker: Uses<WorkerId>,
    routes_by_namespace: Uses<String>,
    gateways_by_secret: Uses<Key>,
    gateways_by_class: Uses<String>,
    /// The routes that refer to objects of another namespace, by that namespace.
    routes_by_foreign_namespace: Uses<String>,
    /// The Gateways that refer to objects of another namespace, by that namespace.
    gateways_by_foreign_namespace: Uses<String>,
    /// The certificates of each host.
    offers: BTreeMap<String, BTreeSet<Offer>>,
}

impl Gateways {
    /// Applies a change.
    pub fn apply(&mut self, changed: Changed<'_>, lookups: &Lookups<'_>) -> Effects {
        let mut effects = Effects::default();
        match changed {
            Changed::Class(name, class) => self.set_class(name, class, lookups, &mut effects),
            Changed::Gateway(key, gateway) => self.set_gateway(key, gateway, lookups, &mut effects),
            Changed::Route(key, route) => self.set_route(key, route, lookups, &mut effects),
            Changed::Grant((namespace, name), grant) => {
                self.grants.set(namespace, name, grant.map(|grant| grant.spec.clone()));
                for key in self.gateways_by_foreign_namespace.get(namespace) {
                    self.update_gateway(&key, lookups, &mut effects);
                }
                for key in self.routes_by_foreign_namespace.get(namespace) {
                    self.update_route(&key, lookups, &mut effects);
                }
            }
            Changed::Secret(key) => {
                for gateway in self.gateways_by_secret.get(key) {
                    self.update_gateway(&gateway, lookups, &mut effects);
                }
            }
            Changed::Worker(id) => {
                let routes = self.routes_by_worker.get(id);
                effects.subjects.extend(routes.into_iter().map(Subject::Route));
            }
            Changed::Namespace(name) => {
                for key in self.routes_by_namespace.get(name) {
                    self.update_route(&key, lookups, &mut effects);
                }
            }
            Changed::Service(ports, addresses) => {
                if (ports, &addresses) != (self.ports, &self.addresses) {
                    (self.ports, self.addresses) = (ports, addresses);
                    for key in self.served.keys().cloned().collect::<Vec<_>>() {
                        self.update_gateway(&key, lookups, &mut effects);
                    }
                }
            }
            Changed::NoGatewayApi => {
                effects.claims.extend(self.routes.keys().cloned());
                effects
                    .hosts
                    .extend(self.routes.values().flat_map(|route| route.hosts.keys().cloned()));
                effects.certificates.extend(self.offers.keys().cloned());
                let (ports, addresses) = (self.ports, std::mem::take(&mut self.addresses));
                *self = Self { ports, addresses, ..Self::default() };
            }
        }
        effects
    }

    fn set_class(
        &mut self,
        name: &str,
        class: Option<Arc<GatewayClass>>,
        lookups: &Lookups<'_>,
        effects: &mut Effects,
    ) {
        match class {
            Some(class) => _ = self.classes.insert(name.to_owned(), class),
            None => _ = self.classes.remove(name),
        }
        effects.subjects.insert(Subject::Class(name.to_owned()));
        for key in self.gateways_by_class.get(name) {
            self.update_gateway(&key, lookups, effects);
        }
    }

    fn set_gateway(
        &mut self,
        key: &Key,
        gateway: Option<Arc<Gateway>>,
        lookups: &Lookups<'_>,
        effects: &mut Effects,
    ) {
        let class = gateway.iter().map(|gateway| gateway.spec.gateway_class_name.clone());
        self.gateways_by_class.set(key, class.collect());
        match gateway {
            Some(gateway) => _ = self.objects.insert(key.clone(), gateway),
            None => _ = self.objects.remove(key),
        }
        self.update_gateway(key, lookups, effects);
    }

    /// Decides again which listeners of a Gateway are served, and which routes attach to it.
    fn update_gateway(&mut self, key: &Key, lookups: &Lookups<'_>, effects: &mut Effects) {
        let before = self.served.remove(key);
        let object = self.objects.get(key);
        let object = object.filter(|object| self.is_ours(&object.spec.gateway_class_name));
        let secrets = object.into_iter().flat_map(|object| {
            let references = object.spec.listeners.iter().flat_map(|listener| &listener.tls);
            let references = references.flat_map(|tls| &tls.certificate_refs);
            references.map(|reference| secret_key(reference, &key.0))
        });
        let secrets: BTreeSet<Key> = secrets.collect();
        let served = object.map(|object| Served {
            listeners: listeners(object, self.ports, &self.grants, lookups.secret),
            attached: before.as_ref().map(|before| before.attached.clone()).unwrap_or_default(),
            object: object.clone(),
        });
        let namespaces = secrets.iter().map(|secret| secret.0.clone());
        let foreign = namespaces.filter(|namespace| *namespace != key.0);
        self.gateways_by_foreign_namespace.set(key, foreign.collect());
        self.gateways_by_secret.set(key, secrets);
        for (host, offer) in before.iter().flat_map(offers) {
            if let Some(known) = self.offers.get_mut(&host) {
                known.remove(&offer);
                if known.is_empty() {
                    self.offers.remove(&host);
                }
            }
            effects.certificates.insert(host);
        }
        for (host, offer) in served.iter().flat_map(offers) {
            self.offers.entry(host.clone()).or_default().insert(offer);
            effects.certificates.insert(host);
        }
        if let Some(served) = served {
            self.served.insert(key.clone(), served);
        }
        effects.subjects.insert(Subject::Gateway(key.clone()));
        for route in self.routes_by_gateway.get(key) {
            self.update_route(&route, lookups, effects);
        }
    }

    /// Returns whether a class belongs to the platform.
    fn is_ours(&self, class: &str) -> bool {
        self.classes.get(class).is_some_and(|class| class.spec.controller_name == CONTROLLER)
    }

    fn set_route(
        &mut self,
        key: &Key,
        route: Option<Arc<HttpRoute>>,
        lookups: &Lookups<'_>,
        effects: &mut Effects,
    ) {
        let references = route.iter().flat_map(|route| &route.spec.parent_refs);
        let gateways = references.filter_map(|reference| gateway_key(reference, &key.0));
        self.routes_by_gateway.set(key, gateways.collect());
        let namespace = route.iter().map(|_| key.0.clone());
        self.routes_by_namespace.set(key, namespace.collect());
        match route {
            Some(object) => {
                match self.routes.get_mut(key) {
                    Some(route) => route.object = object,
                    None => _ = self.routes.insert(key.clone(), Route::new(object)),
                }
                self.update_route(key, lookups, effects);
            }
            None => {
                if let Some(before) = self.routes.remove(key) {
                    self.count_attached(&before, -1, effects);
                    effects.claims.insert(key.clone());
                    effects.hosts.extend(before.hosts.into_keys());
                }
                self.routes_by_host.set(key, BTreeSet::new());
                self.routes_by_worker.set(key, BTreeSet::new());
                self.routes_by_foreign_namespace.set(key, BTreeSet::new());
                effects.subjects.insert(Subject::Route(key.clone()));
            }
        }
    }

    /// Decides again to which listeners a route attaches, and which hosts it requests.
    fn update_route(&mut self, key: &Key, lookups: &Lookups<'_>, effects: &mut Effects) {
        let Some(before) = self.routes.remove(key) else { return };
        self.count_attached(&before, -1, effects);
        let object = before.object.clone();
        let parents = object.spec.parent_refs.iter().filter_map(|reference| {
            let gateway = gateway_key(reference, &key.0)?;
            let Served { object: parent, listeners, .. } = self.served.get(&gateway)?;
            let attached = attach(&object, reference, parent, listeners, lookups.labels);
            Some(Parent { reference: reference.clone(), gateway, attached })
        });
        let parents: Vec<_> = parents.collect();
        let compiled = compile(&object, &self.grants);
        let (mut hosts, mut has_more_hosts) = (BTreeMap::<String, Schemes>::new(), false);
        // A route with an unsupported value keeps no host.
        let attached = parents.iter().filter_map(|parent| parent.attached.as_ref().ok());
        let requested = attached.filter(|_| compiled.is_ok()).flat_map(|attached| &attached.hosts);
        for (host, schemes) in requested {
            if hosts.len() < MAX_HOSTS || hosts.contains_key(host) {
                let known = hosts.entry(host.clone()).or_default();
                known.http |= schemes.http;
                known.https |= schemes.https;
            } else {
                has_more_hosts = true;
            }
        }
        effects.hosts.extend(before.hosts.keys().chain(hosts.keys()).cloned());
        effects.claims.insert(key.clone());
        effects.subjects.insert(Subject::Route(key.clone()));
        self.routes_by_host.set(key, hosts.keys().cloned().collect());
        let workers = compiled.iter().flat_map(|compiled| &compiled.workers);
        self.routes_by_worker.set(key, workers.cloned().collect());
        let backends = object.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
        let namespaces = backends.filter_map(|backend| backend.object.namespace.clone());
        let foreign = namespaces.filter(|namespace| *namespace != key.0);
        self.routes_by_foreign_namespace.set(key, foreign.collect());
        let route = Route { object, compiled, parents, hosts, has_more_hosts };
        self.count_attached(&route, 1, effects);
        self.routes.insert(key.clone(), route);
    }

    /// Adds `change` to the number of accepted routes of each listener to which a route is
    /// attached.
    fn count_attached(&mut self, route: &Route, change: i32, effects: &mut Effects) {
        if route.compiled.is_err() {
            return;
        }
        // Several references of a route may name one listener.
        let attached = route.parents.iter().filter_map(|parent| {
            let listeners = &parent.attached.as_ref().ok()?.listeners;
            Some(listeners.iter().map(|name| (parent.gateway.clone(), name.clone())))
        });
        for (gateway, listener) in attached.flatten().collect::<BTreeSet<_>>() {
            if let Some(served) = self.served.get_mut(&gateway) {
                *served.attached.entry(listener).or_default() += change;
                effects.subjects.insert(Subject::Gateway(gateway));
            }
        }
    }

    /// Returns the time at which a route was created, if it states one, and the hosts that it
    /// requests, or `None` if there is no such route.
    pub fn requested(&self, key: &Key) -> Option<(Option<Timestamp>, Vec<String>)> {
        let route = self.routes.get(key)?;
        let since = route.object.creation_timestamp().map(|time| time.0);
        Some((since, route.hosts.keys().cloned().collect()))
    }

    /// Returns the rules of a host, or `None` if it has none.
    ///
    /// # Arguments
    /// * `holds` - returns whether a route holds the host.
    pub fn rules(&self, host: &str, holds: &dyn Fn(&Key) -> bool) -> Option<HostRules> {
        let (rules, _) = self.rules_and_left_out(host, holds);
        (!rules.matches.is_empty()).then_some(rules)
    }

    /// Returns the rules of a host, and the routes that have no room among them.
    pub(crate) fn rules_and_left_out(
        &self,
        host: &str,
        holds: &dyn Fn(&Key) -> bool,
    ) -> (HostRules, BTreeSet<Key>) {
        let keys = self.routes_by_host.get(host);
        let members = keys.iter().filter(|key| holds(key)).filter_map(|key| {
            let route = self.routes.get(key)?;
            let since = route.object.creation_timestamp().map(|time| time.0);
            let (schemes, compiled) = (*route.hosts.get(host)?, route.compiled.as_ref().ok()?);
            Some(Member { key, since, schemes, compiled })
        });
        let (rules, left_out) = precedence::rules(host, members.collect());
        (rules, left_out.into_iter().cloned().collect())
    }

    /// Returns the certificate of a host. Of the listeners for the host whose Secret has a
    /// certificate and a key, the one of the oldest Gateway counts. Returns `None` if there is no
    /// such listener.
    pub fn certificate(&self, host: &str, lookups: &Lookups<'_>) -> Option<GatewayCertificate> {
        let mut offers = self.offers.get(host)?.iter();
        let found = offers.find_map(|(.., secret)| (lookups.secret)(secret).and_then(files));
        let (certificate, key) = found?;
        Some(GatewayCertificate {
            host: host.to_owned(),
            certificate: certificate.to_vec(),
            key: key.to_vec(),
        })
    }

    /// Returns the objects that may need a status.
    pub fn subjects(&self) -> Vec<Subject> {
        let classes = self.classes.keys().cloned().map(Subject::Class);
        let gateways = self.served.keys().cloned().map(Subject::Gateway);
        let routes = self.routes.keys().cloned().map(Subject::Route);
        classes.chain(gateways).chain(routes).collect()
    }

    /// Returns a route.
    pub fn route(&self, key: &Key) -> Option<&HttpRoute> {
        self.routes.get(key).map(|route| &*route.object)
    }

    /// Returns the routes of a namespace.
    pub fn routes_of(&self, namespace: &str) -> BTreeSet<Key> {
        self.routes_by_namespace.get(namespace)
    }

    /// Returns the hosts that a route requests.
    pub fn hosts_of(&self, key: &Key) -> impl Iterator<Item = &String> {
        self.routes.get(key).into_iter().flat_map(|route| route.hosts.keys())
    }
}

/// Returns the certificates that the listeners of a Gateway offer, each with its host.
fn offers(served: &Served) -> impl Iterator<Item = (String, Offer)> {
    let gateway = &served.object;
    let since = gateway.creation_timestamp().map(|time| time.0);
    let key = (gateway.namespace().unwrap_or_default(), gateway.name_any());
    let listeners = served.listeners.iter();
    listeners.filter(|listener| listener.programmed() == Some(Protocol::Https)).filter_map(
        move |listener| {
            let secret = listener.certificate.as_ref().ok()?.clone()?;
            let host = listener.hostname.clone().unwrap_or_else(|| ANY.to_owned());
            Some((host, (since, key.clone(), listener.name.clone(), secret)))
        },
    )
}

#[cfg(test)]
mod tests;

//! Applies the changes of the Gateway API's objects, and returns what their statuses and the
//! catalog need.
//!
//! [`tenon_gateway`] decides which hosts an HTTPRoute requests; the claims decide which of these it
//! holds.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use tenon_gateway::objects::{
    Gateway, GatewayClass, GatewayClassStatus, GatewayStatus, HttpRoute, HttpRouteStatus,
    ReferenceGrant, StatusAddress,
};
use tenon_gateway::status::{LostHost, RouteFacts, recorded_hosts};
use tenon_gateway::{Changed, Effects, Lookups, Ports, Subject};
use tenon_proto::catalog::{HostRules, Route};
use tenon_proto::id::WorkerId;

use super::change::{key, store};
use super::{Index, Key, Touched, Watched};
use crate::claims::{Claimant, Holder};

/// The new status of an object of the Gateway API, and the resource version on which it is based.
pub enum GatewayStatusUpdate {
    Class { name: String, version: Option<String>, status: GatewayClassStatus },
    Gateway { key: Key, version: Option<String>, status: GatewayStatus },
    Route { key: Key, version: Option<String>, status: HttpRouteStatus },
}

impl Index {
    pub(super) fn apply_gateway_class(&mut self, watched: Watched<GatewayClass>) -> Touched {
        match watched {
            Watched::Applied(class) => {
                self.change_gateways(Changed::Class(&class.name_any(), Some(class.clone())))
            }
            Watched::Deleted((_, name)) => self.change_gateways(Changed::Class(&name, None)),
        }
    }

    pub(super) fn apply_gateway(&mut self, watched: Watched<Gateway>) -> Touched {
        let (key, gateway) = parts(watched);
        self.change_gateways(Changed::Gateway(&key, gateway))
    }

    pub(super) fn apply_http_route(&mut self, watched: Watched<HttpRoute>) -> Touched {
        let (key, route) = parts(watched);
        self.change_gateways(Changed::Route(&key, route))
    }

    pub(super) fn apply_reference_grant(&mut self, watched: Watched<ReferenceGrant>) -> Touched {
        let (key, grant) = parts(watched);
        self.change_gateways(Changed::Grant(&key, grant))
    }

    /// Applies a change of the routers' Service. If the Service is deleted, its last ports stay in
    /// use, so that its replacement finds all routes in place.
    pub(super) fn apply_router_service(&mut self, watched: Watched<Service>) -> Touched {
        let Watched::Applied(service) = watched else { return Touched::default() };
        let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        let named = |name: &str| {
            let mut ports = ports.clone();
            ports.find(|port| port.name.as_deref() == Some(name)).map(|port| port.port)
        };
        let http = named("http").unwrap_or(Ports::default().http);
        let ports = Ports { http, https: named("https") };
        self.change_gateways(Changed::Service(ports, addresses(&service)))
    }

    pub(super) fn apply_secret(&mut self, watched: Watched<Secret>) -> Touched {
        let key = store(&mut self.secrets, watched);
        let mut touched = self.change_gateways(Changed::Secret(&key));
        touched.workers.extend(self.secret_users.get(&key));
        touched
    }

    /// Applies a change of the Gateway API's objects, or of those to which they refer.
    pub(super) fn change_gateways(&mut self, changed: Changed<'_>) -> Touched {
        let (namespaces, secrets) = (&self.namespaces, &self.secrets);
        let lookups = Lookups {
            labels: &|name| namespaces.labels(name),
            secret: &|key| secrets.get(key).map(|secret| &**secret),
        };
        let Effects { claims, hosts, certificates, subjects } =
            self.gateways.apply(changed, &lookups);
        let certificates = certificates.into_iter().map(|host| {
            let certificate = self.gateways.certificate(&host, &lookups);
            (host, certificate)
        });
        let certificates = certificates.collect();
        let mut affected = BTreeSet::new();
        for key in claims {
            affected.extend(self.claim_hosts(&key));
        }
        let mut touched = self.touched_by_claims(affected);
        touched.certificates = certificates;
        touched.gateway_subjects.extend(subjects);
        for host in hosts {
            let rules = self.host_rules(&host);
            touched.hosts.insert(host, rules);
        }
        touched
    }

    /// Claims the hosts that an HTTPRoute requests. Those that its status records count as
    /// accepted. Returns the other objects that may have gained or lost a host.
    fn claim_hosts(&mut self, key: &Key) -> BTreeSet<Claimant> {
        let claimant = Claimant::HttpRoute(key.clone());
        let (since, hosts) = self.gateways.requested(key).unwrap_or_default();
        let recorded = self.gateways.route(key).map(recorded_hosts).unwrap_or_default();
        let route = |host: &String| all_paths(host);
        let accepted = hosts.iter().filter(|host| recorded.contains(*host)).map(route);
        self.claims.set(claimant, since, accepted.collect(), hosts.iter().map(route).collect())
    }

    /// Returns the effect of changed claims.
    pub(super) fn touched_by_claims(&self, affected: BTreeSet<Claimant>) -> Touched {
        let mut touched = Touched::default();
        for claimant in affected {
            match claimant {
                Claimant::Worker(id) => _ = touched.workers.insert(id),
                Claimant::HttpRoute(key) => {
                    for host in self.gateways.hosts_of(&key) {
                        touched.hosts.insert(host.clone(), self.host_rules(host));
                    }
                    touched.gateway_subjects.insert(Subject::Route(key));
                }
            }
        }
        touched
    }

    /// Returns the effect of a changed Worker.
    ///
    /// # Arguments
    /// * `affected` - the objects whose claims are affected.
    /// * `was_created_or_deleted` - whether the Worker was created or deleted; otherwise, it was
    ///   changed.
    pub(super) fn touched_by_worker(
        &mut self,
        id: &WorkerId,
        affected: BTreeSet<Claimant>,
        was_created_or_deleted: bool,
    ) -> Touched {
        let mut touched = self.touched_by_claims(affected);
        if was_created_or_deleted {
            touched.merge(self.change_gateways(Changed::Worker(id)));
        }
        touched.workers.insert(id.clone());
        touched
    }

    pub(super) fn http_routes_of(&self, namespace: &str) -> BTreeSet<Claimant> {
        self.gateways.routes_of(namespace).into_iter().map(Claimant::HttpRoute).collect()
    }

    fn host_rules(&self, host: &str) -> Option<HostRules> {
        self.gateways.rules(host, &|key| self.holder_of_host(key, host) == Holder::Claimant)
    }

    fn holder_of_host(&self, key: &Key, host: &str) -> Holder {
        self.holder(Claimant::HttpRoute(key.clone()), &all_paths(host))
    }

    /// Returns the objects of the Gateway API that may need a status.
    pub fn gateway_subjects(&self) -> Vec<Subject> {
        self.gateways.subjects()
    }

    /// Returns the status that an object of the Gateway API should have, if its status differs.
    pub fn gateway_status(&self, subject: &Subject, now: Timestamp) -> Option<GatewayStatusUpdate> {
        match subject {
            Subject::Class(name) => {
                let (class, status) = self.gateways.class_status(name, now)?;
                let (name, version) = (name.clone(), class.resource_version());
                let has_changed = class.status.as_ref() != Some(&status);
                has_changed.then_some(GatewayStatusUpdate::Class { name, version, status })
            }
            Subject::Gateway(key) => {
                let (gateway, status) = self.gateways.gateway_status(key, now)?;
                let (key, version) = (key.clone(), gateway.resource_version());
                let has_changed = gateway.status.as_ref() != Some(&status);
                has_changed.then_some(GatewayStatusUpdate::Gateway { key, version, status })
            }
            Subject::Route(key) => {
                let lost = |key: &Key, host: &str| lost(&self.holder_of_host(key, host), key, host);
                let exists = |id: &WorkerId| self.workers.contains_key(id);
                let facts = RouteFacts { lost: &lost, exists: &exists };
                let (route, status) = self.gateways.route_status(key, &facts, now)?;
                let (key, version) = (key.clone(), route.resource_version());
                let has_changed = route.status.as_ref() != Some(&status);
                has_changed.then_some(GatewayStatusUpdate::Route { key, version, status })
            }
        }
    }
}

/// Returns the route of all paths of a host.
fn all_paths(host: &str) -> Route {
    Route { host: host.to_owned(), path: "/".to_owned() }
}

/// Returns why an HTTPRoute does not hold a host, or `None` if it does.
fn lost(holder: &Holder, (namespace, _): &Key, host: &str) -> Option<LostHost> {
    let (reason, message) = match holder {
        Holder::Claimant => return None,
        Holder::Worker(id) => {
            ("HostConflict", format!("{host} belongs to Worker {id}, which had it first"))
        }
        Holder::HttpRoute((owner, name)) => (
            "HostConflict",
            format!("{host} belongs to namespace {owner}, whose HTTPRoute {name} had it first"),
        ),
        Holder::Platform => (
            "HostConflict",
            format!(
                "{host} is in the platform's domain, where it is reserved; choose \
                 <name>.{namespace}.<domain>"
            ),
        ),
        Holder::NotGranted if host == "*" => (
            "HostNotGranted",
            "the route names no hosts, but hosts are given by HostGrants; set spec.hostnames"
                .to_owned(),
        ),
        Holder::NotGranted => (
            "HostNotGranted",
            format!(
                "no HostGrant gives {host} to namespace {namespace}; ask an administrator for a \
                 HostGrant"
            ),
        ),
    };
    let remedy = match holder {
        Holder::Worker(_) | Holder::HttpRoute(_) => "; choose another host in spec.hostnames",
        _ => "",
    };
    Some(LostHost { reason, message: format!("{message}{remedy}") })
}

/// Returns the addresses at which clients reach a Service.
fn addresses(service: &Service) -> Vec<StatusAddress> {
    let address = |type_: &str, value: &String| StatusAddress {
        type_: Some(type_.to_owned()),
        value: value.clone(),
    };
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.into_iter().flat_map(|balancer| balancer.ingress.iter().flatten());
    let outside = ingress.filter_map(|ingress| {
        let ip = ingress.ip.as_ref().map(|ip| address("IPAddress", ip));
        ip.or_else(|| ingress.hostname.as_ref().map(|name| address("Hostname", name)))
    });
    let outside: Vec<_> = outside.take(MAX_ADDRESSES).collect();
    let spec = service.spec.as_ref();
    let type_ = spec.and_then(|spec| spec.type_.as_deref());
    if !outside.is_empty() || type_ == Some("LoadBalancer") {
        return outside;
    }
    let inside = spec.and_then(|spec| spec.cluster_ip.as_ref());
    let inside = inside.filter(|ip| !ip.is_empty() && *ip != "None");
    inside.map(|ip| address("IPAddress", ip)).into_iter().collect()
}

/// The maximum number of addresses that the schema allows in the status of a Gateway.
const MAX_ADDRESSES: usize = 16;

fn parts<K: kube::Resource>(watched: Watched<K>) -> (Key, Option<std::sync::Arc<K>>) {
    match watched {
        Watched::Applied(object) => (key(&*object), Some(object)),
        Watched::Deleted(key) => (key, None),
    }
}

#[cfg(test)]
mod tests;

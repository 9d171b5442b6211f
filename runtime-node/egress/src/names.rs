//! Resolves names: from literal addresses in the URL, `localhost`, `/etc/hosts`, and then the name
//! servers.
//!
//! A name counts as fully qualified, as if it ended with a dot. `/etc/resolv.conf` also lists
//! search domains, three or more of them in a cluster; with search domains, a name would first be
//! looked up inside the cluster, and might lead to different hosts on different nodes. Only the
//! name servers and options of that file are used.
//!
//! Up to [`CACHED_ANSWERS`] answers are cached for their TTL, between [`MIN_TTL`] and [`MAX_TTL`].
//! The cache holds only DNS answers; addresses are judged again for each connection.

use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::config::{LookupIpStrategy, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, Resolver, TokioResolver};
use tokio::sync::Semaphore;
use url::Host;

use super::EgressError;
use super::error::Stage;
use super::settings::Settings;

/// Time limit for the resolution of a name, regardless of the timeout for each attempt in
/// `/etc/resolv.conf`.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Bounds of an answer's TTL in the cache, so that a name with a TTL of zero is not looked up on
/// every request, and a host that has moved is found again.
const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(300);
/// Maximum TTL of a negative answer in the cache.
const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(30);

const CACHED_ANSWERS: u64 = 1024;

/// Maximum number of concurrent queries, each of which uses a socket. Further requests queue; each
/// of them holds a request permit, which bounds the queue.
const MAX_QUERIES: usize = 64;

pub(super) struct Names {
    system: Option<(ResolverConfig, ResolverOpts)>,
    hosts: Arc<Hosts>,
    /// Created on the first query.
    resolver: OnceCell<TokioResolver>,
    queries: Semaphore,
}

impl Names {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            system: settings.resolver.clone(),
            hosts: Arc::clone(&settings.hosts),
            resolver: OnceCell::new(),
            queries: Semaphore::new(MAX_QUERIES),
        }
    }

    /// Returns all addresses of a host, at least one.
    ///
    /// # Errors
    /// Fails if the host has no address, or if its name cannot be resolved.
    pub(super) async fn addresses(&self, host: &Host<String>) -> Result<Vec<IpAddr>, EgressError> {
        if let Some(known) = self.without_query(host) {
            return Ok(known);
        }
        let name = host.to_string();
        let failed = |why| EgressError::Name { host: name.clone(), why };
        let query = query(&name).ok_or_else(|| failed("it is not a valid DNS name"))?;
        let resolver = self.resolver().ok_or_else(|| failed("this platform has no name server"))?;
        let timed_out = || EgressError::TimedOut {
            stage: Stage::Resolve,
            host: name.clone(),
            seconds: TIMEOUT.as_secs(),
        };
        let ask = async {
            let _permit = self.queries.acquire().await.expect("the semaphore is never closed");
            resolver.lookup_ip(query).await.map_err(|error| failed(describe(&error)))
        };
        let answer = tokio::time::timeout(TIMEOUT, ask).await.map_err(|_| timed_out())??;
        let addresses: Vec<_> = answer.iter().collect();
        if addresses.is_empty() { Err(failed("it has no address")) } else { Ok(addresses) }
    }

    /// Returns the addresses of a host, or `None` if they are unknown without a query.
    pub(super) fn without_query(&self, host: &Host<String>) -> Option<Vec<IpAddr>> {
        let name = match host {
            Host::Ipv4(address) => return Some(vec![IpAddr::V4(*address)]),
            Host::Ipv6(address) => return Some(vec![IpAddr::V6(*address)]),
            Host::Domain(name) => name,
        };
        let bare = bare(name);
        if bare == "localhost" || bare.ends_with(".localhost") {
            return Some(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]);
        }
        Some(self.listed(&query(name)?)).filter(|listed| !listed.is_empty())
    }

    /// Returns the addresses that `/etc/hosts` listed for the name when the node started.
    fn listed(&self, name: &Name) -> Vec<IpAddr> {
        let of = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let found = [RecordType::AAAA, RecordType::A].into_iter().filter_map(of);
        found
            .flat_map(|lookup| {
                lookup
                    .answers()
                    .iter()
                    .filter_map(|record| record.data.ip_addr())
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    fn resolver(&self) -> Option<&TokioResolver> {
        if self.resolver.get().is_none() {
            let (config, options) = self.system.as_ref()?;
            let mut builder =
                Resolver::builder_with_config(config.clone(), TokioRuntimeProvider::default());
            let mut options = options.clone();
            options.cache_size = CACHED_ANSWERS;
            options.use_hosts_file = ResolveHosts::Never;
            options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
            options.positive_min_ttl = Some(MIN_TTL);
            options.positive_max_ttl = Some(MAX_TTL);
            options.negative_min_ttl = Some(MIN_TTL);
            options.negative_max_ttl = Some(MAX_NEGATIVE_TTL);
            *builder.options_mut() = options;
            let resolver = builder
                .build()
                .inspect_err(|error| tracing::warn!(%error, "cannot create a DNS resolver; no names can be resolved"))
                .ok()?;
            let _ = self.resolver.set(resolver);
        }
        self.resolver.get()
    }
}

fn query(name: &str) -> Option<Name> {
    Name::from_ascii(format!("{}.", bare(name))).ok()
}

/// Strips the trailing dot of a fully qualified name.
fn bare(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// Describes a failed query without naming the platform's name servers.
fn describe(error: &NetError) -> &'static str {
    if error.is_nx_domain() {
        "the name does not exist"
    } else if error.is_no_records_found() {
        "it has no address"
    } else {
        "the name server does not answer"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn names(hosts: &str) -> Names {
        let mut listed = Hosts::default();
        listed.read_hosts_conf(hosts.as_bytes()).unwrap();
        Names::new(&Settings::isolated(Policy::default(), Vec::new(), listed))
    }

    async fn ask(names: &Names, host: &str) -> Result<Vec<IpAddr>, String> {
        let host = Host::parse(host).unwrap();
        names.addresses(&host).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn an_ip_address_resolves_to_itself() {
        let names = names("");
        assert_eq!(ask(&names, "10.0.0.1").await.unwrap(), ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(ask(&names, "0x7f.1").await.unwrap(), ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(ask(&names, "[::1]").await.unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
    }

    #[tokio::test]
    async fn localhost_and_its_subdomains_resolve_to_loopback() {
        let names = names("");
        for name in ["localhost", "localhost.", "a.b.localhost"] {
            assert!(ask(&names, name).await.unwrap().iter().all(IpAddr::is_loopback), "{name}");
        }
    }

    #[tokio::test]
    async fn only_listed_names_resolve_without_a_name_server() {
        let names = names("192.0.2.7 origin.test other\n2001:db8::7 origin.test");
        let origin = ["2001:db8::7".parse::<IpAddr>().unwrap(), "192.0.2.7".parse().unwrap()];
        assert_eq!(ask(&names, "origin.test").await.unwrap(), origin);
        assert_eq!(ask(&names, "origin.test.").await.unwrap(), origin);
        assert!(ask(&names, "nowhere.test").await.unwrap_err().contains("no name server"));
    }
}

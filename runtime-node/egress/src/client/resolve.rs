//! Resolves names for Workers that request the addresses themselves.
//!
//! A query reaches the name servers of the name's owner, and so could carry data to them: a Worker
//! may resolve only names that it may connect to, and each query counts as a request. The answer
//! contains no address that the Worker may not reach.

use std::net::IpAddr;

use url::Host;

use super::super::EgressError;
use super::super::policy::Allowed;
use super::{Client, EgressContext};

impl Client {
    /// Returns the addresses of a host that the Worker may reach, at least one. Dropping the future
    /// aborts the query.
    ///
    /// # Errors
    /// Fails if the invocation may send no more requests, if the name is not allowed, if the query
    /// fails, or if there is no such address.
    pub async fn resolve(
        &self,
        context: &EgressContext,
        host: Host<String>,
    ) -> Result<Vec<IpAddr>, EgressError> {
        context.budget.subrequest().map_err(EgressError::Subrequests)?;
        let name = host.to_string();
        if !context.egress.allows_host(name.strip_suffix('.').unwrap_or(&name)) {
            return Err(EgressError::HostNotListed { host: name });
        }
        let tenant = context.worker.namespace();
        let _permit = self.limits.acquire(context.worker.as_str(), tenant).await;
        let addresses = self.connector.resolve(&host).await?;
        Ok(addresses.into_iter().map(Allowed::address).collect())
    }
}

//! Connects to the catalog, which operators serve.

use std::time::Duration;

use tenon_lifecycle::tls::Connector;
use tonic::transport::{Channel, Endpoint, Error};

/// The timeout for connecting to an operator.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The interval between two pings to an operator.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// The time after which an operator that has not answered a ping counts as lost.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The catalog's address, and the connector for it.
pub(crate) struct Server {
    endpoint: Endpoint,
    connector: Connector,
}

impl Server {
    pub(crate) fn new(endpoint: Endpoint, connector: Connector) -> Self {
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        Self { endpoint, connector }
    }

    /// Opens a connection to one of the operators.
    ///
    /// # Errors
    /// Fails if no operator can be reached.
    pub(crate) async fn connect(&self) -> Result<Channel, Error> {
        self.endpoint.connect_with_connector(self.connector.clone()).await
    }
}

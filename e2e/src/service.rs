//! A stand-in for a ClusterIP: one address that forwards each connection to the first backend that
//! accepts it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::address;

/// A forwarder of connections, which stops when it is dropped.
#[derive(Debug)]
pub struct Service {
    address: SocketAddr,
    backends: Arc<Mutex<Vec<SocketAddr>>>,
    task: JoinHandle<()>,
}

impl Service {
    /// Starts to listen on a new address, without backends.
    ///
    /// # Errors
    /// Fails if no address is free.
    pub async fn start(port: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((address::free()?, port)).await?;
        let address = listener.local_addr()?;
        let backends = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let task = tokio::spawn(serve(listener, backends.clone()));
        Ok(Self { address, backends, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the backends of new connections, which go to the first backend that accepts. Open
    /// connections keep their backend.
    pub fn set_backends(&self, backends: Vec<SocketAddr>) {
        *self.backends.lock().unwrap_or_else(PoisonError::into_inner) = backends;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, backends: Arc<Mutex<Vec<SocketAddr>>>) {
    let mut connections = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        let backends = backends.lock().unwrap_or_else(PoisonError::into_inner).clone();
        connections.spawn(async move {
            for backend in backends {
                if let Ok(mut far) = TcpStream::connect(backend).await {
                    // If one side fails, the other side is closed. There is no other way to report
                    // the error.
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                    return;
                }
            }
        });
    }
}

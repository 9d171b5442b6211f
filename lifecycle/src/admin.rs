//! The admin server: probes and metrics, on a thread of its own that nothing else can starve.
//!
//! | path | response |
//! | --- | --- |
//! | `/livez` | 200 for as long as this thread runs |
//! | `/readyz` | 200, or 503 and the names of the awaited parts, one per line |
//! | `/metrics` | the metrics in the Prometheus text format |

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::{Encoder, Registry, TextEncoder};
use tokio::sync::oneshot;

use crate::readiness::Readiness;

/// Maximum time for which a connection waits for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a failed accept. The cause is nearly always a temporary lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Arguments for the admin server.
#[derive(Clone, Debug, clap::Args)]
pub struct AdminArgs {
    /// Address on which probes (/livez, /readyz) and metrics (/metrics) are served.
    #[arg(long, env = "TENON_ADMIN_LISTEN", default_value = "0.0.0.0:9090")]
    pub admin_listen: SocketAddr,
}

/// A source of the metrics page.
pub trait Exposition: Send + Sync + 'static {
    /// Returns the page in the Prometheus text format.
    ///
    /// # Errors
    /// Fails if a metric cannot be encoded.
    fn render(&self) -> impl Future<Output = Result<Vec<u8>, prometheus::Error>> + Send;
}

impl Exposition for Registry {
    async fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut page = Vec::new();
        TextEncoder::new().encode(&self.gather(), &mut page)?;
        Ok(page)
    }
}

/// A running admin server, which stops when this value is dropped.
pub struct AdminServer {
    addr: SocketAddr,
    _stop_tx: oneshot::Sender<Infallible>,
}

impl AdminServer {
    /// Returns the listening address; a requested port 0 is replaced by the assigned port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Listens on `addr` and serves requests on a new thread.
///
/// # Errors
/// Fails if the address cannot be bound, or if the runtime or its thread cannot be created.
pub fn spawn(
    addr: SocketAddr,
    metrics: impl Exposition,
    readiness: Readiness,
) -> io::Result<AdminServer> {
    let listener = TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    let addr = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop_tx, stop_rx) = oneshot::channel();
    thread::Builder::new().name("admin".into()).spawn(move || {
        runtime.block_on(async move {
            tokio::select! {
                _ = stop_rx => {}
                error = serve(listener, Arc::new(Pages { metrics, readiness })) => {
                    tracing::error!(%error, "the admin server stopped");
                }
            }
        });
    })?;
    Ok(AdminServer { addr, _stop_tx: stop_tx })
}

async fn serve(listener: TcpListener, pages: Arc<Pages<impl Exposition>>) -> io::Error {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return error,
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept an admin connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let pages = Arc::clone(&pages);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let pages = Arc::clone(&pages);
                async move { Ok::<_, Infallible>(pages.answer(&request).await) }
            });
            // A probe that disconnects early is not worth a log line.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

struct Pages<M> {
    metrics: M,
    readiness: Readiness,
}

impl<M: Exposition> Pages<M> {
    async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n");
        }
        match request.uri().path() {
            "/livez" => text(StatusCode::OK, "live\n"),
            "/readyz" => self.readyz(),
            "/metrics" => self.metrics().await,
            _ => text(StatusCode::NOT_FOUND, "/livez\n/readyz\n/metrics\n"),
        }
    }

    fn readyz(&self) -> Response<Full<Bytes>> {
        match &self.readiness.waiting()[..] {
            [] => text(StatusCode::OK, "ready\n"),
            waiting => text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("waiting for {}\n", waiting.join("\nwaiting for ")),
            ),
        }
    }

    async fn metrics(&self) -> Response<Full<Bytes>> {
        match self.metrics.render().await {
            Ok(page) => {
                let mut response = Response::new(Full::from(page));
                let content_type = header::HeaderValue::from_static(prometheus::TEXT_FORMAT);
                response.headers_mut().insert(header::CONTENT_TYPE, content_type);
                response
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let content_type = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn get(server: &AdminServer, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    fn start(registry: Registry, readiness: Readiness) -> AdminServer {
        spawn(SocketAddr::from(([127, 0, 0, 1], 0)), registry, readiness).unwrap()
    }

    #[test]
    fn readyz_names_the_awaited_parts() {
        let readiness = Readiness::new();
        let server = start(Registry::new(), readiness.clone());
        let (catalog, shards) = (readiness.hold("catalog"), readiness.hold("shards"));
        assert_eq!(get(&server, "/livez"), (200, "live\n".into()));
        assert_eq!(
            get(&server, "/readyz"),
            (503, "waiting for catalog\nwaiting for shards\n".into())
        );
        drop((catalog, shards));
        assert_eq!(get(&server, "/readyz"), (200, "ready\n".into()));
    }

    #[test]
    fn the_metrics_page_shows_the_registry() {
        let registry = Registry::new();
        let counter = prometheus::IntCounter::new("tenon_tests_total", "Tests.").unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        counter.inc();
        let (status, page) = get(&start(registry, Readiness::new()), "/metrics");
        assert_eq!(status, 200);
        assert!(page.contains("\ntenon_tests_total 1\n"), "{page}");
    }

    #[test]
    fn an_unknown_path_lists_the_known_paths() {
        let (status, body) = get(&start(Registry::new(), Readiness::new()), "/");
        assert_eq!(status, 404);
        assert!(body.contains("/readyz"), "{body}");
    }

    #[test]
    fn a_server_does_not_start_on_an_address_in_use() {
        let server = start(Registry::new(), Readiness::new());
        assert!(spawn(server.addr(), Registry::new(), Readiness::new()).is_err());
    }
}

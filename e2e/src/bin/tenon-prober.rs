//! `tenon-prober`, which the tests run in a Pod, sends requests to Workers at a steady rate. It is
//! controlled over HTTP:
//!
//! | request | effect |
//! | --- | --- |
//! | `PUT /load` | starts the load of the [`Plan`] in the body and stops the current load |
//! | `POST /lap` | returns the [`Lap`] since the start of the load, or since the previous lap |
//! | `DELETE /load` | stops, waits for the requests in flight, and returns the last lap |
//! | `GET /readyz` | returns 200 |

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use clap::Parser;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tenon_e2e::open_loop::{Lap, OpenLoop, Plan};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;

/// Sends requests to Workers at a steady rate, and reports every failure.
#[derive(Debug, Parser)]
#[command(name = "tenon-prober", version)]
struct Args {
    /// Address of the listener that controls the load.
    #[arg(long, default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
}

/// The current load, if any.
type Current = Arc<Mutex<Option<OpenLoop>>>;

/// Runs on one thread, because the measurement is about other processes.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let listen = Args::parse().listen;
    let listener =
        TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    // PID 1 of a container is not terminated by a signal that it does not handle.
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        served = serve(listener) => served,
        _ = terminate.recv() => Ok(()),
    }
}

async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let current = Current::default();
    loop {
        let (stream, _) = listener.accept().await?;
        let current = current.clone();
        let service = service_fn(move |request| {
            let current = current.clone();
            async move { answer(request, &current).await }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(
    request: Request<Incoming>,
    current: &Current,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let mut current = current.lock().await;
    let lap = match (head.method, head.uri.path()) {
        (Method::GET, "/readyz") => return page(StatusCode::OK, "ready"),
        (Method::PUT, "/load") => {
            match serde_json::from_slice::<Plan>(&body.collect().await?.to_bytes()) {
                Ok(plan) if plan.requests.is_empty() => {
                    return page(
                        StatusCode::BAD_REQUEST,
                        "the plan has no requests; list at least one",
                    );
                }
                Ok(plan) => {
                    *current = Some(OpenLoop::start(plan));
                    return page(StatusCode::OK, "the load has started");
                }
                Err(error) => {
                    return page(
                        StatusCode::BAD_REQUEST,
                        &format!("the body is not a plan: {error}"),
                    );
                }
            }
        }
        (Method::POST, "/lap") => current.as_mut().map(OpenLoop::lap),
        (Method::DELETE, "/load") => match current.take() {
            Some(load) => Some(load.stop().await),
            None => None,
        },
        _ => {
            return page(
                StatusCode::NOT_FOUND,
                "unknown request; use PUT /load, DELETE /load, POST /lap or GET /readyz",
            );
        }
    };
    respond(lap)
}

fn respond(lap: Option<Lap>) -> anyhow::Result<Response<Full<Bytes>>> {
    match lap {
        Some(lap) => page(StatusCode::OK, &serde_json::to_string(&lap)?),
        None => page(StatusCode::CONFLICT, "no load is running; start one with PUT /load"),
    }
}

fn page(status: StatusCode, text: &str) -> anyhow::Result<Response<Full<Bytes>>> {
    Ok(Response::builder().status(status).body(Full::new(Bytes::from(text.to_owned())))?)
}

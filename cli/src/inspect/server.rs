//! The endpoints through which clients find and open the targets. They are the endpoints of
//! Node.js, except that a target is named after its Worker: a client that is configured to attach
//! to a Worker attaches again when the Worker has a new revision.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tenon_egress::handshake::{Key, WEBSOCKET};
use tenon_engine::inspector::{Client, Inspector, Target};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::guard;
use super::stepping::{Stepping, Verdict};

/// Version of the inspector protocol that V8 reports.
const PROTOCOL: &str = "1.3";

/// The last message to a client after the isolate has ended.
const DETACHED: &str = r#"{"method":"Inspector.detached","params":{"reason":"target_closed"}}"#;

/// Pause after a failed accept. The cause is nearly always a temporary lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

type HttpResponse = Response<Full<Bytes>>;

/// Serves clients until the process exits.
pub(super) async fn serve(listener: TcpListener, inspector: Arc<Inspector>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve_connection(stream, inspector.clone()))),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, inspector: Arc<Inspector>) {
    // A debugger exchanges many small messages, which must not be delayed.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let response = respond(request, &inspector);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.with_upgrades().await {
        tracing::debug!(%error, "lost the connection of a debugger");
    }
}

fn respond(mut request: Request<Incoming>, inspector: &Inspector) -> HttpResponse {
    if !guard::admits(request.headers()) {
        return refusal(StatusCode::FORBIDDEN);
    }
    if request.method() != Method::GET {
        return refusal(StatusCode::METHOD_NOT_ALLOWED);
    }
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.unwrap_or_default();
    match request.uri().path() {
        "/json" | "/json/" | "/json/list" => list(host, &inspector.targets()),
        "/json/version" => version(),
        path => match open(&request, path, inspector) {
            Ok((key, client)) => {
                tokio::spawn(relay(hyper::upgrade::on(&mut request), client));
                switch(&key)
            }
            Err(status) => refusal(status),
        },
    }
}

fn list(host: &str, targets: &[Arc<Target>]) -> HttpResponse {
    json(&targets.iter().map(|target| describe(host, target)).collect())
}

fn describe(host: &str, target: &Target) -> Value {
    let (id, url) = (target.worker().as_str(), target.url().unwrap_or_default());
    json!({
        "description": "Tenon Worker",
        "devtoolsFrontendUrl":
            format!("devtools://devtools/bundled/js_app.html?experiments=true&v8only=true&ws={host}/{id}"),
        "id": id,
        "title": id,
        "type": "node",
        "url": url,
        "webSocketDebuggerUrl": format!("ws://{host}/{id}"),
    })
}

fn version() -> HttpResponse {
    let browser = concat!("tenon/", env!("CARGO_PKG_VERSION"));
    json(&json!({ "Browser": browser, "Protocol-Version": PROTOCOL }))
}

fn json(value: &Value) -> HttpResponse {
    let mut response = Response::new(Full::from(value.to_string()));
    let type_ = HeaderValue::from_static("application/json; charset=UTF-8");
    response.headers_mut().insert(header::CONTENT_TYPE, type_);
    response
}

fn refusal(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(Full::from(format!("{status}\n")));
    *response.status_mut() = status;
    response
}

/// Attaches a client to the Worker at the path, if the request is for a WebSocket.
fn open<T>(
    request: &Request<T>,
    path: &str,
    inspector: &Inspector,
) -> Result<(Key, Client), StatusCode> {
    let header = |name| request.headers().get(name).map(HeaderValue::as_bytes);
    let is_upgrade = header(header::UPGRADE)
        .is_some_and(|upgrade| upgrade.eq_ignore_ascii_case(WEBSOCKET.as_bytes()));
    if !is_upgrade {
        return Err(StatusCode::NOT_FOUND);
    }
    let key = header(header::SEC_WEBSOCKET_KEY).and_then(Key::read);
    let key = key.ok_or(StatusCode::BAD_REQUEST)?;
    let client = inspector.connect(path.trim_start_matches('/')).ok_or(StatusCode::NOT_FOUND)?;
    Ok((key, client))
}

fn switch(key: &Key) -> HttpResponse {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = HeaderValue::from_str(&key.accept()).expect("base64 is a valid header value");
    response.headers_mut().extend([
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::UPGRADE, WEBSOCKET),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ]);
    response
}

/// Passes messages between a client's WebSocket and the Worker's isolate until the WebSocket or the
/// isolate ends.
async fn relay(upgrade: OnUpgrade, client: Client) {
    let Ok(upgraded) = upgrade.await else { return };
    let config = Some(WebSocketConfig::default());
    let socket =
        WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, config).await;
    let (mut to_client, mut from_client) = socket.split();
    let mut stepping = Stepping::default();
    let sent = async {
        while let Some(message) = client.receive().await {
            match stepping.judge(&message) {
                Verdict::Pass => to_client.send(Message::text(message)).await?,
                Verdict::Hide => {}
                Verdict::Call(call) => client.send(call),
            }
        }
        to_client.send(Message::text(DETACHED)).await?;
        to_client.close().await
    };
    let received = async {
        while let Some(message) = from_client.next().await {
            if let Message::Text(text) = message? {
                client.send(text.as_str().to_owned());
            }
        }
        Ok::<_, Error>(())
    };
    let ended = tokio::select! {
        ended = sent => ended,
        ended = received => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "lost the WebSocket of a debugger");
    }
}

//! Tests the load with servers that are slow, wrong or absent.

use std::convert::Infallible;

use anyhow::ensure;
use http::Response;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use super::*;
use crate::await_condition;

const SOON: Duration = Duration::from_secs(10);

/// Starts a server that responds with the name of the requested host. It responds after a delay if
/// the name begins with `slow.`, and with status 503 if the name begins with `wrong.`.
async fn serve() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                // HTTP/2 has the host in the URI.
                let named = request.headers().get("host").and_then(|host| host.to_str().ok());
                let host = named.or(request.uri().host()).unwrap_or_default().to_owned();
                if host.starts_with("slow.") {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                let status = if host.starts_with("wrong.") { 503 } else { 200 };
                let response =
                    Response::builder().status(status).body(Full::new(bytes::Bytes::from(host)));
                Ok::<_, Infallible>(response.expect("the response is valid"))
            });
            tokio::spawn(async move {
                auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), answer)
                    .await
            });
        }
    });
    Ok(address)
}

fn plan(target: SocketAddr, hosts: &[&str]) -> Plan {
    let requests = hosts
        .iter()
        .map(|host| PlannedRequest { host: (*host).to_owned(), body: (*host).to_owned() })
        .collect();
    Plan { target, rate: 200, requests }
}

/// Runs a load until at least `count` requests have ended.
async fn run(plan: Plan, count: u64) -> anyhow::Result<Lap> {
    let mut load = OpenLoop::start(plan);
    let mut sum = load.lap();
    await_condition(&format!("{count} requests to end"), SOON, async || {
        sum = sum.clone().and(load.lap());
        ensure!(sum.served + sum.failed >= count, "{sum}");
        Ok(())
    })
    .await?;
    Ok(sum.and(load.stop().await))
}

#[tokio::test]
async fn every_request_that_begins_is_counted_in_exactly_one_lap() -> anyhow::Result<()> {
    let lap = run(plan(serve().await?, &["a.example", "b.example", "c.example"]), 60).await?;
    assert_eq!(lap.sent, lap.served, "{lap} {:?}", lap.failures);
    assert!(lap.latency.p50 > Duration::ZERO && lap.latency.p50 <= lap.latency.max);
    lap.ensure_all_served(1)
}

#[tokio::test]
async fn a_wrong_answer_to_any_client_is_a_failure_with_its_status_and_body() -> anyhow::Result<()>
{
    let lap = run(plan(serve().await?, &["wrong.example"]), 40).await?;
    assert_eq!((lap.served, lap.failed), (0, lap.sent));
    assert!((lap.failures.len() as u64) < lap.failed, "all {} failures are listed", lap.failed);
    for kind in CLIENT_KINDS {
        assert!(
            lap.failures.iter().any(|failure| failure.kind == kind),
            "no failure of {kind:?} is listed: {:?}",
            lap.failures
        );
    }
    let error = lap.ensure_all_served(1).unwrap_err().to_string();
    assert!(error.contains("503 wrong.example") && error.contains("more"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_slow_response_does_not_delay_others() -> anyhow::Result<()> {
    let lap = run(plan(serve().await?, &["slow.example"]), 100).await?;
    assert!(lap.latency.p50 >= Duration::from_millis(300), "{lap}");
    // A client that waited for each response would send only three requests per second.
    lap.ensure_all_served(100)
}

#[tokio::test]
async fn a_failure_names_the_server_that_cannot_be_reached() -> anyhow::Result<()> {
    let unused_address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let lap = run(plan(unused_address, &["a.example"]), 8).await?;
    assert_eq!(lap.served, 0);
    assert!(
        lap.failures[0].to_string().contains(&format!("cannot connect to {unused_address}")),
        "{}",
        lap.failures[0]
    );
    Ok(())
}

#[tokio::test]
async fn a_load_below_its_rate_is_an_error() -> anyhow::Result<()> {
    let lap = run(plan(serve().await?, &["a.example"]), 20).await?;
    let error = lap.ensure_all_served(100_000).unwrap_err().to_string();
    assert!(error.contains("did not keep its rate"), "{error}");
    Ok(())
}

//! Tests of WebSockets, from a client through the router to a Worker.

use anyhow::{Context, bail, ensure};
use http::Version;
use serde_json::json;
use tenon_crds::Worker;
use tenon_e2e::{Closed, SOON, Scenario, WebSocket, await_condition, worker};
use tokio_tungstenite::tungstenite::Message;

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// Returns a Worker that echoes the messages of WebSockets and interprets some texts as commands. A
/// request without an upgrade gets the numbers of WebSockets that were closed cleanly and
/// uncleanly.
fn echo(name: &str, revision: &str, pool: Option<&str>) -> Worker {
    let source = "
        const closed = { clean: 0, unclean: 0 };
        export default {
            fetch(request) {
                if (request.headers.get('upgrade') !== 'websocket') return Response.json(closed);
                const { 0: client, 1: server } = new WebSocketPair();
                server.accept();
                server.addEventListener('message', ({ data }) => {
                    if (data === 'which?') server.send(REVISION);
                    else if (data === 'close') server.close(4001, 'as you prefer');
                    else if (data === 'flood') for (let i = 0; i < 64; i++) server.send(new Uint8Array(256 * 1024).fill(i));
                    else server.send(data);
                });
                server.addEventListener('close', ({ wasClean }) => { closed[wasClean ? 'clean' : 'unclean']++; });
                const offered = request.headers.get('sec-websocket-protocol').split(', ');
                const headers = { 'sec-websocket-protocol': offered.at(-1) };
                return new Response(null, { status: 101, webSocket: client, headers });
            },
        };";
    let mut echo = worker(name, &source.replace("REVISION", &json!(revision).to_string()));
    if let Some(pool) = pool {
        echo.spec.pool = pool.to_owned();
    }
    echo
}

async fn open(scenario: &Scenario, version: Version, host: &str) -> anyhow::Result<WebSocket> {
    WebSocket::open(scenario.router.address(), version, host, "chat, talk").await
}

/// Returns the numbers of the Worker's WebSockets that were closed cleanly and uncleanly.
async fn closed(scenario: &Scenario, host: &str) -> anyhow::Result<[u64; 2]> {
    let answer = scenario.router.connection().get(host, "/").await?;
    ensure!(answer.status == 200, "the response is {answer:?}");
    let closed: serde_json::Value = serde_json::from_str(&answer.body)?;
    Ok(["clean", "unclean"].map(|how| closed[how].as_u64().unwrap_or_default()))
}

pub async fn a_web_socket_echoes_in_both_versions_of_http(
    scenario: Scenario,
) -> anyhow::Result<()> {
    scenario.namespace.apply(&echo("echo", "only", None)).await?;
    let host = scenario.namespace.host("echo");
    scenario.await_answer(&host, r#"{"clean":0,"unclean":0}"#, SOON).await?;
    for version in VERSIONS {
        let mut socket = open(&scenario, version, &host)
            .await
            .with_context(|| format!("cannot open a WebSocket over {version:?}"))?;
        ensure!(
            socket.protocol() == Some("talk"),
            "the subprotocol is {:?}, not talk",
            socket.protocol()
        );
        let large = (0..10 << 20).map(|i| (i % 251) as u8).collect::<Vec<_>>();
        for message in [
            Message::text("text beyond ASCII: naïve, 5 €"),
            Message::binary(vec![0, 1, 2, 255]),
            Message::text(""),
            Message::binary(large),
        ] {
            socket.send(message.clone()).await?;
            let echoed = socket.receive().await?;
            ensure!(
                echoed == message,
                "the echo of {} bytes differs; it has {} bytes",
                message.len(),
                echoed.len()
            );
        }
        socket.send(Message::Ping("are you there?".into())).await?;
        let pong = socket.receive().await?;
        ensure!(
            pong == Message::Pong("are you there?".into()),
            "the answer to the Ping is {pong:?}"
        );
    }
    Ok(())
}

pub async fn either_side_can_end_a_web_socket(scenario: Scenario) -> anyhow::Result<()> {
    let pool = scenario.namespace.name();
    let node = scenario.start_node_without_lanes(pool, "a").await?;
    scenario.namespace.apply(&echo("ends", "only", Some(pool))).await?;
    let host = scenario.namespace.host("ends");
    scenario.await_answer(&host, r#"{"clean":0,"unclean":0}"#, SOON).await?;
    for (i, version) in (1..).zip(VERSIONS) {
        let mut socket = open(&scenario, version, &host).await?;
        socket.send("close").await?;
        let closed_by_worker = socket.closed().await?;
        ensure!(
            closed_by_worker == Closed { code: 4001, reason: "as you prefer".to_owned() },
            "the WebSocket was closed with {closed_by_worker:?}"
        );

        let mut vanishing = open(&scenario, version, &host).await?;
        ensure!(vanishing.send_and_receive("still here").await? == "still here");
        drop(vanishing);
        await_condition(
            "the Worker to count one clean and one unclean close for each version",
            SOON,
            async || {
                let closed = closed(&scenario, &host).await?;
                ensure!(closed == [i, i], "the counts are {closed:?}, not {:?}", [i, i]);
                Ok(())
            },
        )
        .await?;
    }
    node.delete().await?;
    Ok(())
}

pub async fn a_slowly_read_web_socket_loses_no_message(scenario: Scenario) -> anyhow::Result<()> {
    scenario.namespace.apply(&echo("slow", "only", None)).await?;
    let host = scenario.namespace.host("slow");
    scenario.await_answer(&host, r#"{"clean":0,"unclean":0}"#, SOON).await?;
    for version in VERSIONS {
        let mut socket = open(&scenario, version, &host).await?;
        socket.send("flood").await?;
        // The Worker serves other requests in the meantime.
        for _ in 0..50 {
            closed(&scenario, &host).await?;
        }
        for i in 0..64 {
            match socket.receive().await? {
                Message::Binary(piece) => {
                    ensure!(
                        piece.len() == 256 * 1024 && piece.iter().all(|byte| *byte == i),
                        "piece {i} is wrong"
                    )
                }
                other => bail!("unexpected message: {other:?}"),
            }
        }
    }
    Ok(())
}

pub async fn an_open_web_socket_stays_with_its_revision(scenario: Scenario) -> anyhow::Result<()> {
    scenario.namespace.apply(&echo("rolling", "old", None)).await?;
    let host = scenario.namespace.host("rolling");
    scenario.await_answer(&host, r#"{"clean":0,"unclean":0}"#, SOON).await?;
    let mut sockets = Vec::new();
    for version in VERSIONS {
        sockets.push(open(&scenario, version, &host).await?);
    }
    scenario.namespace.apply(&echo("rolling", "new", None)).await?;
    await_condition("the new revision to serve new WebSockets", SOON, async || {
        let revision =
            open(&scenario, Version::HTTP_11, &host).await?.send_and_receive("which?").await?;
        ensure!(revision == "new", "the {revision} revision serves");
        Ok(())
    })
    .await?;
    for socket in &mut sockets {
        let revision = socket.send_and_receive("which?").await?;
        ensure!(revision == "old", "the open WebSocket moved to the {revision} revision");
    }
    Ok(())
}

pub async fn web_sockets_of_a_killed_node_end_and_open_elsewhere(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let pool = scenario.namespace.name();
    let nodes = vec![scenario.start_node(pool, "a").await?, scenario.start_node(pool, "b").await?];
    scenario.namespace.apply(&echo("chat", "only", Some(pool))).await?;
    let host = scenario.namespace.host("chat");
    let first = scenario.await_answer(&host, r#"{"clean":0,"unclean":0}"#, SOON).await?;
    let serving = first.node.context("the response names no node")?;
    let (victims, others): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|node| node.name() == serving);
    let victim = victims
        .into_iter()
        .next()
        .with_context(|| format!("{serving} is not a node of this pool"))?;

    let mut sockets = Vec::new();
    for version in VERSIONS {
        let mut socket = open(&scenario, version, &host).await?;
        ensure!(socket.send_and_receive("still here").await? == "still here");
        sockets.push(socket);
    }
    let lost = victim.kill().await?;
    for (socket, version) in sockets.into_iter().zip(VERSIONS) {
        let closed = socket
            .closed()
            .await
            .with_context(|| format!("the WebSocket over {version:?} was not closed"))?;
        ensure!(
            closed == Closed { code: 1011, reason: "node_lost".to_owned() },
            "the WebSocket was closed with {closed:?}"
        );
        let mut again = open(&scenario, version, &host).await?;
        ensure!(again.send_and_receive("there again").await? == "there again");
    }
    lost.forget().await?;
    for node in others {
        let ended = node.delete().await?;
        ensure!(ended.success(), "the node ended with {ended}");
    }
    Ok(())
}

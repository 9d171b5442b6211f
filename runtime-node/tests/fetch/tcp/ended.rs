//! Tests of sockets that cannot be opened, that are lost, and that end with their invocation.

use std::rc::Rc;

use tenon_proto::failure::{FailureCode, Phase};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{answer, echo, worker};
use crate::fetching;
use crate::harness::{Shard, await_condition};
use crate::origin::Origin;
use crate::text;

fetching![
    a_failure_names_its_stage_and_the_remedy,
    an_internal_address_is_refused_without_being_named,
    sockets_count_as_subrequests,
    a_lost_connection_fails_both_streams_and_closed,
    a_socket_ends_with_its_invocation,
    a_socket_ends_with_an_invocation_that_is_stopped,
    a_socket_of_an_earlier_invocation_is_closed,
    a_socket_cannot_be_opened_after_its_invocation,
    a_socket_that_is_never_read_does_not_keep_its_invocation,
    a_socket_that_is_read_forever_ends_at_the_wall_limit,
];

const HAS_ENDED: &str = "The socket is closed, or the invocation that opened it has ended";

async fn a_failure_names_its_stage_and_the_remedy(shard: Rc<Shard>) {
    let server = echo().await;
    let closed =
        { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() };
    for (address, part, stage) in [
        (format!("origin.test:{closed}"), "cannot connect to origin.test", "connect"),
        ("nowhere.test:80".to_owned(), "cannot be resolved", "resolve"),
        ("origin.test:25".to_owned(), "submit mail on port 465 or 587", "policy"),
        ("169.254.169.254:80".to_owned(), "metadata service", "policy"),
    ] {
        let body = format!(
            "const socket = connect('{address}');
             const errors = await Promise.all([
               socket.opened, socket.closed, socket.readable.getReader().read(), socket.writable.getWriter().closed,
             ].map((promise) => promise.catch((e) => e)));
             return Response.json([new Set(errors).size, errors[0].name, errors[0].message, errors[0].cause.stage])"
        );
        let answer = answer(&shard, &server, &body).await;
        assert!(answer.starts_with(r#"[1,"Error","connect failed: "#), "{answer}");
        assert!(answer.contains(part) && answer.ends_with(&format!("\"{stage}\"]")), "{answer}");
    }
    assert_eq!(server.connections.get(), 0);
}

async fn an_internal_address_is_refused_without_being_named(shard: Rc<Shard>) {
    let server = echo().await;
    let body =
        "return new Response(await connect('inside.test:80').opened.catch((e) => e.message))";
    let answer = answer(&shard, &server, body).await;
    assert!(answer.contains("inside.test") && answer.contains("--egress-allow"), "{answer}");
    assert!(!answer.contains("10.96"), "{answer}");
}

async fn sockets_count_as_subrequests(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const sockets = Array.from({ length: 5 }, () => connect(`origin.test:${port}`));
        const ends = await Promise.allSettled(sockets.map((socket) => socket.opened));
        return Response.json(ends.map((end) => end.reason?.cause.stage ?? end.status))";
    let limited = worker(&shard, &server, body).limits(|limits| limits.subrequests = 3);
    let expected = r#"["fulfilled","fulfilled","fulfilled","limit","limit"]"#;
    assert_eq!(text(limited.get().await.unwrap()).await, expected);
}

async fn a_lost_connection_fails_both_streams_and_closed(shard: Rc<Shard>) {
    let server = Origin::serve_connections(|mut stream| async move {
        let _ = stream.read_u8().await;
        // Dropping the stream then resets the connection.
        socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    })
    .await;
    let body = "const socket = connect(`origin.test:${port}`);
        const reading = socket.readable.getReader().read();
        const writer = socket.writable.getWriter();
        await writer.write(encode('xyz'));
        const errors = await Promise.all([reading, socket.closed, writer.closed].map((promise) => promise.catch((e) => e)));
        return Response.json([new Set(errors).size, errors[0].name, errors[0].message])";
    let answer = answer(&shard, &server, body).await;
    assert!(answer.starts_with(r#"[1,"NetworkError","The connection was lost: "#), "{answer}");
}

async fn a_socket_ends_with_its_invocation(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const socket = connect(`origin.test:${port}`);
        await socket.opened;
        socket.readable.getReader().read();
        await socket.writable.getWriter().write(encode('x'));
        return new Response('done')";
    assert_eq!(answer(&shard, &server, body).await, "done");
    await_condition("the end of the connection", || {
        (server.connections.get(), server.open.get()) == (1, 0)
    })
    .await;
    // An attempt to connect ends as well, and so does a socket whose promise nothing awaits.
    let body = "connect(`origin.test:${port}`); return new Response('done')";
    assert_eq!(answer(&shard, &server, body).await, "done");
    await_condition("the end of all connections", || server.open.get() == 0).await;
}

async fn a_socket_ends_with_an_invocation_that_is_stopped(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "await connect(`origin.test:${port}`).opened; for (;;);";
    let failure = worker(&shard, &server, body).failure().await;
    assert_eq!(failure, (FailureCode::CpuLimitExceeded, Phase::Handler));
    await_condition("the end of the connection", || {
        (server.connections.get(), server.open.get()) == (1, 0)
    })
    .await;
}

async fn a_socket_of_an_earlier_invocation_is_closed(shard: Rc<Shard>) {
    let server = echo().await;
    let source = format!(
        "import {{ connect }} from 'cloudflare:sockets';
         let socket;
         export default {{ async fetch() {{
           if (socket === undefined) {{
             socket = connect('origin.test:{}', {{ secureTransport: 'starttls' }});
             await socket.opened;
             return new Response('kept');
           }}
           const errors = [
             socket.readable.getReader().read(), socket.writable.getWriter().write(new Uint8Array(1)), socket.closed,
           ].map((promise) => promise.catch((e) => e.message));
           return Response.json(await Promise.all(errors));
         }} }}",
        server.port
    );
    let worker = shard.worker(&source).start().await.unwrap();
    assert_eq!(text(worker.get("/").await.unwrap()).await, "kept");
    await_condition("the end of the connection", || server.open.get() == 0).await;
    let expected = format!(r#"["{HAS_ENDED}","{HAS_ENDED}","{HAS_ENDED}"]"#);
    assert_eq!(text(worker.get("/").await.unwrap()).await, expected);
}

async fn a_socket_cannot_be_opened_after_its_invocation(shard: Rc<Shard>) {
    let server = echo().await;
    let source = format!(
        "import {{ connect }} from 'cloudflare:sockets';
         let late;
         const kept = new Promise((resolve) => {{ late = resolve }}).then(() => {{
           try {{ connect('origin.test:{}'); return 'opened' }} catch (e) {{ return e.message }}
         }});
         export default {{ async fetch() {{ late(); return new Response(await kept) }} }}",
        server.port
    );
    let answer = text(shard.worker(&source).get().await.unwrap()).await;
    assert_eq!(answer, "A socket can be opened only while an event is handled");
    assert_eq!(server.connections.get(), 0);
}

async fn a_socket_that_is_never_read_does_not_keep_its_invocation(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "await connect(`origin.test:${port}`).closed; return new Response('never')";
    assert_eq!(worker(&shard, &server, body).failure().await.0, FailureCode::NoResponse);
    await_condition("the end of the connection", || server.open.get() == 0).await;
}

async fn a_socket_that_is_read_forever_ends_at_the_wall_limit(shard: Rc<Shard>) {
    let server = Origin::serve_connections(|mut stream| async move {
        while stream.write_all(b"tick").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let body = "await rest(connect(`origin.test:${port}`).readable.getReader());";
    let limited = worker(&shard, &server, body).limits(|limits| limits.wall_ms = 1_000);
    assert_eq!(limited.failure().await.0, FailureCode::WallLimitExceeded);
    await_condition("the end of the connection", || server.open.get() == 0).await;
}

//! Tests of the bytes that a Worker exchanges with a server.

use std::cell::Cell;
use std::rc::Rc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{answer, echo, worker};
use crate::fetching;
use crate::harness::{Shard, await_condition};
use crate::origin::Origin;
use crate::text;

fetching![
    bytes_pass_in_both_directions,
    an_address_is_a_string_or_an_object,
    the_end_of_the_peers_direction_ends_the_other,
    with_allow_half_open_the_worker_may_write_after_the_peers_end,
    close_sends_what_has_been_written,
    only_bytes_can_be_written,
    the_readable_stream_can_be_a_response,
    large_data_passes_in_constant_memory,
    nothing_is_read_ahead_of_a_slow_reader,
    a_writer_waits_for_a_slow_peer,
    another_invocation_may_use_the_socket_of_one_in_flight,
];

async fn bytes_pass_in_both_directions(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const socket = connect({ hostname: 'origin.test', port });
        const { remoteAddress, localAddress } = await socket.opened;
        const writer = socket.writable.getWriter();
        const reader = socket.readable.getReader({ mode: 'byob' });
        const answers = [];
        for (const piece of [encode('text'), encode('buffer').buffer, new Uint16Array([0x4241]), new DataView(encode('view').buffer, 1)]) {
          await writer.write(piece);
          const { value } = await reader.read(new Uint8Array(100));
          answers.push(new TextDecoder().decode(value));
        }
        await writer.write(new Uint8Array());
        await writer.close();
        const { done } = await reader.read(new Uint8Array(1));
        return Response.json([remoteAddress === `origin.test:${port}`, localAddress === undefined, answers, done, await socket.closed === undefined])";
    let expected = r#"[true,true,["text","buffer","AB","iew"],true,true]"#;
    assert_eq!(answer(&shard, &server, body).await, expected);
    await_condition("the end of the connection", || server.open.get() == 0).await;
}

async fn an_address_is_a_string_or_an_object(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const seen = [];
        for (const address of [`origin.test:${port}`, `127.0.0.1:${port}`, { hostname: '127.0.0.1', port: `${port}` }, { hostname: '::ffff:127.0.0.1', port }]) {
          const socket = connect(address);
          seen.push((await socket.opened).remoteAddress.replace(`:${port}`, ''));
          await socket.close();
        }
        return Response.json(seen)";
    let expected = r#"["origin.test","127.0.0.1","127.0.0.1","[::ffff:127.0.0.1]"]"#;
    assert_eq!(answer(&shard, &server, body).await, expected);
}

/// Starts a server that says goodbye, ends its direction, and then counts what it receives.
async fn parting() -> (Origin, Rc<Cell<Option<usize>>>) {
    let received = Rc::<Cell<Option<usize>>>::default();
    let count = Rc::clone(&received);
    let server = Origin::serve_connections(move |mut stream| {
        let count = Rc::clone(&count);
        async move {
            let _ = stream.write_all(b"goodbye").await;
            let _ = stream.shutdown().await;
            let mut all = Vec::new();
            if stream.read_to_end(&mut all).await.is_ok() {
                count.set(Some(all.len()));
            }
        }
    })
    .await;
    (server, received)
}

async fn the_end_of_the_peers_direction_ends_the_other(shard: Rc<Shard>) {
    let (server, received) = parting().await;
    let body = "const socket = connect(`origin.test:${port}`);
        const writer = socket.writable.getWriter();
        const text = await rest(socket.readable.getReader());
        const ends = [await writer.closed, await socket.closed];
        const late = await writer.write(encode('late')).catch((e) => e.name);
        return Response.json([text, ends, late])";
    assert_eq!(answer(&shard, &server, body).await, r#"["goodbye",[null,null],"TypeError"]"#);
    await_condition("the end of the connection", || received.get() == Some(0)).await;
}

async fn with_allow_half_open_the_worker_may_write_after_the_peers_end(shard: Rc<Shard>) {
    let (server, received) = parting().await;
    let body = "const socket = connect(`origin.test:${port}`, { allowHalfOpen: true });
        const writer = socket.writable.getWriter();
        const text = await rest(socket.readable.getReader());
        await writer.write(encode('late'));
        const closed = await Promise.race([socket.closed.then(() => true), scheduler.wait(10).then(() => false)]);
        await writer.close();
        await socket.closed;
        return Response.json([text, closed])";
    assert_eq!(answer(&shard, &server, body).await, r#"["goodbye",false]"#);
    await_condition("the end of the connection", || received.get() == Some(4)).await;
}

async fn close_sends_what_has_been_written(shard: Rc<Shard>) {
    let received = Rc::<Cell<usize>>::default();
    let count = Rc::clone(&received);
    let server = Origin::serve_connections(move |mut stream| {
        let count = Rc::clone(&count);
        async move {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all).await;
            count.set(all.len());
        }
    })
    .await;
    // The socket is not even open when it is closed.
    let body = "const socket = connect(`origin.test:${port}`);
        const reading = socket.readable.getReader().read();
        const writer = socket.writable.getWriter();
        for (let i = 0; i < 10; i++) writer.write(new Uint8Array(100_000));
        const closed = [await socket.close(), await socket.closed, await writer.closed];
        return Response.json([closed, (await reading).done])";
    assert_eq!(answer(&shard, &server, body).await, "[[null,null,null],true]");
    await_condition("all bytes", || received.get() == 1_000_000).await;
}

async fn only_bytes_can_be_written(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const names = [];
        for (const chunk of ['text', 1, {}, null, undefined, [1]]) {
          const socket = connect(`origin.test:${port}`, { highWaterMark: 1000 });
          await socket.opened;
          const written = await socket.writable.getWriter().write(chunk).catch((e) => e.name);
          names.push(written, await socket.closed.catch((e) => e.name));
        }
        return Response.json([...new Set(names)])";
    assert_eq!(answer(&shard, &server, body).await, r#"["TypeError"]"#);
    await_condition("the end of the connections", || server.open.get() == 0).await;
}

async fn the_readable_stream_can_be_a_response(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const socket = connect(`origin.test:${port}`);
        const writer = socket.writable.getWriter();
        ctx.waitUntil(writer.write(new Uint8Array(300_000)).then(() => writer.close()));
        return new Response(socket.readable)";
    let response = worker(&shard, &server, body).get().await.unwrap();
    assert_eq!(response.body.collect().await.unwrap().len(), 300_000);
    await_condition("the end of the connection", || server.open.get() == 0).await;
}

async fn large_data_passes_in_constant_memory(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const socket = connect(`origin.test:${port}`);
        let left = 64, received = 0, sum = 0;
        const source = new ReadableStream({ pull(c) {
          if (left-- === 0) return c.close();
          c.enqueue(new Uint8Array(1 << 20).fill(left));
        } }, { highWaterMark: 0 });
        const sent = source.pipeTo(socket.writable);
        for await (const piece of socket.readable) {
          received += piece.length;
          sum += piece[0];
        }
        await sent;
        return Response.json([received, sum > 0])";
    let limited = worker(&shard, &server, body)
        .limits(|limits| (limits.memory_mib, limits.cpu_ms) = (24, 10_000));
    assert_eq!(text(limited.get().await.unwrap()).await, format!("[{},true]", 64 << 20));
}

async fn nothing_is_read_ahead_of_a_slow_reader(shard: Rc<Shard>) {
    let written = Rc::<Cell<usize>>::default();
    let count = Rc::clone(&written);
    let server = Origin::serve_connections(move |mut stream| {
        let count = Rc::clone(&count);
        async move {
            let piece = vec![7; 64 * 1024];
            while let Ok(bytes @ 1..) = stream.write(&piece).await {
                count.set(count.get() + bytes);
            }
        }
    })
    .await;
    let body = "const socket = connect(`origin.test:${port}`);
        const reader = socket.readable.getReader();
        await reader.read();
        await scheduler.wait(200);
        return new Response('slow')";
    assert_eq!(answer(&shard, &server, body).await, "slow");
    // The kernel's buffer at the server's end is not bounded by the node.
    assert!(written.get() < 8 << 20, "{} bytes were sent", written.get());
}

async fn a_writer_waits_for_a_slow_peer(shard: Rc<Shard>) {
    let resume = Rc::<tokio::sync::Notify>::default();
    let (received, shared) = (Rc::<Cell<usize>>::default(), Rc::clone(&resume));
    let count = Rc::clone(&received);
    let server = Origin::serve_connections(move |mut stream| {
        let (count, resume) = (Rc::clone(&count), Rc::clone(&shared));
        async move {
            let mut byte = [0; 1];
            let _ = stream.read_exact(&mut byte).await;
            resume.notified().await;
            let mut buffer = vec![0; 64 * 1024];
            count.set(1);
            while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                count.set(count.get() + bytes);
            }
        }
    })
    .await;
    let body = "const socket = connect(`origin.test:${port}`, { highWaterMark: 1 << 20 });
        const writer = socket.writable.getWriter();
        let written = 0;
        const piece = new Uint8Array(1 << 18);
        while (written < 256) {
          const ready = await Promise.race([writer.ready.then(() => true), scheduler.wait(200)]);
          if (!ready) break;
          writer.write(piece).catch(() => {});
          written++;
        }
        if (request.url.endsWith('/all')) await writer.close();
        return Response.json([written < 256, writer.desiredSize <= 0])";
    let loaded = worker(&shard, &server, body).limits(|limits| limits.cpu_ms = 1_000);
    let loaded = loaded.start().await.unwrap();
    assert_eq!(text(loaded.get("/").await.unwrap()).await, "[true,true]");
    resume.notify_one();
    await_condition("the end of the connection", || server.open.get() == 0).await;
    // The queue was lost with the invocation.
    assert!(received.get() < 64 << 20, "{} bytes were received", received.get());
}

async fn another_invocation_may_use_the_socket_of_one_in_flight(shard: Rc<Shard>) {
    let server = echo().await;
    let source = format!(
        "import {{ connect }} from 'cloudflare:sockets';
         let socket, end;
         export default {{ async fetch(request) {{
           if (socket === undefined) {{
             socket = connect('origin.test:{}');
             await socket.opened;
             await new Promise((resolve) => {{ end = resolve; setTimeout(resolve, 10_000) }});
             return new Response('first');
           }}
           const reader = socket.readable.getReader();
           const writer = socket.writable.getWriter();
           await writer.write(new TextEncoder().encode('shared'));
           const text = new TextDecoder().decode((await reader.read()).value);
           const reading = reader.read().catch((e) => e.message);
           setTimeout(end, 10);
           return Response.json([text, await reading, await writer.write(new Uint8Array(1)).catch((e) => e.message)]);
         }} }}",
        server.port
    );
    let worker = shard.worker(&source).start().await.unwrap();
    let (first, second) = tokio::join!(worker.get("/"), async {
        await_condition("the first connection", || server.open.get() == 1).await;
        worker.get("/").await
    });
    assert_eq!(text(first.unwrap()).await, "first");
    let why = "The socket is closed, or the invocation that opened it has ended";
    assert_eq!(text(second.unwrap()).await, format!(r#"["shared","{why}","{why}"]"#));
}

//! Tests of the modules `node:net` and `node:tls`, with servers in this process.

use std::rc::Rc;

use tenon_proto::revision::CompatibilityFlag;
use tokio::io::AsyncWriteExt as _;

use super::echo;
use super::secured::{server, trusting};
use crate::fetching;
use crate::harness::{Shard, await_condition};
use crate::origin::{Authority, Origin};
use crate::text;

fetching![
    a_socket_exchanges_bytes_and_emits_the_events_of_node_js,
    a_socket_ends_with_its_peer_unless_it_may_be_half_open,
    data_that_is_written_early_waits_for_the_connection,
    large_data_passes_through_pipes,
    an_error_has_a_code_and_precedes_the_close,
    an_idle_socket_emits_timeout,
    a_socket_that_is_destroyed_closes_its_connection,
    a_socket_can_connect_again,
    a_socket_is_paused_by_its_reader,
    tls_is_verified_with_the_nodes_authorities_or_with_given_ones,
    tls_takes_over_a_connection,
    tls_waits_for_the_connection_of_its_socket,
    tls_options_that_cannot_be_honored_are_refused,
];

/// Returns the answer of a Worker with the flag `nodejs_compat`, whose handler has this function
/// body. The body can use the imports, the port `port` of a server on `origin.test`, and
/// `rest(socket)`, which reads text up to the end of a socket.
async fn answer(shard: &Shard, server: &Origin, body: &str) -> String {
    let source = format!(
        "import net from 'node:net';
         import tls from 'node:tls';
         import {{ once }} from 'node:events';
         import {{ pipeline }} from 'node:stream/promises';
         import {{ Readable, Writable }} from 'node:stream';
         const port = {};
         async function rest(socket) {{
           let text = '';
           for await (const piece of socket) text += piece;
           return text;
         }}
         export default {{ async fetch(request, env, ctx) {{ {body} }} }}",
        server.port
    );
    let worker = shard.worker(&source).flags(&[CompatibilityFlag::NodejsCompat].into());
    let worker = worker.limits(|limits| limits.cpu_ms = 5_000);
    text(worker.get().await.unwrap()).await
}

async fn a_socket_exchanges_bytes_and_emits_the_events_of_node_js(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const seen = [];
        const socket = net.connect({ host: 'origin.test', port, noDelay: true, keepAlive: true }, () => seen.push('callback'));
        const states = [socket.connecting, socket.readyState, socket.pending, socket.remoteAddress];
        for (const name of ['connect', 'ready', 'end', 'finish']) socket.on(name, () => seen.push(name));
        const closed = new Promise((resolve) => socket.on('close', (hadError) => { seen.push(`close ${hadError}`); resolve(); }));
        socket.setEncoding('utf8').on('data', (text) => {
          seen.push(text);
          if (text === 'one') socket.cork(), socket.write('t'), socket.write(Buffer.from('wo')), socket.uncork();
          else socket.end();
        });
        await once(socket, 'connect');
        states.push(socket.connecting, socket.readyState, socket.pending, socket.remoteAddress, socket.remotePort === port);
        socket.setNoDelay(true).setKeepAlive(true, 1).ref().unref();
        socket.write('6f6e65', 'hex');
        await closed;
        states.push(socket.readyState, socket.destroyed, socket.bytesRead, socket.bytesWritten);
        return Response.json([seen, states])";
    let expected = concat!(
        r#"[["callback","connect","ready","one","two","finish","end","close false"],"#,
        r#"[true,"opening",true,null,false,"open",false,"origin.test",true,"closed",true,6,6]]"#
    );
    assert_eq!(answer(&shard, &server, body).await, expected);
    await_condition("the end of the connection", || server.open.get() == 0).await;
}

async fn a_socket_ends_with_its_peer_unless_it_may_be_half_open(shard: Rc<Shard>) {
    let server = Origin::serve_connections(|mut stream| async move {
        let _ = stream.write_all(b"goodbye").await;
        let _ = stream.shutdown().await;
        let (mut reader, _writer) = stream.split();
        let _ = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
    })
    .await;
    let body = "const seen = [];
        for (const allowHalfOpen of [false, true]) {
          const socket = net.createConnection({ host: 'origin.test', port, allowHalfOpen });
          const closed = once(socket, 'close');
          let text = '';
          socket.on('data', (piece) => { text += piece; });
          await once(socket, 'end');
          await scheduler.wait(5);
          seen.push(text, socket.writable, socket.readyState);
          if (allowHalfOpen) socket.end('late');
          await closed;
        }
        return Response.json(seen)";
    let expected = r#"["goodbye",false,"closed","goodbye",true,"writeOnly"]"#;
    assert_eq!(answer(&shard, &server, body).await, expected);
}

async fn data_that_is_written_early_waits_for_the_connection(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const socket = new net.Socket();
        const early = new Promise((resolve) => socket.write('unconnected', (error) => resolve(error.code)));
        socket.on('error', () => {});
        const second = new net.Socket().connect(port, 'origin.test');
        second.write('a');
        second.write('b');
        second.end('c');
        return Response.json([await early, await rest(second)])";
    assert_eq!(answer(&shard, &server, body).await, r#"["ERR_SOCKET_CLOSED","abc"]"#);
}

async fn large_data_passes_through_pipes(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const socket = net.connect(port, 'origin.test');
        let left = 256, received = 0, waited = 0;
        const source = new Readable({ read() { this.push(left-- > 0 ? Buffer.alloc(1 << 16, 7) : null) } });
        const sink = new Writable({ write(piece, encoding, done) { received += piece.length; done(); } });
        socket.on('drain', () => waited++);
        await Promise.all([pipeline(source, socket), pipeline(socket, sink)]);
        return Response.json([received, waited > 0])";
    assert_eq!(answer(&shard, &server, body).await, format!("[{},true]", 256 << 16));
}

async fn an_error_has_a_code_and_precedes_the_close(shard: Rc<Shard>) {
    let server = echo().await;
    let closed =
        { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() };
    let body = format!(
        "const seen = [];
         for (const [host, port] of [['origin.test', {closed}], ['nowhere.test', 80], ['10.0.0.1', 80], ['origin.test', 25], ['not a host', 80]]) {{
           const socket = net.connect(port, host);
           const written = new Promise((resolve) => socket.write('x', (error) => resolve(error.code)));
           const ended = new Promise((resolve) => {{
             let code;
             socket.on('error', (error) => {{ code = error.code ?? error.name; }});
             socket.on('close', (hadError) => resolve(`${{code}} ${{hadError}}`));
           }});
           seen.push(await ended, await written);
         }}
         for (const port of [-1, 65536, 1.5, 'x', undefined, {{}}]) {{
           try {{ net.connect(port); }} catch (error) {{ seen.push(error.code); }}
         }}
         return Response.json(seen)"
    );
    let expected = concat!(
        r#"["ECONNREFUSED true","ECONNREFUSED","ENOTFOUND true","ENOTFOUND","EACCES true","EACCES","EACCES true","EACCES","#,
        r#""TypeError true",null,"ERR_SOCKET_BAD_PORT","ERR_SOCKET_BAD_PORT","ERR_SOCKET_BAD_PORT","ERR_METHOD_NOT_IMPLEMENTED","#,
        r#""ERR_INVALID_ARG_TYPE","ERR_INVALID_ARG_TYPE"]"#
    );
    assert_eq!(answer(&shard, &server, &body).await, expected);
    assert_eq!(server.connections.get(), 0);
}

async fn an_idle_socket_emits_timeout(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const socket = net.connect({ port, host: 'origin.test', timeout: 60 });
        await once(socket, 'connect');
        const idle = [];
        let last = Date.now();
        socket.on('timeout', () => idle.push(Date.now() - last)).on('data', () => { last = Date.now(); });
        for (let i = 0; i < 10; i++) {
          socket.write('busy');
          await scheduler.wait(10);
        }
        await once(socket, 'timeout');
        socket.setTimeout(0);
        socket.destroy();
        return Response.json([idle.every((time) => time >= 60), socket.timeout === undefined])";
    assert_eq!(answer(&shard, &server, body).await, "[true,true]");
}

async fn a_socket_that_is_destroyed_closes_its_connection(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const seen = [];
        const socket = net.connect(port, 'origin.test');
        await once(socket, 'connect');
        const error = new Error('mine');
        socket.on('error', (reason) => seen.push(reason === error)).on('close', (hadError) => seen.push(hadError));
        socket.destroy(error);
        const early = net.connect(port, 'origin.test');
        early.on('close', (hadError) => seen.push(hadError));
        early.destroy();
        await scheduler.wait(50);
        return Response.json(seen)";
    assert_eq!(answer(&shard, &server, body).await, "[true,true,false]");
    await_condition("the end of the connections", || server.open.get() == 0).await;
}

async fn a_socket_can_connect_again(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const socket = new net.Socket();
        const texts = [];
        for (let i = 0; i < 3; i++) {
          socket.connect(port, 'origin.test');
          socket.end(`round ${i}`);
          let text = '';
          const add = (piece) => { text += piece; };
          socket.on('data', add);
          await once(socket, 'close');
          socket.off('data', add);
          texts.push(text);
        }
        return Response.json(texts)";
    assert_eq!(answer(&shard, &server, body).await, r#"["round 0","round 1","round 2"]"#);
}

async fn a_socket_is_paused_by_its_reader(shard: Rc<Shard>) {
    let server = Origin::serve_connections(|mut stream| async move {
        let piece = vec![7; 64 * 1024];
        while stream.write_all(&piece).await.is_ok() {}
    })
    .await;
    let body = "const socket = net.connect(port, 'origin.test');
        await once(socket, 'data');
        socket.pause();
        let before;
        do {
          before = socket.bytesRead;
          await scheduler.wait(20);
        } while (socket.bytesRead > before && before < 1 << 20);
        const paused = before < 1 << 20;
        socket.resume();
        await once(socket, 'data');
        socket.destroy();
        return Response.json(paused)";
    assert_eq!(answer(&shard, &server, body).await, "true");
}

async fn tls_is_verified_with_the_nodes_authorities_or_with_given_ones(shard: Rc<Shard>) {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let trusting_shard = trusting(&shard, &authority);
    let server = server(&authority, 0).await;
    let connect = |options: &str| {
        format!(
            "const events = [];
             const socket = tls.connect({{ port, {options} }}, () => events.push('callback'));
             socket.on('connect', () => events.push('connect')).on('secureConnect', () => events.push('secure'));
             socket.on('error', (error) => events.push(error.code));
             socket.on('data', (data) => {{ events.push(`${{data}}`); socket.end(); }});
             socket.write('secret');
             const closed = new Promise((resolve) => socket.on('close', resolve));
             await closed;
             return Response.json([events, socket.authorized, socket.encrypted])"
        )
    };
    let good = r#"[["connect","callback","secure","secret"],true,true]"#;
    let bad = r#"[["connect","EPROTO"],false,true]"#;
    let ca = |authority: &Authority| format!("ca: {:?}", authority.root_pem);
    for (options, shard, expected) in [
        ("host: 'origin.test'".to_owned(), &trusting_shard, good),
        ("host: 'origin.test'".to_owned(), &shard, bad),
        (format!("host: 'origin.test', {}", ca(&authority)), &shard, good),
        (format!("host: 'origin.test', {}", ca(&stranger)), &trusting_shard, bad),
        ("host: '127.0.0.1', servername: 'origin.test'".to_owned(), &trusting_shard, good),
        ("host: '127.0.0.1', servername: 'other.test'".to_owned(), &trusting_shard, bad),
        ("host: 'other.test'".to_owned(), &trusting_shard, bad),
    ] {
        let answer = answer(shard, &server, &connect(&options)).await;
        // `other.test` is a name of this machine only on the trusting shard.
        assert_eq!(answer, expected, "{options}");
    }
}

async fn tls_takes_over_a_connection(shard: Rc<Shard>) {
    let authority = Authority::new();
    let shard = trusting(&shard, &authority);
    let server = server(&authority, 5).await;
    let body = "const seen = [];
        const plain = net.connect(port, 'origin.test');
        const closed = new Promise((resolve) => plain.on('close', resolve));
        plain.write('plain');
        seen.push(`${(await once(plain, 'data'))[0]}`);
        plain.removeAllListeners('data');
        const context = tls.createSecureContext({ ca: undefined, minVersion: 'TLSv1.2' });
        const socket = tls.connect({ socket: plain, servername: 'origin.test', secureContext: context, checkServerIdentity: () => undefined });
        await once(socket, 'secureConnect');
        socket.end('secret');
        seen.push(await rest(socket));
        seen.push(await closed);
        return Response.json([seen, socket.remoteAddress ?? null, plain.destroyed])";
    let answer = answer(&shard, &server, body).await;
    let expected = r#"[["plain","secret",false],null,true]"#;
    assert_eq!(answer, expected);
    await_condition("the end of the connection", || server.open.get() == 0).await;
}

async fn tls_waits_for_the_connection_of_its_socket(shard: Rc<Shard>) {
    let authority = Authority::new();
    let shard = trusting(&shard, &authority);
    let server = server(&authority, 0).await;
    let body = "const connecting = net.connect(port, 'origin.test'), unconnected = new net.Socket();
        const sockets = [connecting, unconnected].map((socket) => tls.connect({ socket, servername: 'origin.test' }));
        unconnected.connect(port, 'origin.test');
        const texts = [];
        for (const socket of sockets) {
          socket.end('secret');
          texts.push(await rest(socket));
        }
        return Response.json(texts)";
    assert_eq!(answer(&shard, &server, body).await, r#"["secret","secret"]"#);
}

async fn tls_options_that_cannot_be_honored_are_refused(shard: Rc<Shard>) {
    let server = echo().await;
    let body = "const seen = [];
        for (const options of [{ rejectUnauthorized: false }, { cert: 'x', key: 'y' }, { ALPNProtocols: ['h2'] }, { ca: 1 }, { socket: new Writable() }]) {
          try { tls.connect({ port, host: 'origin.test', ...options }); } catch (error) { seen.push(error.code); }
        }
        const broken = tls.connect({ port, host: 'origin.test', ca: 'no certificate' });
        seen.push((await once(broken, 'error'))[0].message);
        const pinned = tls.connect({ port, host: 'origin.test', checkServerIdentity: () => new Error('not the pinned key') });
        seen.push((await once(pinned, 'error'))[0].code);
        return Response.json(seen)";
    let answer = answer(&shard, &server, body).await;
    let unimplemented = "\"ERR_METHOD_NOT_IMPLEMENTED\"";
    let expected = format!(
        r#"[{unimplemented},{unimplemented},{unimplemented},"ERR_INVALID_ARG_TYPE",{unimplemented},"The authorities are not certificates in PEM","EPROTO"]"#
    );
    assert_eq!(answer, expected);
}

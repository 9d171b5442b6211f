//! Tests of sockets with TLS.

use std::rc::Rc;

use hickory_resolver::Hosts;
use tenon_egress::{Client, EgressMetrics, Policy, Settings};
use tenon_web::Web;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::answer;
use crate::fetching;
use crate::harness::{Shard, await_condition, engine};
use crate::origin::{Authority, Origin};

fetching![
    tls_begins_with_the_connection,
    tls_begins_later_with_start_tls,
    start_tls_sends_what_has_been_written_before,
    a_certificate_for_another_host_is_refused,
    start_tls_expects_the_host_that_it_is_given,
    a_peer_may_close_without_the_alert_that_ends_tls,
];

/// Returns a shard whose Workers trust the authority. `other.test` is another name of this machine.
pub(super) fn trusting(shard: &Shard, authority: &Authority) -> Rc<Shard> {
    let mut hosts = Hosts::default();
    hosts.read_hosts_conf(&b"127.0.0.1 origin.test other.test"[..]).unwrap();
    let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()], vec![]);
    let settings = Settings::isolated(policy, vec![authority.root.clone()], hosts);
    let client = Client::new(&settings, EgressMetrics::default());
    shard.on(engine(Web::default().with_egress(client)))
}

async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..bytes]).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}

/// Starts a server that echoes over TLS.
///
/// # Arguments
/// * `plain` - number of bytes that the server first echoes in plain text.
pub(super) async fn server(authority: &Authority, plain: usize) -> Origin {
    let acceptor = TlsAcceptor::from(authority.server(&[]));
    Origin::serve_connections(move |mut stream: TcpStream| {
        let acceptor = acceptor.clone();
        async move {
            let mut first = vec![0; plain];
            let _ = stream.read_exact(&mut first).await;
            let _ = stream.write_all(&first).await;
            if let Ok(stream) = acceptor.accept(stream).await {
                echo(stream).await;
            }
        }
    })
    .await
}

async fn tls_begins_with_the_connection(shard: Rc<Shard>) {
    let authority = Authority::new();
    let shard = trusting(&shard, &authority);
    let server = server(&authority, 0).await;
    let body = "const socket = connect(`origin.test:${port}`, { secureTransport: 'on' });
        await socket.opened;
        const writer = socket.writable.getWriter();
        const sent = writer.write(new Uint8Array(500_000)).then(() => writer.close());
        let received = 0;
        for await (const piece of socket.readable) received += piece.length;
        await sent;
        await socket.closed;
        return Response.json([received, socket.secureTransport])";
    assert_eq!(answer(&shard, &server, body).await, r#"[500000,"on"]"#);
    await_condition("the end of the connection", || server.open.get() == 0).await;
}

async fn tls_begins_later_with_start_tls(shard: Rc<Shard>) {
    let authority = Authority::new();
    let shard = trusting(&shard, &authority);
    let server = server(&authority, 5).await;
    let body = "const plain = connect(`origin.test:${port}`, { secureTransport: 'starttls' });
        const reader = plain.readable.getReader();
        const writer = plain.writable.getWriter();
        await writer.write(encode('plain'));
        const first = new TextDecoder().decode((await reader.read()).value);
        // A read that is pending ends with the plain socket.
        const pending = reader.read();
        const socket = plain.startTls();
        const { remoteAddress } = await socket.opened;
        const ends = [(await pending).done, await plain.closed, plain.upgraded, socket.upgraded];
        const late = await writer.write(encode('late')).catch((e) => e.name);
        const secured = socket.writable.getWriter();
        await secured.write(encode('secret'));
        await secured.close();
        const second = await rest(socket.readable.getReader());
        return Response.json([first, remoteAddress === `origin.test:${port}`, ends, late, second])";
    let expected = r#"["plain",true,[true,null,true,false],"TypeError","secret"]"#;
    assert_eq!(answer(&shard, &server, body).await, expected);
    await_condition("the end of the connection", || server.open.get() == 0).await;
    assert_eq!(server.connections.get(), 1);
}

async fn start_tls_sends_what_has_been_written_before(shard: Rc<Shard>) {
    let authority = Authority::new();
    let shard = trusting(&shard, &authority);
    let server = server(&authority, 300_000).await;
    // The server answers only after it has read all of the plain text.
    let body = "const plain = connect(`origin.test:${port}`, { secureTransport: 'starttls', allowHalfOpen: true });
        const writer = plain.writable.getWriter();
        for (let i = 0; i < 3; i++) writer.write(new Uint8Array(100_000));
        let left = 300_000;
        const reader = plain.readable.getReader();
        while (left > 0) left -= (await reader.read()).value.length;
        const socket = plain.startTls();
        const secured = socket.writable.getWriter();
        // The write waits for the handshake.
        secured.write(encode('secret'));
        secured.close();
        return new Response(await rest(socket.readable.getReader()))";
    assert_eq!(answer(&shard, &server, body).await, "secret");
}

async fn a_certificate_for_another_host_is_refused(shard: Rc<Shard>) {
    let authority = Authority::new();
    let shard = trusting(&shard, &authority);
    for plain in [0, 5] {
        let server = server(&authority, plain).await;
        let secure = if plain == 0 { "on" } else { "starttls" };
        let body = format!(
            "let socket = connect(`other.test:${{port}}`, {{ secureTransport: '{secure}' }});
             if (socket.secureTransport === 'starttls') {{
               await socket.writable.getWriter().write(encode('plain'));
               await socket.readable.getReader().read();
               socket = socket.startTls();
             }}
             const errors = await Promise.all([socket.opened, socket.closed, socket.readable.getReader().read()].map((p) => p.catch((e) => e)));
             return Response.json([new Set(errors).size, errors[0].cause.stage, errors[0].message])"
        );
        let answer = answer(&shard, &server, &body).await;
        assert!(answer.starts_with(r#"[1,"tls",""#), "{answer}");
        assert!(answer.contains("failed: cannot establish TLS with other.test"), "{answer}");
    }
}

async fn start_tls_expects_the_host_that_it_is_given(shard: Rc<Shard>) {
    let authority = Authority::new();
    let shard = trusting(&shard, &authority);
    let server = server(&authority, 5).await;
    let body = "const ends = [];
        for (const expectedServerHostname of ['origin.test', 'wrong.test', 'not a host']) {
          const plain = connect(`other.test:${port}`, { secureTransport: 'starttls' });
          await plain.writable.getWriter().write(encode('plain'));
          await plain.readable.getReader().read();
          const socket = plain.startTls({ expectedServerHostname });
          ends.push(await socket.opened.then(() => 'opened', (e) => e.cause?.stage ?? e.name));
        }
        return Response.json(ends)";
    assert_eq!(answer(&shard, &server, body).await, r#"["opened","tls","TypeError"]"#);
}

async fn a_peer_may_close_without_the_alert_that_ends_tls(shard: Rc<Shard>) {
    let authority = Authority::new();
    let shard = trusting(&shard, &authority);
    let acceptor = TlsAcceptor::from(authority.server(&[]));
    let server = Origin::serve_connections(move |stream: TcpStream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.write_all(b"half").await;
                let _ = stream.flush().await;
                // The stream is dropped without the alert that ends TLS.
            }
        }
    })
    .await;
    let body = "const socket = connect(`origin.test:${port}`, { secureTransport: 'on' });
        const reader = socket.readable.getReader();
        const first = new TextDecoder().decode((await reader.read()).value);
        const { done } = await reader.read();
        return Response.json([first, done])";
    assert_eq!(answer(&shard, &server, body).await, r#"["half",true]"#);
}

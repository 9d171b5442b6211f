//! Tests of TCP sockets that a Worker opens to servers in this process.

mod ended;
mod exchanged;
mod nodejs;
mod secured;

use libtest_mimic::Trial;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{Shard, Worker};
use crate::origin::Origin;
use crate::text;

pub(crate) fn trials() -> Vec<Trial> {
    let suites = [ended::trials(), exchanged::trials(), nodejs::trials(), secured::trials()];
    suites.into_iter().flatten().collect()
}

/// Returns a Worker whose handler has this function body. The body can use `connect`, the port
/// `port` of a server on `origin.test`, `encode(text)`, and `rest(reader)`, which reads text up to
/// the end of a stream.
fn worker(shard: &Shard, server: &Origin, body: &str) -> Worker {
    shard.worker(&format!(
        "import {{ connect }} from 'cloudflare:sockets';
         const port = {};
         const encode = (text) => new TextEncoder().encode(text);
         async function rest(reader) {{
           let text = '';
           const decoder = new TextDecoder();
           for (;;) {{
             const {{ value, done }} = await reader.read();
             if (done) return text;
             text += decoder.decode(value, {{ stream: true }});
           }}
         }}
         export default {{ async fetch(request, env, ctx) {{ {body} }} }}",
        server.port
    ))
}

async fn answer(shard: &Shard, server: &Origin, body: &str) -> String {
    text(worker(shard, server, body).get().await.unwrap()).await
}

/// Starts a server that returns what it receives, piece by piece, and ends its direction when its
/// client does.
async fn echo() -> Origin {
    Origin::serve_connections(|mut stream: TcpStream| async move {
        let (mut reader, mut writer) = stream.split();
        if tokio::io::copy(&mut reader, &mut writer).await.is_ok() {
            let _ = writer.shutdown().await;
        }
    })
    .await
}

//! Tenants that use as much of a shard as they can, or try to exceed their limits.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use tenon_e2e::Connection;
use tenon_proto::revision::Limits;
use tokio::time::Instant;

use crate::quantile::median;
use crate::tenon::Testbed;

/// The source of a Worker that spends CPU time in proportion to the number in the query of the
/// request's URL.
const SPENDER: &str = "export default {
  fetch(request) {
    const rounds = Number(new URL(request.url).search.slice(1));
    let x = 1;
    for (let i = 0; i < rounds; i++) x = (Math.imul(x, 31) + i) | 0;
    return new Response(String(x));
  },
};";

/// The source of a Worker whose requests never end.
const BREAKER: &str = "export default { fetch() { for (;;); } };";

/// The source of a Worker that keeps about 100 MiB of small objects. Each request turns random old
/// ones into garbage, which only full collections reclaim.
const COLLECTOR: &str = "const retained = [];
export default {
  fetch() {
    for (let i = 0; i < 100_000; i++) {
      const entry = { next: retained[i], values: [i, i + 1, i + 2, i + 3] };
      entry.next &&= null;
      if (retained.length < 1_200_000) retained.push(entry);
      else retained[Math.floor(Math.random() * retained.length)] = entry;
    }
    return new Response(String(retained.length));
  },
};";

/// The source of a Worker that compiles a WebAssembly module of about one mebibyte per request.
/// Each module differs from the 63 before it.
const COMPILER: &str = "let made = 0;
const number = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...number(n >>> 7)]);
const section = (id, content) => [id, ...number(content.length), ...content];
function module(functions, steps) {
  const body = [1, 1, 127];
  for (let i = 0; i < steps; i++) body.push(32, 0, 65, ...number((made + i) & 63), 106, 33, 0);
  body.push(32, 0, 11);
  const code = [...number(body.length), ...body];
  const types = section(1, [1, 96, 0, 1, 127]);
  const declared = section(3, [...number(functions), ...new Array(functions).fill(0)]);
  const head = [0, 97, 115, 109, 1, 0, 0, 0, ...types, ...declared, 10, ...number(number(functions).length + functions * code.length)];
  const bytes = new Uint8Array(head.length + number(functions).length + functions * code.length);
  bytes.set(head);
  bytes.set(number(functions), head.length);
  for (let i = 0; i < functions; i++) bytes.set(code, bytes.length - (i + 1) * code.length);
  made++;
  return bytes;
}
export default {
  fetch() {
    const compiled = new WebAssembly.Module(module(1_000, 140));
    return new Response(String(WebAssembly.Module.exports(compiled).length));
  },
};";

/// Number of Workers that are requested in turn to cause cold starts.
const COLD_WORKERS: usize = 600;
/// Maximum size of the source of each of these Workers, in bytes.
const COLD_BYTES: usize = 1 << 20;

/// A tenant that has more work than its shard can do.
#[derive(Debug)]
pub(super) struct Hog {
    pub(super) name: &'static str,
    hosts: Vec<String>,
    path: String,
    count: Cell<usize>,
}

impl Hog {
    fn new(name: &'static str, hosts: Vec<String>) -> Self {
        Self { name, hosts, path: "/".to_owned(), count: Cell::new(0) }
    }

    /// Deploys one hog of each kind.
    pub(super) fn deploy(testbed: &Testbed) -> [Self; 5] {
        let cold = |i| testbed.deploy(&format!("cold-{i}"), large(i));
        [
            Self::new("a spender", vec![testbed.deploy("spender", SPENDER)]),
            Self::new("a breaker", vec![testbed.deploy("breaker", BREAKER)]),
            Self::new("a collector", vec![testbed.deploy("collector", COLLECTOR)]),
            Self::new("cold starts", (0..COLD_WORKERS).map(cold).collect()),
            Self::new("a compiler", vec![testbed.deploy("compiler", COMPILER)]),
        ]
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the hosts for the next requests until `end`, one after another. A call continues
    /// where the previous one stopped.
    pub(super) fn hosts_until(&self, end: Instant) -> impl Iterator<Item = &str> {
        std::iter::from_fn(move || {
            let count = self.count.replace(self.count.get() + 1);
            (Instant::now() < end).then(|| self.hosts[count % self.hosts.len()].as_str())
        })
    }

    /// Makes the spender use nine tenths of its CPU limit. With more, a request could exceed the
    /// limit in a slow moment.
    pub(super) async fn calibrate(&mut self, addr: SocketAddr) -> anyhow::Result<()> {
        const SAMPLES: usize = 9;
        let limit = cpu_limit();
        let mut connection = Connection::to(addr);
        let mut rounds: u64 = 1_000_000;
        loop {
            let path = format!("/?{rounds}");
            let mut seconds = Vec::with_capacity(SAMPLES);
            for _ in 0..SAMPLES {
                let began = Instant::now();
                let answer = connection.get(&self.hosts[0], &path).await?;
                ensure!(
                    answer.status == 200,
                    "the response of the spender to {path} is {answer:?}"
                );
                seconds.push(began.elapsed().as_secs_f64());
            }
            let one = median(seconds);
            if one > limit.as_secs_f64() / 5.0 {
                let rounds = rounds as f64 * 0.9 * limit.as_secs_f64() / one;
                self.path = format!("/?{rounds:.0}");
                return Ok(());
            }
            rounds *= 2;
        }
    }
}

fn cpu_limit() -> Duration {
    Duration::from_millis(Limits::default().cpu_ms.into())
}

/// Returns the source of a Worker, nearly [`COLD_BYTES`] long, with functions that V8 has to parse
/// at start. No two sources are equal.
fn large(i: usize) -> String {
    let mut source = format!("export default {{ fetch: () => new Response('{i}') }};\n");
    for n in 0.. {
        let function = format!(
            "export function f{n}(a, b) {{ return a * {n} + b * {i} - Math.max(a, b, {n}); }}\n"
        );
        if source.len() + function.len() > COLD_BYTES {
            break;
        }
        source += &function;
    }
    source
}

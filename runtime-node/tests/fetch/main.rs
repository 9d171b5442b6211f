//! Tests of Workers that fetch from origins in this process, with an egress policy that permits
//! such requests.

#![allow(clippy::unwrap_used)] // Clippy knows tests by an attribute that this harness does not use.

mod aborts;
mod answers;
mod bodies;
mod clients;
mod events;
mod failures;
mod floods;
#[path = "../engine/harness.rs"]
#[allow(dead_code)] // The other suites use more of the harness.
mod harness;
#[path = "../../egress/src/tests/origin.rs"]
#[allow(dead_code)] // The client's own tests use the other functions.
mod origin;
mod sockets;
mod tcp;

use bytes::Bytes;
use hickory_resolver::Hosts;
use tenon_egress::{Client, EgressMetrics, Policy, Settings};
use tenon_engine::{Engine, FetchResponse};
use tenon_web::Web;
use tenon_web::response_cache::ResponseCache;

/// Lists tests. Each test is named after its async function, which receives a new shard.
macro_rules! fetching {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$($crate::harness::trial_on(
                stringify!($name).to_owned(),
                $crate::engine_with_egress,
                |shard| Box::pin($name(shard)),
            )),+]
        }
    };
}
pub(crate) use fetching;

/// Returns an engine whose Workers can reach this machine, also under the name `origin.test`, and
/// for which `inside.test` resolves to an internal address.
fn engine_with_egress() -> Engine {
    let mut hosts = Hosts::default();
    hosts.read_hosts_conf(&b"127.0.0.1 origin.test\n10.96.0.1 inside.test"[..]).unwrap();
    let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()], vec![]);
    let settings = Settings::isolated(policy, Vec::new(), hosts);
    let client = Client::new(&settings, EgressMetrics::default());
    let web = Web::default().with_egress(client).with_responses(ResponseCache::new(1 << 20));
    harness::engine(web)
}

/// Returns a whole response body as text.
async fn text(response: FetchResponse) -> String {
    let body: Bytes = response.body.collect().await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

fn main() {
    tenon_engine::init();
    harness::collect_logs();
    let suites = [
        aborts::trials(),
        answers::trials(),
        bodies::trials(),
        clients::trials(),
        events::trials(),
        failures::trials(),
        floods::trials(),
        sockets::trials(),
        tcp::trials(),
    ];
    libtest_mimic::run(
        &libtest_mimic::Arguments::from_args(),
        suites.into_iter().flatten().collect(),
    )
    .exit()
}

//! Tests a whole node with a catalog that the test controls and an ordinary gRPC client.
//!
//! The suite has its own `main` because V8 must be initialized before the harness creates its
//! threads: on a processor with memory protection keys, a thread that was created earlier crashes
//! when it runs JavaScript.

#![allow(clippy::unwrap_used)] // Clippy knows tests by an attribute that this harness does not use.

mod answers;
mod drain;
mod front;
mod harness;
mod limits;
mod memory;
mod profiles;
mod protocol;
mod reports;
mod rpc;
mod services;
mod sockets;
mod starts;
mod streams;
mod supervisor;
mod tenants;
mod web_sockets;
mod worker_metrics;

fn main() {
    tenon_engine::init();
    harness::log::collect();
    let suites = [
        answers::trials(),
        drain::trials(),
        front::trials(),
        limits::trials(),
        memory::trials(),
        profiles::trials(),
        protocol::trials(),
        reports::trials(),
        rpc::trials(),
        services::trials(),
        sockets::trials(),
        starts::trials(),
        streams::trials(),
        supervisor::trials(),
        tenants::trials(),
        web_sockets::trials(),
        worker_metrics::trials(),
    ];
    libtest_mimic::run(
        &libtest_mimic::Arguments::from_args(),
        suites.into_iter().flatten().collect(),
    )
    .exit()
}

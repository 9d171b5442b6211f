//! A whole node against a real catalog, called by an ordinary gRPC client.
//!
//! The suite has its own `main` because V8 must be initialised before the harness creates its
//! threads: on a processor with memory protection keys, a thread created earlier dies when it runs
//! JavaScript.

#![allow(clippy::unwrap_used)] // Clippy knows tests by an attribute that this harness does not use.

#[path = "node/answers.rs"]
mod answers;
#[path = "node/drain.rs"]
mod drain;
#[path = "node/harness.rs"]
mod harness;
#[path = "node/limits.rs"]
mod limits;
#[path = "node/memory.rs"]
mod memory;
#[path = "node/protocol.rs"]
mod protocol;
#[path = "node/reports.rs"]
mod reports;
#[path = "node/services.rs"]
mod services;
#[path = "node/sockets.rs"]
mod sockets;
#[path = "node/starts.rs"]
mod starts;
#[path = "node/streams.rs"]
mod streams;
#[path = "node/supervisor.rs"]
mod supervisor;
#[path = "node/tallies.rs"]
mod tallies;
#[path = "node/tenants.rs"]
mod tenants;
#[path = "node/web_sockets.rs"]
mod web_sockets;

fn main() {
    tenon_engine::init();
    harness::log::collect();
    let rooms = [
        answers::trials(),
        drain::trials(),
        limits::trials(),
        memory::trials(),
        protocol::trials(),
        reports::trials(),
        services::trials(),
        sockets::trials(),
        starts::trials(),
        streams::trials(),
        supervisor::trials(),
        tallies::trials(),
        tenants::trials(),
        web_sockets::trials(),
    ];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), rooms.into_iter().flatten().collect()).exit()
}

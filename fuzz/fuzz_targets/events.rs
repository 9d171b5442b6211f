//! Fuzzes event streams from an origin (`workers/events.js`).

#![no_main]

tenon_fuzz::in_an_isolate!("../workers/events.js", |host, data: &[u8]| host.send(data));

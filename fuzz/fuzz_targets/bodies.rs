//! Fuzzes forms, headers, media types and `data:` URLs (`workers/bodies.js`).

#![no_main]

tenon_fuzz::in_an_isolate!("../workers/bodies.js", |host, data: &[u8]| host.send(data));

//! Fuzzes documents and selectors of `HTMLRewriter` (`workers/html.js`).

#![no_main]

tenon_fuzz::in_an_isolate!("../workers/html.js", |host, data: &[u8]| host.send(data));

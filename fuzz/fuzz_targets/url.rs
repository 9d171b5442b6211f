//! Fuzzes URLs, their components, setters and parameters, and URL patterns (`workers/url.js`).

#![no_main]

tenon_fuzz::in_an_isolate!("../workers/url.js", |host, data: &[u8]| host.send(data));

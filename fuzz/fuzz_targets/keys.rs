//! Fuzzes Web Crypto keys in every format (`workers/keys.js`).

#![no_main]

tenon_fuzz::in_an_isolate!("../workers/keys.js", |host, data: &[u8]| host.send(data));

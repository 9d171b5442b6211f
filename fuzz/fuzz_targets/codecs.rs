//! Fuzzes text encodings, base64, compression and structured clones (`workers/codecs.js`).

#![no_main]

tenon_fuzz::in_an_isolate!("../workers/codecs.js", |host, data: &[u8]| host.send(data));

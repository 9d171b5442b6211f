//! Text in every encoding, base64, compression, clones (`workers/codecs.js`).

#![no_main]

tenon_fuzz::in_an_isolate!("../workers/codecs.js", |host, data: &[u8]| host.look_at(data));

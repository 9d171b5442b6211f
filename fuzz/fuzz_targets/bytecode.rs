//! Bytecode from a disk is what was written there, or none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_runtime_node::engine::{Bytecode, MalformedBytecode};

fuzz_target!(|data: &[u8]| {
    let _ = Bytecode::decode(data);
    // As this V8 would have it, and with a checksum that is right.
    let head = Bytecode::default().encode();
    let checksum = crc32fast::hash(data).to_le_bytes();
    let version = &head[..head.len() - checksum.len()];
    match Bytecode::decode(&[version, &checksum, data].concat()) {
        Ok(bytecode) => assert_eq!(Bytecode::decode(&bytecode.encode()), Ok(bytecode)),
        Err(why) => assert_eq!(why, MalformedBytecode::Damaged),
    }
});

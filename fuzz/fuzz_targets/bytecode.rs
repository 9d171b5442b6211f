//! Fuzzes bytecode from a disk. Bytecode that is not rejected survives encoding and decoding
//! unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_engine::{Bytecode, MalformedBytecode};

fuzz_target!(|data: &[u8]| {
    let _ = Bytecode::decode(data);
    // Most inputs have a wrong header, so this prepends the version of this V8 and a valid
    // checksum. Bytecode without modules ends with its checksum and its number of invocations.
    let head = Bytecode::default().encode();
    let checksum = crc32fast::hash(data).to_le_bytes();
    let invocations = size_of::<u32>();
    let version = &head[..head.len() - checksum.len() - invocations];
    match Bytecode::decode(&[version, &checksum, data].concat()) {
        Ok(bytecode) => assert_eq!(Bytecode::decode(&bytecode.encode()), Ok(bytecode)),
        Err(why) => assert_eq!(why, MalformedBytecode::Damaged),
    }
});

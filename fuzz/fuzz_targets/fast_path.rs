//! Fuzzes the fast path of HTTP/1.1. Each head that it takes is a whole message to the filter, and
//! hyper reads the same request.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_clients::fuzzing::messages;
use tenon_router::fuzzing::{plain_request, read_by_hyper};

fuzz_target!(|bytes: &[u8]| {
    let Some((head, facts)) = plain_request(bytes) else { return };
    assert_eq!(messages(head, head.len()), Ok(vec![head.to_vec()]));
    let (_, headers) = &facts;
    let count = |name: &str| headers.iter().filter(|(other, _)| other == name).count();
    assert_eq!(count("host"), 1);
    assert!(count("content-length") <= 1 && count("transfer-encoding") == 0);
    assert_eq!(read_by_hyper(head), Some(facts));
});

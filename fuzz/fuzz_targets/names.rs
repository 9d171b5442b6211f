//! Fuzzes names. Ids, digests, host patterns, flags and failures round-trip. A module specifier
//! resolves to one of the Worker's modules, and the full name of that module resolves to the same
//! module.

#![no_main]

use std::fmt::Display;
use std::str::FromStr;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tenon_proto::egress::{Egress, HostPattern};
use tenon_proto::failure::Failure;
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::module::{ModuleKind, ORIGIN, builtin, resolve};
use tenon_proto::revision::CompatibilityFlag;
use tonic::{Code, Status};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    name: &'a str,
    other: &'a str,
    modules: Vec<&'a str>,
    port: u16,
    code: u8,
    details: &'a [u8],
}

/// Parses a string, and checks that the value is displayed as the same string.
fn parse_round_trip<T: FromStr + Display>(text: &str) -> Option<T> {
    let read: T = text.parse().ok()?;
    assert_eq!(read.to_string(), text);
    Some(read)
}

fuzz_target!(|input: Input<'_>| {
    let Input { name, other, modules, port, code, details } = input;
    if let Some(id) = parse_round_trip::<WorkerId>(name) {
        assert_eq!(WorkerId::new(id.namespace(), id.name()), id);
    }
    parse_round_trip::<CompatibilityFlag>(name);
    parse_round_trip::<RevisionDigest>(name);
    if let Some(pattern) = parse_round_trip::<HostPattern>(name) {
        // A host that matches is the name in the pattern, or ends with a dot and that name.
        let bare = name.trim_start_matches("*.").split(':').next().unwrap_or_default();
        if pattern.matches(other, port) {
            assert!(
                other == bare || other.ends_with(&format!(".{bare}")),
                "{name} matches {other}"
            );
        }
        assert_eq!(
            Egress::Only(vec![pattern.clone()]).allows(other, port),
            pattern.matches(other, port)
        );
    }

    if let Some(found) = resolve(name, other, |module| modules.contains(&module)) {
        assert!(modules.contains(&found.as_str()));
        assert_eq!(
            resolve(name, &format!("{ORIGIN}{found}"), |module| module == found),
            Some(found)
        );
    }
    for type_ in [None, Some(other), Some("text")] {
        let _ = ModuleKind::of(name).form(type_);
    }
    let _ = builtin(name, CompatibilityFlag::ALL);

    let status = Status::with_details(Code::from(i32::from(code)), name, details.to_vec().into());
    let failure = Failure::from(&status);
    assert_eq!(Failure::from(&Status::from(&failure)), failure);
});

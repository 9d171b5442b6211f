//! Fuzzes the blobs of an OCI artifact, which may come from any registry. Unpacking stays within
//! the limits for any bytes. An unpacked bundle is packed into an artifact with the same content,
//! unless it is too large when compressed or lacks the module that it names as its entrypoint.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tenon_artifact::archive::{self, PackError};
use tenon_proto::revision::{MAX_MODULES, MAX_SOURCE_BYTES};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    config: &'a [u8],
    /// The archive. The target compresses it, because fuzzed bytes are hardly ever compressed data.
    archive: &'a [u8],
    layer: Option<&'a [u8]>,
}

fuzz_target!(|input: Input<'_>| {
    let compressed = zstd::encode_all(input.archive, 1).expect("writing to memory does not fail");
    let layer = input.layer.unwrap_or(&compressed);
    let Ok(bundle) = archive::unpack(input.config, layer) else { return };
    let bytes: usize = bundle.modules.iter().map(|(name, code)| name.len() + code.len()).sum();
    assert!(
        bundle.modules.len() <= MAX_MODULES && bytes <= MAX_SOURCE_BYTES,
        "the bundle has {} modules with {bytes} bytes",
        bundle.modules.len()
    );
    match archive::pack(&bundle) {
        Ok(packed) => {
            let again = archive::unpack(&packed.config, &packed.layer);
            assert_eq!(again.expect("cannot unpack a packed bundle"), bundle);
        }
        Err(PackError::Packed(_) | PackError::Entrypoint(_)) => {}
        Err(error) => panic!("cannot pack an unpacked bundle: {error}"),
    }
});

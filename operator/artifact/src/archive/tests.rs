//! Tests which archives are packed and unpacked, and which are refused.

use super::*;

fn bundle(modules: &[(&str, &str)]) -> Bundle {
    let owned = |(name, content): &(&str, &str)| {
        ((*name).to_owned(), Bytes::copy_from_slice(content.as_bytes()))
    };
    Bundle {
        entrypoint: Some("worker.js".to_owned()),
        modules: modules.iter().map(owned).collect(),
    }
}

/// Returns a compressed archive with these entries, each a path, a type, a size and content.
fn layer(entries: &[(&str, EntryType, u64, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (path, type_, size, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*type_);
        header.set_mode(0o644);
        header.set_size(*size);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.extend([0; 1024]);
    zstd::encode_all(&bytes[..], 1).unwrap()
}

fn refusal(entries: &[(&str, EntryType, u64, &[u8])]) -> UnpackError {
    unpack(b"{}", &layer(entries)).unwrap_err()
}

#[test]
fn a_bundle_is_unpacked_as_it_was_packed() {
    let long = format!("{}/worker.js", "a".repeat(200));
    let bundle =
        bundle(&[("worker.js", "export default {}"), (&long, ""), ("lib/b.wasm", "\0asm")]);
    let Packed { config, layer } = pack(&bundle).unwrap();
    assert_eq!(unpack(&config, &layer).unwrap(), bundle);
}

#[test]
fn equal_bundles_have_equal_bytes() {
    let modules = [("worker.js", "export default {}"), ("a.js", "a")];
    assert_eq!(pack(&bundle(&modules)).unwrap(), pack(&bundle(&modules)).unwrap());
}

#[test]
fn a_bundle_that_exceeds_a_limit_is_not_packed() {
    let bounds = |bundle: &Bundle| match pack(bundle).unwrap_err() {
        PackError::Bounds(bounds) => bounds,
        other => panic!("{other}"),
    };
    assert_eq!(bounds(&bundle(&[])), OutOfBounds::Empty);
    assert_eq!(bounds(&bundle(&[("../a.js", "")])), OutOfBounds::Name("../a.js".to_owned()));
    let large = " ".repeat(MAX_SOURCE_BYTES);
    assert_eq!(bounds(&bundle(&[("a.js", &large)])), OutOfBounds::Source);
    let names: Vec<_> = (0..=MAX_MODULES).map(|n| format!("{n}.js")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(bounds(&bundle(&many)), OutOfBounds::Modules);
}

#[test]
fn a_bundle_without_its_entrypoint_is_not_packed() {
    let other = bundle(&[("other.js", "")]);
    assert!(matches!(pack(&other), Err(PackError::Entrypoint(name)) if name == "worker.js"));
}

#[test]
fn incompressible_modules_are_refused_by_their_packed_size() {
    let mut state = 1u64;
    let noise = std::iter::repeat_with(|| {
        // This is Marsaglia's generator xorshift64.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let content: Vec<u8> = noise.flatten().take(MAX_PACKED_BYTES + 1).collect();
    let modules = [("noise.bin".to_owned(), Bytes::from(content))].into();
    let error = pack(&Bundle { entrypoint: None, modules }).unwrap_err();
    assert!(matches!(error, PackError::Packed(size) if size > MAX_PACKED_BYTES), "{error}");
}

#[test]
fn archives_of_other_tools_are_unpacked() {
    let content = b"export default {}";
    let unpacked = unpack(
        br#"{"somethingNew": 1}"#,
        &layer(&[
            ("./", EntryType::Directory, 0, b""),
            ("./worker.js", EntryType::Regular, content.len() as u64, content),
        ]),
    );
    assert_eq!(unpacked.unwrap().modules, bundle(&[("worker.js", "export default {}")]).modules);
}

#[test]
fn entries_that_are_not_modules_are_refused() {
    let regular = EntryType::Regular;
    for name in ["../a.js", "/etc/passwd", "a//b.js", "a\\b.js", "a b.js"] {
        let error = refusal(&[(name, regular, 0, b"")]);
        assert!(matches!(error, UnpackError::Bounds(OutOfBounds::Name(_))), "{name}: {error}");
    }
    let error = refusal(&[("a.js", EntryType::Symlink, 0, b"")]);
    assert!(matches!(error, UnpackError::NotAFile(_)), "{error}");
    let error = refusal(&[("a.js", regular, 0, b""), ("./a.js", regular, 0, b"")]);
    assert!(matches!(error, UnpackError::Duplicate(_)), "{error}");
    assert!(matches!(refusal(&[]), UnpackError::Bounds(OutOfBounds::Empty)));
}

#[test]
fn entries_with_a_size_beyond_the_limits_or_their_content_are_refused() {
    for size in [MAX_SOURCE_BYTES as u64, 1 << 60, u64::MAX >> 8] {
        let error = refusal(&[("a.js", EntryType::Regular, size, b"")]);
        assert!(matches!(error, UnpackError::Bounds(OutOfBounds::Source)), "{error}");
    }
    let truncated = refusal(&[("a.js", EntryType::Regular, 4096, b"")]);
    assert!(matches!(truncated, UnpackError::Layer(_)), "{truncated}");
}

#[test]
fn a_decompression_bomb_is_refused() {
    let zeros = vec![0; 64 << 20];
    let bomb = zstd::encode_all(&zeros[..], 19).unwrap();
    assert!(bomb.len() < 64 << 10);
    let error = unpack(b"{}", &bomb).unwrap_err();
    assert!(matches!(error, UnpackError::Bounds(_) | UnpackError::Layer(_)), "{error}");
}

#[test]
fn bytes_that_are_not_an_artifact_are_refused() {
    assert!(matches!(unpack(b"", &layer(&[])), Err(UnpackError::Config(_))));
    assert!(matches!(unpack(b"{}", b"no archive"), Err(UnpackError::Layer(_))));
}

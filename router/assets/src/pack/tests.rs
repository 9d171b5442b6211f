//! Tests that packs are written, opened and refused.

use super::*;

/// Returns a site of these files.
pub(crate) fn site(files: &[(&str, &str)]) -> Site {
    packed(files).unwrap()
}

fn packed(files: &[(&str, &str)]) -> Result<Site, PackError> {
    let file = tempfile::tempfile().unwrap();
    let mut packer = Packer::new(file.try_clone().unwrap());
    for (path, content) in files {
        packer.add(path, &mut content.as_bytes())?;
    }
    packer.finish()?;
    Ok(Site::of(file).unwrap())
}

#[test]
fn every_file_of_a_pack_is_found_with_its_content() {
    let site = site(&[("b/c.txt", "see"), ("a.txt", ""), ("b.txt", "bee"), ("_headers", "")]);
    for (path, content) in [("a.txt", ""), ("b.txt", "bee"), ("b/c.txt", "see")] {
        let file = site.file(path).unwrap();
        let mut bytes = vec![0; file.length as usize];
        site.pack().read_exact_at(&mut bytes, file.offset).unwrap();
        assert_eq!((file.path, bytes.as_slice()), (path, content.as_bytes()));
    }
    for path in ["", "a", "a.txt0", "b", "c", "_headers"] {
        assert!(site.file(path).is_none(), "{path}");
    }
    assert_eq!(site.file_count(), 3);
}

#[test]
fn equal_contents_have_equal_hashes() {
    let (one, two) = (site(&[("a", "x"), ("b", "y")]), site(&[("0", "y"), ("a", "x")]));
    assert_eq!(one.file("a").unwrap().hash, two.file("a").unwrap().hash);
    assert_ne!(one.file("a").unwrap().hash, one.file("b").unwrap().hash);
}

#[test]
fn an_invalid_site_or_one_beyond_a_limit_is_refused() {
    let refused = |files: &[(&str, &str)]| packed(files).unwrap_err().to_string();
    for path in ["", "/a", "a//b", "../a", "a/./b", "a\n", "a\\b", &"x".repeat(MAX_PATH + 1)] {
        assert!(refused(&[(path, "")]).contains("is not a valid file path"), "{path}");
    }
    assert_eq!(refused(&[("a", ""), ("a", "")]), "\"a\" occurs twice");
    let large = "x".repeat(MAX_FILE_BYTES as usize + 1);
    assert!(refused(&[("a", &large)]).contains("25 MiB"));
    assert!(refused(&[("_redirects", "/a\n")]).starts_with("_redirects:1: "));
    assert!(refused(&[("_headers", &large)]).contains("_headers"));
    let mut packer = Packer::new(tempfile::tempfile().unwrap());
    for file in 0..MAX_FILES {
        packer.add(&file.to_string(), &mut &b""[..]).unwrap();
    }
    assert!(matches!(packer.add("x", &mut &b""[..]), Err(PackError::Files)));
}

#[test]
fn a_damaged_pack_is_not_opened() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut packer = Packer::new(file.reopen().unwrap());
    packer.add("a", &mut &b"content"[..]).unwrap();
    packer.finish().unwrap();
    let whole = fs::read(file.path()).unwrap();
    assert!(Site::open(file.path()).is_ok());
    for cut in 0..whole.len() {
        fs::write(file.path(), &whole[..cut]).unwrap();
        assert!(Site::open(file.path()).is_err(), "the first {cut} bytes were opened");
        fs::write(file.path(), &whole[cut + 1..]).unwrap();
        let is_refused = Site::open(file.path()).is_err();
        assert!(is_refused || cut < 7, "a pack without its first {} bytes was opened", cut + 1);
    }
}

proptest::proptest! {
    #[test]
    fn any_index_is_opened_or_refused_without_a_panic(
        index in proptest::collection::vec(proptest::num::u8::ANY, 0..64),
    ) {
        let mut bytes = index.clone();
        bytes.extend((index.len() as u64).to_le_bytes());
        bytes.extend(MAGIC);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        let _ = Site::open(file.path());
    }
}

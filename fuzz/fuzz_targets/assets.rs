//! Fuzzes the layer of static files of an OCI artifact, and the paths that clients request. Packing
//! stays within the limits for any bytes, every file of a pack is found by its path, and a redirect
//! to another URL of a page leads to a file on the same host.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tenon_artifact::files;
use tenon_assets::pack::MAX_FILES;
use tenon_assets::path::is_path;
use tenon_assets::{Audience, HtmlHandling, Packer, Resolved, Settings, Site};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// The uncompressed bytes of a layer. The target compresses them, because fuzzed bytes are
    /// hardly ever compressed data.
    archive: Option<&'a [u8]>,
    files: Vec<(&'a str, &'a [u8])>,
    html: u8,
    paths: Vec<&'a str>,
}

fuzz_target!(|input: Input<'_>| {
    if let Some(archive) = input.archive {
        let layer = zstd::encode_all(archive, 1).expect("writing to memory does not fail");
        let file = tempfile::tempfile().expect("cannot create a temporary file");
        let packer = Packer::new(file.try_clone().expect("cannot duplicate the descriptor"));
        if files::pack(&layer[..], packer).is_ok() {
            let site = Site::of(file).expect("cannot open a packed site");
            assert!(site.file_count() <= MAX_FILES);
        }
    }
    let file = tempfile::tempfile().expect("cannot create a temporary file");
    let mut packer = Packer::new(file.try_clone().expect("cannot duplicate the descriptor"));
    let files: Vec<_> = input.files.iter().take(16).collect();
    if files.iter().any(|(path, content)| packer.add(path, &mut &content[..]).is_err())
        || packer.finish().is_err()
    {
        return;
    }
    let site = Site::of(file).expect("cannot open a packed site");
    for (path, content) in files.iter().filter(|(path, _)| is_path(path) && !path.starts_with('_'))
    {
        if *path != ".assetsignore" {
            let found = site.file(path).expect("a file of the pack is not found");
            assert_eq!((found.path, found.length as usize), (*path, content.len()));
        }
    }
    let html = [
        HtmlHandling::AutoTrailingSlash,
        HtmlHandling::ForceTrailingSlash,
        HtmlHandling::DropTrailingSlash,
        HtmlHandling::None,
    ][usize::from(input.html % 4)];
    let settings = Settings { html, ..Settings::default() };
    let has_rules = files.iter().any(|(path, _)| *path == "_redirects");
    for path in input.paths.iter().take(16) {
        let _ = site.headers(path);
        for audience in [Audience::Worker, Audience::Client { navigates: true }] {
            if let Resolved::Redirect { location, .. } =
                site.resolve(&settings, audience, path, None)
                && !has_rules
            {
                assert!(
                    location.starts_with('/') && !location.starts_with("//"),
                    "the redirect leads to {location}"
                );
                let next = site.resolve(&settings, audience, &location, None);
                assert!(
                    !matches!(next, Resolved::Nothing),
                    "the redirect from {path} to {location} leads to nothing"
                );
            }
        }
    }
});

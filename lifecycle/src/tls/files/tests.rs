//! Tests reloads of a directory whose files are replaced in the way in which the kubelet updates a
//! volume.

use std::os::unix::fs::symlink;

use super::*;
use crate::tls::TlsArgs;
use crate::tls::fixtures::{Authority, outcome, process};

/// Switches a volume to new content, as the kubelet does.
fn switch(volume: &Path, version: &str, bundle: &Bundle) {
    let directory = volume.join(format!("..{version}"));
    fs::create_dir(&directory).unwrap();
    for (file, content) in
        [(CERTIFICATE, &bundle.certificate), (KEY, &bundle.key), (AUTHORITIES, &bundle.authorities)]
    {
        fs::write(directory.join(file), content).unwrap();
        let link = volume.join(file);
        if !link.is_symlink() {
            symlink(Path::new("..data").join(file), link).unwrap();
        }
    }
    symlink(format!("..{version}"), volume.join("..new")).unwrap();
    fs::rename(volume.join("..new"), volume.join("..data")).unwrap();
}

#[tokio::test]
async fn valid_changes_of_the_files_are_installed_and_invalid_ones_are_ignored() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let volume = tempfile::tempdir().unwrap();
    switch(volume.path(), "1", &old.bundle(Role::RuntimeNode));
    let registry = Registry::new();
    let (node, mut files) =
        Tls::read(volume.path().to_owned(), Role::RuntimeNode, &registry).unwrap();
    let routers =
        [&old, &new].map(|authority| process(Role::Router, &authority.bundle(Role::Router)));
    let accepted = async || {
        let [old, new] = &routers;
        [
            outcome(old, &node, Role::RuntimeNode).await.1.is_none(),
            outcome(new, &node, Role::RuntimeNode).await.1.is_none(),
        ]
    };
    files.reload(&node.0);
    assert_eq!(accepted().await, [true, false]);

    switch(volume.path(), "2", &new.bundle(Role::Router));
    files.reload(&node.0);
    files.reload(&node.0);
    assert_eq!(accepted().await, [true, false]);
    assert_eq!(node.0.metrics.loads(), (1, 1));

    switch(volume.path(), "3", &new.bundle(Role::RuntimeNode));
    files.reload(&node.0);
    assert_eq!(accepted().await, [false, true]);
    assert_eq!(node.0.metrics.loads(), (2, 1));

    fs::remove_file(volume.path().join("..data")).unwrap();
    files.reload(&node.0);
    assert_eq!(accepted().await, [false, true]);
}

#[test]
fn the_error_for_a_missing_certificate_names_the_file() {
    let empty = tempfile::tempdir().unwrap();
    let args = TlsArgs { tls_dir: Some(empty.path().to_owned()) };
    let error = args.open(Role::Router, &Registry::new()).unwrap_err().to_string();
    assert!(error.contains("tls.crt") && error.contains("mount a Secret"), "{error}");
    assert!(TlsArgs::default().open(Role::Router, &Registry::new()).unwrap().is_none());
}

//! Lists and packs the folder with a Worker's static files.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::WalkBuilder;
use kube::ResourceExt as _;
use tenon_assets::pack::IGNORE_FILE;
use tenon_assets::{PackError, Packer};
use tenon_crds::Worker;
use tenon_proto::id::SiteId;

/// The annotation that names a Worker's folder, by a path relative to the Worker's file.
pub(crate) const FOLDER: &str = "tenon.dev/assets";

/// The folder that is used if a Worker does not have the annotation.
const DEFAULT_FOLDER: &str = "public";

/// Patterns, in the syntax of `.gitignore`, of files that are never published, regardless of
/// `.assetsignore`.
const SECRET: [&str; 4] = [".env*", ".dev.vars*", ".git", "node_modules"];

/// The path of each static file in the site, and its path on disk.
pub(crate) type Files = Vec<(String, PathBuf)>;

/// The content of a folder.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) files: Files,
    /// The folder itself, and the folders below it that are not ignored.
    pub(crate) folders: Vec<PathBuf>,
}

/// The static files of a Worker, packed as a router serves them.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub(crate) site: SiteId,
    pub(crate) pack: Arc<fs::File>,
    /// A hash of the names, sizes and modification times of the files.
    fingerprint: u64,
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.site == other.site
    }
}

/// Returns the folder with a Worker's static files, or `None` if the Worker serves none.
///
/// # Arguments
/// * `file` - the file that declares the Worker.
pub(crate) fn folder(file: &Path, worker: &Worker) -> Option<PathBuf> {
    worker.spec.assets.as_ref()?;
    let name = worker.annotations().get(FOLDER).map_or(DEFAULT_FOLDER, String::as_str);
    Some(file.parent().unwrap_or(Path::new("")).join(name))
}

/// Returns the files below a folder that are published.
///
/// # Errors
/// Fails if the folder does not exist or cannot be read, or a path in it is not UTF-8.
pub(crate) fn list(folder: &Path) -> Result<Listing, String> {
    if !folder.is_dir() {
        return Err(format!(
            "spec.assets: there is no folder {}; create it, or name another one in the annotation \
             {FOLDER}, relative to the manifest",
            folder.display()
        ));
    }
    let mut overrides = ignore::overrides::OverrideBuilder::new(folder);
    for pattern in SECRET {
        overrides.add(&format!("!{pattern}")).expect("a pattern is not valid");
    }
    let walk = WalkBuilder::new(folder)
        .standard_filters(false)
        .follow_links(true)
        .add_custom_ignore_filename(IGNORE_FILE)
        .overrides(overrides.build().expect("a pattern is not valid"))
        .build();
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in walk {
        let entry = entry.map_err(|error| format!("spec.assets: {error}"))?;
        let path = entry.into_path();
        if path.is_dir() {
            folders.push(path);
        } else {
            let name = path.strip_prefix(folder).unwrap_or(&path);
            let name = name.to_str().ok_or_else(|| {
                format!("spec.assets: the path {} is not UTF-8; rename the file", path.display())
            })?;
            files.push((name.to_owned(), path));
        }
    }
    files.sort();
    Ok(Listing { files, folders })
}

/// Packs static files.
///
/// # Arguments
/// * `before` - the previous pack, which is returned if no file has changed.
///
/// # Errors
/// Fails if a file cannot be read, the pack cannot be written, or `tenon_assets` refuses the files,
/// for example because they are too large.
pub(crate) fn pack(files: &[(String, PathBuf)], before: Option<&Packed>) -> Result<Packed, String> {
    let fingerprint = fingerprint(files);
    if let Some(before) = before.filter(|before| before.fingerprint == fingerprint) {
        return Ok(before.clone());
    }
    let packed = || -> Result<_, PackError> {
        let pack = tempfile::tempfile()?;
        let mut packer = Packer::new(pack.try_clone()?);
        for (name, path) in files {
            packer.add(name, &mut fs::File::open(path)?)?;
        }
        let site = SiteId::new(packer.finish()?);
        Ok(Packed { site, pack: Arc::new(pack), fingerprint })
    };
    packed().map_err(|error| format!("spec.assets: {error}"))
}

fn fingerprint(files: &[(String, PathBuf)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, path) in files {
        name.hash(&mut hasher);
        if let Ok(metadata) = fs::metadata(path) {
            metadata.len().hash(&mut hasher);
            metadata.modified().ok().hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        list(folder).unwrap().files.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn every_file_is_published_except_ignored_and_secret_ones() {
        let folder = site(&[
            ("index.html", ""),
            ("a/b.txt", ""),
            (".well-known/x", ""),
            ("_headers", ""),
            (".assetsignore", "*.map\n/drafts\n"),
            ("a/b.map", ""),
            ("drafts/x", ""),
            (".env", ""),
            ("a/.dev.vars.local", ""),
            (".git/config", ""),
        ]);
        let expected = [".assetsignore", ".well-known/x", "_headers", "a/b.txt", "index.html"];
        assert_eq!(names(folder.path()), expected);
        assert!(list(&folder.path().join("none")).unwrap_err().contains("there is no folder"));
    }

    #[test]
    fn files_are_packed_again_only_if_they_have_changed() {
        let folder = site(&[("index.html", "a")]);
        let packed =
            |before: Option<&Packed>| pack(&list(folder.path()).unwrap().files, before).unwrap();
        let first = packed(None);
        assert!(Arc::ptr_eq(&packed(Some(&first)).pack, &first.pack));
        fs::write(folder.path().join("index.html"), "longer").unwrap();
        let second = packed(Some(&first));
        assert_ne!(second.site, first.site);
        assert_eq!(packed(None).site, second.site);
    }

    #[test]
    fn the_folder_is_beside_the_workers_file() {
        let mut worker = Worker::new("a", tenon_crds::WorkerSpec::with_modules([]));
        let file = Path::new("app/worker.yaml");
        assert_eq!(folder(file, &worker), None);
        worker.spec.assets = Some(tenon_crds::Assets::default());
        assert_eq!(folder(file, &worker), Some("app/public".into()));
        worker.annotations_mut().insert(FOLDER.to_owned(), "../dist".to_owned());
        assert_eq!(folder(file, &worker), Some("app/../dist".into()));
    }
}

//! A folder of modules that takes the place of a ConfigMap, as if `kubectl create configmap NAME
//! --from-file=NAME` had created the ConfigMap.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;

/// Characters allowed in a ConfigMap's keys besides letters and digits.
const PUNCTUATION: &[char] = &['-', '.', '_'];

/// Maximum length of a ConfigMap's key, in bytes, which the API server enforces.
const MAX_KEY: usize = 253;

/// Returns the path of the folder that takes the place of a ConfigMap: the folder has the
/// ConfigMap's name and is beside the Worker's file.
///
/// # Arguments
/// * `file` - the file that declares the Worker.
/// * `name` - the name of the ConfigMap to which the Worker refers.
pub(crate) fn beside(file: &Path, name: &str) -> PathBuf {
    file.with_file_name(name)
}

/// Builds a ConfigMap from a folder's files, or returns `None` if the folder does not exist.
/// Subfolders are ignored. So are files whose names are not valid keys or begin with a dot, because
/// editors give such names to temporary files.
///
/// # Errors
/// Fails if the folder or a file in it cannot be read.
pub(crate) fn read(folder: &Path) -> io::Result<Option<ConfigMap>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_key(name));
        let Some(name) = name.filter(|_| path.is_file()) else { continue };
        files.insert(name.to_owned(), fs::read(&path)?);
    }
    Ok(Some(to_config_map(files)))
}

/// Builds a ConfigMap from files, by name.
pub(crate) fn to_config_map(files: BTreeMap<String, Vec<u8>>) -> ConfigMap {
    let (mut data, mut binary_data) = (BTreeMap::new(), BTreeMap::new());
    for (name, content) in files {
        match String::from_utf8(content) {
            Ok(text) => drop(data.insert(name, text)),
            Err(error) => drop(binary_data.insert(name, ByteString(error.into_bytes()))),
        }
    }
    ConfigMap { data: Some(data), binary_data: Some(binary_data), ..ConfigMap::default() }
}

fn is_key(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || PUNCTUATION.contains(&c);
    !name.starts_with('.') && name.len() <= MAX_KEY && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_become_keys_and_files_that_are_not_utf_8_become_binary_data() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("worker.ts", &b"let a: number"[..]),
            ("logo.png", &[255, 0]),
            (".swp", b""),
            ("a b", b""),
        ] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        fs::create_dir(folder.path().join("below")).unwrap();
        let map = read(folder.path()).unwrap().unwrap();
        assert_eq!(map.data.unwrap().into_keys().collect::<Vec<_>>(), ["worker.ts"]);
        assert_eq!(map.binary_data.unwrap().into_keys().collect::<Vec<_>>(), ["logo.png"]);
        assert_eq!(read(&folder.path().join("none")).unwrap(), None);
    }
}

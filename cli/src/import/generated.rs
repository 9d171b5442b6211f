//! Finds the configuration that a project's build has generated.
//!
//! Frameworks that build with Vite or Nitro emit code of their own, and a configuration for it. The
//! file `.wrangler/deploy/config.json` of the project names that configuration, and wrangler
//! deploys it instead of the one that the author wrote.

use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;
use serde_json::{Map, Value};

/// The file that names the generated configuration, relative to the project.
const POINTER: &str = ".wrangler/deploy/config.json";

/// The keys of a generated configuration that describe the finished build.
const BUILD_KEYS: [&str; 11] = [
    "configPath",
    "definedEnvironments",
    "dev",
    "jsx_factory",
    "jsx_fragment",
    "no_bundle",
    "python_modules",
    "rules",
    "topLevelName",
    "upload_source_maps",
    "userConfigPath",
];

#[derive(Debug, thiserror::Error)]
pub(super) enum GeneratedError {
    #[error("cannot read {}: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    #[error("{} is not valid: {error}; build the project again", file.display())]
    Invalid { file: PathBuf, error: serde_json::Error },
    #[error(
        "{} names {}, which does not exist; build the project again, or delete the first file",
        pointer.display(), config.display()
    )]
    Missing { pointer: PathBuf, config: PathBuf },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pointer {
    config_path: PathBuf,
}

/// Returns whether a build has generated a configuration.
pub(super) fn exists(project: &Path) -> bool {
    project.join(POINTER).is_file()
}

/// Returns the path of the configuration that a build has generated, relative to the project, or
/// `None` if there is none.
///
/// # Errors
/// Fails if the file that names the configuration cannot be read or is not valid, or names a file
/// that does not exist.
pub(super) fn find(project: &Path) -> Result<Option<PathBuf>, GeneratedError> {
    let pointer = project.join(POINTER);
    let text = match fs::read_to_string(&pointer) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(GeneratedError::Unreadable { file: pointer, error }),
    };
    let Pointer { config_path } = match serde_json::from_str(&text) {
        Ok(parsed) => parsed,
        Err(error) => return Err(GeneratedError::Invalid { file: pointer, error }),
    };
    let folder = Path::new(POINTER).parent().unwrap_or(Path::new(""));
    let config = without_dots(&folder.join(config_path));
    if project.join(&config).is_file() {
        Ok(Some(config))
    } else {
        Err(GeneratedError::Missing { pointer, config })
    }
}

/// Makes the paths of a generated configuration relative to the project, and removes the keys that
/// describe the build. This function is pure.
///
/// # Arguments
/// * `file` - the path of the configuration, relative to the project.
pub(super) fn adopt(config: &mut Map<String, Value>, file: &Path) {
    config.retain(|key, _| !BUILD_KEYS.contains(&key.as_str()));
    let folder = file.parent().unwrap_or(Path::new(""));
    let rebase = |value: &mut Value| {
        if let Value::String(path) = value {
            *path = without_dots(&folder.join(&*path)).to_string_lossy().into_owned();
        }
    };
    config.get_mut("main").into_iter().for_each(rebase);
    let directory = config.get_mut("assets").and_then(|assets| assets.get_mut("directory"));
    directory.into_iter().for_each(rebase);
}

/// Resolves the segments `.` and `..` of a path, without access to the file system.
fn without_dots(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(resolved.components().next_back(), Some(Component::Normal(_))) =>
            {
                resolved.pop();
            }
            other => resolved.push(other),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn project(pointer: &str) -> tempfile::TempDir {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir_all(project.path().join(".wrangler/deploy")).unwrap();
        fs::write(project.path().join(POINTER), pointer).unwrap();
        project
    }

    #[test]
    fn the_configuration_that_a_build_has_generated_is_found() {
        assert_eq!(find(tempfile::tempdir().unwrap().path()).unwrap(), None);
        let project =
            project(r#"{"configPath": "../../dist/server/wrangler.json", "auxiliaryWorkers": []}"#);
        let error = find(project.path()).unwrap_err().to_string();
        assert!(
            error.contains("names dist/server/wrangler.json") && error.contains("build"),
            "{error}"
        );
        fs::create_dir_all(project.path().join("dist/server")).unwrap();
        fs::write(project.path().join("dist/server/wrangler.json"), "{}").unwrap();
        assert_eq!(find(project.path()).unwrap(), Some("dist/server/wrangler.json".into()));
    }

    #[test]
    fn a_file_that_names_no_configuration_is_an_error_with_a_remedy() {
        let error = find(project("{}").path()).unwrap_err().to_string();
        assert!(
            error.contains("configPath") && error.contains("build the project again"),
            "{error}"
        );
    }

    #[test]
    fn paths_become_relative_to_the_project_and_build_keys_are_removed() {
        let config = json!({
            "name": "shop",
            "main": "./index.js",
            "no_bundle": true,
            "rules": [{ "type": "ESModule", "globs": ["**/*.js"] }],
            "assets": { "directory": "../client", "binding": "ASSETS" },
        });
        let Value::Object(mut config) = config else {
            unreachable!("the configuration is a table")
        };
        adopt(&mut config, Path::new("dist/server/wrangler.json"));
        let expected = json!({
            "name": "shop",
            "main": "dist/server/index.js",
            "assets": { "directory": "dist/client", "binding": "ASSETS" },
        });
        assert_eq!(Value::from(config), expected);
    }

    #[test]
    fn dots_are_resolved_only_within_the_path() {
        assert_eq!(without_dots(Path::new("./a/../b/./c")), Path::new("b/c"));
        assert_eq!(without_dots(Path::new("../a/../../b")), Path::new("../../b"));
        assert_eq!(without_dots(Path::new("/a/../../b")), Path::new("/../b"));
    }
}

//! Parses YAML files and folders of modules into objects, and notes the location of each Worker.
//! This module reads files, and checks only the form of the objects.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::CustomResourceExt as _;
use kube::core::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenon_crds::{ASSETS_NEED_AN_ARTIFACT, Worker};
use tenon_operator::revision::worker_id;
use tenon_proto::id::WorkerId;

use crate::assets::{Files, Listing};
use crate::import::Translation;
use crate::{assets, folder, import, schema};

/// Maximum length of a Worker's name, in bytes. The name becomes part of a host name.
pub(crate) const MAX_NAME: usize = 63;

/// The namespace of an object that does not name one.
const DEFAULT_NAMESPACE: &str = "default";

/// The position at which an object begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) file: PathBuf,
    /// The line, counted from 1.
    pub(crate) line: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// An error that the user has to correct.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(crate) location: Location,
    /// The affected Worker, if known.
    pub(crate) worker: Option<WorkerId>,
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.worker {
            Some(worker) => write!(f, "{}: Worker {worker}: {}", self.location, self.message),
            None => write!(f, "{}: {}", self.location, self.message),
        }
    }
}

/// All objects in the files.
#[derive(Default)]
pub(crate) struct Manifests {
    pub(crate) workers: BTreeMap<WorkerId, (Location, Worker)>,
    /// The ConfigMaps, by namespace and name.
    pub(crate) config_maps: BTreeMap<(String, String), ConfigMap>,
    /// The Secrets, by namespace and name.
    pub(crate) secrets: BTreeMap<(String, String), Secret>,
    /// The folders to watch: those with the sources, modules and static files of Workers, and the
    /// parents of folders of static files that do not exist yet.
    pub(crate) folders: Vec<PathBuf>,
    /// The static files of Workers.
    pub(crate) assets: BTreeMap<WorkerId, Files>,
    pub(crate) problems: Vec<Problem>,
    /// A note about each skipped object, with the reason.
    pub(crate) notes: Vec<String>,
}

/// Reads every file in `paths`, every YAML file below the directories in `paths`, and the wrangler
/// projects among them. A path that does not exist counts as empty, and a path that cannot be read
/// is a problem.
pub(crate) fn read(paths: &[PathBuf]) -> Manifests {
    read_and(paths, |_| {})
}

/// Reads files like [`read`].
///
/// # Arguments
/// * `prepare` - writes what the manifests refer to. It is called after the manifests are read, and
///   before the folders to which they refer are read.
pub(crate) fn read_and(paths: &[PathBuf], prepare: impl FnOnce(&mut Manifests)) -> Manifests {
    let mut manifests = objects(paths);
    prepare(&mut manifests);
    manifests.read_folders();
    manifests.list_assets();
    manifests
}

fn objects(paths: &[PathBuf]) -> Manifests {
    let mut manifests = Manifests::default();
    for path in paths {
        if let Some(file) = import::project(path) {
            manifests.add_project(&file);
            continue;
        }
        match files(path) {
            Ok(files) => files.iter().for_each(|file| manifests.read_file(file)),
            Err(error) => manifests.unreadable(path, &error),
        }
    }
    manifests
}

/// Returns whether the process or the machine is out of file descriptors.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    /// The error codes `EMFILE` and `ENFILE`, which the standard library does not name.
    const TOO_MANY_OPEN: [i32; 2] = [24, 23];
    error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN.contains(&code))
}

/// Returns the YAML files below a directory, sorted by name in each directory, without hidden files
/// and npm packages. If `path` is a file, it is returned regardless of its name.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.retain(|entry| {
        !entry
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.') || name == "node_modules")
    });
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        if entry.is_dir() {
            found.extend(files(&entry)?);
        } else if entry
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            found.push(entry);
        }
    }
    Ok(found)
}

impl Manifests {
    fn read_file(&mut self, file: &Path) {
        match fs::read_to_string(file) {
            Ok(text) => self.add_file(file, &text),
            Err(error) => self.unreadable(file, &error),
        }
    }

    /// Adds the Worker of a wrangler project.
    fn add_project(&mut self, file: &Path) {
        let location = Location { file: file.to_owned(), line: 1 };
        match import::read(file, None) {
            Ok(Translation { worker, notes, .. }) => {
                self.notes.extend(notes.iter().map(|note| format!("{}: {note}", file.display())));
                self.add_worker(location, worker);
            }
            Err(error) => self.problem(location, None, format!("{error:#}")),
        }
    }

    /// Reads the folders that take the place of ConfigMaps: Workers refer to these ConfigMaps, but
    /// the files do not contain them.
    fn read_folders(&mut self) {
        let folders = self.workers.iter().filter_map(|(id, (location, worker))| {
            let name = worker.spec.source.config_map_ref.as_ref()?.name.clone();
            Some((folder::beside(&location.file, &name), (id.namespace().to_owned(), name)))
        });
        for (path, key) in folders.collect::<Vec<_>>() {
            if self.config_maps.contains_key(&key) {
                continue;
            }
            match folder::read(&path) {
                Ok(None) => {}
                Ok(Some(config_map)) => {
                    self.config_maps.insert(key, config_map);
                    self.folders.push(path);
                }
                Err(error) => self.unreadable(&path, &error),
            }
        }
    }

    /// Lists the static files of Workers whose code is in local files.
    fn list_assets(&mut self) {
        let local = self.workers.iter().filter(|(_, (_, worker))| worker.spec.source.oci.is_none());
        let folders: Vec<_> = local
            .filter_map(|(id, (location, worker))| {
                Some((id.clone(), location.clone(), assets::folder(&location.file, worker)?))
            })
            .collect();
        for (id, location, folder) in folders {
            match assets::list(&folder) {
                Ok(Listing { files, folders }) => {
                    self.assets.insert(id, files);
                    self.folders.extend(folders);
                }
                Err(message) => {
                    // The folder may be created later.
                    self.folders.extend(folder.parent().map(Path::to_owned));
                    self.problem(location, Some(id), message);
                }
            }
        }
    }

    /// Returns the folder from which a Worker's modules were read, or `None` if they were not read
    /// from a folder.
    pub(crate) fn folder_of(&self, location: &Location, worker: &Worker) -> Option<PathBuf> {
        let name = &worker.spec.source.config_map_ref.as_ref()?.name;
        let folder = folder::beside(&location.file, name);
        self.folders.contains(&folder).then_some(folder)
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            let location = Location { file: path.to_owned(), line: 1 };
            let hint = if is_out_of_descriptors(error) {
                "; raise the limit on open files with ulimit -n"
            } else {
                ""
            };
            self.problem(location, None, format!("cannot read: {error}{hint}"));
        }
    }

    pub(crate) fn add_file(&mut self, file: &Path, text: &str) {
        for (line, document) in documents(text) {
            let location = Location { file: file.to_owned(), line };
            match serde_yaml::from_str::<Value>(document) {
                Ok(Value::Null) => {}
                Ok(value) => self.add(location, value),
                Err(error) => {
                    let within = error.location().map_or(0, |location| location.line() - 1);
                    let location = Location { line: line + within, ..location };
                    self.problem(location, None, format!("invalid YAML: {error}"));
                }
            }
        }
    }

    fn add(&mut self, location: Location, value: Value) {
        let text =
            |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        match (text("apiVersion").as_str(), text("kind").as_str()) {
            ("tenon.dev/v1alpha1", "Worker") => self.add_worker(location, value),
            ("v1", "ConfigMap") => {
                if let Some(object) = self.parse::<ConfigMap>(&location, value) {
                    self.config_maps.insert(key(&object.metadata), object);
                }
            }
            ("v1", "Secret") => {
                if let Some(object) = self.parse::<Secret>(&location, value) {
                    self.secrets.insert(key(&object.metadata), object);
                }
            }
            ("", _) | (_, "") => {
                self.problem(location, None, "apiVersion or kind is missing; set both".to_owned())
            }
            (_, kind @ ("Worker" | "ConfigMap" | "Secret")) => {
                let message = format!(
                    "apiVersion {:?} of {kind} is not supported; use tenon.dev/v1alpha1 for a Worker, and v1 otherwise",
                    text("apiVersion")
                );
                self.problem(location, None, message);
            }
            (api_version, kind) => {
                self.notes.push(format!(
                    "{location}: skipped {kind} ({api_version}), which only a cluster uses"
                ));
            }
        }
    }

    fn add_worker(&mut self, location: Location, value: Value) {
        let violations = violations(&value);
        if !violations.is_empty() {
            let worker = named_in(&value);
            for message in violations {
                self.problem(location.clone(), worker.clone(), message);
            }
            return;
        }
        let Some(worker) = self.parse::<Worker>(&location, value) else { return };
        let id = worker_id(&worker);
        if let Some((other, _)) = self.workers.get(&id) {
            let message = format!("is already declared at {other}; remove one declaration");
            self.problem(location, Some(id), message);
        } else {
            self.workers.insert(id, (location, worker));
        }
    }

    fn parse<T: DeserializeOwned>(&mut self, location: &Location, value: Value) -> Option<T> {
        let worker = named_in(&value);
        match serde_json::from_value(value) {
            Ok(object) => Some(object),
            Err(error) => {
                self.problem(location.clone(), worker, error.to_string());
                None
            }
        }
    }

    pub(crate) fn problem(
        &mut self,
        location: Location,
        worker: Option<WorkerId>,
        message: String,
    ) {
        self.problems.push(Problem { location, worker, message });
    }
}

/// Returns the reasons why the API server would reject the Worker, except that its static files are
/// not in an artifact.
fn violations(value: &Value) -> Vec<String> {
    let crd = Worker::crd();
    let schema =
        crd.spec.versions.into_iter().next().and_then(|version| version.schema?.open_api_v3_schema);
    let mut schema = schema.expect("the CRD of Worker has one version with a schema");
    // The API server checks these three fields itself.
    let properties = schema.properties.get_or_insert_default();
    for field in ["apiVersion", "kind", "metadata"] {
        properties.entry(field.to_owned()).or_default().x_kubernetes_preserve_unknown_fields =
            Some(true);
    }
    let mut found = schema::violations(&schema, value);
    // `tenon deploy --registry` makes the artifact from the files.
    found.retain(|message| message != ASSETS_NEED_AN_ARTIFACT);
    if value.pointer("/metadata/name").and_then(Value::as_str).is_none_or(str::is_empty) {
        found.push("metadata.name: is required".to_owned());
    }
    found
}

fn named_in(value: &Value) -> Option<WorkerId> {
    if value.get("kind")?.as_str()? != "Worker" {
        return None;
    }
    let name = value.pointer("/metadata/name")?.as_str()?;
    let namespace =
        value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(DEFAULT_NAMESPACE);
    format!("{namespace}/{name}").parse().ok()
}

fn key(metadata: &ObjectMeta) -> (String, String) {
    let namespace = metadata.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    (namespace, metadata.name.clone().unwrap_or_default())
}

/// Splits a YAML stream into documents, each with the number of the line at which its content
/// begins. A line that is `---` or begins with `--- ` always ends a document, because block scalars
/// are indented. The rest of that line belongs to the next document.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let (mut documents, mut start, mut start_line, mut offset) = (Vec::new(), 0, 1, 0);
    for (i, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            documents.push((start_line, &text[start..offset]));
            (start, start_line) = (offset + "---".len(), i + 1);
        }
        offset += line.len();
    }
    documents.push((start_line, &text[start..]));
    documents.into_iter().map(|(line, document)| without_preface(line, document)).collect()
}

/// Strips leading blank lines and comments from a document. Returns the number of the first
/// remaining line, and the remaining text.
fn without_preface(line: usize, document: &str) -> (usize, &str) {
    let is_preface = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let preface = document.split_inclusive('\n').take_while(is_preface);
    let (lines, bytes) =
        preface.fold((0, 0), |(lines, bytes), line| (lines + 1, bytes + line.len()));
    (line + lines, &document[bytes..])
}

#[cfg(test)]
#[path = "manifest/tests.rs"]
mod tests;

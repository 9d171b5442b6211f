//! Translates wrangler's configuration into a Worker. Every key with content is carried over, or a
//! note says what to do about the key. This module is pure.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};

use super::advice;
use super::routes::{Routes, routes};
use crate::annotation::{BUILD, MAIN};
use crate::assets::FOLDER;
use crate::manifest::MAX_NAME;

/// Name of the module that the bundler writes.
const ENTRYPOINT: &str = "index.js";

/// The code of a Worker that only serves static files.
const ONLY_ASSETS: &str =
    "export default { fetch: (request, env) => env.ASSETS.fetch(request) };\n";
/// The name of the binding to the static files in [`ONLY_ASSETS`].
const ASSETS: &str = "ASSETS";

/// The flag with which a Worker may import the modules of Node.js.
const NODE: &str = "nodejs_compat";

/// The compatibility date from which wrangler projects have that flag without naming it.
const NODE_BY_DATE: &str = "2026-08-04";

/// Maximum of `limits.subrequests` of a Worker.
const MAX_SUBREQUESTS: u64 = 10_000;

/// The manifest of a Worker, and the notes and steps for the Worker's author.
#[derive(Debug)]
pub(crate) struct Translation {
    pub(crate) worker: Value,
    pub(crate) notes: Vec<Note>,
    /// The steps that remain, in order.
    pub(crate) steps: Vec<String>,
}

/// The treatment of a key that was not carried over unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    key: String,
    text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.text)
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum TranslateError {
    #[error("the configuration is not a table of keys")]
    NoTable,
    #[error("the configuration has no environment {0}; its environments are: {1}")]
    NoEnvironment(String, String),
}

/// Translates a configuration.
///
/// # Arguments
/// * `environment` - the environment to translate, or the top level if `None`.
/// * `fallback` - the name of the Worker if the configuration has none.
/// * `secrets` - the names of secrets in addition to those that the configuration contains.
///
/// # Errors
/// Fails if the configuration is not a table, or has no such environment.
pub(super) fn translate(
    config: &Value,
    environment: Option<&str>,
    fallback: &str,
    secrets: &[String],
) -> Result<Translation, TranslateError> {
    let config = effective(config.as_object().ok_or(TranslateError::NoTable)?, environment)?;
    let name = config.get("name").and_then(Value::as_str).unwrap_or(fallback);
    let mut translator = Translator::new(name);
    for (key, value) in &config {
        translator.take(key, value);
    }
    if has_node_by_date(&config) {
        translator.spec.insert("compatibilityFlags".to_owned(), json!([NODE]));
    }
    translator.secrets(secrets);
    Ok(translator.finish())
}

/// Returns whether the compatibility date implies the modules of Node.js.
fn has_node_by_date(config: &Map<String, Value>) -> bool {
    let date = config.get("compatibility_date").and_then(Value::as_str);
    let flags = config.get("compatibility_flags").and_then(Value::as_array);
    // Dates have the form 2026-01-31, so their texts sort like the dates.
    date.is_some_and(|date| date >= NODE_BY_DATE)
        && !flags.is_some_and(|flags| flags.iter().any(|flag| flag == "no_nodejs_compat"))
}

/// Returns the keys that apply to an environment.
fn effective(
    config: &Map<String, Value>,
    environment: Option<&str>,
) -> Result<Map<String, Value>, TranslateError> {
    let mut config = config.clone();
    let environments = config.remove("env");
    let Some(wanted) = environment else { return Ok(config) };
    let environments = environments.as_ref().and_then(Value::as_object);
    let found = environments.and_then(|all| all.get(wanted)).and_then(Value::as_object);
    let Some(found) = found else {
        let known = environments.into_iter().flat_map(Map::keys).cloned().collect::<Vec<_>>();
        return Err(TranslateError::NoEnvironment(wanted.to_owned(), known.join(", ")));
    };
    config.retain(|key, _| advice::is_inherited(key));
    if let Some(Value::String(name)) = config.get_mut("name") {
        *name = format!("{name}-{wanted}");
    }
    config.extend(found.clone());
    Ok(config)
}

struct Translator {
    name: String,
    spec: Map<String, Value>,
    notes: Vec<Note>,
    main: Option<String>,
    build: Option<String>,
    assets_folder: Option<String>,
    /// The names of secrets that the configuration contains.
    required: Vec<String>,
}

impl Translator {
    fn new(wanted: &str) -> Self {
        let name = dns_label(wanted);
        let mut translator = Self {
            name,
            spec: Map::new(),
            notes: Vec::new(),
            main: None,
            build: None,
            assets_folder: None,
            required: Vec::new(),
        };
        if translator.name != wanted {
            let text =
                format!("becomes {}, because the name is part of a host name", translator.name);
            translator.note("name", text);
        }
        translator
    }

    fn note(&mut self, key: &str, text: impl Into<String>) {
        self.notes.push(Note { key: key.to_owned(), text: text.into() });
    }

    /// Translates a key, or notes what to do about it.
    ///
    /// The method of each key changes the Worker, and returns whether the value has the documented
    /// form.
    fn take(&mut self, key: &str, value: &Value) {
        let is_well_formed = match key {
            "name" => true,
            "main" => self.main(value),
            "build" => self.build(value),
            "vars" => self.vars(value),
            "route" => self.routes(key, std::slice::from_ref(value)),
            "routes" => value.as_array().is_some_and(|all| self.routes(key, all)),
            "services" => value.as_array().is_some_and(|all| self.services(all)),
            "assets" => self.assets(value),
            "triggers" => self.triggers(value),
            "limits" => self.limits(value),
            "secrets" => self.required(value),
            "compatibility_flags" => self.flags(value),
            // Tools that generate configurations write every key, even without content.
            _ if is_empty(value) => true,
            _ => {
                let unknown =
                    "is not known to tenon import; check whether the Worker needs the key";
                self.note(key, advice::about(key).unwrap_or(unknown));
                true
            }
        };
        if !is_well_formed {
            self.note(key, "does not have the form that wrangler documents; correct the value");
        }
    }

    fn main(&mut self, value: &Value) -> bool {
        self.main = value.as_str().map(str::to_owned);
        self.main.is_some()
    }

    fn build(&mut self, value: &Value) -> bool {
        self.build = value.get("command").and_then(Value::as_str).map(str::to_owned);
        value.is_object()
    }

    fn vars(&mut self, value: &Value) -> bool {
        let Some(vars) = value.as_object() else { return false };
        let mut texts = Map::new();
        for (name, value) in vars {
            if !value.is_string() {
                self.note(
                    &format!("vars.{name}"),
                    "becomes text in env; parse the text with JSON.parse",
                );
            }
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            texts.insert(name.clone(), text.into());
        }
        self.spec.insert("vars".to_owned(), texts.into());
        true
    }

    fn required(&mut self, value: &Value) -> bool {
        let Some(names) = value.get("required").and_then(Value::as_array) else { return false };
        self.required = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        self.required.len() == names.len()
    }

    /// Binds each secret that is not also a variable to a key of a Secret with the Worker's name.
    ///
    /// # Arguments
    /// * `names` - the names of secrets, in addition to those that the configuration contains.
    fn secrets(&mut self, names: &[String]) {
        let required = std::mem::take(&mut self.required);
        let names: BTreeSet<_> = required.iter().chain(names).collect();
        let vars = self.spec.get("vars").and_then(Value::as_object);
        let is_free = |name: &&&String| vars.is_none_or(|vars| !vars.contains_key(**name));
        let secrets = names.iter().filter(is_free);
        let bind =
            |name| json!({ "name": name, "secretKeyRef": { "name": self.name, "key": name } });
        let secrets: Vec<_> = secrets.map(bind).collect();
        if !secrets.is_empty() {
            self.spec.insert("secrets".to_owned(), secrets.into());
        }
    }

    fn routes(&mut self, key: &str, all: &[Value]) -> bool {
        let mut taken = Vec::new();
        for route in all {
            let Some(pattern) = route.as_str().or_else(|| route.get("pattern")?.as_str()) else {
                return false;
            };
            match routes(pattern) {
                Some(Routes { routes, difference }) => {
                    taken.extend(routes);
                    if let Some(difference) = difference {
                        self.note(key, format!("{pattern} {difference}"));
                    }
                }
                None => self.note(
                    key,
                    format!(
                        "{pattern} has a wildcard that routes do not support; match paths in the \
                         code"
                    ),
                ),
            }
        }
        taken.dedup();
        self.spec.insert("routes".to_owned(), taken.into());
        true
    }

    fn services(&mut self, all: &[Value]) -> bool {
        let text = |service: &Value, key: &str| {
            service.get(key).and_then(Value::as_str).map(str::to_owned)
        };
        let mut taken = Vec::new();
        for service in all {
            let (Some(binding), Some(worker)) =
                (text(service, "binding"), text(service, "service"))
            else {
                return false;
            };
            if service.get("props").is_some() {
                let key = format!("services.{binding}");
                self.note(&key, "passes no props to the entrypoint; pass them as arguments");
            }
            let mut service_binding = json!({ "name": binding, "worker": dns_label(&worker) });
            if let Some(entrypoint) = text(service, "entrypoint") {
                service_binding["entrypoint"] = entrypoint.into();
            }
            taken.push(service_binding);
        }
        self.spec.insert("services".to_owned(), taken.into());
        true
    }

    fn assets(&mut self, value: &Value) -> bool {
        let Some(assets) = value.as_object() else { return false };
        let mut taken = Map::new();
        for (key, value) in assets {
            let text = value.as_str().unwrap_or_default();
            let (field, value) = match (key.as_str(), text) {
                ("directory", "") => return false,
                ("directory", folder) => {
                    self.assets_folder = Some(folder.to_owned());
                    continue;
                }
                ("binding", _) => ("binding", value.clone()),
                ("not_found_handling", "none") | ("html_handling", "auto-trailing-slash") => {
                    continue;
                }
                ("html_handling", "none") => ("htmlHandling", "None".into()),
                ("html_handling", "force-trailing-slash") => {
                    ("htmlHandling", "ForceTrailingSlash".into())
                }
                ("html_handling", "drop-trailing-slash") => {
                    ("htmlHandling", "DropTrailingSlash".into())
                }
                ("not_found_handling", "404-page") => ("notFoundHandling", "NotFoundPage".into()),
                ("not_found_handling", "single-page-application") => {
                    ("notFoundHandling", "SinglePageApplication".into())
                }
                ("run_worker_first", _) => match value {
                    Value::Bool(true) => ("runWorkerFirst", json!(["/*"])),
                    Value::Bool(false) => continue,
                    paths => ("runWorkerFirst", paths.clone()),
                },
                (other, _) => {
                    self.note(&format!("assets.{other}"), "has no counterpart");
                    continue;
                }
            };
            taken.insert(field.to_owned(), value);
        }
        self.spec.insert("assets".to_owned(), taken.into());
        true
    }

    fn triggers(&mut self, value: &Value) -> bool {
        if is_empty(value) {
            return true;
        }
        let Some(crons) = value.get("crons").and_then(Value::as_array) else { return false };
        let schedules = crons.iter().map(|cron| json!({ "cron": cron })).collect();
        self.spec.insert("schedules".to_owned(), Value::Array(schedules));
        crons.iter().all(Value::is_string)
    }

    fn limits(&mut self, value: &Value) -> bool {
        let Some(limits) = value.as_object() else { return false };
        let mut taken = Map::new();
        for (key, value) in limits {
            match key.as_str() {
                "cpu_ms" => drop(taken.insert("cpuMs".to_owned(), value.clone())),
                "subrequests" => {
                    let Some(wanted) = value.as_u64() else { return false };
                    if wanted > MAX_SUBREQUESTS {
                        self.note(
                            "limits.subrequests",
                            format!("becomes {MAX_SUBREQUESTS}, the maximum"),
                        );
                    }
                    taken.insert("subrequests".to_owned(), wanted.min(MAX_SUBREQUESTS).into());
                }
                other => self.note(&format!("limits.{other}"), "has no counterpart"),
            }
        }
        if !taken.is_empty() {
            self.spec.insert("limits".to_owned(), taken.into());
        }
        true
    }

    fn flags(&mut self, value: &Value) -> bool {
        let Some(flags) = value.as_array() else { return false };
        for flag in flags.iter().filter_map(Value::as_str) {
            match flag {
                "nodejs_compat" | "nodejs_compat_v2" | "nodejs_als" => {
                    self.spec.insert("compatibilityFlags".to_owned(), json!([NODE]));
                }
                other => {
                    self.note("compatibility_flags", format!("there is no flag {other}"));
                }
            }
        }
        true
    }

    fn finish(self) -> Translation {
        let Self { name, mut spec, notes, main, build, assets_folder, .. } = self;
        let mut steps = Vec::new();
        let mut annotations = Map::new();
        let has_assets = spec.contains_key("assets");
        if main.is_none() && has_assets {
            // wrangler accepts static files without code, but a Worker needs code.
            spec["assets"]["binding"] = ASSETS.into();
            spec.insert("source".to_owned(), json!({ "modules": { "worker.js": ONLY_ASSETS } }));
        } else {
            spec.insert("entrypoint".to_owned(), ENTRYPOINT.into());
            spec.insert("source".to_owned(), json!({ "configMapRef": { "name": name } }));
            match &main {
                Some(main) => drop(annotations.insert(MAIN.to_owned(), main.as_str().into())),
                None => steps.push(format!(
                    "put the module whose default export handles requests into {name}/{ENTRYPOINT}"
                )),
            }
        }
        let secrets = spec.get("secrets").and_then(Value::as_array).into_iter().flatten();
        let put = |secret: &Value| {
            let binding = secret["name"].as_str().unwrap_or_default();
            format!("tenon secret put {name} {binding}, once the Worker is deployed")
        };
        let puts: Vec<_> = secrets.map(put).collect();
        let registry = if has_assets { " --registry PREFIX" } else { "" };
        steps.push(format!("tenon dev worker.yaml, or tenon deploy worker.yaml{registry}"));
        steps.extend(puts);
        annotations.extend(build.map(|command| (BUILD.to_owned(), command.into())));
        annotations.extend(assets_folder.map(|folder| (FOLDER.to_owned(), folder.into())));
        let mut metadata = json!({ "name": name });
        if !annotations.is_empty() {
            metadata["annotations"] = annotations.into();
        }
        let worker = json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "Worker",
            "metadata": metadata,
            "spec": spec,
        });
        Translation { worker, notes, steps }
    }
}

/// Returns whether a value has no content: it is null, or consists of empty tables and lists.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.iter().all(is_empty),
        Value::Object(all) => all.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Converts a name into a DNS label.
fn dns_label(name: &str) -> String {
    let label = name.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let label = &label[..label.len().min(MAX_NAME)];
    let label = label.trim_matches('-');
    if label.is_empty() { "worker".to_owned() } else { label.to_owned() }
}

#[cfg(test)]
mod tests;

//! Checks the snippets of the pages, by their language and the words after it:
//!
//! | info string | check |
//! | --- | --- |
//! | `js,worker`, `ts,worker` | `tenon check` compiles a Worker with this module |
//! | `js`, `ts` | the same for a part of a module, which has no `export default` |
//! | `yaml` | objects: `tenon check` accepts the Workers, and the schema the RuntimePools |
//! | `yaml,worker`, `yaml,pool` | the same for a part of one object |
//! | `yaml,values` | every value is in the chart's `values.yaml` |
//! | `yaml,other` | it is valid YAML |
//! | `console` | the commands after `$ ` are valid for bash |
//! | `sh` | bash parses it |
//! | `json` | it is valid JSON |
//! | `text` | none |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};
use tenon_crds::RuntimePool;
use tenon_docs::markdown::{self, Snippet};

use crate::{content, pages};

/// A module for Workers whose snippet has none.
const MODULE: &str = "export default { fetch() { return new Response(); } };\n";

/// A digest for snippets that shorten theirs.
const DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Calls a check with the snippets of all pages in the given languages, and panics with what the
/// check reports.
fn check(languages: &[&str], check: impl Fn(&Snippet) -> Result<(), String>) {
    let mut wrong = Vec::new();
    for page in pages() {
        for snippet in markdown::read(&content(&page)).snippets {
            if languages.contains(&snippet.language.as_str())
                && let Err(message) = check(&snippet)
            {
                wrong.push(format!("{page}:{}: {message}", snippet.line));
            }
        }
    }
    assert!(wrong.is_empty(), "wrong snippets:\n{}", wrong.join("\n"));
}

#[test]
fn every_snippet_has_a_language_that_is_checked() {
    let known = ["console", "js", "json", "sh", "text", "ts", "yaml"];
    for page in pages() {
        for Snippet { language, line, .. } in markdown::read(&content(&page)).snippets {
            assert!(known.contains(&language.as_str()), "{page}:{line}: language {language:?}");
        }
    }
}

#[test]
fn bash_parses_every_command() {
    check(&["console", "sh"], |snippet| {
        let script = match snippet.language.as_str() {
            "console" => commands(&snippet.text),
            _ => snippet.text.clone(),
        };
        let output = Command::new("bash").args(["-n", "-c", &script]).output();
        let output = output.expect("cannot run bash");
        if output.status.success() && output.stderr.is_empty() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    });
}

#[test]
fn every_json_snippet_is_valid() {
    check(&["json"], |snippet| {
        serde_json::from_str::<Value>(&snippet.text).map(drop).map_err(|error| error.to_string())
    });
}

#[test]
fn tenon_check_compiles_every_module() {
    check(&["js", "ts"], |snippet| {
        let is_worker = snippet.text.contains("export default");
        let mut code = without_packages(&snippet.text);
        match (is_worker, snippet.has("worker")) {
            (true, true) => {}
            (false, false) => code.push_str(MODULE),
            (true, false) => return Err("add the word `worker` to the info string".to_owned()),
            (false, true) => return Err("remove the word `worker` from the info string".to_owned()),
        }
        let module = format!("worker.{}", snippet.language);
        let spec = json!({
            "compatibilityFlags": ["nodejs_compat"],
            "source": { "modules": { module: code } },
        });
        tenon_check(&[complete("Worker", json!({ "spec": spec }))])
    });
}

#[test]
fn every_yaml_snippet_is_valid() {
    check(&["yaml"], |snippet| {
        let documents = documents(&snippet.text.replace("sha256:…", DIGEST))?;
        if snippet.has("other") {
            return Ok(());
        }
        if snippet.has("values") {
            let values = documents_of(&content("charts/tenon/values.yaml"));
            return documents.iter().try_for_each(|part| are_values("", part, &values));
        }
        let documents = documents.into_iter().map(|document| {
            if snippet.has("worker") {
                complete("Worker", document)
            } else if snippet.has("pool") {
                complete("RuntimePool", document)
            } else {
                document
            }
        });
        let (pools, others): (Vec<_>, Vec<_>) =
            documents.partition(|document| document["kind"] == "RuntimePool");
        pools.iter().try_for_each(is_pool)?;
        if others.is_empty() { Ok(()) } else { tenon_check(&others) }
    });
}

/// Returns the commands of a console: the lines after `$ `, with the lines that continue them.
fn commands(text: &str) -> String {
    let mut script = String::new();
    let mut is_continued = false;
    for line in text.lines() {
        let command = line.strip_prefix("$ ");
        if command.is_some() || is_continued {
            let command = command.unwrap_or(line);
            is_continued = command.ends_with('\\');
            script.push_str(command);
            script.push('\n');
        }
    }
    script
}

/// Returns the code without imports of packages, which a bundler replaces: each imported name
/// becomes a variable.
fn without_packages(code: &str) -> String {
    let line = |line: &str| {
        let imported = line.strip_prefix("import ").and_then(|rest| rest.split_once(" from \""));
        match imported {
            Some((names, from)) if !from.starts_with(['.', '/']) && !from.contains(':') => {
                let names = names.trim_start_matches(['{', '*']).trim_end_matches('}');
                let name =
                    |name: &str| name.split(" as ").last().unwrap_or_default().trim().to_owned();
                format!("let {};\n", names.split(',').map(name).collect::<Vec<_>>().join(", "))
            }
            _ => format!("{line}\n"),
        }
    };
    code.lines().map(line).collect()
}

fn documents(text: &str) -> Result<Vec<Value>, String> {
    let parse = |part: &str| serde_yaml::from_str(part).map_err(|error| error.to_string());
    text.split("\n---\n").map(parse).collect()
}

/// Returns the only document of a valid file.
fn documents_of(text: &str) -> Value {
    documents(text).expect("the file is valid").remove(0)
}

/// Returns the object of which a snippet shows a part.
fn complete(kind: &str, mut part: Value) -> Value {
    let object = part.as_object_mut().expect("a part of an object has fields");
    object.insert("apiVersion".to_owned(), "tenon.dev/v1alpha1".into());
    object.insert("kind".to_owned(), kind.into());
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    metadata["name"] = "snippet".into();
    let spec = object.entry("spec").or_insert_with(|| json!({}));
    if kind == "Worker" && spec.get("source").is_none() {
        let source = match spec.get("assets") {
            Some(_) => json!({ "configMapRef": { "name": "snippet" } }),
            None => json!({ "modules": { "worker.js": MODULE } }),
        };
        spec["source"] = source;
    }
    part
}

/// Checks that the chart has every value of a part of its values.
fn are_values(path: &str, part: &Value, values: &Value) -> Result<(), String> {
    // An empty default stands for any content.
    let is_open = values.as_object().is_none_or(Map::is_empty);
    for (name, value) in part.as_object().into_iter().flatten().filter(|_| !is_open) {
        let path = format!("{path}.{name}");
        let found = values.get(name).ok_or_else(|| format!("the chart has no value {path}"))?;
        are_values(&path, value, found)?;
    }
    Ok(())
}

/// Checks that the schema of RuntimePools has every field of an object.
fn is_pool(object: &Value) -> Result<(), String> {
    serde_json::from_value::<RuntimePool>(object.clone()).map_err(|error| error.to_string())?;
    let crds = tenon_crds::all();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == "RuntimePool");
    let crd = crd.expect("there is a CRD of RuntimePools");
    let schema = serde_json::to_value(&crd.spec.versions[0].schema).expect("a schema is JSON");
    has_fields("spec", &object["spec"], &schema["openAPIV3Schema"]["properties"]["spec"])
}

fn has_fields(path: &str, value: &Value, schema: &Value) -> Result<(), String> {
    let elements = value.as_array().into_iter().flatten();
    for element in elements {
        has_fields(path, element, &schema["items"])?;
    }
    let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let field = properties.get(name).ok_or_else(|| format!("unknown field {path}"))?;
        has_fields(&path, value, field)?;
    }
    Ok(())
}

/// Runs `tenon check` on objects. What the objects of a snippet refer to exists: ConfigMaps are
/// folders with a module, Secrets have a value, and sites have a page.
fn tenon_check(objects: &[Value]) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("cannot create a folder");
    let mut secrets = String::new();
    let mut manifests = String::new();
    for object in objects {
        let mut object = object.clone();
        let spec = object["spec"].clone();
        let entrypoint = spec["entrypoint"].as_str().unwrap_or("worker.js");
        if let Some(name) = spec["source"]["configMapRef"]["name"].as_str() {
            write(&folder.path().join(name).join(entrypoint), MODULE);
        }
        for secret in spec["secrets"].as_array().into_iter().flatten() {
            secrets.push_str(&format!("{}=value\n", secret["name"].as_str().unwrap_or_default()));
        }
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            // These run programs of a project.
            annotations.remove("tenon.dev/main");
            annotations.remove("tenon.dev/build");
        }
        let site = object["metadata"]["annotations"]["tenon.dev/assets"].as_str();
        if spec["assets"].is_object() {
            write(&folder.path().join(site.unwrap_or("public")).join("index.html"), "<p>\n");
        }
        manifests.push_str(&format!("---\n{object}\n"));
    }
    let manifest = folder.path().join("worker.yaml");
    write(&manifest, &manifests);
    let env = folder.path().join("env");
    write(&env, &secrets);
    let mut command = Command::new(tenon());
    command.arg("check").arg(&manifest).arg("--env-file").arg(&env);
    let output = command.output().expect("cannot run tenon");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file has a folder"))
        .expect("cannot create a folder");
    fs::write(path, text).expect("cannot write a file");
}

/// Returns the path of the program `tenon`, two folders above this test: `make test-unit` builds it
/// first.
fn tenon() -> PathBuf {
    let own = std::env::current_exe().expect("the test has a path");
    let path = own.ancestors().nth(2).expect("the test is in a folder").join("tenon");
    assert!(
        path.is_file(),
        "{} does not exist; run `cargo build --workspace --bin tenon`",
        path.display()
    );
    path
}

//! What the API server says to objects that somebody got wrong.
//!
//! Every value of a complete object is replaced by every one of a list of oddities, left out, given a sibling that
//! nobody knows, or put in twice. The API server must take what comes out, and then it fits our types, or refuse it by
//! the name of the field. All of it is dry run: nothing is stored.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tenon_crds::{RuntimePool, Worker, WorkerRevision};
use tenon_e2e::Scenario;

/// Requests at once: the API server has other tests to serve.
const AT_ONCE: usize = 8;

const ENOUGH: usize = 1_000;

pub async fn a_mutated_object_fits_or_is_refused_by_the_name_of_its_field(scenario: Scenario) -> anyhow::Result<()> {
    let client = scenario.cluster.client();
    let in_namespace = |plural| format!("/apis/tenon.dev/v1alpha1/namespaces/{}/{plural}", scenario.namespace.name());
    let workers = judge::<Worker>(&client, &in_namespace("workers"), mutants(&worker())).await?;
    let revisions = judge::<WorkerRevision>(&client, &in_namespace("workerrevisions"), mutants(&revision())).await?;
    let pools = judge::<RuntimePool>(&client, "/apis/tenon.dev/v1alpha1/runtimepools", mutants(&pool())).await?;

    let verdicts = [workers, revisions, pools];
    let tried: usize = verdicts.iter().map(|verdict| verdict.taken + verdict.refused.len()).sum();
    ensure!(tried >= ENOUGH, "only {tried} objects were tried");
    for verdict in &verdicts {
        ensure!(verdict.taken > 0, "no mutant was taken");
    }
    let refusals: BTreeSet<&String> = verdicts.iter().flat_map(|verdict| &verdict.refused).collect();
    for message in scenario.cluster.rule_messages()? {
        // This one is about a change, which is tried elsewhere.
        if message.contains("immutable") {
            continue;
        }
        ensure!(message.starts_with("spec") || message.starts_with("metadata.name: "), "names no field: {message}");
        ensure!(refusals.iter().any(|refusal| refusal.contains(&message)), "no mutant breaks the rule: {message}");
    }
    Ok(())
}

pub async fn a_revision_cannot_be_changed(scenario: Scenario) -> anyhow::Result<()> {
    let client = scenario.cluster.client();
    let path = format!("/apis/tenon.dev/v1alpha1/namespaces/{}/workerrevisions", scenario.namespace.name());
    let request = |method, path: &str, object: &Value| -> anyhow::Result<_> {
        Ok(http::Request::builder().method(method).uri(path).body(serde_json::to_vec(object)?)?)
    };
    let mut stored: Value = client.request(request("POST", &path, &revision())?).await?;
    stored["spec"]["entrypoint"] = json!("other.js");
    let refused = client.request::<Value>(request("PUT", &format!("{path}/first"), &stored)?).await;
    let refusal = refused.err().context("the change was taken")?.to_string();
    ensure!(refusal.contains("spec: a WorkerRevision is immutable; change the Worker instead"), "{refusal}");
    Ok(())
}

/// What became of a kind's mutants.
struct Verdict {
    taken: usize,
    refused: Vec<String>,
}

async fn judge<K: DeserializeOwned>(client: &Client, path: &str, mutants: Vec<Mutant>) -> anyhow::Result<Verdict> {
    let uri = &format!("{path}?dryRun=All&fieldValidation=Strict");
    let answers = stream::iter(mutants).map(|mutant| async move {
        let request = http::Request::post(uri).body(serde_json::to_vec(&mutant.object)?)?;
        anyhow::Ok((mutant, client.request::<K>(request).await))
    });
    let answers: Vec<_> = answers.buffer_unordered(AT_ONCE).try_collect().await?;
    let mut verdict = Verdict { taken: 0, refused: Vec::new() };
    let mut misjudged = Vec::new();
    for (mutant, answer) in answers {
        match answer {
            Ok(_) => verdict.taken += 1,
            Err(kube::Error::Api(status)) if status.code < 500 && mutant.is_named_by(&status.message) => {
                verdict.refused.push(status.message);
            }
            Err(error) => misjudged.push(format!("{}: {error:.400}", mutant.what)),
        }
    }
    ensure!(misjudged.is_empty(), "{} are misjudged:\n{}", misjudged.len(), misjudged.join("\n"));
    Ok(verdict)
}

/// An object that differs from a good one in one place.
struct Mutant {
    /// For whoever reads that it was judged wrongly.
    what: String,
    at: Place,
    object: Value,
}

impl Mutant {
    /// A refusal names the field, or one that it is part of, as far as that is narrower than the whole spec.
    fn is_named_by(&self, refusal: &str) -> bool {
        // Go's name for it, where its type is wrong.
        let refusal = refusal.replace("ObjectMeta.", "metadata.");
        let Place(steps) = &self.at;
        (steps.len().min(2)..=steps.len()).any(|len| refusal.contains(&Place(steps[..len].to_vec()).to_string()))
    }
}

/// Where a value is in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
}

impl Place {
    fn then(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    fn field(&self, name: &str) -> Self {
        self.then(Step::Field(name.to_owned()))
    }

    fn of<'a>(&self, object: &'a mut Value) -> &'a mut Value {
        self.0.iter().fold(object, |value, step| match step {
            Step::Field(name) => &mut value[name.as_str()],
            Step::Item(index) => &mut value[*index],
        })
    }
}

/// As Kubernetes writes it.
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if i == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// What people and templates put where something else was meant.
fn oddities() -> Vec<Value> {
    let strings = [
        "",
        " ",
        "x",
        "Upper Case",
        "a.b",
        "-dash",
        "../up",
        "/",
        "//",
        "/a b",
        "/a?b#c",
        "*.example.com",
        "*",
        "example.com:80",
        "9lives",
        "GREETING",
        "line\nline",
        "nul\0",
        "Straße ☃",
        "1Gi",
        "yes",
    ];
    let mut all: Vec<Value> = strings.map(Value::from).into();
    all.extend(["x".repeat(64), "x".repeat(300), "x".repeat(40_000)].map(Value::from));
    all.extend([json!(null), json!(true), json!([]), json!({}), json!([1]), json!({"a": 1}), json!({"b": "c"})]);
    all.extend([json!(-1), json!(0), json!(1), json!(1.5), json!(1_000_000_000_000_i64), json!(1e300)]);
    all
}

/// Every mutant of a good object.
fn mutants(good: &Value) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut mutate = |what: String, at: &Place, change: &dyn Fn(&mut Value)| {
        let mut object = good.clone();
        change(&mut object);
        mutants.push(Mutant { what, at: at.clone(), object });
    };
    mutate("good".to_owned(), &Place(Vec::new()), &|_| {});
    for at in places(good) {
        for odd in oddities() {
            let shown: String = odd.to_string().chars().take(40).collect();
            mutate(format!("{at} = {shown}"), &at, &|object| *at.of(object) = odd.clone());
        }
        let Some((last, parent)) = at.0.split_last() else { continue };
        let parent = Place(parent.to_vec());
        match last {
            Step::Field(name) => {
                mutate(format!("without {at}"), &at, &|object| {
                    parent.of(object).as_object_mut().and_then(|fields| fields.remove(name));
                });
                let renamed = ["", "9 lives", "../up.js", "a/b.js", "GREETING"];
                for other in renamed.map(str::to_owned).into_iter().chain(["x".repeat(70), "x".repeat(300)]) {
                    let beside = parent.field(&other);
                    mutate(format!("{at} as {other:.20}"), &beside, &|object| {
                        let fields = parent.of(object).as_object_mut();
                        let _ = fields
                            .and_then(|fields| fields.remove(name).map(|value| fields.insert(other.clone(), value)));
                    });
                }
            }
            Step::Item(index) => mutate(format!("{at} twice"), &parent, &|object| {
                if let Some(items) = parent.of(object).as_array_mut() {
                    items.push(items[*index].clone());
                }
            }),
        }
    }
    for (at, value) in combinations(good) {
        mutate(format!("{at} beside the rest"), &at, &|object| *at.of(object) = value.clone());
    }
    mutants
}

/// Of the whole object the name and the spec, and all below.
fn places(good: &Value) -> Vec<Place> {
    fn below(at: &Place, value: &Value, into: &mut Vec<Place>) {
        into.push(at.clone());
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| below(&at.field(name), value, into)),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, value)| below(&at.then(Step::Item(i)), value, into));
            }
            _ => {}
        }
    }
    let root = Place(Vec::new());
    let mut all = vec![root.field("metadata").field("name")];
    below(&root.field("spec"), &good["spec"], &mut all);
    all
}

/// What is wrong only together with the rest.
fn combinations(good: &Value) -> Vec<(Place, Value)> {
    if good["kind"] != "Worker" {
        return Vec::new();
    }
    let spec = Place(vec![Step::Field("spec".to_owned())]);
    let source = spec.field("source");
    let mut without_entrypoint: Map<String, Value> = good["spec"].as_object().cloned().unwrap_or_default();
    without_entrypoint.remove("entrypoint");
    without_entrypoint["source"] = json!({"modules": {"a.js": "", "b.js": ""}});
    vec![
        (source.field("configMapRef"), json!({"name": "code"})),
        (source.clone(), json!({"modules": {"a.js": "", "b.js": ""}})),
        (spec, Value::Object(without_entrypoint)),
    ]
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "tenon.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn worker() -> Value {
    let spec = json!({
        "source": {"modules": {"worker.js": "export default {}", "lib/greet.js": ""}},
        "entrypoint": "worker.js",
        "pool": "default",
        "routes": [{"host": "shop.example.com", "path": "/api"}, {"host": "*.example.com"}],
        "vars": {"GREETING": "Hello"},
        "secrets": [{"name": "KEY", "secretKeyRef": {"name": "keys", "key": "main"}}],
        "limits": {
            "cpuMs": 50, "wallMs": 1000, "memoryMiB": 64, "startupMs": 400, "concurrency": 10, "requestBodyMiB": 1,
        },
        "revisionHistoryLimit": 3,
    });
    object("Worker", "good", spec)
}

fn revision() -> Value {
    let spec = json!({
        "worker": "good",
        "digest": "0".repeat(64),
        "entrypoint": "worker.js",
        "modules": {"worker.js": "export default {}"},
        "vars": {"GREETING": "Hello"},
        "secrets": [{"name": "KEY", "secretKeyRef": {"name": "keys", "key": "main"}}],
        "limits": {"cpuMs": 50},
    });
    object("WorkerRevision", "first", spec)
}

fn pool() -> Value {
    let spec = json!({
        "replicas": 3,
        "shardsPerNode": 2,
        "isolatesPerShard": 100,
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "runtimeClassName": "gvisor",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "tenants", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpread": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    });
    object("RuntimePool", "good", spec)
}

//! Tests of the API server's verdicts on objects with mistakes.
//!
//! ```text
//!  good object ─► mutants ─► API server ─┬─ refuses it and names the field, and the remedy
//!                                        │  if the rule is Tenon's
//!                                        └─ accepts it ─► Tenon's types ─► the operator
//!                                                         ─► API server accepts its objects
//! ```
//!
//! All requests are dry runs, except one that stores a WorkerRevision, which later requests try to
//! change.

mod consequence;
mod field_path;
mod good;
mod mutant;
mod oddities;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

use anyhow::{Context, ensure};
use futures::{StreamExt as _, stream};
use kube::Client;
use kube::core::Status;
use serde_json::{Value, json};
use tenon_crds::{HostGrant, RuntimePool, Worker, WorkerRevision};
use tenon_e2e::Scenario;

use consequence::Kind;
use mutant::{Mutant, SEED};

/// Maximum number of concurrent requests.
const MAX_CONCURRENT: usize = 16;

/// Minimum number of mutants of each kind.
const MIN_MUTANTS: usize = 1_000;

/// Maximum number of wrong verdicts in the error.
const MAX_LISTED: usize = 20;

/// Maximum length of a string in the report of a wrong verdict, in characters.
const MAX_SHOWN: usize = 400;

pub async fn the_refusal_of_an_object_that_violates_its_schema_names_the_field(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let judge = Judge::new(&scenario)?;
    let workers = good::workers().into_iter().flat_map(Mutant::all_of).collect();
    let revisions = good::revisions().into_iter().flat_map(Mutant::all_of).collect();
    let grants = good::grants().into_iter().flat_map(Mutant::all_of).collect();
    let verdicts = [
        judge.try_all::<Worker>(workers).await?,
        judge.try_all::<WorkerRevision>(revisions).await?,
        judge.try_all::<RuntimePool>(Mutant::all_of(good::pool())).await?,
        judge.try_all::<HostGrant>(grants).await?,
    ];
    for Verdicts { accepted, refused, .. } in &verdicts {
        ensure!(
            accepted + refused >= MIN_MUTANTS && *accepted > 0,
            "{accepted} mutants were accepted and {refused} refused; at least {MIN_MUTANTS} are needed, and one accepted"
        );
    }
    for rule in judge.rules.iter().filter(|rule| !rule.is_transition_rule) {
        let quoted = verdicts.iter().any(|verdict| verdict.quoted.contains(&rule.message));
        ensure!(quoted, "no mutant was refused with the message of the rule: {}", rule.message);
    }
    Ok(())
}

pub async fn the_largest_object_that_the_schema_allows_is_accepted(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let largest = good::largest_worker();
    let collection = Worker::collection(scenario.namespace.name());
    let accepted: Worker =
        create(&scenario.cluster.client(), &collection, largest.to_string()).await?;
    for (collection, object) in accepted.consequences(scenario.namespace.name())? {
        let _: Value = create(&scenario.cluster.client(), &collection, object.to_string()).await?;
    }
    Ok(())
}

pub async fn the_schema_makes_revisions_immutable(scenario: Scenario) -> anyhow::Result<()> {
    let client = scenario.cluster.client();
    let collection = WorkerRevision::collection(scenario.namespace.name());
    let stored: Value = client
        .request(http::Request::post(&collection).body(good::revisions()[0].to_string().into())?)
        .await?;
    let name = stored["metadata"]["name"].as_str().context("the stored object has no name")?;
    let uri = format!("{collection}/{name}?dryRun=All&fieldValidation=Strict");

    let mutants = Mutant::all_of(stored.clone()).into_iter().filter(Mutant::edits_only_spec);
    let (client, uri) = (&client, &uri);
    let responses = stream::iter(mutants).map(|mutant| async move {
        let response =
            client.request::<Value>(http::Request::put(uri).body(mutant.body().into())?).await;
        anyhow::Ok((mutant, response))
    });
    let mut responses = std::pin::pin!(responses.buffer_unordered(MAX_CONCURRENT));
    let mut immutable = 0;
    while let Some(response) = responses.next().await {
        match response? {
            (mutant, Ok(accepted)) => {
                ensure!(
                    accepted["spec"] == stored["spec"],
                    "the API server accepts a change of the stored object: {mutant}"
                )
            }
            (_, Err(kube::Error::Api(status))) if status.code < 500 => {
                let message = "spec: a WorkerRevision is immutable; change the Worker instead";
                immutable += usize::from(status.message.contains(message));
            }
            (mutant, Err(error)) => return Err(error).context(mutant.to_string()),
        }
    }
    ensure!(immutable > 0, "no change was refused because revisions are immutable");
    Ok(())
}

/// A CEL rule in a schema.
struct Rule {
    message: String,
    /// Whether the rule compares an object with its previous version. A new object cannot break
    /// such a rule.
    is_transition_rule: bool,
}

impl Rule {
    fn all(scenario: &Scenario) -> anyhow::Result<Vec<Self>> {
        let rules = scenario.cluster.rules()?.into_iter().map(|rule| {
            let message =
                rule.message.with_context(|| format!("the rule {} has no message", rule.rule))?;
            Ok(Self { message, is_transition_rule: rule.rule.contains("oldSelf") })
        });
        rules.collect()
    }

    fn is_quoted_in(&self, message: &str) -> bool {
        message.ends_with(&self.message)
    }
}

/// The API server's verdicts on the mutants of a kind.
#[derive(Default)]
struct Verdicts {
    accepted: usize,
    refused: usize,
    /// The messages of those rules that a refusal has quoted.
    quoted: BTreeSet<String>,
}

/// A correct verdict of the API server.
enum Judgment {
    Accepted,
    /// The messages of the rules that the refusal quotes.
    Refused(Vec<String>),
}

/// Submits mutants to the API server and judges its responses.
struct Judge {
    client: Client,
    namespace: String,
    rules: Vec<Rule>,
    /// Derived objects that the API server has accepted. Many objects lead to the same derived
    /// objects, which are tried once.
    approved: RefCell<HashSet<String>>,
}

impl Judge {
    fn new(scenario: &Scenario) -> anyhow::Result<Self> {
        let namespace = scenario.namespace.name().to_owned();
        let rules = Rule::all(scenario)?;
        Ok(Self {
            client: scenario.cluster.client(),
            namespace,
            rules,
            approved: RefCell::default(),
        })
    }

    /// Tries all mutants of a kind.
    ///
    /// # Errors
    /// Fails if the API server accepted an object that the operator cannot use, or did not say what
    /// is wrong with an object.
    async fn try_all<K: Kind>(&self, mutants: Vec<Mutant>) -> anyhow::Result<Verdicts> {
        let judgments =
            stream::iter(mutants).map(async |mutant| (self.try_one::<K>(&mutant).await, mutant));
        let mut judgments = std::pin::pin!(judgments.buffer_unordered(MAX_CONCURRENT));
        let (mut verdicts, mut misjudged) = (Verdicts::default(), Vec::new());
        while let Some((judgment, mutant)) = judgments.next().await {
            match judgment {
                Ok(Judgment::Accepted) => verdicts.accepted += 1,
                Ok(Judgment::Refused(quoted)) => {
                    verdicts.refused += 1;
                    verdicts.quoted.extend(quoted);
                }
                Err(error) => {
                    let (message, body) = (format!("{error:#}"), mutant.body());
                    misjudged
                        .push(format!("{mutant}\n  {message:.MAX_SHOWN$}\n  {body:.MAX_SHOWN$}"));
                }
            }
        }
        let count = misjudged.len();
        misjudged.truncate(MAX_LISTED);
        ensure!(
            count == 0,
            "{count} verdicts are wrong (seed {SEED:#x}), among them:\n{}",
            misjudged.join("\n")
        );
        Ok(verdicts)
    }

    async fn try_one<K: Kind>(&self, mutant: &Mutant) -> anyhow::Result<Judgment> {
        let stored: Value =
            match create(&self.client, &K::collection(&self.namespace), mutant.body()).await {
                Ok(stored) => stored,
                Err(kube::Error::Api(status)) => {
                    ensure!(
                        (400..500).contains(&status.code) && !mutant.is_good(),
                        "the API server failed, or refused the good object: {status:?}"
                    );
                    // Such a refusal does not say what is wrong with the object.
                    ensure!(
                        !status.message.contains("cost"),
                        "a rule exceeds the cost budget: {status:?}"
                    );
                    ensure!(
                        is_named(mutant, &status, &self.rules),
                        "the refusal names none of the changed fields: {status:?}"
                    );
                    return Ok(Judgment::Refused(quoted(&status, &self.rules)));
                }
                Err(error) => return Err(error.into()),
            };
        let object: K = serde_json::from_value(stored.clone())
            .context("the API server accepted the object, but Tenon's type cannot represent it")?;
        let roundtrip = serde_json::to_value(&object)?;
        ensure!(
            normalize(&roundtrip["spec"]) == normalize(&stored["spec"]),
            "Tenon's type changes the spec to {}",
            roundtrip["spec"]
        );
        let consequences = object
            .consequences(&self.namespace)
            .context("the API server accepted the object, but the operator refuses it")?;
        for (collection, object) in consequences {
            let object = object.to_string();
            if !self.approved.borrow().contains(&object) {
                let made = create::<Value>(&self.client, &collection, object.clone()).await;
                made.with_context(|| {
                    format!("the API server accepted the object, but not one that is derived from it, in {collection}")
                })?;
                self.approved.borrow_mut().insert(object);
            }
        }
        Ok(Judgment::Accepted)
    }
}

async fn create<K: serde::de::DeserializeOwned>(
    client: &Client,
    collection: &str,
    body: String,
) -> kube::Result<K> {
    let request = http::Request::post(format!("{collection}?dryRun=All&fieldValidation=Strict"));
    client.request(request.body(body.into()).map_err(kube::Error::HttpError)?).await
}

/// Returns the messages of the rules that a refusal quotes.
fn quoted(status: &Status, rules: &[Rule]) -> Vec<String> {
    let causes: Vec<_> = status.details.iter().flat_map(|details| &details.causes).collect();
    let quoted =
        rules.iter().filter(|rule| causes.iter().any(|cause| rule.is_quoted_in(&cause.message)));
    quoted.map(|rule| rule.message.clone()).collect()
}

/// Returns whether a refusal names a place where the mutant differs from the good object, or quotes
/// a rule at a place that contains such a place.
fn is_named(mutant: &Mutant, status: &Status, rules: &[Rule]) -> bool {
    let is_below = |field: &str, place: &str| {
        let below = field.strip_prefix(place);
        below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
    };
    let is_rule = |message: &str| rules.iter().any(|rule| rule.is_quoted_in(message));
    let causes: Vec<_> = status.details.iter().flat_map(|details| &details.causes).collect();
    mutant.places().map(|place| place.to_string()).any(|place| match causes.is_empty() {
        // The object could not be decoded. Go has its own name for the metadata.
        true => status.message.replace("ObjectMeta.", "metadata.").contains(&place),
        false => causes.iter().any(|cause| {
            // The name of a field of a subresource begins with a dot.
            let field = cause.field.trim_start_matches('.');
            let holds_place = cause.field == "<nil>" || is_below(&place, field);
            is_below(field, &place) || (holds_place && is_rule(&cause.message))
        }),
    })
}

/// Normalizes a value: an absent field, null and an empty list or object become the same value, as
/// do a number and its text.
fn normalize(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), normalize(value)));
            let present: serde_json::Map<_, _> =
                fields.filter(|(_, value)| !value.is_null()).collect();
            if present.is_empty() { Value::Null } else { present.into() }
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => items.iter().map(normalize).collect(),
        Value::Number(number) => json!(number.to_string()),
        other => other.clone(),
    }
}

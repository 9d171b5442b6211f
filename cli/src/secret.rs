//! `tenon secret put`: sets the value of a secret that a Worker binds.

use std::io::{IsTerminal as _, Read as _};

use anyhow::{anyhow, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tenon_crds::{SecretKeyRef, Worker};

use crate::cluster::ClusterArgs;

/// The owner of the keys that this command sets. Each call keeps the keys of earlier calls, which a
/// server-side apply would remove.
const FIELD_MANAGER: &str = "tenon-secret";

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Set the value of a secret to the content of standard input.
    Put(PutArgs),
}

#[derive(clap::Args)]
pub(crate) struct PutArgs {
    /// Name of the Worker.
    #[arg(value_name = "WORKER")]
    worker: String,

    /// Name of the secret in `env`, as in `spec.secrets`.
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Put(args) = command;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(put(args))
}

async fn put(args: &PutArgs) -> anyhow::Result<()> {
    let cluster = args.cluster.connect().await?;
    let worker = cluster.worker(&args.worker).await?;
    let SecretKeyRef { name, key } = binding(&worker, &args.name)
        .map_err(|problem| anyhow!("Worker {}/{}: {problem}", cluster.namespace, args.worker))?;
    let value = read_value()?;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
    let data = json!({ key: ByteString(value) });
    let unwritable =
        |error: kube::Error| anyhow!("cannot write Secret {}/{name}: {error}", cluster.namespace);
    if secrets.get_metadata_opt(name).await.map_err(unwritable)?.is_some() {
        let patch = Patch::Merge(json!({ "data": data }));
        secrets.patch(name, &params, &patch).await.map_err(unwritable)?;
    } else {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "data": data,
        });
        // The request fails if another client has created the Secret meanwhile.
        let post = kube::api::PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..Default::default()
        };
        secrets.create(&post, &serde_json::from_value(secret)?).await.map_err(unwritable)?;
    }
    println!("set key {key} of Secret {}/{name}", cluster.namespace);
    Ok(())
}

/// The error for a name that no secret of the Worker has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.secrets has no {0:?}; add it with its secretKeyRef{1}")]
struct NoBinding(String, String);

/// Returns the key that a Worker binds by this name.
fn binding<'a>(worker: &'a Worker, name: &str) -> Result<&'a SecretKeyRef, NoBinding> {
    let secrets = &worker.spec.secrets;
    let found = secrets.iter().find(|secret| secret.name == name);
    found.map(|secret| &secret.secret_key_ref).ok_or_else(|| {
        let names = secrets.iter().map(|secret| secret.name.as_str()).collect::<Vec<_>>();
        let choice = format!(", or choose one of {}", names.join(", "));
        NoBinding(name.to_owned(), if names.is_empty() { String::new() } else { choice })
    })
}

/// Reads the value from standard input, without a newline at its end.
fn read_value() -> anyhow::Result<Vec<u8>> {
    /// Maximum size of a Secret's data, in bytes.
    const MAX_BYTES: u64 = 1 << 20;
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprintln!("note: type the value, then Enter and Ctrl-D; it is shown as you type");
    }
    let mut value = Vec::new();
    stdin.by_ref().take(MAX_BYTES + 1).read_to_end(&mut value)?;
    if value.len() as u64 > MAX_BYTES {
        bail!("the value is longer than 1 MiB, which a Secret cannot hold");
    }
    if value.last() == Some(&b'\n') {
        value.pop();
    }
    if value.is_empty() {
        bail!("standard input is empty; pipe the value into the command");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisions::tests::worker;

    #[test]
    fn the_key_is_the_one_that_the_worker_binds() {
        let (mut worker, _) = worker(json!({}), &[]);
        let none = binding(&worker, "API_KEY").unwrap_err();
        assert!(none.to_string().ends_with("its secretKeyRef"), "{none}");
        let secrets = json!([{"name": "API_KEY", "secretKeyRef": {"name": "keys", "key": "api"}}]);
        worker.spec.secrets = serde_json::from_value(secrets).unwrap();
        let found = binding(&worker, "API_KEY").unwrap();
        assert_eq!((&*found.name, &*found.key), ("keys", "api"));
        let other = binding(&worker, "OTHER").unwrap_err();
        assert!(other.to_string().ends_with("choose one of API_KEY"), "{other}");
    }
}

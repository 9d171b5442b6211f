//! Accesses the cluster with the rights of an administrator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, ValidationRule,
};
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource as _, ResourceExt};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tenon_crds::RuntimePool;
use tokio::process::Command;

use crate::operator::ROUTER_SERVICE;
use crate::{Namespace, SOON, await_condition};

/// Path of the repository's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The Go module with the CRDs of the Gateway API.
const GATEWAY_API: &str = "sigs.k8s.io/gateway-api@v1.6.3";

/// The namespace in which the charts are installed.
pub const SYSTEM_NAMESPACE: &str = "tenon-system";

/// A client of the cluster, with the kubeconfig of an administrator.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// Creates a client of the cluster of `TENON_E2E_KUBECONFIG`, a variable that
    /// `deploy/cluster/run-in` and `e2e/install` set.
    ///
    /// # Errors
    /// Fails if the variable is not set, or the kubeconfig cannot be used.
    pub async fn from_env() -> anyhow::Result<Self> {
        let kubeconfig = std::env::var_os("TENON_E2E_KUBECONFIG")
            .context("TENON_E2E_KUBECONFIG is not set; `make test-e2e` starts a cluster and runs the suite in it")?;
        let kubeconfig = PathBuf::from(kubeconfig);
        let options = KubeConfigOptions::default();
        let config =
            Config::from_custom_kubeconfig(Kubeconfig::read_from(&kubeconfig)?, &options).await?;
        Ok(Self { client: Client::try_from(config)?, kubeconfig })
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Applies the chart's CRDs and waits until they are established.
    ///
    /// # Errors
    /// Fails if the chart cannot be read, or a CRD is refused or not established within [`SOON`].
    pub async fn install_crds(&self) -> anyhow::Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        for crd in crds()? {
            let name = crd.name_any();
            api.patch(&name, &PatchParams::apply("tenon-e2e").force(), &Patch::Apply(&crd)).await?;
            await_condition(&format!("CRD {name} to be established"), SOON, async || {
                let conditions = api
                    .get(&name)
                    .await?
                    .status
                    .and_then(|status| status.conditions)
                    .unwrap_or_default();
                ensure!(
                    conditions.iter().any(|c| c.type_ == "Established" && c.status == "True"),
                    "the conditions are {conditions:?}"
                );
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Applies a RuntimePool without Pods: its nodes are processes that the tests start.
    pub async fn apply_pool(&self, name: &str) -> anyhow::Result<()> {
        let api: Api<RuntimePool> = Api::all(self.client());
        let pool = json!({
            "apiVersion": RuntimePool::api_version(&()),
            "kind": RuntimePool::kind(&()),
            "metadata": {"name": name},
            "spec": {"replicas": 0},
        });
        api.patch(name, &PatchParams::apply("tenon-e2e"), &Patch::Apply(pool)).await?;
        Ok(())
    }

    /// Applies the public Service of the routers, which gives Gateways their ports and addresses.
    pub(crate) async fn apply_router_service(&self, namespace: &Namespace) -> anyhow::Result<()> {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": ROUTER_SERVICE},
            "spec": {"ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]},
        });
        let services = namespace.api::<Service>();
        let parameters = PatchParams::apply("tenon-e2e");
        services.patch(ROUTER_SERVICE, &parameters, &Patch::Apply(service)).await?;
        Ok(())
    }

    /// Applies the CRDs of the Gateway API from its Go module.
    ///
    /// # Errors
    /// Fails if the module cannot be downloaded, or a CRD is refused.
    pub async fn install_gateway_api(&self) -> anyhow::Result<()> {
        let mut go = Command::new("go");
        go.args(["mod", "download", "-json", GATEWAY_API]).kill_on_drop(true);
        let output = go.output().await.context("cannot run go; install Go")?;
        let module: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`go mod download {GATEWAY_API}` printed no JSON"))?;
        let folder = module["Dir"].as_str().with_context(|| format!("no module: {module}"))?;
        for kind in ["gatewayclasses", "gateways", "httproutes", "referencegrants"] {
            let name = format!("{kind}.gateway.networking.k8s.io");
            let file =
                format!("{folder}/config/crd/standard/gateway.networking.k8s.io_{kind}.yaml");
            self.kubectl(&["apply", "--server-side", "--force-conflicts", "--filename", &file])
                .await?;
            let crd = format!("crd/{name}");
            self.kubectl(&["wait", "--for", "condition=Established", &crd]).await?;
        }
        Ok(())
    }

    /// Returns the CEL rules of the CRDs.
    ///
    /// # Errors
    /// Fails if the chart cannot be read.
    pub fn rules(&self) -> anyhow::Result<Vec<ValidationRule>> {
        let mut all = Vec::new();
        for crd in crds()? {
            collect_rules(&serde_json::to_value(&crd)?, &mut all)?;
        }
        Ok(all)
    }

    /// Runs kubectl and returns its standard output.
    ///
    /// # Errors
    /// Fails if kubectl fails. The error contains kubectl's error output.
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("kubectl");
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .current_dir(ROOT)
            .kill_on_drop(true);
        let output = command
            .output()
            .await
            .context("cannot run kubectl; run the suite with deploy/cluster/run-in")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`kubectl {}` failed: {stderr}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the address of the routers' Service of the installed Tenon. It is an IP address, so
    /// that the tests do not depend on DNS, whose Pods may be drained too.
    ///
    /// # Errors
    /// Fails if Tenon is not installed.
    pub async fn routers(&self) -> anyhow::Result<SocketAddr> {
        let api: Api<Service> = Api::namespaced(self.client(), SYSTEM_NAMESPACE);
        let spec =
            api.get("tenon-router").await?.spec.context("the routers' Service has no spec")?;
        let address = spec.cluster_ip.context("the routers' Service has no address")?.parse()?;
        let port = spec.ports.iter().flatten().find(|port| port.name.as_deref() == Some("http"));
        let port = port.context("the routers' Service has no port http")?.port;
        Ok(SocketAddr::new(address, port.try_into()?))
    }

    /// Stops the API server without warning.
    pub async fn stop_api_server(&self) -> anyhow::Result<()> {
        api_server("stop").await
    }

    /// Starts the API server and waits until it responds.
    pub async fn start_api_server(&self) -> anyhow::Result<()> {
        api_server("start").await
    }
}

/// Reads the chart's CRDs.
fn crds() -> anyhow::Result<Vec<CustomResourceDefinition>> {
    let files = std::fs::read_dir(Path::new(ROOT).join("charts/tenon-crds/templates"))?;
    let paths: Vec<_> = files.map(|file| Ok(file?.path())).collect::<std::io::Result<_>>()?;
    let read = |path: &PathBuf| {
        serde_yaml::from_slice(&std::fs::read(path)?)
            .with_context(|| format!("{} is not a CRD", path.display()))
    };
    paths
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(read)
        .collect()
}

/// Collects the rules of a schema and of all schemas below it.
fn collect_rules(schema: &Value, into: &mut Vec<ValidationRule>) -> anyhow::Result<()> {
    if let Some(rules) = schema.get("x-kubernetes-validations") {
        into.extend(Vec::<ValidationRule>::deserialize(rules)?);
    }
    match schema {
        Value::Object(fields) => fields.values().try_for_each(|schema| collect_rules(schema, into)),
        Value::Array(items) => items.iter().try_for_each(|schema| collect_rules(schema, into)),
        _ => Ok(()),
    }
}

async fn api_server(verb: &str) -> anyhow::Result<()> {
    let commands = std::env::var_os("TENON_E2E_CLUSTER").context(
        "TENON_E2E_CLUSTER is not set; only the API server of deploy/cluster can be stopped; run `make test-e2e`",
    )?;
    let status = Command::new(Path::new(&commands).join("apiserver")).arg(verb).status().await?;
    ensure!(status.success(), "`deploy/cluster/apiserver {verb}` ended with {status}");
    Ok(())
}

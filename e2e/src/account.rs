//! The operator's ServiceAccount, with exactly the rights that the chart grants, so that tests fail
//! if the chart grants too few.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use k8s_openapi::api::authentication::v1::{
    TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace as NamespaceObject, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::PostParams;
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use crate::{Cluster, Namespace};

/// The name of the account and of its Lease, as in the chart.
const NAME: &str = "tenon-operator";

/// The rights that the chart grants, as its templates render them. The chart's tests keep this file
/// up to date.
const RIGHTS: &str = include_str!("../../charts/tests/testdata/rbac.txt");

/// Lifetime of the token, in seconds: longer than any run of the suite.
const TOKEN_SECONDS: i64 = 12 * 3600;

/// A set of verbs on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// Whether the right applies in all namespaces. Otherwise it applies only in the operator's
    /// namespace.
    pub is_cluster_wide: bool,
    /// The resource, such as `workers` or `workers/status`.
    pub resource: String,
    pub group: String,
    /// Names of the objects that the right is limited to; empty if the right covers all objects.
    pub names: Vec<String>,
    pub verbs: Vec<String>,
}

/// Returns the operator's rights with the chart's default values.
///
/// # Errors
/// Fails if `rbac.txt` does not have the expected form.
pub fn rights() -> anyhow::Result<Vec<Right>> {
    let defaults = RIGHTS
        .split("# With the values ")
        .nth(1)
        .context("rbac.txt has no section for the default values")?;
    let all: Vec<_> = defaults
        .lines()
        .skip(1)
        .filter_map(|line| Right::parse(line).transpose())
        .collect::<Result<_, _>>()?;
    ensure!(all.len() > 10, "rbac.txt has only {} rights: {all:?}", all.len());
    Ok(all)
}

impl Right {
    /// Parses a line such as `Role/tenon-operator: leases.coordination.k8s.io [tenon-operator]:
    /// [get update]`. Returns `None` for the right of another role.
    fn parse(line: &str) -> anyhow::Result<Option<Self>> {
        let (role, right) =
            line.split_once(": ").with_context(|| format!("{line:?} names no role"))?;
        let (what, verbs) =
            right.rsplit_once(": ").with_context(|| format!("{line:?} has no verbs"))?;
        let (what, names) = what.split_once(' ').unwrap_or((what, "[]"));
        let (resource, group) =
            what.split_once('.').with_context(|| format!("{line:?} has no resource"))?;
        let (kind, name) =
            role.split_once('/').with_context(|| format!("{role:?} is not KIND/NAME"))?;
        let right = Self {
            is_cluster_wide: kind == "ClusterRole",
            resource: resource.to_owned(),
            group: group.to_owned(),
            names: words(names),
            verbs: words(verbs),
        };
        Ok((name == NAME).then_some(right))
    }

    /// Returns whether the right covers the Secrets of certificates. The operator uses such a right
    /// only if it issues certificates itself.
    pub fn covers_certificates(&self) -> bool {
        self.resource == "secrets" && self.verbs.iter().any(|verb| verb == "create")
    }

    fn rule(&self) -> Value {
        let (groups, resources) = ([&self.group], [&self.resource]);
        json!({"apiGroups": groups, "resources": resources, "resourceNames": self.names, "verbs": self.verbs})
    }
}

fn words(list: &str) -> Vec<String> {
    list.trim_matches(['[', ']']).split_whitespace().map(str::to_owned).collect()
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.is_cluster_wide { "everywhere" } else { "in its namespace" };
        write!(f, "{} {}.{} {}", self.verbs.join(", "), self.resource, self.group, place)
    }
}

/// An existing account, and a kubeconfig with a credential of the account.
#[derive(Debug)]
pub struct Account {
    user: String,
    kubeconfig: PathBuf,
    credential: String,
}

impl Account {
    /// Creates the account in `namespace`, with the Lease that the chart creates.
    ///
    /// # Arguments
    /// * `folder` - the folder for the account's kubeconfig.
    ///
    /// # Errors
    /// Fails if the API server rejects a request.
    pub async fn create(
        cluster: &Cluster,
        namespace: &Namespace,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        grant(cluster, namespace).await?;
        let lease: Lease = serde_json::from_value(json!({"metadata": {"name": NAME}}))?;
        namespace.api::<Lease>().create(&PostParams::default(), &lease).await?;

        let accounts = namespace.api::<ServiceAccount>();
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": NAME}}))?;
        accounts.create(&PostParams::default(), &account).await?;
        Self::issue(cluster, namespace, folder, namespace.name()).await
    }

    /// Issues another credential of an account that [`create`](Self::create) created. In the audit
    /// log, requests of two processes can be told apart by their credentials.
    ///
    /// # Arguments
    /// * `name` - the name of the kubeconfig, without its extension. It must be unique in `folder`,
    ///   because the suite may create accounts in several namespaces.
    ///
    /// # Errors
    /// Fails if the API server rejects a request.
    pub async fn issue(
        cluster: &Cluster,
        namespace: &Namespace,
        folder: &Path,
        name: &str,
    ) -> anyhow::Result<Self> {
        let accounts = namespace.api::<ServiceAccount>();
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let issued = accounts.create_token_request(NAME, &PostParams::default(), &request).await?;
        let token = issued
            .status
            .and_then(|status| status.token)
            .context("the API server issued no token")?;

        let mut config: serde_yaml::Value =
            serde_yaml::from_slice(&std::fs::read(cluster.kubeconfig())?)?;
        config["users"][0]["user"] = serde_yaml::to_value(json!({"token": token}))?;
        let kubeconfig = folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, serde_yaml::to_string(&config)?)?;
        let user = format!("system:serviceaccount:{}:{NAME}", namespace.name());
        Ok(Self { user, kubeconfig, credential: credential(cluster, token).await? })
    }

    /// Returns the id of the credential, as the audit log names it ([`CREDENTIAL`]).
    pub fn credential(&self) -> &str {
        &self.credential
    }

    /// Returns the account's user name at the API server.
    pub fn user(&self) -> &str {
        &self.user
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// The key of a credential's id in the extra fields of a user.
pub const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Returns the credential id that the API server assigns to `token`.
async fn credential(cluster: &Cluster, token: String) -> anyhow::Result<String> {
    let spec = TokenReviewSpec { token, ..TokenReviewSpec::default() };
    let review = TokenReview { spec, ..TokenReview::default() };
    let reviews: Api<TokenReview> = Api::all(cluster.client());
    let reviewed = reviews.create(&PostParams::default(), &review).await?;
    let extra = reviewed.status.and_then(|status| status.user?.extra).unwrap_or_default();
    let ids = extra.get(CREDENTIAL).context("the API server assigns no credential ids")?;
    ids.first().cloned().context("the credential has no id")
}

/// Grants the account the chart's rights. The objects that this function creates are deleted with
/// the namespace.
async fn grant(cluster: &Cluster, namespace: &Namespace) -> anyhow::Result<()> {
    let (client, all) = (cluster.client(), rights()?);
    let rules = |is_cluster_wide| -> Vec<_> {
        all.iter()
            .filter(|right| right.is_cluster_wide == is_cluster_wide)
            .map(Right::rule)
            .collect()
    };
    let owner =
        Api::<NamespaceObject>::all(client.clone()).get(namespace.name()).await?.owner_ref(&());
    // Each run of the suite has its own ClusterRole.
    let name = format!("{NAME}-{}", namespace.name());
    let cluster_wide =
        json!({"name": name, "ownerReferences": owner.into_iter().collect::<Vec<_>>()});
    let namespaced = json!({"name": NAME});
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": namespace.name()}]);
    let role_ref = |kind, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});

    let params = PostParams::default();
    let role: ClusterRole =
        serde_json::from_value(json!({"metadata": cluster_wide, "rules": rules(true)}))?;
    Api::all(client.clone()).create(&params, &role).await?;
    let binding = json!({"metadata": cluster_wide, "subjects": subjects, "roleRef": role_ref("ClusterRole", &role.name_any())});
    Api::<ClusterRoleBinding>::all(client)
        .create(&params, &serde_json::from_value(binding)?)
        .await?;
    let role: Role =
        serde_json::from_value(json!({"metadata": namespaced, "rules": rules(false)}))?;
    namespace.api().create(&params, &role).await?;
    let binding =
        json!({"metadata": namespaced, "subjects": subjects, "roleRef": role_ref("Role", NAME)});
    namespace.api::<RoleBinding>().create(&params, &serde_json::from_value(binding)?).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_parsed_as_a_right_of_a_role() {
        let right = Right::parse(
            "Role/tenon-operator: leases.coordination.k8s.io [tenon-operator]: [get update]",
        );
        let expected = Right {
            is_cluster_wide: false,
            resource: "leases".to_owned(),
            group: "coordination.k8s.io".to_owned(),
            names: vec!["tenon-operator".to_owned()],
            verbs: vec!["get".to_owned(), "update".to_owned()],
        };
        assert_eq!(right.unwrap(), Some(expected));
        let core =
            Right::parse("ClusterRole/tenon-operator: secrets.: [list watch]").unwrap().unwrap();
        assert_eq!((core.group.as_str(), core.is_cluster_wide, core.names.len()), ("", true, 0));
        assert_eq!(
            Right::parse("ClusterRole/tenon-view: workers.tenon.dev: [get list watch]").unwrap(),
            None
        );
        assert!(Right::parse("something else").is_err());
    }

    #[test]
    fn the_charts_table_has_the_operators_rights() {
        let all = rights().unwrap();
        assert!(
            all.iter().any(|right| right.resource == "workers/status" && right.verbs == ["patch"]),
            "{all:?}"
        );
    }
}

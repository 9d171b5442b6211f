//! The arguments of an operator, and their validation.

mod artifacts;
mod pods;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use http::Uri;
use jiff::SignedDuration;
use tenon_certificates::plan::Terms;
use tenon_certificates::subject::{POOL_SECRET, role_secret};
use tenon_lifecycle::log::LogArgs;
use tenon_lifecycle::tls::{self, TlsArgs, WrongScheme};

use crate::pool::plan::{Families, Settings};
pub use artifacts::{ArtifactArgs, ArtifactArgsError, ArtifactConfig};
pub use pods::PodArgs;

/// The arguments in the command line and the environment. The cluster comes from a kubeconfig, or
/// from the Pod's ServiceAccount.
#[derive(ClapArgs, Clone, Debug)]
pub struct OperatorArgs {
    /// Address on which the catalog serves routers and nodes.
    #[arg(long, env = "TENON_CATALOG_LISTEN", default_value = "0.0.0.0:7070")]
    pub catalog_listen: SocketAddr,
    /// Namespace of the Lease and of the objects that the operator creates for RuntimePools.
    #[arg(long, env = "TENON_NAMESPACE", default_value = "tenon-system")]
    pub namespace: String,
    /// Domain below which Workers without routes get their hosts.
    #[arg(long, env = "TENON_DOMAIN", default_value = "tenon.localhost")]
    pub domain: String,
    /// Serve hosts outside of the domain only if a HostGrant gives them to the Worker's namespace.
    #[arg(long, env = "TENON_REQUIRE_HOST_GRANTS")]
    pub require_host_grants: bool,
    /// Image of the nodes of RuntimePools.
    #[arg(
        long,
        env = "TENON_NODE_IMAGE",
        default_value = concat!("ghcr.io/tenon-dev/tenon-runtime-node:", env!("CARGO_PKG_VERSION"))
    )]
    pub node_image: String,
    /// Pull policy of the nodes' image: Always, IfNotPresent or Never. Defaults to the policy that
    /// Kubernetes chooses for the image.
    #[arg(
        long,
        env = "TENON_NODE_IMAGE_PULL_POLICY",
        value_parser = ["Always", "IfNotPresent", "Never"]
    )]
    pub node_image_pull_policy: Option<String>,
    /// Names of the Secrets for pulling the nodes' image.
    #[arg(long, env = "TENON_NODE_IMAGE_PULL_SECRET", value_delimiter = ',', value_name = "NAME")]
    pub node_image_pull_secret: Vec<String>,
    /// ServiceAccount of the nodes. Its token is not mounted.
    #[arg(long, env = "TENON_NODE_SERVICE_ACCOUNT", value_name = "NAME")]
    pub node_service_account: Option<String>,
    /// PriorityClass of the nodes.
    #[arg(long, env = "TENON_NODE_PRIORITY_CLASS", value_name = "NAME")]
    pub node_priority_class: Option<String>,
    /// Secret with the nodes' certificate, under the file names of --tls-dir. In the name, {pool}
    /// stands for the name of the RuntimePool. Defaults to tenon-pool-{pool}-tls with
    /// --self-signed, and to tenon-runtime-node-tls with --tls-dir.
    #[arg(long, env = "TENON_NODE_TLS_SECRET", value_name = "NAME")]
    pub node_tls_secret: Option<String>,
    /// Allow RuntimePools to have fronts (spec.front). The nodes of such pools get the rights of
    /// routers: to watch all Workers, to fetch static files, and to report figures of rollouts. All
    /// nodes then accept requests from other nodes.
    #[arg(long, env = "TENON_ADMIT_FRONTS")]
    pub admit_fronts: bool,
    /// URL at which nodes reach the catalog. Defaults to port 7070 of tenon-operator, with https://
    /// if processes use TLS.
    #[arg(long, env = "TENON_CATALOG_URL")]
    pub catalog_url: Option<Uri>,
    /// URL at which nodes reach all operators, including those that are not ready, for cold starts
    /// while no operator is ready. Without it, nodes use only --catalog-url.
    #[arg(long, env = "TENON_STARTING_CATALOG_URL")]
    pub starting_catalog_url: Option<Uri>,
    /// URL of the routers' internal listener, for scheduled calls and for nodes' calls between
    /// Workers. Defaults to port 8081 of tenon-router, with https:// if processes use TLS.
    #[arg(long, env = "TENON_ROUTER_URL")]
    pub router_url: Option<Uri>,
    /// Public Service of the routers, in the operator's namespace. If set, HTTPRoutes of the
    /// Gateway API are served once their kinds exist: at the Service's ports http and https, for
    /// Gateways of classes with the controller tenon.dev/router.
    #[arg(long, env = "TENON_GATEWAY_SERVICE", value_name = "NAME")]
    pub gateway_service: Option<String>,
    /// Name of this replica, unique among the replicas: the Pod's name.
    #[arg(long, env = "TENON_IDENTITY", default_value_t = hostname())]
    pub identity: String,
    #[command(flatten)]
    pub pods: PodArgs,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub certificates: CertificateArgs,
    #[command(flatten)]
    pub artifacts: ArtifactArgs,
}

/// Arguments for certificates that the operator issues.
#[derive(ClapArgs, Clone, Debug)]
pub struct CertificateArgs {
    /// Issue and renew the certificates of all processes, in the Secrets tenon-ca,
    /// tenon-operator-tls, tenon-router-tls, tenon-pool-{pool}-tls for each RuntimePool, and
    /// tenon-runtime-node-tls for nodes of earlier versions. The operator reads its own certificate
    /// from its Secret, and not from --tls-dir.
    #[arg(long, env = "TENON_SELF_SIGNED")]
    pub self_signed: bool,
    /// The operator's own Deployment. It owns the Secrets, except those of RuntimePools, so they
    /// are deleted with the Deployment. By default, these Secrets have no owner.
    #[arg(long, env = "TENON_DEPLOYMENT", value_name = "NAME")]
    pub deployment: Option<String>,
    /// Lifetime of an authority. It is replaced after two thirds of its lifetime.
    #[arg(
        long,
        env = "TENON_AUTHORITY_LIFETIME",
        default_value = "3650d",
        value_parser = parse_duration
    )]
    pub authority_lifetime: SignedDuration,
    /// Lifetime of a certificate. It is renewed after two thirds of its lifetime.
    #[arg(
        long,
        env = "TENON_CERTIFICATE_LIFETIME",
        default_value = "90d",
        value_parser = parse_duration
    )]
    pub certificate_lifetime: SignedDuration,
    /// Time after which every process has read a changed Secret. The kubelet updates volumes within
    /// a minute or two.
    #[arg(
        long,
        env = "TENON_CERTIFICATE_PROPAGATION",
        default_value = "10m",
        value_parser = parse_duration
    )]
    pub certificate_propagation: SignedDuration,
}

/// An invalid argument.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{flag} {source}")]
    Scheme { flag: &'static str, source: WrongScheme },
    #[error(transparent)]
    Artifacts(#[from] ArtifactArgsError),
    #[error(
        "--node-tls-secret needs TLS; set --tls-dir or --self-signed, or remove --node-tls-secret"
    )]
    NoTls,
    #[error(
        "{flag} {lifetime:#} is too short for a renewal; set it to at least nine times \
         --certificate-propagation {propagation:#}"
    )]
    Lifetime { flag: &'static str, lifetime: SignedDuration, propagation: SignedDuration },
    #[error("{flag} {lifetime:#} is longer than 100 years; correct the unit of the value")]
    TooLong { flag: &'static str, lifetime: SignedDuration },
}

/// The validated configuration of an operator.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of this replica, unique among the replicas.
    pub identity: String,
    /// Address on which the catalog serves routers and nodes. Port 0 selects any free port.
    pub catalog_listen: SocketAddr,
    /// Namespace of the Lease and of the objects that the operator creates.
    pub namespace: String,
    /// Domain below which Workers without routes get their hosts.
    pub domain: String,
    /// Whether Workers may claim a host outside of the domain only if a HostGrant allows it.
    pub requires_grants: bool,
    /// The origin of the operator's own certificate.
    pub tls: TlsSource,
    /// URL of the routers' internal listener.
    pub router: Uri,
    /// The public Service of the routers, if HTTPRoutes are served.
    pub gateway_service: Option<String>,
    /// Settings that all pools share.
    pub nodes: Settings,
    pub artifacts: ArtifactConfig,
    /// The operator's executable, which compiles Workers in processes of its own.
    pub compiler: PathBuf,
}

/// The origin of the operator's own certificate.
#[derive(Clone, Debug)]
pub enum TlsSource {
    /// Processes speak plain HTTP/2.
    None,
    /// The files of `--tls-dir`.
    Directory(PathBuf),
    /// The operator issues the certificates of all processes.
    SelfSigned {
        terms: Terms,
        /// The operator's own Deployment, which owns the Secrets, if it is configured.
        deployment: Option<String>,
    },
}

impl OperatorArgs {
    /// Validates the arguments.
    ///
    /// # Arguments
    /// * `log` - this process's logging arguments, which nodes get as well.
    ///
    /// # Errors
    /// Fails if an argument is invalid, or if two arguments contradict each other.
    pub fn check(self, log: &LogArgs) -> Result<Config, ConfigError> {
        let uses_tls = self.tls.tls_dir.is_some() || self.certificates.self_signed;
        let url = |flag, url: &Option<Uri>, authority: &str| {
            let default = || {
                Uri::builder()
                    .scheme(tls::scheme(uses_tls))
                    .authority(authority)
                    .path_and_query("/")
                    .build()
            };
            let url =
                url.clone().unwrap_or_else(|| default().expect("the parts do not form a URL"));
            tls::check_scheme(&url, uses_tls)
                .map_err(|source| ConfigError::Scheme { flag, source })
                .map(|()| url)
        };
        let catalog = url("--catalog-url", &self.catalog_url, "tenon-operator:7070")?;
        let starting = self.starting_catalog_url.as_ref().map(|starting| {
            let flag = "--starting-catalog-url";
            let checked = tls::check_scheme(starting, uses_tls);
            checked.map_err(|source| ConfigError::Scheme { flag, source }).map(|()| text(starting))
        });
        let router = url("--router-url", &self.router_url, "tenon-router:8081")?;
        let tls_secret = match (self.node_tls_secret, uses_tls) {
            (Some(_), false) => return Err(ConfigError::NoTls),
            (Some(name), true) => Some(name),
            (None, true) if self.certificates.self_signed => Some(POOL_SECRET.to_owned()),
            (None, true) => Some(role_secret(tls::Role::RuntimeNode).to_owned()),
            (None, false) => None,
        };
        let terms = self.certificates.terms()?;
        let tls = match self.tls.tls_dir {
            _ if self.certificates.self_signed => {
                TlsSource::SelfSigned { terms, deployment: self.certificates.deployment }
            }
            Some(directory) => TlsSource::Directory(directory),
            None => TlsSource::None,
        };
        let nodes = Settings {
            image: self.node_image,
            image_pull_policy: self.node_image_pull_policy,
            image_pull_secrets: self.node_image_pull_secret,
            service_account: self.node_service_account,
            priority_class: self.node_priority_class,
            catalog: text(&catalog),
            starting_catalog: starting.transpose()?,
            router: text(&router),
            tls_secret,
            admit_fronts: self.admit_fronts,
            pod_labels: self.pods.node_label.into_iter().collect(),
            pod_annotations: self.pods.node_annotation.into_iter().collect(),
            architectures: self.pods.node_architecture,
            user_assigned: self.pods.node_user_assigned,
            listen_ip: self.pods.node_listen_ip,
            front_families: Families {
                policy: self.pods.front_ip_family_policy,
                families: self.pods.front_ip_families,
            },
            log: log.arguments(),
        };
        Ok(Config {
            identity: self.identity,
            catalog_listen: self.catalog_listen,
            namespace: self.namespace,
            domain: self.domain,
            requires_grants: self.require_host_grants,
            tls,
            router,
            gateway_service: self.gateway_service,
            nodes,
            artifacts: self.artifacts.check()?,
            // This is the running program, even if its file has been replaced since it started.
            compiler: "/proc/self/exe".into(),
        })
    }
}

impl CertificateArgs {
    fn terms(&self) -> Result<Terms, ConfigError> {
        let propagation = self.certificate_propagation;
        let lifetimes = [
            ("--authority-lifetime", self.authority_lifetime),
            ("--certificate-lifetime", self.certificate_lifetime),
        ];
        for (flag, lifetime) in lifetimes {
            if lifetime > MAX_LIFETIME {
                return Err(ConfigError::TooLong { flag, lifetime });
            }
            if lifetime / 3 < propagation.saturating_mul(3) {
                return Err(ConfigError::Lifetime { flag, lifetime, propagation });
            }
        }
        Ok(Terms {
            authority: self.authority_lifetime,
            certificate: self.certificate_lifetime,
            propagation,
        })
    }
}

/// Maximum lifetime of a certificate. A longer value is probably meant in another unit.
const MAX_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 36_525);

/// Returns the URL without the trailing slash that `Uri` adds to an authority.
fn text(url: &Uri) -> String {
    url.to_string().trim_end_matches('/').to_owned()
}

/// Parses a number followed by a unit.
fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let invalid = || {
        format!("{text:?} is not a duration; use a number and a unit, such as 90d, 36h, 10m or 30s")
    };
    let unit = text.chars().next_back().ok_or_else(invalid)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return Err(invalid()),
    };
    let number: u32 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| invalid())?;
    i64::from(number).checked_mul(seconds).map(SignedDuration::from_secs).ok_or_else(invalid)
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "operator".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: OperatorArgs,
        #[command(flatten)]
        log: LogArgs,
    }

    fn config(line: &[&str]) -> Result<Config, ConfigError> {
        let Command { args, log } =
            Command::try_parse_from(["operator"].iter().chain(line)).unwrap();
        args.check(&log)
    }

    #[test]
    fn urls_use_https_if_processes_have_certificates() {
        let plain = config(&[]).unwrap();
        assert_eq!(plain.nodes.catalog, "http://tenon-operator:7070");
        assert_eq!(
            (plain.router.to_string().as_str(), plain.nodes.tls_secret),
            ("http://tenon-router:8081/", None)
        );
        for (line, secret) in [
            (&["--self-signed"][..], "tenon-pool-{pool}-tls"),
            (&["--tls-dir", "/etc/tenon/tls"], "tenon-runtime-node-tls"),
        ] {
            let tls = config(line).unwrap();
            assert_eq!(tls.nodes.catalog, "https://tenon-operator:7070");
            assert_eq!(tls.nodes.router, "https://tenon-router:8081");
            assert_eq!(tls.nodes.tls_secret.as_deref(), Some(secret));
        }
        let named = config(&["--self-signed", "--node-tls-secret", "mine"]).unwrap();
        assert_eq!(named.nodes.tls_secret.as_deref(), Some("mine"));
    }

    #[test]
    fn the_operators_certificate_is_self_signed_or_from_files() {
        assert!(matches!(config(&[]).unwrap().tls, TlsSource::None));
        let from_files = config(&["--tls-dir", "/etc/tenon/tls"]).unwrap().tls;
        let TlsSource::Directory(directory) = from_files else { panic!("{from_files:?}") };
        assert_eq!(directory, Path::new("/etc/tenon/tls"));
        let both =
            config(&["--self-signed", "--tls-dir", "/etc/tenon/tls", "--deployment", "operator"])
                .unwrap()
                .tls;
        let TlsSource::SelfSigned { deployment, .. } = both else { panic!("{both:?}") };
        assert_eq!(deployment.as_deref(), Some("operator"));
    }

    #[test]
    fn nodes_log_as_the_operator_does() {
        let Config { nodes, .. } =
            config(&["--log-level", "warn,tenon=debug", "--log-format", "pretty"]).unwrap();
        assert_eq!(nodes.log, ["--log-format=pretty", "--log-level=warn,tenon=debug"]);
    }

    #[test]
    fn the_error_names_the_invalid_argument() {
        let error_of = |line: &[&str]| config(line).unwrap_err().to_string();
        assert!(
            error_of(&["--self-signed", "--catalog-url", "http://operator:7070"])
                .starts_with("--catalog-url http://operator")
        );
        assert!(
            error_of(&["--router-url", "https://router:8081"])
                .starts_with("--router-url https://router")
        );
        assert!(
            error_of(&["--node-tls-secret", "mine"]).starts_with("--node-tls-secret needs TLS")
        );
        let short = error_of(&["--certificate-lifetime", "1h"]);
        assert!(short.starts_with("--certificate-lifetime 1h is too short"), "{short}");
        assert!(error_of(&["--authority-lifetime", "99999d"]).starts_with("--authority-lifetime"));
        for bad in ["", "d", "90", "90y", "-1d", "9é"] {
            let line = ["operator".to_owned(), format!("--certificate-lifetime={bad}")];
            assert!(Command::try_parse_from(line).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_duration_has_a_unit() {
        let seconds = |text| parse_duration(text).map(|time| time.as_secs());
        assert_eq!(
            ["30s", "10m", "36h", "90d"].map(seconds),
            [Ok(30), Ok(600), Ok(129_600), Ok(7_776_000)]
        );
    }
}

//! Plans the Pods of a RuntimePool: one container, which runs a node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, ConfigMapProjection, Container, ContainerPort, EmptyDirVolumeSource,
    EnvVar, EnvVarSource, HTTPGetAction, KeyToPath, Lifecycle, LifecycleHandler,
    LocalObjectReference, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    ObjectFieldSelector, PodSecurityContext, PodSpec, Probe, ProjectedVolumeSource,
    ResourceRequirements, SeccompProfile, SecretKeySelector, SecretProjection, SecretVolumeSource,
    SecurityContext, SleepAction, TopologySpreadConstraint, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tenon_crds::{
    PoolEgress, ProxyResolver, RuntimePool, Toleration, TopologySpread, WhenUnsatisfiable,
};

use super::{FIRST_SHARD_PORT, PROFILE_PORT, Settings, front, ports};
use crate::pool::references::{self, CREDENTIALS, Kind};

const ADMIN_PORT: u16 = 9090;
/// Name of the admin port.
const ADMIN: &str = "admin";

/// Time, in seconds, for which a Pod keeps serving after its termination has begun, so that every
/// router learns that the Pod is draining.
pub(super) const PRE_STOP_SECONDS: i64 = 5;
/// Time, in seconds, that a node has to exit after the pre-stop hook and its pool's drain grace.
const EXIT_SECONDS: i64 = 5;

/// User and group of a node's processes, which the image defines.
const USER: i64 = 65532;

/// Mount path of a Pod's volume for compiled code.
const CACHE_MOUNT: &str = "/var/cache/tenon";
/// The node's private directory in the volume for compiled code.
const CODE_CACHE_DIR: &str = "/var/cache/tenon/code";
/// Size limit of the volume for compiled code. A Pod that exceeds it is evicted. A node keeps up to
/// 1 GiB of compiled code and 512 MiB of revisions, and the rest is for the rounding of files to
/// blocks and for files being written.
pub(super) const CACHE_SIZE_LIMIT: &str = "2Gi";

/// Mount path of the volume with the certificate that a Pod presents to other processes of the
/// platform.
const TLS_MOUNT: &str = "/etc/tenon/tls";

/// Mount path of the volume with the authorities that the connections of Workers trust.
const AUTHORITIES_MOUNT: &str = "/etc/tenon/authorities";

/// Plans a pool's Pods.
///
/// # Arguments
/// * `selector` - the labels that select the Pods.
pub(super) fn pod(
    pool: &RuntimePool,
    settings: &Settings,
    selector: &BTreeMap<String, String>,
) -> PodSpec {
    let spec = &pool.spec;
    let certificate = super::certificate(pool, settings);
    let volumes = [cache()].into_iter().chain(certificate.as_deref().map(certificate_volume));
    let front = front::front(pool, settings);
    let of_front = front.into_iter().flat_map(|front| front::volumes(front, spec.shards_per_node));
    let (volumes, mounts): (Vec<_>, Vec<_>) =
        volumes.chain(authorities(&spec.egress)).chain(of_front).unzip();
    let pull_secrets =
        settings.image_pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() });
    let pull_secrets: Vec<_> = pull_secrets.collect();
    let user = (!settings.user_assigned).then_some(USER);
    PodSpec {
        // Nodes hold no Kubernetes credentials.
        automount_service_account_token: Some(false),
        service_account_name: settings.service_account.clone(),
        image_pull_secrets: (!pull_secrets.is_empty()).then_some(pull_secrets),
        priority_class_name: settings.priority_class.clone(),
        enable_service_links: Some(false),
        runtime_class_name: spec.runtime_class_name.clone(),
        node_selector: Some(spec.node_selector.clone()),
        affinity: architecture(&settings.architectures),
        tolerations: Some(spec.tolerations.iter().map(Toleration::for_pod).collect()),
        topology_spread_constraints: Some(spread(pool, selector)),
        termination_grace_period_seconds: Some(
            PRE_STOP_SECONDS + i64::from(spec.drain_grace_seconds) + EXIT_SECONDS,
        ),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: user,
            run_as_group: user,
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(pool, settings, mounts)],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

fn container(pool: &RuntimePool, settings: &Settings, mounts: Vec<VolumeMount>) -> Container {
    let (spec, front) = (&pool.spec, front::front(pool, settings));
    let listen_ip = settings.listen_ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let catalogs = [format!("--catalog={}", settings.catalog)].into_iter();
    let starting = settings.starting_catalog.iter();
    let catalogs = catalogs.chain(starting.map(|url| format!("--starting-catalog={url}")));
    let args = [
        format!("--router={}", settings.router),
        format!("--shards={}", spec.shards_per_node),
        format!("--lanes={}", spec.lanes),
        format!("--shard-port={FIRST_SHARD_PORT}"),
        format!("--profile-port={PROFILE_PORT}"),
        format!("--isolates-per-shard={}", spec.isolates_per_shard),
        format!("--drain-grace={}s", spec.drain_grace_seconds),
        format!("--code-cache-dir={CODE_CACHE_DIR}"),
    ]
    .into_iter();
    let args = catalogs
        .chain(args)
        .chain(settings.tls_secret.as_ref().map(|_| format!("--tls-dir={TLS_MOUNT}")))
        .chain(settings.admit_fronts.then(|| "--admit-fronts".to_owned()))
        .chain(settings.listen_ip.into_iter().flat_map(listen_args))
        .chain(front.into_iter().flat_map(|front| front::args(front, listen_ip)))
        .chain(egress_args(&spec.egress))
        .chain(settings.log.iter().cloned());
    let ports = ports(pool)
        .chain([(ADMIN.to_owned(), ADMIN_PORT.into())])
        .chain(front.into_iter().flat_map(front::ports));
    let ports = ports.map(|(name, container_port)| ContainerPort {
        name: Some(name),
        container_port,
        ..ContainerPort::default()
    });
    // The sleep gives routers time to see that the Pod is terminating before the node drains.
    let sleep = LifecycleHandler {
        sleep: Some(SleepAction { seconds: PRE_STOP_SECONDS }),
        ..LifecycleHandler::default()
    };
    Container {
        name: "runtime-node".to_owned(),
        image: Some(settings.image.clone()),
        image_pull_policy: settings.image_pull_policy.clone(),
        args: Some(args.collect()),
        env: Some([name_variable()].into_iter().chain(credentials(&spec.egress)).collect()),
        ports: Some(ports.collect()),
        volume_mounts: Some(mounts),
        resources: Some(ResourceRequirements {
            requests: Some(spec.resources.requests.clone()),
            limits: Some(spec.resources.limits.clone()),
            ..ResourceRequirements::default()
        }),
        liveness_probe: Some(probe("/livez")),
        readiness_probe: Some(probe("/readyz")),
        lifecycle: Some(Lifecycle { pre_stop: Some(sleep), ..Lifecycle::default() }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Returns the arguments for the address on which a node listens for routers and for probes.
fn listen_args(ip: IpAddr) -> [String; 2] {
    let admin = SocketAddr::new(ip, ADMIN_PORT);
    [format!("--listen-ip={ip}"), format!("--admin-listen={admin}")]
}

fn probe(path: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(ADMIN.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(5),
        ..Probe::default()
    }
}

fn egress_args(egress: &PoolEgress) -> Vec<String> {
    let allow = egress.allow_cidrs.iter().map(|network| format!("--egress-allow={network}"));
    let deny = egress.deny_cidrs.iter().map(|network| format!("--egress-deny={network}"));
    let files = (0..egress.ca_certificates.len())
        .map(|i| format!("--egress-ca-file={AUTHORITIES_MOUNT}/{i}.pem"));
    let proxy = egress.proxy.iter().flat_map(|proxy| {
        let resolver = match proxy.resolver {
            ProxyResolver::Node => "node",
            ProxyResolver::Proxy => "proxy",
        };
        [format!("--egress-proxy={}", proxy.url), format!("--egress-proxy-resolver={resolver}")]
    });
    allow.chain(deny).chain(files).chain(proxy).collect()
}

/// Returns the environment variable with the node's name, which is the name of the Pod.
fn name_variable() -> EnvVar {
    let field = ObjectFieldSelector {
        field_path: "metadata.name".to_owned(),
        ..ObjectFieldSelector::default()
    };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: "TENON_NAME".to_owned(), value_from: Some(source), ..EnvVar::default() }
}

/// Returns the environment variables with the proxy's credentials, which must not appear in
/// arguments.
fn credentials(egress: &PoolEgress) -> Vec<EnvVar> {
    let Some(secret) =
        egress.proxy.as_ref().and_then(|proxy| proxy.credentials_secret_ref.as_ref())
    else {
        return Vec::new();
    };
    let variable = |(key, name): (&str, &str)| {
        let key =
            SecretKeySelector { name: secret.name.clone(), key: key.to_owned(), optional: None };
        let source = EnvVarSource { secret_key_ref: Some(key), ..EnvVarSource::default() };
        EnvVar { name: name.to_owned(), value_from: Some(source), ..EnvVar::default() }
    };
    CREDENTIALS.map(variable).into()
}

/// Returns the volume for compiled code, and its mount. Compiled code survives restarts of the
/// container, even after a crash, and is deleted with the Pod.
fn cache() -> (Volume, VolumeMount) {
    let directory = EmptyDirVolumeSource {
        size_limit: Some(Quantity(CACHE_SIZE_LIMIT.to_owned())),
        ..EmptyDirVolumeSource::default()
    };
    let volume =
        Volume { name: "cache".to_owned(), empty_dir: Some(directory), ..Volume::default() };
    let mount = VolumeMount {
        name: volume.name.clone(),
        mount_path: CACHE_MOUNT.to_owned(),
        ..VolumeMount::default()
    };
    (volume, mount)
}

/// Returns the volume with the node's certificate, and its mount. Nodes reload a changed
/// certificate, so a change does not replace the nodes.
fn certificate_volume(secret: &str) -> (Volume, VolumeMount) {
    let source = SecretVolumeSource {
        secret_name: Some(secret.to_owned()),
        ..SecretVolumeSource::default()
    };
    let volume = Volume { name: "tls".to_owned(), secret: Some(source), ..Volume::default() };
    let mount = read_only(&volume, TLS_MOUNT);
    (volume, mount)
}

/// Returns the volume with the authorities, and its mount. Only the named key of each object is
/// mounted, because an authority's private key may be stored beside its certificate.
fn authorities(egress: &PoolEgress) -> Option<(Volume, VolumeMount)> {
    let sources: Vec<_> = (egress.ca_certificates.iter().enumerate())
        .filter_map(|(i, certificates)| {
            let (kind, reference) = references::authority(certificates)?;
            let (name, path) = (reference.name.clone(), format!("{i}.pem"));
            let items =
                Some(vec![KeyToPath { key: reference.key.clone(), path, ..KeyToPath::default() }]);
            Some(match kind {
                Kind::ConfigMap => VolumeProjection {
                    config_map: Some(ConfigMapProjection { name, items, optional: None }),
                    ..VolumeProjection::default()
                },
                Kind::Secret => VolumeProjection {
                    secret: Some(SecretProjection { name, items, optional: None }),
                    ..VolumeProjection::default()
                },
            })
        })
        .collect();
    if sources.is_empty() {
        return None;
    }
    let projected =
        ProjectedVolumeSource { sources: Some(sources), ..ProjectedVolumeSource::default() };
    let volume =
        Volume { name: "authorities".to_owned(), projected: Some(projected), ..Volume::default() };
    let mount = read_only(&volume, AUTHORITIES_MOUNT);
    Some((volume, mount))
}

pub(super) fn read_only(volume: &Volume, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.name.clone(),
        mount_path: path.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

/// Returns the affinity for Kubernetes nodes of these architectures, if any are given.
fn architecture(architectures: &[String]) -> Option<Affinity> {
    if architectures.is_empty() {
        return None;
    }
    let requirement = NodeSelectorRequirement {
        key: "kubernetes.io/arch".to_owned(),
        operator: "In".to_owned(),
        values: Some(architectures.to_vec()),
    };
    let term = NodeSelectorTerm {
        match_expressions: Some(vec![requirement]),
        ..NodeSelectorTerm::default()
    };
    let required = NodeSelector { node_selector_terms: vec![term] };
    let node_affinity = NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(required),
        ..NodeAffinity::default()
    };
    Some(Affinity { node_affinity: Some(node_affinity), ..Affinity::default() })
}

/// Returns the topology spread of the pool's Pods. By default, the Pods are spread over Kubernetes
/// nodes and zones as far as possible.
fn spread(
    pool: &RuntimePool,
    selector: &BTreeMap<String, String>,
) -> Vec<TopologySpreadConstraint> {
    if !pool.spec.topology_spread.is_empty() {
        return pool.spec.topology_spread.iter().map(|spread| spread.over(selector)).collect();
    }
    let as_far_as_possible = |key: &str| TopologySpread {
        topology_key: key.to_owned(),
        max_skew: 1,
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        min_domains: None,
    };
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        .map(|key| as_far_as_possible(key).over(selector))
        .into()
}

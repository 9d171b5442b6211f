//! Plans the parts of a pool's objects that its front needs: a Service for clients, and the ports,
//! arguments and volumes of the nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, SecretVolumeSource, Service, ServicePort, ServiceSpec, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tenon_crds::{PoolFront, RuntimePool};

use super::pod::read_only;
use super::{Settings, child_name};

/// For each protocol, the name of the port, the port of a node and the port of the Service.
const HTTP: (&str, u16, i32) = ("http", 8080, 80);
const HTTPS: (&str, u16, i32) = ("https", 8443, 443);

/// Mount path of the folders with certificates for clients.
const HTTPS_MOUNT: &str = "/etc/tenon/https";

/// Mount path of the volume for static files.
const SITES_MOUNT: &str = "/var/cache/tenon-sites";

/// Capacity for static files of all processes of a node together, in MiB.
const SITES_MIB: i32 = 512;

/// Space in the volume for each process, in addition to the common capacity, in MiB: three packs of
/// up to 512 MiB, which the process fetches at the same time.
const FETCHES_MIB: i32 = 1_536;

/// Returns the front of a pool, if the pool has one and the operator admits fronts.
pub(super) fn front<'a>(pool: &'a RuntimePool, settings: &Settings) -> Option<&'a PoolFront> {
    pool.spec.front.as_ref().filter(|_| settings.admit_fronts)
}

/// Returns the name of the Service for clients.
pub fn front_name(pool: &RuntimePool) -> String {
    format!("{}-front", child_name(pool))
}

/// Returns the Service for clients, if the pool has a front.
///
/// # Arguments
/// * `metadata` - the metadata of the pool's other objects.
/// * `selector` - the labels that select the pool's Pods.
pub(super) fn service(
    pool: &RuntimePool,
    settings: &Settings,
    metadata: &ObjectMeta,
    selector: &BTreeMap<String, String>,
) -> Option<Service> {
    let front = front(pool, settings)?;
    let families = &settings.front_families;
    let ports = open_ports(front).map(|(name, _, port)| ServicePort {
        name: Some(name.to_owned()),
        port,
        target_port: Some(IntOrString::String(name.to_owned())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    });
    let spec = ServiceSpec {
        type_: Some(front.service_type.as_str().to_owned()),
        selector: Some(selector.clone()),
        ports: Some(ports.collect()),
        ip_family_policy: families.policy.clone(),
        ip_families: (!families.families.is_empty()).then(|| families.families.clone()),
        ..ServiceSpec::default()
    };
    let metadata = ObjectMeta { name: Some(front_name(pool)), ..metadata.clone() };
    Some(Service { metadata, spec: Some(spec), status: None })
}

/// Returns the name and number of each port of a node for clients.
pub(super) fn ports(front: &PoolFront) -> impl Iterator<Item = (String, i32)> + use<> {
    open_ports(front).map(|(name, port, _)| (name.to_owned(), port.into()))
}

fn open_ports(front: &PoolFront) -> impl Iterator<Item = (&'static str, u16, i32)> + use<> {
    let https = (!front.tls_secret_refs.is_empty()).then_some(HTTPS);
    std::iter::once(HTTP).chain(https)
}

/// Returns the arguments of a node that the front needs.
///
/// # Arguments
/// * `listen_ip` - the address on which the node listens for clients.
pub(super) fn args(front: &PoolFront, listen_ip: IpAddr) -> impl Iterator<Item = String> + use<> {
    let https = (!front.tls_secret_refs.is_empty()).then(|| {
        let listen = SocketAddr::new(listen_ip, HTTPS.1);
        [format!("--https-certificates={HTTPS_MOUNT}"), format!("--https-listen={listen}")]
    });
    let proxies = (!front.trusted_proxies.is_empty())
        .then(|| format!("--trusted-proxies={}", front.trusted_proxies.join(",")));
    [
        format!("--front={}", SocketAddr::new(listen_ip, HTTP.1)),
        format!("--assets-cache-dir={SITES_MOUNT}"),
        format!("--assets-cache-mib={SITES_MIB}"),
    ]
    .into_iter()
    .chain(https.into_iter().flatten())
    .chain(proxies)
}

/// Returns the volumes of a node, and their mounts: one for static files, and one for each
/// certificate. The node takes the folders in the order of their names, and the first has the
/// default certificate.
pub(super) fn volumes(
    front: &PoolFront,
    shards: i32,
) -> impl Iterator<Item = (Volume, VolumeMount)> {
    let size = SITES_MIB + shards * FETCHES_MIB;
    let directory = EmptyDirVolumeSource {
        size_limit: Some(Quantity(format!("{size}Mi"))),
        ..EmptyDirVolumeSource::default()
    };
    let sites =
        Volume { name: "sites".to_owned(), empty_dir: Some(directory), ..Volume::default() };
    let mount = VolumeMount {
        name: sites.name.clone(),
        mount_path: SITES_MOUNT.to_owned(),
        ..VolumeMount::default()
    };
    let certificates = front.tls_secret_refs.iter().enumerate().map(|(i, secret)| {
        let source = SecretVolumeSource {
            secret_name: Some(secret.name.clone()),
            ..SecretVolumeSource::default()
        };
        let name = format!("https-{i}");
        let volume = Volume { name, secret: Some(source), ..Volume::default() };
        let mount = read_only(&volume, &format!("{HTTPS_MOUNT}/{i:02}-{}", secret.name));
        (volume, mount)
    });
    std::iter::once((sites, mount)).chain(certificates)
}

//! The arguments for the Pods of RuntimePools, and for their Services.

use std::net::IpAddr;

use clap::Args as ClapArgs;

/// Arguments that fit the objects of all RuntimePools to the cluster.
#[derive(ClapArgs, Clone, Debug)]
pub struct PodArgs {
    /// Additional label of the nodes' Pods. It does not replace a label of the platform.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub node_label: Vec<(String, String)>,
    /// Additional annotation of the nodes' Pods.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub node_annotation: Vec<(String, String)>,
    /// Architectures of the nodes' image, such as amd64. The Pods run only on Kubernetes nodes
    /// whose label kubernetes.io/arch is one of them. By default, the Pods run on all Kubernetes
    /// nodes.
    #[arg(long, env = "TENON_NODE_ARCHITECTURE", value_delimiter = ',', value_name = "NAME")]
    pub node_architecture: Vec<String>,
    /// Let the cluster assign the user and the group of the nodes' Pods, as OpenShift does. By
    /// default, they are those of the image.
    #[arg(long, env = "TENON_NODE_USER_ASSIGNED")]
    pub node_user_assigned: bool,
    /// IP address on which nodes listen, such as :: for IPv6 and IPv4. By default, nodes listen on
    /// all IPv4 addresses.
    #[arg(long, env = "TENON_NODE_LISTEN_IP", value_name = "IP")]
    pub node_listen_ip: Option<IpAddr>,
    /// ipFamilyPolicy of the Services of fronts. By default, the cluster chooses.
    #[arg(
        long,
        env = "TENON_FRONT_IP_FAMILY_POLICY",
        value_parser = ["SingleStack", "PreferDualStack", "RequireDualStack"]
    )]
    pub front_ip_family_policy: Option<String>,
    /// ipFamilies of the Services of fronts. By default, the cluster chooses.
    #[arg(
        long,
        env = "TENON_FRONT_IP_FAMILIES",
        value_delimiter = ',',
        value_parser = ["IPv4", "IPv6"]
    )]
    pub front_ip_families: Vec<String>,
}

/// Splits an argument at its first equals sign. The API server checks both parts.
fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| format!("{text:?} has no key; write KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        pods: PodArgs,
    }

    #[test]
    fn a_pair_is_split_at_its_first_equals_sign() {
        let line = ["operator", "--node-label=team=platform", "--node-annotation=a.b/c=d=e, f"];
        let PodArgs { node_label, node_annotation, .. } =
            Command::try_parse_from(line).unwrap().pods;
        assert_eq!(node_label, [("team".to_owned(), "platform".to_owned())]);
        assert_eq!(node_annotation, [("a.b/c".to_owned(), "d=e, f".to_owned())]);
        for bad in ["--node-label=team", "--node-label==platform"] {
            assert!(Command::try_parse_from(["operator", bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn nodes_may_listen_on_addresses_of_both_families() {
        let line = ["operator", "--node-listen-ip=::", "--front-ip-families=IPv6,IPv4"];
        let pods = Command::try_parse_from(line).unwrap().pods;
        assert_eq!(pods.node_listen_ip, Some("::".parse().unwrap()));
        assert_eq!(pods.front_ip_families, ["IPv6", "IPv4"]);
        assert!(Command::try_parse_from(["operator", "--front-ip-families=IPv5"]).is_err());
    }
}

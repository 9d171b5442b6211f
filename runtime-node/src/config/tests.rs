//! Tests how arguments become the configuration of a node.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: NodeArgs,
}

fn config(args: &[&str]) -> Result<Config, ConfigError> {
    let catalog: &[&str] =
        if args.contains(&"--catalog") { &[] } else { &["--catalog", "http://operator:7070"] };
    let line = ["node"].iter().chain(catalog).chain(args);
    Command::try_parse_from(line).unwrap().args.try_into()
}

#[test]
fn shards_and_lanes_listen_on_consecutive_ports() {
    let config = config(&["--shards", "3", "--lanes", "2", "--shard-port", "7100"]).unwrap();
    let ports: Vec<_> =
        config.listen.addresses().map(|(id, address)| (id.to_string(), address.port())).collect();
    let expected = [("0", 7100), ("1", 7101), ("2", 7102), ("lane-0", 7103), ("lane-1", 7104)];
    assert_eq!(ports, expected.map(|(id, port)| (id.to_owned(), port)));
}

#[test]
fn an_error_names_the_invalid_argument() {
    assert!(matches!(
        config(&["--shards", "2", "--shard-port", "65535"]),
        Err(ConfigError::Ports { .. })
    ));
    assert!(matches!(config(&["--catalog", "no url at all"]), Err(ConfigError::Catalog { .. })));
    assert!(matches!(config(&["--router", "tenon-router:8081"]), Err(ConfigError::Router(_))));
    for line in [&["--router", "https://tenon-router:8081"][..], &["--tls-dir", "/etc/tenon/tls"]] {
        assert!(matches!(config(line), Err(ConfigError::Scheme { .. })), "{line:?}");
    }
    let tls = [
        "--tls-dir",
        "/etc/tenon/tls",
        "--catalog",
        "https://operator:7070",
        "--router",
        "https://router:8081",
    ];
    assert!(config(&tls).is_ok());
    for flag in ["--shards", "--isolates-per-shard", "--max-inflight", "--memory-budget"] {
        let refused =
            Command::try_parse_from(["node", "--catalog", "http://operator:7070", flag, "0"]);
        assert!(refused.err().is_some_and(|error| error.to_string().contains(flag)), "{flag} 0");
    }
}

#[test]
fn the_system_chooses_each_port_if_the_shard_port_is_zero() {
    let config = config(&["--shards", "2", "--shard-port", "0"]).unwrap();
    assert_eq!(
        (config.listen.address(ShardId(0)).port(), config.listen.address(ShardId::lane(1)).port()),
        (0, 0)
    );
}

#[test]
fn networks_are_listed_with_commas_or_one_by_one() {
    let line = [
        "--egress-allow",
        "10.0.0.0/8,fd00::/8",
        "--egress-allow",
        "192.168.0.0/16",
        "--egress-deny",
        "1.1.1.1/32",
    ];
    let config = config(&line).unwrap();
    assert_eq!((config.egress.allow.len(), config.egress.deny.len()), (3, 1));
    let refused = Command::try_parse_from([
        "node",
        "--catalog",
        "http://operator:7070",
        "--egress-allow",
        "10.0.0.1",
    ]);
    assert!(refused.err().is_some_and(|error| error.to_string().contains("--egress-allow")));
}

#[test]
fn the_credentials_of_a_proxy_are_in_its_url_or_in_arguments_but_not_in_both() {
    let url = ["--egress-proxy", "http://alice:hunter2@proxy.test:3128"];
    let within = config(&url).unwrap().egress.proxy.unwrap();
    let beside = ["--egress-proxy-username", "alice", "--egress-proxy-password", "hunter2"];
    let line = [&["--egress-proxy", "http://proxy.test:3128"], &beside[..]].concat();
    assert_eq!(config(&line).unwrap().egress.proxy, Some(within));
    let refused = |line: &[&str]| config(line).unwrap_err().to_string();
    assert!(refused(&[&url, &beside[..]].concat()).contains("keep one"));
    assert!(refused(&beside).contains("--egress-proxy-username requires --egress-proxy"));
    assert!(refused(&["--egress-proxy-resolver", "proxy"]).contains("requires --egress-proxy"));
    assert_eq!(
        config(&["--egress-proxy", "", "--egress-proxy-username", ""]).unwrap().egress.proxy,
        None
    );
}

#[test]
fn passwords_do_not_appear_in_errors_or_debug_output() {
    let line = [
        "--egress-proxy",
        "socks5://alice:hunter2@proxy.test:1080",
        "--egress-proxy-password",
        "hunter2",
    ];
    let args =
        Command::try_parse_from(["node", "--catalog", "http://operator:7070"].iter().chain(&line))
            .unwrap()
            .args;
    let output = format!("{args:?} {}", Config::try_from(args.clone()).unwrap_err());
    assert!(output.contains("--egress-proxy") && !output.contains("hunter2"), "{output}");
    let config = config(&["--egress-proxy", "http://alice:hunter2@proxy.test:3128"]).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn the_drain_grace_is_parsed_in_seconds() {
    assert_eq!(config(&["--drain-grace", "90s"]).unwrap().drain.grace, Duration::from_secs(90));
    assert_eq!(config(&["--drain-grace", "5"]).unwrap().drain.grace, Duration::from_secs(5));
}

#[test]
fn threads_are_pinned_only_when_each_cpu_gets_one() {
    assert!(!config(&["--shards", "512", "--shard-port", "7100"]).unwrap().listen.pin);
    let cpus = core_affinity::get_core_ids().map_or(0, |cores| cores.len());
    assert_eq!(may_pin(u16::try_from(cpus).unwrap()), cpus > 0);
    assert!(!config(&["--no-pin"]).unwrap().listen.pin);
}

#[test]
fn flags_default_to_the_configurations_own_defaults() {
    let from_flags = config(&["--name", "node-a"]).unwrap();
    let own = Config::new("node-a".to_owned(), Endpoint::from_static("http://operator:7070"));
    assert_eq!(format!("{from_flags:?}"), format!("{own:?}"));
}

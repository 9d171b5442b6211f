//! Tests of an operator in the test's own process.

use clap::Parser;
use kube::Client;
use prometheus::Registry;
use tenon_lifecycle::drain;
use tenon_lifecycle::log::LogArgs;
use tenon_lifecycle::readiness::Readiness;
use tenon_operator::Operator;
use tenon_operator::config::OperatorArgs;
use tokio::net::TcpStream;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[tokio::test]
async fn an_operator_without_an_api_server_listens_is_not_ready_and_drains() {
    // Nothing listens on this port.
    let cluster = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(cluster).unwrap();
    let Args { operator, log } =
        Args::parse_from(["operator", "--identity=a", "--catalog-listen=127.0.0.1:0"]);
    let (registry, readiness) = (Registry::new(), Readiness::new());
    let (signal, drain) = drain::channel();
    let config = operator.check(&log).unwrap();
    let operator = Operator::spawn(config, client, drain, &registry, &readiness).await.unwrap();
    assert_eq!(readiness.waiting(), ["catalog"]);
    assert!(TcpStream::connect(operator.catalog_addr()).await.is_ok());
    let ((), joined) = tokio::join!(signal.drain(), operator.join());
    joined.unwrap();
}

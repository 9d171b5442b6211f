//! Tests which of the figures that routers report are passed on.

use tenon_proto::catalog::{ReportTrafficRequest, RevisionTraffic};

use super::*;
use crate::{Deployment, Share, TrafficReport};

fn figures(worker: &str, measurement: u64, digest: RevisionDigest) -> ReportTrafficRequest {
    let entry = RevisionTraffic {
        worker: worker.to_owned(),
        measurement,
        digest: digest.as_bytes().to_vec(),
        requests: 10,
        ..RevisionTraffic::default()
    };
    ReportTrafficRequest { revisions: vec![entry] }
}

#[tokio::test]
async fn figures_are_passed_on_only_for_the_current_measurement_and_serving_revisions() {
    let mut served = serve_new().await;
    let (figures_tx, mut figures_rx) = tokio::sync::mpsc::channel(1);
    served.catalog.set_figures_sink(figures_tx);
    let superseded = served.catalog.set_worker(revision("cart", "0"), "default", vec![route()]);
    let shares = ["1", "2"].map(|name| Share::whole(revision("cart", name)));
    let [_, new] = shares.each_ref().map(|share| share.digest.get());
    let deployment = Deployment::new(revision("cart", "1"), "default", vec![route()]);
    served.catalog.deploy(Deployment { measurement: 5, shares: shares.into(), ..deployment });
    let other = served.catalog.set_worker(revision("till", "1"), "default", vec![]);
    let early = served.client.report_traffic(figures("shop/cart", 5, new)).await.unwrap_err();
    assert_eq!(early.code(), Code::Unavailable);
    served.catalog.mark_synced();

    for outdated in [
        figures("shop/cart", 4, new),
        figures("shop/cart", 5, superseded),
        figures("shop/cart", 5, other),
        figures("shop/till", 0, other),
        figures("shop/nobody", 5, new),
    ] {
        served.client.report_traffic(outdated).await.unwrap();
    }
    assert!(figures_rx.try_recv().is_err());
    served.client.report_traffic(figures("shop/cart", 5, new)).await.unwrap();
    let full = served.client.report_traffic(figures("shop/cart", 5, new)).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    let taken = figures_rx.try_recv().unwrap();
    let expected = TrafficReport {
        worker: WorkerId::new("shop", "cart"),
        measurement: 5,
        revision: "2".to_owned(),
        figures: (&figures("shop/cart", 5, new).revisions[0]).into(),
    };
    assert_eq!(taken, [expected]);
    let malformed = served.client.report_traffic(figures("cart", 5, new)).await.unwrap_err();
    assert_eq!(malformed.code(), Code::InvalidArgument);
}

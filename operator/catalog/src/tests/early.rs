//! Tests of revisions that nodes request before the catalog is complete.

use std::future::pending;
use std::iter::from_fn;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};

use super::*;

/// Lets a catalog find `revision`, whose Worker is in `pool`, before it is complete. Returns the
/// number of searches.
fn find(catalog: &Catalog, revision: Arc<Revision>, pool: &str) -> Arc<AtomicUsize> {
    let searches = Arc::<AtomicUsize>::default();
    let (pool, counted) = (pool.to_owned(), searches.clone());
    catalog.set_early_source(Arc::new(move |worker, digest| {
        counted.fetch_add(1, Ordering::Relaxed);
        let is_found = worker == revision.worker && digest == revision.digest();
        let found = Early { revision: revision.clone(), pool: pool.clone() };
        async move { is_found.then_some(found) }.boxed()
    }));
    searches
}

#[tokio::test]
async fn a_node_gets_a_revision_before_the_catalog_is_complete() {
    let mut served = serve_new().await;
    let cart = revision("cart", "1");
    let searches = find(&served.catalog, cart.clone(), "default");
    let mut messages = served.get(cart.digest()).await.unwrap();
    let mut assembler = Assembler::default();
    while let Some(message) = messages.message().await.unwrap() {
        assembler.push(message).unwrap();
    }
    assert_eq!(assembler.finish().unwrap().0, cart.digest());

    let other = revision("cart", "2").digest();
    let status = served.get(other).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(searches.load(Ordering::Relaxed), 2);
    served.catalog.mark_synced();
    assert_eq!(served.get(other).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(searches.load(Ordering::Relaxed), 2, "a complete catalog searches");
}

#[tokio::test]
async fn a_revision_whose_secret_has_not_been_listed_yet_is_searched_for() {
    let mut served = serve_new().await;
    let cart = revision("cart", "1");
    find(&served.catalog, cart.clone(), "default");
    let mut held = Deployment::new(cart.clone(), "default", Vec::new());
    held.shares[0].digest = Digest::Held(cart.digest());
    served.catalog.deploy(held);
    assert!(served.get(cart.digest()).await.is_ok());
    served.catalog.mark_synced();
    let status = served.get(cart.digest()).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
}

#[tokio::test]
async fn searches_of_one_namespace_leave_permits_to_the_others() {
    let catalog = Catalog::new();
    let (begun_tx, mut begun_rx) = tokio::sync::mpsc::unbounded_channel();
    catalog.set_early_source(Arc::new(move |worker: WorkerId, _| {
        let _ = begun_tx.send(worker.namespace().to_owned());
        pending().boxed()
    }));
    let digest = revision("cart", "1").digest();
    let caller = CallerPool::Of("default".to_owned());
    let early = |worker: &'static str| catalog.early(worker, digest, &caller);
    let mut of_shop: FuturesUnordered<_> = (0..100).map(|_| early("shop/cart")).collect();
    assert!(of_shop.next().now_or_never().is_none());
    assert!(early("bank/till").now_or_never().is_none());
    let begun: Vec<_> = from_fn(|| begun_rx.try_recv().ok()).collect();
    assert_eq!(begun, ["shop", "shop", "shop", "shop", "bank"]);
}

#[tokio::test]
async fn a_node_of_another_pool_is_refused_before_the_catalog_is_complete() {
    let catalog = Catalog::new();
    let cart = revision("cart", "1");
    find(&catalog, cart.clone(), "default");
    let of = |pool: &str| CallerPool::Of(pool.to_owned());
    let early = async |caller| catalog.early("shop/cart", cart.digest(), &caller).await;
    assert!(early(of("default")).await.unwrap().is_some());
    let pools = vec!["default".to_owned()];
    assert_eq!(early(of("gpu")).await, Err(Denial::OtherPool { caller: of("gpu"), pools }));
    assert_eq!(catalog.early("not an id", cart.digest(), &of("default")).await, Ok(None));
}

//! Tests static files, which the router serves itself.

use bytes::Bytes;
use futures::stream;
use http::{Method, header};
use tenon_assets::Packer;
use tenon_proto::catalog::{Assets, HtmlHandling, NotFoundHandling, WatchResponse, Worker};
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::InvokeHead;

use crate::harness::{
    Behavior, Client, FullResponse, InternalCaller, Node, Options, Scenario, eventually, full,
    head, worker,
};

/// Returns text that is longer than a piece and longer than a window of HTTP/2.
fn large() -> String {
    (0..40_000).map(|line| format!("{line:09}\n")).collect()
}

fn pack(files: &[(&str, &str)]) -> Bytes {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut packer = Packer::new(file.reopen().unwrap());
    for (path, content) in files {
        packer.add(path, &mut content.as_bytes()).unwrap();
    }
    packer.finish().unwrap();
    std::fs::read(file.path()).unwrap().into()
}

fn site() -> Bytes {
    pack(&[
        ("index.html", "<h1>home</h1>"),
        ("about.html", "<h1>about</h1>"),
        ("404.html", "<h1>missing</h1>"),
        ("app.js", &"console.log(1);".repeat(100)),
        ("api/file.txt", "file"),
        ("large.bin", &large()),
        ("empty.txt", ""),
        ("_headers", "/app.js\n  Cache-Control: public, max-age=31536000, immutable\n  X-A: 1\n"),
        ("_redirects", "/old https://example.com/new 301\n"),
    ])
}

/// Returns the entry of a Worker with static files.
fn with_assets(digest: u8, assets: Assets) -> Worker {
    let assets = Assets { site: vec![digest; 32], ..assets };
    Worker { digest: vec![digest; 32], assets: Some(assets), ..worker("shop/cart", "shop") }
}

async fn apply(scenario: &Scenario, worker: Worker) {
    let change = WatchResponse { workers: vec![worker.clone()], ..Default::default() };
    scenario.catalog.change(change);
    InternalCaller::await_worker(scenario.internal_addr(), worker).await.unwrap();
}

/// Starts a router with a Worker that has static files.
async fn start(node: &Node, assets: Assets) -> Scenario {
    let scenario = Scenario::with(&[node]).await;
    scenario.catalog.set_pack(&[9; 32], site());
    apply(&scenario, with_assets(9, assets)).await;
    scenario
}

async fn ask(
    client: &mut Client,
    method: Method,
    path: &str,
    headers: &[(header::HeaderName, &str)],
) -> FullResponse {
    let mut request = client.request(method, path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    client.send(request.body(full("")).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_file_is_served_without_the_worker() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = start(&node, Assets::default()).await;
    for mut client in [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await] {
        let home = client.get("/").await;
        assert_eq!((home.status.as_u16(), &home.body[..]), (200, &b"<h1>home</h1>"[..]));
        assert_eq!(home.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(home.header("cache-control"), "public, max-age=0, must-revalidate");
        let whole = client.get("/large.bin").await;
        assert!(whole.body == large() && whole.header("content-length") == "400000");
        assert_eq!(client.get("/empty.txt").await.body, "");
        let described = ask(&mut client, Method::HEAD, "/large.bin", &[]).await;
        assert_eq!((described.header("content-length"), described.body.len()), ("400000", 0));
        let page = client.get("/about.html?a=b").await;
        assert_eq!((page.status.as_u16(), page.header("location")), (307, "/about?a=b"));
        let moved = client.get("/old").await;
        assert_eq!(
            (moved.status.as_u16(), moved.header("location")),
            (301, "https://example.com/new")
        );
        let script = client.get("/app.js").await;
        assert_eq!(script.header("cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(script.header("x-a"), "1");
    }
    assert_eq!(node.invocations(), 0);
    eventually("the redirects to be counted", || {
        scenario.metric("tenon_router_asset_responses_total", Some("redirect")) == 4.0
    })
    .await;
}

#[tokio::test]
async fn content_is_not_sent_again_to_a_client_that_has_it() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = start(&node, Assets::default()).await;
    let mut client = scenario.client().await;
    let tag = client.get("/about").await.header("etag").to_owned();
    let again = ask(&mut client, Method::GET, "/about", &[(header::IF_NONE_MATCH, &tag)]).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    assert_eq!(again.header("etag"), tag);
    let changed = ask(&mut client, Method::GET, "/", &[(header::IF_NONE_MATCH, &tag)]).await;
    assert_eq!(changed.status.as_u16(), 200);
}

#[tokio::test]
async fn a_part_of_a_file_is_served() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = start(&node, Assets::default()).await;
    let mut client = scenario.client().await;
    let mut range =
        async |range| ask(&mut client, Method::GET, "/large.bin", &[(header::RANGE, range)]).await;
    let part = range("bytes=10-18").await;
    assert_eq!((part.status.as_u16(), &part.body[..]), (206, &b"000000001"[..]));
    assert_eq!(part.header("content-range"), "bytes 10-18/400000");
    let long = range("bytes=100000-299999").await;
    assert!(long.body == large()[100_000..300_000]);
    let none = range("bytes=400000-").await;
    assert_eq!((none.status.as_u16(), none.header("content-range")), (416, "bytes */400000"));
}

#[tokio::test]
async fn text_is_compressed_once_it_has_been_requested() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = start(&node, Assets::default()).await;
    let mut client = scenario.client().await;
    for (coding, magic) in [("gzip", &[0x1f, 0x8b][..]), ("zstd", &[0x28, 0xb5]), ("br", &[])] {
        let accepted = [(header::ACCEPT_ENCODING, coding)];
        let compressed = loop {
            let script = ask(&mut client, Method::GET, "/app.js", &accepted).await;
            assert_eq!(script.header("vary"), "accept-encoding");
            if script.headers.contains_key(header::CONTENT_ENCODING) {
                break script;
            }
            assert_eq!(script.body.len(), 1500);
            tokio::task::yield_now().await;
        };
        assert_eq!(compressed.header("content-encoding"), coding);
        assert!(compressed.body.len() < 200 && compressed.body.starts_with(magic), "{coding}");
        assert!(compressed.header("etag").ends_with(&format!("-{coding}\"")));
        // A small file stays uncompressed.
        let home = ask(&mut client, Method::GET, "/", &accepted).await;
        assert!(!home.headers.contains_key(header::CONTENT_ENCODING));
    }
}

#[tokio::test]
async fn the_worker_answers_requests_that_no_file_answers() {
    let node = Node::start("n1", Behavior::Echo);
    let assets = Assets {
        not_found_handling: NotFoundHandling::SinglePageApplication.into(),
        ..Assets::default()
    };
    let scenario = start(&node, assets).await;
    let mut client = scenario.client().await;
    let missing = client.get("/missing").await;
    assert_eq!(missing.header("observed-url"), "http://shop/missing");
    let posted = client.post("/about", "body").await;
    assert_eq!((posted.header("observed-method"), &posted.body[..]), ("POST", &b"body"[..]));
    assert_eq!(node.invocations(), 2);
    // A browser that opens a page of the application gets the application.
    let mode = header::HeaderName::from_static("sec-fetch-mode");
    let page = ask(&mut client, Method::GET, "/missing", &[(mode, "navigate")]).await;
    assert_eq!((page.status.as_u16(), &page.body[..]), (200, &b"<h1>home</h1>"[..]));
    assert_eq!(node.invocations(), 2);
}

#[tokio::test]
async fn the_worker_answers_the_listed_paths_and_the_application_all_others() {
    let node = Node::start("n1", Behavior::Echo);
    let assets = Assets {
        run_worker_first: vec!["/api/*".to_owned()],
        not_found_handling: NotFoundHandling::SinglePageApplication.into(),
        ..Assets::default()
    };
    let scenario = start(&node, assets).await;
    let mut client = scenario.client().await;
    for path in ["/api/file.txt", "/%61pi/file.txt"] {
        let answer = client.get(path).await;
        assert_eq!(answer.header("observed-url"), format!("http://shop{path}"));
    }
    let page = client.get("/missing").await;
    assert_eq!((page.status.as_u16(), &page.body[..]), (200, &b"<h1>home</h1>"[..]));
    assert_eq!(node.invocations(), 2);
}

#[tokio::test]
async fn a_worker_requests_its_own_files() {
    let node = Node::start("n1", Behavior::Echo);
    let assets = Assets {
        html_handling: HtmlHandling::None.into(),
        not_found_handling: NotFoundHandling::NotFoundPage.into(),
        run_worker_first: vec!["/*".to_owned()],
        ..Assets::default()
    };
    let scenario = start(&node, assets).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    let ask = async |method: &str, path: &str| {
        let call = InvokeHead {
            assets: true,
            method: method.into(),
            url: format!("https://any{path}"),
            ..head("shop/cart")
        };
        let answer = caller.call(call, stream::empty()).await.unwrap();
        (answer.status, String::from_utf8(answer.body.to_vec()).unwrap())
    };
    assert_eq!(ask("GET", "/about.html?x").await, (200, "<h1>about</h1>".to_owned()));
    assert_eq!(ask("GET", "/about").await, (404, "<h1>missing</h1>".to_owned()));
    assert!(ask("GET", "/large.bin").await == (200, large()));
    assert_eq!(ask("HEAD", "/large.bin").await, (200, String::new()));
    assert_eq!(ask("POST", "/about.html").await, (405, String::new()));
    assert_eq!(node.invocations(), 0);
    let without = InvokeHead { assets: true, ..head("shop/other") };
    scenario.catalog.change(WatchResponse {
        workers: vec![worker("shop/other", "other")],
        ..Default::default()
    });
    InternalCaller::await_worker(scenario.internal_addr(), worker("shop/other", "other"))
        .await
        .unwrap();
    let failure = caller.call(without, stream::empty()).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::BadRequest);
}

#[tokio::test]
async fn a_site_is_fetched_once_and_then_served_without_an_operator() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = start(&node, Assets::default()).await;
    assert_eq!(scenario.catalog.requested_packs(), 1);
    // Another revision has the same files.
    let same = Worker { digest: vec![8; 32], ..with_assets(9, Assets::default()) };
    apply(&scenario, same).await;
    assert_eq!(scenario.catalog.requested_packs(), 1);
    let addr = scenario.addr();
    drop(scenario.catalog);
    let mut client = Client::http1(addr).await;
    assert_eq!(client.get("/about").await.body, "<h1>about</h1>");
}

#[tokio::test]
async fn a_site_is_served_if_the_capacity_suffices_for_only_one() {
    let node = Node::start("n1", Behavior::Echo);
    let options = Options { site_capacity: 500_000, ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    for digest in [1, 2] {
        scenario.catalog.set_pack(&[digest; 32], pack(&[("large.bin", &large())]));
        apply(&scenario, with_assets(digest, Assets::default())).await;
    }
    let mut client = scenario.client().await;
    assert!(client.get("/large.bin").await.body == large());
    assert_eq!(scenario.catalog.requested_packs(), 2);
}

#[tokio::test]
async fn files_that_no_operator_has_are_unavailable() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let worker = with_assets(9, Assets::default());
    let change = WatchResponse { workers: vec![worker.clone()], ..Default::default() };
    scenario.catalog.change(change);
    let router = scenario.internal_addr();
    assert!(InternalCaller::await_worker(router, worker).await.is_err());
    let mut client = scenario.client().await;
    let answer = client.get("/").await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, "assets_unavailable".to_owned()));
    assert!(answer.headers.contains_key("retry-after"));
    let posted = client.post("/", "body").await;
    assert_eq!(posted.status.as_u16(), 200, "a request that needs no file failed");
    scenario.catalog.set_pack(&[9; 32], site());
    assert_eq!(client.get("/").await.body, "<h1>home</h1>");
}

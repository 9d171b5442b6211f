//! Tests the pages that `tenon dev` shows a browser in place of failed responses.
#![allow(clippy::unwrap_used)] // Clippy recognizes only functions that are marked as tests.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::harness::{Dev, await_condition, worker};

/// The header `Accept` of Firefox when it opens a page.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// Returns the name of the build that the page was made with.
    fn build(&self) -> &str {
        let (_, build) = self.body.split_once("data-build=\"").unwrap();
        build.split_once('"').unwrap().0
    }
}

/// Sends a request like a browser.
#[tokio::main(flavor = "current_thread")]
async fn request(dev: &Dev, method: &str, host: &str, path: &str, accept: &str) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(format!("http://127.0.0.1:{}{path}", dev.port()))
        .header(header::HOST, host)
        .header(header::ACCEPT, accept)
        .body(Empty::<Bytes>::new());
    let client = Client::builder(TokioExecutor::new()).build_http();
    let (parts, body) = client.request(request.unwrap()).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    Answer { status: parts.status, headers: parts.headers, body }
}

fn visit(dev: &Dev, path: &str) -> Answer {
    request(dev, "GET", "localhost", path, BROWSER)
}

fn serve(source: &str) -> (Dev, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("worker.yaml"), worker("hello", source)).unwrap();
    (Dev::start(directory.path()), directory)
}

#[test]
fn an_exception_is_shown_with_the_lines_of_the_typescript_around_it() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/typescript");
    let dev = Dev::start(&example);
    let page = visit(&dev, "/fail");
    assert_eq!(page.status, 500);
    assert_eq!(page.header(header::CONTENT_TYPE), "text/html; charset=utf-8");
    let policy = page.header(header::CONTENT_SECURITY_POLICY);
    assert!(policy.starts_with("default-src 'none'; style-src 'unsafe-inline'; "), "{policy}");
    for text in
        ["<h1>Error: the kitchen is closed</h1>", "worker.ts:22:15", "<mark>22 | ", "GET /fail"]
    {
        assert!(page.body.contains(text), "no {text}: {}", page.body);
    }
    // The terminal shows the same lines.
    dev.await_line("worker.ts:22:15:");
    dev.await_line("| 22 | ");
}

#[test]
fn other_clients_get_the_response_that_a_cluster_gives() {
    let (dev, _directory) = serve("export default { fetch() { throw new Error('secret') } }");
    let json = request(&dev, "GET", "localhost", "/", "*/*");
    assert_eq!(json.header(header::CONTENT_TYPE), "application/json");
    assert!(json.body.contains(r#""code":"worker_exception""#), "{}", json.body);
    let text = request(&dev, "GET", "localhost", "/", "text/plain");
    assert!(text.body.starts_with("worker_exception: "), "{}", text.body);
    assert!(!json.body.contains("secret") && !text.body.contains("secret"));
    assert_eq!(request(&dev, "HEAD", "localhost", "/", BROWSER).body, "");
}

#[test]
fn a_start_that_throws_is_shown_and_the_page_waits_for_the_next_build() {
    let (dev, directory) = serve("const none = undefined; none.call(); export default {}");
    let page = visit(&dev, "/");
    assert!(page.body.contains("worker_start_failed"), "{}", page.body);
    assert!(page.body.contains("Cannot read properties of undefined"), "{}", page.body);
    assert!(page.body.contains("<mark>1 | const none"), "{}", page.body);
    let build = || visit(&dev, "/.tenon/build").body;
    assert_eq!(build(), page.build());

    let fixed = "export default { fetch: () => new Response('fixed') }";
    fs::write(directory.path().join("worker.yaml"), worker("hello", fixed)).unwrap();
    await_condition("the next build is served", || build() != page.build());
    // The page reloads itself only after the router has the new build.
    assert_eq!(visit(&dev, "/").body, "fixed");
}

#[test]
fn a_form_is_not_resubmitted_automatically() {
    let (dev, _directory) = serve("export default { fetch() { throw new Error('no') } }");
    let page = request(&dev, "POST", "localhost", "/", BROWSER);
    assert!(page.body.contains("<h1>Error: no</h1>"), "{}", page.body);
    assert!(!page.body.contains("<script"), "{}", page.body);
    // With other methods, requests for this path reach the Worker.
    assert_eq!(request(&dev, "POST", "localhost", "/.tenon/build", "*/*").status, 500);
}

#[test]
fn code_that_does_not_compile_is_shown_until_it_does() {
    let (dev, directory) = serve("export default { fetch() { return new } }");
    let page = visit(&dev, "/");
    assert_eq!(page.status, 404);
    assert!(page.body.contains("Problems in the files"), "{}", page.body);
    assert!(page.body.contains("worker.js:1:"), "{}", page.body);
    assert!(page.body.contains("| export default { fetch() { return new } }"), "{}", page.body);

    // A foreign site could give a name of its own the address of this machine.
    let foreign = request(&dev, "GET", "evil.example", "/", BROWSER);
    assert!(!foreign.body.contains("return new"), "{}", foreign.body);

    let fixed = "export default { fetch: () => new Response('fixed') }";
    fs::write(directory.path().join("worker.yaml"), worker("hello", fixed)).unwrap();
    await_condition("the build is served", || visit(&dev, "/.tenon/build").body != page.build());
    assert_eq!(visit(&dev, "/").body, "fixed");
}

#[test]
fn an_unknown_host_is_answered_with_a_list_of_the_known_hosts() {
    let (dev, _directory) = serve("export default { fetch: () => new Response('here') }");
    let page = request(&dev, "GET", "unknown.localhost", "/", BROWSER);
    assert_eq!(page.status, 404);
    let url = format!("http://hello.default.localhost:{}/", dev.port());
    assert!(page.body.contains(&format!("<a href=\"{url}\">{url}</a>")), "{}", page.body);
    assert!(page.body.contains("default/hello"), "{}", page.body);
}

#[test]
fn a_hostile_message_is_shown_as_text() {
    let source = "export default { fetch() { \
        const error = new Error('</h1><script>alert(1)</script>'); \
        error.stack += '\\n    at <img src=x onerror=alert(2)> (worker.js:1:1)'; \
        throw error; } };";
    let (dev, _directory) = serve(source);
    let page = visit(&dev, "/");
    assert!(page.body.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{}", page.body);
    assert!(page.body.contains("&lt;img src=x onerror=alert(2)&gt;"), "{}", page.body);
    assert!(!page.body.contains("<img"), "{}", page.body);
    assert_eq!(page.body.matches("<script").count(), 1, "{}", page.body);
}

#[test]
fn a_limit_that_stops_a_request_is_shown_by_its_message() {
    let (dev, _directory) = serve("export default { fetch() { return new Promise(() => {}) } }");
    let page = visit(&dev, "/");
    assert!(
        page.body.contains("<h1>the Worker&#39;s handler will never respond</h1>"),
        "{}",
        page.body
    );
}

//! Tests which requests get a page, and what the page shows.

use http::Request;
use tenon_proto::failure::{Failure, Phase};

use super::*;

fn browser() -> Browser {
    Browser::new("dev.example".to_owned(), false)
}

fn request(host: &str, accept: &str) -> Parts {
    let request = Request::builder().uri("/").header("host", host).header("accept", accept);
    request.body(()).unwrap().into_parts().0
}

fn exception(stack: &str) -> Exception {
    let location = Some(Place { file: "worker.ts".to_owned(), line: 2, column: 7 });
    Exception { message: "Error: no tea".to_owned(), location, stack: Some(stack.to_owned()) }
}

fn revision(name: &str) -> Revision {
    let worker = WorkerId::new("default", "shop");
    Revision { name: name.to_owned(), ..Revision::with_modules(worker, []) }
}

#[test]
fn only_clients_that_name_html_get_pages() {
    let accepts = |accept| accepts_html(&request("localhost", accept));
    assert!(accepts("text/html,application/xhtml+xml,*/*;q=0.8"));
    assert!(accepts("application/json, TEXT/HTML; q=0.1"));
    for other in ["*/*", "application/json", "text/*", "text/html;q=0", ""] {
        assert!(!accepts(other), "{other}");
    }
}

#[test]
fn names_of_foreign_sites_are_not_local() {
    let is_local = |host| browser().is_local(&request(host, ""));
    for host in ["localhost:8080", "a.b.LOCALHOST", "127.0.0.1", "[::1]:80", "dev.example:1"] {
        assert!(is_local(host), "{host}");
    }
    for host in ["example.com", "notlocalhost", "localhost.example.com", "xdev.example", ""] {
        assert!(!is_local(host), "{host}");
    }
}

#[test]
fn a_page_shows_only_the_exceptions_of_its_request() {
    let browser = browser();
    for (request_id, message) in [("1", "first"), ("2", "second"), ("1", "third")] {
        let thrown = Exception { message: message.to_owned(), location: None, stack: None };
        browser.uncaught(&revision("r"), request_id, &thrown);
    }
    let parts = request("localhost", "text/html");
    let failure = Failure::new(FailureCode::WorkerException, Phase::Handler, "");
    let failed =
        FailedRequest { request: &parts, request_id: "1", worker: None, failure: &failure };
    let found = browser.lock().exceptions(&failed);
    let messages: Vec<_> = found.iter().map(|(_, thrown)| thrown.message.as_str()).collect();
    assert_eq!(messages, ["third", "first"]);
}

#[test]
fn a_failed_start_shows_the_exception_of_the_revision_being_served() {
    let browser = browser();
    let worker = WorkerId::new("default", "shop");
    browser.uncaught(&revision("old"), "", &exception(""));
    let parts = request("localhost", "text/html");
    let failure = Failure::new(FailureCode::WorkerStartFailed, Phase::Start, "");
    let failed = FailedRequest {
        request: &parts,
        request_id: "1",
        worker: Some(&worker),
        failure: &failure,
    };
    let serve = |revision: &str| {
        let sources = Sources { revision: revision.to_owned(), modules: Arc::default() };
        browser.lock().workers.insert(worker.clone(), sources);
    };
    serve("new");
    assert!(browser.lock().exceptions(&failed).is_empty());
    serve("old");
    assert_eq!(browser.lock().exceptions(&failed).len(), 1);
}

#[test]
fn the_number_of_exceptions_is_bounded() {
    let browser = browser();
    (0..3 * EXCEPTIONS).for_each(|_| browser.uncaught(&revision("r"), "1", &exception("")));
    assert_eq!(browser.lock().exceptions.len(), EXCEPTIONS);
}

#[test]
fn a_stack_begins_with_the_place_of_the_exception() {
    let texts = |stack| -> Vec<String> {
        frames(&exception(stack), |_| None).into_iter().map(|frame| frame.text).collect()
    };
    let frames = "Error: no tea\n    at sell (worker.ts:2:7)\n    at Array.map (<anonymous>)";
    assert_eq!(texts(frames), ["sell (worker.ts:2:7)", "Array.map (<anonymous>)"]);
    let of_builtin = "Error: no tea\n    at JSON.parse (<anonymous>)";
    assert_eq!(texts(of_builtin), ["worker.ts:2:7", "JSON.parse (<anonymous>)"]);
}

#[test]
fn the_name_of_the_build_changes_with_each_build() {
    let browser = browser();
    let name = || {
        let mut parts = request("localhost", "*/*");
        parts.uri = BUILD_PATH.parse().unwrap();
        browser.answer(&parts).unwrap().into_body()
    };
    let before = name();
    assert_eq!(name(), before);
    browser.reload_pages();
    assert_ne!(name(), before);
    assert!(browser.answer(&request("localhost", "*/*")).is_none());
}

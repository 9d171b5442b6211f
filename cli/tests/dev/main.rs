//! Tests `tenon dev` and `tenon check` end to end, with the real binary, files and requests.

mod browser;
mod cdp;
mod compression;
mod examples;
mod harness;
mod inspect;
mod postgres;
mod projects;
mod trailers;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use harness::{Dev, TENON, await_condition, worker};

const TYPESCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/typescript");
const CALLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/calls");
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hello");

fn greeter(greeting: &str) -> String {
    worker(
        "hello",
        &format!("export default {{ fetch() {{ return new Response('{greeting}') }} }}"),
    )
}

#[test]
fn the_example_responds_as_its_comments_describe() {
    let dev = Dev::start(EXAMPLE.as_ref());
    dev.await_line("default/hello");
    assert_eq!(dev.get("localhost", "/"), (200, "Hello from localhost\n".into()));
    assert_eq!(dev.get("hello.default.localhost", "/").1, "Hello from hello.default.localhost\n");
    let (status, json) = dev.get("localhost", "/json?name=you");
    assert_eq!((status, json.as_str()), (200, r#"{"greeting":"Hello from you","path":"/json"}"#));
    assert_eq!(dev.request("POST", "localhost", "/echo", "a body"), (200, "a body".into()));
    assert_eq!(dev.get("localhost", "/later?what=this").0, 202);
    dev.await_line("remembered this");
    assert_eq!(dev.get("localhost", "/none").0, 404);
    assert_eq!(dev.get("nobody.localhost", "/").0, 404);
}

#[test]
fn the_typescript_example_is_served_from_its_folder_and_errors_name_the_lines_of_its_source() {
    let dev = Dev::start(TYPESCRIPT.as_ref());
    dev.await_line("default/menu");
    let page = dev.get("localhost", "/");
    assert!(
        page.0 == 200 && page.1.contains("<ul><li>Soup: 9 €</li><li>Stew: 15 €</li></ul>"),
        "{page:?}"
    );
    assert_eq!(
        dev.get("localhost", "/lunch").1,
        r#"[{"name":"Soup","price":7},{"name":"Stew","price":13}]"#
    );
    assert_eq!(dev.get("localhost", "/fail").0, 500);
    dev.await_line("worker.ts:22:15: Error: the kitchen is closed");
}

#[test]
fn the_workers_of_the_calls_example_call_one_another() {
    let dev = Dev::start(CALLS.as_ref());
    dev.await_line("default/cart");
    dev.await_line("default/shop");
    let host = "shop.default.localhost";
    assert_eq!(dev.get(host, "/?item=tea&item=cake"), (200, "tea, cake: 8 EUR".into()));
    assert_eq!(dev.get(host, "/?item=beer"), (404, "there is no beer".into()));
    assert_eq!(dev.get(host, "/price?item=beer&price=4"), (200, "saved".into()));
    assert_eq!(dev.get(host, "/?item=beer"), (200, "beer: 4 EUR".into()));
    // The called Worker has no handler for requests.
    assert_eq!(dev.get("cart.default.localhost", "/").0, 500);
}

#[test]
fn changes_in_a_folder_of_modules_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let (file, folder) = (directory.path().join("worker.yaml"), directory.path().join("code"));
    let header = "apiVersion: tenon.dev/v1alpha1\nkind: Worker\nmetadata: {name: hello}\n";
    fs::write(&file, format!("{header}spec: {{source: {{configMapRef: {{name: code}}}}}}\n"))
        .unwrap();
    fs::create_dir(&folder).unwrap();
    let code = |greeting: &str| {
        format!(
            "import a from './a.bin';\nlet g: string = '{greeting}';\nexport default {{ fetch: () => new Response(g + a.byteLength) }}"
        )
    };
    fs::write(folder.join("a.bin"), [0xff, 0xfe]).unwrap();
    fs::write(folder.join("worker.ts"), code("first")).unwrap();
    let dev = Dev::start(&file);
    dev.await_line("default/hello");
    assert_eq!(dev.get("localhost", "/"), (200, "first2".into()));

    fs::write(folder.join("worker.ts"), code("second")).unwrap();
    await_condition("the saved module answers", || dev.get("localhost", "/").1 == "second2");

    fs::write(folder.join("worker.ts"), "let a: number = ;").unwrap();
    dev.await_line("worker.ts:1:17: Unexpected token");
    dev.await_line("| let a: number = ;");
    assert_eq!(dev.get("localhost", "/"), (200, "second2".into()));
}

#[test]
fn a_worker_is_shown_with_its_revision_its_shard_and_its_urls() {
    let dev = Dev::start(EXAMPLE.as_ref());
    let line = dev.await_line("+ default/hello");
    let fields: Vec<_> = line.split("  ").collect();
    assert_eq!((fields[0], fields[1].len(), fields.len()), ("+ default/hello", 10, 5), "{line}");
    assert!(fields[2].starts_with("on dev/"), "{line}");
    assert_eq!(fields[3], format!("http://localhost:{}/", dev.port()));
    assert_eq!(fields[4], format!("http://hello.default.localhost:{}/", dev.port()));
}

#[test]
fn no_request_fails_during_a_reload() {
    const RELOADS: usize = 5;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("worker.yaml");
    fs::write(&file, greeter("0")).unwrap();
    let dev = Dev::start(directory.path());

    let (done, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let (status, body) = dev.get("localhost", "/");
                    assert_eq!(status, 200, "{body}");
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for reload in 1..=RELOADS {
            // Editors save by renaming a new file over the old one.
            let draft = directory.path().join(".draft");
            fs::write(&draft, greeter(&reload.to_string())).unwrap();
            fs::rename(&draft, &file).unwrap();
            await_condition("the new revision answers", || {
                dev.get("localhost", "/").1 == reload.to_string()
            });
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(requests.load(Ordering::Relaxed) > RELOADS);
}

#[test]
fn a_syntax_error_has_a_position_and_the_last_good_revision_continues_to_serve() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("worker.yaml");
    fs::write(&file, greeter("good")).unwrap();
    let dev = Dev::start(directory.path());

    fs::write(&file, worker("hello", "export default { fetch() { return new } }")).unwrap();
    let line = dev.await_line("worker.js:1:");
    assert!(line.contains("Worker default/hello"), "{line}");
    dev.await_line("| export default { fetch() { return new } }");
    dev.await_line("^");
    dev.await_line("the last good revision keeps serving");
    assert_eq!(dev.get("localhost", "/"), (200, "good".into()));

    fs::write(&file, greeter("fixed")).unwrap();
    dev.await_line("all problems are resolved");
    await_condition("the corrected revision answers", || dev.get("localhost", "/").1 == "fixed");
}

#[test]
fn a_deleted_worker_is_not_found() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("worker.yaml");
    fs::write(&file, greeter("here")).unwrap();
    let dev = Dev::start(&file);
    assert_eq!(dev.get("localhost", "/").0, 200);
    fs::remove_file(&file).unwrap();
    dev.await_line("- default/hello");
    await_condition("the route of the Worker is gone", || dev.get("localhost", "/").0 == 404);
}

#[test]
fn the_error_for_a_port_in_use_names_the_address_and_a_remedy() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let output = Command::new(TENON).args(["dev", EXAMPLE, "--listen", &addr]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(message.contains(&addr) && message.contains("--listen"), "{message}");
}

#[test]
fn ctrl_c_ends_the_process_successfully() {
    let dev = Dev::start(EXAMPLE.as_ref());
    assert_eq!(dev.get("localhost", "/").0, 200);
    assert!(dev.interrupt().success());
}

#[test]
fn check_fails_if_a_worker_is_invalid() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("worker.yaml"), worker("hello", "export default {")).unwrap();
    let check =
        |path: &std::path::Path| Command::new(TENON).arg("check").arg(path).output().unwrap();
    let bad = check(directory.path());
    assert!(!bad.status.success());
    assert!(String::from_utf8(bad.stderr).unwrap().contains("worker.js:1:17"));
    assert!(check(EXAMPLE.as_ref()).status.success());
}

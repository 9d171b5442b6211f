//! Tests `tenon profile` with the real binary, and with an API server that forwards the port of a
//! node.
#![allow(clippy::unwrap_used)] // This file contains only tests.

mod api;

use std::fs;
use std::io::Write as _;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use tenon_proto::node::profile_part::Part;
use tenon_proto::node::profile_response::Response;
use tenon_proto::node::{Begun, ProfileKind, ProfilePart, ProfileResponse, Waiting};
use tonic::Status;

use api::{Api, NODE, Node};

/// The outcome of a command.
#[derive(Debug)]
struct Outcome {
    succeeded: bool,
    stdout: String,
    stderr: String,
}

/// Runs `tenon profile` on a Worker of the namespace `shop`.
fn profile(api: &Api, arguments: &[&str]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_tenon"))
        .current_dir(api.directory())
        .env("KUBECONFIG", api.kubeconfig())
        .arg("profile")
        .args(arguments)
        .args(["--namespace", "shop", "--output", "profile.out"])
        .output()
        .unwrap();
    Outcome {
        succeeded: output.status.success(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn response(response: Response) -> Result<ProfileResponse, Status> {
    Ok(ProfileResponse { response: Some(response) })
}

fn part(part: Part) -> Result<ProfileResponse, Status> {
    response(Response::Part(ProfilePart { part: Some(part) }))
}

/// Returns the responses of a node to a call that ends with `last`.
fn responses(
    last: impl IntoIterator<Item = Result<ProfileResponse, Status>>,
) -> Vec<Result<ProfileResponse, Status>> {
    let waiting = response(Response::Waiting(Waiting { at_most_ms: 30_000 }));
    let begun = part(Part::Begun(Begun { revision: "cart-1\u{1b}[31m".to_owned() }));
    [waiting, begun].into_iter().chain(last).collect()
}

/// Returns the responses of a node with a profile of this text.
fn complete(text: &str) -> Vec<Result<ProfileResponse, Status>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    responses(compressed.chunks(1000).map(|piece| part(Part::Piece(piece.to_vec().into()))))
}

fn written(api: &Api) -> Option<String> {
    fs::read_to_string(api.directory().join("profile.out")).ok()
}

#[test]
fn a_cpu_profile_is_written_and_the_command_says_how_to_open_it() {
    let text: String = (0..10_000).map(|i| format!("{i},")).collect();
    let api = Api::start(Node::Answers(complete(&text)));
    let outcome = profile(&api, &["cart", "--duration", "3s"]);
    assert!(outcome.succeeded, "{outcome:?}");
    assert_eq!(written(&api).as_deref(), Some(&*text));
    assert!(outcome.stdout.starts_with("wrote profile.out\nnext: "), "{outcome:?}");
    assert!(outcome.stderr.contains(&format!("request of shop/cart at {NODE}")), "{outcome:?}");
    assert!(outcome.stderr.contains("profiling revision cart-1\\u{1b}[31m for 3s"), "{outcome:?}");
    let request = api.requests().pop().unwrap();
    assert_eq!(
        (&*request.worker, request.kind(), request.duration_ms),
        ("shop/cart", ProfileKind::Cpu, 3_000)
    );
}

#[test]
fn a_heap_snapshot_comes_with_a_warning_about_secrets() {
    let api = Api::start(Node::Answers(complete("{}")));
    let outcome = profile(&api, &["cart", "--heap", "--node", NODE]);
    assert!(outcome.succeeded && outcome.stderr.contains("secrets"), "{outcome:?}");
    assert_eq!(written(&api).as_deref(), Some("{}"));
    assert_eq!(api.requests().pop().unwrap().kind(), ProfileKind::Heap);
}

#[test]
fn a_failed_command_says_why_and_leaves_no_file() {
    let refused = [Err(Status::aborted("the snapshot may need 9 MiB\u{7}"))];
    let broken = [part(Part::Piece(b"not compressed".to_vec().into()))];
    let cases = [
        (
            Node::Answers(responses(refused)),
            "cart",
            "took no profile: the snapshot may need 9 MiB\\u{7}",
        ),
        (Node::Answers(responses(broken)), "cart", "cannot write profile.out"),
        (Node::Answers(responses([])), "cart", "cannot write profile.out"),
        (
            Node::Refuses,
            "cart",
            "connection refused; if nothing listens there, the node's version is older",
        ),
        (
            Node::Forbidden,
            "cart",
            "you need permission to get and create pods/portforward in namespace tenon-system",
        ),
        (Node::Refuses, "menu", "Worker shop/menu does not exist"),
    ];
    for (node, worker, expected) in cases {
        let api = Api::start(node);
        let outcome = profile(&api, &[worker]);
        assert!(!outcome.succeeded && outcome.stderr.contains(expected), "{expected}: {outcome:?}");
        let files = fs::read_dir(api.directory()).unwrap().count();
        assert_eq!(files, 1, "there are files beside the kubeconfig after {outcome:?}");
    }
}

//! Tests that each example responds as the comment in its manifest says.
#![allow(clippy::unwrap_used)] // Clippy recognizes only functions that are marked as tests.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::harness::{DEADLINE, Dev, request, worker};
use crate::postgres::Postgres;

fn example(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../examples", name].iter().collect()
}

/// Serves an example until the value is dropped.
fn serve(name: &str) -> Dev {
    let dev = Dev::start(&example(name));
    dev.await_line(&format!("default/{name}"));
    dev
}

/// Copies a folder, and installs the packages that its lock file names. Returns the copy.
fn install(name: &str, folder: &Path) -> PathBuf {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed").join(name);
    copy_sources(folder, &copy);
    let installed = Command::new("npm")
        .args(["ci", "--loglevel", "error", "--prefer-offline"])
        .current_dir(&copy)
        .status();
    assert!(installed.unwrap().success());
    copy
}

/// Copies the files below a folder, without the packages and builds that a developer has made in
/// it.
fn copy_sources(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if !path.is_dir() {
            fs::copy(path, copy).unwrap();
        } else if entry.file_name() != "node_modules" && entry.file_name() != "dist" {
            copy_sources(&path, &copy);
        }
    }
}

/// Sends a request with these header lines. Returns the response's head, and a reader of its body,
/// which is not chunked, because the request is HTTP/1.0.
fn open(port: u16, path: &str, headers: &str) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost:{port}\r\n{headers}\r\n").unwrap();
    let (mut head, mut reader) = (String::new(), BufReader::new(stream));
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "the head is incomplete: {head}");
    }
    (head, reader)
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no header {name}: {head}"))
}

/// A participant in the chat.
struct Participant(WebSocket<TcpStream>);

impl Participant {
    fn enter(port: u16, name: &str) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let url = format!("ws://localhost:{port}/?name={name}");
        Self(tungstenite::client(url, stream).unwrap().0)
    }

    fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).unwrap();
    }

    /// Returns the first message with the field `name`.
    fn hear(&mut self, name: &str) -> Value {
        loop {
            let message = self.0.read().unwrap().into_text().unwrap();
            let message: Value = serde_json::from_str(&message).unwrap();
            if !message[name].is_null() {
                return message;
            }
        }
    }
}

#[test]
fn participants_of_the_chat_hear_one_another() {
    let dev = serve("chat");
    assert!(dev.get("localhost", "/").1.contains("new WebSocket(url"));
    let mut ann = Participant::enter(dev.port(), "Ann");
    let mut ben = Participant::enter(dev.port(), "Ben");
    assert_eq!(ben.hear("joined"), json!({"joined": "Ben", "present": ["Ann", "Ben"]}));
    ann.say("Hello, <b>Ben</b>");
    assert_eq!(ben.hear("text"), json!({"from": "Ann", "text": "Hello, <b>Ben</b>"}));
    drop(ann);
    assert_eq!(ben.hear("left"), json!({"left": "Ann"}));
    ben.say(&"x".repeat(2001));
    let Message::Close(Some(reason)) = ben.0.read().unwrap() else { panic!("no close") };
    assert_eq!(u16::from(reason.code), 1008);
}

#[test]
fn events_of_the_live_feed_arrive_while_it_continues_and_can_be_resumed() {
    let dev = serve("live-feed");
    let read = |headers: &str| {
        let (head, body) = open(dev.port(), "/events", headers);
        assert_eq!(header(&head, "content-type"), "text/event-stream");
        let ids = body.lines().map_while(Result::ok);
        let ids = ids.filter_map(|line| line.strip_prefix("id: ")?.parse().ok());
        ids.take(2).collect::<Vec<u32>>()
    };
    assert_eq!(read(""), [0, 1]);
    assert_eq!(read("last-event-id: 6\r\n"), [7, 8]);
    assert!(open(dev.port(), "/events", "last-event-id: x\r\n").0.starts_with("HTTP/1.0 400"));
}

#[test]
fn the_image_is_a_bitmap_that_webassembly_has_drawn() {
    let dev = serve("image");
    let (head, mut body) = open(dev.port(), "/?zoom=1", "");
    assert_eq!(header(&head, "content-type"), "image/bmp");
    let mut file = Vec::new();
    std::io::Read::read_to_end(&mut body, &mut file).unwrap();
    assert_eq!((&file[..2], file.len()), (&b"BM"[..], 54 + 1024 + 256 * 256));
    let pixel = |column: usize, row: usize| file[54 + 1024 + row * 256 + column];
    // The Mandelbrot set contains the center, -0.75 + 0i. The corner escapes after 2 iterations.
    assert_eq!((pixel(128, 128), pixel(0, 0)), (255, 2));
    assert_eq!(dev.get("localhost", "/?zoom=none").0, 400);
}

/// A provider that accepts one code with the client's secret, and logs the verifier's challenge.
const PROVIDER: &str = r#"export default { async fetch(request) {
          const { pathname } = new URL(request.url);
          if (pathname === "/user") {
            const isKnown = request.headers.get("authorization") === "Bearer token-1";
            return isKnown ? Response.json({ login: "ann" }) : new Response(null, { status: 401 });
          }
          const form = new URLSearchParams(await request.text());
          const isKnown = form.get("code") === "code-1" && form.get("client_secret") === "s3cret";
          const verifier = new TextEncoder().encode(form.get("code_verifier"));
          const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", verifier));
          const challenge = hash.toBase64({ alphabet: "base64url", omitPadding: true });
          console.log("challenge " + challenge);
          return isKnown ? Response.json({ access_token: "token-1" }) : new Response(null, { status: 400 });
        } };"#;

#[test]
fn a_user_signs_in_with_a_provider_and_keeps_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("provider.yaml", &worker("provider", PROVIDER));
    let provider = Dev::start(&folder.path().join("provider.yaml"));
    provider.await_line("default/provider");

    let of_provider = |path: &str| format!("http://localhost:{}/{path}", provider.port());
    let manifest = fs::read_to_string(example("sign-in").join("worker.yaml")).unwrap();
    let manifest = manifest
        .replace("https://github.com/login/oauth/access_token", &of_provider("token"))
        .replace("https://api.github.com/user", &of_provider("user"));
    write("worker.yaml", &manifest);
    write("env", "CLIENT_SECRET=s3cret\nSESSION_KEY=6b65790a\n");
    fs::create_dir(folder.path().join("portal")).unwrap();
    for file in fs::read_dir(example("sign-in").join("portal")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.path().join("portal").join(file.file_name())).unwrap();
    }
    let env = folder.path().join("env");
    let flags = ["--env-file", env.to_str().unwrap()];
    let dev = Dev::start_with(&flags, &folder.path().join("worker.yaml"));
    dev.await_line("default/sign-in");
    let get = |path: &str, cookie: &str| open(dev.port(), path, &format!("cookie: {cookie}\r\n"));
    let cookie_of = |head: &str| header(head, "set-cookie").split(';').next().unwrap().to_owned();
    let body_of =
        |(_, reader): (String, BufReader<TcpStream>)| std::io::read_to_string(reader).unwrap();

    let (head, _) = get("/sign-in", "");
    let attempt = cookie_of(&head);
    let location = header(&head, "location").to_owned();
    let parameter = |name: &str| {
        let (_, value) = location.split_once(&format!("{name}=")).unwrap();
        value.split('&').next().unwrap()
    };
    assert!(location.starts_with("https://github.com/login/oauth/authorize?"), "{location}");

    let (head, _) = get(&format!("/callback?code=code-1&state={}", parameter("state")), &attempt);
    assert!(head.starts_with("HTTP/1.0 302"), "{head}");
    provider.await_line(&format!("challenge {}", parameter("code_challenge")));
    let session = cookie_of(&head);
    assert_eq!(body_of(get("/", &session)), "Hello, ann\n");

    // Neither the value of another cookie, nor a forged one, nor an empty one is a session.
    let forged = session.replace("session=e", "session=f");
    for cookie in [&attempt.replace("attempt=", "session="), &forged, ""] {
        assert_eq!(body_of(get("/", cookie)), "Sign in at /sign-in\n");
    }
    assert!(get("/callback?code=code-1&state=other", &attempt).0.starts_with("HTTP/1.0 400"));
    let refused = format!("/callback?code=code-2&state={}", parameter("state"));
    assert!(get(&refused, &attempt).0.starts_with("HTTP/1.0 403"));
}

#[test]
fn the_single_page_application_has_files_an_api_and_one_page_for_all_other_paths() {
    let dev = serve("spa");
    assert!(dev.get("localhost", "/").1.contains("<title>Notes</title>"));
    assert!(dev.get("localhost", "/app.js").1.contains("history.pushState"));
    let (head, _) =
        open(dev.port(), "/mortise", "accept: text/html\r\nsec-fetch-mode: navigate\r\n");
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    assert_eq!(dev.get("localhost", "/api/notes").1, r#"["tenon","mortise"]"#);
    assert_eq!(dev.get("localhost", "/api/notes/nail").0, 404);
}

#[test]
fn the_uptime_monitor_requests_the_shop() {
    let dev = serve("uptime");
    let (status, answer) = dev.get("uptime.default.localhost", "/");
    assert!(status == 200 && answer.starts_with(r#"{"up":true"#), "{status} {answer}");
}

#[test]
fn notes_are_kept_in_a_postgresql_database() {
    let postgres = Postgres::start();
    let example = install("postgres", &example("postgres"));
    postgres.run(&example.join("schema.sql"));
    let env = example.join("env");
    fs::write(&env, format!("DATABASE_URL={}\n", postgres.url())).unwrap();
    let dev = Dev::start_with(&["--env-file", env.to_str().unwrap()], &example);
    dev.await_line("+ default/postgres");
    let send = |method: &str, path: &str, body: &str| dev.request(method, "localhost", path, body);

    // A text that looks like SQL is stored unchanged, because it is never a part of a statement.
    let text = "'); drop table notes; --";
    let (status, note) = send("POST", "/notes", text);
    assert_eq!(status, 201, "{note}");
    let note: Value = serde_json::from_str(&note).unwrap();
    assert_eq!((&note["id"], &note["text"]), (&json!("1"), &json!(text)));
    assert_eq!(send("POST", "/notes", "").0, 400);
    let notes: Value = serde_json::from_str(&send("GET", "/notes", "").1).unwrap();
    assert_eq!(notes, json!([note]));
    assert_eq!(send("DELETE", "/notes/1", "").0, 204);
    assert_eq!(send("DELETE", "/notes/1", "").0, 404);
    assert_eq!(send("GET", "/notes", "").1, "[]");
}

#[test]
fn the_react_page_arrives_in_parts_with_the_script_that_hydrates_it() {
    let example = install("react-ssr", &example("react-ssr"));
    let dev = Dev::start(&example);
    dev.await_line("+ default/react-ssr");
    let (head, body) = open(dev.port(), "/", "");
    assert_eq!(header(&head, "content-type"), "text/html; charset=utf-8");
    let page = std::io::read_to_string(body).unwrap();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}: {page}"));
    // The placeholder of the menu comes first, and the menu follows at the end of the page.
    assert!(at("The kitchen is writing the menu") < at("Stew"), "{page}");
    assert!(at("src=\"/client.js\"") < at("Stew"), "{page}");
    assert!(dev.get("localhost", "/client.js").1.contains("The kitchen is writing the menu"));
    assert!(dev.get("localhost", "/style.css").1.contains("font-family"));
    // A program that does not run scripts gets the whole page.
    let (_, body) = open(dev.port(), "/", "user-agent: a-bot\r\n");
    let page = std::io::read_to_string(body).unwrap();
    assert!(page.contains("Stew") && !page.contains("The kitchen is writing the menu"), "{page}");
    assert_eq!(dev.get("localhost", "/none").0, 404);
}

/// A gRPC server in Node.js, and its port. The server stops when this value is dropped.
struct Origin(Child, u16);

impl Origin {
    fn start(scripts: &Path, service: &Path) -> Self {
        let mut node = Command::new("node");
        node.arg(scripts.join("origin.mjs")).arg(service).stdout(Stdio::piped());
        let mut child = node.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self(child, port.trim().parse().unwrap())
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the gRPC frame of a message whose only field, number 1, is this text.
fn framed(text: &str) -> Vec<u8> {
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
    let field = [&[10, length(text.as_bytes())][..], text.as_bytes()].concat();
    let message = if text.is_empty() { Vec::new() } else { field };
    [&[0, 0, 0, 0, length(&message)][..], &message].concat()
}

/// Calls a method over gRPC-Web, and returns the whole response as text.
fn call_method(port: u16, method: &str, frame: &[u8]) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(
        stream,
        "POST /tenon.examples.v1.Greeter/{method} HTTP/1.0\r\nhost: greeter.default.localhost\r\n\
         content-type: application/grpc-web+proto\r\ncontent-length: {}\r\n\r\n",
        frame.len()
    )
    .unwrap();
    stream.write_all(frame).unwrap();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_worker_answers_grpc_web_calls_and_another_calls_a_grpc_server() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dev/grpc");
    let scripts = install("grpc", &folder);
    let service = example("grpc").join("greeter.proto");
    let origin = Origin::start(&scripts, &service);
    let copy = tempfile::tempdir().unwrap();
    copy_sources(&example("grpc"), copy.path());
    let manifest = copy.path().join("worker.yaml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("localhost:50051", &format!("localhost:{}", origin.1)))
        .unwrap();
    let dev = Dev::start(copy.path());
    dev.await_line("+ default/greeter");
    dev.await_line("+ default/gateway");

    let call = |method: &str, name: &str| call_method(dev.port(), method, &framed(name));
    let answer = call("Greet", "Ann");
    assert!(answer.contains("\n\u{b}Hello, Ann!"), "{answer:?}");
    assert!(answer.contains("grpc-status: 0\r\n"), "{answer:?}");
    let refused = call("Greet", "");
    assert!(refused.contains("grpc-status: 3\r\ngrpc-message: name%3A"), "{refused:?}");
    assert!(call("None", "Ann").contains("grpc-status: 12\r\n"));
    assert!(call("CountDown", "Ann").contains("Hello, Ann!"));

    let get = |path: &str| request(dev.port(), "GET", "gateway.default.localhost", path, "");
    assert_eq!(get("/greet?name=Ann"), (200, r#"{"text":"Hello, Ann!"}"#.into()));
    let refused = r#"{"code":3,"message":"name: is missing, 100 % of it"}"#;
    assert_eq!(get("/greet?name="), (400, refused.into()));
    let lines = get("/count-down?name=Ann&seconds=2").1;
    assert!(lines.contains("{\"text\":\"2 …\"}\n"), "{lines}");
    assert!(lines.contains("{\"text\":\"Hello, Ann!\"}\n"), "{lines}");

    // The calls of other clients pass through the Worker, with the status in their trailers.
    let client = Command::new("node")
        .arg(scripts.join("client.mjs"))
        .arg(&service)
        .arg(format!("127.0.0.1:{}", dev.port()))
        .output()
        .unwrap();
    let expected = "Hello, Ann!\n3 name: is missing, 100 % of it\n2 …, 1 …, Hello, Ann!\n\
                    1 …, 3 name: is missing, 100 % of it\n";
    assert_eq!(String::from_utf8(client.stdout).unwrap(), expected);
}

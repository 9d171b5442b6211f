//! A service that programs talk to: as much of OpenAI's API as their client needs to be seen at work.

use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};

use crate::origin::{Answer, Asked, Origin};

/// Returns its URL.
pub(crate) async fn start() -> String {
    let origin = Origin::plain(answer).await;
    origin.url("").as_str().trim_end_matches('/').to_owned()
}

fn answer(asked: &Asked) -> Answer {
    let body = String::from_utf8_lossy(asked.body());
    match asked.uri().path() {
        "/v1/chat/completions" => complete(&serde_json::from_str(&body).expect("the client sends JSON")),
        "/v1/files" => {
            let name = body.split_once("filename=\"").and_then(|(_, rest)| rest.split_once('"'));
            let name = name.expect("the client sends a form with a file").0;
            one(200, &json!({ "id": "file-1", "filename": name, "bytes": 9, "purpose": "assistants" }))
        }
        _ => one(404, &json!({ "error": { "message": "There is no such model" } })),
    }
}

fn complete(request: &Value) -> Answer {
    if request["stream"] != true {
        let said = request["messages"][0]["content"].as_str().unwrap_or_default();
        let message = json!({ "role": "assistant", "content": format!("Hello from {said}!") });
        return one(200, &json!({ "id": "c", "choices": [{ "index": 0, "message": message }] }));
    }
    let chunk = |text: &&str| {
        let choice = json!({ "index": 0, "delta": { "content": text } });
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let mut lines: Vec<_> = ["Hello ", "in ", "pieces"].iter().map(chunk).collect();
    lines.push("data: [DONE]\n\n".to_owned());
    of("text/event-stream", 200, lines)
}

fn one(status: u16, body: &Value) -> Answer {
    of("application/json", status, vec![body.to_string()])
}

fn of(kind: &str, status: u16, pieces: Vec<String>) -> Answer {
    let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece.into())));
    let body = StreamBody::new(Box::pin(futures::stream::iter(frames)) as _);
    http::Response::builder().status(status).header("content-type", kind).body(body).expect("these are headers")
}

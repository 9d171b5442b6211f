//! Services that programs call: the parts of the APIs of OpenAI, Stripe and S3 that their clients
//! need.

use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};

use crate::origin::{Origin, OriginResponse, ReceivedRequest};

/// Starts the services and returns their URL.
pub(crate) async fn start() -> String {
    let origin = Origin::plain(respond).await;
    origin.url("").as_str().trim_end_matches('/').to_owned()
}

fn respond(request: &ReceivedRequest) -> OriginResponse {
    let body = String::from_utf8_lossy(request.body());
    match request.uri().path() {
        "/v1/chat/completions" => {
            complete(&serde_json::from_str(&body).expect("the client did not send JSON"))
        }
        "/v1/files" => {
            let name = body.split_once("filename=\"").and_then(|(_, rest)| rest.split_once('"'));
            let name = name.expect("the client did not send a form with a file").0;
            json_response(
                200,
                &json!({ "id": "file-1", "filename": name, "bytes": 9, "purpose": "assistants" }),
            )
        }
        "/v1/customers" if request.method() == "POST" => json_response(
            200,
            &json!({
                "id": "cus_1", "object": "customer", "sent": body, "key": header(request, "idempotency-key"),
                "authorization": header(request, "authorization"),
            }),
        ),
        "/v1/customers" => customers(request),
        "/v1/charges" => {
            let error = json!({ "type": "card_error", "code": "card_declined", "message": "Your card was declined." });
            json_response(402, &json!({ "error": error }))
        }
        path if path.starts_with("/bucket") => object(request, &body),
        _ => json_response(404, &json!({ "error": { "message": "There is no such model" } })),
    }
}

fn header<'a>(request: &'a ReceivedRequest, name: &str) -> &'a str {
    request
        .headers()
        .get(name)
        .map_or("", |value| value.to_str().expect("a client sent a header that is not ASCII"))
}

// ---- OpenAI

fn complete(request: &Value) -> OriginResponse {
    if request["stream"] != true {
        let prompt = request["messages"][0]["content"].as_str().unwrap_or_default();
        let message = json!({ "role": "assistant", "content": format!("Hello from {prompt}!") });
        return json_response(
            200,
            &json!({ "id": "c", "choices": [{ "index": 0, "message": message }] }),
        );
    }
    let chunk = |text: &&str| {
        let choice = json!({ "index": 0, "delta": { "content": text } });
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let mut lines: Vec<_> = ["Hello ", "in ", "pieces"].iter().map(chunk).collect();
    lines.push("data: [DONE]\n\n".to_owned());
    response("text/event-stream", 200, lines)
}

// ---- Stripe

/// Returns one of the two pages of the list.
fn customers(request: &ReceivedRequest) -> OriginResponse {
    let is_second =
        request.uri().query().is_some_and(|query| query.contains("starting_after=cus_2"));
    let names: &[_] =
        if is_second { &[("cus_3", "Edith")] } else { &[("cus_1", "Ada"), ("cus_2", "Grace")] };
    let data: Vec<_> = names
        .iter()
        .map(|(id, name)| json!({ "id": id, "object": "customer", "name": name }))
        .collect();
    json_response(
        200,
        &json!({ "object": "list", "url": "/v1/customers", "has_more": !is_second, "data": data }),
    )
}

// ---- S3

fn object(request: &ReceivedRequest, body: &str) -> OriginResponse {
    let signature = header(request, "authorization");
    let is_signed = signature.starts_with("AWS4-HMAC-SHA256 Credential=key/")
        && signature.contains("/us-east-1/s3/aws4_request, SignedHeaders=")
        && signature.rsplit_once("Signature=").is_some_and(|(_, signature)| signature.len() == 64);
    if !is_signed {
        return xml(
            403,
            &format!("<Error><Code>AccessDenied</Code><Message>{signature}</Message></Error>"),
        );
    }
    let query = request.uri().query().unwrap_or_default();
    match (request.method().as_str(), request.uri().path()) {
        ("PUT", "/bucket/a%20name.txt") => {
            let seen =
                [body, header(request, "content-type"), header(request, "x-amz-meta-by")].join(",");
            let checksum = header(request, "x-amz-checksum-crc32");
            with_headers(
                response("text/plain", 200, Vec::new()),
                &[("etag", &format!("\"{seen},{checksum}\""))],
            )
        }
        ("HEAD" | "GET", "/bucket/a%20name.txt") => {
            let pieces = ["some ", "text"].map(str::to_owned).to_vec();
            let modified = ("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT");
            with_headers(
                response("text/plain", 200, pieces),
                &[("x-amz-meta-by", "Ada"), ("content-length", "9"), modified],
            )
        }
        ("GET", "/bucket" | "/bucket/") => {
            let is_second = query.contains("continuation-token=next");
            let more =
                if is_second { "" } else { "<NextContinuationToken>next</NextContinuationToken>" };
            let keys = if is_second { ["c", "d"] } else { ["a &amp; b", "a"] };
            let entry = |key| {
                let modified = "<LastModified>1970-01-01T00:00:01.000Z</LastModified>";
                format!("<Contents><Key>{key}</Key><Size>9</Size>{modified}</Contents>")
            };
            let entries = keys.map(entry).concat();
            let list = format!(
                "<KeyCount>2</KeyCount><IsTruncated>{}</IsTruncated>{more}{entries}",
                !is_second
            );
            xml(200, &format!("<ListBucketResult>{list}</ListBucketResult>"))
        }
        ("POST", "/bucket" | "/bucket/") => {
            let deleted = body.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
            let deleted: String =
                deleted.map(|(key, _)| format!("<Deleted><Key>{key}</Key></Deleted>")).collect();
            xml(200, &format!("<DeleteResult>{deleted}</DeleteResult>"))
        }
        _ => xml(
            404,
            "<Error><Code>NoSuchKey</Code><Message>The key is not there.</Message></Error>",
        ),
    }
}

fn xml(status: u16, text: &str) -> OriginResponse {
    response(
        "application/xml",
        status,
        vec![format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{text}")],
    )
}

// ---- Responses

fn json_response(status: u16, body: &Value) -> OriginResponse {
    response("application/json", status, vec![body.to_string()])
}

fn response(kind: &str, status: u16, pieces: Vec<String>) -> OriginResponse {
    let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece.into())));
    let body = StreamBody::new(Box::pin(futures::stream::iter(frames)) as _);
    http::Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(body)
        .expect("a header is invalid")
}

fn with_headers(mut answer: OriginResponse, headers: &[(&'static str, &str)]) -> OriginResponse {
    for (name, value) in headers {
        answer.headers_mut().insert(*name, value.parse().expect("a header is invalid"));
    }
    answer
}

//! Databases that programs connect to: the parts of the protocols of Redis and PostgreSQL that
//! their drivers need.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::origin::Origin;

/// The password of PostgreSQL's user.
const PASSWORD: &str = "secret";

/// Starts both databases. Returns the ports of Redis and of PostgreSQL.
pub(crate) async fn start() -> (u16, u16) {
    let redis = Origin::serve_connections(|stream| async move {
        let _ = serve_redis(stream).await;
    });
    let postgres = Origin::serve_connections(|stream| async move {
        let _ = serve_postgres(stream).await;
    });
    (redis.await.port, postgres.await.port)
}

// ---- Redis

/// Answers the commands of a connection. Each connection has its own keys.
async fn serve_redis(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut keys = BTreeMap::<String, String>::new();
    loop {
        let words = command(&mut stream).await?;
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let answer = match words[..] {
            ["INFO" | "info", ..] => bulk("redis_version:7.4.0\r\nloading:0\r\n"),
            ["set", key, value] => {
                keys.insert(key.to_owned(), value.to_owned());
                "+OK\r\n".to_owned()
            }
            ["get", key] => keys.get(key).map_or_else(|| "$-1\r\n".to_owned(), |value| bulk(value)),
            ["incr", key] => {
                let value = keys.entry(key.to_owned()).or_default();
                *value = (value.parse().unwrap_or(0) + 1).to_string();
                format!(":{value}\r\n")
            }
            ["fail"] => "-ERR as requested\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes()).await?;
        if words == ["quit"] {
            return stream.shutdown().await;
        }
    }
}

/// Reads a command: an array of bulk strings.
async fn command(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(stream).await? {
        let mut word = vec![0; number(stream).await? + 2];
        stream.read_exact(&mut word).await?;
        words.push(String::from_utf8_lossy(&word[..word.len() - 2]).into_owned());
    }
    Ok(words)
}

/// Reads a line that consists of a type and a number.
async fn number(stream: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    while !line.ends_with("\r\n") {
        line.push(stream.read_u8().await?.into());
    }
    Ok(line[1..].trim_end().parse().expect("the client did not send a number"))
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

// ---- PostgreSQL

/// Answers each query with a row that has one column, `answer`: the query's first parameter, or the
/// query itself if it has no parameters.
async fn serve_postgres(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    // The server tells a client that requests TLS to continue without it.
    while startup(&mut stream).await? == SSL_REQUEST {
        stream.write_all(b"N").await?;
    }
    stream.write_all(&message(b'R', &3_u32.to_be_bytes())).await?;
    let (_, password) = receive(&mut stream).await?;
    if text(&password) != PASSWORD {
        return stream.write_all(&failure("28P01", "password authentication failed")).await;
    }
    let ready = message(b'Z', b"I");
    stream.write_all(&[message(b'R', &[0; 4]), ready.clone()].concat()).await?;
    let mut query = String::new();
    let mut answer = String::new();
    let mut has_failed = false;
    loop {
        let (kind, body) = receive(&mut stream).await?;
        let reply = match kind {
            b'Q' => {
                let sql = text(&body);
                let rows = if sql.contains("nowhere") {
                    failure("42P01", "there is no such relation")
                } else {
                    [description(), row(&sql)].concat()
                };
                [rows, ready.clone()].concat()
            }
            b'P' => {
                let statement = text(&body).len() + 1;
                query = text(&body[statement..]);
                message(b'1', b"")
            }
            b'B' => {
                answer = first_parameter(&body).unwrap_or_else(|| query.clone());
                message(b'2', b"")
            }
            b'D' => description(),
            b'E' if query.contains("nowhere") => {
                has_failed = true;
                failure("42P01", "there is no such relation")
            }
            b'E' => row(&answer),
            b'S' => {
                has_failed = false;
                ready.clone()
            }
            b'X' => return stream.shutdown().await,
            _ => Vec::new(),
        };
        if !has_failed || reply.first() == Some(&b'E') {
            stream.write_all(&reply).await?;
        }
    }
}

/// The code of a message in which a client requests TLS.
const SSL_REQUEST: u32 = 80_877_103;

/// Reads a message without a type, and returns its code.
async fn startup(stream: &mut BufReader<TcpStream>) -> std::io::Result<u32> {
    let length = stream.read_u32().await? as usize;
    let code = stream.read_u32().await?;
    stream.read_exact(&mut vec![0; length - 8]).await?;
    Ok(code)
}

async fn receive(stream: &mut BufReader<TcpStream>) -> std::io::Result<(u8, Vec<u8>)> {
    let kind = stream.read_u8().await?;
    let mut body = vec![0; stream.read_u32().await? as usize - 4];
    stream.read_exact(&mut body).await?;
    Ok((kind, body))
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Returns the text before the first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Returns the first parameter of a Bind message, which begins with the names of a portal and of a
/// statement and with the formats of the parameters.
fn first_parameter(body: &[u8]) -> Option<String> {
    let body = &body[text(body).len() + 1..];
    let body = &body[text(body).len() + 1..];
    let short = |at: usize| usize::from(u16::from_be_bytes([body[at], body[at + 1]]));
    let count_at = 2 + 2 * short(0);
    let value = body.get(count_at + 2..).filter(|_| short(count_at) > 0)?;
    let length = u32::from_be_bytes(value[..4].try_into().expect("the slice has four bytes"));
    Some(String::from_utf8_lossy(&value[4..4 + length as usize]).into_owned())
}

/// Describes rows with one column, whose type is text.
fn description() -> Vec<u8> {
    let text_type = 25_u32.to_be_bytes();
    let column = [b"answer\0", &[0; 6][..], &text_type, &[0xff; 2], &[0xff; 4], &[0; 2]].concat();
    message(b'T', &[&[0, 1], &column[..]].concat())
}

fn row(answer: &str) -> Vec<u8> {
    let length = (answer.len() as u32).to_be_bytes();
    let row = message(b'D', &[&[0, 1], &length[..], answer.as_bytes()].concat());
    [row, message(b'C', b"SELECT 1\0")].concat()
}

fn failure(code: &str, why: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C{code}\0M{why}\0\0").as_bytes())
}

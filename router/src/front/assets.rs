//! Answers requests of clients and of Workers for static files.
//!
//! ```text
//!  site ─► resolve ─► file ─► does the client have it? ─► part, coding ─► read ─► answer
//! ```
//!
//! - [`negotiation`]: the form of the content that a request's headers ask for. Pure.

pub(crate) mod negotiation;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tenon_assets::rules::headers::Change;
use tenon_assets::{Audience, File, Resolved, Site, content_type};
use tenon_compression::Coding;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_table::{Assets, Worker};

use crate::front::accept_encoding;
use crate::front::assets::negotiation::Part;
use crate::front::headers;
use crate::sites::Sites;
use crate::sites::metrics::AssetResult;
use crate::sites::read::{self, FileStream, PIECE};

/// The default of `Cache-Control`: caches may keep a file, but must check whether it has changed.
const REVALIDATED: HeaderValue = HeaderValue::from_static("public, max-age=0, must-revalidate");

/// The codings by preference. A file is compressed once and sent often, so the smallest result is
/// the best.
const ORDER: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// A request for a static file.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
}

/// The response to a request for a static file.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
}

/// The content of a response with a static file.
pub(crate) enum Content {
    /// Content of at most [`PIECE`] bytes, or compressed content.
    Bytes(Bytes),
    File(FileStream),
}

impl Answer {
    fn without_content(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), content: Content::Bytes(Bytes::new()) }
    }
}

/// Returns whether static files are served to requests with this method.
pub(crate) fn is_get_or_head(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Returns whether static files may answer a client's request before the Worker.
pub(crate) fn may_answer(assets: &Assets, method: &Method, path: &str) -> bool {
    is_get_or_head(method) && !assets.settings.is_worker_first(path)
}

/// Returns the audience of a client's request.
pub(crate) fn client_audience(headers: &HeaderMap) -> Audience {
    Audience::Client { navigates: headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate") }
}

/// Answers a request. Returns `None` if there is neither a file nor a redirect.
///
/// # Errors
/// Fails if the site is unavailable, or cannot be read.
pub(crate) async fn answer(
    sites: &Sites,
    worker: &Worker,
    assets: &Assets,
    audience: Audience,
    request: &Request<'_>,
) -> Result<Option<Answer>, Failure> {
    let site = sites.get(assets.site, worker.digest).await;
    let site = site.inspect_err(|_| sites.metrics.answers.inc(AssetResult::Unavailable))?;
    let resolved = site.resolve(&assets.settings, audience, request.path, request.query);
    let (answer, result) = match resolved {
        Resolved::Nothing => return Ok(None),
        Resolved::Redirect { status, location } => {
            (redirect(status, &location), AssetResult::Redirect)
        }
        Resolved::File { file, status } => {
            let answer = serve_file(sites, &site, &file, status, request).await?;
            let result = match answer.status {
                StatusCode::NOT_MODIFIED => AssetResult::NotModified,
                StatusCode::NOT_FOUND => AssetResult::NotFound,
                _ => AssetResult::File,
            };
            (answer, result)
        }
    };
    sites.metrics.answers.inc(result);
    Ok(Some(answer))
}

/// Returns the response to a Worker that requests a path without a file, or uses a method other
/// than GET and HEAD.
pub(crate) fn no_file(method: &Method) -> Answer {
    if is_get_or_head(method) {
        return Answer::without_content(StatusCode::NOT_FOUND);
    }
    let mut answer = Answer::without_content(StatusCode::METHOD_NOT_ALLOWED);
    answer.headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}

fn redirect(status: u16, location: &str) -> Answer {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FOUND);
    let mut answer = Answer::without_content(status);
    match HeaderValue::try_from(location) {
        Ok(location) => drop(answer.headers.insert(header::LOCATION, location)),
        Err(_) => answer.status = StatusCode::NOT_FOUND,
    }
    answer
}

async fn serve_file(
    sites: &Sites,
    site: &Arc<Site>,
    file: &File<'_>,
    status: u16,
    request: &Request<'_>,
) -> Result<Answer, Failure> {
    let found = status == 200;
    let length = u64::from(file.length);
    let tag = negotiation::entity_tag(&file.hash, None);
    let part = if found && *request.method == Method::GET {
        negotiation::part(request.headers, length, &tag)
    } else {
        Part::Whole
    };
    let (content_type, is_compressible) = content_type::of(file.path);
    let coding = accept_encoding::preferred(request.headers, ORDER)
        .filter(|_| is_compressible && part == Part::Whole);
    let compressed =
        coding.and_then(|coding| Some((coding, sites.compressed.get(site, file, coding)?)));

    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, REVALIDATED);
    let tag = match &compressed {
        Some((coding, _)) => negotiation::entity_tag(&file.hash, Some(*coding)),
        None => tag,
    };
    headers.insert(
        header::ETAG,
        HeaderValue::try_from(tag).expect("the entity tag is not a valid header value"),
    );
    if is_compressible {
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    apply_rules(&mut headers, site.headers(request.path));
    if found && negotiation::has_content(request.headers, &file.hash) {
        let mut answer = Answer::without_content(StatusCode::NOT_MODIFIED);
        headers.remove(header::CONTENT_TYPE);
        answer.headers = headers;
        return Ok(answer);
    }
    let mut status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    if let Some((coding, content)) = compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()));
        let (headers, content) = match *request.method {
            Method::HEAD => (with_length(headers, content.len() as u64), Bytes::new()),
            _ => (headers, content),
        };
        return Ok(Answer { status, headers, content: Content::Bytes(content) });
    }
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let (first, length) = match part {
        Part::Whole => (0, length),
        Part::Range(first, last) => {
            status = StatusCode::PARTIAL_CONTENT;
            headers.insert(header::CONTENT_RANGE, range(&format!("{first}-{last}"), length));
            (first, last - first + 1)
        }
        Part::Unsatisfiable => {
            let mut answer = Answer::without_content(StatusCode::RANGE_NOT_SATISFIABLE);
            answer.headers.insert(header::CONTENT_RANGE, range("*", length));
            return Ok(answer);
        }
    };
    if *request.method == Method::HEAD {
        let headers = with_length(headers, length);
        return Ok(Answer { status, headers, content: Content::Bytes(Bytes::new()) });
    }
    let offset = file.offset + first;
    let content = if length <= PIECE as u64 {
        let bytes = read::read(site, offset, length as usize).await.map_err(|error| {
            tracing::error!(%error, path = file.path, "cannot read a static file");
            Failure::new(FailureCode::Internal, Phase::Response, "the file cannot be read")
        })?;
        Content::Bytes(bytes)
    } else {
        Content::File(FileStream::new(site.clone(), offset, length))
    };
    Ok(Answer { status, headers, content })
}

/// Adds the length that the content has in the response to GET (RFC 9110, section 9.3.2).
fn with_length(mut headers: HeaderMap, length: u64) -> HeaderMap {
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers
}

fn range(part: &str, length: u64) -> HeaderValue {
    HeaderValue::try_from(format!("bytes {part}/{length}"))
        .expect("the range is not a valid header value")
}

/// Applies the site's own rules. The first rule that sets a header replaces the header's default,
/// and further rules add values.
fn apply_rules(map: &mut HeaderMap, changes: Vec<Change>) {
    let mut set = Vec::new();
    for change in changes {
        match change {
            Change::Remove(name) => drop(map.remove(name)),
            Change::Set(name, value) => {
                let Ok(value) = HeaderValue::try_from(value) else { continue };
                if headers::is_hop_by_hop(&name) || headers::is_reserved(&name) {
                    continue;
                }
                if set.contains(&name) {
                    map.append(name, value);
                } else {
                    map.insert(name.clone(), value);
                    set.push(name);
                }
            }
        }
    }
}

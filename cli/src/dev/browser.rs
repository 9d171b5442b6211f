//! Shows a developer's browser a page in place of a failed response: with the exception, the lines
//! of the source around it, and the problems of the files.
//!
//! ```text
//!  a Worker throws ───► the last exceptions ────────┐
//!  files are loaded ──► sources, problems, hosts ───┼─► a request fails ─► page
//!  a build is served ─► the name of the build ──────┘                       │
//!                                ▲                                          │
//!                                └── asks twice a second, and reloads ───────┘
//! ```
//!
//! Other clients get the same response as on a cluster. The exceptions also go to the terminal,
//! with the lines of their source.

mod page;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, header};
use tenon_engine::exception::{Exception, ExceptionSink};
use tenon_engine::source_maps;
use tenon_proto::failure::{FailureCode, Place};
use tenon_proto::id::WorkerId;
use tenon_proto::revision::Revision;
use tenon_router::{FailedRequest, Page, Pages};

use super::excerpt::Excerpt;
use super::print;
use crate::served_workers::ServedWorkers;
use page::{Frame, Report};

/// The path at which pages ask for the name of the build. No Worker gets requests for it.
const BUILD_PATH: &str = "/.tenon/build";

/// The beginning of the names of built-in scripts.
const BUILTIN: &str = "tenon:";

/// Maximum number of exceptions that are kept.
const EXCEPTIONS: usize = 64;

/// Maximum number of exceptions of one request that a page shows.
const SHOWN_EXCEPTIONS: usize = 4;

/// Maximum number of frames of a stack that a page shows with their source.
const SHOWN_SOURCES: usize = 8;

/// Maximum number of problems that a page shows.
const SHOWN_PROBLEMS: usize = 20;

/// The pages, and what they show.
#[derive(Debug)]
pub(super) struct Browser {
    /// Domain of Workers without routes. Hosts in this domain count as local.
    domain: String,
    /// Whether the terminal shows the source of exceptions.
    prints: bool,
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    exceptions: VecDeque<Uncaught>,
    workers: BTreeMap<WorkerId, Sources>,
    /// The URLs of the Workers.
    urls: Vec<(String, WorkerId)>,
    problems: Vec<String>,
    /// The time at which the process started, in nanoseconds since the Unix epoch. It tells the
    /// builds of two processes apart.
    started: u128,
    builds: u64,
}

#[derive(Debug)]
struct Uncaught {
    worker: WorkerId,
    /// Name of the revision.
    revision: String,
    request_id: String,
    exception: Exception,
}

/// The modules of a Worker as their author wrote them.
#[derive(Clone, Debug)]
struct Sources {
    revision: String,
    modules: Arc<BTreeMap<String, Bytes>>,
}

impl Browser {
    /// Creates the pages of a process that serves nothing yet.
    pub(super) fn new(domain: String, prints: bool) -> Self {
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let shown = Shown {
            exceptions: VecDeque::new(),
            workers: BTreeMap::new(),
            urls: Vec::new(),
            problems: Vec::new(),
            started: started.as_nanos(),
            builds: 0,
        };
        Self { domain, prints, shown: Mutex::new(shown) }
    }

    /// Replaces the Workers and problems that pages show.
    pub(super) fn load(&self, workers: &ServedWorkers, address: SocketAddr) {
        let mut shown = self.lock();
        let sources = workers.iter().map(|(id, loaded)| {
            let (revision, modules) = (loaded.revision.name.clone(), Arc::clone(&loaded.sources));
            (id.clone(), Sources { revision, modules })
        });
        shown.workers = sources.collect();
        let urls = workers.iter().flat_map(|(id, loaded)| {
            loaded.routes.iter().map(move |route| (print::url(address, route), id.clone()))
        });
        shown.urls = urls.collect();
        shown.problems = workers.problems().iter().map(ToString::to_string).collect();
    }

    /// Makes the open pages reload themselves, because the build that they wait for is served.
    pub(super) fn reload_pages(&self) {
        self.lock().builds += 1;
    }

    /// Returns the part of a source around a place in a Worker, or `None` if the source is unknown.
    fn excerpt(&self, worker: &WorkerId, place: &Place) -> Option<Excerpt> {
        let sources = self.lock().workers.get(worker)?.clone();
        sources.excerpt(place)
    }

    /// Returns whether a request names a host that no foreign site can use as its own. A foreign
    /// site could otherwise let its name resolve to this machine, and read the page.
    fn is_local(&self, request: &Parts) -> bool {
        let host = request.uri.authority().map(|authority| authority.host());
        let host = host.or_else(|| {
            let host = request.headers.get(header::HOST)?.to_str().ok()?;
            let split = host.rsplit_once(':').filter(|(_, port)| is_port(port));
            Some(split.map_or(host, |(name, _)| name))
        });
        let Some(host) = host else { return false };
        let is_within = |domain: &str| {
            host.eq_ignore_ascii_case(domain)
                || host.len() > domain.len()
                    && host.as_bytes()[host.len() - domain.len() - 1] == b'.'
                    && host.as_bytes()[host.len() - domain.len()..]
                        .eq_ignore_ascii_case(domain.as_bytes())
        };
        let address = host.trim_start_matches('[').trim_end_matches(']');
        is_within("localhost") || is_within(&self.domain) || address.parse::<IpAddr>().is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    fn build(&self) -> String {
        format!("{:x}-{}", self.started, self.builds)
    }

    /// Returns the exceptions with which a request has failed, the last one first.
    fn exceptions(&self, failed: &FailedRequest<'_>) -> Vec<(WorkerId, Exception)> {
        let revision =
            failed.worker.and_then(|id| self.workers.get(id)).map(|known| &known.revision);
        let starts = failed.failure.code == FailureCode::WorkerStartFailed;
        let concerns = |uncaught: &&Uncaught| match starts {
            // The start of an isolate belongs to no request.
            true => {
                uncaught.request_id.is_empty()
                    && Some(&uncaught.worker) == failed.worker
                    && Some(&uncaught.revision) == revision
            }
            false => uncaught.request_id == failed.request_id,
        };
        let most = if starts { 1 } else { SHOWN_EXCEPTIONS };
        let last = self.exceptions.iter().rev().filter(concerns).take(most);
        last.map(|uncaught| (uncaught.worker.clone(), uncaught.exception.clone())).collect()
    }
}

impl Sources {
    fn excerpt(&self, place: &Place) -> Option<Excerpt> {
        Excerpt::of(&tenon_compiler::text_of(&self.modules, &place.file)?, place)
    }
}

impl ExceptionSink for Browser {
    fn uncaught(&self, revision: &Revision, request_id: &str, exception: &Exception) {
        let uncaught = Uncaught {
            worker: revision.worker.clone(),
            revision: revision.name.clone(),
            request_id: request_id.to_owned(),
            exception: exception.clone(),
        };
        let mut shown = self.lock();
        if shown.exceptions.len() == EXCEPTIONS {
            shown.exceptions.pop_front();
        }
        shown.exceptions.push_back(uncaught);
        drop(shown);
        if !self.prints {
            return;
        }
        let own = places(exception).into_iter().filter_map(|(_, place)| place).find(is_own);
        let excerpt = own.as_ref().and_then(|place| self.excerpt(&revision.worker, place));
        if let Some((place, excerpt)) = own.zip(excerpt) {
            let (worker, revision) = (revision.worker.as_str(), revision.name.as_str());
            let text = format!("{place}:\n{excerpt}");
            tracing::error!(target: "tenon::worker", worker, revision, "{}", text.trim_end());
        }
    }
}

impl Pages for Browser {
    fn answer(&self, request: &Parts) -> Option<Response<Bytes>> {
        if request.method != Method::GET || request.uri.path() != BUILD_PATH {
            return None;
        }
        let mut response = Response::new(Bytes::from(self.lock().build()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Some(response)
    }

    fn failure(&self, failed: &FailedRequest<'_>) -> Option<Page> {
        if !accepts_html(failed.request) {
            return None;
        }
        let shown = self.lock();
        let (exceptions, build) = (shown.exceptions(failed), shown.build());
        let (urls, mut problems) = (shown.urls.clone(), shown.problems.clone());
        let sources = shown.workers.clone();
        drop(shown);
        let is_local = failed.worker.is_some() || self.is_local(failed.request);
        problems.retain(|_| is_local);
        let hidden = problems.len().saturating_sub(SHOWN_PROBLEMS);
        problems.truncate(SHOWN_PROBLEMS);
        let exceptions = exceptions.into_iter().map(|(worker, exception)| {
            let frames = frames(&exception, |place| sources.get(&worker)?.excerpt(place));
            (exception.message, frames)
        });
        let report = Report {
            failure: failed.failure,
            method: failed.request.method.as_str(),
            path: failed.request.uri.path(),
            request_id: failed.request_id,
            worker: failed.worker,
            exceptions: exceptions.collect(),
            problems,
            hidden,
            urls: if failed.worker.is_none() && is_local { urls } else { Vec::new() },
            // A browser asks before it sends a form again.
            build: (failed.request.method == Method::GET).then_some(build),
        };
        Some(Page { html: report.html(), policy: page::policy() })
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a client names HTML among the types that it accepts, as browsers do.
fn accepts_html(request: &Parts) -> bool {
    let values = request.headers.get_all(header::ACCEPT).into_iter();
    let mut ranges =
        values.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_html = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("text/html"));
        is_html && !parts.any(|parameter| matches!(parameter, "q=0" | "Q=0"))
    })
}

/// Returns the frames of an exception's stack, with their places. If the stack does not begin with
/// the place at which the Worker's code threw, that place comes first.
fn places(exception: &Exception) -> Vec<(String, Option<Place>)> {
    let lines = exception.stack.as_deref().unwrap_or_default().lines();
    let lines = lines.filter_map(|line| line.trim_start().strip_prefix("at "));
    let place = |line| {
        let (_, file, line, column, _) = source_maps::parts(line)?;
        Some(Place { file: file.to_owned(), line, column })
    };
    let mut places: Vec<_> = lines.map(|line| (line.to_owned(), place(line))).collect();
    if let Some(thrown) = &exception.location
        && !thrown.file.starts_with(BUILTIN)
        && places.first().is_none_or(|(_, first)| first.as_ref() != Some(thrown))
    {
        places.insert(0, (thrown.to_string(), Some(thrown.clone())));
    }
    places
}

/// Returns whether a place is in the author's own code.
fn is_own(place: &Place) -> bool {
    !place.file.starts_with(BUILTIN) && !place.file.contains("node_modules/")
}

/// Returns the frames of an exception's stack for a page.
fn frames(exception: &Exception, excerpt: impl Fn(&Place) -> Option<Excerpt>) -> Vec<Frame> {
    let frames = places(exception).into_iter().enumerate().map(|(at, (text, place))| {
        let is_own = place.as_ref().is_some_and(is_own);
        let place = place.filter(|_| at < SHOWN_SOURCES);
        Frame { text, excerpt: place.as_ref().and_then(&excerpt), is_own }
    });
    frames.collect()
}

#[cfg(test)]
#[path = "browser/tests.rs"]
mod tests;

//! Translates the rules of an HTTPRoute into those of the catalog. This module is pure.
//!
//! A route with a value that is not supported is refused as a whole: a rule that is served without
//! one of its conditions or filters would not do what its author wrote.

use http::{HeaderName, HeaderValue, Method};
use kube::ResourceExt as _;
use prost::Message as _;
use tenon_crds::GROUP as TENON;
use tenon_proto::catalog::{
    self, Backend, HeaderChanges, Redirect, RuleAction, RuleMatch, Variable, path_change,
    rule_match,
};
use tenon_proto::id::WorkerId;

use crate::objects::{
    HeaderModifier, HttpBackendRef, HttpRoute, HttpRouteFilter, HttpRouteMatch, HttpRouteRule,
    PathModifier, RequestRedirect, ValueMatch,
};
use crate::references::{ReferenceGrants, Referrer, Target};

/// The maximum size of the rules of a route in the catalog, in bytes. A route with as many matches
/// as its schema allows, of ordinary length, takes a third of it.
const MAX_SIZE: usize = 64 * 1024;

/// The rules of a route, as the catalog has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compiled {
    /// The matches, with the index of the action and without the listeners.
    pub matches: Vec<RuleMatch>,
    pub actions: Vec<RuleAction>,
    /// The Workers to which the route refers and is permitted to refer.
    pub workers: Vec<WorkerId>,
    /// The first reference to a backend that is not valid, and its reason.
    pub invalid: Option<InvalidBackend>,
}

/// A value of a route that is not supported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct UnsupportedValue {
    pub field: String,
    pub problem: String,
}

/// The reason why a reference to a backend is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBackend {
    #[error(
        "{field}: kind {kind} is not served by Tenon; name a Worker of the group tenon.dev. To \
         reach Workers and Services on one host, attach the route to another Gateway, with the \
         Service of the routers as the backend of the paths of Workers"
    )]
    Kind { field: String, kind: String },
    #[error(
        "{field}: namespace {namespace} does not permit the reference to its Worker {name}; create \
         a ReferenceGrant there"
    )]
    NotPermitted { field: String, namespace: String, name: String },
    #[error("there is no Worker {0}; create it, or correct the name")]
    NotFound(WorkerId),
}

impl InvalidBackend {
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Kind { .. } => "InvalidKind",
            Self::NotPermitted { .. } => "RefNotPermitted",
            Self::NotFound(_) => "BackendNotFound",
        }
    }
}

fn unsupported<T>(field: String, problem: impl Into<String>) -> Result<T, UnsupportedValue> {
    Err(UnsupportedValue { field, problem: problem.into() })
}

/// Translates the rules of a route.
///
/// # Errors
/// Fails if the route has a value that is not supported.
pub fn compile(route: &HttpRoute, grants: &ReferenceGrants) -> Result<Compiled, UnsupportedValue> {
    let namespace = route.namespace().unwrap_or_default();
    let mut compiled = Compiled::default();
    for (index, rule) in route.spec.rules.iter().enumerate() {
        let field = format!("spec.rules[{index}]");
        check_rule(rule, &field)?;
        let action = action(rule, &field, &namespace, grants, &mut compiled)?;
        let root = [HttpRouteMatch::default()];
        let matches = if rule.matches.is_empty() { &root[..] } else { &rule.matches };
        for (index, route_match) in matches.iter().enumerate() {
            let conditions = conditions(route_match, &format!("{field}.matches[{index}]"))?;
            let action = u32::try_from(compiled.actions.len()).unwrap_or(u32::MAX);
            compiled.matches.push(RuleMatch { action, ..conditions });
        }
        compiled.actions.push(action);
    }
    let size = compiled.matches.iter().map(RuleMatch::encoded_len).sum::<usize>()
        + compiled.actions.iter().map(RuleAction::encoded_len).sum::<usize>();
    if size > MAX_SIZE {
        let problem =
            format!("the rules take {size} bytes, more than {MAX_SIZE}; divide them among routes");
        return unsupported("spec.rules".to_owned(), problem);
    }
    Ok(compiled)
}

fn check_rule(rule: &HttpRouteRule, field: &str) -> Result<(), UnsupportedValue> {
    for (name, value, remedy) in [
        ("timeouts", &rule.timeouts, "set limits.wallMs of the Worker"),
        ("retry", &rule.retry, "routers repeat idempotent requests by themselves"),
        ("sessionPersistence", &rule.session_persistence, "a Worker stays on its shard"),
    ] {
        if value.is_some() {
            let problem = format!("not supported; remove it: {remedy}");
            return unsupported(format!("{field}.{name}"), problem);
        }
    }
    Ok(())
}

fn conditions(route_match: &HttpRouteMatch, field: &str) -> Result<RuleMatch, UnsupportedValue> {
    let path = route_match.path.clone().unwrap_or_default();
    let value = path.value.unwrap_or_else(|| "/".to_owned());
    let path = match path.type_.as_deref().unwrap_or("PathPrefix") {
        "PathPrefix" => rule_match::Path::Prefix(value),
        "Exact" => rule_match::Path::Exact(value),
        other => {
            let problem = format!("{other} is not supported; use Exact or PathPrefix");
            return unsupported(format!("{field}.path.type"), problem);
        }
    };
    let method = route_match.method.clone().unwrap_or_default();
    if !method.is_empty() && Method::from_bytes(method.as_bytes()).is_err() {
        return unsupported(format!("{field}.method"), "not an HTTP method; correct it");
    }
    let mut headers: Vec<Variable> = Vec::new();
    for (index, header) in route_match.headers.iter().enumerate() {
        let field = format!("{field}.headers[{index}]");
        check_exact(header, &field)?;
        let name = header_name(&header.name, &field)?;
        // Only the first entry of a name counts.
        if headers.iter().all(|known| known.name != name) {
            headers.push(Variable { name, value: header.value.clone() });
        }
    }
    let mut query: Vec<Variable> = Vec::new();
    for (index, parameter) in route_match.query_params.iter().enumerate() {
        check_exact(parameter, &format!("{field}.queryParams[{index}]"))?;
        if query.iter().all(|known| known.name != parameter.name) {
            let ValueMatch { name, value, .. } = parameter.clone();
            query.push(Variable { name, value });
        }
    }
    Ok(RuleMatch { path: Some(path), method, headers, query, ..RuleMatch::default() })
}

fn check_exact(value: &ValueMatch, field: &str) -> Result<(), UnsupportedValue> {
    match value.type_.as_deref().unwrap_or("Exact") {
        "Exact" => Ok(()),
        other => {
            unsupported(format!("{field}.type"), format!("{other} is not supported; use Exact"))
        }
    }
}

fn header_name(name: &str, field: &str) -> Result<String, UnsupportedValue> {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(_) => unsupported(format!("{field}.name"), "not a header name; correct it"),
    }
}

fn action(
    rule: &HttpRouteRule,
    field: &str,
    namespace: &str,
    grants: &ReferenceGrants,
    compiled: &mut Compiled,
) -> Result<RuleAction, UnsupportedValue> {
    let mut action = RuleAction::default();
    for (index, filter) in rule.filters.iter().enumerate() {
        apply(filter, &mut action, &format!("{field}.filters[{index}]"))?;
    }
    for (index, reference) in rule.backend_refs.iter().enumerate() {
        let field = format!("{field}.backendRefs[{index}]");
        if !reference.filters.is_empty() {
            let problem = "not supported; use the filters of the rule";
            return unsupported(format!("{field}.filters"), problem);
        }
        let worker = match backend(reference, field, namespace, grants) {
            Ok(worker) => {
                compiled.workers.push(worker.clone());
                worker.to_string()
            }
            Err(invalid) => {
                compiled.invalid.get_or_insert(invalid);
                String::new()
            }
        };
        let weight = u32::try_from(reference.weight.unwrap_or(1)).unwrap_or(0);
        action.backends.push(Backend { worker, weight });
    }
    Ok(action)
}

fn backend(
    reference: &HttpBackendRef,
    field: String,
    namespace: &str,
    grants: &ReferenceGrants,
) -> Result<WorkerId, InvalidBackend> {
    let object = &reference.object;
    let (group, kind) = (object.group.as_deref(), object.kind.as_deref().unwrap_or("Service"));
    if (group.unwrap_or_default(), kind) != (TENON, "Worker") {
        return Err(InvalidBackend::Kind { field, kind: kind.to_owned() });
    }
    let target_namespace = object.namespace.as_deref().unwrap_or(namespace);
    let target =
        Target { group: TENON, kind: "Worker", namespace: target_namespace, name: &object.name };
    if !grants.permit(Referrer::HttpRoute, namespace, target) {
        let (namespace, name) = (target_namespace.to_owned(), object.name.clone());
        return Err(InvalidBackend::NotPermitted { field, namespace, name });
    }
    Ok(WorkerId::new(target_namespace, &object.name))
}

fn apply(
    filter: &HttpRouteFilter,
    action: &mut RuleAction,
    field: &str,
) -> Result<(), UnsupportedValue> {
    let missing = |name: &str| UnsupportedValue {
        field: format!("{field}.{name}"),
        problem: "missing; set it".to_owned(),
    };
    match filter.type_.as_str() {
        "RequestHeaderModifier" => {
            let name = "requestHeaderModifier";
            let changes = filter.request_header_modifier.as_ref().ok_or_else(|| missing(name))?;
            action.request_headers = Some(header_changes(changes, &format!("{field}.{name}"))?);
        }
        "ResponseHeaderModifier" => {
            let name = "responseHeaderModifier";
            let changes = filter.response_header_modifier.as_ref().ok_or_else(|| missing(name))?;
            action.response_headers = Some(header_changes(changes, &format!("{field}.{name}"))?);
        }
        "RequestRedirect" => {
            let name = "requestRedirect";
            let redirect = filter.request_redirect.as_ref().ok_or_else(|| missing(name))?;
            action.redirect = Some(redirect_of(redirect, &format!("{field}.{name}"))?);
        }
        "URLRewrite" => {
            let rewrite = filter.url_rewrite.as_ref().ok_or_else(|| missing("urlRewrite"))?;
            action.rewrite_host = rewrite.hostname.clone().unwrap_or_default();
            let field = format!("{field}.urlRewrite.path");
            action.rewrite_path =
                rewrite.path.as_ref().map(|path| path_change(path, &field)).transpose()?;
        }
        other => {
            let problem = format!(
                "{other} is not supported; use RequestHeaderModifier, ResponseHeaderModifier, \
                 RequestRedirect or URLRewrite"
            );
            return unsupported(format!("{field}.type"), problem);
        }
    }
    Ok(())
}

/// Returns whether a header is one that the routers set themselves.
fn is_reserved(name: &str) -> bool {
    name.starts_with("tenon-")
        || matches!(
            name,
            "connection"
                | "content-length"
                | "host"
                | "keep-alive"
                | "proxy-connection"
                | "te"
                | "trailer"
                | "transfer-encoding"
                | "upgrade"
        )
}

fn header_changes(
    changes: &HeaderModifier,
    field: &str,
) -> Result<HeaderChanges, UnsupportedValue> {
    let name = |name: &str, list: &str| {
        let field = format!("{field}.{list}");
        let name = header_name(name, &field)?;
        if is_reserved(&name) {
            return unsupported(field, format!("the routers set {name} themselves; remove it"));
        }
        Ok(name)
    };
    let values = |headers: &[crate::objects::Header], list: &str| {
        let value = |header: &crate::objects::Header| {
            if HeaderValue::from_str(&header.value).is_err() {
                let problem = format!("the value of {} is not valid; correct it", header.name);
                return unsupported(format!("{field}.{list}"), problem);
            }
            Ok(Variable { name: name(&header.name, list)?, value: header.value.clone() })
        };
        headers.iter().map(value).collect::<Result<Vec<_>, _>>()
    };
    Ok(HeaderChanges {
        set: values(&changes.set, "set")?,
        add: values(&changes.add, "add")?,
        remove: changes
            .remove
            .iter()
            .map(|header| name(header, "remove"))
            .collect::<Result<_, _>>()?,
    })
}

fn redirect_of(redirect: &RequestRedirect, field: &str) -> Result<Redirect, UnsupportedValue> {
    let scheme = redirect.scheme.clone().unwrap_or_default();
    if !matches!(scheme.as_str(), "" | "http" | "https") {
        return unsupported(format!("{field}.scheme"), "not supported; use http or https");
    }
    let status = redirect.status_code.unwrap_or(302);
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        let problem = "not supported; use 301, 302, 303, 307 or 308";
        return unsupported(format!("{field}.statusCode"), problem);
    }
    let path = redirect.path.as_ref();
    Ok(Redirect {
        scheme,
        host: redirect.hostname.clone().unwrap_or_default(),
        port: redirect.port.and_then(|port| u32::try_from(port).ok()).unwrap_or(0),
        path: path.map(|path| path_change(path, &format!("{field}.path"))).transpose()?,
        status: status.unsigned_abs(),
    })
}

fn path_change(path: &PathModifier, field: &str) -> Result<catalog::PathChange, UnsupportedValue> {
    let change = match path.type_.as_str() {
        "ReplaceFullPath" => {
            path_change::Change::Full(path.replace_full_path.clone().unwrap_or_default())
        }
        "ReplacePrefixMatch" => {
            path_change::Change::Prefix(path.replace_prefix_match.clone().unwrap_or_default())
        }
        other => {
            let problem =
                format!("{other} is not supported; use ReplaceFullPath or ReplacePrefixMatch");
            return unsupported(format!("{field}.type"), problem);
        }
    };
    Ok(catalog::PathChange { change: Some(change) })
}

#[cfg(test)]
mod tests;

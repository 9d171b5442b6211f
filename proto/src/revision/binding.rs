//! Bindings: the capabilities that code gets, as properties of `env`.

use std::collections::BTreeMap;

use crate::id::WorkerId;

/// A capability given to code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// A variable: text of the Worker's spec.
    Var(String),
    /// The value of a key of a Secret.
    Secret(String),
    /// An export of another Worker of the same namespace.
    Service(BoundService),
    /// The Worker's own static files.
    Assets,
}

/// An export of another Worker, which takes requests and calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundService {
    pub worker: WorkerId,
    /// Name of the export; `None` for the default export.
    pub entrypoint: Option<String>,
}

impl From<WorkerId> for BoundService {
    fn from(worker: WorkerId) -> Self {
        Self { worker, entrypoint: None }
    }
}

/// The bindings of a revision by kind, each kind sorted by name. This is the order of bindings in
/// messages, in the digest and in `env`.
///
/// Code that handles every kind destructures this struct, so that the compiler names that code when
/// a kind is added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByKind<'a> {
    pub vars: Vec<(&'a str, &'a str)>,
    pub secrets: Vec<(&'a str, &'a str)>,
    pub services: Vec<(&'a str, &'a BoundService)>,
    /// The name of the binding to the static files, of which there is at most one.
    pub assets: Option<&'a str>,
}

impl<'a> ByKind<'a> {
    /// Groups bindings by kind.
    pub fn of(bindings: &'a BTreeMap<String, Binding>) -> Self {
        let mut by_kind = Self::default();
        for (name, binding) in bindings {
            match binding {
                Binding::Var(value) => by_kind.vars.push((name, value)),
                Binding::Secret(value) => by_kind.secrets.push((name, value)),
                Binding::Service(service) => by_kind.services.push((name, service)),
                Binding::Assets => by_kind.assets = Some(name),
            }
        }
        by_kind
    }
}

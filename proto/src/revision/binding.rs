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
    /// Another Worker of the same namespace.
    Service(WorkerId),
    /// The Worker's own static files.
    Assets,
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
    pub services: Vec<(&'a str, &'a WorkerId)>,
    /// The name of the binding to the static files, of which there is at most one.
    pub assets: Option<&'a str>,
}

impl<'a> ByKind<'a> {
    pub fn of(bindings: &'a BTreeMap<String, Binding>) -> Self {
        let mut by_kind = Self::default();
        for (name, binding) in bindings {
            match binding {
                Binding::Var(value) => by_kind.vars.push((name, value)),
                Binding::Secret(value) => by_kind.secrets.push((name, value)),
                Binding::Service(worker) => by_kind.services.push((name, worker)),
                Binding::Assets => by_kind.assets = Some(name),
            }
        }
        by_kind
    }
}

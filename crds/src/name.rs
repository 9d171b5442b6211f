//! Patterns of Kubernetes names, as regular expressions, so that a reference to an object that
//! cannot exist is rejected at once.

/// The name of most kinds of objects, which also has at most 253 characters.
pub(crate) const DNS_SUBDOMAIN: &str =
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// A key of a Secret or ConfigMap, which also has at most 253 characters. It cannot begin with two
/// dots, which would name another directory.
pub(crate) const DATA_KEY: &str = "^[.]?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$";

/// The name of a RuntimePool, short enough for the names of the objects derived from it.
pub(crate) const POOL: &str = "^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$";

/// The name of an inline module: a relative path without `.` and `..` segments.
pub(crate) const MODULE: &str = "^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$";

/// The name of a binding in a handler's `env`.
pub(crate) const BINDING: &str = "^[A-Za-z_][A-Za-z0-9_]{0,62}$";

/// A reference to an OCI artifact: the host of a registry, a repository, and a tag or a digest.
/// Without a dot or a port, the first part would be a repository of Docker Hub.
pub(crate) const IMAGE: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+(:[0-9]{1,5})?|[a-z0-9]([-a-z0-9]*[a-z0-9])?:[0-9]{1,5})(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][-._A-Za-z0-9]{0,127}|@sha256:[0-9a-f]{64})$";

//! What Kubernetes takes for names, as regular expressions: a reference to what cannot be there is refused at once.

/// A name of most kinds; it has at most 253 characters.
pub(crate) const DNS_SUBDOMAIN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// A key of a Secret or ConfigMap; it has at most 253 characters, and two dots would name another folder.
pub(crate) const DATA_KEY: &str = "^[.]?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$";

/// A name of a RuntimePool, short enough for those of what it becomes.
pub(crate) const POOL: &str = "^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$";

/// A name of an inline module: a relative path without `.` and `..` segments.
pub(crate) const MODULE: &str = "^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$";

/// A name in a handler's `env`.
pub(crate) const BINDING: &str = "^[A-Za-z_][A-Za-z0-9_]{0,62}$";

//! Regular expressions for Kubernetes names. With these patterns, the API server rejects a
//! reference to an object that cannot exist.

/// Pattern of the name of most kinds of objects. Such a name also has at most 253 characters.
pub(crate) const DNS_SUBDOMAIN: &str =
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Pattern of a key of a Secret or ConfigMap. A key also has at most 253 characters. It cannot
/// begin with two dots, because volumes use such file names themselves.
pub(crate) const DATA_KEY: &str = "^[.]?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$";

/// Pattern of the name of a RuntimePool. The name is short enough to be part of the names of the
/// pool's objects.
pub(crate) const POOL: &str = "^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$";

/// Pattern of the name of an inline module: a relative path without `.` and `..` segments.
pub(crate) const MODULE: &str = "^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$";

/// Pattern of the name of a binding in a handler's `env`.
pub(crate) const BINDING: &str = "^[A-Za-z_][A-Za-z0-9_]{0,62}$";

/// Pattern of a reference to an OCI artifact: the host of a registry, a repository, and a tag or a
/// digest. The host has a dot or a port, because a reference whose first part has neither names a
/// repository of Docker Hub.
pub(crate) const IMAGE: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+(:[0-9]{1,5})?|[a-z0-9]([-a-z0-9]*[a-z0-9])?:[0-9]{1,5})(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][-._A-Za-z0-9]{0,127}|@sha256:[0-9a-f]{64})$";

/// Pattern of the name of a namespace, which also has at most 63 characters.
pub(crate) const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Pattern of a host in lower case, which may begin with a wildcard.
pub(crate) const HOST: &str =
    "^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$";

//! Modules that the runtime provides. Programs for Cloudflare Workers import `cloudflare:sockets`
//! and `cloudflare:workers`. Workers that set a compatibility flag also get the supported modules
//! of Node.js, and `cloudflare:node`, which hands requests to servers of `node:http`.
//!
//! A Node.js module can be imported as `node:buffer` or as `buffer`, as in Node.js, except for
//! [`PREFIXED`]. A Worker's own module takes precedence over a built-in module of the same name.

use crate::revision::CompatibilityFlag;

/// The supported Node.js modules, by the names in Node.js's documentation.
pub const BUILTINS: [&str; 54] = [
    "assert",
    "assert/strict",
    "async_hooks",
    "buffer",
    "child_process",
    "cluster",
    "console",
    "constants",
    "crypto",
    "dgram",
    "diagnostics_channel",
    "dns",
    "dns/promises",
    "domain",
    "events",
    "fs",
    "fs/promises",
    "http",
    "http2",
    "https",
    "inspector",
    "inspector/promises",
    "module",
    "net",
    "os",
    "path",
    "path/posix",
    "perf_hooks",
    "process",
    "punycode",
    "querystring",
    "readline",
    "readline/promises",
    "repl",
    "stream",
    "stream/consumers",
    "stream/promises",
    "stream/web",
    "string_decoder",
    "sys",
    "test",
    "timers",
    "timers/promises",
    "tls",
    "trace_events",
    "tty",
    "url",
    "util",
    "util/types",
    "v8",
    "vm",
    "wasi",
    "worker_threads",
    "zlib",
];

/// The only module in [`BUILTINS`] that Node.js requires the prefix `node:` for.
pub const PREFIXED: &str = "test";

/// The URL scheme of Node.js modules.
const SCHEME: &str = "node:";

/// The modules that are available regardless of flags: the one that opens TCP connections, and the
/// one that exports a Worker's bindings and invocation context, for code that receives no `env` and
/// no `ctx`.
const CLOUDFLARE: [&str; 2] = ["cloudflare:sockets", "cloudflare:workers"];

/// The module that hands requests to servers of `node:http`.
const SERVERS: &str = "cloudflare:node";

/// The URL scheme of [`CLOUDFLARE`] and [`SERVERS`].
const CLOUDFLARE_SCHEME: &str = "cloudflare:";

/// The reason why a built-in module is not available.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotBuiltin {
    #[error(
        "\"{0}\" is a Node.js module and needs the compatibility flag {flag}; add the flag to spec.compatibilityFlags",
        flag = CompatibilityFlag::NodejsCompat
    )]
    NeedsFlag(String),
    #[error(
        "module \"{0}\" is not supported; use {own} or one of the Node.js modules {list}",
        own = CLOUDFLARE.join(", "),
        list = BUILTINS.join(", ")
    )]
    Unknown(String),
}

/// Returns the canonical name, with its scheme, of the built-in module to which a specifier refers,
/// or `None` if the specifier refers to no built-in module. Callers must first look for a module of
/// the Worker with that name.
///
/// # Errors
/// Fails if the specifier refers to a built-in module that is not available.
pub fn builtin(
    specifier: &str,
    flags: impl IntoIterator<Item = CompatibilityFlag>,
) -> Result<Option<String>, NotBuiltin> {
    if CLOUDFLARE.contains(&specifier) {
        return Ok(Some(specifier.to_owned()));
    }
    let marked = specifier.strip_prefix(SCHEME);
    let name = marked.unwrap_or(specifier);
    let is_known = (BUILTINS.contains(&name) && specifier != PREFIXED) || specifier == SERVERS;
    let has_flag = flags.into_iter().any(|flag| flag == CompatibilityFlag::NodejsCompat);
    match (is_known, has_flag) {
        (true, true) if specifier == SERVERS => Ok(Some(specifier.to_owned())),
        (true, true) => Ok(Some(format!("{SCHEME}{name}"))),
        (true, false) => Err(NotBuiltin::NeedsFlag(specifier.to_owned())),
        (false, _) if marked.is_some() || specifier.starts_with(CLOUDFLARE_SCHEME) => {
            Err(NotBuiltin::Unknown(specifier.to_owned()))
        }
        (false, _) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAG: [CompatibilityFlag; 1] = [CompatibilityFlag::NodejsCompat];

    #[test]
    fn a_module_of_node_js_is_known_with_and_without_its_scheme() {
        for specifier in ["node:util/types", "util/types"] {
            assert_eq!(builtin(specifier, FLAG), Ok(Some("node:util/types".to_owned())));
        }
    }

    #[test]
    fn the_test_module_is_known_only_with_its_scheme() {
        assert_eq!(builtin("node:test", FLAG), Ok(Some("node:test".to_owned())));
        assert_eq!(builtin("test", FLAG), Ok(None));
        assert_eq!(builtin("test", []), Ok(None));
    }

    #[test]
    fn an_error_without_the_flag_names_the_flag() {
        let error = builtin("node:buffer", []).unwrap_err();
        assert!(error.to_string().contains("nodejs_compat"), "{error}");
        assert!(builtin("buffer", []).is_err());
    }

    #[test]
    fn cloudflares_modules_are_available_regardless_of_flags() {
        for name in CLOUDFLARE {
            assert_eq!(builtin(name, []), Ok(Some(name.to_owned())));
            assert!(builtin("cloudflare:email", FLAG).unwrap_err().to_string().contains(name));
        }
    }

    #[test]
    fn the_module_for_servers_of_node_js_needs_the_flag() {
        assert_eq!(builtin(SERVERS, FLAG), Ok(Some(SERVERS.to_owned())));
        assert_eq!(builtin(SERVERS, []), Err(NotBuiltin::NeedsFlag(SERVERS.to_owned())));
        assert!(builtin("node:cloudflare:node", FLAG).is_err());
    }

    #[test]
    fn the_error_for_an_unknown_node_module_lists_the_known_ones() {
        let error = builtin("node:sqlite", FLAG).unwrap_err();
        assert!(error.to_string().contains("buffer, "), "{error}");
        assert_eq!(builtin("sqlite", FLAG), Ok(None));
        assert_eq!(builtin("./buffer", []), Ok(None));
    }
}

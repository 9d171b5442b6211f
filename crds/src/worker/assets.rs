//! `spec.assets` of a Worker.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name;

/// Static files, which routers serve without running the Worker. They are in the OCI artifact of
/// `source.oci`; `tenon deploy --registry` adds them. Requests for which there is no file, and
/// those with methods other than GET and HEAD, go to the Worker.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assets {
    /// Name of the binding in the handler's `env`; `env.NAME.fetch(request)` serves a file. Not
    /// bound by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(format!("self.matches('{}')", name::BINDING))
        .message("spec.assets.binding: invalid name; use an identifier of at most 63 letters, digits and underscores"))]
    pub binding: Option<String>,

    /// URLs of HTML pages. `AutoTrailingSlash`: `/a` for `a.html` and `/a/` for `a/index.html`;
    /// `ForceTrailingSlash`: `/a/` for both; `DropTrailingSlash`: `/a` for both; `None`: the path
    /// of the file. Other URLs of a page redirect to this one.
    #[serde(default, skip_serializing_if = "HtmlHandling::is_default")]
    pub html_handling: HtmlHandling,

    /// Response to a path without a file. `None`: that of the Worker; `NotFoundPage`: the nearest
    /// `404.html`, when the Worker asks for such a path; `SinglePageApplication`: `/index.html`,
    /// when the Worker asks or a browser opens the path as a page.
    #[serde(default, skip_serializing_if = "NotFoundHandling::is_default")]
    pub not_found_handling: NotFoundHandling,

    /// Paths for which the Worker runs although there may be a file, such as `/api/*`, or `/*` for
    /// all. A path that begins with `!`, such as `!/api/docs/*`, is an exception.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = Rule::new("self.all(path, path.matches('^!?/[^*:]*([*][^*:]*)?$'))")
        .message("spec.assets.runWorkerFirst: invalid path; use a path that begins with / or !/ and has at most one *"))]
    pub run_worker_first: Vec<String>,
}

/// The URLs of HTML pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HtmlHandling {
    #[default]
    AutoTrailingSlash,
    ForceTrailingSlash,
    DropTrailingSlash,
    None,
}

impl HtmlHandling {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The response to a path without a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NotFoundHandling {
    #[default]
    None,
    NotFoundPage,
    SinglePageApplication,
}

impl NotFoundHandling {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

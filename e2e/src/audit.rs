//! Reads the API server's audit log, which has a line for every request of a ServiceAccount, except
//! those of the accounts in `kube-system`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::Context;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// The part of the log that a test reads.
pub struct AuditLog {
    path: PathBuf,
    /// Offset in the log at which reading starts, in bytes.
    from: u64,
}

impl AuditLog {
    /// Opens the log of the cluster at its beginning.
    ///
    /// # Errors
    /// Fails if `TENON_E2E_AUDIT_LOG` is not set.
    pub fn open() -> anyhow::Result<Self> {
        let path = std::env::var_os("TENON_E2E_AUDIT_LOG").map(PathBuf::from);
        let path = path.context(
            "TENON_E2E_AUDIT_LOG is not set; run the suite with `make test-e2e`, whose API server writes an audit log",
        )?;
        Ok(Self { path, from: 0 })
    }

    /// Returns a view of the log that contains only requests from now on.
    ///
    /// # Errors
    /// Fails if the log cannot be read.
    pub fn from_now(self) -> anyhow::Result<Self> {
        let from = std::fs::metadata(&self.path)?.len();
        Ok(Self { from, ..self })
    }

    /// Returns the requests in the log.
    ///
    /// # Errors
    /// Fails if the log cannot be read, or a line is not the record of a request.
    pub fn requests(&self) -> anyhow::Result<Vec<Request>> {
        let (mut log, mut text) = (File::open(&self.path)?, String::new());
        log.seek(SeekFrom::Start(self.from))?;
        log.read_to_string(&mut text)?;
        // The last line may be incomplete.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
    }
}

/// The part of a logged request that the tests need.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub user: User,
    pub verb: String,
    pub object_ref: Option<ObjectRef>,
    pub response_status: Option<ResponseStatus>,
    pub request_received_timestamp: Timestamp,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Request {
    /// Returns whether the request was refused because the user lacks a right. Status 403 does not
    /// prove this, because every request to create an object in a namespace that is being deleted
    /// also gets this status.
    pub fn is_forbidden(&self) -> bool {
        self.annotations
            .get("authorization.k8s.io/decision")
            .is_some_and(|decision| decision == "forbid")
    }

    /// Returns the resource that the request concerns, such as `workers/status`, or an empty string
    /// if the request concerns no object.
    pub fn resource(&self) -> String {
        let Some(object) = &self.object_ref else { return String::new() };
        match &object.subresource {
            Some(part) => format!("{}/{part}", object.resource),
            None => object.resource.clone(),
        }
    }

    /// Returns whether the request is a successful write.
    pub fn has_written(&self) -> bool {
        let reads = ["get", "list", "watch"].contains(&&*self.verb);
        let code = self.response_status.as_ref().map_or(0, |status| status.code);
        !reads && (200..300).contains(&code)
    }

    pub fn is_in(&self, namespace: &str) -> bool {
        self.object_ref
            .as_ref()
            .is_some_and(|object| object.namespace.as_deref() == Some(namespace))
    }
}

/// The account of a request.
#[derive(Debug, Deserialize)]
pub struct User {
    pub username: String,
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The object of a request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    #[serde(default)]
    pub api_group: String,
    pub resource: String,
    pub subresource: Option<String>,
    pub namespace: Option<String>,
}

/// The answer to a request.
#[derive(Debug, Deserialize)]
pub struct ResponseStatus {
    pub code: u16,
}

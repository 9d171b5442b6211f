//! Converts the API server's refusals of writes into reasons of a condition. This module is pure.
//!
//! ```text
//!  too large, quota, policy, permission, schema ─► Stalled: a retry fails until a person has acted
//!  an internal error, such as a webhook's ───────► Reconciling: a retry may succeed
//!  no answer, a conflict, overload ──────────────► none: only the retry
//! ```

use crate::kstatus::Progress;

/// The API server's answer to a write that it does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: &'static str,
    pub message: String,
    pub progress: Progress,
}

impl Refusal {
    /// Returns the refusal, or `None` if the failure of the write needs nothing but a retry.
    pub fn of(error: &kube::Error) -> Option<Self> {
        let kube::Error::Api(status) = error else { return None };
        let (reason, progress, remedy) = classify(status.code, &status.message)?;
        let message = format!("the API server refuses the write: {}; {remedy}", status.message);
        Some(Self { reason, message, progress })
    }
}

fn classify(code: u16, message: &str) -> Option<(&'static str, Progress, &'static str)> {
    use Progress::{Reconciling, Stalled};
    Some(match code {
        413 => TOO_LARGE,
        // The API server passes on etcd's limit on the size as an internal error.
        500 if message.contains("too large") || message.contains("larger than max") => TOO_LARGE,
        500 => ("ApiServerError", Reconciling, "the write is retried"),
        403 if message.contains("exceeded quota") => {
            ("QuotaExceeded", Stalled, "raise the ResourceQuota, or delete objects that it counts")
        }
        // Admission webhooks choose their own codes.
        400..=499 if message.contains("denied") => {
            ("AdmissionDenied", Stalled, "change the object, or the policy that denies it")
        }
        403 => ("Forbidden", Stalled, "grant the operator the permission"),
        401 | 408 | 409 | 429 => return None,
        400..=499 => ("Invalid", Stalled, "change the object"),
        _ => return None,
    })
}

const TOO_LARGE: (&str, Progress, &str) =
    ("TooLarge", Progress::Stalled, "make the modules smaller");

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn reason(code: u16, message: &str) -> Option<(&'static str, Progress)> {
        let status = Status::failure(message, "Reason").with_code(code).boxed();
        Refusal::of(&kube::Error::Api(status)).map(|refusal| (refusal.reason, refusal.progress))
    }

    #[test]
    fn a_refusal_that_only_a_person_can_end_is_stalled() {
        let quota = r#"workerrevisions.tenon.dev "a-1" is forbidden: exceeded quota: few, requested: count/workerrevisions.tenon.dev=1, used: …"#;
        let policy = r#"workerrevisions.tenon.dev "a-1" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'all' denied request: not today"#;
        for (code, message, expected) in [
            (403, quota, "QuotaExceeded"),
            (422, policy, "AdmissionDenied"),
            (403, policy, "AdmissionDenied"),
            (400, r#"admission webhook "x.example.com" denied the request: no"#, "AdmissionDenied"),
            (403, "User \"x\" cannot patch resource \"workerrevisions\"", "Forbidden"),
            (422, "spec.modules: Too long: may not be more than 3 bytes", "Invalid"),
            (413, "Request entity too large: limit is 3145728", "TooLarge"),
            (500, "etcdserver: request is too large", "TooLarge"),
            (500, "rpc error: trying to send message larger than max (3 vs. 2)", "TooLarge"),
        ] {
            assert_eq!(reason(code, message), Some((expected, Progress::Stalled)), "{message}");
        }
    }

    #[test]
    fn a_failure_that_may_pass_is_not_stalled() {
        let webhook = "Internal error occurred: failed calling webhook \"x\": timed out";
        assert_eq!(reason(500, webhook), Some(("ApiServerError", Progress::Reconciling)));
        for code in [401, 409, 429, 503, 504] {
            assert_eq!(reason(code, "later"), None, "{code}");
        }
    }
}

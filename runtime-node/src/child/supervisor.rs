//! The handle with which a process asks its supervisor where a revision runs, fetches the
//! revision's code, and sends notices.

use std::time::Duration;

use futures::{Stream, TryStreamExt as _, stream};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, ShardId};
use tenon_proto::node::notice::Notice as NoticeKind;
use tenon_proto::node::place_response::Part;
use tenon_proto::node::placed::Verdict;
use tenon_proto::node::report_profile_request::Report;
use tenon_proto::node::supervisor_client::SupervisorClient;
use tenon_proto::node::{
    self, GetRevisionResponse, KeepBytecodeRequest, Notice, PlaceRequest, PlaceResponse,
    ReportProfileRequest,
};
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::notice;

/// Maximum size of the bytecode in one message, in bytes.
const PIECE: usize = 1 << 20;

/// A handle to the supervisor, for any thread.
#[derive(Clone)]
pub struct Supervisor {
    pub(super) id: ShardId,
    pub(super) client: SupervisorClient<Channel>,
    pub(super) notices_tx: mpsc::UnboundedSender<Notice>,
}

/// The supervisor's reply to a placement request.
#[derive(Debug)]
pub(crate) enum PlacementReply {
    /// The revision runs in this process. Contains the revision's code if the code was requested.
    Here(Option<Delivery>),
    /// The revision runs in another process of this node.
    Elsewhere,
    /// The revision is quarantined for this long.
    Quarantined(Duration),
}

/// The part of a placement reply that follows the decision: the revision's code.
#[derive(Debug)]
pub(crate) struct Delivery(Box<Streaming<PlaceResponse>>);

impl Delivery {
    pub(crate) fn code(self) -> impl Stream<Item = Result<GetRevisionResponse, Status>> + Unpin {
        Box::pin(self.0.try_filter_map(async |PlaceResponse { part }| match part {
            Some(Part::Code(code)) => Ok(Some(code)),
            Some(Part::Placed(_)) | None => Ok(None),
        }))
    }
}

impl Supervisor {
    /// Asks where a revision runs.
    ///
    /// # Arguments
    /// * `stay` - set if the request can no longer be sent elsewhere.
    /// * `send` - set to request the code as well.
    ///
    /// # Errors
    /// Fails if the supervisor does not answer, or sends a malformed response.
    pub(crate) async fn place(
        &self,
        worker: &str,
        digest: &RevisionDigest,
        stay: bool,
        send: bool,
    ) -> Result<PlacementReply, Failure> {
        let digest = digest.as_bytes().to_vec().into();
        let request = PlaceRequest { digest, worker: worker.to_owned(), stay, send };
        let failure = |code, message: &str| Err(Failure::new(code, Phase::Admission, message));
        let answer = async {
            let mut parts = self.client.clone().place(request).await?.into_inner();
            Ok::<_, Status>((parts.message().await?, parts))
        };
        let (placed, parts) = match answer.await {
            Ok((Some(PlaceResponse { part: Some(Part::Placed(placed)) }), parts)) => {
                (placed, parts)
            }
            Ok(_) => {
                return failure(
                    FailureCode::Internal,
                    "the supervisor's response violates the protocol",
                );
            }
            Err(status) => {
                tracing::warn!(%status, "cannot ask the supervisor where a revision runs");
                return failure(FailureCode::RevisionUnavailable, "the node is about to restart");
            }
        };
        match placed.verdict() {
            Verdict::Here => Ok(PlacementReply::Here(send.then(|| Delivery(Box::new(parts))))),
            Verdict::Elsewhere => Ok(PlacementReply::Elsewhere),
            Verdict::Quarantined => {
                Ok(PlacementReply::Quarantined(Duration::from_millis(placed.remaining_ms)))
            }
            Verdict::Unspecified => {
                failure(FailureCode::Internal, "the supervisor's response violates the protocol")
            }
        }
    }

    /// Fetches a revision from the supervisor's store: the catalog's messages and bytecode.
    ///
    /// # Errors
    /// Fails with the status of the supervisor's own source, or if the supervisor does not answer.
    pub(crate) async fn get_revision(
        &self,
        worker: &str,
        digest: &RevisionDigest,
    ) -> Result<Streaming<GetRevisionResponse>, Status> {
        let (digest, worker) = (digest.as_bytes().to_vec(), worker.to_owned());
        let request = tenon_proto::catalog::GetRevisionRequest { digest, worker };
        self.client.clone().get_revision(request).await.map(tonic::Response::into_inner)
    }

    /// Stores bytecode with the supervisor, for later starts on any shard.
    pub(crate) async fn keep_bytecode(&self, digest: &RevisionDigest, bytecode: bytes::Bytes) {
        let digest = bytes::Bytes::copy_from_slice(digest.as_bytes());
        let pieces = (0..bytecode.len()).step_by(PIECE).map(move |at| KeepBytecodeRequest {
            digest: digest.clone(),
            bytecode: bytecode.slice(at..bytecode.len().min(at + PIECE)),
        });
        if let Err(status) = self.client.clone().keep_bytecode(stream::iter(pieces)).await {
            tracing::debug!(%status, "the supervisor did not store bytecode");
        }
    }

    /// Reports the next part of a profile, and waits until the client has taken the previous part.
    ///
    /// # Errors
    /// Fails if the profile is no longer wanted.
    pub(crate) async fn report_profile(&self, id: u64, report: Report) -> Result<(), Status> {
        let request = ReportProfileRequest { id, report: Some(report) };
        self.client.clone().report_profile(request).await.map(drop)
    }

    pub(crate) fn is_lane(&self) -> bool {
        self.id.is_lane()
    }

    /// Reports that the process serves.
    pub(crate) fn report_ready(&self) {
        self.notify(NoticeKind::Ready(node::Ready {}));
    }

    /// Reports that the revision had a long turn or a long garbage collection.
    pub(crate) fn report_heavy(&self, digest: &RevisionDigest) {
        self.notify(NoticeKind::Heavy(node::Heavy { digest: digest.as_bytes().to_vec().into() }));
    }

    /// Reports this many more requests of the revision, none of which had a long turn or a long
    /// garbage collection.
    pub(crate) fn report_light(&self, digest: &RevisionDigest, requests: u32) {
        self.notify(NoticeKind::Light(node::Light {
            digest: digest.as_bytes().to_vec().into(),
            requests,
        }));
    }

    /// Reports that the start of a revision that the supervisor has ordered in advance (`Prestart`)
    /// has ended, successfully or not.
    pub(crate) fn report_warm(&self, digest: &RevisionDigest) {
        self.notify(NoticeKind::Warm(node::Warm { digest: digest.as_bytes().to_vec().into() }));
    }

    /// Reports that a resource that the process cannot recover is nearly used up.
    pub(crate) fn report_worn(&self) {
        self.notify(NoticeKind::Worn(node::Worn {}));
    }

    /// Sends a report that a revision fails repeatedly, or has recovered.
    pub(crate) fn report(&self, report: tenon_proto::catalog::WorkerReport) {
        self.notify(NoticeKind::Report(report));
    }

    fn notify(&self, kind: NoticeKind) {
        // If the control thread has ended, the process is about to end too.
        let _ = self.notices_tx.send(notice(kind));
    }
}

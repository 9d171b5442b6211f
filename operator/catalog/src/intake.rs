//! Takes nodes' reports and routers' figures, checks them against what is deployed, and passes them
//! on.

use super::access::CallerPool;
use super::report::{HealthReport, Outcome, Part, ReportSink, WorkerHealth};
use super::traffic::{self, FiguresSink};
use super::{Catalog, Full};

impl Catalog {
    /// Sends nodes' reports to `sink` from now on. Reports before the first call are lost; later
    /// calls have no effect.
    pub fn set_report_sink(&self, sink: ReportSink) {
        let _ = self.shared.sink.set(sink);
    }

    /// Processes a node's report.
    ///
    /// # Errors
    /// Fails if a part of the report did not fit into the channel. The node must send the report
    /// again.
    pub(super) fn take_report(
        &self,
        pool: &CallerPool,
        node: &str,
        parts: Vec<Part>,
    ) -> Result<(), Full> {
        let Some(sink) = self.shared.sink.get() else { return Ok(()) };
        let mut result = Ok(());
        for part in parts {
            let digest = part.1;
            let outcome = match self.check_report(pool, node, part) {
                Ok((report, serves)) => {
                    // This replica tells its nodes now, before it has written the Worker's status.
                    if let WorkerHealth::Quarantined { duration, times, .. } = report.health {
                        self.refuse(digest, &report.worker, duration, times);
                    }
                    // A status is only about revisions that serve.
                    let is_sent = !serves || sink.reports_tx.try_send(report).is_ok();
                    if is_sent { Outcome::Taken } else { Outcome::Full }
                }
                Err(outcome) => outcome,
            };
            sink.outcomes.with_label_values(&[outcome.as_str()]).inc();
            if outcome == Outcome::Full {
                result = Err(Full);
            }
        }
        result
    }

    /// Checks a part of a node's report. Returns the report, and whether its revision serves now. A
    /// quarantine may also be about a recently superseded revision, so a tenant cannot avoid the
    /// quarantine by replacing a revision and restoring it.
    fn check_report(
        &self,
        caller: &CallerPool,
        node: &str,
        (worker, digest, health): Part,
    ) -> Result<(HealthReport, bool), Outcome> {
        let deployed = self.read();
        let pool = deployed.state.node(node).map(|node| &node.pool);
        let pool = pool.filter(|pool| caller.covers(pool)).ok_or(Outcome::UnknownNode)?;
        let serves = deployed.revisions.serving(&worker).contains(&digest);
        let is_current = serves || matches!(health, WorkerHealth::Quarantined { .. });
        let revision = deployed
            .revisions
            .get(&digest)
            .filter(|revision| is_current && revision.worker == worker);
        let revision = revision.ok_or(Outcome::Outdated)?;
        if deployed.state.worker(&worker).is_none_or(|worker| worker.pool != *pool) {
            return Err(Outcome::UnknownNode);
        }
        Ok((
            HealthReport { worker, revision: revision.name.clone(), node: node.to_owned(), health },
            serves,
        ))
    }

    /// Sends routers' figures to `sink` from now on. Figures before the first call are lost; later
    /// calls have no effect.
    pub fn set_figures_sink(&self, sink: FiguresSink) {
        let _ = self.shared.figures.set(sink);
    }

    /// Processes a router's figures. Those that are not about a current measurement are dropped.
    ///
    /// # Errors
    /// Fails if the figures did not fit into the channel. The router must send them again.
    pub(super) fn take_figures(&self, parts: Vec<traffic::Part>) -> Result<(), Full> {
        let Some(sink) = self.shared.figures.get() else { return Ok(()) };
        let current = {
            let deployed = self.read();
            let current = parts.into_iter().filter_map(|part| deployed.check_figures(part));
            current.collect::<Vec<_>>()
        };
        if current.is_empty() { Ok(()) } else { sink.try_send(current).map_err(|_| Full) }
    }
}

//! Keeps the process of each shard and lane running: starts a process, watches it, judges the cause
//! of its end, and starts the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tenon_lifecycle::drain;
use tenon_proto::id::ShardId;
use tenon_proto::node::order::Order as OrderKind;
use tenon_proto::node::{self, Order};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::hang_detector::HangDetector;
use super::memory::CRAMPED;
use super::process::{Cause, Process, Program, Sockets, process_name};
use super::{CHECK_INTERVAL, Shared, lock, order, service};

/// A process that ran for `STEADY`, or that ended because of a revision that is now in quarantine,
/// is restarted immediately. Otherwise the pause before each restart is twice the previous pause,
/// within these bounds.
const STEADY: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Time after the grace period after which a draining process is killed: the process may use three
/// of these seconds to close WebSockets.
const KILL_GRACE: Duration = Duration::from_secs(4);

/// Restarts processes until the drain.
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    pub(super) program: Program,
    pub(super) drain: drain::Watch,
    pub(super) grace: Duration,
}

impl Keeper {
    /// Runs a shard's or lane's process, and restarts it when it ends. After the drain, drops the
    /// listeners, so that further connections are refused.
    pub(super) async fn keep(&self, id: ShardId, sockets: Sockets) {
        let mut pause = Duration::ZERO;
        while !self.drain.is_signaled() {
            let began = Instant::now();
            if let Err(error) = sockets.listen() {
                tracing::error!(process = process_name(id), %error, "cannot resume listening");
            }
            let was_quarantined = match Process::start(&self.program, id, &sockets) {
                Ok((process, control)) => self.supervise(id, process, control).await,
                Err(error) => {
                    tracing::error!(process = process_name(id), %error, "cannot start a process");
                    false
                }
            };
            pause = match began.elapsed() {
                // If a revision was to blame, it is refused from now on.
                ran if ran >= STEADY || was_quarantined => Duration::ZERO,
                _ => (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.drain.signaled() => {}
            }
        }
    }

    /// Serves a process until it has ended, and handles its end. Returns whether a revision is to
    /// blame and was quarantined, which makes it unlikely that the process soon ends again.
    async fn supervise(
        &self,
        id: ShardId,
        mut process: Process,
        control: tokio::net::UnixStream,
    ) -> bool {
        let (shared, name) = (&self.shared, process_name(id));
        let (orders_tx, orders_rx) = mpsc::unbounded_channel();
        shared.child(id).begin(&process, orders_tx.clone());
        shared.process_began.notify_one();
        let alive = Arc::new(AtomicBool::new(true));
        let service = tokio::spawn(service::serve(
            Arc::clone(shared),
            id,
            Arc::clone(&alive),
            control,
            orders_rx,
        ));
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut signaled = std::pin::pin!(self.drain.signaled());
        let (mut detector, mut leave_by, mut killed) =
            (HangDetector::new(Instant::now()), None, false);
        // `Some` if the process had to be killed because it was stuck, with the revision that was
        // running, if any.
        let mut hung = None;
        // The revision that was running at the last check.
        let mut seen = None;
        let status = loop {
            tokio::select! {
                status = process.child.wait() => break status,
                now = ticks.tick() => {
                    let is_late = leave_by.is_some_and(|leave_by| now >= leave_by);
                    let reading = process.page.read();
                    let is_stuck = detector.is_stuck(&reading, now.into());
                    seen = reading.running;
                    if (is_late || is_stuck) && !killed {
                        let overrun = reading.overrun.as_millis();
                        tracing::warn!(process = name, is_late, is_stuck, overrun, "killing a stuck or late process");
                        (killed, hung) = (true, is_stuck.then_some(reading.running));
                        // An error means that the process has ended.
                        let _ = process.child.start_kill();
                    }
                }
                () = &mut signaled, if leave_by.is_none() => {
                    leave_by = Some(self.drain(&orders_tx));
                }
                () = shared.child(id).worn.notified(), if leave_by.is_none() => {
                    tracing::info!(process = name, "draining a process that has used up a resource, to replace it");
                    leave_by = Some(self.drain(&orders_tx));
                }
            }
        };
        alive.store(false, Ordering::Relaxed);
        service.abort();
        shared.child(id).end();
        let was_profiling = shared.lose_profile(id);
        shared.home_ended(id);
        shared.metrics.processes.set_serving(id, false);
        shared.reporter.shard_ended(id);
        let status = match status {
            Ok(status) => status,
            Err(error) => {
                tracing::error!(process = name, %error, "cannot read how a process ended");
                return false;
            }
        };
        if leave_by.is_some() && hung.is_none() {
            return false;
        }
        let cause = Cause::of(status, hung.is_some());
        let running = hung.unwrap_or_else(|| process.page.read().running);
        shared.metrics.processes.count_end(id, cause);
        let revision = running.map(|digest| digest.short());
        tracing::error!(process = name, %status, cause = cause.as_str(), revision, "a process ended; restarting it");
        // A revision that was already running at the last check may have used up the memory itself.
        let came_later = running != seen;
        let had_no_room = came_later && lock(&shared.child(id).state).room < CRAMPED;
        // A profile takes memory that the revision is not responsible for.
        let was_cramped = cause == Cause::Crashed && (had_no_room || was_profiling);
        cause.blames(running).is_some_and(|digest| shared.judge(digest, cause, was_cramped))
    }

    /// Orders a process to drain. Returns the deadline for its end.
    fn drain(&self, orders_tx: &mpsc::UnboundedSender<Order>) -> tokio::time::Instant {
        // If the receiver has been dropped, the process has ended.
        let _ = orders_tx.send(order(OrderKind::Drain(node::Drain {})));
        tokio::time::Instant::now() + self.grace + KILL_GRACE
    }
}

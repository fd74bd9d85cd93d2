//! One entry for every authenticated message: opened first, committed before dispatch, closed always.
//!
//! An entry is an `intent` and an `outcome` line, or one `final` line when nothing left us. `record.rs` fills an entry,
//! `line.rs` spells it, `desk.rs` says who writes when, `writer.rs` hands lines over, `sink.rs` is where they go.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use config::{AuditSink, Durability};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::telemetry::Metrics;
use desk::Desk;
use sink::{FileSink, Sink, StdoutSink};
use writer::{Line, Stall, Writer};

pub(crate) use line::Timestamp;
pub(crate) use record::{Outcome, Record};
pub(crate) use unheard::Unheard;

mod desk;
mod line;
mod record;
mod sink;
mod unheard;
mod writer;

/// Entries that may be open at a time, each with its last line to come.
const PLACES: u32 = 16_384;

/// How long anyone waits for the record; a sink that is slower counts as failed (security 2.2).
const PATIENCE: Duration = Duration::from_secs(2);

/// The record cannot be written, so the message goes no further (no record, no call).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuditError {
    /// No sink took the line in time.
    #[error("the record cannot be written")]
    Unwritable,
}

/// The record of a gateway.
pub(crate) struct Audit {
    /// INVARIANT: what waits there is bounded, because each open entry holds a place and leaves two lines at most.
    desk: Arc<Desk>,
    places: Arc<Semaphore>,
    stall: Arc<Stall>,
    metrics: Arc<Metrics>,
    next_entry: AtomicU64,
    /// Entries whose last line is still to come.
    open: AtomicUsize,
}

impl Audit {
    /// Opens every sink and starts the thread that writes to them. A sink that cannot be opened is an error, never
    /// silently left out: the operator asked for it.
    pub(crate) fn start(config: &config::Audit, metrics: Arc<Metrics>) -> io::Result<Arc<Audit>> {
        match config.durability {
            // A returned write(2) survives a killed process; nothing more is promised.
            Durability::Os => (),
        }
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        for sink in &config.sinks {
            sinks.push(match sink {
                AuditSink::File(directory) => Box::new(FileSink::start(directory)?),
                AuditSink::Stdout => Box::new(StdoutSink::start()?),
            });
        }
        Audit::with_sinks(sinks, metrics)
    }

    fn with_sinks(sinks: Vec<Box<dyn Sink>>, metrics: Arc<Metrics>) -> io::Result<Arc<Audit>> {
        if sinks.is_empty() {
            return Err(io::Error::other("the audit has no sink: without a record nothing may be called"));
        }
        // Entry ids count up from a random start: unique here, and unlikely to meet those of another run.
        let first_entry = getrandom::u64().map_err(io::Error::other)?;
        let stall = Arc::new(Stall::new(Instant::now()));
        let writer = Writer::new(sinks, Arc::clone(&metrics), Arc::clone(&stall));
        let desk = Arc::new(Desk::new(writer));
        let served = Arc::clone(&desk);
        thread::Builder::new().name("audit".to_owned()).spawn(move || served.serve())?;
        Ok(Arc::new(Audit {
            desk,
            places: Arc::new(Semaphore::new(PLACES as usize)),
            stall,
            metrics,
            next_entry: AtomicU64::new(first_entry),
            open: AtomicUsize::new(0),
        }))
    }

    /// Begins an entry and reserves the place of its last line, since whoever drops a record cannot wait for one.
    pub(crate) async fn open(self: &Arc<Self>) -> Result<Record, AuditError> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => self.wait_for_place().await?,
        };
        Ok(self.opened(place))
    }

    /// The same for whoever cannot wait. Without a free place the entry is lost, and counted.
    pub(crate) fn open_now(self: &Arc<Self>) -> Option<Record> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.metrics.audit_failures(1);
            return None;
        };
        Some(self.opened(place))
    }

    fn opened(self: &Arc<Self>, place: OwnedSemaphorePermit) -> Record {
        let entry = self.next_entry.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        Record::new(Arc::clone(self), entry, place)
    }

    async fn wait_for_place(&self) -> Result<OwnedSemaphorePermit, AuditError> {
        let place = timeout(PATIENCE, Arc::clone(&self.places).acquire_owned()).await;
        let place = place.ok().and_then(Result::ok);
        place.ok_or_else(|| {
            self.metrics.audit_failures(1);
            AuditError::Unwritable
        })
    }

    /// Ends the audit: waits for open entries a little, then until everything queued is written. Later entries are refused.
    pub(crate) async fn stop(&self) {
        // All places are free when every last line is written. The rest of the entries end as abandoned in the queue.
        let all = timeout(PATIENCE, self.places.acquire_many(PLACES)).await;
        self.places.close();
        drop(all);
        // A sink that blocks does not keep the gateway from ending.
        let _ = timeout(2 * PATIENCE, self.desk.stop()).await;
    }

    /// Others have something on their way.
    fn is_busy(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 1
    }

    /// Leaves a line; a refusal means that the audit has ended.
    fn leave(&self, line: Line) -> Result<(), AuditError> {
        let left = match line {
            Line::Intent(_) => self.desk.leave_intent(line),
            Line::Last(_) => self.desk.leave_last(line),
        };
        left.inspect_err(|_| self.metrics.audit_failures(1))
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        // The thread writes what is left and ends.
        drop(self.desk.stop());
    }
}

#[cfg(test)]
mod tests;

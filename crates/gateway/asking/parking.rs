//! Calls that wait until their client comes back with answers: found again once, and not kept for ever (spec X-09).

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use admission::TenantId;
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use wire::Method;

use super::Parked;
use crate::telemetry::Metrics;
use room::Room;

mod room;

pub(super) use room::Place;

/// By tenant, then by number.
type Calls = HashMap<TenantId, HashMap<u64, Waiting>>;

/// All calls that are parked.
///
/// INVARIANT: an entry lives as long as the task that watches over its call, or until somebody takes it.
pub(crate) struct Parking {
    waiting: Mutex<Calls>,
    room: Arc<Room>,
    /// Which gateway this is, since its start: another's calls cannot be gone on with here.
    replica: u64,
    /// Calls that were parked so far.
    calls: AtomicU64,
    watchers: TaskTracker,
    closing: CancellationToken,
    metrics: Arc<Metrics>,
}

/// What a client carries of a parked call. It is sealed, so whoever shows one was given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    replica: u64,
    call: u64,
    round: u32,
}

impl Handle {
    const BYTES: usize = 20;

    /// That of the next round of the same call.
    pub(super) fn next(self) -> Handle {
        Handle { round: self.round + 1, ..self }
    }

    /// How often the call was parked.
    pub(super) fn round(self) -> u32 {
        self.round
    }

    pub(super) fn to_bytes(self) -> [u8; Handle::BYTES] {
        let mut bytes = [0; Handle::BYTES];
        let (replica, rest) = bytes.split_at_mut(8);
        let (call, round) = rest.split_at_mut(8);
        replica.copy_from_slice(&self.replica.to_be_bytes());
        call.copy_from_slice(&self.call.to_be_bytes());
        round.copy_from_slice(&self.round.to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Handle> {
        let (replica, rest) = bytes.split_first_chunk()?;
        let (call, rest) = rest.split_first_chunk()?;
        let round = u32::from_be_bytes(rest.try_into().ok()?);
        Some(Handle { replica: u64::from_be_bytes(*replica), call: u64::from_be_bytes(*call), round })
    }
}

/// A call in its round, and how its watcher is told to hand it over.
struct Waiting {
    round: u32,
    asked: Arc<[(Box<str>, Method)]>,
    taker: oneshot::Sender<oneshot::Sender<Parked>>,
}

/// Why a call is not gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// It was gone on with already, was given up, or was lost with the gateway that held it.
    Gone,
    /// The answers answer something else. The call waits on.
    Malformed,
}

impl Parking {
    /// Nothing is parked.
    pub(super) fn new(metrics: Arc<Metrics>) -> Arc<Parking> {
        Arc::new(Parking {
            waiting: Mutex::default(),
            room: Arc::default(),
            // All that depends on it is that a restart does not go unnoticed.
            replica: getrandom::u64().unwrap_or_default(),
            calls: AtomicU64::new(0),
            watchers: TaskTracker::new(),
            closing: CancellationToken::new(),
            metrics,
        })
    }

    /// A place for a call that is to be parked; none when there are too many, or no more are taken.
    pub(super) fn place(&self, tenant: &TenantId, principal: &Arc<str>) -> Option<Place> {
        if self.closing.is_cancelled() {
            return None;
        }
        self.room.take(tenant, principal)
    }

    /// A handle for a call that was not parked before.
    pub(super) fn handle(&self) -> Handle {
        Handle { replica: self.replica, call: self.calls.fetch_add(1, Ordering::Relaxed), round: 0 }
    }

    /// Parks a call for so long. Whoever shows its handle may go on with it, once.
    pub(super) fn keep(
        self: &Arc<Self>,
        tenant: &TenantId,
        handle: Handle,
        parked: Parked,
        patience: Duration,
    ) {
        let (taker, taken) = oneshot::channel();
        let asked = parked.asked().iter().map(|question| (question.key.clone(), question.method)).collect();
        self.enter(tenant, handle, Waiting { round: handle.round, asked, taker });
        let entry = Entry { parking: Arc::clone(self), tenant: tenant.clone(), handle };
        self.watchers.spawn(watch(parked, entry, taken, patience));
    }

    fn enter(&self, tenant: &TenantId, handle: Handle, waiting: Waiting) {
        let before = self.waiting().entry(tenant.clone()).or_default().insert(handle.call, waiting);
        if before.is_none() {
            self.metrics.parked(1);
        }
    }

    /// Takes a call out, if this is its round and `fits` says that its questions are answered well.
    pub(super) async fn take(
        &self,
        tenant: &TenantId,
        handle: Handle,
        fits: impl FnOnce(&[(Box<str>, Method)]) -> bool,
    ) -> Result<Parked, Missed> {
        self.judge(tenant, handle, fits)?;
        let (taker, parked) = oneshot::channel();
        let waiting = self.take_out(tenant, handle)?;
        // Its watcher may have given it up in this moment.
        waiting.taker.send(taker).map_err(|_| Missed::Gone)?;
        parked.await.map_err(|_| Missed::Gone)
    }

    /// Without the lock: answers may be large, and everybody's calls are behind it.
    fn judge(
        &self,
        tenant: &TenantId,
        handle: Handle,
        fits: impl FnOnce(&[(Box<str>, Method)]) -> bool,
    ) -> Result<(), Missed> {
        let asked = {
            let waiting = self.waiting();
            Arc::clone(&self.known(&waiting, tenant, handle)?.asked)
        };
        if fits(&asked) { Ok(()) } else { Err(Missed::Malformed) }
    }

    fn take_out(&self, tenant: &TenantId, handle: Handle) -> Result<Waiting, Missed> {
        let mut waiting = self.waiting();
        self.known(&waiting, tenant, handle)?;
        let own = waiting.get_mut(tenant).ok_or(Missed::Gone)?;
        let taken = own.remove(&handle.call).ok_or(Missed::Gone)?;
        if own.is_empty() {
            waiting.remove(tenant);
        }
        drop(waiting);
        self.metrics.parked(-1);
        Ok(taken)
    }

    /// The call that waits under this handle, if this is its round.
    fn known<'a>(
        &self,
        waiting: &'a Calls,
        tenant: &TenantId,
        handle: Handle,
    ) -> Result<&'a Waiting, Missed> {
        let known = waiting.get(tenant).and_then(|own| own.get(&handle.call)).ok_or(Missed::Gone)?;
        let is_it = known.round == handle.round && handle.replica == self.replica;
        is_it.then_some(known).ok_or(Missed::Gone)
    }

    fn waiting(&self) -> MutexGuard<'_, Calls> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives all calls up, and takes no more. Returns when their servers were told.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.watchers.close();
        self.watchers.wait().await;
    }
}

/// A call that is watched over; it is in nobody's way when that ends.
struct Entry {
    parking: Arc<Parking>,
    tenant: TenantId,
    handle: Handle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Taken already, unless it was given up. A later round of it is not ours.
        let _gone = self.parking.take_out(&self.tenant, self.handle);
    }
}

/// Watches over a call until somebody takes it. Its server is listened to all the while, since over HTTP nothing goes on
/// that nobody waits for (ADR 0026).
async fn watch(
    mut parked: Parked,
    entry: Entry,
    mut taken: oneshot::Receiver<oneshot::Sender<Parked>>,
    patience: Duration,
) {
    parked.pause();
    let over = tokio::time::sleep(patience);
    tokio::pin!(over);
    loop {
        tokio::select! {
            biased;
            taker = &mut taken => {
                drop(entry);
                if let Ok(taker) = taker {
                    parked.resume();
                    // Whoever went on with it may be gone already: then so is the call.
                    let _untaken = taker.send(parked);
                }
                return;
            }
            () = entry.parking.closing.cancelled() => break,
            () = &mut over => break,
            incoming = parked.listen(), if !parked.is_over() => parked.keep(incoming),
        }
    }
    // Nobody can take it from here on; then its server is told.
    drop(entry);
    if !parked.is_over() {
        parked.cancel();
    }
}

#[cfg(test)]
mod tests;

//! Who shares which process: keyed by tenant first (invariant 9).

use crate::declared::{Behind, Declared};
use crate::error::UpstreamError;
use crate::notice::Notice;
use crate::spec::{EraMemory, Seat, Spec};
use crate::upstream::{State, Upstream};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// All seats of all upstreams of all tenants.
pub struct Pool {
    memory: Arc<dyn EraMemory>,
    notices: mpsc::Sender<Notice>,
    idle: Duration,
    tenants: Mutex<Tenants>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Tenants {
    seats: HashMap<Arc<str>, Seats>,
    /// Restarts of the seats that have left, by tenant and upstream.
    gone: Restarts,
    closed: bool,
}

type Restarts = BTreeMap<(Arc<str>, Arc<str>), u64>;

/// Within a tenant; the upstreams of a seat by their ids, one for each set of capabilities that is declared.
type Seats = HashMap<Seat, HashMap<Arc<str>, Vec<Arc<Upstream>>>>;

impl Pool {
    /// An empty pool. Principals' processes stop after being idle for `idle`. Call it within a runtime.
    pub fn new(memory: Arc<dyn EraMemory>, notices: mpsc::Sender<Notice>, idle: Duration) -> Arc<Self> {
        let pool = Arc::new(Self {
            memory,
            notices,
            idle,
            tenants: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        pool.tasks.spawn(sweep(Arc::downgrade(&pool), pool.stop.clone(), idle));
        pool
    }

    fn tenants(&self) -> MutexGuard<'_, Tenants> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of this seat for a client that declares this much, started if there is none yet (spec X-02). A tenant has at most
    /// `cap` processes of principals and sessions. A seat whose configuration changed is started anew. Nothing is declared on behalf
    /// of those who share (spec Q-01).
    pub fn seat(
        &self,
        spec: &Arc<Spec>,
        seat: Seat,
        declared: Declared,
        cap: usize,
    ) -> Result<Arc<Upstream>, UpstreamError> {
        let declared = Behind::of(&seat, declared).declared();
        let tenants = &mut *self.tenants();
        if tenants.closed {
            return Err(UpstreamError::not_running("the gateway is stopping"));
        }
        let known = tenants.seats.get(&*spec.tenant).and_then(|seats| seats.get(&seat)?.get(&*spec.id));
        let known = known.and_then(|alike| alike.iter().find(|upstream| *upstream.declared() == declared));
        let outdated = match known {
            Some(upstream) if upstream.spec() == spec => {
                upstream.spec().renew_from(spec);
                upstream.touch();
                return Ok(Arc::clone(upstream));
            }
            Some(upstream) => Some(Arc::clone(upstream)),
            None => None,
        };
        let seats = tenants.seats.entry(Arc::clone(&spec.tenant)).or_default();
        if let Some(outdated) = outdated {
            let alike = seats.get_mut(&seat).and_then(|own| own.get_mut(&spec.id));
            alike.into_iter().for_each(|alike| alike.retain(|one| !Arc::ptr_eq(one, &outdated)));
            count(&mut tenants.gone, &outdated);
            self.tasks.spawn(async move { outdated.stop().await });
        }
        let own = seats.iter().filter(|(seat, _)| **seat != Seat::Shared).flat_map(|(_, own)| own.values());
        if seat != Seat::Shared && own.map(Vec::len).sum::<usize>() >= cap {
            return Err(UpstreamError::TooMany { limit: cap });
        }
        let (memory, notices) = (Arc::clone(&self.memory), self.notices.clone());
        let upstream = Upstream::start(Arc::clone(spec), seat.clone(), declared, memory, notices);
        let alike = seats.entry(seat).or_default().entry(Arc::clone(&spec.id)).or_default();
        alike.push(Arc::clone(&upstream));
        Ok(upstream)
    }

    /// Stops every process of one seat in one tenant and returns when they are gone.
    pub async fn release(&self, tenant: &str, seat: &Seat) {
        let leaving = self.take_out(tenant, seat);
        // In a task of ours: whoever asked may be gone before they have stopped, and `stop_all` still waits.
        let stopping = self.tasks.spawn(stop_together(leaving));
        let _ = stopping.await;
    }

    /// Takes out every seat whose upstream is not wanted any more, and stops each once what runs there has ended, at the latest
    /// after `patience`. Whoever asks for such a seat afterwards gets a new one.
    pub fn retire(&self, patience: Duration, wanted: impl Fn(&Spec) -> bool) {
        let leaving = {
            let tenants = &mut *self.tenants();
            let mut leaving = Vec::new();
            for alike in
                tenants.seats.values_mut().flat_map(HashMap::values_mut).flat_map(HashMap::values_mut)
            {
                leaving.extend(alike.extract_if(.., |upstream| !wanted(upstream.spec())));
            }
            leaving.iter().for_each(|one| count(&mut tenants.gone, one));
            leaving
        };
        for upstream in leaving {
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                let rest = tokio::time::timeout(patience, upstream.rest());
                // At drain nobody waits for it twice.
                let _ = stop.run_until_cancelled(rest).await;
                upstream.stop().await;
            });
        }
    }

    /// All that runs for one seat, whatever is declared there.
    pub fn of_seat(&self, tenant: &str, seat: &Seat) -> Vec<Arc<Upstream>> {
        let tenants = self.tenants();
        let own = tenants.seats.get(tenant).and_then(|seats| seats.get(seat));
        own.into_iter().flat_map(HashMap::values).flatten().cloned().collect()
    }

    /// How every seat stands.
    pub fn states(&self) -> Vec<(Arc<Spec>, Seat, State)> {
        let tenants = self.tenants();
        let upstreams = tenants.seats.values().flat_map(HashMap::values).flat_map(HashMap::values).flatten();
        upstreams.map(|one| (Arc::clone(one.spec()), one.seat().clone(), one.state())).collect()
    }

    /// How often each upstream of each tenant was started again, over all its seats, those that have left included. Never
    /// falls.
    pub fn restarts(&self) -> Vec<(Arc<str>, Arc<str>, u64)> {
        let tenants = self.tenants();
        let mut restarts = tenants.gone.clone();
        let upstreams = tenants.seats.values().flat_map(HashMap::values).flat_map(HashMap::values).flatten();
        upstreams.for_each(|one| count(&mut restarts, one));
        restarts.into_iter().map(|((tenant, upstream), count)| (tenant, upstream, count)).collect()
    }

    /// Stops everything for good and returns when no process is left.
    pub async fn stop_all(&self) {
        let leaving = {
            let mut tenants = self.tenants();
            tenants.closed = true;
            let seats = std::mem::take(&mut tenants.seats);
            let seats = seats.into_values().flat_map(HashMap::into_values);
            let leaving: Vec<_> = seats.flat_map(HashMap::into_values).flatten().collect();
            leaving.iter().for_each(|one| count(&mut tenants.gone, one));
            leaving
        };
        self.stop.cancel();
        stop_together(leaving).await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn take_out(&self, tenant: &str, seat: &Seat) -> Vec<Arc<Upstream>> {
        let mut tenants = self.tenants();
        let leaving = tenants.seats.get_mut(tenant).and_then(|seats| seats.remove(seat));
        let leaving: Vec<_> = leaving.into_iter().flat_map(HashMap::into_values).flatten().collect();
        leaving.iter().for_each(|one| count(&mut tenants.gone, one));
        leaving
    }

    /// Takes out the seats of principals that have been idle for long enough. A session's process holds its state and stays until
    /// the session ends.
    fn take_idle(&self) -> Vec<Arc<Upstream>> {
        let mut tenants = self.tenants();
        let mut leaving = Vec::new();
        for (seat, upstreams) in tenants.seats.values_mut().flatten() {
            if matches!(seat, Seat::Principal(_)) {
                for alike in upstreams.values_mut() {
                    leaving.extend(alike.extract_if(.., |upstream| upstream.idle() >= self.idle));
                }
                upstreams.retain(|_, alike| !alike.is_empty());
            }
        }
        tenants.seats.values_mut().for_each(|seats| seats.retain(|_, upstreams| !upstreams.is_empty()));
        tenants.seats.retain(|_, seats| !seats.is_empty());
        leaving.iter().for_each(|one| count(&mut tenants.gone, one));
        leaving
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Adds the restarts of one seat.
fn count(restarts: &mut Restarts, upstream: &Upstream) {
    let spec = upstream.spec();
    let own = restarts.entry((Arc::clone(&spec.tenant), Arc::clone(&spec.id))).or_default();
    *own += upstream.counters().restarts.load(Ordering::Relaxed);
}

/// Each ladder takes its time; together they take as long as the slowest.
async fn stop_together(leaving: Vec<Arc<Upstream>>) {
    let mut stops: JoinSet<()> =
        leaving.into_iter().map(|upstream| async move { upstream.stop().await }).collect();
    while stops.join_next().await.is_some() {}
}

async fn sweep(pool: Weak<Pool>, stop: CancellationToken, idle: Duration) {
    let mut tick =
        tokio::time::interval((idle / 10).clamp(Duration::from_millis(10), Duration::from_secs(30)));
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => return,
        }
        let Some(pool) = pool.upgrade() else { return };
        let leaving = pool.take_idle();
        drop(pool);
        stop_together(leaving).await;
    }
}

#[cfg(test)]
mod tests;

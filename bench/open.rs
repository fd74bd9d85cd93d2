//! The open loop: a fixed number of requests a second, whatever the answers do.
//!
//! A request is due at a time that was fixed before the run, and its latency counts from that time, not from when a
//! connection was free for it. So a proxy that stands still pays for all that should have been asked meanwhile: nothing
//! is left to correct for coordinated omission.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    failure::Failure,
    latency::Latency,
    load::{Asker, Demand, Run},
    request::Site,
};

/// When the requests of one stretch are due.
#[derive(Debug)]
struct Schedule {
    begun: Instant,
    /// Requests a second.
    rate: u32,
    /// Requests in all.
    total: u32,
    taken: AtomicU32,
    /// One for each request that is due and not taken.
    due: Semaphore,
}

/// A load of a fixed rate.
#[derive(Debug)]
pub(crate) struct Open {
    askers: Vec<Asker>,
    rate: u32,
}

impl Schedule {
    fn new(rate: u32, time: Duration) -> Schedule {
        let total = u128::from(rate) * time.as_millis() / 1000;
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        Schedule { begun: Instant::now(), rate, total, taken: AtomicU32::new(0), due: Semaphore::new(0) }
    }

    /// When a request is due, from the beginning.
    fn offset(&self, number: u32) -> Duration {
        Duration::from_nanos(u64::from(number) * 1_000_000_000 / u64::from(self.rate.max(1)))
    }

    /// Makes each request due at its time. Blocks: timers of the runtime are too coarse for it.
    fn pace(&self) {
        for number in 0..self.total {
            let early = self.offset(number).saturating_sub(self.begun.elapsed());
            if !early.is_zero() {
                thread::sleep(early);
            }
            self.due.add_permits(1);
        }
        // Whoever waits for one more learns that there is none.
        self.due.close();
    }

    /// The next request: when it was due. `None` after the last one.
    async fn next(&self) -> Option<Instant> {
        // What was due before the end is still given out after it.
        match self.due.acquire().await {
            Ok(permit) => permit.forget(),
            Err(_) if self.taken.load(Ordering::Relaxed) < self.total => (),
            Err(_) => return None,
        }
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        (number < self.total).then(|| self.begun + self.offset(number))
    }
}

impl Open {
    /// Opens what it needs.
    pub(crate) async fn open(site: &Site, demand: Demand, rate: u32) -> Result<Open, Failure> {
        Ok(Open { askers: Asker::all(site, demand).await?, rate })
    }

    /// Asks at its rate for this long, and waits for the last answer. The caller bounds the time.
    pub(crate) async fn run(&mut self, time: Duration) -> Result<Run, Failure> {
        let schedule = Arc::new(Schedule::new(self.rate, time));
        let pacer = Arc::clone(&schedule);
        let pacer = thread::spawn(move || pacer.pace());
        let mut tasks = JoinSet::new();
        for asker in self.askers.drain(..) {
            tasks.spawn(work_off(asker, Arc::clone(&schedule)));
        }
        let mut latency = Latency::new()?;
        while let Some(done) = tasks.join_next().await {
            let (asker, heard) = done.map_err(|error| Failure::new(error.to_string()))??;
            latency.add(&heard);
            self.askers.push(asker);
        }
        pacer.join().map_err(|_| Failure::new("the pacing thread ended early"))?;
        Ok(Run { time: schedule.begun.elapsed(), latency })
    }
}

async fn work_off(mut asker: Asker, schedule: Arc<Schedule>) -> Result<(Asker, Latency), Failure> {
    let mut latency = Latency::new()?;
    while let Some(due) = schedule.next().await {
        asker.ask().await?;
        latency.record(due.elapsed());
    }
    Ok((asker, latency))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_even_distances() {
        let schedule = Schedule::new(4000, Duration::from_millis(1500));
        assert_eq!(schedule.total, 6000);
        assert_eq!(schedule.offset(0), Duration::ZERO);
        assert_eq!(schedule.offset(1), Duration::from_micros(250));
        assert_eq!(schedule.offset(6000), Duration::from_millis(1500));
    }

    #[tokio::test]
    async fn each_request_is_given_out_once_however_late() {
        let schedule = Schedule::new(1000, Duration::from_millis(3));
        schedule.pace();
        let mut due = Vec::new();
        while let Some(at) = schedule.next().await {
            due.push(at - schedule.begun);
        }
        assert_eq!(due, [0, 1, 2].map(Duration::from_millis));
    }
}

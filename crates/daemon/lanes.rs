//! Threads that serve clients' connections, each with a runtime of its own (ADR 0024).
//!
//! A connection stays on its lane: what a call waits for wakes the thread that has it in its cache, and no other thread
//! is woken to look for work.

use std::{io, thread};

use tokio::runtime::{self, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// All lanes. They end when this is dropped, and what still runs on them with them.
pub(crate) struct Lanes {
    lanes: Vec<Handle>,
    _end: DropGuard,
}

impl Lanes {
    /// Starts so many, at least one.
    ///
    /// # Errors
    /// When the system gives us no thread.
    pub(crate) fn start(number: usize) -> io::Result<Lanes> {
        let end = CancellationToken::new();
        let mut lanes = Vec::new();
        for _ in 0..number.max(1) {
            let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
            lanes.push(runtime.handle().clone());
            let ended = end.clone();
            let run = move || {
                runtime.block_on(ended.cancelled());
                // Whoever asked for an end must not wait for what is stuck in a system call.
                runtime.shutdown_background();
            };
            thread::Builder::new().name("lane".to_owned()).spawn(run)?;
        }
        Ok(Lanes { lanes, _end: end.drop_guard() })
    }

    /// The lane with the least to do: for a new connection, which stays there.
    pub(crate) fn quietest(&self) -> Option<&Handle> {
        self.lanes.iter().min_by_key(|lane| lane.metrics().num_alive_tasks())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn new_work_goes_where_there_is_least() {
        let lanes = Lanes::start(3).unwrap();
        let mut stays = Vec::new();
        let mut seen = Vec::new();
        for _ in 0..6 {
            let (stay, stayed) = oneshot::channel::<()>();
            let (told, tell) = oneshot::channel();
            lanes.quietest().unwrap().spawn(async move {
                let _ = told.send(Handle::current().id());
                let _ = stayed.await;
            });
            seen.push(tell.await.unwrap());
            stays.push(stay);
        }
        for lane in &lanes.lanes {
            assert_eq!(seen.iter().filter(|id| **id == lane.id()).count(), 2);
        }
    }

    #[tokio::test]
    async fn what_runs_ends_with_the_lanes() {
        let lanes = Lanes::start(1).unwrap();
        let (mut held, _hold) = oneshot::channel::<()>();
        lanes.quietest().unwrap().spawn(async move {
            let _hold = _hold;
            std::future::pending::<()>().await;
        });
        drop(lanes);
        held.closed().await;
    }
}

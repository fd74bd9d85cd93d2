//! Lines on their way to the sinks, and who hands them over: whoever waits for one, in passing, or the audit thread.
//!
//! A caller that needs its intent on record writes it itself when no sink can keep it waiting and nobody else is
//! writing, together with everything that waits: one system call, and no other thread to wake (ADR 0023). What nobody
//! waits for is written along, or by the thread a moment later.

use std::{
    mem,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    AuditError,
    writer::{Line, Writer},
};

/// Last lines wait for company for so long, at most twice, unless an intent takes them along.
const LINGER: Duration = Duration::from_millis(5);

/// How often lines that no sink took are tried again when nothing else comes.
const RETRY: Duration = Duration::from_millis(200);

/// A caller in passing writes for others so many times, then leaves the rest to the thread.
const ROUNDS: usize = 4;

/// Where lines are left.
pub(super) struct Desk {
    waiting: Mutex<Waiting>,
    bell: Condvar,
    writer: Mutex<Writer>,
    /// No sink can keep its writer waiting: callers may write in passing.
    swift: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<Line>,
    /// How often all lines were taken away: those that are here now came after that.
    taken: u64,
    /// Some of them are intents, which somebody waits for.
    urgent: bool,
    /// Lines that no sink took are to be tried again.
    retry: bool,
    /// The thread sleeps until the bell rings; while it only lingers it need not be woken for a last line.
    asleep: bool,
    /// Write what is here, tell, and end.
    stopping: Option<oneshot::Sender<()>>,
    /// Nobody writes any more.
    over: bool,
}

impl Desk {
    pub(super) fn new(writer: Writer) -> Desk {
        let swift = AtomicBool::new(writer.is_swift());
        Desk { waiting: Mutex::default(), bell: Condvar::new(), writer: Mutex::new(writer), swift }
    }

    /// Leaves an intent; what became of it its fate tells. Whoever leaves one calls [`Desk::write_in_passing`] next.
    pub(super) fn leave_intent(&self, line: Line) -> Result<(), AuditError> {
        let mut waiting = self.waiting();
        if waiting.over {
            return Err(AuditError::Unwritable);
        }
        waiting.lines.push(line);
        waiting.urgent = true;
        Ok(())
    }

    /// Leaves a line that nobody waits for.
    pub(super) fn leave_last(&self, line: Line) -> Result<(), AuditError> {
        let mut waiting = self.waiting();
        if waiting.over {
            return Err(AuditError::Unwritable);
        }
        waiting.lines.push(line);
        let wake = mem::replace(&mut waiting.asleep, false);
        drop(waiting);
        if wake {
            self.bell.notify_one();
        }
        Ok(())
    }

    /// Asks the thread to write what is here and end; it tells when it has.
    pub(super) fn stop(&self) -> oneshot::Receiver<()> {
        let (told, stopped) = oneshot::channel();
        let mut waiting = self.waiting();
        if !waiting.over {
            waiting.stopping = Some(told);
            self.bell.notify_one();
        }
        stopped
    }

    /// Writes the intents that wait, or sees to it that somebody does.
    pub(super) fn write_in_passing(&self) {
        let mut rounds = 0;
        while self.waiting().urgent {
            if rounds == ROUNDS || !self.swift.load(Ordering::Relaxed) {
                self.bell.notify_one();
                return;
            }
            rounds += 1;
            let mut writer = match self.writer.try_lock() {
                Ok(writer) => writer,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // INVARIANT: whoever writes looks again after putting the pen down, so this line is seen.
                Err(TryLockError::WouldBlock) => return,
            };
            self.write(&mut writer);
        }
    }

    /// Hands over everything that waits, in order.
    fn write(&self, writer: &mut Writer) {
        let lines = {
            let mut waiting = self.waiting();
            waiting.urgent = false;
            waiting.taken += 1;
            mem::take(&mut waiting.lines)
        };
        writer.write(lines);
        self.swift.store(writer.is_swift(), Ordering::Relaxed);
        if writer.keeps() {
            let mut waiting = self.waiting();
            waiting.retry = true;
            waiting.asleep = false;
            drop(waiting);
            self.bell.notify_one();
        }
    }

    /// The thread: writes until told to stop.
    pub(super) fn serve(&self) {
        while self.wait() {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            self.write(&mut writer);
        }
        let stopping = {
            let mut waiting = self.waiting();
            waiting.over = true;
            waiting.stopping.take()
        };
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&mut writer);
        writer.finish();
        if let Some(told) = stopping {
            // Whoever asked may have given up waiting.
            let _ = told.send(());
        }
    }

    /// Waits until there is something to write. False: it is time to end.
    fn wait(&self) -> bool {
        let mut waiting = self.waiting();
        let mut until = None;
        loop {
            if waiting.stopping.is_some() {
                return false;
            }
            if waiting.urgent {
                return true;
            }
            let pause = match (waiting.lines.is_empty(), waiting.retry) {
                (false, _) => Some(LINGER),
                (true, true) => Some(RETRY),
                (true, false) => None,
            };
            let Some(pause) = pause else {
                waiting.asleep = true;
                waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                waiting.asleep = false;
                until = None;
                continue;
            };
            let now = Instant::now();
            let (time, taken) = *until.get_or_insert((now + pause, waiting.taken));
            if now >= time {
                // Callers in passing took what was here: what came since has not waited long.
                if taken != waiting.taken && !waiting.retry {
                    until = None;
                    continue;
                }
                waiting.retry = false;
                return true;
            }
            waiting = self.bell.wait_timeout(waiting, time - now).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The one thread that writes: it takes whatever waits and hands it to every sink in one write.

use std::{
    collections::VecDeque,
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{AuditError, PATIENCE, line, sink::Sink};
use crate::telemetry::Metrics;

/// A group ends here, so that the first to wait is told soon.
const GROUP_LINES: usize = 1024;

/// And here.
const GROUP_BYTES: usize = 1024 * 1024;

/// Last lines without an intent that are kept while no sink takes them; more are lost, and counted. Those that follow
/// an intent are all kept: each holds its place.
const KEPT_FINALS: usize = 4096;

/// How often lines that were kept are tried again when nothing else comes.
const RETRY: Duration = Duration::from_millis(200);

/// What the queue carries.
pub(super) enum Item {
    /// Somebody waits until this line is in the hands of the operating system.
    Intent(Intent),
    /// The last line of an entry. Nobody waits for it.
    Last(Last),
    /// Write what is queued, tell, and end.
    Stop(oneshot::Sender<()>),
}

/// The first line of an entry whose message leaves us.
pub(super) struct Intent {
    pub(super) entry: u64,
    pub(super) body: Vec<u8>,
    pub(super) fate: Arc<Fate>,
    pub(super) told: oneshot::Sender<Result<(), AuditError>>,
}

/// The last line of an entry.
pub(super) struct Last {
    pub(super) entry: u64,
    pub(super) body: Vec<u8>,
    /// What became of the intent; none when there was none. It decides whether this is an `outcome` or a `final` line.
    pub(super) intent: Option<Arc<Fate>>,
    /// The place that was reserved when the entry was opened. Free again when the line is written or lost.
    pub(super) _place: OwnedSemaphorePermit,
}

/// What became of an intent. Set by the writer only, before it looks at a later line of the same entry.
#[derive(Debug, Default)]
pub(super) struct Fate(AtomicBool);

impl Fate {
    /// No sink took the intent: the entry goes on as if there had been none.
    fn lose(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_lost(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Since when the writer has been in the write it is in; so that a blocked sink delays callers once, not each of them.
#[derive(Debug)]
pub(super) struct Stall {
    start: Instant,
    /// Milliseconds after `start`, plus one; zero while nothing is being written.
    since: AtomicU64,
}

impl Stall {
    pub(super) fn new(start: Instant) -> Stall {
        Stall { start, since: AtomicU64::new(0) }
    }

    /// A sink has kept the writer for longer than anyone waits.
    pub(super) fn is_long(&self, now: Instant) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0 && self.after_start(now).saturating_sub(since) > PATIENCE.as_millis() as u64
    }

    pub(super) fn begin(&self, now: Instant) {
        self.since.store(self.after_start(now), Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    fn after_start(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_millis() as u64 + 1
    }
}

/// The state of the thread.
pub(super) struct Writer {
    waiting: Receiver<Box<Item>>,
    sinks: Vec<Fallible>,
    /// Last lines that no sink took yet.
    kept: VecDeque<Last>,
    metrics: Arc<Metrics>,
    stall: Arc<Stall>,
}

/// A sink, and whether it failed the last time: the log hears of a change, not of every line.
struct Fallible {
    sink: Box<dyn Sink>,
    failing: bool,
}

impl Writer {
    pub(super) fn new(
        waiting: Receiver<Box<Item>>,
        sinks: Vec<Box<dyn Sink>>,
        metrics: Arc<Metrics>,
        stall: Arc<Stall>,
    ) -> Writer {
        let sinks = sinks.into_iter().map(|sink| Fallible { sink, failing: false }).collect();
        Writer { waiting, sinks, kept: VecDeque::new(), metrics, stall }
    }

    /// Writes until told to stop, or until nobody is left who could send.
    pub(super) fn run(mut self) {
        let mut stopping = None;
        while stopping.is_none() {
            let first = if self.kept.is_empty() {
                self.waiting.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.waiting.recv_timeout(RETRY)
            };
            let group = match first {
                Ok(first) => self.gather(*first, &mut stopping),
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.write(group);
        }
        self.finish();
        if let Some(told) = stopping {
            // Whoever asked may have given up waiting.
            let _ = told.send(());
        }
    }

    /// The item and whatever waits behind it, up to the size of a group or the word to stop.
    fn gather(&self, first: Item, stopping: &mut Option<oneshot::Sender<()>>) -> Vec<Line> {
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(item) = next {
            let line = match item {
                Item::Intent(intent) => Line::Intent(intent),
                Item::Last(last) => Line::Last(last),
                Item::Stop(told) => {
                    *stopping = Some(told);
                    break;
                }
            };
            bytes += line.len();
            group.push(line);
            let room = group.len() < GROUP_LINES && bytes < GROUP_BYTES;
            next = if room { self.waiting.try_recv().ok().map(|item| *item) } else { None };
        }
        group
    }

    /// The queue is read to its end, and what was kept gets a last try.
    fn finish(&mut self) {
        while let Ok(item) = self.waiting.try_recv() {
            let group = self.gather(*item, &mut None);
            self.write(group);
        }
        if !self.kept.is_empty() {
            self.write(Vec::new());
        }
        let lost = self.kept.len() as u64;
        if lost > 0 {
            self.metrics.audit_failures(lost);
            tracing::error!(lost, "the audit ends with lines that no sink took");
        }
    }

    /// First what was kept, then the group. After a sink failed, the rest of it is not tried: it would fail as well, and
    /// callers wait.
    fn write(&mut self, group: Vec<Line>) {
        let kept = mem::take(&mut self.kept).into_iter().map(Line::Last);
        let mut lines = kept.chain(group);
        loop {
            let some: Vec<Line> = lines.by_ref().take(GROUP_LINES).collect();
            if some.is_empty() || !self.write_some(some) {
                break;
            }
        }
        lines.for_each(|line| self.fail(line));
    }

    /// One write to each sink, then everybody who waits is told. False when not all of it was taken.
    fn write_some(&mut self, lines: Vec<Line>) -> bool {
        let mut text = Vec::new();
        let mut ends = Vec::with_capacity(lines.len());
        for line in &lines {
            line.spell(&mut text);
            ends.push(text.len());
        }
        let taken = self.hand_over(&text);

        let mut written = 0;
        for (line, end) in lines.into_iter().zip(ends) {
            if end <= taken {
                written += 1;
                line.succeed();
            } else {
                self.fail(line);
            }
        }
        self.metrics.audit_lines(written);
        taken == text.len()
    }

    /// How many bytes at least one sink took; one that confirms is enough (security 2.2).
    fn hand_over(&mut self, text: &[u8]) -> usize {
        let mut most = 0;
        self.stall.begin(Instant::now());
        for sink in &mut self.sinks {
            let written = sink.sink.write(text);
            most = most.max(written.bytes);
            sink.note(written.error, &self.metrics);
        }
        self.stall.end();
        most
    }

    /// No sink took the line.
    fn fail(&mut self, line: Line) {
        match line {
            Line::Intent(intent) => {
                intent.fate.lose();
                // Whoever waited may be gone; the last line of the entry still comes.
                let _ = intent.told.send(Err(AuditError::Unwritable));
            }
            Line::Last(last) if last.follows_intent() || self.kept.len() < KEPT_FINALS => {
                self.kept.push_back(last)
            }
            Line::Last(_) => self.metrics.audit_failures(1),
        }
    }
}

impl Fallible {
    fn note(&mut self, error: Option<io::Error>, metrics: &Metrics) {
        let failed = error.is_some();
        metrics.audit_failures(u64::from(failed));
        match error {
            Some(why) if !self.failing => {
                let sink = self.sink.name();
                tracing::error!(sink, %why, "audit lines cannot be written; without another sink nothing is called");
            }
            None if self.failing => tracing::info!(sink = self.sink.name(), "audit lines are written again"),
            Some(_) | None => (),
        }
        self.failing = failed;
    }
}

/// A line, with what is to be done when its fate is known.
enum Line {
    Intent(Intent),
    Last(Last),
}

impl Line {
    fn len(&self) -> usize {
        match self {
            Line::Intent(intent) => intent.body.len(),
            Line::Last(last) => last.body.len(),
        }
    }

    fn spell(&self, text: &mut Vec<u8>) {
        match self {
            Line::Intent(intent) => line::spell(text, intent.entry, "intent", &intent.body),
            Line::Last(last) if last.follows_intent() => line::spell(text, last.entry, "outcome", &last.body),
            Line::Last(last) => line::spell(text, last.entry, "final", &last.body),
        }
    }

    fn succeed(self) {
        match self {
            Line::Intent(intent) => {
                // Whoever waited may be gone; the last line of the entry tells that it was abandoned.
                let _ = intent.told.send(Ok(()));
            }
            // The place is free again.
            Line::Last(last) => drop(last),
        }
    }
}

impl Last {
    /// An intent is written, or stands before this line in the same group and shares its fate.
    fn follows_intent(&self) -> bool {
        self.intent.as_ref().is_some_and(|intent| !intent.is_lost())
    }
}

//! Hands lines to the sinks: whatever waits goes to every sink in one write, and each line learns its fate.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    task::Poll,
    time::Instant,
};

use futures_util::task::AtomicWaker;
use tokio::sync::OwnedSemaphorePermit;

use super::{AuditError, PATIENCE, line, sink::Sink};
use crate::telemetry::Metrics;

/// A write ends here, so that the first to wait is told soon.
const GROUP_LINES: usize = 1024;

/// And here.
const GROUP_BYTES: usize = 1024 * 1024;

/// Last lines without an intent that are kept while no sink takes them; more are lost, and counted. Those that follow
/// an intent are all kept: each holds its place.
const KEPT_FINALS: usize = 4096;

/// Room for lines that is kept from one write to the next.
const SPARE: usize = 64 * 1024;

/// A line, with what is to be done when its fate is known.
pub(super) enum Line {
    /// Somebody waits until it is in the hands of the operating system.
    Intent(Intent),
    /// The last line of an entry. Nobody waits for it.
    Last(Last),
}

/// The first line of an entry whose message leaves us.
pub(super) struct Intent {
    pub(super) entry: u64,
    pub(super) body: Vec<u8>,
    pub(super) fate: Arc<Fate>,
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
pub(super) struct Fate {
    state: AtomicU8,
    told: AtomicWaker,
}

const WAITING: u8 = 0;
const WRITTEN: u8 = 1;
const LOST: u8 = 2;

impl Fate {
    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Release);
        self.told.wake();
    }

    /// No sink took the intent: the entry goes on as if there had been none.
    fn is_lost(&self) -> bool {
        self.state.load(Ordering::Acquire) == LOST
    }

    /// What is known by now.
    pub(super) fn known(&self) -> Option<Result<(), AuditError>> {
        match self.state.load(Ordering::Acquire) {
            WAITING => None,
            WRITTEN => Some(Ok(())),
            _ => Some(Err(AuditError::Unwritable)),
        }
    }

    /// Waits until it is known. For one task; may be dropped half-way.
    pub(super) async fn told(&self) -> Result<(), AuditError> {
        poll_fn(|cx| {
            self.told.register(cx.waker());
            self.known().map_or(Poll::Pending, Poll::Ready)
        })
        .await
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

/// Whoever holds it writes.
pub(super) struct Writer {
    sinks: Vec<Fallible>,
    /// Last lines that no sink took yet.
    kept: VecDeque<Last>,
    text: Vec<u8>,
    metrics: Arc<Metrics>,
    stall: Arc<Stall>,
}

/// A sink, and whether it failed the last time: the log hears of a change, not of every line.
struct Fallible {
    sink: Box<dyn Sink>,
    failing: bool,
}

impl Writer {
    pub(super) fn new(sinks: Vec<Box<dyn Sink>>, metrics: Arc<Metrics>, stall: Arc<Stall>) -> Writer {
        let sinks = sinks.into_iter().map(|sink| Fallible { sink, failing: false }).collect();
        Writer { sinks, kept: VecDeque::new(), text: Vec::new(), metrics, stall }
    }

    /// No sink can keep us waiting.
    pub(super) fn is_swift(&self) -> bool {
        self.sinks.iter().all(|sink| sink.sink.is_swift())
    }

    /// There are lines that no sink took.
    pub(super) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// What was kept gets a last try.
    pub(super) fn finish(&mut self) {
        if self.keeps() {
            self.write(Vec::new());
        }
        let lost = self.kept.len() as u64;
        if lost > 0 {
            self.metrics.audit_failures(lost);
            tracing::error!(lost, "the audit ends with lines that no sink took");
        }
    }

    /// First what was kept, then the lines. After a sink failed, the rest of them is not tried: it would fail as well,
    /// and callers wait.
    pub(super) fn write(&mut self, lines: Vec<Line>) {
        let kept = mem::take(&mut self.kept).into_iter().map(Line::Last);
        let mut lines = kept.chain(lines);
        let mut text = mem::take(&mut self.text);
        while self.write_some(&mut lines, &mut text) {}
        if text.capacity() <= SPARE {
            self.text = text;
        }
        lines.for_each(|line| self.fail(line));
    }

    /// One write to each sink, of as many lines as belong into one; then everybody who waits is told. False when that
    /// was all, or not all of it was taken.
    fn write_some(&mut self, lines: &mut dyn Iterator<Item = Line>, text: &mut Vec<u8>) -> bool {
        text.clear();
        let mut some = Vec::new();
        while some.len() < GROUP_LINES
            && text.len() < GROUP_BYTES
            && let Some(line) = lines.next()
        {
            line.spell(text);
            some.push((line, text.len()));
        }
        if some.is_empty() {
            return false;
        }
        let taken = self.hand_over(text);

        let mut written = 0;
        for (line, end) in some {
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
                // Whoever waited may be gone; the last line of the entry still comes.
                intent.fate.set(LOST);
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

impl Line {
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
                intent.fate.set(WRITTEN);
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

//! Tests of the whole: records in, lines out, read back by a strict reader.

use std::{
    collections::BTreeMap,
    fs, io,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, mpsc},
    time::{Duration, Instant},
};

use admission::{Call, Checks, Facts, Principal, Scene, Sort, Standing, Target, TenantId, Thing};
use futures_util::FutureExt as _;
use serde_json::Value;
use wire::{Budget, Digest, Frame, Revision};

use super::{
    Audit, AuditError, Outcome, PATIENCE, PLACES, Record,
    sink::{FileSink, Sink, Written},
    writer::Stall,
};
use crate::{
    arrival::{Endpoint, Head, Verb},
    telemetry::Metrics,
};

mod failing;
mod lines;

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"files__read","arguments":{"path":"/canary"},"_meta":{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}"#;

/// Lines by entry, in the order of the file.
type Entries = BTreeMap<String, Vec<Value>>;

/// Reads a record strictly: each line is JSON of this schema, each entry is an intent and its outcome, or one final
/// line; nothing else.
fn read(text: &str) -> Entries {
    let mut entries = Entries::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        assert_eq!(line["v"], 1);
        for member in ["time", "tenant", "principal", "peer", "era", "revision", "method", "request_bytes"] {
            assert!(line.get(member).is_some(), "no {member} in {line}");
        }
        assert!(matches!(line["decision"].as_str(), Some("allow" | "deny" | "hold")), "{line}");
        let entry = line["entry"].as_str().unwrap().to_owned();
        assert!(entry.len() == 16 && entry.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
        entries.entry(entry).or_default().push(line);
    }
    for (entry, lines) in &entries {
        let words: Vec<_> = lines.iter().map(|line| line["line"].as_str().unwrap()).collect();
        assert!(words == ["intent", "outcome"] || words == ["final"], "{entry}: {words:?}");
        let last = lines.last().unwrap();
        assert!(last.get("outcome").is_some() && last.get("reply_bytes").is_some(), "{last}");
        assert!(words.len() == 1 || lines[0].get("outcome").is_none(), "{entry}");
    }
    entries
}

/// How many entries have an intent, and how many have none.
fn kinds(entries: &Entries) -> (usize, usize) {
    let committed = entries.values().filter(|lines| lines.len() == 2).count();
    (committed, entries.len() - committed)
}

/// A sink in memory that fails as planned.
#[derive(Clone, Default)]
struct Memory {
    kept: Arc<Mutex<Kept>>,
    swift: bool,
}

#[derive(Default)]
struct Kept {
    text: Vec<u8>,
    writes: usize,
    plan: Option<Box<Plan>>,
}

/// Given the number of a write and its size: how many bytes are taken before it fails. None is success.
type Plan = dyn FnMut(usize, usize) -> Option<usize> + Send;

impl Memory {
    fn failing(plan: impl FnMut(usize, usize) -> Option<usize> + Send + 'static) -> Memory {
        let memory = Memory::default();
        memory.kept().plan = Some(Box::new(plan));
        memory
    }

    /// Written by callers in passing, or by the thread alone.
    fn swift(self, swift: bool) -> Memory {
        Memory { swift, ..self }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8(self.kept().text.clone()).unwrap()
    }
}

impl Sink for Memory {
    fn write(&mut self, lines: &[u8]) -> Written {
        let mut kept = self.kept();
        kept.writes += 1;
        let number = kept.writes;
        let taken = kept.plan.as_mut().and_then(|plan| plan(number, lines.len()));
        let whole = match taken {
            None => lines.len(),
            Some(taken) => lines[..taken].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        };
        kept.text.extend_from_slice(&lines[..whole]);
        Written { bytes: whole, error: taken.map(|_| io::ErrorKind::StorageFull.into()) }
    }

    fn is_swift(&self) -> bool {
        self.swift
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }
}

fn audit_over(sinks: Vec<Box<dyn Sink>>) -> (Arc<Audit>, Arc<Metrics>) {
    let metrics = Metrics::new().unwrap();
    (Audit::with_sinks(sinks, Arc::clone(&metrics)).unwrap(), metrics)
}

/// Looks at the file before each write.
fn audit_in(directory: &Path) -> (Arc<Audit>, Arc<Metrics>) {
    let sink = FileSink::start_with(directory, u64::MAX, Duration::ZERO).unwrap();
    audit_over(vec![Box::new(sink)])
}

fn count(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.render();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
}

fn ada() -> Arc<Principal> {
    let tenant = TenantId::new("acme".into());
    Arc::new(Principal::named(tenant, "https://id.example".into(), "ada".into()))
}

fn head() -> Head {
    Head {
        verb: Verb::Post,
        endpoint: Endpoint::default(),
        session: Some("session-canary".into()),
        revision: None,
        last_event: None,
        authorization: Default::default(),
        mirror: Default::default(),
        accepts_json: true,
        accepts_events: true,
        peer: "127.0.0.1:5000".parse().unwrap(),
        received: Instant::now(),
    }
}

fn frame(text: &str) -> Frame {
    Frame::parse(text.to_owned().into(), &Budget::CLIENT).unwrap()
}

fn call(text: &str, target: Target) -> Call {
    let frame = frame(text);
    let method = frame.method().unwrap();
    Call {
        principal: ada(),
        method,
        target,
        frame,
        received: Instant::now(),
        grant: None,
        scene: Scene::at("default".into(), 0),
    }
}

fn thing() -> Target {
    Target::Thing(Arc::new(Thing {
        upstream: "files".into(),
        sort: Sort::Tool,
        exposed: "files__read".into(),
        native: "read".into(),
        digest: Some(Digest([7; 32])),
        standing: Standing::Offered,
        mirrors: Arc::default(),
        tasks: Default::default(),
        facts: Arc::new(Facts::unknown("files__read")),
    }))
}

/// What a pipeline may do to a record, in any order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Identify,
    Enter,
    Allow,
    Deny,
    Commit,
    /// Whoever commits is gone before the answer.
    GiveUpCommit,
}

const STEPS: [Step; 6] =
    [Step::Identify, Step::Enter, Step::Allow, Step::Deny, Step::Commit, Step::GiveUpCommit];

/// Every order of every selection of the steps.
fn orders() -> Vec<Vec<Step>> {
    let mut all: Vec<Vec<Step>> = vec![Vec::new()];
    let mut from = 0;
    while from < all.len() {
        for step in STEPS {
            if !all[from].contains(&step) {
                let longer = [&all[from][..], &[step]].concat();
                all.push(longer);
            }
        }
        from += 1;
    }
    all
}

async fn take(step: Step, record: &mut Record) -> Option<Result<(), AuditError>> {
    match step {
        Step::Identify => record.identified(&ada()),
        Step::Enter => record.entered(&ada(), Some(Revision::R2025_11_25)),
        Step::Allow => {
            let call = call(CALL, thing());
            record.bound(&call);
            record.decided(Checks::default().decide(call)).unwrap();
        }
        Step::Deny => {
            let call = call(CALL, Target::Missing(Sort::Tool, "files__gone".into()));
            record.bound(&call);
            record.decided(Checks::default().decide(call)).unwrap_err();
        }
        Step::Commit => return Some(record.commit().await),
        Step::GiveUpCommit => {
            record.commit().now_or_never();
        }
    }
    None
}

/// Runs every order, closed and dropped, and returns what each commit said: (committed, identified) an entry.
async fn run_all(audit: &Arc<Audit>) -> (usize, usize) {
    let (mut committed, mut identified) = (0, 0);
    for order in orders() {
        for close in [true, false] {
            let mut record = audit.open().await.unwrap();
            let mut has_committed = false;
            for step in &order {
                has_committed |= take(*step, &mut record).await == Some(Ok(()));
            }
            committed += usize::from(has_committed);
            // A target is bound to a principal too.
            identified +=
                usize::from(order.iter().any(|step| !matches!(step, Step::Commit | Step::GiveUpCommit)));
            if close {
                record.close(Outcome::Ok, None, 1);
            }
        }
    }
    audit.stop().await;
    (committed, identified)
}

#[tokio::test]
async fn every_order_of_steps_leaves_exactly_one_entry_for_an_identified_message() {
    for swift in [false, true] {
        let memory = Memory::default().swift(swift);
        let (audit, metrics) = audit_over(vec![Box::new(memory.clone())]);
        let (committed, identified) = run_all(&audit).await;
        let entries = read(&memory.text());
        assert_eq!(entries.len(), identified);
        assert!(kinds(&entries).0 >= committed);
        let unknown = 2 * orders().len() - identified;
        assert_eq!(count(&metrics, "portcullis_unauthenticated_total "), unknown as u64);
        let lines = memory.text().lines().count();
        assert_eq!(count(&metrics, "portcullis_audit_lines_total "), lines as u64);
    }
}

#[tokio::test]
async fn every_order_of_steps_leaves_one_entry_also_when_writes_fail() {
    for swift in [false, true] {
        // Each third write fails, in turn before its first byte, within and just before the end.
        let memory = Memory::failing(|number, size| match number % 9 {
            0 => Some(0),
            3 => Some(size / 2),
            6 => Some(size - 1),
            _ => None,
        });
        let memory = memory.swift(swift);
        let (audit, _) = audit_over(vec![Box::new(memory.clone())]);
        let (committed, identified) = run_all(&audit).await;
        let entries = read(&memory.text());
        assert_eq!(entries.len(), identified);
        assert!(kinds(&entries).0 >= committed);
    }
}

/// The child's part of the test below; alone it does nothing.
#[tokio::test]
async fn a_process_that_commits_and_is_killed() {
    let Ok(directory) = std::env::var("AUDIT_TEST_DIRECTORY") else { return };
    let (audit, _) = audit_in(Path::new(&directory));
    let mut records = Vec::new();
    for _ in 0..100 {
        let mut record = audit.open().await.unwrap();
        record.identified(&ada());
        record.commit().await.unwrap();
        records.push(record);
    }
    std::io::Write::write_all(&mut io::stderr(), b"committed\n").unwrap();
    // Until it is killed.
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn what_was_committed_survives_a_killed_process() {
    let place = tempfile::tempdir().unwrap();
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("{module}::a_process_that_commits_and_is_killed")])
        .env("AUDIT_TEST_DIRECTORY", place.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stderr.take().unwrap()).lines().any(|line| line.unwrap() == "committed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told);

    let text = fs::read_to_string(place.path().join("audit.jsonl")).unwrap();
    let intents = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(intents.filter(|line| line["line"] == "intent").count(), 100);
}

/// Takes nothing until the other end says so.
struct Blocked(mpsc::Receiver<()>, Memory);

impl Sink for Blocked {
    fn write(&mut self, lines: &[u8]) -> Written {
        // An ended test is as good as a word.
        let _ = self.0.recv();
        self.1.write(lines)
    }

    fn is_swift(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        "blocked".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_blocks_is_a_sink_that_failed() {
    let (go, wait) = mpsc::channel();
    let memory = Memory::default();
    let (audit, metrics) = audit_over(vec![Box::new(Blocked(wait, memory.clone()))]);
    let mut record = audit.open().await.unwrap();
    record.identified(&ada());
    assert_eq!(record.commit().await, Err(AuditError::Unwritable));
    assert_eq!(record.commit().await, Err(AuditError::Unwritable));
    record.close(Outcome::Error, Some("unrecorded"), 1);
    assert_eq!(count(&metrics, "portcullis_audit_failures_total "), 2);

    drop(go);
    // The clock stands still only while something else is waited for.
    tokio::time::resume();
    audit.stop().await;
    // The line came through in the end, so the entry is told as what it is.
    assert_eq!(kinds(&read(&memory.text())), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn open_entries_are_bounded() {
    let (audit, _) = audit_over(vec![Box::new(Memory::default())]);
    let mut records = Vec::new();
    for _ in 0..PLACES {
        records.push(audit.open().await.unwrap());
    }
    assert_eq!(audit.open().await.err(), Some(AuditError::Unwritable));
    records.pop();
    assert!(audit.open().await.is_ok());
}

#[tokio::test]
async fn stopping_writes_all_that_is_queued_and_refuses_what_comes_later() {
    let memory = Memory::default();
    let (audit, _) = audit_over(vec![Box::new(memory.clone())]);
    for _ in 0..5000 {
        let mut record = audit.open().await.unwrap();
        record.identified(&ada());
        record.close(Outcome::Ok, None, 1);
    }
    audit.stop().await;
    assert_eq!(kinds(&read(&memory.text())), (0, 5000));
    assert_eq!(audit.open().await.err(), Some(AuditError::Unwritable));
    audit.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_share_writes_and_lose_nothing() {
    for swift in [false, true] {
        let memory = Memory::default().swift(swift);
        let (audit, metrics) = audit_over(vec![Box::new(memory.clone())]);
        let tasks: Vec<_> = (0..64).map(|_| tokio::spawn(fifty(Arc::clone(&audit)))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        audit.stop().await;
        assert_eq!(kinds(&read(&memory.text())), (64 * 50, 0));
        assert!(memory.kept().writes < 64 * 50 * 2, "nothing was grouped");
        assert_eq!(count(&metrics, "portcullis_audit_lines_total "), 64 * 50 * 2);
    }
}

async fn fifty(audit: Arc<Audit>) {
    for _ in 0..50 {
        let mut record = audit.open().await.unwrap();
        record.identified(&ada());
        record.commit().await.unwrap();
        record.close(Outcome::Ok, None, 1);
    }
}

/// What nobody waits for is written all the same, soon.
#[tokio::test]
async fn a_last_line_is_written_without_anything_after_it() {
    for swift in [false, true] {
        let (written, seen) = mpsc::channel();
        let memory = Memory::failing(move |_, _| {
            let _ = written.send(());
            None
        });
        let memory = memory.swift(swift);
        let (audit, _) = audit_over(vec![Box::new(memory.clone())]);
        let mut record = audit.open().await.unwrap();
        record.identified(&ada());
        record.close(Outcome::Ok, None, 1);
        seen.recv_timeout(PATIENCE).unwrap();
        audit.stop().await;
        assert_eq!(kinds(&read(&memory.text())), (0, 1));
    }
}

#[test]
fn without_a_writable_sink_there_is_no_start() {
    let start = |sinks| {
        let config = config::Audit { sinks, durability: config::Durability::Os };
        Audit::start(&config, Metrics::new().unwrap()).err().map(|why| why.to_string()).unwrap()
    };
    assert!(start(Vec::new()).contains("no sink"));
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    let below = place.path().join("file/audit");
    // The other sink would do, but the operator asked for both.
    let sinks = vec![config::AuditSink::Stdout, config::AuditSink::File(below.clone())];
    assert!(start(sinks).contains(&below.display().to_string()));
}

#[test]
fn a_sink_is_stuck_once_it_is_slower_than_anyone_waits() {
    let start = Instant::now();
    let stall = Stall::new(start);
    let later = start + PATIENCE * 3;
    assert!(!stall.is_long(later), "nothing is being written");
    stall.begin(start + PATIENCE);
    assert!(!stall.is_long(start + PATIENCE * 2));
    assert!(stall.is_long(later));
    stall.end();
    assert!(!stall.is_long(later));
}

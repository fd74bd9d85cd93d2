//! One entry in the making. However its message ends, it is written: closed by its owner, or abandoned when dropped.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use admission::{
    Admitted, Call, CheckName, Decision, Denial, Held, Notes, Principal, Refusal, Rule, RuleError, Shadow,
    Sort, Target, Thing,
};
use time::OffsetDateTime;
use tokio::{sync::OwnedSemaphorePermit, time::timeout};
use wire::{Digest, Era, Frame, Id, Method, Revision};

use super::{
    Audit, AuditError, PATIENCE,
    line::{Body, cut},
    writer::{Fate, Intent, Last, Line},
};
use crate::{
    arrival::{Head, Verb},
    session::{self, Session},
};

/// How much of a session's name is written.
const SESSION_DIGITS: usize = 8;

/// The most rules in shadow mode that are written of one message.
const SHADOWS: usize = 16;

/// The longest method name, in characters.
const METHOD_MAX: usize = 128;

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With a result.
    Ok,
    /// With a result that says the tool failed.
    ToolError,
    /// With an error.
    Error,
    /// A check said no.
    Denied,
    /// Whoever owned it ended without an answer.
    Abandoned,
}

impl Outcome {
    /// The word for records and metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::ToolError => "tool_error",
            Outcome::Error => "error",
            Outcome::Denied => "denied",
            Outcome::Abandoned => "abandoned",
        }
    }
}

/// One entry in the making. Dropped unclosed after its asker is known, it is written as abandoned; dropped before, it is
/// only counted.
#[must_use = "dropping a record writes its entry as abandoned"]
pub(crate) struct Record {
    audit: Arc<Audit>,
    entry: u64,
    /// The place of the last line; none once that line is on its way.
    place: Option<OwnedSemaphorePermit>,
    /// None until an intent is on its way.
    intent: Option<Arc<Fate>>,
    committed: bool,
    facts: Box<Facts>,
    /// What the intent says behind its time; the last line says the same, and then how it ended.
    said: Option<Vec<u8>>,
}

/// What the lines of the entry say.
#[derive(Default)]
struct Facts {
    received: Option<Instant>,
    peer: Option<SocketAddr>,
    verb: Option<Verb>,
    session: Option<Named>,
    principal: Option<Arc<Principal>>,
    revision: Option<Revision>,
    method: Option<Method>,
    /// The method as written, when it is in no table.
    unknown_method: Option<Box<str>>,
    id: Option<Id>,
    trace: Option<String>,
    request_bytes: usize,
    about: About,
    arguments: Option<Digest>,
    /// None until the checks decided.
    decision: Option<Word>,
    spoke: Option<(CheckName, Rule)>,
    /// The limit that refused it, before any check.
    limit: Option<Rule>,
    /// Why a rule has no answer.
    error: Option<RuleError>,
    /// Rules that only record, and what they would have said.
    shadows: Vec<Shadow>,
}

/// How a session is named.
enum Named {
    /// By its id, of which only a part of a hash is written.
    ById(Box<str>),
    /// By its name among ourselves, a hash of its id.
    ByName(Arc<str>),
}

/// What the message is about.
#[derive(Default)]
enum About {
    #[default]
    Nothing,
    Thing(Arc<Thing>),
    Missing(Sort, Box<str>),
    /// The question of an upstream.
    Upstream(Arc<str>),
}

/// The decision so far.
#[derive(Clone, Copy)]
enum Word {
    Allow,
    Deny,
    Hold,
}

impl Word {
    fn text(self) -> &'static str {
        match self {
            Word::Allow => "allow",
            Word::Deny => "deny",
            Word::Hold => "hold",
        }
    }
}

impl Record {
    pub(super) fn new(audit: Arc<Audit>, entry: u64, place: OwnedSemaphorePermit) -> Record {
        Record {
            audit,
            entry,
            place: Some(place),
            intent: None,
            committed: false,
            facts: Box::default(),
            said: None,
        }
    }

    /// The head of the message is known.
    pub(crate) fn arrived(&mut self, head: &Head) {
        self.facts.received = Some(head.received);
        self.facts.peer = Some(head.peer);
        self.facts.verb = Some(head.verb);
        self.facts.session = head.session.clone().map(Named::ById);
    }

    /// The asker is known: from here on there will be an entry.
    pub(crate) fn identified(&mut self, principal: &Arc<Principal>) {
        self.facts.principal = Some(Arc::clone(principal));
    }

    /// The message is known.
    pub(crate) fn read(&mut self, frame: &Frame) {
        let name = frame.method_name();
        self.facts.method = frame.method();
        self.facts.unknown_method =
            (self.facts.method.is_none() && !name.is_empty()).then(|| cut(name, METHOD_MAX));
        self.facts.id = frame.id().cloned();
        self.facts.trace = trace_id(frame.param("_meta"));
        self.facts.request_bytes = frame.bytes().len();
    }

    /// The conversation is known. Its principal replaces the first one.
    pub(crate) fn entered(&mut self, principal: &Arc<Principal>, revision: Option<Revision>) {
        self.facts.principal = Some(Arc::clone(principal));
        self.facts.revision = revision;
    }

    /// The session is known.
    pub(crate) fn opened(&mut self, session: &Session) {
        self.facts.session = Some(Named::ByName(Arc::clone(&session.name)));
    }

    /// The target is known. Arguments are kept as their canonical digest only.
    pub(crate) fn bound(&mut self, call: &Call) {
        self.facts.principal = Some(Arc::clone(&call.principal));
        self.facts.about = match &call.target {
            Target::Ourselves | Target::Listing(_) => About::Nothing,
            Target::Thing(thing) => About::Thing(Arc::clone(thing)),
            Target::Missing(sort, name) => About::Missing(*sort, name.clone()),
        };
        if matches!(call.method, Method::ToolsCall | Method::PromptsGet) {
            self.facts.arguments = call.frame.param_digest("arguments");
        }
    }

    /// The message is the question of an upstream.
    pub(crate) fn asked_by(&mut self, upstream: &Arc<str>) {
        self.facts.about = About::Upstream(Arc::clone(upstream));
    }

    /// The message waits for a person.
    pub(crate) fn waits(&mut self, held: &Held) {
        self.facts.decision = Some(Word::Hold);
        self.facts.spoke = Some((held.by, held.rule.clone()));
        self.facts.shadows.clone_from(&held.notes.shadows);
    }

    /// The question of an upstream goes on to its client.
    pub(crate) fn let_through(&mut self) {
        self.facts.decision = Some(Word::Allow);
    }

    /// A rule keeps the question of an upstream from its client.
    pub(crate) fn ruled_out(&mut self, refusal: &Refusal) {
        self.facts.decision = Some(Word::Deny);
        self.facts.spoke = Some((CheckName::Policy, refusal.rule.clone()));
    }

    /// A limit refuses it. Counted here, so that nothing is refused uncounted.
    pub(crate) fn limited(&mut self, rule: String) {
        if let Some(principal) = &self.facts.principal {
            self.audit.metrics.limited(principal.tenant.name(), &rule);
        }
        self.facts.decision = Some(Word::Deny);
        self.facts.limit = Some(rule.into());
    }

    /// The digest of the arguments, where one is kept.
    pub(crate) fn arguments(&self) -> Option<&Digest> {
        self.facts.arguments.as_ref()
    }

    /// The decision is made. A call that is held here was held before: the second hold is a no.
    pub(crate) fn decided(&mut self, decision: Decision) -> Result<Admitted, Denial> {
        let denial = match decision {
            Decision::Admitted(admitted) => {
                self.facts.decision = Some(Word::Allow);
                self.noted(admitted.notes());
                return Ok(admitted);
            }
            Decision::Held(held) => Denial::of(held.by, Refusal::by(held.rule)),
            Decision::Denied(denial) => denial,
        };
        self.facts.decision = Some(Word::Deny);
        self.noted(&denial.notes);
        self.facts.spoke = Some((denial.by, denial.refusal.rule.clone()));
        self.facts.error = denial.refusal.error.clone();
        Err(denial)
    }

    /// A rule that wanted a person stays in the record of the call it let through.
    fn noted(&mut self, notes: &Notes) {
        if let (None, Some(rule)) = (&self.facts.spoke, &notes.rule) {
            self.facts.spoke = Some((CheckName::Policy, rule.clone()));
        }
        self.facts.shadows.clone_from(&notes.shadows);
    }

    /// Writes the intent, and returns when the operating system has it. Without that nothing may leave us.
    pub(crate) async fn commit(&mut self) -> Result<(), AuditError> {
        if self.committed {
            return Ok(());
        }
        // Nothing leaves in nobody's name; an entry has one intent; a sink that is stuck delays callers once.
        if self.facts.principal.is_none() || self.intent.is_some() || self.audit.stall.is_long(Instant::now())
        {
            self.audit.metrics.audit_failures(1);
            return Err(AuditError::Unwritable);
        }
        let fate = Arc::new(Fate::default());
        let said = self.facts.said();
        let mut body = Body::default();
        body.time("time", OffsetDateTime::now_utc());
        body.members(&said);
        self.said = Some(said);
        let intent = Intent { entry: self.entry, body: body.end(), fate: Arc::clone(&fate) };
        self.intent = Some(Arc::clone(&fate));
        self.audit.leave(Line::Intent(intent))?;
        if self.audit.is_busy() {
            // Whoever is about to leave an intent too does it first, and one write takes them all.
            tokio::task::yield_now().await;
        }
        self.audit.desk.write_in_passing();
        let result = match fate.known() {
            Some(result) => result,
            None => timeout(PATIENCE, fate.told()).await.unwrap_or_else(|_| {
                self.audit.metrics.audit_failures(1);
                Err(AuditError::Unwritable)
            }),
        };
        self.committed = result.is_ok();
        result
    }

    /// Writes the last line: `outcome` after an intent, else `final`.
    pub(crate) fn close(mut self, outcome: Outcome, reason: Option<&str>, reply_bytes: usize) {
        self.end(End { outcome, reason, reply_bytes });
    }

    fn end(&mut self, end: End<'_>) {
        let Some(place) = self.place.take() else {
            return;
        };
        self.audit.open.fetch_sub(1, Ordering::Relaxed);
        let metrics = &self.audit.metrics;
        let Some(principal) = &self.facts.principal else {
            metrics.unauthenticated();
            return;
        };
        if self.facts.decision.is_none() && end.outcome == Outcome::Ok {
            // What no check is asked about (a stream, an answer to nobody) was let through all the same.
            self.facts.decision = Some(Word::Allow);
        }
        let took = self.facts.received.map(|received| received.elapsed()).unwrap_or_default();
        let words = (self.facts.decision_text(), end.outcome.word());
        metrics.message(principal.tenant.name(), self.facts.method, words, took);
        let said = self.said.take().unwrap_or_else(|| self.facts.said());
        let mut body = Body::default();
        body.time("time", OffsetDateTime::now_utc());
        body.members(&said);
        body.word("outcome", end.outcome.word());
        body.text_if("reason", end.reason);
        body.number("reply_bytes", end.reply_bytes as u64);
        if self.facts.received.is_some() {
            body.number("ms", u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        }
        let last = Last { entry: self.entry, body: body.end(), intent: self.intent.take(), _place: place };
        // A lost line was counted, and nobody is here who could be told.
        let _ = self.audit.leave(Line::Last(last));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.end(End { outcome: Outcome::Abandoned, reason: None, reply_bytes: 0 });
    }
}

/// What only a last line says.
struct End<'a> {
    outcome: Outcome,
    reason: Option<&'a str>,
    reply_bytes: usize,
}

impl Facts {
    /// Everything but the time and the end. Each line can be read alone: the last one repeats what the intent said.
    fn said(&self) -> Vec<u8> {
        let mut body = Body::default();
        self.write_asker(&mut body);
        self.write_message(&mut body);
        self.write_decision(&mut body);
        body.so_far()
    }

    fn write_asker(&self, body: &mut Body) {
        let principal = self.principal.as_deref();
        body.text_or_null("tenant", principal.map(|principal| &**principal.tenant.name()));
        body.text_or_null("principal", principal.map(|principal| &*principal.subject));
        let issuer = principal.map(|principal| &*principal.issuer);
        body.text_if("issuer", issuer.filter(|issuer| !issuer.is_empty()));
        // What it can be revoked by.
        let credential = principal.map(|principal| &*principal.credential);
        body.text_if("credential", credential.filter(|credential| !credential.is_empty()));
        match self.peer {
            Some(peer) => body.plain("peer", peer),
            None => body.word_or_null("peer", None),
        }
        let era = self.revision.map(|revision| match revision.era() {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        });
        body.word_or_null("era", era);
        body.word_or_null("revision", self.revision.map(Revision::text));
        if let Some(session) = &self.session {
            let name: &str = match session {
                Named::ById(id) => &session::name(id),
                Named::ByName(name) => name,
            };
            // Enough to find a session's lines, useless to whoever wants to enter it.
            body.word("session", name.get(..SESSION_DIGITS).unwrap_or_default());
        }
    }

    fn write_message(&self, body: &mut Body) {
        body.text_or_null("method", self.method_text());
        match self.id.as_ref().map(Id::raw) {
            Some(raw) if raw.starts_with('"') => body.text_if("id", unquoted(raw).as_deref()),
            Some(raw) => body.raw("id", raw),
            None => (),
        }
        match &self.about {
            About::Nothing => (),
            About::Thing(thing) => {
                body.text(sort_word(thing.sort), &thing.exposed);
                body.text("native", &thing.native);
                body.text("upstream", &thing.upstream);
                if let Some(digest) = &thing.digest {
                    body.digest("definition", digest);
                }
            }
            About::Missing(sort, name) => body.text(sort_word(*sort), name),
            About::Upstream(id) => body.text("upstream", id),
        }
        if let Some(digest) = &self.arguments {
            body.digest("arguments", digest);
        }
        if let Some(trace) = &self.trace {
            body.word("trace", trace);
        }
        body.number("request_bytes", self.request_bytes as u64);
    }

    fn write_decision(&self, body: &mut Body) {
        body.word("decision", self.decision_text());
        if let Some(rule) = &self.limit {
            body.word("check", "limits");
            body.text("rule", rule);
        } else if let Some((check, rule)) = &self.spoke {
            body.word("check", check.word());
            body.text("rule", rule);
        }
        if let Some(error) = &self.error {
            body.text("rule_error", &error.to_string());
        }
        if !self.shadows.is_empty() {
            let shadow = |shadow: &Shadow| {
                format!("{{\"rule\":{},\"would\":\"{}\"}}", wire::quote(&shadow.rule), shadow.would.word())
            };
            let shadows: Vec<String> = self.shadows.iter().take(SHADOWS).map(shadow).collect();
            body.raw("shadow", format_args!("[{}]", shadows.join(",")));
        }
    }

    /// Nothing is allowed until the checks say so.
    fn decision_text(&self) -> &'static str {
        self.decision.map_or(Word::Deny.text(), Word::text)
    }

    /// The method, or the verb of a message that has no body. An answer has neither.
    fn method_text(&self) -> Option<&str> {
        let written = self.unknown_method.as_deref();
        let verb = match self.verb {
            Some(Verb::Get) => Some("GET"),
            Some(Verb::Delete) => Some("DELETE"),
            Some(Verb::Post) | None => None,
        };
        self.method.map(Method::name).or(written).or(verb)
    }
}

fn sort_word(sort: Sort) -> &'static str {
    match sort {
        Sort::Tool => "tool",
        Sort::Prompt => "prompt",
        Sort::Resource => "resource",
    }
}

/// What a raw JSON string says.
fn unquoted(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

/// The trace id of a well-formed `traceparent` (W3C Trace Context: version, trace id, parent id, flags).
pub(super) fn trace_id(meta: Option<&str>) -> Option<String> {
    let text = unquoted(wire::meta::member(meta, "traceparent")?)?;
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let known = (version != "00" || parts.next().is_none()) && version != "ff";
    let well_formed = is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    let real = trace.bytes().any(|digit| digit != b'0') && parent.bytes().any(|digit| digit != b'0');
    (known && well_formed && real).then(|| trace.to_owned())
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

//! A call of a modern client whose legacy server asked: all that it takes to go on with it later (spec X-08).

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::value::RawValue;
use upstream::{Connection, Exchange, Incoming, Upstream, UpstreamError};
use wire::{Frame, Id, Method, code, input};

use super::{
    Asker, MOST, Refusal, fits,
    parking::{Handle, Parking, Place},
};
use crate::audit::Outcome;

/// The call. It has run, or runs, at its server, and nobody sends it again. Dropped, its server is told that it is
/// cancelled, and what is open there is refused.
pub(crate) struct Parked {
    exchange: Exchange,
    upstream: Arc<Upstream>,
    connection: Arc<Connection>,
    /// What the client is to answer.
    open: Vec<Question>,
    /// What the server asked while the call was parked; judged when somebody goes on with it.
    later: VecDeque<Frame>,
    /// The end of the exchange, when it came meanwhile.
    end: Option<Incoming>,
    needs: Option<&'static str>,
    /// Questions so far, refused ones too.
    asked: usize,
    /// What its client was last given for it; none before it is parked for the first time.
    handle: Option<Handle>,
    pub(super) place: Option<Place>,
}

/// One question that the client can be asked.
pub(crate) struct Question {
    /// As the server asked it, with its own id.
    frame: Frame,
    /// Under which name the client answers it.
    pub(crate) key: Box<str>,
    /// What is asked.
    pub(crate) method: Method,
    /// The text of an object, as the client is to see it.
    pub(crate) params: String,
}

impl Question {
    /// What a server asked, judged, under the name that its number makes.
    pub(super) fn new(frame: Frame, number: usize, method: Method, params: String) -> Question {
        Question { frame, key: format!("question-{number}").into(), method, params }
    }

    /// What it costs to keep it, in bytes.
    fn weight(&self) -> usize {
        self.frame.bytes().len() + self.params.len()
    }
}

impl Parked {
    /// A call whose first question was judged. `asked` and `needs` are what came before.
    pub(crate) fn new(
        exchange: Exchange,
        (upstream, connection): (Arc<Upstream>, Arc<Connection>),
        first: Question,
        (asked, needs): (usize, Option<&'static str>),
    ) -> Parked {
        Parked {
            exchange,
            upstream,
            connection,
            open: vec![first],
            later: VecDeque::new(),
            end: None,
            needs,
            asked,
            handle: None,
            place: None,
        }
    }

    /// The seat that it runs at.
    pub(crate) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// The conversation that it runs in.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// What the client is to answer.
    pub(crate) fn asked(&self) -> &[Question] {
        &self.open
    }

    /// What the server asked for and the client did not declare, JSON text (spec X-11).
    pub(crate) fn needs(&self) -> Option<&'static str> {
        self.needs
    }

    /// What the server does next. May be dropped half-way.
    pub(crate) async fn next(&mut self) -> Incoming {
        if let Some(question) = self.later.pop_front() {
            return Incoming::Question(question);
        }
        match self.end.take() {
            Some(end) => end,
            None => self.exchange.next().await,
        }
    }

    /// Judges one more question: it is for the client, or is refused.
    pub(crate) async fn take(&mut self, asker: &Asker<'_>, question: Frame) {
        self.asked += 1;
        let held = match self.asked > MOST {
            true => Err(Refusal::TooMany),
            false => asker.hold(&question, self.asked).await,
        };
        match held {
            Ok(question) => self.open.push(question),
            Err(refusal) => {
                self.needs = asker.missing(refusal, &question).or(self.needs);
                self.refuse(&question, refusal);
            }
        }
    }

    /// Forgets a question that the server takes back, if that is what it says.
    pub(crate) fn retract(&mut self, said: &Frame) {
        if said.method() == Some(Method::Cancelled)
            && let Some(id) = said.param("requestId").and_then(|raw| Id::from_raw(raw).ok())
        {
            self.open.retain(|question| question.frame.id() != Some(&id));
            self.later.retain(|question| question.id() != Some(&id));
        }
    }

    /// Answers the question of this name with a result, JSON text that fits it. False when there is none of that name.
    pub(crate) fn answer(&mut self, key: &str, result: &str) -> bool {
        let Some(at) = self.open.iter().position(|question| *question.key == *key) else { return false };
        let question = self.open.remove(at);
        if let Some(id) = question.frame.id() {
            // Raw line breaks can only be white space there (spec P-01).
            let result = result.replace(['\n', '\r'], " ");
            self.exchange.reply(code::success(id, &result));
        }
        true
    }

    /// Refuses all that the client would have been asked; the server goes on without (spec X-08).
    pub(super) async fn turn_away(&mut self, asker: &Asker<'_>, refusal: Refusal) {
        for question in std::mem::take(&mut self.open) {
            if let Ok(record) = asker.record(&question.frame).await {
                record.close(Outcome::Denied, Some(refusal.reason()), 0);
            }
            self.refuse(&question.frame, refusal);
        }
    }

    /// Puts each question on record; one that cannot be is refused.
    pub(super) async fn put_on_record(&mut self, asker: &Asker<'_>) {
        for question in std::mem::take(&mut self.open) {
            match asker.put_on_record(&question.frame, question.params.len()).await {
                Ok(()) => self.open.push(question),
                Err(refusal) => self.refuse(&question.frame, refusal),
            }
        }
    }

    /// The questions as a modern result has them, the text of an object.
    pub(super) fn requests(&self) -> String {
        let entries = self.open.iter().map(|Question { key, method, params, .. }| {
            input::entry(&code::quote(key), method.name(), params)
        });
        format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
    }

    /// How often it was parked.
    pub(super) fn rounds(&self) -> u32 {
        self.handle.map_or(0, Handle::round)
    }

    /// What its client is given for the round that begins.
    pub(super) fn next_round(&mut self, parking: &Parking) -> Handle {
        let handle = self.handle.unwrap_or_else(|| parking.handle()).next();
        self.handle = Some(handle);
        handle
    }

    /// What is kept for it, in bytes, but for an answer that came early.
    pub(super) fn weight(&self) -> usize {
        let later: usize = self.later.iter().map(|frame| frame.bytes().len()).sum();
        self.open.iter().map(Question::weight).sum::<usize>() + later
    }

    /// Its clock stands still while the client is asked.
    pub(crate) fn pause(&mut self) {
        self.exchange.set_aside();
    }

    /// Its clock goes on.
    pub(crate) fn resume(&mut self) {
        self.exchange.take_up();
    }

    /// Tells the server that nobody goes on with it.
    pub(super) fn cancel(&self) {
        self.exchange.cancel(Some("\"the client did not go on with it\""));
    }

    /// Whether the server has said its last word.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// What the server does next, of its own accord.
    pub(super) async fn listen(&mut self) -> Incoming {
        self.exchange.next().await
    }

    /// Keeps what somebody who goes on with it needs to know. Progress and logs are lost: nobody listens.
    pub(super) fn keep(&mut self, incoming: Incoming) {
        let before = self.weight();
        match incoming {
            Incoming::Question(question) => {
                if self.fill(before + question.bytes().len()) {
                    self.later.push_back(question);
                } else {
                    self.refuse(&question, Refusal::TooMany);
                }
            }
            Incoming::Told(said) => self.retract(&said),
            Incoming::Progress(_) | Incoming::Later => (),
            Incoming::Answer(answer) => {
                // Its server did not wait for the answers.
                self.end = Some(match self.fill(before + answer.bytes().len()) {
                    true => Incoming::Answer(answer),
                    false => {
                        let why = "its answer came early and could not be kept".into();
                        Incoming::Failed(UpstreamError::Exited { why, sent: true })
                    }
                });
            }
            failed @ Incoming::Failed(_) => self.end = Some(failed),
        }
    }

    fn fill(&mut self, bytes: usize) -> bool {
        self.place.as_mut().is_some_and(|place| place.fill(bytes))
    }

    fn refuse(&self, question: &Frame, refusal: Refusal) {
        if let Some(id) = question.id() {
            self.exchange.reply(code::failure(Some(id), refusal.code(), &refusal.to_string(), None));
        }
    }
}

/// What a modern client answers to questions of these names, as far as it does; other names are nobody's (spec Q-21). None when
/// an answer is none to its question; a client that does not want to says so in a result (spec X-06).
pub(super) fn read_answers<'a>(
    responses: &'a str,
    asked: &[(Box<str>, Method)],
) -> Option<Vec<(Box<str>, &'a str)>> {
    let said: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(responses).ok()?;
    let mut answers = Vec::new();
    for (key, method) in asked {
        if let Some(result) = said.get(&**key) {
            fits(*method, result.get())?;
            answers.push((key.clone(), result.get()));
        }
    }
    Some(answers)
}

//! A call that leaves: to the one upstream that owns its target, and back.

use std::{borrow::Cow, sync::Arc};

use admission::{Call, Thing};
use upstream::{Caller, Connection, Exchange, Incoming, Outbound, Spec, Upstream, UpstreamError, Wait};
use wire::{Change, Era, Frame, Id, Method, Names, Pieces, Shape, code, input, meta};

use super::{Answered, Context, Lane, Router, seat};
use crate::{
    asking::{Asker, Offer, Parked, Question, ROUNDS, Retry, Sealed, Taken, Talk, Unmet},
    audit::Outcome,
    bridge::{self, Sender},
    catalog::{Reference, Source},
    error::{CatalogError, Error, Failed, Refused, Relayed},
    logging::Ear,
    relay::Progress,
    running::Outbox,
    tasks::{Became, Birth, Wish},
    visit::Visit,
};

mod later;
mod tasked;

/// What is sent, as far as it is not the client's own words.
struct Sending<'a> {
    wait: Wait,
    sender: Sender<'a>,
    caller: Option<&'a Arc<Caller>>,
    retry: Retry,
    wish: Wish,
}

impl Sending<'_> {
    /// What comes of a task that its client knows nothing of is waited for within the call, whatever is asked.
    fn talk<'a>(&self, asker: &'a Asker<'a>) -> Talk<'a> {
        if matches!(self.wish, Wish::Awaited) { Talk::new(asker) } else { Talk::holding(asker) }
    }
}

/// What the client hears while its call runs.
pub(crate) struct Hearing<'a> {
    progress: Option<Progress>,
    ear: Ear<'a>,
    spec: &'a Spec,
}

impl Hearing<'_> {
    /// The client's own words for what a server says.
    pub(crate) fn of<'a>(call: &'a Call, visit: &'a Visit, spec: &'a Spec) -> Hearing<'a> {
        let token = meta::progress_token(call.frame.param("_meta"));
        let progress = token.map(|token| Progress::new(token, visit.revision()));
        Hearing { progress, ear: Ear::of(visit, &call.frame), spec }
    }

    fn progressed(&mut self, progress: &Frame, lane: &Lane) {
        if let Some(message) = self.progress.as_mut().and_then(|own| own.relay(progress)) {
            lane.outbox.say(Pieces::one(message));
        }
    }

    fn told(&mut self, said: &Frame, lane: &Lane) {
        if let Some(message) = self.ear.hear(said, self.spec) {
            lane.outbox.say(Pieces::one(message));
        }
    }
}

/// How far it went.
pub(crate) enum Heard {
    /// The answer, or that there is none.
    Over(Result<Frame, UpstreamError>),
    /// A question that only the client's next call can answer.
    Held(Box<(Exchange, Question)>),
}

impl Heard {
    /// The end of a request whose questions are not held.
    pub(crate) fn end(self) -> Result<Frame, UpstreamError> {
        match self {
            Heard::Over(end) => end,
            // INVARIANT: nothing is held by a talk that holds nothing.
            Heard::Held(_) => Err(UpstreamError::NotRunning { why: "it asks what nobody hears".into() }),
        }
    }
}

/// How far the client's side of a call goes: what it can be asked (spec ).
pub(crate) fn offer(call: &Call, visit: &Visit, source: &Source) -> Arc<Offer> {
    match visit {
        Visit::Opening(session) | Visit::Within(session) => {
            session.offers.get(session.client(), session.revision, source.reach)
        }
        Visit::Alone(_) => match wire::envelope(&call.frame) {
            Some(Ok(envelope)) => Offer::of(envelope.capabilities, visit.revision(), source.reach),
            Some(Err(_)) | None => Arc::clone(Offer::nothing()),
        },
    }
}

/// The configuration changed since the call was decided.
fn removed() -> UpstreamError {
    UpstreamError::NotRunning { why: "it is not configured any more".into() }
}

impl Router {
    /// The seat of a thing's upstream that serves this caller, with what its client declared (spec X-02).
    pub(crate) fn upstream(
        &self,
        call: &Call,
        thing: &Thing,
        context: &Context,
    ) -> Result<Arc<Upstream>, UpstreamError> {
        let source = context.catalog.source(&thing.upstream).ok_or_else(removed)?;
        self.seated(&source, &offer(call, &context.visit, &source), context)
    }

    fn seated(
        &self,
        source: &Source,
        offer: &Offer,
        context: &Context,
    ) -> Result<Arc<Upstream>, UpstreamError> {
        let Context { visit, catalog, .. } = context;
        let processes = catalog.terms().processes;
        let seat = seat(source.config.share, visit);
        let caller = heard_of(context, source);
        caller.map_or(Ok(()), |caller| source.spec.serves(caller))?;
        let upstream = self.pool.seat(&source.spec, seat, offer.declared(), processes)?;
        caller.into_iter().for_each(|caller| upstream.speak_for(caller));
        Ok(upstream)
    }

    pub(super) async fn forward(
        &self,
        call: &Call,
        thing: &Thing,
        context: &Context,
        mut lane: Lane,
    ) -> Result<Answered, Error> {
        let Some(id) = call.frame.id() else {
            return Err(CatalogError::Method(call.frame.method_name().into()).into());
        };
        let failed = |why: UpstreamError| Error::from(Box::new(failure(call, thing, why)));
        let source = &*context.catalog.source(&thing.upstream).ok_or_else(|| failed(removed()))?;
        // What a client carries is looked at before anything is sent (spec Q-19).
        let sealed = Sealed { seal: &self.seal, call, thing, server: &context.view.server };
        let retry = Retry::read(&sealed, &context.visit)?;
        let offer = offer(call, &context.visit, source);
        if let Some(handle) = retry.parked {
            return Box::pin(self.resume((handle, &retry, id), &sealed, (context, source, &offer), &lane))
                .await;
        }
        let upstream = self.seated(source, &offer, context).map_err(failed)?;
        let connection = tokio::select! {
            connection = upstream.connection() => connection.map_err(failed)?,
            _ = lane.cancelled() => return Ok(Answered::GivenUp),
        };
        let era = connection.facts().revision.era();
        if call.method == Method::Complete && !connection.facts().has("completions") {
            return Ok(Answered::ok(Pieces::one(bridge::no_completions(id, context.visit.era())))); // spec K-05
        }
        if era == Era::Legacy && retry.state.is_some() {
            // It was another server that gave it.
            return Err(CatalogError::Parameter(input::STATE).into());
        }
        let asker = Asker::of(&self.asking, (call, context), (source, upstream.seat()), &offer);
        let rounds = Rounds {
            upstream: &upstream,
            connection: &connection,
            thing,
            context,
            asker: &asker,
            sealed: &sealed,
            id,
        };
        match self.converse(&rounds, retry, &mut lane).await {
            Some(done) => done.map_err(|why| why.into_error(failed)),
            None => Ok(Answered::GivenUp),
        }
    }

    /// Sends the call, again with answers as often as a modern server asks for some. None when the client gave it up.
    async fn converse(
        &self,
        rounds: &Rounds<'_>,
        retry: Retry,
        lane: &mut Lane,
    ) -> Option<Result<Answered, Gone>> {
        let Rounds { connection, thing, context, asker, .. } = *rounds;
        let (call, spec) = (asker.call, &*asker.source.spec);
        let timeouts = &asker.source.config.timeouts;
        let mut hearing = Hearing::of(call, &context.visit, spec);
        let wait =
            Wait { first: timeouts.call, most: timeouts.call_max, progress: hearing.progress.is_some() };
        let wish = match Wish::of(self, (call, thing), context, connection.facts()) {
            Ok(wish) => wish,
            Err(error) => return Some(Err(error.into())),
        };
        rounds.leaves(&lane.outbox);
        let sender = Sender { offer: asker.offer, level: hearing.ear.wanted(), tasks: wish.declares() };
        let caller = heard_of(context, asker.source);
        let mut sending = Sending { wait, sender, caller, retry, wish };
        for round in 1..=ROUNDS {
            let exchange = match send(connection, call, thing, &sending) {
                Ok(exchange) => exchange,
                Err(why) => return Some(Err(why)),
            };
            // Its progress outlives the call that becomes a task.
            let number = if sending.wish.declares() { exchange.id().as_number() } else { None };
            let mut talk = sending.talk(asker);
            let mut answer = match hear(exchange, (&mut talk, &mut hearing), lane).await? {
                Heard::Over(Ok(answer)) => answer,
                Heard::Over(Err(why)) => return Some(Err(why.into())),
                Heard::Held(held) => {
                    let parked = rounds.parked(*held, &talk);
                    return Some(Box::pin(self.asked(rounds, parked, hearing, lane)).await);
                }
            };
            match Became::of(&sending.wish, &answer, rounds.era()) {
                Became::Answered => (),
                Became::Task => {
                    let so_far = number.zip(hearing.progress);
                    return Some(self.keep_task(rounds, &mut sending.wish, &answer, so_far));
                }
                Became::Awaited(native) => {
                    let ears = (&mut talk, &mut hearing);
                    answer = match Box::pin(self.await_task(rounds, &native, ears, lane)).await? {
                        Ok(answer) => answer,
                        Err(why) => return Some(Err(why)),
                    };
                }
            }
            if !rounds.asks(&answer) {
                let done = self.receive(rounds, &answer, talk.needs()).await;
                return Some(self.keep_answer(rounds, &mut sending.wish, done));
            }
            if let Err(error) = self.admit(rounds, &answer) {
                return Some(Err(error.into()));
            }
            if context.visit.era() == Era::Modern {
                let handed = asker.hand_on(&answer, rounds.id, rounds.sealed).await;
                return Some(handed.map(Answered::Asked).map_err(Gone::from));
            }
            let outbox = Arc::clone(&lane.outbox);
            let fulfilled = tokio::select! {
                fulfilled = asker.fulfil(&answer, &outbox, round) => fulfilled,
                _ = lane.cancelled() => return None,
            };
            match fulfilled {
                Ok(retry) => sending.retry = retry,
                Err(error) => return Some(Err(error.into())),
            }
        }
        let endless = Unmet::Failed("it asked again and again"); // spec Q-22
        Some(Err(Error::from(Box::new(endless)).into()))
    }

    /// Whether what came back may be passed on at all.
    fn admit(&self, rounds: &Rounds<'_>, answer: &Frame) -> Result<(), Error> {
        let Rounds { thing, context, asker, .. } = *rounds;
        if answer.bytes().len() > self.result_limit {
            let why = UpstreamError::TooLarge { limit: self.result_limit };
            return Err(Box::new(failure(asker.call, thing, why)).into());
        }
        context.snapshot.checks.judge_reply(asker.call, answer).map_err(|denial| {
            Box::new(Refused { denial, sort: Some(thing.sort), referred: false, name: thing.exposed.clone() })
        })?;
        Ok(())
    }

    /// What came back, made fit for the client. `needs` is what the server asked for and the client did not declare.
    async fn receive(
        &self,
        rounds: &Rounds<'_>,
        answer: &Frame,
        needs: Option<&'static str>,
    ) -> Result<Answered, Error> {
        let Rounds { thing, context, asker, id, .. } = *rounds;
        let call = asker.call;
        self.admit(rounds, answer)?;
        let rewrite = |uri: &str| context.view.uri(&thing.upstream, uri);
        if answer.shape() == Shape::Failure {
            if let Some(needs) = needs {
                return Err(Box::new(Unmet::Needs(needs)).into()); // spec X-11
            }
            if rounds.era() == Era::Legacy && is_about_pages(answer) {
                return Box::pin(asker.pages(answer, id, rounds.sealed)).await.map(Answered::Asked);
            }
            let asked = (call.method == Method::ResourcesRead).then_some(&*thing.exposed);
            return Err(Box::new(Relayed::read(answer, rounds.era(), asked, &rewrite)).into());
        }
        let revision = context.visit.revision();
        let body = bridge::result(answer, id, (rounds.era(), revision), call.method, &rewrite)
            .map_err(|why| Error::from(Box::new(failure(call, thing, why))))?;
        let tool_error = call.method == Method::ToolsCall && answer.result_member("isError") == Some("true");
        let outcome = if tool_error { Outcome::ToolError } else { Outcome::Ok };
        Ok(Answered::Message { body, outcome, opened: None })
    }
}

/// Who calls, where the upstream hears of that.
fn heard_of<'a>(context: &'a Context, source: &Source) -> Option<&'a Arc<Caller>> {
    context.caller.as_ref().filter(|_| source.spec.is_for_callers())
}

/// One call at one open connection.
#[derive(Clone, Copy)]
struct Rounds<'a> {
    upstream: &'a Arc<Upstream>,
    connection: &'a Arc<Connection>,
    thing: &'a Thing,
    context: &'a Context,
    asker: &'a Asker<'a>,
    sealed: &'a Sealed<'a>,
    id: &'a Id,
}

impl Rounds<'_> {
    fn birth(&self) -> Birth<'_> {
        let Rounds { connection, context, asker, id, .. } = *self;
        Birth { call: asker.call, id, context, upstream: self.upstream, connection }
    }

    /// A legacy server may ask or take long from here on: then the call becomes a task of ours (spec X-08).
    fn leaves(&self, outbox: &Outbox) {
        if let Some(hosting) = outbox.hosting()
            && self.era() == Era::Legacy
        {
            hosting.leaves(&self.asker.call.target, &self.context.view.server);
        }
    }

    /// The call as it waits for its client.
    fn parked(&self, (exchange, first): (Exchange, Question), talk: &Talk<'_>) -> Parked {
        let at = (Arc::clone(self.upstream), Arc::clone(self.connection));
        Parked::new(exchange, at, first, (talk.asked(), talk.needs()))
    }

    fn era(&self) -> Era {
        self.connection.facts().revision.era()
    }

    /// Whether it is no answer yet. What a legacy server says of types means nothing.
    fn asks(&self, answer: &Frame) -> bool {
        self.era() == Era::Modern && input::asks(answer)
    }
}

fn is_about_pages(answer: &Frame) -> bool {
    let said = answer.error_member("code").and_then(|raw| raw.parse().ok());
    said == Some(code::URL_ELICITATION_REQUIRED)
}

fn failure(call: &Call, thing: &Thing, why: UpstreamError) -> Failed {
    Failed { upstream: Arc::clone(&thing.upstream), why, tool: call.method == Method::ToolsCall }
}

/// Why there is nothing for the client but a failure.
enum Gone {
    Error(Error),
    Upstream(UpstreamError),
}

impl Gone {
    fn into_error(self, failed: impl Fn(UpstreamError) -> Error) -> Error {
        match self {
            Gone::Error(error) => error,
            Gone::Upstream(why) => failed(why),
        }
    }
}

impl From<Error> for Gone {
    fn from(error: Error) -> Gone {
        Gone::Error(error)
    }
}

impl From<UpstreamError> for Gone {
    fn from(why: UpstreamError) -> Gone {
        Gone::Upstream(why)
    }
}

/// Writes the request under the upstream's own name for the target, with our id and our progress token.
fn send(
    connection: &Arc<Connection>,
    call: &Call,
    thing: &Thing,
    sending: &Sending<'_>,
) -> Result<Exchange, Gone> {
    let (key, named) = match call.method {
        Method::ResourcesRead => ("uri", code::quote(&thing.native)),
        Method::Complete => {
            let reference = Reference::read(&call.frame).map_err(Error::from)?;
            ("ref", reference.native(&thing.native))
        }
        _ => ("name", code::quote(&thing.native)),
    };
    let Sending { wait, sender, caller, retry, wish } = sending;
    // A legacy server never sees them, nor does any server those of another round (spec Q-20).
    let carried = |text: &'_ Option<String>| match connection.facts().revision.era() {
        Era::Legacy => None,
        Era::Modern => text.clone(),
    };
    let unsaid = match call.method {
        Method::ToolsCall => Some("task"),
        Method::Complete if !connection.facts().revision.has_completion_context() => Some("context"), // spec K-04
        _ => None,
    };
    let task = wish.param(call, connection.facts().revision.era());
    let build = |id: &Id| {
        let token = if wait.progress { id.as_number() } else { None };
        let meta = bridge::request_meta(connection.facts(), call.frame.param("_meta"), token, sender);
        let changes = [
            Change { key, value: Some(Cow::Borrowed(&named)) },
            Change { key: "_meta", value: meta.map(Cow::Owned) },
            Change { key: input::RESPONSES, value: carried(&retry.responses).map(Cow::Owned) },
            Change { key: input::STATE, value: carried(&retry.state).map(Cow::Owned) },
            Change { key: unsaid.unwrap_or_default(), value: task.as_deref().map(Cow::Borrowed) },
        ];
        let concerned = if unsaid.is_some() { 5 } else { 4 };
        call.frame.forward(Some(id), changes.get(..concerned).unwrap_or_default())
    };
    let mirrored = wire::mirror::mirrored(&thing.mirrors, call.frame.param("arguments"));
    let named = call.method.row().names != Names::Reference;
    let outbound = Outbound {
        method: call.method,
        name: named.then_some(&*thing.native),
        mirrored: &mirrored,
        caller: *caller,
        build: &build,
    };
    Ok(connection.send_outbound(&outbound, *wait)?)
}

/// Waits for the answer; progress, logs and questions of the server go to the client meanwhile. None when the client
/// gave the request up.
pub(crate) async fn hear(
    mut exchange: Exchange,
    (talk, hearing): (&mut Talk<'_>, &mut Hearing<'_>),
    lane: &mut Lane,
) -> Option<Heard> {
    if hearing.ear.is_request() {
        exchange.hear_beside();
    }
    loop {
        tokio::select! {
            incoming = exchange.next() => match incoming {
                Incoming::Answer(answer) => return Some(Heard::Over(Ok(answer))),
                Incoming::Failed(why) => return Some(Heard::Over(Err(why))),
                Incoming::Question(question) => match talk.take(&question, &lane.outbox).await {
                    Taken::Put => exchange.pause(),
                    Taken::Refused(refusal) => exchange.reply(refusal),
                    Taken::Held(first) => return Some(Heard::Held(Box::new((exchange, first)))),
                },
                Incoming::Told(said) => {
                    talk.told(&said, hearing.spec, lane);
                    if !talk.is_waiting() {
                        exchange.resume();
                    }
                    hearing.told(&said, lane);
                }
                Incoming::Later => lane.outbox.begin(),
                Incoming::Progress(progress) => hearing.progressed(&progress, lane),
            },
            reply = talk.next(), if talk.is_waiting() => {
                exchange.reply(reply);
                if !talk.is_waiting() {
                    exchange.resume();
                }
            },
            cancelled = lane.cancelled() => {
                exchange.cancel(cancelled.reason.as_deref());
                return None;
            }
        }
    }
}

//! Results of modern servers that ask: answered within a legacy client's call, or handed on to a modern client, whose
//! next call brings the answers (spec 6.2, X-05, X-18).

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use admission::{Call, Thing};
use futures_util::future::try_join_all;
use wire::{Era, Frame, Id, Method, Pieces, code, input, shape};

use super::{
    Asker, Parked, Refusal, Reply, Unfit, Unmet, as_frame,
    parked::read_answers,
    parking::{Handle, Missed},
    question,
};
use crate::{
    bridge,
    error::{CatalogError, Error, Relayed},
    router::seat_key,
    running::Outbox,
    seal::{Bound, Purpose, Seal},
    visit::Visit,
};

/// How often a server may ask for more within one call (spec Q-22).
pub(crate) const ROUNDS: u32 = 10;
/// How long a client may carry a state (spec Q-19).
const LIFE: Duration = Duration::from_secs(60 * 60);
/// The longest state of a server that is carried, in bytes.
const LONGEST_STATE: usize = 64 * 1024;
/// A server that only wants to be asked again is given this much time, and more each time.
const BREATH: Duration = Duration::from_millis(50);

/// What the next round brings the server, as JSON text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    /// The answers.
    pub(crate) responses: Option<String>,
    /// Its own state, as it gave it; none when it gave none (spec Q-20).
    pub(crate) state: Option<String>,
    /// The call waits for them at its server, and goes on there (spec X-08).
    pub(crate) parked: Option<Handle>,
}

/// What a client carries: for whom, about what.
pub(crate) struct Sealed<'a> {
    pub(crate) seal: &'a Seal,
    pub(crate) call: &'a Call,
    pub(crate) thing: &'a Thing,
    pub(crate) server: &'a str,
}

/// What is sealed.
#[derive(Debug, PartialEq, Eq)]
enum Carried<'a> {
    /// The state of a server, JSON text; none when it gave none.
    State(Option<&'a str>),
    /// The call is to be made again, as if for the first time (spec X-14).
    Again,
    /// The call waits, and is not made again (spec X-08).
    Parked(Handle),
}

impl Retry {
    /// What a modern call brings along from an earlier round.
    ///
    /// # Errors
    /// When it is malformed, or not what we gave to this caller for this call (spec Q-19, Q-21).
    pub(crate) fn read(sealed: &Sealed<'_>, visit: &Visit) -> Result<Retry, CatalogError> {
        if visit.era() == Era::Legacy || !may_ask(sealed.call.method) {
            return Ok(Retry::default());
        }
        let frame = &sealed.call.frame;
        let responses = match frame.param(input::RESPONSES) {
            Some(raw) if !raw.starts_with('{') => return Err(CatalogError::Parameter(input::RESPONSES)),
            responses => responses.map(str::to_owned),
        };
        if frame.param(input::STATE).is_none() {
            return Ok(Retry { responses, ..Retry::default() });
        }
        let text = frame.param_text(input::STATE).ok_or(CatalogError::Parameter(input::STATE))?;
        let (until, opened) = sealed.open(&text).ok_or(CatalogError::Parameter(input::STATE))?;
        match read(&opened) {
            // However old it is: whoever comes too late is to know that the call was made (spec X-10).
            Some(Carried::Parked(handle)) => Ok(Retry { responses, state: None, parked: Some(handle) }),
            _ if until < now() => Err(CatalogError::Parameter(input::STATE)),
            Some(Carried::State(state)) => {
                Ok(Retry { responses, state: state.map(str::to_owned), parked: None })
            }
            Some(Carried::Again) => Ok(Retry::default()),
            None => Err(CatalogError::Parameter(input::STATE)),
        }
    }
}

/// Methods that may be answered by a question (spec Q-18).
pub(super) fn may_ask(method: Method) -> bool {
    matches!(method, Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet)
}

impl Sealed<'_> {
    fn close(&self, carried: &Carried<'_>, until: u64) -> Option<String> {
        let mut payload = until.to_be_bytes().to_vec();
        match carried {
            Carried::State(None) => payload.push(0),
            Carried::State(Some(state)) => {
                payload.push(1);
                payload.extend_from_slice(state.as_bytes());
            }
            Carried::Again => payload.push(2),
            Carried::Parked(handle) => {
                payload.push(3);
                payload.extend_from_slice(&handle.to_bytes());
            }
        }
        let (principal, place) = (seat_key(&self.call.principal), self.place());
        self.seal.seal(Purpose::Input, &self.bound(&principal, &place), &payload).ok()
    }

    /// Until when it is good, and what follows.
    fn open(&self, text: &str) -> Option<(u64, Vec<u8>)> {
        let (principal, place) = (seat_key(&self.call.principal), self.place());
        let payload = self.seal.open(Purpose::Input, &self.bound(&principal, &place), text)?;
        let (until, rest) = payload.split_first_chunk::<8>()?;
        Some((u64::from_be_bytes(*until), rest.to_vec()))
    }

    fn bound<'a>(&'a self, principal: &'a str, place: &'a str) -> Bound<'a> {
        Bound { tenant: self.call.principal.tenant.name(), principal, endpoint: place }
    }

    /// All that must be the same when it comes back. The parts are quoted, so that no two places read the same.
    fn place(&self) -> String {
        let arguments = self.call.frame.param_digest("arguments");
        let arguments = arguments.map(|digest| digest.to_string()).unwrap_or_default();
        let (method, upstream) = (self.call.method.name(), &*self.thing.upstream);
        let parts = [self.server, upstream, method, &*self.thing.exposed, &*self.thing.native, &*arguments];
        parts.map(code::quote).join(",")
    }
}

fn read(opened: &[u8]) -> Option<Carried<'_>> {
    match opened.split_first()? {
        (0, []) => Some(Carried::State(None)),
        (1, state) => std::str::from_utf8(state).ok().map(|state| Carried::State(Some(state))),
        (2, []) => Some(Carried::Again),
        (3, handle) => Handle::from_bytes(handle).map(Carried::Parked),
        _ => None,
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn until() -> u64 {
    now().saturating_add(LIFE.as_secs())
}

impl Asker<'_> {
    /// What a result asks for.
    ///
    /// # Errors
    /// When nobody may be asked by a result of this method, or it is malformed.
    fn wanted<'b>(&self, answer: &'b Frame) -> Result<input::Wanted<'b>, Unmet> {
        if !may_ask(self.call.method) {
            return Err(Unmet::Failed("it may not at this point"));
        }
        input::wanted(answer).ok_or(Unmet::Failed("it did not say what for"))
    }

    /// Asks a legacy client what a result asks for, all of it at once, and returns what the server is to be told.
    /// Dropped, it takes its questions back.
    pub(crate) async fn fulfil(
        &self,
        answer: &Frame,
        outbox: &Arc<Outbox>,
        round: u32,
    ) -> Result<Retry, Error> {
        let wanted = self.wanted(answer).map_err(Box::new)?;
        let state = wanted.state.map(str::to_owned);
        if wanted.questions.is_empty() {
            tokio::time::sleep(BREATH.saturating_mul(round)).await;
            return Ok(Retry { state, ..Retry::default() });
        }
        let mut put = Vec::new();
        for wish in &wanted.questions {
            let asked = as_frame(&wish.method, wish.params).ok_or_else(malformed)?;
            let answering = self.ask(&asked, outbox, self.patience()).await;
            let answering = answering.map_err(|refusal| Box::new(refused(refusal)))?;
            put.push(async move { response(wish, answering.await) });
        }
        let responses = try_join_all(put).await.map_err(Box::new)?;
        Ok(Retry { responses: Some(format!("{{{}}}", responses.join(","))), state, parked: None })
    }

    /// The result for a modern client: its questions in our words, its state sealed (spec Q-19, X-18).
    pub(crate) async fn hand_on(
        &self,
        answer: &Frame,
        id: &Id,
        sealed: &Sealed<'_>,
    ) -> Result<Pieces, Error> {
        let wanted = self.wanted(answer).map_err(Box::new)?;
        if wanted.state.is_some_and(|state| state.len() > LONGEST_STATE) {
            return Err(Box::new(Unmet::Failed("its state is too long")).into());
        }
        let mut judged = Vec::new();
        for wish in &wanted.questions {
            judged.push(self.judged(&wish.method, wish.params).await?);
        }
        let mut questions = Vec::new();
        for (wish, (asked, params)) in wanted.questions.iter().zip(judged) {
            self.hands_on(&asked, &params).await?;
            questions.push(input::entry(wish.key, &wish.method, &params));
        }
        let state = sealed.close(&Carried::State(wanted.state), until());
        let state = state.ok_or_else(|| Box::new(Unmet::Failed("its state could not be sealed")))?;
        let edits = input::edits(answer, &format!("{{{}}}", questions.join(",")), &code::quote(&state));
        Ok(answer.answer(id, &shape::merge(edits, shape::to_modern(answer, None))))
    }

    /// A question of an answer as a message, and its params as the client is to see them. What is refused is on record.
    async fn judged(&self, method: &str, params: &str) -> Result<(Frame, String), Error> {
        let asked = as_frame(method, params).ok_or_else(malformed)?;
        let against = self.against(&asked);
        let refusal = match &against {
            Some(_) => Refusal::Ruled,
            None => match question::put(method, params, &self.terms()) {
                Ok((_, shown)) => return Ok((asked, shown)),
                Err(unfit) => unfit.into(),
            },
        };
        let told = self.turn_down(&asked, against.as_ref(), refusal).await;
        told.map_err(|refusal| Box::new(refused(refusal)))?;
        let unmet = match refusal {
            Refusal::Unfit(unfit) => self.unmet(unfit, method, params),
            other => refused(other),
        };
        Err(Box::new(unmet).into())
    }

    /// Puts on record that a client reads this in an answer.
    async fn hands_on(&self, asked: &Frame, shown: &str) -> Result<(), Error> {
        self.put_on_record(asked, shown.len()).await.map_err(|refusal| Box::new(refused(refusal)).into())
    }

    /// The params of one question of a task; put on record when it is shown for the first time.
    pub(crate) async fn of_task(&self, wish: &input::Wish<'_>, is_new: bool) -> Result<String, Error> {
        let (asked, shown) = self.judged(&wish.method, wish.params).await?;
        if is_new {
            self.hands_on(&asked, &shown).await?;
        }
        Ok(shown)
    }

    /// A modern client is told what to declare, if that is what is missing (spec B-32).
    fn unmet(&self, unfit: Unfit, method: &str, params: &str) -> Unmet {
        match self.lacks(unfit, method, params) {
            Some(needs) => Unmet::Needs(needs),
            None => Unmet::Failed("that is not asked of this client"),
        }
    }

    /// A legacy server wants a user to open pages first, and says so by an error (spec Q-16, X-14).
    ///
    /// # Errors
    /// Always but for modern clients: what the client is told instead. It names a page only where the client can open it.
    pub(crate) async fn pages(&self, answer: &Frame, id: &Id, sealed: &Sealed<'_>) -> Result<Pieces, Error> {
        let nobody =
            || Error::from(Box::new(Unmet::Failed("a page must be opened, which this client cannot do")));
        let data = answer.error_member("data").ok_or_else(nobody)?;
        let asked = input::member(data, "elicitations").filter(|raw| raw.starts_with('['));
        let method = Method::ElicitationCreate.name();
        let mut judged = Vec::new();
        for page in input::elements(asked.ok_or_else(nobody)?).take(super::MOST) {
            let fit = self.judged(method, page).await;
            judged.push(fit.map_err(|error| match self.visit.era() {
                Era::Modern => error,
                Era::Legacy => nobody(),
            })?);
        }
        let mut shown = Vec::new();
        for (page, params) in judged {
            self.hands_on(&page, &params).await?;
            if let (Some(native), Some(session)) = (page.param_text("elicitationId"), self.visit.session())
                && native.len() <= super::LINK_BYTES
            {
                self.asking.links.shown(&self.link(&native), session);
            }
            shown.push(params);
        }
        if self.visit.era() == Era::Legacy {
            let message = "a page must be opened first".to_owned();
            let data = Some(format!("{{\"elicitations\":[{}]}}", shown.join(",")));
            return Err(Box::new(Relayed { code: code::URL_ELICITATION_REQUIRED, message, data }).into());
        }
        let state = sealed.close(&Carried::Again, until()).ok_or_else(nobody)?;
        let entry = |(n, params): (usize, &String)| {
            input::entry(&format!("\"page-{n}\""), Method::ElicitationCreate.name(), params)
        };
        let entries: Vec<String> = shown.iter().enumerate().map(entry).collect();
        let requests = format!("{{{}}}", entries.join(","));
        Ok(input_required(id, &requests, &state))
    }

    /// Parks a call until its client comes back with answers: the result that asks for them. Where it cannot be parked its
    /// server is refused, and the call goes on (spec X-08).
    pub(crate) async fn park(
        &self,
        mut parked: Parked,
        id: &Id,
        sealed: &Sealed<'_>,
    ) -> Result<Pieces, Box<Parked>> {
        let parking = &self.asking.parking;
        let tenant = &self.call.principal.tenant;
        if parked.rounds() >= ROUNDS {
            parked.turn_away(self, Refusal::TooMany).await;
            return Err(Box::new(parked));
        }
        if parked.place.is_none() {
            parked.place = parking.place(tenant, &seat_key(&self.call.principal));
        }
        let weight = parked.weight();
        if !parked.place.as_mut().is_some_and(|place| place.fill(weight)) {
            parked.turn_away(self, Refusal::Full).await;
            return Err(Box::new(parked));
        }
        parked.put_on_record(self).await;
        if parked.asked().is_empty() {
            return Err(Box::new(parked));
        }
        let handle = parked.next_round(parking);
        // Good for longer than the call waits: what comes later is told that it comes too late.
        let Some(state) = sealed.close(&Carried::Parked(handle), until()) else {
            parked.turn_away(self, Refusal::Unrecorded).await;
            return Err(Box::new(parked));
        };
        let result = input_required(id, &parked.requests(), &state);
        parking.keep(tenant, handle, parked, self.patience());
        Ok(result)
    }
}

impl Sealed<'_> {
    /// The call that a client comes back to, with its answers passed on to the server.
    ///
    /// # Errors
    /// When it does not wait any more (spec X-10), or the answers are none to its questions: then it waits on.
    pub(crate) async fn go_on(
        &self,
        asking: &super::Asking,
        retry: &Retry,
        handle: Handle,
    ) -> Result<Parked, Error> {
        let responses = retry.responses.as_deref().unwrap_or("{}");
        let tenant = &self.call.principal.tenant;
        let mut answers = Vec::new();
        let parked = asking.parking.take(tenant, handle, |asked| match read_answers(responses, asked) {
            Some(read) => {
                answers = read;
                true
            }
            None => false,
        });
        let mut parked = parked.await.map_err(|missed| match missed {
            Missed::Gone => Error::from(Box::new(Unmet::Spent)),
            Missed::Malformed => CatalogError::Parameter(input::RESPONSES).into(),
        })?;
        for (key, result) in answers {
            // One that was taken back meanwhile needs no answer.
            let _taken_back = parked.answer(&key, result);
        }
        Ok(parked)
    }
}

/// A result of ours that asks. `requests` is the text of an object.
fn input_required(id: &Id, requests: &str, state: &str) -> Pieces {
    let (state, server) = (code::quote(state), bridge::server_meta());
    let result = format!(
        "{{\"resultType\":\"input_required\",\"inputRequests\":{requests},\"requestState\":{state}{server}}}"
    );
    Pieces::one(code::success(id, &result))
}

fn malformed() -> Box<Unmet> {
    Box::new(Unmet::Failed("a question is malformed"))
}

/// There is no place for an error among the answers: the call ends (spec X-06).
fn response(wish: &input::Wish<'_>, reply: Reply) -> Result<String, Unmet> {
    const LONGEST: usize = 1024;
    let is_sampling = wish.method == Method::SamplingCreate.name();
    let answer = match &reply {
        Reply::Result(answer) => answer.result().unwrap_or("{}"),
        Reply::Silence if wish.method == Method::ElicitationCreate.name() => r#"{"action":"cancel"}"#,
        Reply::Failure(answer) if is_sampling => {
            let code = answer.error_member("code").and_then(|raw| raw.parse().ok());
            let message = answer.error_member("message").and_then(input::said).unwrap_or_default();
            let message = message.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
            return Err(Unmet::Rejected { code: code.unwrap_or(code::INTERNAL_ERROR), message });
        }
        Reply::Failure(_) => return Err(Unmet::Failed("the client answered with an error")),
        Reply::Malformed => return Err(Unmet::Failed("the client's answer is malformed")),
        Reply::Silence => return Err(Unmet::Failed("nobody answered in time")),
    };
    Ok(format!("{}:{answer}", wish.key))
}

fn refused(refusal: Refusal) -> Unmet {
    match refusal {
        Refusal::Unrecorded => Unmet::Failed("the question cannot be put on record"),
        Refusal::Unheard(_) | Refusal::Modern | Refusal::Full | Refusal::TooMany | Refusal::Ruled => {
            Unmet::Failed("the client cannot be asked")
        }
        Refusal::Unfit(_) => Unmet::Failed("that is not asked of this client"),
    }
}

#[cfg(test)]
mod tests;

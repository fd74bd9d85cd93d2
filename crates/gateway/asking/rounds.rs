//! Results of modern servers that ask: answered within a legacy client's call, or handed on to a modern client, whose
//! next call brings the answers (spec 6.2, X-05, X-18).

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use admission::{Call, Thing};
use futures_util::future::try_join_all;
use wire::{Era, Frame, Id, Method, Pieces, Revision, code, input, shape};

use super::{Asker, Offer, Refusal, Reply, Unfit, Unmet, as_frame, lacks, question};
use crate::{
    audit::Outcome,
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
            return Ok(Retry { responses, state: None });
        }
        let text = frame.param_text(input::STATE).ok_or(CatalogError::Parameter(input::STATE))?;
        let opened = sealed.open(&text, now()).ok_or(CatalogError::Parameter(input::STATE))?;
        match read(&opened) {
            Some(Carried::State(state)) => Ok(Retry { responses, state: state.map(str::to_owned) }),
            Some(Carried::Again) => Ok(Retry::default()),
            None => Err(CatalogError::Parameter(input::STATE)),
        }
    }
}

/// Methods that may be answered by a question (spec Q-18).
fn may_ask(method: Method) -> bool {
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
        }
        let (principal, place) = (seat_key(&self.call.principal), self.place());
        self.seal.seal(Purpose::Input, &self.bound(&principal, &place), &payload).ok()
    }

    /// What follows the time until which it is good.
    fn open(&self, text: &str, now: u64) -> Option<Vec<u8>> {
        let (principal, place) = (seat_key(&self.call.principal), self.place());
        let payload = self.seal.open(Purpose::Input, &self.bound(&principal, &place), text)?;
        let (until, rest) = payload.split_first_chunk::<8>()?;
        (u64::from_be_bytes(*until) >= now).then(|| rest.to_vec())
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
            return Ok(Retry { responses: None, state });
        }
        let mut put = Vec::new();
        for wish in &wanted.questions {
            let asked = as_frame(wish).ok_or_else(|| Box::new(Unmet::Failed("a question is malformed")))?;
            let answering = self.ask(&asked, outbox).await.map_err(|refusal| Box::new(refused(refusal)))?;
            put.push(async move { response(wish, answering.await) });
        }
        let responses = try_join_all(put).await.map_err(Box::new)?;
        Ok(Retry { responses: Some(format!("{{{}}}", responses.join(","))), state })
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
        let mut questions = Vec::new();
        for wish in &wanted.questions {
            let params = self.shown(wish).await?;
            let method = code::quote(&wish.method);
            questions.push(format!("{}:{{\"method\":{method},\"params\":{params}}}", wish.key));
        }
        let state = sealed.close(&Carried::State(wanted.state), until());
        let state = state.ok_or_else(|| Box::new(Unmet::Failed("its state could not be sealed")))?;
        let edits = input::edits(answer, &format!("{{{}}}", questions.join(",")), &code::quote(&state));
        Ok(answer.answer(id, &shape::merge(edits, shape::to_modern(answer, None))))
    }

    /// The params of one question of a result, put on record.
    async fn shown(&self, wish: &input::Wish<'_>) -> Result<String, Error> {
        let asked = as_frame(wish).ok_or_else(|| Box::new(Unmet::Failed("a question is malformed")))?;
        let record = self.record(&asked).await.map_err(|refusal| Box::new(refused(refusal)))?;
        match question::put(&wish.method, wish.params, &self.terms()) {
            Ok((_, shown)) => {
                record.close(Outcome::Ok, Some("handed_on"), shown.len());
                Ok(shown)
            }
            Err(unfit) => {
                record.close(Outcome::Denied, Some(unfit.reason()), 0);
                Err(Box::new(self.unmet(unfit, &wish.method, wish.params)).into())
            }
        }
    }

    /// The params of one question of a task; put on record when it is shown for the first time.
    pub(crate) async fn of_task(&self, wish: &input::Wish<'_>, is_new: bool) -> Result<String, Error> {
        if is_new {
            return self.shown(wish).await;
        }
        let shown = question::put(&wish.method, wish.params, &self.terms());
        let shown = shown.map_err(|unfit| Box::new(self.unmet(unfit, &wish.method, wish.params)))?;
        Ok(shown.1)
    }

    /// A modern client is told what to declare, if that is what is missing (spec B-32).
    fn unmet(&self, unfit: Unfit, method: &str, params: &str) -> Unmet {
        let again =
            |offer: &Offer| question::put(method, params, &question::Terms { offer, ..self.terms() }).is_ok();
        let declared = wire::envelope(&self.call.frame).and_then(Result::ok);
        let capabilities = declared.map_or("{}", |envelope| envelope.capabilities);
        match lacks(capabilities, Revision::R2026_07_28, unfit, again) {
            Some(needs) => Unmet::Needs(needs),
            None => Unmet::Failed("that is not asked of this client"),
        }
    }

    /// A legacy server wants a user to open pages first, and says so by an error (spec Q-16, X-14).
    ///
    /// # Errors
    /// Always but for modern clients: what the client is told instead. It names a page only where the client can open it.
    pub(crate) fn pages(&self, answer: &Frame, id: &Id, sealed: &Sealed<'_>) -> Result<Pieces, Error> {
        let nobody =
            || Error::from(Box::new(Unmet::Failed("a page must be opened, which this client cannot do")));
        let data = answer.error_member("data").ok_or_else(nobody)?;
        let asked = input::member(data, "elicitations").filter(|raw| raw.starts_with('['));
        let mut shown = Vec::new();
        for page in input::elements(asked.ok_or_else(nobody)?).take(super::MOST) {
            let method = Method::ElicitationCreate.name();
            let (_, params) =
                question::put(method, page, &self.terms()).map_err(|unfit| match self.visit.era() {
                    Era::Modern => Error::from(Box::new(self.unmet(unfit, method, page))),
                    Era::Legacy => nobody(),
                })?;
            if let (Some(native), Some(session)) =
                (input::member(page, "elicitationId").and_then(input::said), self.visit.session())
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
            format!("\"page-{n}\":{{\"method\":\"elicitation/create\",\"params\":{params}}}")
        };
        let entries: Vec<String> = shown.iter().enumerate().map(entry).collect();
        let result = format!(
            "{{\"resultType\":\"input_required\",\"inputRequests\":{{{}}},\"requestState\":{}{}}}",
            entries.join(","),
            code::quote(&state),
            bridge::server_meta(),
        );
        Ok(Pieces::one(code::success(id, &result)))
    }
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
        Refusal::Unheard(_) | Refusal::Modern | Refusal::TooMany => {
            Unmet::Failed("the client cannot be asked")
        }
        Refusal::Unfit(_) => Unmet::Failed("that is not asked of this client"),
    }
}

#[cfg(test)]
mod tests;

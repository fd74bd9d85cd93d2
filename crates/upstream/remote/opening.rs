//! Which era does a server over HTTP speak, and the session that follows (spec 9.3, S-07, H-15).

use crate::connection::Facts;
use crate::error::UpstreamError;
use crate::hello::{self, Era};
use crate::peer::Fault;
use crate::probe::{Opened, Opening, Refused};
use crate::remote::heads;
use crate::remote::session::Session;
use crate::remote::site::{Heard, Site, refusal};
use crate::spec::{EraFound, LegacySse};
use http::StatusCode;
use std::sync::Arc;
use tokio::time::timeout;
use wire::{Id, Kind, Method};

/// How a server took the probe.
enum Probed {
    Modern(Facts),
    /// A handshake may be tried, and remembered as that.
    Legacy(EraFound),
    /// It claims to be modern only, and we may not speak that with it: it is asked for a handshake all the same.
    Foreign(&'static str),
}

impl Site {
    /// Opens the conversation. The caller bounds the time in all.
    pub(crate) async fn open(self: Arc<Self>, opening: Opening) -> Result<Opened, Refused> {
        let opened = self.agree(opening).await?;
        if self.endpoint.get().is_none() && opened.facts.revision.has_sessions() {
            let site = Arc::clone(&self);
            self.listeners.spawn(async move {
                let stop = site.stop.clone();
                stop.run_until_cancelled(site.listen()).await;
            });
        }
        let _first = self.facts.set(opened.facts.clone());
        Ok(opened)
    }

    async fn agree(self: &Arc<Self>, opening: Opening) -> Result<Opened, Refused> {
        if self.legacy_sse == LegacySse::Only {
            return self.open_legacy_sse().await.map_err(Refused::By);
        }
        let probed = match opening {
            Opening::Discover => self.probe().await.map_err(Refused::By)?,
            Opening::Initialize => Probed::Legacy(EraFound::Legacy),
        };
        let (found, foreign) = match probed {
            Probed::Modern(facts) => return Ok(Opened { facts, found: EraFound::Modern }),
            Probed::Legacy(found) => (found, None),
            Probed::Foreign(why) => (EraFound::Modern, Some(why)),
        };
        match (self.initialize().await, foreign) {
            (Ok((facts, session)), _) => {
                self.session.send_replace(session);
                Ok(Opened { facts, found })
            }
            (Err(_), Some(why)) => Err(Refused::Modern(UpstreamError::incompatible(why))),
            (Err(NoSession::Absent), None) if self.legacy_sse == LegacySse::Detect => {
                self.open_legacy_sse().await.map_err(Refused::By)
            }
            (Err(no), None) => Err(Refused::By(no.into())),
        }
    }

    /// Asks `server/discover`. Only what no legacy server says makes a server modern, and only what every legacy server may say
    /// makes it legacy: refused credentials, overload and silence prove nothing (spec E-14, E-15).
    async fn probe(&self) -> Result<Probed, UpstreamError> {
        for _attempt in 0..2 {
            let heard = self.discover().await?;
            let era = match &heard.answer {
                Some(answer) => hello::era(answer, self.spec.modern),
                None => Era::Legacy,
            };
            return match era {
                Era::Modern(facts) => Ok(Probed::Modern(facts)),
                Era::Again => continue,
                Era::Both => Ok(Probed::Legacy(EraFound::Modern)),
                // spec E-17.
                Era::Foreign(why) if self.spec.modern => Err(UpstreamError::incompatible(why)),
                Era::Foreign(why) => Ok(Probed::Foreign(why)),
                Era::Legacy if is_inconclusive(heard.status) => Err(refusal(heard.status)),
                Era::Legacy => Ok(Probed::Legacy(EraFound::Legacy)),
            };
        }
        Err(UpstreamError::incompatible("it names our revision of the protocol and does not take it"))
    }

    async fn discover(&self) -> Result<Heard, UpstreamError> {
        let number = self.link.number();
        let heads = heads::modern(Method::Discover, None, &[])?;
        let line = hello::discover(&Id::number(number));
        match self.ask(line, number, Some(&heads), &Session::default()).await {
            // What is no answer at all is what a legacy server may say to a question it does not know.
            Err(UpstreamError::Garbled { .. }) => {
                Ok(Heard { status: StatusCode::OK, session: None, answer: None, rest: None })
            }
            heard => heard,
        }
    }

    /// The legacy handshake: after it the server has heard `notifications/initialized`.
    async fn initialize(&self) -> Result<(Facts, Session), NoSession> {
        let number = self.link.number();
        let line = hello::initialize(&Id::number(number), &self.link.behalf.behind.declared());
        let heard = self.ask(line, number, None, &Session::default()).await?;
        let id = heard.session.clone();
        if heard.answer.is_none() && matches!(heard.status.as_u16(), 400 | 404 | 405) {
            return Err(NoSession::Absent);
        }
        let (answer, rest) = heard.into_answer()?;
        let facts = hello::initialized(&answer)?;
        if let Some(rest) = rest {
            rest.end().await;
        }
        let turn = self.session.borrow().turn + 1;
        let session = Session::begun(id, facts.revision, turn)?;
        let status = self.deliver(hello::INITIALIZED, &session).await?;
        // A server that takes no notifications at all is odd, not useless.
        let is_fatal = matches!(status.as_u16(), 300..=399 | 401 | 403 | 404 | 500..=599);
        if is_fatal { Err(refusal(status).into()) } else { Ok((facts, session)) }
    }

    /// [`Site::renew`] for the request `number`, in a task of its own: its asker may leave half-way, and others wait for the same
    /// session.
    pub(crate) async fn renew_for(self: &Arc<Self>, number: u64, lost: Session) -> Result<(), UpstreamError> {
        let site = Arc::clone(self);
        let renewal = self.listeners.spawn(async move {
            // Before the fault ends all that is open, as if it had run.
            let hopeless = || site.link.finish(number, Err(forgotten()));
            site.stop.run_until_cancelled(site.renew(&lost, hopeless)).await
        });
        renewal.await.ok().flatten().unwrap_or_else(|| Err(forgotten()))
    }

    /// The server forgot the session `lost`: begins another, once for all who notice (spec H-15, bug B45). The error says that
    /// nothing was processed; `hopeless` is called when that is the end of the conversation.
    pub(crate) async fn renew(&self, lost: &Session, hopeless: impl FnOnce()) -> Result<(), UpstreamError> {
        let Ok(_turn) = self.renewal.acquire().await else { return Err(forgotten()) };
        if self.session.borrow().turn != lost.turn {
            return Ok(());
        }
        if self.faults.is_raised() {
            return Err(forgotten());
        }
        let begun = timeout(self.spec.patience.start, self.initialize()).await;
        match begun {
            Ok(Ok((facts, session))) if self.facts.get().is_some_and(|before| is_same(before, &facts)) => {
                self.link.behalf.wishes.begin();
                self.session.send_replace(session);
                let (tenant, upstream) = (&*self.spec.tenant, &*self.spec.id);
                tracing::info!(tenant, upstream, "the session was forgotten; there is another");
                self.missed();
                Ok(())
            }
            // Another server by now, or none: begin again from the start.
            Ok(_) | Err(_) => {
                hopeless();
                self.faults.raise(Fault::Forgetful);
                Err(forgotten())
            }
        }
    }

    /// Something may have changed while nobody listened: as if the server had said so.
    pub(crate) fn missed(&self) {
        let Some(facts) = self.facts.get() else { return };
        for (capability, kind) in
            [("tools", Kind::Tools), ("resources", Kind::Resources), ("prompts", Kind::Prompts)]
        {
            if facts.has(capability) {
                let _unread = self.link.receive(wire::code::notification(kind.changed().name()));
            }
        }
    }
}

fn is_same(before: &Facts, now: &Facts) -> bool {
    before.revision == now.revision && before.capabilities == now.capabilities
}

fn forgotten() -> UpstreamError {
    UpstreamError::not_running("it forgot our session")
}

/// Statuses that say nothing about the era (spec E-15).
fn is_inconclusive(status: StatusCode) -> bool {
    status.is_redirection()
        || status.is_server_error()
        || matches!(status.as_u16(), 401 | 403 | 407 | 408 | 429)
}

/// Why there is no session.
enum NoSession {
    /// There is no Streamable HTTP endpoint here, as far as one can tell (spec S-07).
    Absent,
    Error(UpstreamError),
}

impl From<UpstreamError> for NoSession {
    fn from(error: UpstreamError) -> Self {
        Self::Error(error)
    }
}

impl From<NoSession> for UpstreamError {
    fn from(no: NoSession) -> Self {
        match no {
            NoSession::Absent => UpstreamError::garbled("there is no MCP endpoint at its URL"),
            NoSession::Error(error) => error,
        }
    }
}

//! Which era does this process speak? And the handshake that follows (spec 9.3, 1.3). `remote/opening.rs` is its sibling over HTTP.

use crate::connection::{Facts, Wait};
use crate::error::UpstreamError;
use crate::exchange::{Exchange, Incoming};
use crate::hello::{self, Era};
use crate::link::{Link, Manner};
use crate::spec::{EraFound, Spec};
use std::sync::Arc;
use std::time::Duration;

/// How to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Ask `server/discover` first.
    Discover,
    /// Straight to `initialize`: the server is known, or known not to survive the question.
    Initialize,
}

/// A finished handshake.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) facts: Facts,
    pub(crate) found: EraFound,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It said no, or something that is no answer.
    By(UpstreamError),
    /// It is modern, by its own word, and did not take the handshake after the probe.
    Modern(UpstreamError),
    /// It said nothing.
    Silent,
    /// Its process went away, or reads no more.
    Gone,
}

impl From<UpstreamError> for Refused {
    fn from(error: UpstreamError) -> Self {
        match error {
            UpstreamError::NotRunning { .. } | UpstreamError::Exited { .. } => Self::Gone,
            UpstreamError::TimedOut { .. } => Self::Silent,
            UpstreamError::Busy
            | UpstreamError::TooLarge { .. }
            | UpstreamError::Garbled { .. }
            | UpstreamError::Incompatible { .. }
            | UpstreamError::Credential { .. }
            | UpstreamError::TooMany { .. } => Self::By(error),
        }
    }
}

/// Opens the conversation. The caller bounds the time in all and watches the process.
pub(crate) async fn open(link: &Arc<Link>, opening: Opening, spec: &Spec) -> Result<Opened, Refused> {
    if opening == Opening::Initialize {
        let facts = greet(&mut initialize(link, spec)?).await?;
        return greeted(link, facts, EraFound::Legacy);
    }
    let mut question = discover(link, spec)?;
    // Silence: legacy servers may ignore what they do not know (spec E-12).
    let heard = match tokio::time::timeout(spec.patience.probe, question.next()).await {
        Ok(incoming) => Some(heard(incoming, spec)?),
        Err(_) => None,
    };
    match heard {
        None => late(link, question, spec).await,
        Some(Era::Legacy) => {
            let facts = greet(&mut initialize(link, spec)?).await?;
            greeted(link, facts, EraFound::Legacy)
        }
        Some(Era::Both) => {
            let facts = greet(&mut initialize(link, spec)?).await?;
            greeted(link, facts, EraFound::Modern)
        }
        Some(Era::Modern(facts)) => Ok(Opened { facts, found: EraFound::Modern }),
        Some(Era::Again) => again(link, spec).await,
        // spec E-17.
        Some(Era::Foreign(why)) if spec.modern => Err(Refused::By(UpstreamError::incompatible(why))),
        // Servers that name only the modern revision here often take a handshake all the same, and the handshake is all we may
        // speak with it. Those that refuse it said why.
        Some(Era::Foreign(why)) => match greet(&mut initialize(link, spec)?).await {
            Ok(facts) => greeted(link, facts, EraFound::Modern),
            Err(_) => Err(Refused::Modern(UpstreamError::incompatible(why))),
        },
    }
}

/// Silence so far: it may be a legacy server that ignores the question, or one that is slow to start and answers yet. What it says
/// to the question comes first then, and counts.
async fn late(link: &Arc<Link>, mut question: Exchange, spec: &Spec) -> Result<Opened, Refused> {
    let mut greeting = initialize(link, spec)?;
    let greeted_first = tokio::select! {
        biased;
        incoming = question.next() => match heard(incoming, spec)? {
            Era::Modern(facts) => return Ok(Opened { facts, found: EraFound::Modern }),
            Era::Foreign(why) if spec.modern => return Err(Refused::By(UpstreamError::incompatible(why))),
            Era::Foreign(why) => {
                return match greet(&mut greeting).await {
                    Ok(facts) => greeted(link, facts, EraFound::Modern),
                    Err(_) => Err(Refused::Modern(UpstreamError::incompatible(why))),
                };
            }
            Era::Legacy | Era::Both | Era::Again => None,
        },
        greeting = greet(&mut greeting) => Some(greeting),
    };
    let facts = match greeted_first {
        Some(greeting) => greeting?,
        None => greet(&mut greeting).await?,
    };
    greeted(link, facts, EraFound::Legacy)
}

/// It named our revision and did not take it; once more, and that is it (spec E-12).
async fn again(link: &Arc<Link>, spec: &Spec) -> Result<Opened, Refused> {
    let mut question = discover(link, spec)?;
    match heard(question.next().await, spec)? {
        Era::Modern(facts) => Ok(Opened { facts, found: EraFound::Modern }),
        Era::Legacy | Era::Both | Era::Again | Era::Foreign(_) => {
            let why = "it names our revision of the protocol and does not take it";
            Err(Refused::By(UpstreamError::incompatible(why)))
        }
    }
}

fn all(time: Duration) -> Wait {
    Wait { first: time, most: time, progress: false }
}

fn discover(link: &Arc<Link>, spec: &Spec) -> Result<Exchange, Refused> {
    Ok(link.send(&hello::discover, None, all(spec.patience.start), Manner::Quiet)?)
}

fn heard(incoming: Incoming, spec: &Spec) -> Result<Era, Refused> {
    match incoming {
        Incoming::Answer(frame) => Ok(hello::era(&frame, spec.modern)),
        Incoming::Progress(_) | Incoming::Question(_) | Incoming::Told(_) | Incoming::Later => {
            Ok(Era::Legacy)
        }
        Incoming::Failed(UpstreamError::Exited { .. } | UpstreamError::NotRunning { .. }) => {
            Err(Refused::Gone)
        }
        // An answer that breaks the protocol is as good as silence.
        Incoming::Failed(_) => Ok(Era::Legacy),
    }
}

/// Sends `initialize`, which is never cancelled (spec B-22).
pub(crate) fn initialize(link: &Arc<Link>, spec: &Spec) -> Result<Exchange, UpstreamError> {
    let declared = link.behalf.behind.declared();
    link.send(&|id| hello::initialize(id, &declared), None, all(spec.patience.start), Manner::Quiet)
}

/// Waits for the answer to `initialize`. May be dropped at any await and called again.
pub(crate) async fn greet(greeting: &mut Exchange) -> Result<Facts, UpstreamError> {
    match greeting.next().await {
        Incoming::Answer(frame) => hello::initialized(&frame),
        Incoming::Failed(error) => Err(error),
        Incoming::Progress(_) | Incoming::Question(_) | Incoming::Told(_) | Incoming::Later => {
            Err(UpstreamError::garbled("something else than an answer to initialize"))
        }
    }
}

fn greeted(link: &Link, facts: Facts, found: EraFound) -> Result<Opened, Refused> {
    link.tell(hello::INITIALIZED)?;
    Ok(Opened { facts, found })
}

#[cfg(test)]
mod tests;

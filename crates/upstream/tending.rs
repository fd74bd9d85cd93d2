//! Sees to it that a conversation holds what is wished of it: a level and subscriptions for a legacy server, one open request to
//! listen for a modern one (spec H-15, P-05, P-06, U-14, X-07).

mod listening;

use crate::connection::{Facts, Wait};
use crate::error::UpstreamError;
use crate::exchange::Incoming;
use crate::link::{Link, Manner};
use crate::wishes::Step;
use bytes::Bytes;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use wire::{Id, Method};

/// How long a server may take to answer one of these.
const ANSWER: Duration = Duration::from_secs(10);
const WAIT: Wait = Wait { first: ANSWER, most: ANSWER, progress: false };

/// Does what is wished for as long as the conversation goes on. May be dropped at any await.
pub(crate) async fn tend(link: &Arc<Link>, facts: &Facts) -> Infallible {
    if link.is_modern() {
        return listening::listen(link, facts).await;
    }
    let mut changes = link.behalf.wishes.watch();
    loop {
        changes.mark_unchanged();
        catch_up(link, facts).await;
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Tells a legacy server everything it has to know before others talk to it. The caller bounds the time.
pub(crate) async fn catch_up(link: &Arc<Link>, facts: &Facts) {
    if link.is_modern() {
        return;
    }
    while let Some((turn, step)) = link.behalf.wishes.next() {
        let end = tell(link, facts, &step).await;
        if let Err(error) = &end {
            tracing::warn!(method = step.method().name(), %error, "a server does not do what is wished of it");
        }
        link.behalf.wishes.done(turn, step, end);
    }
}

/// One step. What the server never promised is not asked for.
async fn tell(link: &Arc<Link>, facts: &Facts, step: &Step) -> Result<(), UpstreamError> {
    match step {
        Step::Level(_) if !facts.has("logging") => return Ok(()),
        Step::Subscribe(_) | Step::Unsubscribe(_) if !lets_follow(facts) => return Err(unfollowed()),
        Step::Level(_) | Step::Subscribe(_) | Step::Unsubscribe(_) => {}
    }
    let mut exchange = link.send(&|id| step.line(id), None, WAIT, Manner::Quiet)?;
    loop {
        match exchange.next().await {
            Incoming::Answer(answer) => return refusal(&answer),
            Incoming::Failed(error) => return Err(error),
            Incoming::Progress(_) | Incoming::Question(_) | Incoming::Told(_) | Incoming::Later => {}
        }
    }
}

impl Step {
    fn method(&self) -> Method {
        match self {
            Self::Level(_) => Method::SetLevel,
            Self::Subscribe(_) => Method::ResourcesSubscribe,
            Self::Unsubscribe(_) => Method::ResourcesUnsubscribe,
        }
    }

    fn line(&self, id: &Id) -> Bytes {
        let (key, value) = match self {
            Self::Level(level) => ("level", level),
            Self::Subscribe(uri) | Self::Unsubscribe(uri) => ("uri", uri),
        };
        Bytes::from(format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"{}","params":{{"{key}":{}}}}}"#,
            id.raw(),
            self.method().name(),
            wire::code::quote(value),
        ))
    }
}

/// Whether a server says when a resource changes.
fn lets_follow(facts: &Facts) -> bool {
    wire::meta::member(facts.capability("resources"), "subscribe") == Some("true")
}

fn unfollowed() -> UpstreamError {
    UpstreamError::incompatible("its resources cannot be followed")
}

fn refusal(answer: &wire::Frame) -> Result<(), UpstreamError> {
    match crate::hello::code(answer) {
        Some(code) => Err(UpstreamError::garbled(format!("it refused with code {code}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;

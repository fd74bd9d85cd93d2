//! Calls of modern clients at legacy servers that ask: parked until the client comes back, and gone on with (spec X-08).

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};
use upstream::{Incoming, UpstreamError};
use wire::{Frame, Id, Method};

use super::{Context, Gone, Hearing, Rounds, failure};
use crate::{
    asking::{Asker, Handle, Offer, Parked, Retry, Sealed},
    catalog::Source,
    error::Error,
    router::{Answered, Lane, Router},
};

/// A question waits for others so long: each round more is a round trip of the client's, and a person asked once more.
const COMPANY: Duration = Duration::from_millis(50);

/// What came of listening to a call.
enum Heard {
    /// There are questions, and nothing else for the moment.
    Asked,
    /// Its end.
    Over(Result<Frame, UpstreamError>),
}

impl Router {
    /// What becomes of a call whose legacy server asks its modern client something: it goes on until there is an answer, or
    /// the client is asked by a result and the call waits.
    pub(super) async fn asked(
        &self,
        rounds: &Rounds<'_>,
        mut parked: Parked,
        mut hearing: Hearing<'_>,
        lane: &Lane,
    ) -> Result<Answered, Gone> {
        loop {
            match hear(&mut parked, rounds.asker, &mut hearing, lane).await {
                Heard::Over(Ok(answer)) => return Ok(self.receive(rounds, &answer, parked.needs()).await?),
                Heard::Over(Err(why)) => return Err(honest(why, rounds.asker.call.method).into()),
                Heard::Asked => match rounds.asker.park(parked, rounds.id, rounds.sealed).await {
                    Ok(asks) => return Ok(Answered::Asked(asks)),
                    Err(refused) => parked = *refused,
                },
            }
        }
    }

    /// Goes on with a call that its client comes back to. Nothing is sent but the answers (spec X-10).
    pub(super) async fn resume(
        &self,
        (handle, retry, id): (Handle, &Retry, &Id),
        sealed: &Sealed<'_>,
        (context, source, offer): (&Context, &Source, &Arc<Offer>),
        lane: &Lane,
    ) -> Result<Answered, Error> {
        let Sealed { call, thing, .. } = *sealed;
        let parked = sealed.go_on(&self.asking, retry, handle).await?;
        let (upstream, connection) = (Arc::clone(parked.upstream()), Arc::clone(parked.connection()));
        let asker = Asker::of(&self.asking, (call, context), (source, upstream.seat()), offer);
        let rounds = Rounds {
            upstream: &upstream,
            connection: &connection,
            thing,
            context,
            asker: &asker,
            sealed,
            id,
        };
        let hearing = Hearing::of(call, &context.visit, &source.spec);
        let done = self.asked(&rounds, parked, hearing, lane).await;
        done.map_err(|gone| gone.into_error(|why| Box::new(failure(call, thing, why)).into()))
    }
}

/// Listens to a call until its end, or until it has asked all it asks at this moment.
async fn hear(parked: &mut Parked, asker: &Asker<'_>, hearing: &mut Hearing<'_>, lane: &Lane) -> Heard {
    let mut company = None;
    loop {
        let incoming = match parked.asked().is_empty() {
            true => parked.next().await,
            false => {
                let until = *company.get_or_insert_with(|| Instant::now() + COMPANY);
                match timeout_at(until, parked.next()).await {
                    Ok(incoming) => incoming,
                    Err(_) => return Heard::Asked,
                }
            }
        };
        match incoming {
            Incoming::Answer(answer) => return Heard::Over(Ok(answer)),
            Incoming::Failed(why) => return Heard::Over(Err(why)),
            Incoming::Question(question) => parked.take(asker, question).await,
            Incoming::Told(said) => {
                parked.retract(&said);
                hearing.told(&said, lane);
            }
            Incoming::Later => lane.outbox.begin(),
            Incoming::Progress(progress) => hearing.progressed(&progress, lane),
        }
    }
}

/// A server that went away in the middle may have done what it was asked to, and nobody does it again (spec X-10).
fn honest(why: UpstreamError, method: Method) -> UpstreamError {
    match why {
        UpstreamError::Exited { why, sent: true } if method == Method::ToolsCall => {
            let why = format!("{why}; the tool may have acted already, and is not called again").into();
            UpstreamError::Exited { why, sent: true }
        }
        why => why,
    }
}

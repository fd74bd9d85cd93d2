//! Calls that become tasks: of their upstream, of ours, or of an upstream whose client knows nothing of it (spec U-30, X-15).

use upstream::UpstreamError;
use wire::Frame;

use super::{Gone, Hearing, Rounds, hear};
use crate::{
    asking::Talk,
    error::Error,
    router::{Answered, Lane, Router},
    tasks::{Awaited, SoFar, USUAL, Wish},
};

impl Router {
    /// The call became a task of its upstream.
    pub(super) fn keep_task(
        &self,
        rounds: &Rounds<'_>,
        wish: &mut Wish,
        answer: &Frame,
        so_far: SoFar,
    ) -> Result<Answered, Gone> {
        self.admit(rounds, answer)?;
        let kept = wish.slot().and_then(|slot| rounds.birth().of_upstream(slot, answer, so_far));
        kept.ok_or_else(|| {
            UpstreamError::Garbled { why: "what it says of the task cannot be read".into() }.into()
        })
    }

    /// The call was answered, where its client asked for a task or not.
    pub(super) fn keep_answer(
        &self,
        rounds: &Rounds<'_>,
        wish: &mut Wish,
        done: Result<Answered, Error>,
    ) -> Result<Answered, Gone> {
        let done = done?;
        match wish.kept() {
            Some(slot) => Ok(rounds.birth().of_answer(slot, done)?),
            None => Ok(done),
        }
    }

    /// Waits for the outcome of a task of the upstream that the client knows nothing of (spec X-15).
    pub(super) async fn await_task(
        &self,
        rounds: &Rounds<'_>,
        native: &str,
        ears: (&mut Talk<'_>, &mut Hearing<'_>),
        lane: &mut Lane,
    ) -> Option<Result<Frame, Gone>> {
        let mut awaited = Awaited::new(&self.tasks, rounds.connection, native);
        let timeouts = &rounds.asker.source.config.timeouts;
        // A client that takes tasks knows of it as one of ours, which may take as long as any.
        let most = match lane.outbox.hosting() {
            Some(hosting) if hosting.begin().await => {
                awaited.for_task(hosting, rounds.upstream);
                USUAL
            }
            Some(_) | None => timeouts.call_max,
        };
        let done = match awaited.outcome(most) {
            Ok(exchange) => hear(exchange, ears, lane).await?.end(),
            Err(why) => Err(why),
        };
        Some(done.map(|answer| awaited.came(answer)).map_err(Gone::from))
    }
}

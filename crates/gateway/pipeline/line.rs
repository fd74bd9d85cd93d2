//! HTTP+SSE: what is said to a message does not go where it came from, but to the one stream of its connection (spec
//! S-03).

use std::sync::Arc;

use bytes::Bytes;
use wire::{Budget, Frame, Pieces, Shape};

use super::{Failure, Place, close, refusal};
use crate::{
    arrival::{BodyError, Listening, Reply, Source},
    audit::Record,
    batch,
    error::{Error, SessionError},
    gateway::Gateway,
    router::Answered,
    session::{Line, Owed},
    visit::Visit,
};

/// The reading end of a connection. Dropped, it ends the session and cancels what runs in it (spec S-05).
pub(crate) struct Hearing {
    gateway: Arc<Gateway>,
    line: Arc<Line>,
}

impl Hearing {
    /// What messages for the connection are addressed to.
    pub(crate) fn key(&self) -> &str {
        self.line.key()
    }

    /// Whether nobody has begun a session for too long.
    pub(crate) fn is_unused(&self) -> bool {
        self.line.is_unused()
    }

    /// The next event as it is written; none when the connection is over. May be dropped half-way.
    pub(crate) async fn next_event(&mut self) -> Option<Pieces> {
        self.line.next_event(&self.gateway.sessions).await
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.gateway.sessions.hang_up(&self.line);
    }
}

/// Opens a connection.
pub(super) fn open(gateway: &Arc<Gateway>, place: &Place, record: &mut Record) -> Result<Answered, Error> {
    let charge = gateway.limits.stream(&place.snapshot.limits, &place.asker);
    let charge = charge.inspect_err(|error| record.limited(error.rule()))?;
    let line = gateway.sessions.connect(&place.asker, &place.server)?;
    let hearing = Hearing { gateway: Arc::clone(gateway), line };
    let listening = Listening::new(Source::Line(hearing), Arc::clone(&gateway.snapshot), place.head.clone());
    Ok(Answered::Listening(Box::new(listening.charged(charge))))
}

/// Takes a message through the pipeline. Whoever sent it hears only that it was taken, or why it is none.
pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    place: Place,
    body: Result<Bytes, BodyError>,
    mut record: Record,
) -> Reply {
    let line = match gateway.sessions.line(&place.head, &place.asker, &place.server) {
        Ok(line) => line,
        Err(error) => return close(record, Err(Error::from(error).into())),
    };
    let owed = line.owe();
    let bytes = body.as_ref().ok().cloned().unwrap_or_default();
    if let Some(session) = batch::session(gateway, &place, &bytes) {
        return match batch::serve(gateway, place, session, &bytes, record) {
            running @ Reply::Running(_) => said(gateway, owed, running),
            refused => refused,
        };
    }
    let entered = match gateway.enter(place, body, &mut record) {
        Ok(entered) => entered,
        Err(failure) => return refused(gateway, owed, &bytes, record, failure),
    };
    let opening = match &entered.visit {
        Visit::Opening(session) => Some(Arc::clone(session)),
        Visit::Within(_) | Visit::Alone(_) => None,
    };
    let reply = match entered.leaves() {
        true => gateway.run(entered, record),
        false => gateway.answer(entered, record, Ok).await,
    };
    if let (Some(session), Reply::Message { session: Some(_), .. }) = (opening, &reply)
        && !line.begin(&session)
    {
        // The connection has ended meanwhile.
        gateway.sessions.end(&session);
        return refusal(&Failure::from(Error::from(SessionError::NoLine)));
    }
    said(gateway, owed, reply)
}

/// A message that goes no further. A request is told on the stream, what is no message by HTTP, and the rest is told
/// nothing (spec B-06).
fn refused(gateway: &Gateway, owed: Owed, bytes: &Bytes, record: Record, failure: Failure) -> Reply {
    let budget = Budget { bytes: gateway.config.limits.body, ..Budget::CLIENT };
    let is_over = matches!(failure.error, Error::Session(SessionError::NoLine));
    let reply = close(record, Err(failure));
    match Frame::parse(bytes.clone(), &budget).map(|frame| frame.shape()) {
        Ok(Shape::Request) if !is_over => said(gateway, owed, reply),
        Ok(Shape::Notification | Shape::Result | Shape::Failure) if !is_over => Reply::Accepted,
        Ok(_) | Err(_) => reply,
    }
}

/// Says a reply on the stream, at once or when it is there.
fn said(gateway: &Gateway, owed: Owed, reply: Reply) -> Reply {
    // One more than that, in the worst case: the last result is taken whole.
    let most = gateway.config.limits.result;
    match reply {
        Reply::Message { body, .. } => owed.answer(body, most),
        Reply::Running(running) => running.onto(owed, most),
        Reply::Accepted | Reply::Ended | Reply::Listening(_) => (),
    }
    Reply::Accepted
}

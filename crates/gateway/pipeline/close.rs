//! The end of a message: its record is closed, and what became of it turned into the transport's reply.

use wire::Pieces;

use super::Failure;
use crate::{
    arrival::Reply,
    audit::{Outcome, Record},
    error::{Error, LimitError},
    router::Answered,
};

/// Closes the record and turns the end of a message into the transport's reply.
pub(crate) fn close(record: Record, done: Result<Answered, Failure>) -> Reply {
    match done {
        Ok(Answered::Accepted) => {
            record.close(Outcome::Ok, None, 0);
            Reply::Accepted
        }
        Ok(Answered::Ended) => {
            record.close(Outcome::Ok, None, 0);
            Reply::Ended
        }
        Ok(Answered::Listening(listening)) => {
            record.close(Outcome::Ok, None, 0);
            Reply::Listening(listening)
        }
        Ok(Answered::GivenUp) => {
            record.close(Outcome::Abandoned, Some("cancelled"), 0);
            Reply::Accepted
        }
        Ok(Answered::Asked(body)) => {
            record.close(Outcome::Ok, Some("input_required"), body.len());
            Reply::Message { status: 200, body, session: None, challenge: None }
        }
        Ok(Answered::Message { body, outcome, opened }) => {
            record.close(outcome, None, body.len());
            Reply::Message { status: 200, body, session: opened, challenge: None }
        }
        Err(failure) => {
            let reply = refusal(&failure);
            let bytes = match &reply {
                Reply::Message { body, .. } => body.len(),
                Reply::Accepted | Reply::Ended | Reply::Running(_) | Reply::Listening(_) => 0,
            };
            record.close(
                outcome_of(&failure.error),
                Some(failure.error.answer(failure.client).reason),
                bytes,
            );
            reply
        }
    }
}

/// A denial is a decision, not a fault.
fn outcome_of(error: &Error) -> Outcome {
    match error {
        // It ran: only what came of it has no room.
        Error::Limit(LimitError::Batch { .. }) => Outcome::Error,
        Error::Denied(_) | Error::Limit(_) | Error::Approval(_) => Outcome::Denied,
        Error::Authn(_)
        | Error::Body(_)
        | Error::Frame(_)
        | Error::Era(_)
        | Error::Session(_)
        | Error::Catalog(_)
        | Error::Audit(_)
        | Error::Upstream(_)
        | Error::Relayed(_)
        | Error::Unmet(_)
        | Error::Task(_) => Outcome::Error,
    }
}

pub(crate) fn refusal(failure: &Failure) -> Reply {
    let body = Pieces::one(failure.error.message(failure.id.as_ref(), failure.client));
    let status = failure.error.answer(failure.client).status;
    Reply::Message { status, body, session: None, challenge: failure.challenge.clone() }
}

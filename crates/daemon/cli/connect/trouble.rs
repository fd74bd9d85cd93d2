//! What can go wrong between a client and its server, as the client and the operator are told.

use bytes::Bytes;
use http::{StatusCode, Uri};
use wire::{Frame, Id, Shape, code};

use super::{login::LoginError, message::Message};

/// Why a message has no answer of its own.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// There is no connection. The message was not sent.
    Unreachable(String),
    /// It was sent, and what came back is no answer, or breaks off.
    Broken(String),
    /// The server does not know the session any more; the message was not processed.
    Lost,
    /// The server refuses the message with a status of HTTP.
    Refused(StatusCode, Bytes),
    /// It wants a token, and there is none. The message was not processed.
    Login(LoginError),
}

impl From<LoginError> for Trouble {
    fn from(error: LoginError) -> Trouble {
        Trouble::Login(error)
    }
}

impl Trouble {
    /// Whether all other messages fail in the same way until something changes.
    pub(super) fn concerns_all(&self) -> bool {
        match self {
            Trouble::Unreachable(_) => true,
            Trouble::Refused(status, _) => {
                matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
                    && self.said().is_none_or(|frame| frame.id().is_none())
            }
            // More scopes are wanted for some messages, and not for others.
            Trouble::Login(error) => !matches!(error, LoginError::StillScopes(_)),
            Trouble::Broken(_) | Trouble::Lost => false,
        }
    }

    /// What is answered to a request.
    pub(super) fn answer(&self, url: &Uri, id: &Id) -> Bytes {
        if let Some(said) = self.said() {
            // The server could not always read the id.
            return said.answer(id, &[]).join();
        }
        code::failure(Some(id), code::INTERNAL_ERROR, &self.sentence(url), None)
    }

    /// For people.
    pub(super) fn sentence(&self, url: &Uri) -> String {
        match self {
            Trouble::Unreachable(why) => format!("cannot reach {url}: {why}"),
            Trouble::Broken(why) => format!("{url}: {why}"),
            Trouble::Login(error) => format!("{url}: {error}"),
            Trouble::Lost => {
                format!("{url} has lost the session; a new one is opened, so this request can be sent again")
            }
            Trouble::Refused(status, _) => {
                let advice = match *status {
                    StatusCode::UNAUTHORIZED => ": it wants another credential; see `--token-file`",
                    _ => "",
                };
                let said = self.said();
                let message = said.as_ref().and_then(|frame| frame.error_member("message"));
                match message.and_then(|raw| serde_json::from_str::<String>(raw).ok()) {
                    Some(message) => format!("{url} answered {status}: {message}{advice}"),
                    None => format!("{url} answered {status}{advice}"),
                }
            }
        }
    }

    /// The error of JSON-RPC that came with a refusal.
    fn said(&self) -> Option<Frame> {
        let Trouble::Refused(_, body) = self else { return None };
        let message = Message::read(body.clone()).ok()?;
        message.only().filter(|frame| frame.shape() == Shape::Failure).cloned()
    }
}

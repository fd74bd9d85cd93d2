//! Questions of ours to the client of a session, and what it answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::sync::oneshot;
use wire::{Frame, Id, Method, Pieces};

use super::{Session, lock};
use crate::running::Outbox;

/// Questions of one session that may wait for an answer.
const QUESTIONS: usize = 64;

/// What a session has asked and the client has not answered.
///
/// INVARIANT: an entry lives as long as its `Asked`, or until the answer is there.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The last id that was minted.
    last: u64,
    by_id: HashMap<u64, oneshot::Sender<Frame>>,
}

/// Why the client was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// So many questions wait already.
    #[error("too many questions wait for an answer")]
    TooMany,
    /// There is no stream on which the client would hear it, or nobody reads it (spec Q-04).
    #[error("the client cannot be asked")]
    Unheard,
}

/// A question that was put to the client. Dropped before the answer is there, it is taken back (spec Q-05).
#[derive(Debug)]
pub(crate) struct Asked {
    session: Arc<Session>,
    outbox: Arc<Outbox>,
    id: u64,
    answer: oneshot::Receiver<Frame>,
}

impl Session {
    /// Puts a question of ours on the stream of the running request that `outbox` belongs to. `params` is an object,
    /// as JSON text. The client sees an id of ours (spec Q-02).
    ///
    /// # Errors
    /// When the client cannot hear it, or has too many to answer.
    pub(crate) fn ask(
        self: &Arc<Self>,
        outbox: &Arc<Outbox>,
        method: Method,
        params: &str,
    ) -> Result<Asked, AskError> {
        let (sender, answer) = oneshot::channel();
        let id = self.questions.enter(sender).ok_or(AskError::TooMany)?;
        let asked = Asked { session: Arc::clone(self), outbox: Arc::clone(outbox), id, answer };
        let name = method.name();
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{name}","params":{params}}}"#);
        if outbox.put(Pieces::one(text.into())) {
            return Ok(asked);
        }
        // Forgotten before it is dropped: what was not heard is not taken back.
        self.questions.take(id);
        Err(AskError::Unheard)
    }

    /// Takes a result or an error that the client sent, if it answers a question of this session. Others answer
    /// nothing (spec H-06).
    pub(crate) fn answered(&self, frame: &Frame) -> bool {
        let Some(asker) = frame.id().and_then(Id::as_number).and_then(|id| self.questions.take(id)) else {
            return false;
        };
        // Whoever asked may have gone in this moment.
        asker.send(frame.clone()).is_ok()
    }
}

impl Questions {
    /// A fresh id for one more question.
    fn enter(&self, answer: oneshot::Sender<Frame>) -> Option<u64> {
        let mut waiting = lock(&self.waiting);
        if waiting.by_id.len() >= QUESTIONS {
            return None;
        }
        waiting.last += 1;
        let id = waiting.last;
        waiting.by_id.insert(id, answer);
        Some(id)
    }

    fn take(&self, id: u64) -> Option<oneshot::Sender<Frame>> {
        lock(&self.waiting).by_id.remove(&id)
    }
}

impl Asked {
    /// Waits for the answer, a result or an error; for ever when none comes.
    pub(crate) async fn answer(&mut self) -> Frame {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            // INVARIANT: the sender lives until it has sent; an error can only come from a second wait after that.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.session.questions.take(self.id).is_none() {
            return;
        }
        let id = self.id;
        let name = Method::Cancelled.name();
        let text = format!(r#"{{"jsonrpc":"2.0","method":"{name}","params":{{"requestId":{id}}}}}"#);
        // A client that cannot hear it any more did not keep the question either.
        self.outbox.put(Pieces::one(text.into()));
    }
}

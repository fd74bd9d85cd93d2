//! A session's stream for what belongs to no request.

use std::sync::Arc;

use tokio::sync::mpsc;
use wire::Pieces;

use super::Session;

/// The reading end of one GET stream. Keeps its session alive for as long as it is open.
#[derive(Debug)]
pub(crate) struct Listener {
    session: Arc<Session>,
    messages: mpsc::Receiver<Pieces>,
}

impl Listener {
    pub(super) fn new(session: Arc<Session>, messages: mpsc::Receiver<Pieces>) -> Listener {
        Listener { session, messages }
    }

    /// The next message; none when the session ends.
    pub(crate) async fn next(&mut self) -> Option<Pieces> {
        self.messages.recv().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The idle clock starts when the stream closes, not when the last request was sent.
        self.session.touch();
    }
}

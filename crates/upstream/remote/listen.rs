//! The GET stream beside a legacy session, by which the server speaks unasked (spec H-39, bug B43).

use crate::error::UpstreamError;
use crate::remote::answer::Events;
use crate::remote::session::Session;
use crate::remote::site::{LONGEST_RETRY, SHORTEST_RETRY, Site, may_pass};
use http::{HeaderValue, StatusCode};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Open for so long means that earlier breaks are over.
const STABLE: Duration = Duration::from_secs(30);

/// Why a stream is not open any more, or never was.
enum Silence {
    /// This server has none, in this session.
    None,
    /// It ended, or could not be opened just now.
    Broken,
    /// There is another session.
    Renewed,
}

impl Site {
    /// Listens for as long as there is something to listen to. Nothing here fails a call.
    pub(crate) async fn listen(&self) {
        let mut sessions = self.session.subscribe();
        loop {
            let session = sessions.borrow_and_update().clone();
            let silence = tokio::select! {
                _ = sessions.changed() => Silence::Renewed,
                silence = self.listen_in(&session) => silence,
            };
            match silence {
                Silence::None => {
                    if sessions.changed().await.is_err() {
                        return;
                    }
                }
                Silence::Broken | Silence::Renewed => {}
            }
        }
    }

    /// Listens in one session: opened again after breaks, with pauses that grow.
    async fn listen_in(&self, session: &Session) -> Silence {
        let (mut last, mut pause, mut was_open) = (None, SHORTEST_RETRY, false);
        loop {
            let began = Instant::now();
            let mut retry = None;
            match self.stream(session, last.as_ref()).await {
                Ok(Ok(mut events)) => {
                    // Without ids nobody says what was missed.
                    if was_open && last.is_none() {
                        self.missed();
                    }
                    was_open = true;
                    self.hear_out(&mut events).await;
                    retry = events.retry();
                    last = events.last_id().and_then(|id| HeaderValue::try_from(id).ok()).or(last);
                }
                // It was there before, so this is the session's end and not the stream's.
                Ok(Err(StatusCode::NOT_FOUND)) if was_open && session.id.is_some() => {
                    let _told = self.renew(session, || ()).await;
                    return Silence::Broken;
                }
                Ok(Err(status)) if !may_pass(status) => return Silence::None,
                Ok(Err(_)) | Err(UpstreamError::Exited { .. }) => {}
                // It was there before: is the server?
                Err(_) if was_open => self.link.suspect(),
                Err(_) => {}
            }
            if began.elapsed() >= STABLE {
                pause = SHORTEST_RETRY;
            }
            sleep(retry.unwrap_or_default().clamp(pause, LONGEST_RETRY)).await;
            pause = LONGEST_RETRY.min(pause * 2);
        }
    }

    async fn hear_out(&self, events: &mut Events) {
        while let Ok(Some(text)) = events.next().await {
            self.link.hear();
            // What is no message was counted.
            let _noise = self.link.receive_beside(text);
        }
    }
}

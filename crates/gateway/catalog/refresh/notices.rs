//! What servers say unasked, put where it belongs.

use std::{collections::HashMap, sync::Arc, time::Duration};

use admission::TenantId;
use tokio::{sync::mpsc, time::Instant};
use upstream::{Notice, Seat, What};
use wire::{Kind, Method};

use super::Inboxes;
use crate::{gateway::Gateway, logging, subscriptions, tasks};

/// Questions of one upstream that are put on record in one window; the rest are refused and counted, so that
/// nobody fills the disk by asking.
const QUESTIONS: u32 = 60;
const WINDOW: Duration = Duration::from_secs(60);

/// How many questions an upstream has asked in this window.
#[derive(Default)]
struct Questions {
    since: Option<Instant>,
    asked: u32,
}

impl Questions {
    /// Counts one, and says whether it is put on record.
    fn take(&mut self) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            if self.asked > QUESTIONS {
                tracing::warn!(
                    unrecorded = self.asked - QUESTIONS,
                    "an upstream asked more than is recorded"
                );
            }
            *self = Questions { since: Some(now), asked: 0 };
        }
        self.asked = self.asked.saturating_add(1);
        self.asked <= QUESTIONS
    }
}

/// Puts each notice where it belongs.
pub(super) async fn sort(gateway: Arc<Gateway>, inboxes: Inboxes, mut notices: mpsc::Receiver<Notice>) {
    let mut questions: HashMap<(Arc<str>, Arc<str>), Questions> = HashMap::new();
    while let Some(Notice { spec, seat, what }) = notices.recv().await {
        // Lists are fed by the shared connection alone (product rule "Catalog connections").
        let inbox = match &seat {
            Seat::Shared => inboxes.get(&(Arc::clone(&spec.tenant), Arc::clone(&spec.id))),
            Seat::Principal(_) | Seat::Session(_) => None,
        };
        match (what, inbox) {
            (What::Request(connection, question), _) => {
                let key = (Arc::clone(&spec.tenant), Arc::clone(&spec.id));
                let recorded = questions.entry(key).or_default().take();
                gateway.ask_back((&spec, &seat), &connection, &question, recorded).await;
            }
            (What::Notification(frame), _) if frame.method() == Some(Method::ResourceUpdated) => {
                subscriptions::updated(&gateway, &spec, &seat, &frame);
            }
            (What::Notification(frame), _) if frame.method() == Some(Method::LogMessage) => {
                logging::deliver(&gateway, &spec, &seat, &frame);
            }
            (What::Notification(frame), _) if frame.method() == Some(Method::ElicitationComplete) => {
                gateway.router.asking.links.tell_completed(&spec, &seat, &frame);
            }
            (What::Notification(frame), _) if frame.method() == Some(Method::TaskStatus) => {
                tasks::told(&gateway.router.tasks, &spec, &seat, &frame);
            }
            (What::Notification(frame), _) if frame.method() == Some(Method::Progress) => {
                tasks::reported(&gateway.router.tasks, &spec, &seat, &frame);
            }
            (What::Up(connection), inbox) => {
                // What its sessions want to hear may have been said before it was there (spec U-14).
                let snapshot = gateway.snapshot.load();
                let tenant = TenantId::new(Arc::clone(&spec.tenant));
                if let Some(catalog) = snapshot.catalogs.get(&tenant) {
                    logging::spread(&gateway.router, &gateway.sessions, catalog, &seat);
                }
                let Some(inbox) = inbox else { continue };
                inbox.ring(|pending| {
                    pending.down = None;
                    pending.up = Some(connection);
                });
            }
            (What::Down { why }, Some(inbox)) => inbox.ring(|pending| {
                pending.up = None;
                pending.down = Some(why);
            }),
            (What::Notification(frame), Some(inbox)) => {
                let said = frame.method();
                inbox.ring(|pending| {
                    pending.changed.extend(Kind::ALL.into_iter().filter(|kind| said == Some(kind.changed())));
                });
            }
            (What::Down { .. } | What::Notification(_), None) => (),
        }
    }
}

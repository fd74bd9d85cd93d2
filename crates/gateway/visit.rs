//! What a message is part of: a conversation, or nothing but itself.

use std::sync::Arc;

use admission::{Principal, Scene};
use wire::{Capability, Era, Revision};

use crate::{authn, catalog::View, session::Session};

/// What a message is part of.
#[derive(Clone, Debug)]
pub(crate) enum Visit {
    /// An `initialize`: the session that will exist once it is answered.
    Opening(Arc<Session>),
    /// A message of a session.
    Within(Arc<Session>),
    /// A modern message. It brings along all there is to know, and nothing is kept (spec B-26).
    Alone(Arc<Principal>),
}

impl Visit {
    /// Who asks.
    pub(crate) fn principal(&self) -> &Arc<Principal> {
        match self {
            Visit::Opening(session) | Visit::Within(session) => &session.principal,
            Visit::Alone(principal) => principal,
        }
    }

    /// The revision the client speaks.
    pub(crate) fn revision(&self) -> Revision {
        match self {
            Visit::Opening(session) | Visit::Within(session) => session.revision,
            Visit::Alone(_) => Revision::R2026_07_28,
        }
    }

    /// The era of that revision.
    pub(crate) fn era(&self) -> Era {
        self.revision().era()
    }

    /// The conversation, when there is one.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Visit::Opening(session) | Visit::Within(session) => Some(session),
            Visit::Alone(_) => None,
        }
    }

    /// What surrounds a call of it at a virtual server, for rules.
    pub(crate) fn scene(&self, server: &Arc<str>) -> Scene {
        let session = self.session().map(|session| Arc::clone(&session.name));
        Scene { session, ..Scene::at(Arc::clone(server), authn::now()) }
    }

    /// Whether a method that needs `capability` exists here (spec B-11). A session holds what it promised;
    /// a modern request sees what there is.
    pub(crate) fn promises(&self, capability: Capability, view: &View) -> bool {
        match self {
            // What the client itself declared.
            Visit::Within(session) if capability == Capability::Roots => {
                wire::input::member(session.client(), "roots").is_some()
            }
            Visit::Opening(session) | Visit::Within(session) => session.promises(capability),
            Visit::Alone(_) => view.promised.contains(&capability),
        }
    }

    /// Requests that run in the same conversation.
    pub(crate) fn running(&self) -> usize {
        self.session().map_or(0, |session| session.running())
    }
}

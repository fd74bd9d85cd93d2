//! A legacy session over HTTP as we hold it (spec H-15, H-16).

use crate::error::UpstreamError;
use crate::remote::heads;
use http::{HeaderMap, HeaderValue};
use wire::Revision;

/// Session ids longer than this are no ids. Some servers keep the whole session in there.
const LONGEST_ID: usize = 4096;

/// What the server gave us to be known by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    /// Servers without sessions give none.
    pub(crate) id: Option<HeaderValue>,
    /// What was agreed on, where the revision repeats that with every request.
    version: Option<HeaderValue>,
    /// Which one it is, so that a session is replaced only once.
    pub(crate) turn: u64,
}

impl Session {
    /// The session that an answer to `initialize` began.
    pub(crate) fn begun(
        id: Option<HeaderValue>,
        revision: Revision,
        turn: u64,
    ) -> Result<Self, UpstreamError> {
        let mut id = id;
        if let Some(id) = &mut id {
            id.set_sensitive(true);
            let is_visible = id.as_bytes().iter().all(|byte| (0x21..=0x7E).contains(byte));
            if !is_visible || !(1..=LONGEST_ID).contains(&id.len()) {
                return Err(UpstreamError::garbled("its session id breaks the rules for session ids"));
            }
        }
        let version = revision.has_version_header().then(|| HeaderValue::from_static(revision.text()));
        Ok(Self { id, version, turn })
    }

    /// Makes a request part of the session.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(heads::SESSION, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(heads::VERSION, version.clone());
        }
    }
}

//! What is judged: a request whose asker and target are known.

use std::{fmt, sync::Arc, time::Instant};

use wire::{Digest, Frame, Kind, Method, mirror::Mirror, task::Support};

use crate::{Claims, Facts};

/// One message whose principal and target are known. Nothing has judged it yet.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asks.
    pub principal: Arc<Principal>,
    /// What the message is, from the method table.
    pub method: Method,
    /// What it is about.
    pub target: Target,
    /// The message as it was received.
    pub frame: Frame,
    /// When its first byte was read. The only time a check ever sees.
    pub received: Instant,
    /// A person's yes, when one was found for exactly this call.
    pub grant: Option<Grant>,
    /// What surrounds it.
    pub scene: Scene,
}

/// What surrounds a call: where it came in, within which conversation, and when.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The virtual server it was sent to.
    pub server: Arc<str>,
    /// The session it belongs to; none in the era that has none.
    pub session: Option<Arc<str>>,
    /// Whether the conversation has read what a server of the tier `untrusted` says (security row 13).
    pub tainted: bool,
    /// The wall clock when it was received, in seconds since 1970. For rules about the hour, nothing else.
    pub now: u64,
}

impl Scene {
    /// At a virtual server, in no session, with nothing read yet.
    pub fn at(server: Arc<str>, now: u64) -> Scene {
        Scene { server, session: None, tainted: false, now }
    }
}

/// An authenticated asker within a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The isolation unit everything of this principal is keyed by first.
    pub tenant: TenantId,
    /// Who vouches for the subject; empty when nobody does (anonymous mode).
    pub issuer: Box<str>,
    /// The name within the issuer.
    pub subject: Arc<str>,
    /// The groups the credential vouches for.
    pub groups: Box<[Box<str>]>,
    /// The scopes the credential carries.
    pub scopes: Box<[Box<str>]>,
    /// What was shown: an opaque name of the credential, for records and for revocation. Empty when
    /// nothing was.
    pub credential: Box<str>,
    /// What else the credential says, for rules.
    pub claims: Claims,
}

impl Principal {
    /// One of whom nothing else is known: no groups, no scopes, and no credential that stands for it.
    pub fn named(tenant: TenantId, issuer: Box<str>, subject: Arc<str>) -> Principal {
        Principal {
            tenant,
            issuer,
            subject,
            groups: Box::default(),
            scopes: Box::default(),
            credential: Box::default(),
            claims: Claims::default(),
        }
    }
}

/// The isolation unit: first part of every key.
///
/// INVARIANT: made only by authentication and by configuration, never from what a message says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// For authentication and configuration only.
    pub fn new(name: Arc<str>) -> TenantId {
        TenantId(name)
    }

    /// The name as configured.
    pub fn name(&self) -> &Arc<str> {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a call is about.
#[derive(Clone, Debug)]
pub enum Target {
    /// The gateway itself: handshake, ping, notifications about the conversation.
    Ourselves,
    /// One of the lists.
    Listing(Kind),
    /// One thing an upstream has.
    Thing(Arc<Thing>),
    /// A name nobody has. Carried to the checks, so that hidden and missing end at the same place.
    Missing(Sort, Box<str>),
}

impl Target {
    /// The upstream this is about, when it is about one.
    pub fn upstream(&self) -> Option<&Arc<str>> {
        match self {
            Target::Thing(thing) => Some(&thing.upstream),
            Target::Ourselves | Target::Listing(_) | Target::Missing(..) => None,
        }
    }
}

/// One thing an upstream has, as the catalog knows it.
#[derive(Debug, PartialEq, Eq)]
pub struct Thing {
    /// The upstream's configured id.
    pub upstream: Arc<str>,
    /// What kind of thing.
    pub sort: Sort,
    /// The name or URI as clients see it.
    pub exposed: Box<str>,
    /// The name or URI as the upstream knows it.
    pub native: Box<str>,
    /// Canonical hash of the definition; none where there is no definition (a URI under a template).
    pub digest: Option<Digest>,
    /// Whether the catalog offers it, and if not, why.
    pub standing: Standing,
    /// Arguments that modern HTTP requests repeat in headers (spec H-30); none for most things.
    pub mirrors: Arc<[Mirror]>,
    /// Whether calls of it can become tasks; of tools only.
    pub tasks: Support,
    /// What rules may know about it.
    pub facts: Arc<Facts>,
}

/// The kinds of things that calls are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sort {
    /// `tools/call`.
    Tool,
    /// `prompts/get`, and completion of a prompt's argument.
    Prompt,
    /// `resources/read`, and completion within a resource template.
    Resource,
}

/// Whether the catalog offers a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Listed and callable.
    Offered,
    /// Left out by the operator's `include`/`exclude` filters.
    Filtered,
    /// Left out by a rule of ours about names (product rules on native names); the text says which.
    Excluded(&'static str),
}

/// A person's yes, bound to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who said yes.
    pub approver: Box<str>,
}

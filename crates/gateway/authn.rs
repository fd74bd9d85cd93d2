//! Credential → principal.
//!
//! Without `identity` everybody is anonymous: the configuration grants that to one tenant on a loopback
//! listener only. With it, who shows nothing good is nobody.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use admission::{Principal, TenantId};
use config::Config;

use crate::{
    arrival::{Endpoint, Head},
    error::AuthnError,
    metadata::Signposts,
    tokens::Known,
};

pub(crate) use bearer::{LONGEST, token};
pub use compile::IdentityError;
use flaw::Flaw;
use identity::Identity;
pub use jwks::JwksError;
pub(crate) use keys::KeySet;
pub use keys::KeysError;
pub use site::SiteError;
pub(crate) use statement::{LIFE, credential, is_name, is_scope};

mod bearer;
mod claims;
mod compile;
mod flaw;
mod identity;
mod introspection;
mod issuer;
mod jwks;
mod keys;
mod site;
mod statement;
mod token;

/// Who may be told apart, compiled from the configuration.
pub(crate) struct Authn(Mode);

enum Mode {
    /// INVARIANT: with more than one tenant the configuration demands identities.
    Anonymous { tenant: TenantId, principal: Arc<Principal> },
    Identified {
        identity: Box<Identity>,
        signposts: Signposts,
        /// Whether an issuer is asked about tokens.
        asks: bool,
    },
}

impl Authn {
    /// Everything the configuration says about who may ask. Issuers whose keys are at a URL are not read
    /// yet: that is what watching [`Authn::key_sets`] is for.
    ///
    /// # Errors
    /// When there is no tenant, or identities that cannot be told apart.
    pub(crate) fn compile(
        config: &Config,
        known: &Arc<Known>,
        before: Option<&Authn>,
    ) -> Result<Authn, IdentityError> {
        if let [only] = config.tenants.as_slice()
            && only.identity.is_none()
        {
            return Ok(Authn::anonymous(TenantId::new(Arc::clone(&only.name))));
        }
        let before = match before.map(|before| &before.0) {
            Some(Mode::Identified { identity, .. }) => Some(&**identity),
            Some(Mode::Anonymous { .. }) | None => None,
        };
        let identity = Box::new(compile::identity(config, known, before)?);
        let asks = identity.asks();
        Ok(Authn(Mode::Identified { identity, signposts: Signposts::new(config), asks }))
    }

    /// Anonymous mode for the one tenant there is.
    pub(crate) fn anonymous(tenant: TenantId) -> Authn {
        let principal = Arc::new(Principal::named(tenant.clone(), Box::default(), "anonymous".into()));
        Authn(Mode::Anonymous { tenant, principal })
    }

    /// Who asks, from the head alone: the body of a stranger is never read. Cheap enough to be asked again
    /// and again for a long stream, which must end with its credential (spec H-27).
    ///
    /// # Errors
    /// `Missing`, `Refused` or `Malformed`, to be answered with [`Authn::challenge`]; `NoEndpoint` when the
    /// credential is good and the endpoint does not exist for it.
    pub(crate) fn identify(&self, head: &Head) -> Result<Arc<Principal>, AuthnError> {
        self.judge(head, now()).map_err(|flaw| refuse(head, flaw))
    }

    /// The same for a message: a token signed with a key nobody knows yet waits once for the keys to be read again, since
    /// its issuer may just have changed them; and about one that says nothing itself its issuer is asked.
    ///
    /// # Errors
    /// As [`Authn::identify`].
    pub(crate) async fn identify_fresh(&self, head: &Head) -> Result<Arc<Principal>, AuthnError> {
        // Boxed, as what is seldom needed: room for it would be moved about with every request.
        if let Mode::Identified { identity, asks: true, .. } = &self.0 {
            Box::pin(identity.ask(head, now())).await;
        }
        let mut done = self.judge(head, now());
        if let (Err(Flaw::UnknownKey), Mode::Identified { identity, .. }) = (&done, &self.0)
            && Box::pin(identity.fresher(head)).await
        {
            done = self.judge(head, now());
        }
        done.map_err(|flaw| refuse(head, flaw))
    }

    /// Whose credential it is that was good and is not for this endpoint: for the record of the refusal.
    pub(crate) fn holder(&self, head: &Head) -> Option<Arc<Principal>> {
        match &self.0 {
            Mode::Anonymous { principal, .. } => Some(Arc::clone(principal)),
            Mode::Identified { identity, .. } => {
                identity.holder(head, now()).ok().map(|(principal, _)| principal)
            }
        }
    }

    fn judge(&self, head: &Head, now: u64) -> Result<Arc<Principal>, Flaw> {
        match &self.0 {
            Mode::Anonymous { tenant, principal } => match &head.endpoint.tenant {
                Some(named) if **named != **tenant.name() => Err(Flaw::Server),
                Some(_) | None => Ok(Arc::clone(principal)),
            },
            Mode::Identified { identity, .. } => identity.judge(head, now),
        }
    }

    /// In anonymous mode each session is a principal of its own, so that no process, cursor or stream
    /// of one client is ever another's (product rule "Anonymous mode").
    pub(crate) fn in_session(&self, principal: &Arc<Principal>, session: &str) -> Arc<Principal> {
        Arc::new(Principal::named(
            principal.tenant.clone(),
            principal.issuer.clone(),
            format!("{}-{session}", principal.subject).into(),
        ))
    }

    /// The `WWW-Authenticate` value that goes with a failed identification (spec 8.0); none where no
    /// credential would help.
    pub(crate) fn challenge(&self, endpoint: &Endpoint, error: &AuthnError) -> Option<String> {
        match &self.0 {
            Mode::Anonymous { .. } => None,
            Mode::Identified { signposts, .. } => signposts.challenge(endpoint, error),
        }
    }

    /// The `WWW-Authenticate` value for a principal whose token lacks some of the scopes that an endpoint or a call needs: the
    /// fewest that hold all of them and what its issuer's tokens must carry anyway (spec ).
    pub(crate) fn step_up(
        &self,
        endpoint: &Endpoint,
        principal: &Principal,
        needed: &[Box<str>],
    ) -> Option<String> {
        match &self.0 {
            Mode::Identified { identity, signposts, .. } => {
                Some(signposts.step_up(endpoint, &identity.fewest(principal, needed)))
            }
            Mode::Anonymous { .. } => None,
        }
    }

    /// The RFC 9728 document of an endpoint; none when no issuer vouches for anybody there.
    pub(crate) fn metadata(&self, endpoint: &Endpoint) -> Option<String> {
        match &self.0 {
            Mode::Anonymous { .. } => None,
            Mode::Identified { signposts, .. } => signposts.document(endpoint),
        }
    }

    /// The issuers' keys, each to be watched by one task.
    pub(crate) fn key_sets(&self) -> Vec<Watched> {
        match &self.0 {
            Mode::Anonymous { .. } => Vec::new(),
            Mode::Identified { identity, .. } => identity.key_sets().into_iter().map(Watched).collect(),
        }
    }

    /// The issuers whose keys are not known: until they are, none of their tokens is accepted and the gateway
    /// is not ready.
    pub(crate) fn keyless_issuers(&self) -> Vec<Arc<str>> {
        let all = self.key_sets();
        let keyless = all.iter().filter(|Watched(jwks)| jwks.held().is_none());
        keyless.map(|Watched(jwks)| Arc::clone(jwks.issuer())).collect()
    }

    /// Whether nobody is told apart, for `/status`.
    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self.0, Mode::Anonymous { .. })
    }
}

/// The keys of one issuer, for whoever runs the task that keeps them fresh.
#[derive(Clone)]
pub(crate) struct Watched(Arc<jwks::Jwks>);

impl Watched {
    /// Whether these are the same keys, and not only those of the same issuer.
    pub(crate) fn is(&self, other: &Watched) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Keeps them fresh; never ends.
    pub(crate) async fn watch(self) {
        self.0.watch().await;
    }
}

/// The operator learns what is wrong, the asker one word. Never a part of what was shown.
fn refuse(head: &Head, flaw: Flaw) -> AuthnError {
    if flaw != Flaw::Missing {
        tracing::debug!(peer = %head.peer, %flaw, "a credential was refused");
    }
    flaw.told()
}

/// Seconds since 1970. Claims are about wall clocks, nothing else is (security row 16).
pub(crate) fn now() -> u64 {
    // A clock before 1970 is set wrong: nothing is valid then, since all is issued later.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;

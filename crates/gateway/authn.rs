//! Credential → principal.
//!
//! This release knows anonymous mode only: no `identity`, one tenant, a loopback listener. The
//! configuration refuses everything else, so nothing here can be open by mistake.

use std::sync::Arc;

use admission::{Principal, TenantId};

use crate::{arrival::Head, error::AuthnError};

/// Who may be told apart, compiled from the configuration.
#[derive(Debug)]
pub(crate) struct Authn {
    /// INVARIANT: with more than one tenant the configuration demands identities.
    tenant: TenantId,
    anonymous: Arc<Principal>,
}

impl Authn {
    /// Anonymous mode for the one tenant there is.
    pub(crate) fn anonymous(tenant: TenantId) -> Authn {
        let anonymous = Arc::new(Principal {
            tenant: tenant.clone(),
            issuer: Box::default(),
            subject: "anonymous".into(),
            groups: Box::default(),
            scopes: Box::default(),
            credential: Box::default(),
        });
        Authn { tenant, anonymous }
    }

    /// Who asks, from the head alone: the body of a stranger is never read.
    ///
    /// # Errors
    /// `NoEndpoint` when the path names another tenant than the credential's.
    pub(crate) fn identify(&self, head: &Head) -> Result<Arc<Principal>, AuthnError> {
        match &head.endpoint.tenant {
            Some(named) if **named != **self.tenant.name() => Err(AuthnError::NoEndpoint),
            Some(_) | None => Ok(Arc::clone(&self.anonymous)),
        }
    }

    /// In anonymous mode each session is a principal of its own, so that no process, cursor or stream
    /// of one client is ever another's (product rule "Anonymous mode").
    pub(crate) fn in_session(&self, principal: &Arc<Principal>, session: &str) -> Arc<Principal> {
        Arc::new(Principal {
            tenant: principal.tenant.clone(),
            issuer: principal.issuer.clone(),
            subject: format!("{}-{session}", principal.subject).into(),
            groups: Box::default(),
            scopes: Box::default(),
            credential: Box::default(),
        })
    }
}

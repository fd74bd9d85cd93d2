//! What proves us to upstreams, made ready from the configuration; and who calls, as far as an upstream may hear of it.

use std::{path::Path, sync::Arc};

use admission::Principal;
use config::{ClientProof, Fact, Grant, Signing, TokenServer};
use upstream::{Caller, ClientKey, Credential, Identity, Proof};

use crate::{arrival::Head, authn, gateway::OpenError, tokens::Known};

/// The credential of an upstream at `url`. `ca` holds authorities of the operator's own, PEM.
///
/// # Errors
/// When a key cannot be read or used.
pub(crate) fn compile(
    of: (&Arc<str>, &Arc<str>),
    configured: &config::Credential,
    (url, ca): (&config::Url, Option<&[u8]>),
    known: &Arc<Known>,
) -> Result<Arc<Credential>, OpenError> {
    let unfit = |why: String| OpenError::Credential { upstream: Arc::clone(of.1), why };
    let proof = match configured {
        config::Credential::None => Proof::None,
        config::Credential::Headers(headers) => Proof::Headers(
            headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
        ),
        config::Credential::Client(grant) => Proof::Client(compile_grant(grant, &unfit)?),
        config::Credential::Exchange { grant, audience } => {
            Proof::Exchange { grant: compile_grant(grant, &unfit)?, audience: audience.clone() }
        }
        config::Credential::Principal { headers, sign } => {
            let headers: Vec<_> = headers.iter().map(|(told, name)| (fact(*told), name.clone())).collect();
            let signer = sign.then(|| signer(known));
            Proof::Principal(Identity::new(&headers, signer, url.to_string()).map_err(unfit)?)
        }
    };
    Credential::new((Arc::clone(of.0), Arc::clone(of.1)), proof, ca).map_err(unfit)
}

fn compile_grant(grant: &Grant, unfit: &impl Fn(String) -> OpenError) -> Result<upstream::Grant, OpenError> {
    Ok(upstream::Grant {
        server: match &grant.server {
            TokenServer::Endpoint(url) => upstream::TokenServer::Endpoint(url.clone()),
            TokenServer::Issuer(name, url) => upstream::TokenServer::Issuer(name.clone(), url.clone()),
        },
        client_id: grant.client_id.clone(),
        proof: match &grant.proof {
            ClientProof::Secret(secret) => upstream::ClientProof::Secret(secret.expose().to_owned()),
            ClientProof::Key { file, id, algorithm } => {
                upstream::ClientProof::Key(Arc::new(key(file, id.clone(), *algorithm, unfit)?))
            }
        },
        scopes: grant.scopes.clone(),
        resource: grant.resource.clone(),
    })
}

fn key(
    file: &Path,
    id: Option<String>,
    algorithm: Signing,
    unfit: &impl Fn(String) -> OpenError,
) -> Result<ClientKey, OpenError> {
    let pem = std::fs::read(file).map_err(|why| OpenError::File { path: file.to_owned(), why })?;
    let signing = match algorithm {
        Signing::Es256 => upstream::Signing::Es256,
        Signing::Rs256 => upstream::Signing::Rs256,
        Signing::EdDsa => upstream::Signing::EdDsa,
    };
    ClientKey::read(&pem, id, signing).map_err(|why| unfit(format!("`{}`: {why}", file.display())))
}

fn fact(told: Fact) -> upstream::Fact {
    match told {
        Fact::Subject => upstream::Fact::Subject,
        Fact::Tenant => upstream::Fact::Tenant,
        Fact::Groups => upstream::Fact::Groups,
        Fact::Issuer => upstream::Fact::Issuer,
    }
}

/// Signs with our own key, whichever that is by then.
fn signer(known: &Arc<Known>) -> upstream::Signer {
    let known = Arc::clone(known);
    Arc::new(move |claims| Some(known.local()?.vouch(claims)))
}

/// Who calls: the principal of the message, and the token it came with.
pub(crate) fn caller(head: &Head, principal: &Principal) -> Arc<Caller> {
    Arc::new(Caller {
        tenant: Arc::clone(principal.tenant.name()),
        issuer: principal.issuer.clone(),
        subject: Arc::clone(&principal.subject),
        groups: principal.groups.clone(),
        bearer: authn::token(head).map(Box::from),
    })
}

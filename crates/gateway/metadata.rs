//! What strangers are told: which credential an endpoint wants, and where one gets it (RFC 9728, spec 8.0).

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use config::{Config, Issuer, Tenant};
use wire::code::quote;

use crate::{
    arrival::{Endpoint, Transport},
    authn::is_scope,
    error::AuthnError,
};

/// The URLs clients know our endpoints by.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// Scheme and host, without a final slash.
    origin: String,
    /// What stands between that and the path of an endpoint: nothing, unless `public_url` has a path.
    prefix: String,
}

/// What the challenges and documents of one tenant say.
#[derive(Debug)]
struct Signpost {
    issuers: Vec<Arc<str>>,
    /// Base scopes only, and of several issuers those that all of them have: what a tool needs is not told to strangers
    /// (product section 5).
    scopes: Vec<String>,
}

/// What strangers are told about every endpoint.
#[derive(Debug)]
pub(crate) struct Signposts {
    addresses: Addresses,
    /// Shared issuers are among those of each.
    tenants: HashMap<Arc<str>, Signpost>,
    /// The tenant of `/mcp`, when there is exactly one.
    sole: Option<Arc<str>>,
    /// What holds at `/mcp` when there are several.
    shared: Signpost,
}

impl Addresses {
    /// As configured; without `public_url` the address we listen at.
    pub(crate) fn new(config: &Config) -> Addresses {
        match &config.public_url {
            Some(url) => Addresses {
                origin: url.origin().ascii_serialization(),
                prefix: url.path().trim_end_matches('/').to_owned(),
            },
            None => {
                let scheme = if config.tls.is_some() { "https" } else { "http" };
                Addresses { origin: format!("{scheme}://{}", config.listen), prefix: String::new() }
            }
        }
    }

    /// The URL of an endpoint: what tokens for it are issued for.
    pub(crate) fn resource(&self, endpoint: &Endpoint) -> String {
        format!("{}{}{}", self.origin, self.prefix, path(endpoint))
    }

    /// Where its document is: the well-known part goes between host and path (RFC 9728 3.1, spec A-02).
    fn document(&self, endpoint: &Endpoint) -> String {
        format!("{}/.well-known/oauth-protected-resource{}{}", self.origin, self.prefix, path(endpoint))
    }
}

/// The URL of an endpoint, for whoever mints a token for it.
pub fn endpoint_url(config: &Config, endpoint: &Endpoint) -> String {
    Addresses::new(config).resource(endpoint)
}

fn path(endpoint: &Endpoint) -> String {
    let mut path = String::new();
    // Writing to a `String` cannot fail.
    if let Some(tenant) = &endpoint.tenant {
        let _ = write!(path, "/t/{tenant}");
    }
    path.push_str(match endpoint.transport {
        Transport::Streamable => "/mcp",
        Transport::Sse => "/sse",
    });
    if let Some(server) = &endpoint.server {
        let _ = write!(path, "/{server}");
    }
    path
}

/// Whether two audiences are the same: one final slash and the letter case of scheme and host do not
/// matter, everything else does (product rule "Audience").
pub(crate) fn same_audience(a: &str, b: &str) -> bool {
    let (a_host, a_rest) = split(a);
    let (b_host, b_rest) = split(b);
    a_host.eq_ignore_ascii_case(b_host) && a_rest == b_rest
}

/// Scheme and host, and what follows without one final slash. What is no URL is all rest.
fn split(text: &str) -> (&str, &str) {
    let text = text.strip_suffix('/').unwrap_or(text);
    let host = text.find("://").and_then(|at| text.get(at + 3..)).unwrap_or_default();
    // Something like `user@host` is nobody's endpoint: compared as it stands.
    let end = host.find(['/', '?', '#', '@', '\\']).unwrap_or(host.len());
    if host.is_empty() || host.get(end..).is_some_and(|rest| rest.starts_with('@')) {
        return ("", text);
    }
    text.split_at_checked(text.len() - host.len() + end).unwrap_or(("", text))
}

impl Signposts {
    /// From the configuration.
    pub(crate) fn new(config: &Config) -> Signposts {
        let of = |tenant: &Tenant| {
            let own = tenant.identity.iter().flat_map(|identity| &identity.issuers);
            (Arc::clone(&tenant.name), signpost(own.chain(&config.shared_issuers)))
        };
        let tenants: HashMap<_, _> = config.tenants.iter().map(of).collect();
        let sole = match config.tenants.as_slice() {
            [only] => Some(Arc::clone(&only.name)),
            _ => None,
        };
        Signposts {
            addresses: Addresses::new(config),
            tenants,
            sole,
            shared: signpost(&config.shared_issuers),
        }
    }

    /// The signpost of an endpoint: `/mcp` is the tenant's when there is exactly one.
    fn of(&self, endpoint: &Endpoint) -> Option<&Signpost> {
        // What the path says goes into a header and a document: it must be a name.
        let mut names = [endpoint.tenant.as_deref(), endpoint.server.as_deref()].into_iter().flatten();
        if !names.all(is_plain) {
            return None;
        }
        match endpoint.tenant.as_deref().or(self.sole.as_deref()) {
            Some(tenant) => self.tenants.get(tenant),
            None => Some(&self.shared),
        }
    }

    /// The document of an endpoint. The same for every virtual server, existing or not, so that names of
    /// servers cannot be tried out; names of tenants are no secret (product rule "Tenant of a request").
    pub(crate) fn document(&self, endpoint: &Endpoint) -> Option<String> {
        let signpost = self.of(endpoint).filter(|signpost| !signpost.issuers.is_empty())?;
        let list = |texts: &mut dyn Iterator<Item = &str>| texts.map(quote).collect::<Vec<_>>().join(",");
        let mut document = format!(
            "{{\"resource\":{},\"authorization_servers\":[{}]",
            quote(&self.addresses.resource(endpoint)),
            list(&mut signpost.issuers.iter().map(|issuer| &**issuer)),
        );
        if !signpost.scopes.is_empty() {
            let scopes = list(&mut signpost.scopes.iter().map(String::as_str));
            let _ = write!(document, ",\"scopes_supported\":[{scopes}]");
        }
        document.push_str(",\"bearer_methods_supported\":[\"header\"]}");
        Some(document)
    }

    /// The `WWW-Authenticate` value that goes with a failed identification; none where no credential would
    /// help.
    pub(crate) fn challenge(&self, endpoint: &Endpoint, error: &AuthnError) -> Option<String> {
        let signpost = self.of(endpoint);
        let mut parts: Vec<String> = Vec::new();
        match error {
            AuthnError::NoEndpoint => return None,
            // RFC 6750 3.1: no error is named to who showed nothing.
            AuthnError::Missing => (),
            AuthnError::Refused(why) => {
                parts.push("error=\"invalid_token\"".to_owned());
                parts.push(format!("error_description=\"{why}\""));
            }
            AuthnError::Malformed => parts.push("error=\"invalid_request\"".to_owned()),
            AuthnError::Scope => parts.push("error=\"insufficient_scope\"".to_owned()),
        }
        if signpost.is_some_and(|signpost| !signpost.issuers.is_empty()) {
            parts.push(format!("resource_metadata=\"{}\"", self.addresses.document(endpoint)));
        }
        let scopes = signpost.map(|signpost| signpost.scopes.join(" ")).unwrap_or_default();
        if !scopes.is_empty() && !matches!(error, AuthnError::Malformed) {
            parts.push(format!("scope=\"{scopes}\""));
        }
        let space = if parts.is_empty() { "" } else { " " };
        Some(format!("Bearer{space}{}", parts.join(", ")))
    }
}

impl Signposts {
    /// The `WWW-Authenticate` value for who is known and needs these scopes.
    pub(crate) fn step_up(&self, endpoint: &Endpoint, scopes: &[&str]) -> String {
        let mut challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", scopes.join(" "));
        if self.of(endpoint).is_some_and(|signpost| !signpost.issuers.is_empty()) {
            let _ = write!(challenge, ", resource_metadata=\"{}\"", self.addresses.document(endpoint));
        }
        challenge
    }
}

/// A challenge never asks for lasting access (spec A-05) nor for everything (spec A-12).
pub(crate) fn is_asked_for(scope: &str) -> bool {
    is_scope(scope) && scope != "offline_access" && !scope.contains('*')
}

fn signpost<'a>(issuers: impl IntoIterator<Item = &'a Issuer, IntoIter: Clone>) -> Signpost {
    let issuers = issuers.into_iter();
    let mut scopes: Vec<String> = Vec::new();
    // Who asks one issuer for what only another has gets nothing.
    let common = |scope: &String| issuers.clone().all(|issuer| issuer.scopes.contains(scope));
    for scope in issuers.clone().flat_map(|issuer| &issuer.scopes) {
        if is_asked_for(scope) && common(scope) && !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    // An issuer may have any name; only one that is a URL is a place where a client can go.
    let places = issuers
        .map(|issuer| &issuer.issuer)
        .filter(|name| name.starts_with("https://") || name.starts_with("http://"));
    Signpost { issuers: places.cloned().collect(), scopes }
}

fn is_plain(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=128).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with('.')
}

#[cfg(test)]
mod tests;

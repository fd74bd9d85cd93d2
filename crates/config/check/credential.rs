//! What proves the gateway to a server: exactly one kind, whole, and fit for who shares the connection.

use url::Url;

use super::Checker;
use super::process::beside;
use crate::credential::{ClientId, ClientSecret, HeaderName, HeaderText, KeyId, ServerIssuer, TokenUrl};
use crate::model::{ClientProof, Credential, Fact, Grant, Secret, Share, Signing, TokenServer};
use crate::problem::Place;
use crate::raw;
use crate::raw::credential::{Client, Exchange, Principal, Shown};
use crate::reader::At;
use crate::section::Map;
use crate::words::FilePath;

/// The header of the signed token.
const IDENTITY: &str = "x-portcullis-identity";

/// How a token is got, as `client` and `exchange` write it.
struct Written<'a> {
    token_url: &'a Option<At<TokenUrl>>,
    issuer: &'a Option<At<ServerIssuer>>,
    client_id: &'a Option<At<ClientId>>,
    client_secret: &'a Option<At<ClientSecret>>,
    private_key: &'a Option<At<FilePath>>,
    key_id: &'a Option<At<KeyId>>,
    algorithm: Option<&'a Place>,
    signing: Signing,
    scopes: Vec<String>,
    resource: Option<String>,
}

impl Checker<'_> {
    /// What proves us to the server at this URL.
    pub(super) fn credential(&mut self, raw: &raw::Upstream, url: &Url) -> Credential {
        let Some(At { value: Shown::This(written), place }) = &raw.credential else {
            return Credential::None;
        };
        if !self.one_kind(written, place) {
            return Credential::None;
        }
        let found = if let Some(client) = &written.client {
            self.grant(&of_client(client), url).map(Credential::Client)
        } else if let Some(exchange) = &written.exchange {
            let audience = exchange.value.audience.as_ref().map(|audience| audience.value.0.clone());
            self.grant(&of_exchange(exchange), url).map(|grant| Credential::Exchange { grant, audience })
        } else if let Some(principal) = &written.principal {
            Some(self.principal(principal))
        } else if let Some(headers) = &written.headers {
            Some(Credential::Headers(self.headers(headers)))
        } else {
            self.header(written).map(|header| Credential::Headers(vec![header]))
        };
        let found = found.unwrap_or(Credential::None);
        if let (true, Share::Tenant, Some(share)) = (found.is_for_principals(), raw.share().0, &raw.share) {
            let message = "`share: tenant` would show one principal's credential for all others".to_owned();
            self.error(&share.place, message, "remove it, or write `principal` or `session`");
        }
        found
    }

    fn one_kind(&mut self, written: &raw::credential::Credential, place: &Place) -> bool {
        let raw::credential::Credential { header, value, headers, client, exchange, principal } = written;
        let kinds = [
            ("header", header.is_some() || value.is_some()),
            ("headers", headers.is_some()),
            ("client", client.is_some()),
            ("exchange", exchange.is_some()),
            ("principal", principal.is_some()),
        ];
        let there: Vec<&str> = kinds.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
        match there.as_slice() {
            // What could not be read is told already.
            [] if self.told(place, &place.path) => false,
            [] => {
                let hint =
                    "write `none`, or one of `header`, `headers`, `client`, `exchange` and `principal`";
                self.error(place, "the credential is empty".to_owned(), hint);
                false
            }
            [_] => true,
            [first, second, ..] => {
                let message = format!("`{first}` and `{second}` exclude each other");
                self.error(place, message, "keep one of them");
                false
            }
        }
    }

    /// The header and its value, kept apart from the client's own (spec A-10).
    fn header(&mut self, raw: &raw::credential::Credential) -> Option<(String, Secret)> {
        match (&raw.header, &raw.value) {
            (Some(header), Some(value)) => {
                self.bare(value);
                Some((header.value.0.clone(), value.value.0.clone()))
            }
            (Some(At { place, .. }), None) => self.lacks(place, "header", "value"),
            (None, Some(At { place, .. })) => self.lacks(place, "value", "header"),
            (None, None) => None,
        }
    }

    fn lacks<T>(&mut self, place: &Place, there: &str, missing: &str) -> Option<T> {
        let section = place.path.strip_suffix(there).unwrap_or(&place.path).to_owned();
        if !self.told(place, &format!("{section}{missing}")) {
            self.error(
                place,
                format!("the key `{missing}` is missing"),
                &format!("add `{missing}: …` beside `{there}`"),
            );
        }
        None
    }

    fn headers(&mut self, raw: &At<Map<HeaderName, HeaderText>>) -> Vec<(String, Secret)> {
        if raw.value.written == 0 {
            self.error(&raw.place, "`headers` is empty".to_owned(), "add a header, or write `none`");
        }
        let mut found: Vec<(String, Secret)> = Vec::new();
        for (name, value) in &raw.value.entries {
            let Some(value) = value else { continue };
            self.bare(value);
            if found.iter().any(|(known, _)| *known == name.value.0) {
                let message = format!("the header `{}` is there already", name.value.0);
                self.error(&name.place, message, "the letter case of a header does not count; keep one");
            }
            found.push((name.value.0.clone(), value.value.0.clone()));
        }
        found
    }

    fn bare(&mut self, value: &At<HeaderText>) {
        if !value.place.written().contains("${") {
            let hint = "write `${secret:NAME}` in its place, and the secret into a file of its own";
            self.warn(&value.place, "the credential stands in this file as it is".to_owned(), hint);
        }
    }

    fn grant(&mut self, written: &Written<'_>, url: &Url) -> Option<Grant> {
        if let (Some(At { place, .. }), None) = (written.key_id, written.private_key) {
            self.error(place, "`key_id` is for a `private_key`".to_owned(), "remove the key");
        }
        if let (Some(place), None) = (written.algorithm, written.private_key) {
            self.error(place, "`algorithm` is for a `private_key`".to_owned(), "remove the key");
        }
        let server = match (written.token_url, written.issuer) {
            (Some(token_url), _) => TokenServer::Endpoint(token_url.value.0.clone()),
            (None, Some(issuer)) => {
                TokenServer::Issuer(issuer.value.written.clone(), issuer.value.url.clone())
            }
            (None, None) => return None,
        };
        let proof = match (written.client_secret, written.private_key) {
            (Some(secret), _) => {
                self.plain_secret(secret);
                ClientProof::Secret(secret.value.0.clone())
            }
            (None, Some(file)) => ClientProof::Key {
                file: beside(&file.place, &file.value.0),
                id: written.key_id.as_ref().map(|id| id.value.0.clone()),
                algorithm: written.signing,
            },
            (None, None) => return None,
        };
        Some(Grant {
            server,
            client_id: written.client_id.as_ref()?.value.0.clone(),
            proof,
            scopes: written.scopes.clone(),
            resource: written.resource.clone().unwrap_or_else(|| canonical(url)),
        })
    }

    /// Warns of a secret in a file that others read.
    pub(super) fn plain_secret(&mut self, secret: &At<ClientSecret>) {
        if !secret.place.written().contains("${") {
            let hint = "write `${secret:NAME}` in its place, and the secret into a file of its own";
            self.warn(&secret.place, "the secret stands in this file as it is".to_owned(), hint);
        }
    }

    fn principal(&mut self, raw: &At<Principal>) -> Credential {
        let told = raw.value.headers();
        let facts = [
            (Fact::Subject, &told.subject),
            (Fact::Tenant, &told.tenant),
            (Fact::Groups, &told.groups),
            (Fact::Issuer, &told.issuer),
        ];
        let mut headers: Vec<(Fact, String)> = Vec::new();
        for (fact, header) in facts {
            let Some(At { value: HeaderName(name), place }) = header else { continue };
            if name == IDENTITY || headers.iter().any(|(_, known)| known == name) {
                let message = format!("the header `{name}` holds something else already");
                self.error(place, message, "give each fact a header of its own");
            }
            headers.push((fact, name.clone()));
        }
        if headers.is_empty() && !raw.value.sign() && !self.told(&raw.place, &raw.place.path) {
            let hint = "name `headers`, or leave `sign` on; or write `none`";
            self.error(&raw.place, "nothing would be told of the principal".to_owned(), hint);
        }
        if !raw.value.sign() {
            let message = "without `sign` the server cannot tell the gateway's headers from anybody's";
            self.warn(&raw.place, message.to_owned(), "leave it on, or let nobody else reach the server");
        }
        Credential::Principal { headers, sign: raw.value.sign() }
    }
}

fn of_client(At { value: raw, .. }: &At<Client>) -> Written<'_> {
    Written {
        token_url: &raw.token_url,
        issuer: &raw.issuer,
        client_id: &raw.client_id,
        client_secret: &raw.client_secret,
        private_key: &raw.private_key,
        key_id: &raw.key_id,
        algorithm: raw.algorithm.as_ref().map(|written| &written.place),
        signing: raw.algorithm().0,
        scopes: raw.scopes().into_iter().map(|scope| scope.value.0).collect(),
        resource: raw.resource.as_ref().map(|resource| resource.value.0.clone()),
    }
}

fn of_exchange(At { value: raw, .. }: &At<Exchange>) -> Written<'_> {
    Written {
        token_url: &raw.token_url,
        issuer: &raw.issuer,
        client_id: &raw.client_id,
        client_secret: &raw.client_secret,
        private_key: &raw.private_key,
        key_id: &raw.key_id,
        algorithm: raw.algorithm.as_ref().map(|written| &written.place),
        signing: raw.algorithm().0,
        scopes: raw.scopes().into_iter().map(|scope| scope.value.0).collect(),
        resource: raw.resource.as_ref().map(|resource| resource.value.0.clone()),
    }
}

/// A URL as the name of a resource: without query and fragment, and without a slash that says nothing (spec A-23).
fn canonical(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let text = url.as_str();
    match url.path() {
        "/" => text.strip_suffix('/').unwrap_or(text).to_owned(),
        _ => text.to_owned(),
    }
}

//! From a challenge to who gives tokens: the document about the server, and the metadata of its authorization server.

use bytes::Bytes;
use config::is_loopback;
use http::{Request, StatusCode, header};
use serde::{Deserialize, de::DeserializeOwned};
use upstream::egress::{self, Client, Destination, EgressError, Named, Refusal, SecretPlace};
use url::Url;

use super::{challenge::Challenge, error::LoginError};

/// Where the document about a server is, its own path behind.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The largest document that is read, in bytes.
const DOCUMENT_BYTES: usize = 64 * 1024;

/// Where a login may lead: what the user named, the public internet, and this machine if the server is on it.
pub(super) struct Reach {
    client: Client,
    named: Named,
    here: bool,
}

/// The document about a server (RFC 9728).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Protected {
    /// What its tokens are for.
    pub(super) resource: String,
    pub(super) issuers: Vec<String>,
    pub(super) scopes: Vec<String>,
}

/// An authorization server (RFC 8414).
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) issuer: String,
    pub(super) authorization: Url,
    pub(super) token: Destination,
    pub(super) registration: Option<Destination>,
    pub(super) revocation: Option<Destination>,
    /// It says who it is in every answer (RFC 9207).
    pub(super) says_issuer: bool,
    /// `offline_access` is a scope of it.
    pub(super) has_offline: bool,
    /// Where it wants to be shown a client's secret.
    pub(super) secret: SecretPlace,
}

#[derive(Deserialize)]
struct Document {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Reach {
    /// For a server, and an issuer that the user named too.
    pub(super) fn new(endpoint: &Url, issuer: Option<&Url>) -> Result<Reach, LoginError> {
        let client =
            Client::new(None).map_err(|why| LoginError::Machine(format!("no authority to trust: {why}")))?;
        let named = Named::of([endpoint].into_iter().chain(issuer));
        Ok(Reach { client, named, here: is_loopback(endpoint) })
    }

    /// Looks at a URL that somebody else wrote (spec A-27).
    pub(super) fn to(&self, text: &str) -> Result<Destination, Refusal> {
        match Url::parse(text) {
            Ok(url) if self.here && is_loopback(&url) && matches!(url.scheme(), "http" | "https") => {
                Ok(Destination::written(url))
            }
            Ok(_) | Err(_) => egress::check(text, &self.named),
        }
    }

    /// Sends one request; redirects are answers like others.
    pub(super) async fn fetch(
        &self,
        to: &Destination,
        request: Request<Bytes>,
    ) -> Result<(StatusCode, Bytes), EgressError> {
        let answer = self.client.fetch(to, request).await?;
        match answer.body().len() {
            0..=DOCUMENT_BYTES => Ok((answer.status(), answer.into_body())),
            _ => Err(EgressError::TooLarge),
        }
    }

    /// The document there; none where nothing that can be read is.
    async fn document<T: DeserializeOwned>(
        &self,
        what: &'static str,
        place: &str,
    ) -> Result<Option<T>, LoginError> {
        let unreadable = |why: String| LoginError::Unreadable(what, why);
        let to = self.to(place).map_err(|why| unreadable(format!("`{place}`: {why}")))?;
        let request = Request::get("/").header(header::ACCEPT, "application/json").body(Bytes::new());
        let request = request.map_err(|why| unreadable(why.to_string()))?;
        match self.fetch(&to, request).await {
            Ok((StatusCode::OK, body)) => Ok(serde_json::from_slice(&body).ok()),
            Ok(_) => Ok(None),
            Err(why) => Err(unreadable(format!("`{place}`: {why}"))),
        }
    }
}

/// Reads what the server says of itself, where the challenge says, else at its well-known places (spec A-16).
pub(super) async fn protected(
    reach: &Reach,
    endpoint: &Url,
    challenge: &Challenge,
) -> Result<Protected, LoginError> {
    const WHAT: &str = "the document about the server";
    let places = match &challenge.resource_metadata {
        Some(place) => vec![place.clone()],
        None => document_places(endpoint),
    };
    for place in &places {
        let Some(document) = reach.document::<Document>(WHAT, place).await? else { continue };
        if !is_about(&document.resource, endpoint, place) {
            return Err(LoginError::OtherResource(document.resource));
        }
        let (issuers, scopes) = (document.authorization_servers, document.scopes_supported);
        if issuers.is_empty() {
            return Err(LoginError::NotOffered);
        }
        return Ok(Protected { resource: canonical(&document.resource), issuers, scopes });
    }
    match &challenge.resource_metadata {
        Some(place) => Err(LoginError::Unreadable(WHAT, format!("`{place}` holds none"))),
        None => Err(LoginError::NotOffered),
    }
}

/// With the path of the server first, then at the root.
fn document_places(endpoint: &Url) -> Vec<String> {
    let mut paths =
        vec![format!("{WELL_KNOWN}{}", endpoint.path().trim_end_matches('/')), WELL_KNOWN.to_owned()];
    paths.dedup();
    let at = |path: String| {
        let mut url = endpoint.clone();
        url.set_path(&path);
        url.set_query(None);
        url.set_fragment(None);
        url.to_string()
    };
    paths.into_iter().map(at).collect()
}

/// A server may speak for its URL (spec A-17). For all of its origin speaks only the document at the root: whoever has a path
/// there is not the others.
fn is_about(resource: &str, endpoint: &Url, place: &str) -> bool {
    let Ok(url) = Url::parse(resource) else { return false };
    let is_root = Url::parse(place).is_ok_and(|place| {
        place.origin() == endpoint.origin() && place.path() == WELL_KNOWN && place.query().is_none()
    });
    let is_origin = url.origin() == endpoint.origin() && url.path() == "/" && url.query().is_none();
    (is_root && is_origin) || canonical(url.as_str()) == canonical(endpoint.as_str())
}

/// Without a fragment and a needless final slash (spec A-23).
fn canonical(resource: &str) -> String {
    let Ok(mut url) = Url::parse(resource) else { return resource.to_owned() };
    url.set_fragment(None);
    let text = url.as_str();
    text.strip_suffix('/').unwrap_or(text).to_owned()
}

/// Reads the metadata of an issuer, from the first of its places that has some (spec A-16).
pub(super) async fn authority(reach: &Reach, issuer: &str) -> Result<Authority, LoginError> {
    const WHAT: &str = "the metadata of the authorization server";
    let unreadable = |why: String| LoginError::Unreadable(WHAT, why);
    let url = reach.to(issuer).map_err(|why| unreadable(format!("`{issuer}`: {why}")))?;
    for place in egress::metadata_places(url.url()) {
        let Some(metadata) = reach.document::<Metadata>(WHAT, place.as_str()).await? else { continue };
        // Not a letter may differ (spec A-17).
        if metadata.issuer != issuer {
            return Err(LoginError::OtherIssuer(issuer.to_owned()));
        }
        return usable(reach, metadata);
    }
    Err(unreadable(format!("`{issuer}` has none")))
}

fn usable(reach: &Reach, metadata: Metadata) -> Result<Authority, LoginError> {
    let leads = |what: &'static str, text: Option<String>| {
        let to = text.map(|text| {
            reach.to(&text).map_err(|why| LoginError::Unreadable(what, format!("`{text}`: {why}")))
        });
        to.transpose()
    };
    let missing = |what: &'static str| LoginError::Unreadable(what, "the metadata name none".to_owned());
    // Without it, whoever sees a code can use it (spec A-22).
    if !metadata.code_challenge_methods_supported.iter().any(|method| method == "S256") {
        return Err(LoginError::NoPkce(metadata.issuer));
    }
    const AUTHORIZATION: &str = "where the authorization server lets log in";
    const TOKEN: &str = "where the authorization server gives tokens";
    let authorization = leads(AUTHORIZATION, metadata.authorization_endpoint)?;
    let token = leads(TOKEN, metadata.token_endpoint)?;
    let secret = SecretPlace::of(metadata.token_endpoint_auth_methods_supported.as_deref());
    Ok(Authority {
        issuer: metadata.issuer,
        authorization: authorization.ok_or_else(|| missing(AUTHORIZATION))?.url().clone(),
        token: token.ok_or_else(|| missing(TOKEN))?,
        registration: leads("where clients register", metadata.registration_endpoint)?,
        // A token is given up all the same where that leads nowhere.
        revocation: leads("where tokens are revoked", metadata.revocation_endpoint).unwrap_or_default(),
        says_issuer: metadata.authorization_response_iss_parameter_supported,
        has_offline: metadata.scopes_supported.iter().any(|scope| scope == OFFLINE),
        secret,
    })
}

/// The scope that asks for a refresh token.
pub(super) const OFFLINE: &str = "offline_access";

/// The scopes to ask for: those of the challenge, else all that the server knows, else none (spec A-25). A refresh token
/// is asked for where the authorization server knows how (spec A-26).
pub(super) fn scopes(challenged: &[String], supported: &[String], authority: &Authority) -> Vec<String> {
    let wanted = if challenged.is_empty() { supported } else { challenged };
    let offline = authority.has_offline.then(|| OFFLINE.to_owned());
    let mut scopes: Vec<String> = Vec::new();
    for scope in wanted.iter().filter(|scope| *scope != OFFLINE).cloned().chain(offline) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn the_document_is_looked_for_with_the_path_and_then_at_the_root() {
        const WELL_KNOWN: &str = "https://h/.well-known/oauth-protected-resource";
        let with_path = format!("{WELL_KNOWN}/t/a/mcp");
        assert_eq!(document_places(&url("https://h/t/a/mcp?x=1#y")), [&with_path, WELL_KNOWN]);
        assert_eq!(document_places(&url("https://h")), [WELL_KNOWN]);
    }

    #[test]
    fn a_document_is_about_the_url_or_its_whole_origin() {
        for (resource, endpoint, fits) in [
            ("https://h/mcp", "https://h/mcp", true),
            ("https://H:443/mcp/", "https://h/mcp", true),
            ("https://h", "https://h/mcp", true),
            ("https://h/", "https://h", true),
            ("https://h/mcp", "https://h/mcp/a", false),
            ("https://h/mcp/a", "https://h/mcp", false),
            ("https://h/MCP", "https://h/mcp", false),
            ("http://h/mcp", "https://h/mcp", false),
            ("https://h:8443/mcp", "https://h/mcp", false),
            ("https://other/mcp", "https://h/mcp", false),
            ("https://h.other", "https://h/mcp", false),
            ("h/mcp", "https://h/mcp", false),
            ("", "https://h/mcp", false),
        ] {
            let root = "https://h/.well-known/oauth-protected-resource";
            assert_eq!(is_about(resource, &url(endpoint), root), fits, "{resource} {endpoint}");
        }
        // Nobody else may speak for the origin.
        for place in [
            "https://h/.well-known/oauth-protected-resource/mcp",
            "https://h/.well-known/oauth-protected-resource?x",
            "https://other/.well-known/oauth-protected-resource",
            "https://h/evil",
        ] {
            assert!(!is_about("https://h", &url("https://h/mcp"), place), "{place}");
            assert!(is_about("https://h/mcp", &url("https://h/mcp"), place), "{place}");
        }
        for (text, expected) in [
            ("https://h/", "https://h"),
            ("https://h/mcp#x", "https://h/mcp"),
            ("https://h/a/", "https://h/a"),
        ] {
            assert_eq!(canonical(text), expected);
        }
    }

    fn metadata(more: serde_json::Value) -> Metadata {
        let mut document = serde_json::json!({
            "issuer": "https://as.example.com",
            "authorization_endpoint": "https://as.example.com/authorize",
            "token_endpoint": "https://as.example.com/token",
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        let members = more.as_object().unwrap().clone();
        document.as_object_mut().unwrap().extend(members);
        serde_json::from_value(document).unwrap()
    }

    fn usable_at(endpoint: &str, more: serde_json::Value) -> Result<Authority, LoginError> {
        usable(&Reach::new(&url(endpoint), None).unwrap(), metadata(more))
    }

    #[test]
    fn an_authorization_server_must_protect_codes_and_lead_where_we_go() {
        use serde_json::json;
        let at = |more| usable_at("https://mcp.example.com/mcp", more);
        let good = at(json!({
            "scopes_supported": ["openid", "offline_access"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            "authorization_response_iss_parameter_supported": true,
            "revocation_endpoint": "http://10.0.0.1/revoke",
        }))
        .unwrap();
        assert!(
            good.has_offline
                && good.secret == SecretPlace::Form
                && good.says_issuer
                && good.revocation.is_none()
        );
        let plain = at(json!({})).unwrap();
        assert!(!plain.has_offline && plain.secret == SecretPlace::Header && !plain.says_issuer);
        for methods in [json!([]), json!(["plain"]), json!(["s256"])] {
            let refused = at(json!({ "code_challenge_methods_supported": methods })).unwrap_err();
            assert!(matches!(refused, LoginError::NoPkce(_)), "{refused}");
        }
        for (member, leads) in [
            ("token_endpoint", json!("http://as.example.com/token")),
            ("token_endpoint", json!("https://169.254.169.254/token")),
            ("token_endpoint", json!(null)),
            ("authorization_endpoint", json!("javascript:alert(1)")),
            ("authorization_endpoint", json!("file:///etc/passwd")),
            ("authorization_endpoint", json!("http://127.0.0.1/authorize")),
            ("authorization_endpoint", json!(null)),
            ("registration_endpoint", json!("https://user@as.example.com/")),
        ] {
            let refused = at(json!({ member: leads })).unwrap_err();
            assert!(matches!(refused, LoginError::Unreadable(..)), "{member} {leads}: {refused}");
        }
    }

    #[test]
    fn this_machine_is_gone_to_only_from_itself() {
        let local = serde_json::json!({ "token_endpoint": "http://127.0.0.1:9000/token" });
        assert!(usable_at("http://localhost:7420/mcp", local.clone()).is_ok());
        assert!(usable_at("https://mcp.example.com/mcp", local).is_err());
        let private = serde_json::json!({ "token_endpoint": "http://192.168.1.1/token" });
        assert!(usable_at("http://localhost:7420/mcp", private).is_err());
    }

    #[test]
    fn the_scopes_of_the_challenge_come_first() {
        let with = |offline| {
            let supported: &[&str] = if offline { &["offline_access"] } else { &[] };
            usable_at("https://h.example.com/mcp", serde_json::json!({ "scopes_supported": supported }))
                .unwrap()
        };
        let list = |words: &str| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (challenged, supported, offline, expected) in [
            ("a b", "c", false, "a b"),
            ("a b a", "c", true, "a b offline_access"),
            ("", "c d", false, "c d"),
            ("", "", false, ""),
            ("", "", true, "offline_access"),
            // Not even when the server asks for it.
            ("a offline_access", "", false, "a"),
            ("a offline_access", "", true, "a offline_access"),
        ] {
            let chosen = scopes(&list(challenged), &list(supported), &with(offline));
            assert_eq!(chosen, list(expected), "{challenged:?} {supported:?} {offline}");
        }
    }
}

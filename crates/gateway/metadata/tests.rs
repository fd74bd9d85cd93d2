//! What strangers are told, by endpoint.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use config::{Config, Files, Identity, Issuer, IssuerClaims, JwksSource, TokenProof};

use super::{Addresses, Signposts, endpoint_url, same_audience};
use crate::{
    arrival::{Endpoint, Transport},
    error::AuthnError,
};

struct Memory;

impl Files for Memory {
    fn condition(&self, _text: &str, _about: &[config::Subject]) -> Result<(), Vec<config::Flaw>> {
        Ok(())
    }

    fn read(&self, path: &Path) -> std::io::Result<String> {
        Ok(match path.to_str() {
            Some("/p.yaml") => "tenants: t.yaml\nstate_dir: /nowhere\n",
            _ => "tenant: acme\nupstreams:\n  files: { command: npx }\n",
        }
        .to_owned())
    }

    fn matching(&self, pattern: &Path) -> std::io::Result<Vec<PathBuf>> {
        Ok(vec![pattern.to_owned()])
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn secret(&self, _: &str) -> Option<String> {
        None
    }

    fn program(&self, _: &str, _: Option<&Path>) -> Option<PathBuf> {
        Some("/usr/bin/npx".into())
    }
}

/// Tenants with the issuers each trusts.
fn config(public_url: Option<&str>, tenants: &[(&str, &[&str])]) -> Config {
    let mut config = config::load(Path::new("/p.yaml"), &Memory).unwrap().config;
    config.public_url = public_url.map(|url| url.parse().unwrap());
    let tenant = config.tenants[0].clone();
    let issuer = |name: &&str| Issuer {
        issuer: (*name).into(),
        proof: TokenProof::Keys(JwksSource::File("/jwks".into())),
        audience: None,
        algorithms: vec![],
        leeway: Duration::from_secs(30),
        hierarchy: Vec::new(),
        claims: IssuerClaims::default(),
        required_scopes: Vec::new(),
        scopes: ["acme:read", "acme:list", "acme:read", "offline_access", "*", "a b", "x\"y"]
            .map(str::to_owned)
            .to_vec(),
    };
    config.tenants = tenants
        .iter()
        .map(|(name, issuers)| {
            let issuers = issuers.iter().map(issuer).collect();
            let identity = Some(Identity { issuers, keys: true, local: true });
            config::Tenant { name: (*name).into(), identity, ..tenant.clone() }
        })
        .collect();
    config
}

fn endpoint(tenant: &str, server: &str) -> Endpoint {
    let some = |text: &str| Some(Box::from(text)).filter(|_| !text.is_empty());
    Endpoint { tenant: some(tenant), server: some(server), ..Endpoint::default() }
}

const GW: Option<&str> = Some("https://gw.example");
const ACME: (&str, &[&str]) = ("acme", &["https://id.example"]);

#[test]
fn a_challenge_says_exactly_what_the_table_says() {
    let signposts = Signposts::new(&config(GW, &[ACME]));
    let document = "https://gw.example/.well-known/oauth-protected-resource/t/acme/mcp";
    let scope = "acme:read acme:list";
    for (error, expected) in [
        (AuthnError::Missing, format!("Bearer resource_metadata=\"{document}\", scope=\"{scope}\"")),
        (
            AuthnError::Refused("expired"),
            format!(
                "Bearer error=\"invalid_token\", error_description=\"expired\", \
                 resource_metadata=\"{document}\", scope=\"{scope}\""
            ),
        ),
        (
            AuthnError::Malformed,
            format!("Bearer error=\"invalid_request\", resource_metadata=\"{document}\""),
        ),
    ] {
        assert_eq!(signposts.challenge(&endpoint("acme", ""), &error).as_deref(), Some(&*expected));
    }
    assert_eq!(signposts.challenge(&endpoint("acme", ""), &AuthnError::NoEndpoint), None);
}

#[test]
fn without_an_issuer_there_is_nowhere_to_go() {
    let signposts = Signposts::new(&config(GW, &[("acme", &[])]));
    for (error, expected) in [
        (AuthnError::Missing, "Bearer"),
        (AuthnError::Refused("invalid"), "Bearer error=\"invalid_token\", error_description=\"invalid\""),
        (AuthnError::Malformed, "Bearer error=\"invalid_request\""),
    ] {
        assert_eq!(signposts.challenge(&endpoint("", ""), &error).as_deref(), Some(expected));
    }
    assert_eq!(signposts.document(&endpoint("", "")), None);
    let named = Signposts::new(&config(GW, &[("acme", &["corporate"])]));
    assert_eq!(named.document(&endpoint("", "")), None, "a name is no place");
}

#[test]
fn the_oldest_transport_has_documents_of_its_own() {
    let signposts = Signposts::new(&config(GW, &[ACME]));
    let by_sse = Endpoint { transport: Transport::Sse, ..endpoint("acme", "docs") };
    assert!(
        signposts.document(&by_sse).unwrap().contains(r#""resource":"https://gw.example/t/acme/sse/docs""#)
    );
    let challenge = signposts.challenge(&by_sse, &AuthnError::Missing).unwrap();
    let document = "https://gw.example/.well-known/oauth-protected-resource/t/acme/sse/docs";
    assert!(challenge.contains(document), "{challenge}");
}

#[test]
fn each_endpoint_has_a_document_of_its_own() {
    let both: (&str, &[&str]) = ("acme", &["https://id.example", "https://sso.example/a\"b"]);
    let one = Signposts::new(&config(GW, &[both]));
    let two = Signposts::new(&config(GW, &[ACME, ("beta", &["https://id.beta.example"])]));
    for (signposts, tenant, server, resource) in [
        (&one, "", "", Some("https://gw.example/mcp")),
        (&one, "", "docs", Some("https://gw.example/mcp/docs")),
        (&one, "acme", "", Some("https://gw.example/t/acme/mcp")),
        (&two, "acme", "docs", Some("https://gw.example/t/acme/mcp/docs")),
        (&two, "", "", None),
        (&two, "nobody", "", None),
        (&two, "acme\"", "", None),
        (&two, "acme", "a b", None),
        (&two, "acme", "..", None),
        (&two, "acme", "a\r\nX: y", None),
    ] {
        let document = signposts.document(&endpoint(tenant, server));
        let document = document.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
        let said = document.as_ref().and_then(|document| document["resource"].as_str());
        assert_eq!(said, resource, "{tenant:?} {server:?}");
        if let Some(document) = &document {
            assert_eq!(document["bearer_methods_supported"], serde_json::json!(["header"]));
            assert_eq!(document["scopes_supported"], serde_json::json!(["acme:read", "acme:list"]));
        }
        let challenge = signposts.challenge(&endpoint(tenant, server), &AuthnError::Missing).unwrap();
        assert!(!challenge.contains(['\r', '\n']), "{challenge:?}");
        assert_eq!(challenge.contains("resource_metadata"), resource.is_some());
    }
    let issuers = one.document(&endpoint("", "")).unwrap();
    let issuers: serde_json::Value = serde_json::from_str(&issuers).unwrap();
    assert_eq!(
        issuers["authorization_servers"],
        serde_json::json!(["https://id.example", "https://sso.example/a\"b"])
    );
}

#[test]
fn the_well_known_part_goes_between_host_and_path() {
    for (public_url, resource, document) in [
        (GW, "https://gw.example/mcp", "https://gw.example/.well-known/oauth-protected-resource/mcp"),
        (
            Some("https://GW.example:8443/edge/"),
            "https://gw.example:8443/edge/mcp",
            "https://gw.example:8443/.well-known/oauth-protected-resource/edge/mcp",
        ),
        (None, "http://127.0.0.1:7420/mcp", "http://127.0.0.1:7420/.well-known/oauth-protected-resource/mcp"),
    ] {
        let config = config(public_url, &[ACME]);
        assert_eq!(endpoint_url(&config, &Endpoint::default()), resource);
        assert_eq!(Addresses::new(&config).document(&Endpoint::default()), document);
    }
}

#[test]
fn audiences_are_equal_but_for_a_slash_and_the_case_of_the_host() {
    for (a, b, same) in [
        ("https://gw.example/mcp", "https://gw.example/mcp", true),
        ("https://gw.example/mcp/", "https://gw.example/mcp", true),
        ("HTTPS://GW.Example/mcp", "https://gw.example/mcp", true),
        ("https://gw.example", "https://gw.example/", true),
        ("https://gw.example/mcp//", "https://gw.example/mcp", false),
        ("https://gw.example/Mcp", "https://gw.example/mcp", false),
        ("https://gw.example/mcp?", "https://gw.example/mcp", false),
        ("https://gw.example/mcp#", "https://gw.example/mcp", false),
        ("http://gw.example/mcp", "https://gw.example/mcp", false),
        ("https://gw.example:443/mcp", "https://gw.example/mcp", false),
        ("https://gw.example./mcp", "https://gw.example/mcp", false),
        ("https://A@gw.example/mcp", "https://a@gw.example/mcp", false),
        ("https://gw.example\\mcp", "https://gw.example/mcp", false),
        ("gw.example/mcp", "https://gw.example/mcp", false),
        ("//gw.example/mcp", "https://gw.example/mcp", false),
        ("api://gw", "API://GW/", true),
        ("client-id", "client-id", true),
        ("Client-Id", "client-id", false),
        ("", "", true),
        ("", "*", false),
        ("é://é", "É://É", false),
    ] {
        assert_eq!(same_audience(a, b), same, "{a} {b}");
        assert_eq!(same_audience(b, a), same, "{b} {a}");
    }
}

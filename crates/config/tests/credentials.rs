//! What proves the gateway to servers, and what does not.

use std::path::PathBuf;

use super::Memory;
use crate::{ClientProof, Credential, Fact, Files as _, Grant, Signing, TokenServer, Transport};

fn upstream(written: &str) -> String {
    format!("tenant: a\nupstreams: {{ github: {{ url: \"https://MCP.acme.example/?key=1\", {written} }} }}\n")
}

fn credential(written: &str) -> Credential {
    let text = upstream(&format!("credential: {written}"));
    let memory = Memory::of(&[("portcullis.yaml", "keepalive: 15s\n"), ("tenants/a.yaml", &text)]);
    match memory.loaded().config.tenants.remove(0).upstreams.remove(0).transport {
        Transport::Http { credential, .. } => *credential,
        Transport::Stdio { .. } => panic!("a server"),
    }
}

fn problems(written: &str) -> Vec<String> {
    let text = upstream(written);
    let memory = Memory::of(&[("portcullis.yaml", "keepalive: 15s\n"), ("tenants/a.yaml", &text)]);
    memory.problems().into_iter().map(|problem| problem.message).collect()
}

fn grant(credential: Credential) -> Grant {
    match credential {
        Credential::Client(grant) | Credential::Exchange { grant, .. } => grant,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_written_as_such_or_left_out() {
    assert_eq!(credential("none"), Credential::None);
}

#[test]
fn headers_have_names_in_lower_case_and_secret_values() {
    let one = credential("{ header: X-Key, value: \"${secret:TOKEN}\" }");
    let several = credential("{ headers: { X-A: \"a ${secret:TOKEN}\", Authorization: \"${WORD}\" } }");
    for (credential, names) in [(one, &["x-key"][..]), (several, &["x-a", "authorization"])] {
        assert!(!format!("{credential:?}").contains("hunter2"));
        let Credential::Headers(headers) = credential else { panic!("headers") };
        let found: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, names);
        assert!(headers.iter().all(|(_, value)| value.expose().contains("hunter2")));
    }
}

#[test]
fn a_client_has_defaults_and_says_what_differs() {
    let plain = grant(credential(
        "{ client: { issuer: \"https://id.acme.example/\", client_id: gate, client_secret: \"${secret:TOKEN}\" } }",
    ));
    assert!(
        matches!(&plain.server, TokenServer::Issuer(written, _) if written == "https://id.acme.example/")
    );
    assert_eq!(plain.resource, "https://mcp.acme.example");
    assert!(matches!(&plain.proof, ClientProof::Secret(secret) if secret.expose() == "hunter2"));
    assert!(plain.scopes.is_empty());
    let keyed = grant(credential(
        "{ client: { token_url: \"http://127.0.0.1:9/token\", client_id: gate, private_key: ../key.pem, key_id: k1, \
         algorithm: EdDSA, scopes: [a, \"b:c\", \"*\"], resource: \"urn:x\" } }",
    ));
    assert!(matches!(&keyed.server, TokenServer::Endpoint(url) if url.port() == Some(9)));
    let key = ClientProof::Key {
        file: PathBuf::from("tenants/../key.pem"),
        id: Some("k1".to_owned()),
        algorithm: Signing::EdDsa,
    };
    assert_eq!(keyed.proof, key);
    assert_eq!((keyed.scopes.join(" ").as_str(), keyed.resource.as_str()), ("a b:c *", "urn:x"));
}

#[test]
fn what_differs_between_principals_is_told_apart() {
    let exchange = "{ exchange: { token_url: \"https://id/token\", client_id: g, client_secret: \"${secret:TOKEN}\", audience: up } }";
    let found = credential(exchange);
    assert!(found.is_for_principals());
    assert!(matches!(&found, Credential::Exchange { audience: Some(audience), .. } if audience == "up"));
    let found = credential("{ principal: { headers: { subject: X-User, groups: X-Groups } } }");
    let headers = vec![(Fact::Subject, "x-user".to_owned()), (Fact::Groups, "x-groups".to_owned())];
    assert_eq!(found, Credential::Principal { headers, sign: true });
    assert!(credential("{ principal: {} }").is_for_principals());
    for own in [
        "exchange: { token_url: \"https://id/token\", client_id: g, client_secret: \"${secret:TOKEN}\" }",
        "principal: {}",
    ] {
        let told = problems(&format!("share: tenant, credential: {{ {own} }}"));
        assert_eq!(told, ["`share: tenant` would show one principal's credential for all others"], "{own}");
        assert!(problems(&format!("share: session, credential: {{ {own} }}")).is_empty(), "{own}");
    }
}

#[test]
fn a_secret_lies_in_the_folder_that_is_named() {
    let text = upstream(
        "credential: { header: X-Key, value: \"${secret:TOKEN}-${secret:github/OWN}-${secret:EMPTIED:-x}\" }",
    );
    let memory = Memory::of(&[
        ("portcullis.yaml", "secrets_dir: keys\n"),
        ("tenants/a.yaml", &text),
        ("keys/TOKEN", "first\n"),
        ("keys/github/OWN", "own"),
    ]);
    let Transport::Http { credential, .. } =
        memory.loaded().config.tenants.remove(0).upstreams.remove(0).transport
    else {
        panic!("a server")
    };
    let Credential::Headers(headers) = *credential else { panic!("headers") };
    assert_eq!(headers[0].1.expose(), "first-own-x");
    assert_eq!(memory.secret("TOKEN").as_deref(), Some("hunter2"), "found where it was, without the folder");
}

//! Keys, tokens and revocations, on a store of their own.

#![expect(clippy::string_slice, reason = "the texts are our own, and ASCII")]

use std::path::Path;

use tempfile::TempDir;

use super::{JwtRequest, KeyRequest, Revocation, Tokens, TokensError, key};
use crate::authn::LIFE;

fn request() -> KeyRequest {
    serde_json::from_str(r#"{"tenant":"acme","name":"laptop","principal":"ada","groups":["ops"],"servers":["docs"],"expires_in":60}"#)
        .unwrap()
}

fn jwt() -> JwtRequest {
    serde_json::from_str(r#"{"tenant":"acme","principal":"ada","audience":"https://gw.example/mcp"}"#)
        .unwrap()
}

async fn open() -> (TempDir, Tokens) {
    let place = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(place.path()).await.unwrap();
    (place, tokens)
}

async fn reopen(place: &Path, tokens: Tokens) -> Tokens {
    tokens.close().await;
    drop(tokens);
    Tokens::open(place).await.unwrap()
}

#[tokio::test]
async fn a_key_outlives_a_restart_and_its_secret_is_nowhere() {
    let (place, tokens) = open().await;
    let new = tokens.create_key(request()).await.unwrap();
    let text = new.key.expose().to_owned();
    assert_eq!(tokens.list_keys().await.unwrap(), std::slice::from_ref(&new.info));
    assert!(!format!("{new:?}").contains(&text));
    let tokens = reopen(place.path(), tokens).await;
    assert_eq!(tokens.list_keys().await.unwrap(), std::slice::from_ref(&new.info));
    let credentials = tokens.known().credentials();
    let known = credentials.key(&new.info.id).unwrap();
    assert_eq!(known.digest, key::read(&text).unwrap().digest);
    assert_eq!(known.expires, Some(new.info.made + 60));
    tokens.close().await;
    let secret = &text[11..54];
    for file in std::fs::read_dir(place.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(memchr_free(&bytes, secret.as_bytes()), "the secret was written");
    }
}

fn memchr_free(bytes: &[u8], text: &[u8]) -> bool {
    !bytes.windows(text.len()).any(|window| window == text)
}

#[tokio::test]
async fn revocations_outlive_a_restart_until_they_are_lifted() {
    let (place, tokens) = open().await;
    let key = tokens.create_key(request()).await.unwrap();
    let principal = |issuer: Option<&str>| Revocation::Principal {
        tenant: "acme".to_owned(),
        principal: "ada".to_owned(),
        issuer: issuer.map(str::to_owned),
    };
    let all = [
        Revocation::Issuer { issuer: "https://id.example".to_owned() },
        principal(None),
        principal(Some("https://id.example")),
        Revocation::jwt("https://id.example", "j1"),
    ];
    for revocation in all.iter().chain(&all) {
        tokens.revoke(revocation.clone()).await.unwrap();
    }
    tokens.revoke(Revocation::Key { id: key.info.id.clone() }).await.unwrap();
    let tokens = reopen(place.path(), tokens).await;
    let mut kept: Vec<_> =
        tokens.list_revocations().await.unwrap().into_iter().map(|(kept, _)| kept).collect();
    kept.sort_by_key(|revocation| all.iter().position(|one| one == revocation));
    assert_eq!(kept, all);
    assert!(tokens.list_keys().await.unwrap()[0].revoked.is_some());
    let credentials = tokens.known().credentials();
    assert!(credentials.key(&key.info.id).unwrap().revoked);
    assert!(credentials.revokes(&credentials.key(&key.info.id).unwrap().principal));
    for revocation in &all {
        tokens.lift(revocation).await.unwrap();
        assert!(matches!(tokens.lift(revocation).await, Err(TokensError::Unknown(_))));
    }
    let tokens = reopen(place.path(), tokens).await;
    assert_eq!(tokens.list_revocations().await.unwrap(), []);
    let credentials = tokens.known().credentials();
    assert!(!credentials.revokes(&credentials.key(&key.info.id).unwrap().principal));
    assert!(credentials.key(&key.info.id).unwrap().revoked, "for good");
}

#[tokio::test]
async fn what_cannot_be_revoked_is_said() {
    let (_place, tokens) = open().await;
    let key = Revocation::Key { id: "abcdef".to_owned() };
    assert!(matches!(tokens.revoke(key.clone()).await, Err(TokensError::Unknown("API key"))));
    assert!(matches!(tokens.lift(&key).await, Err(TokensError::ForGood)));
    for (text, member) in [
        (r#"{"kind":"issuer","issuer":""}"#, "issuer"),
        (r#"{"kind":"token","credential":""}"#, "credential"),
        (r#"{"kind":"principal","tenant":"","principal":"ada"}"#, "tenant"),
        (r#"{"kind":"principal","tenant":"acme","principal":""}"#, "principal"),
        (r#"{"kind":"principal","tenant":"acme","principal":"ada","issuer":""}"#, "issuer"),
    ] {
        let revocation = serde_json::from_str(text).unwrap();
        let error = tokens.revoke(revocation).await.unwrap_err();
        assert!(matches!(error, TokensError::Request { member: of, .. } if of == member), "{text}: {error}");
    }
    assert!(serde_json::from_str::<Revocation>(r#"{"kind":"key","id":"a","more":1}"#).is_err());
    assert_eq!(tokens.list_revocations().await.unwrap(), []);
}

#[tokio::test]
async fn a_request_that_cannot_be_used_makes_nothing() {
    let (_place, tokens) = open().await;
    let bad = |change: &dyn Fn(&mut KeyRequest)| {
        let mut request = request();
        change(&mut request);
        request
    };
    for (request, expected) in [
        (bad(&|r| r.name = String::new()), "name"),
        (bad(&|r| r.tenant = String::new()), "tenant"),
        (bad(&|r| r.principal = "a\nb".to_owned()), "principal"),
        (bad(&|r| r.groups = vec![String::new()]), "groups"),
        (bad(&|r| r.scopes = vec!["a b".to_owned()]), "scopes"),
        (bad(&|r| r.servers = Some(vec![String::new()])), "servers"),
        (bad(&|r| r.expires_in = Some(0)), "expires_in"),
    ] {
        let error = tokens.create_key(request).await.unwrap_err();
        assert!(matches!(error, TokensError::Request { member, .. } if member == expected), "{error}");
    }
    for (request, expected) in [
        (JwtRequest { audience: String::new(), ..jwt() }, "audience"),
        (JwtRequest { principal: String::new(), ..jwt() }, "principal"),
        (JwtRequest { expires_in: Some(0), ..jwt() }, "expires_in"),
        (JwtRequest { expires_in: Some(LIFE + 1), ..jwt() }, "expires_in"),
        (JwtRequest { groups: vec!["g".repeat(200); 60], ..jwt() }, "groups"),
    ] {
        let error = tokens.mint_jwt(request).await.unwrap_err();
        assert!(matches!(error, TokensError::Request { member, .. } if member == expected), "{error}");
    }
    assert_eq!(tokens.list_keys().await.unwrap(), []);
}

#[tokio::test]
async fn the_signing_key_is_made_with_the_first_token_and_stays() {
    let (place, tokens) = open().await;
    assert!(tokens.known().local().is_none());
    let first = tokens.mint_jwt(jwt()).await.unwrap();
    let tokens = reopen(place.path(), tokens).await;
    let second = tokens.mint_jwt(jwt()).await.unwrap();
    let header = |token: &str| token.split('.').next().unwrap().to_owned();
    assert_eq!(header(first.token.expose()), header(second.token.expose()), "the same key");
    assert_ne!(first.credential, second.credential);
    assert!(!format!("{second:?} {:?}", tokens.known().local()).contains(second.token.expose()));
}

#[tokio::test]
async fn a_gateway_that_runs_keeps_the_directory_to_itself() {
    let (place, tokens) = open().await;
    let error = Tokens::open(place.path()).await.err().unwrap();
    assert!(matches!(error, TokensError::Store(crate::store::StoreError::InUse { .. })), "{error}");
    tokens.close().await;
}

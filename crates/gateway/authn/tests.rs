//! Who is let in and who is not. Keys are made here and thrown away; the time is an argument.

#![expect(clippy::string_slice, reason = "the texts are our own, and ASCII")]

mod asked;
mod hostile;
mod idp;
mod mint;
mod place;
mod realms;

use std::{sync::Arc, time::Duration};

use config::Algorithm;
use serde_json::json;

use crate::{
    arrival::Endpoint,
    error::AuthnError,
    tokens::{JwtRequest, KeyRequest, Revocation},
};
use mint::{DROP, Signer, token, token_at};
use place::{BETA_ISSUER, ISSUER, Place, endpoint, head, head_with};

use super::{Flaw, LIFE, now};

/// What the issuers of these tests are allowed.
const LEEWAY: u64 = 30;

/// What the asker is told.
fn told(flaw: Flaw) -> AuthnError {
    flaw.told()
}

#[tokio::test]
async fn tokens_of_a_trusted_issuer_are_let_in() {
    let place = Place::new().await;
    let now = now();
    for (signer, patch) in [
        (Signer::Rsa1("RS256"), json!({})),
        (Signer::Rsa2("RS256"), json!({})),
        (Signer::Rsa1("PS256"), json!({})),
        (Signer::P256, json!({})),
        (Signer::P384, json!({})),
        (Signer::Ed25519, json!({})),
        (Signer::Ed25519, json!({"aud": ["https://other.example", "https://gw.example/t/acme/mcp"]})),
        (Signer::Ed25519, json!({"aud": "HTTPS://GW.example/t/acme/mcp/"})),
        (Signer::Ed25519, json!({"custom": {"a": [1, 2, null]}, "tenant": "beta"})),
        (Signer::Ed25519, json!({"exp": now - 10})),
        (Signer::Ed25519, json!({"nbf": now + 10, "iat": now + 10})),
        (Signer::Ed25519, json!({"exp": now as f64 + 60.5})),
        (Signer::Ed25519, json!({"iat": DROP, "nbf": DROP, "jti": DROP})),
        (Signer::Ed25519, json!({"sub": "beta:b1"})),
        (Signer::Ed25519, json!({"token_use": "access", "typ": "Bearer"})),
    ] {
        let token =
            token_at(now, signer, json!({"x-trace": "1", "jku": "https://evil.example"}), patch.clone());
        let principal = place
            .judge("/t/acme/mcp", &token, now)
            .unwrap_or_else(|flaw| panic!("{signer:?} {patch}: {flaw}"));
        assert_eq!((&**principal.tenant.name(), &*principal.issuer), ("acme", ISSUER));
    }
}

#[tokio::test]
async fn tokens_of_an_independent_implementation_are_understood() {
    let peer: serde_json::Value = serde_json::from_str(include_str!("tests/peer.json")).unwrap();
    let place = Place::with("https://id.example", &peer["jwks"].to_string(), |_| ()).await;
    for (algorithm, token) in peer["tokens"].as_object().unwrap() {
        let token = token.as_str().unwrap();
        let done = place.judge("/mcp", token, 1_700_000_000);
        assert_eq!(done.map(|principal| principal.subject.to_string()), Ok("ada".to_owned()), "{algorithm}");
        assert_eq!(place.judge("/mcp", token, 1_700_003_600 + LEEWAY), Err(Flaw::Expired), "{algorithm}");
    }
    assert_eq!(peer["tokens"].as_object().unwrap().len(), 9);
}

#[tokio::test]
async fn a_principal_is_what_its_token_says() {
    let place = Place::with(ISSUER, &mint::jwks(), |issuer| {
        issuer.claims.principal = "email".to_owned();
        issuer.claims.groups = "https://acme.example/groups".to_owned();
    })
    .await;
    let claims = json!({
        "email": "ada@acme.example",
        "https://acme.example/groups": ["engineering", "leads"],
        "scope": "mcp:list  mcp:call *",
        "aud": "https://gw.example/mcp",
    });
    let principal = place.judge("/mcp", &token(Signer::Ed25519, json!({}), claims), now()).unwrap();
    assert_eq!(&*principal.subject, "ada@acme.example");
    assert_eq!(*principal.groups, ["engineering".into(), "leads".into()]);
    assert_eq!(*principal.scopes, ["mcp:list".into(), "mcp:call".into(), "*".into()]);
    assert!(principal.credential.starts_with("jwt:") && principal.credential.len() == 36);
    for claims in
        [json!({"aud": "https://gw.example/mcp"}), json!({"aud": "https://gw.example/mcp", "email": 7})]
    {
        let done = place.judge("/mcp", &token(Signer::Ed25519, json!({}), claims), now());
        assert_eq!(done, Err(Flaw::Claim("principal")));
    }
    for scope in [json!(["mcp:list", "mcp:call"]), json!("mcp:list mcp:call")] {
        let claims = json!({"scp": scope, "scope": DROP, "email": "a", "aud": "https://gw.example/mcp"});
        let principal = place.judge("/mcp", &token(Signer::Ed25519, json!({}), claims), now()).unwrap();
        assert_eq!(*principal.scopes, ["mcp:list".into(), "mcp:call".into()]);
    }
}

#[tokio::test]
async fn time_bites_to_the_second_also_for_a_token_that_was_seen_before() {
    let place = Place::new().await;
    let now = now();
    let token = token_at(now, Signer::Ed25519, json!({}), json!({"exp": now + 60, "nbf": now + 5}));
    let judge = |at: u64| place.judge("/t/acme/mcp", &token, at).map(|_| ());
    assert_eq!(judge(now + 5 - LEEWAY - 1), Err(Flaw::Early));
    for at in [now + 5 - LEEWAY, now, now + 60, now + 60 + LEEWAY - 1] {
        assert_eq!(judge(at), Ok(()), "{at}");
    }
    assert_eq!(place.remembered(), 1);
    assert_eq!(judge(now + 60 + LEEWAY), Err(Flaw::Expired));
    assert_eq!(place.remembered(), 0);
    assert_eq!(judge(u64::MAX), Err(Flaw::Expired));
    let long = token_at(now, Signer::Ed25519, json!({}), json!({"exp": now + LIFE - 5}));
    assert!(place.judge("/t/acme/mcp", &long, now).is_ok());
}

#[tokio::test]
async fn an_audience_is_one_endpoint_unless_the_operator_names_another() {
    let place = Place::new().await;
    let at = |audience: &str| token(Signer::Ed25519, json!({}), json!({"aud": audience}));
    let server = at("https://gw.example/t/acme/mcp/docs");
    assert!(place.judge("/t/acme/mcp/docs", &server, now()).is_ok());
    for path in ["/t/acme/mcp", "/t/acme/mcp/other", "/t/acme/mcp/Docs"] {
        assert_eq!(place.judge(path, &server, now()), Err(Flaw::Audience), "{path}");
    }
    // By the oldest transport it is the same virtual server; what was issued for that is good for nothing else.
    let by_sse = at("https://gw.example/t/acme/sse/docs");
    assert!([&server, &by_sse].iter().all(|token| place.judge("/t/acme/sse/docs", token, now()).is_ok()));
    for (path, token) in [("/t/acme/mcp/docs", &by_sse), ("/t/acme/sse", &by_sse), ("/t/acme/sse", &server)] {
        assert_eq!(place.judge(path, token, now()), Err(Flaw::Audience), "{path}");
    }
    let place =
        Place::with(ISSUER, &mint::jwks(), |issuer| issuer.audience = Some("api://gw".to_owned())).await;
    for path in ["/mcp", "/t/acme/mcp", "/mcp/docs"] {
        assert!(place.judge(path, &at("api://gw"), now()).is_ok(), "{path}");
        assert_eq!(place.judge(path, &at("https://gw.example/mcp"), now()), Err(Flaw::Audience), "{path}");
    }
}

#[tokio::test]
async fn an_issuer_speaks_for_its_own_tenant_only() {
    let place = Place::new().await;
    let acme =
        |path: &str| token(Signer::Ed25519, json!({}), json!({"aud": format!("https://gw.example{path}")}));
    for (path, expected) in [
        ("/t/acme/mcp", Ok(())),
        ("/t/beta/mcp", Err(Flaw::Tenant)),
        ("/t/nobody/mcp", Err(Flaw::Tenant)),
        ("/mcp", Err(Flaw::Tenant)),
    ] {
        assert_eq!(place.judge(path, &acme(path), now()).map(|_| ()), expected, "{path}");
    }
    let stolen = json!({"iss": BETA_ISSUER, "aud": "https://gw.example/t/beta/mcp"});
    let done = place.judge("/t/beta/mcp", &token(Signer::Rsa1("RS256"), json!({}), stolen), now());
    assert_eq!(done, Err(Flaw::UnknownKey));
    // No oracle: a tenant that is somebody else's and one that does not exist look alike.
    assert!(matches!(told(Flaw::Tenant), AuthnError::Refused("invalid")));
}

#[tokio::test]
async fn an_api_key_proves_its_principal_in_its_tenant() {
    let place = Place::new().await;
    let request =
        KeyRequest { scopes: vec!["a:b".into()], groups: vec!["ops".into()], ..place::request("acme") };
    let key = place.tokens.create_key(request).await.unwrap();
    for path in ["/mcp", "/t/acme/mcp", "/mcp/docs"] {
        let principal = place.judge(path, key.key.expose(), now()).unwrap();
        assert_eq!((&**principal.tenant.name(), &*principal.subject), ("acme", "ada"));
        assert_eq!(
            (&*principal.issuer, &*principal.credential),
            ("portcullis", &*format!("key:{}", key.info.id))
        );
        assert_eq!((&*principal.groups, &*principal.scopes), (&["ops".into()][..], &["a:b".into()][..]));
    }
    assert_eq!(place.judge("/t/beta/mcp", key.key.expose(), now()), Err(Flaw::Tenant));
    let gone = place.tokens.create_key(place::request("gone")).await.unwrap();
    assert_eq!(place.judge("/mcp", gone.key.expose(), now()), Err(Flaw::Tenant));
    let closed = place.tokens.create_key(place::request("closed")).await.unwrap();
    assert_eq!(place.judge("/mcp", closed.key.expose(), now()), Err(Flaw::Tenant));
}

#[tokio::test]
async fn a_key_that_is_not_quite_one_of_ours_is_none() {
    let place = Place::new().await;
    let key = place.tokens.create_key(place::request("acme")).await.unwrap();
    let text = key.key.expose();
    // Another secret, another id, each with a checksum that is right.
    let other = crate::tokens::key::make().unwrap();
    let mixed = crate::tokens::key::with_id_of(&other, text);
    for wrong in [other.as_str(), mixed.as_str(), "pck_", "pck_aaaaaa_b", &text[..59], &text.to_lowercase()] {
        assert_eq!(place.judge("/mcp", wrong, now()), Err(Flaw::Key));
    }
    assert!(place.judge("/mcp", text, now()).is_ok());
}

#[tokio::test]
async fn a_key_for_some_virtual_servers_finds_no_others() {
    let place = Place::new().await;
    let request = KeyRequest { servers: Some(vec!["docs".into()]), ..place::request("acme") };
    let docs = place.tokens.create_key(request).await.unwrap();
    let request = KeyRequest { servers: Some(vec!["default".into()]), ..place::request("acme") };
    let usual = place.tokens.create_key(request).await.unwrap();
    for (key, path, expected) in [
        (&docs, "/mcp/docs", Ok(())),
        (&docs, "/t/acme/mcp/docs", Ok(())),
        (&docs, "/mcp", Err(Flaw::Server)),
        (&docs, "/mcp/nothing", Err(Flaw::Server)),
        (&usual, "/mcp", Ok(())),
        (&usual, "/mcp/default", Ok(())),
        (&usual, "/mcp/docs", Err(Flaw::Server)),
    ] {
        assert_eq!(place.judge(path, key.key.expose(), now()).map(|_| ()), expected, "{path}");
    }
    assert!(matches!(told(Flaw::Server), AuthnError::NoEndpoint));
}

#[tokio::test]
async fn keys_expire() {
    let place = Place::new().await;
    let request = KeyRequest { expires_in: Some(60), ..place::request("acme") };
    let key = place.tokens.create_key(request).await.unwrap();
    let expires = key.info.expires.unwrap();
    assert!(place.judge("/mcp", key.key.expose(), expires - 1).is_ok());
    assert_eq!(place.judge("/mcp", key.key.expose(), expires), Err(Flaw::Expired));
}

#[tokio::test]
async fn tokens_of_our_own_work_for_one_endpoint_of_one_tenant() {
    let place = Place::new().await;
    let request = |tenant: &str, audience: &str| JwtRequest {
        tenant: tenant.to_owned(),
        principal: "ada".to_owned(),
        audience: audience.to_owned(),
        groups: vec!["ops".to_owned()],
        scopes: vec!["a:b".to_owned(), "c".to_owned()],
        expires_in: Some(60),
    };
    let ours = token(Signer::Ed25519, json!({}), json!({"iss": "portcullis", "tenant": "acme"}));
    assert_eq!(place.judge("/t/acme/mcp", &ours, now()), Err(Flaw::NoKeys), "before there is a key");

    let minted = place.tokens.mint_jwt(request("acme", "https://gw.example/mcp")).await.unwrap();
    let principal = place.judge("/mcp", minted.token.expose(), now()).unwrap();
    assert_eq!((&**principal.tenant.name(), &*principal.subject), ("acme", "ada"));
    assert_eq!((&*principal.issuer, &*principal.credential), ("portcullis", &*minted.credential));
    assert_eq!((principal.groups.len(), principal.scopes.len()), (1, 2));
    assert_eq!(place.judge("/t/acme/mcp", minted.token.expose(), now()), Err(Flaw::Audience));
    assert_eq!(place.judge("/mcp", minted.token.expose(), minted.expires + LEEWAY), Err(Flaw::Expired));

    for tenant in ["closed", "gone"] {
        let minted = place.tokens.mint_jwt(request(tenant, "https://gw.example/mcp")).await.unwrap();
        assert_eq!(place.judge("/mcp", minted.token.expose(), now()), Err(Flaw::Tenant), "{tenant}");
    }
    assert_eq!(place.judge("/t/acme/mcp", &ours, now()), Err(Flaw::UnknownKey), "signed by another");
}

#[tokio::test]
async fn a_revocation_bites_on_the_next_message_and_can_be_lifted() {
    let place = Place::new().await;
    let jwt = token(Signer::Ed25519, json!({}), json!({"jti": "j1"}));
    let key = place.tokens.create_key(place::request("acme")).await.unwrap();
    let jwt_stands = || place.judge("/t/acme/mcp", &jwt, now()).is_ok();
    let key_stands = || place.judge("/mcp", key.key.expose(), now()).is_ok();
    let principal = |name: &str, issuer: Option<&str>| Revocation::Principal {
        tenant: "acme".to_owned(),
        principal: name.to_owned(),
        issuer: issuer.map(str::to_owned),
    };
    for (revocation, jwt_left, key_left) in [
        (Revocation::jwt(ISSUER, "j1"), false, true),
        (Revocation::jwt(ISSUER, "j2"), true, true),
        (Revocation::jwt(BETA_ISSUER, "j1"), true, true),
        (Revocation::Issuer { issuer: ISSUER.to_owned() }, false, true),
        (Revocation::Issuer { issuer: "portcullis".to_owned() }, true, false),
        (principal("ada", None), false, false),
        (principal("ada", Some(ISSUER)), false, true),
        (principal("ada", Some("portcullis")), true, false),
        (principal("bob", None), true, true),
    ] {
        // Seen and remembered before.
        assert!(jwt_stands() && key_stands());
        place.tokens.revoke(revocation.clone()).await.unwrap();
        assert_eq!((jwt_stands(), key_stands()), (jwt_left, key_left), "{revocation:?}");
        place.tokens.lift(&revocation).await.unwrap();
    }
    assert!(jwt_stands() && key_stands());
    place.tokens.revoke(Revocation::Key { id: key.info.id.clone() }).await.unwrap();
    assert_eq!(place.judge("/mcp", key.key.expose(), now()), Err(Flaw::Revoked));
    assert!(matches!(told(Flaw::Revoked), AuthnError::Refused("revoked")));
}

#[tokio::test]
async fn a_key_the_issuer_withdrew_takes_remembered_tokens_along() {
    let place = Place::new().await;
    let jwt = token(Signer::Rsa1("RS256"), json!({}), json!({}));
    assert!(place.judge("/t/acme/mcp", &jwt, now()).is_ok());
    place.publish(&mint::jwks_without("rsa1"));
    assert_eq!(place.judge("/t/acme/mcp", &jwt, now()), Err(Flaw::UnknownKey));
    place.publish(&mint::jwks());
    assert!(place.judge("/t/acme/mcp", &jwt, now()).is_ok());
}

#[tokio::test]
async fn a_token_with_a_new_key_waits_once_for_the_keys_to_be_read_again() {
    let place = Place::with(ISSUER, &mint::jwks_without("ed25519"), |_| ()).await;
    // From here on nothing is waited for but the disk.
    tokio::time::pause();
    let watches: Vec<_> = place.authn.key_sets().into_iter().map(|keys| tokio::spawn(keys.watch())).collect();
    let head =
        head_with("/mcp", &token(Signer::Ed25519, json!({}), json!({"aud": "https://gw.example/mcp"})));
    tokio::time::advance(Duration::from_secs(1)).await;
    place.write_keys(&mint::jwks());
    assert!(place.authn.identify(&head).is_err(), "nothing is read for who does not wait");
    // The first reading was a moment ago: until half a minute has passed there is no second.
    while place.authn.identify_fresh(&head).await.is_err() {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(place.authn.identify(&head).is_ok());
    watches.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn only_good_signatures_are_remembered() {
    let place = Place::new().await;
    for number in 0..50 {
        let jwt = token(Signer::Attacker, json!({"kid": "rsa1"}), json!({"jti": number.to_string()}));
        assert_eq!(place.judge("/t/acme/mcp", &jwt, now()), Err(Flaw::Signature));
    }
    assert_eq!(place.remembered(), 0);
}

#[tokio::test]
async fn a_stranger_is_told_where_to_ask_and_no_more() {
    let place = Place::new().await;
    let missing = place.authn.identify(&head(endpoint("/t/acme/mcp"), &[])).unwrap_err();
    assert!(matches!(missing, AuthnError::Missing));
    let challenge = place.authn.challenge(&endpoint("/t/acme/mcp"), &missing).unwrap();
    assert_eq!(
        challenge,
        "Bearer resource_metadata=\"https://gw.example/.well-known/oauth-protected-resource/t/acme/mcp\", \
         scope=\"mcp:use\""
    );
    let jwt = token(Signer::Attacker, json!({}), json!({}));
    let refused = place.authn.identify(&head_with("/t/acme/mcp", &jwt)).unwrap_err();
    assert!(matches!(refused, AuthnError::Refused("invalid")), "{refused:?}");
    assert!(place.authn.metadata(&endpoint("/t/acme/mcp")).is_some());
    assert!(!place.authn.is_anonymous());
    assert_eq!(place.authn.keyless_issuers(), Vec::<Arc<str>>::new());
}

#[tokio::test]
async fn without_identity_nothing_is_asked_and_nothing_is_told() {
    let authn = super::Authn::compile(&place::config(false).0, &Arc::default(), None).unwrap();
    assert!(authn.is_anonymous());
    for values in [&[][..], &["Bearer x", "Bearer y"]] {
        let principal = authn.identify(&head(endpoint("/mcp"), values)).unwrap();
        assert!(principal.issuer.is_empty() && principal.credential.is_empty());
        let elsewhere = authn.identify(&head(endpoint("/t/other/mcp"), values)).unwrap_err();
        assert!(matches!(elsewhere, AuthnError::NoEndpoint));
    }
    assert_eq!(authn.challenge(&Endpoint::default(), &AuthnError::Missing), None);
    assert_eq!(authn.metadata(&Endpoint::default()), None);
    assert_eq!(authn.key_sets().len(), 0);
}

#[tokio::test]
async fn a_configuration_that_lets_two_speak_as_one_does_not_start() {
    use super::IdentityError as E;
    let known = Arc::default();
    let start = |change: &dyn Fn(&mut config::Config)| {
        let (mut config, _folder) = place::config(true);
        change(&mut config);
        super::Authn::compile(&config, &known, None).err()
    };
    assert!(start(&|_| ()).is_none());
    let keys = config::TokenProof::Keys;
    let issuer = |config: &config::Config| config.tenants[0].identity.as_ref().unwrap().issuers[0].clone();
    let own = |config: &mut config::Config, change: &dyn Fn(&mut config::Issuer)| {
        change(&mut config.tenants[0].identity.as_mut().unwrap().issuers[0]);
    };
    assert!(matches!(start(&|config| config.tenants[1].identity = None), Some(E::NoIdentity(_))));
    assert!(matches!(start(&|config| config.tenants.clear()), Some(E::NoTenant)));
    let twice = start(&|config| {
        let issuer = issuer(config);
        config.tenants[1].identity.as_mut().unwrap().issuers.push(issuer);
    });
    assert!(matches!(twice, Some(E::SameIssuer(_))), "{twice:?}");
    let ours = start(&|config| own(config, &|issuer| issuer.issuer = "portcullis".into()));
    assert!(matches!(ours, Some(E::SameIssuer(_))));
    let clear = start(&|config| {
        let url = keys(config::JwksSource::Url("http://id.example/jwks".parse().unwrap()));
        own(config, &|issuer| issuer.proof = url.clone());
    });
    assert!(matches!(clear, Some(E::InTheClear(_))));
    let nowhere = start(&|config| {
        own(config, &|issuer| issuer.proof = keys(config::JwksSource::File("/nowhere/jwks.json".into())));
    });
    assert!(matches!(nowhere, Some(E::Keys { .. })));
    // Allowed in the configuration or not: what the token says never widens it.
    let narrow =
        Place::with(ISSUER, &mint::jwks(), |issuer| issuer.algorithms = vec![Algorithm::ES256]).await;
    let rsa = token(Signer::Rsa1("RS256"), json!({}), json!({"aud": "https://gw.example/mcp"}));
    assert_eq!(narrow.judge("/mcp", &rsa, now()), Err(Flaw::Algorithm));
}

#[tokio::test]
async fn no_part_of_a_credential_is_in_what_is_said_about_it() {
    let place = Place::new().await;
    let jwt = token(Signer::Attacker, json!({"kid": "kid-marker"}), json!({"sub": "sub-marker"}));
    for shown in [jwt.as_str(), "pck_marker_marker", "marker"] {
        let error = place.authn.identify(&head_with("/mcp", shown)).unwrap_err();
        let challenge = place.authn.challenge(&endpoint("/mcp"), &error).unwrap();
        let flaw = place.judge("/mcp", shown, now()).unwrap_err();
        let said = format!("{error} {error:?} {challenge} {flaw} {flaw:?}");
        assert!(!said.contains("marker"), "{said}");
    }
}

//! Whom an issuer speaks for, and which of its claims say what.

use std::time::Duration;

use config::{Config, IssuerClaims};
use serde_json::json;

use super::{
    Flaw,
    idp::Idp,
    mint::{self, DROP, Signer, token},
    now,
    place::{BETA_ISSUER, ISSUER, Place, endpoint},
};
use crate::error::AuthnError;

fn claims(tenant: &str) -> IssuerClaims {
    IssuerClaims { tenant: Some(tenant.to_owned()), ..IssuerClaims::default() }
}

/// The issuer of `acme`, moved up so that it speaks for all tenants.
fn share(config: &mut Config) {
    let identity = config.tenants[0].identity.as_mut().unwrap();
    let mut issuer = identity.issuers.remove(0);
    issuer.claims = claims("org");
    issuer.audience = Some("api://gate".to_owned());
    config.shared_issuers.push(issuer);
}

#[tokio::test]
async fn tokens_of_a_shared_issuer_name_their_tenant() {
    let place = Place::changed(share).await;
    let shown = |path: &str, org| {
        let jwt = token(Signer::Ed25519, json!({}), json!({"aud": "api://gate", "org": org}));
        place.judge(path, &jwt, now()).map(|principal| principal.tenant.name().to_string())
    };
    for path in ["/mcp", "/mcp/other", "/t/acme/mcp"] {
        assert_eq!(shown(path, json!("acme")), Ok("acme".to_owned()), "{path}");
    }
    assert_eq!(shown("/mcp", json!("beta")), Ok("beta".to_owned()));
    assert_eq!(shown("/t/beta/mcp", json!("acme")), Err(Flaw::Tenant));
    for nobody in [json!("nobody"), json!("../acme"), json!("Acme"), json!("acme ")] {
        assert_eq!(shown("/mcp", nobody.clone()), Err(Flaw::Tenant), "{nobody}");
    }
    for none in [json!(DROP), json!(""), json!(null), json!(["acme"]), json!({"name": "acme"}), json!(7)] {
        assert_eq!(shown("/mcp", none.clone()), Err(Flaw::Claim("tenant")), "{none}");
    }
    // Nobody hears from the outside what there is.
    for flaw in [Flaw::Tenant, Flaw::Claim("tenant")] {
        assert!(matches!(flaw.told(), AuthnError::Refused("invalid")));
    }
    let document = place.authn.metadata(&endpoint("/mcp")).unwrap();
    assert!(document.contains(ISSUER) && !document.contains(BETA_ISSUER), "{document}");
    let document = place.authn.metadata(&endpoint("/t/beta/mcp")).unwrap();
    assert!(document.contains(ISSUER) && document.contains(BETA_ISSUER), "{document}");
}

#[tokio::test]
async fn an_issuer_of_one_tenant_may_have_to_name_it() {
    let place = Place::with(ISSUER, &mint::jwks(), |issuer| issuer.claims = claims("/org/name")).await;
    let shown = |org: serde_json::Value| {
        let jwt = token(Signer::Ed25519, json!({}), json!({"org": org}));
        place.judge("/t/acme/mcp", &jwt, now()).map(|_| ())
    };
    assert_eq!(shown(json!({"name": "acme"})), Ok(()));
    assert_eq!(shown(json!({"name": "beta"})), Err(Flaw::Tenant));
    assert_eq!(shown(json!("acme")), Err(Flaw::Claim("tenant")));
}

#[tokio::test]
async fn an_issuer_of_several_tenants_speaks_for_the_one_a_token_names() {
    let place = Place::changed(|config| {
        let mut issuer = config.tenants[0].identity.as_ref().unwrap().issuers[0].clone();
        issuer.claims = claims("org");
        issuer.audience = Some("api://gate".to_owned());
        for tenant in &mut config.tenants[..2] {
            tenant.identity.as_mut().unwrap().issuers = vec![issuer.clone()];
        }
    })
    .await;
    let shown = |path: &str, org: &str| {
        let jwt = token(Signer::Ed25519, json!({}), json!({"aud": "api://gate", "org": org}));
        place.judge(path, &jwt, now()).map(|principal| principal.tenant.name().to_string())
    };
    // Twice, so that what is remembered is looked at too.
    for _ in 0..2 {
        assert_eq!(shown("/t/acme/mcp", "acme"), Ok("acme".to_owned()));
        assert_eq!(shown("/t/beta/mcp", "beta"), Ok("beta".to_owned()));
        assert_eq!(shown("/t/beta/mcp", "acme"), Err(Flaw::Tenant));
        assert_eq!(shown("/t/acme/mcp", "closed"), Err(Flaw::Tenant));
        assert_eq!(shown("/mcp", "acme"), Err(Flaw::Tenant));
    }
    assert_eq!(place.authn.key_sets().len(), 1, "its keys are read once");
}

#[tokio::test]
async fn claims_further_inside_say_who_it_is_and_scopes_hold_others() {
    let place = Place::with(ISSUER, &mint::jwks(), |issuer| {
        issuer.claims = IssuerClaims {
            principal: "/user/id".to_owned(),
            groups: "/realm_access/roles".to_owned(),
            scopes: Some("permissions".to_owned()),
            tenant: None,
        };
        issuer.hierarchy = vec![("admin".to_owned(), vec!["write".to_owned(), "read".to_owned()])];
        issuer.required_scopes = vec!["read".to_owned()];
        issuer.leeway = Duration::ZERO;
    })
    .await;
    let said = |permissions: &str, exp: u64| {
        let claims = json!({
            "user": {"id": "ada"}, "realm_access": {"roles": ["leads"]}, "permissions": permissions, "exp": exp,
        });
        place.judge("/t/acme/mcp", &token(Signer::Ed25519, json!({}), claims), now())
    };
    let principal = said("admin", now() + 60).unwrap();
    assert_eq!((&*principal.subject, &*principal.groups), ("ada", &["leads".into()][..]));
    assert_eq!(*principal.scopes, ["admin".into(), "read".into(), "write".into()]);
    // spec A-07: what is needed is held by what is carried; `scope` counts for nothing here.
    assert_eq!(said("mcp:call", now() + 60), Err(Flaw::Scope));
    assert_eq!(said("admin", now() - 1), Err(Flaw::Expired), "no leeway");
}

#[tokio::test]
async fn a_challenge_names_the_fewest_scopes_with_which_a_token_passes() {
    let place = Place::with(ISSUER, &mint::jwks(), |issuer| {
        issuer.hierarchy = vec![("admin".to_owned(), vec!["write".to_owned()])];
        issuer.required_scopes = vec!["mcp:use".to_owned()];
    })
    .await;
    let jwt = token(Signer::Ed25519, json!({}), json!({"scope": "mcp:use"}));
    let principal = place.judge("/t/acme/mcp", &jwt, now()).unwrap();
    let challenge = |needed: &[&str]| {
        let needed: Vec<Box<str>> = needed.iter().map(|scope| (*scope).into()).collect();
        place.authn.step_up(&endpoint("/t/acme/mcp"), &principal, &needed).unwrap()
    };
    assert!(
        challenge(&["write", "admin"]).contains("scope=\"mcp:use admin\""),
        "{}",
        challenge(&["write", "admin"])
    );
    assert!(challenge(&["write", "mcp:use"]).contains("scope=\"mcp:use write\""));
    assert!(challenge(&[]).contains("scope=\"mcp:use\""), "what the endpoint needs");
}

#[tokio::test]
async fn a_token_without_a_name_is_named_by_what_it_says_and_not_by_its_signature() {
    let place = Place::new().await;
    let (now, mut names) = (now(), std::collections::HashSet::new());
    for _ in 0..2 {
        // Each signature of this kind differs.
        let jwt = mint::token_at(now, Signer::P256, json!({}), json!({"jti": DROP}));
        names.insert(place.judge("/t/acme/mcp", &jwt, now).unwrap().credential.clone());
    }
    assert_eq!(names.len(), 1);
}

fn metadata(issuer: &str, jwks: &str) -> serde_json::Value {
    json!({"issuer": issuer, "jwks_uri": jwks})
}

#[tokio::test]
async fn keys_are_where_the_metadata_of_the_issuer_say() {
    let idp = Idp::start().await;
    let issuer = format!("{}/realms/a", idp.url);
    idp.says("/keys", 200, mint::jwks());
    let place = Place::with(&issuer, "{\"keys\":[]}", |wanted| {
        wanted.proof = config::TokenProof::KeysOfMetadata(issuer.parse().unwrap());
    })
    .await;
    let jwt = token(Signer::Ed25519, json!({}), json!({"iss": issuer, "aud": "https://gw.example/mcp"}));
    let judged = || place.judge("/mcp", &jwt, now()).map(|_| ());
    let keys = place.keys();
    let wrong = [
        (
            "/.well-known/openid-configuration/realms/a",
            metadata(&idp.url, &format!("{}/keys", idp.url)),
            "another issuer",
        ),
        ("/.well-known/openid-configuration/realms/a", json!({"issuer": issuer}), "no `jwks_uri`"),
        (
            "/.well-known/openid-configuration/realms/a",
            metadata(&issuer, "http://169.254.169.254/keys"),
            "we do not go",
        ),
        (
            "/.well-known/openid-configuration/realms/a",
            metadata(&issuer, "https://keys.internal/"),
            "we do not go",
        ),
        ("/.well-known/openid-configuration/realms/a", json!("none"), "cannot be read"),
    ];
    assert!(keys.read().await.unwrap_err().to_string().contains("no metadata"));
    for (path, document, told) in wrong {
        idp.says(path, 200, document);
        let error = keys.read().await.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        assert_eq!(judged(), Err(Flaw::NoKeys));
    }
    assert!(idp.asked("/keys").is_empty());

    let good = metadata(&issuer, &format!("{}/keys", idp.url));
    idp.says("/.well-known/oauth-authorization-server/realms/a", 200, good);
    keys.read().await.unwrap();
    keys.read().await.unwrap();
    assert_eq!(judged(), Ok(()));
    assert_eq!(idp.asked("/keys").len(), 2);
    // A failure has them looked for anew.
    idp.says("/keys", 500, "");
    assert!(keys.read().await.is_err());
    let before = idp.asked("/.well-known/oauth-authorization-server/realms/a").len();
    idp.says("/keys", 200, mint::jwks());
    keys.read().await.unwrap();
    assert_eq!(idp.asked("/.well-known/oauth-authorization-server/realms/a").len(), before + 1);
}

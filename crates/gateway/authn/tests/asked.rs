//! Tokens that say nothing themselves: their issuer is asked (RFC 7662).

use std::time::Duration;

use config::{Introspection, Secret, TokenProof};
use serde_json::{Value, json};

use super::{
    idp::Idp,
    mint::{DROP, Signer, patch, token},
    now,
    place::{ISSUER, Place, head_with},
};
use crate::error::AuthnError;

const PATH: &str = "/introspect";

async fn place(idp: &Idp, cache: Duration) -> Place {
    Place::with(ISSUER, "{\"keys\":[]}", |issuer| {
        issuer.proof = TokenProof::Introspection(Introspection {
            url: Some(format!("{}{PATH}", idp.url).parse().unwrap()),
            client_id: "gate".to_owned(),
            client_secret: Secret::new("s3cret/+".to_owned()),
            cache,
        });
    })
    .await
}

/// What the issuer says of a good token, but for the patch.
fn active(change: Value) -> Value {
    let mut said = json!({
        "active": true, "sub": "ada", "aud": "https://gw.example/mcp", "exp": now() + 600, "scope": "read", "iss": ISSUER,
        "token_type": "Bearer",
    });
    patch(&mut said, change);
    said
}

async fn shown(place: &Place, credential: &str) -> Result<String, AuthnError> {
    let done = place.authn.identify_fresh(&head_with("/mcp", credential)).await;
    done.map(|principal| principal.subject.to_string())
}

#[tokio::test]
async fn the_issuer_is_asked_once_about_a_token_whoever_shows_it() {
    let idp = Idp::start().await;
    idp.says(PATH, 200, active(json!({})));
    let place = place(&idp, Duration::from_secs(30)).await;
    let all = futures_util::future::join_all((0..20).map(|_| shown(&place, "opaque-1"))).await;
    assert!(all.iter().all(|one| one.as_deref().is_ok_and(|subject| subject == "ada")), "{all:?}");
    let asked = idp.asked(PATH);
    assert_eq!(asked.len(), 1);
    // `gate:s3cret%2F%2B`, since each is encoded as in a form first (RFC 6749 2.3.1).
    assert!(asked[0].contains("Z2F0ZTpzM2NyZXQlMkYlMkI="), "{}", asked[0]);
    assert!(asked[0].ends_with("token=opaque-1&token_type_hint=access_token"), "{}", asked[0]);
    // A token of another form that names the issuer is asked about too; one of another issuer is not.
    let jwt = token(Signer::Attacker, json!({}), json!({}));
    assert!(shown(&place, &jwt).await.is_ok());
    let foreign = token(Signer::Attacker, json!({}), json!({"iss": "https://evil.example"}));
    assert!(shown(&place, &foreign).await.is_err());
    assert_eq!(idp.asked(PATH).len(), 2);
}

#[tokio::test]
async fn only_what_is_active_and_for_us_is_let_in() {
    let idp = Idp::start().await;
    for (number, said) in [
        json!({"active": false}),
        json!({"active": "true"}),
        json!({"sub": "ada"}),
        json!([true]),
        active(json!({"active": false})),
        active(json!({"active": 1})),
        active(json!({"aud": "https://other.example"})),
        active(json!({"aud": DROP})),
        active(json!({"sub": DROP})),
        active(json!({"exp": now() - 1})),
        active(json!({"scope": "a ".repeat(2000)})),
        active(json!({"padding": "x".repeat(70_000)})),
        active(json!({"nbf": now() + 600})),
        active(json!({"iss": "https://evil.example"})),
        active(json!({"token_type": "DPoP"})),
        active(json!({"token_type": "refresh_token"})),
        active(json!({"cnf": {"jkt": "x"}})),
        active(json!({"scope": ["read", 1]})),
    ]
    .into_iter()
    .enumerate()
    {
        let place = place(&idp, Duration::from_secs(30)).await;
        idp.says(PATH, 200, &said);
        let done = shown(&place, &format!("opaque-{number}")).await;
        assert!(matches!(done, Err(AuthnError::Refused("invalid" | "expired"))), "{said}: {done:?}");
    }
    let place = place(&idp, Duration::from_secs(30)).await;
    for (status, said) in [(500, active(json!({}))), (302, active(json!({}))), (200, json!("<html>"))] {
        idp.says(PATH, status, &said);
        assert!(shown(&place, "opaque").await.is_err(), "{status} {said}");
    }
}

#[tokio::test]
async fn what_an_issuer_does_not_know_is_not_asked_for_again_and_again() {
    let idp = Idp::start().await;
    idp.says(PATH, 200, json!({"active": false}));
    let place = place(&idp, Duration::from_secs(30)).await;
    for _ in 0..20 {
        assert!(shown(&place, "opaque").await.is_err());
    }
    assert_eq!(idp.asked(PATH).len(), 1);
}

#[tokio::test]
async fn a_token_that_is_revoked_at_its_issuer_is_refused_when_the_answer_is_old() {
    let idp = Idp::start().await;
    idp.says(PATH, 200, active(json!({})));
    let place = place(&idp, Duration::ZERO).await;
    assert!(shown(&place, "opaque").await.is_ok());
    let stream = head_with("/mcp", "opaque");
    assert!(place.authn.identify(&stream).is_ok());
    idp.says(PATH, 200, json!({"active": false}));
    assert!(shown(&place, "opaque").await.is_err());
    assert!(place.authn.identify(&stream).is_err(), "a stream ends with it");
}

#[tokio::test]
async fn what_was_answered_counts_for_a_while_when_the_issuer_is_gone() {
    let idp = Idp::start().await;
    idp.says(PATH, 200, active(json!({})));
    let place = place(&idp, Duration::ZERO).await;
    assert!(shown(&place, "opaque").await.is_ok());
    idp.says(PATH, 500, "");
    assert!(shown(&place, "opaque").await.is_ok());
    assert!(shown(&place, "another").await.is_err());
    tokio::time::pause();
    tokio::time::advance(super::super::introspection::GRACE + Duration::from_secs(1)).await;
    tokio::time::resume();
    assert!(
        place.authn.identify(&head_with("/mcp", "opaque")).is_err(),
        "for nobody, whether it could be asked or not"
    );
    assert!(shown(&place, "opaque").await.is_err());
}

#[tokio::test]
async fn a_text_that_the_issuer_does_not_like_silences_nobody() {
    let idp = Idp::start().await;
    let place = place(&idp, Duration::from_secs(30)).await;
    for status in [400, 403, 413, 414, 422] {
        idp.says(PATH, status, "");
        assert!(shown(&place, &format!("script-{status}")).await.is_err());
        idp.says(PATH, 200, active(json!({})));
        assert!(shown(&place, &format!("opaque-{status}")).await.is_ok(), "{status}");
    }
    // Those are its own failures.
    for status in [401, 429, 502] {
        idp.says(PATH, status, "");
        assert!(shown(&place, &format!("opaque-2-{status}")).await.is_err());
    }
    let before = idp.asked(PATH).len();
    assert!(shown(&place, "opaque-3").await.is_err());
    assert_eq!(idp.asked(PATH).len(), before, "it rests for a moment");
}

#[tokio::test]
async fn a_reload_keeps_what_was_said_of_tokens_whose_issuer_stays() {
    let idp = Idp::start().await;
    idp.says(PATH, 200, active(json!({})));
    let mut place = place(&idp, Duration::from_secs(30)).await;
    assert!(shown(&place, "opaque").await.is_ok());
    place.reload(|_| ());
    assert!(place.authn.identify(&head_with("/mcp", "opaque")).is_ok(), "its stream lives on");
    place.reload(|issuer| issuer.claims.principal = "client_id".to_owned());
    assert!(place.authn.identify(&head_with("/mcp", "opaque")).is_err());
}

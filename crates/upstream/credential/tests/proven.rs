//! What servers see, also when they do not like it.

use super::*;
use crate::fake::Turn;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::Duration;

/// A server that takes the tokens it is told to take.
async fn picky(credential: &Arc<Credential>, takes: &'static [&'static str]) -> Fake {
    let on = legacy(fine);
    let mut fake = Fake::new(move |asked: Asked| {
        let taken = takes.contains(&asked.header("authorization"));
        match taken || asked.method() != "tools/call" {
            true => on(asked),
            false => {
                let mut reply = text(401, "who are you?");
                let challenge = "Bearer resource_metadata=\"http://169.254.169.254/\"".parse().unwrap();
                reply.headers_mut().insert("www-authenticate", challenge);
                crate::fake::ready(reply)
            }
        }
    })
    .await;
    fake.address().credential = Arc::clone(credential);
    fake
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_once() {
    let (issuer, url) = generous().await;
    let credential = credential(Proof::Client(grant(TokenServer::Endpoint(url))));
    let fake = picky(&credential, &["Bearer tok-2"]).await;
    let upstream = fake.start();
    upstream.connection().await.unwrap();
    // The token is no longer young.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    call(&upstream, None).await.unwrap();
    assert_eq!(shown(&fake, "authorization"), ["Bearer tok-1", "Bearer tok-2"]);
    assert_eq!(issuer.journal().len(), 2);
    upstream.stop().await;
}

#[tokio::test]
async fn a_server_that_refuses_every_token_is_not_asked_for_ever() {
    let (issuer, url) = generous().await;
    let credential = credential(Proof::Client(grant(TokenServer::Endpoint(url))));
    let fake = picky(&credential, &[]).await;
    let upstream = fake.start();
    for _ in 0..3 {
        assert_eq!(call(&upstream, None).await, no("it does not accept our token"));
    }
    assert_eq!(issuer.journal().len(), 1, "a young token is not replaced");
    upstream.stop().await;
    let fixed = Credential::headers(vec![("Authorization".to_owned(), "Bearer fixed".to_owned())]);
    let fake = picky(&fixed, &[]).await;
    let upstream = fake.start();
    assert_eq!(call(&upstream, None).await, no("it does not accept our credential"));
    assert_eq!(shown(&fake, "authorization").len(), 1, "the same is not shown twice");
    upstream.stop().await;
}

#[tokio::test]
async fn a_server_hears_who_calls_and_can_check_it() {
    let signer: crate::Signer =
        Arc::new(|claims| Some(format!("head.{}.sig", URL_SAFE_NO_PAD.encode(claims))));
    let facts = [(Fact::Subject, "x-user"), (Fact::Tenant, "x-tenant"), (Fact::Groups, "x-groups")];
    let facts = facts.map(|(fact, name)| (fact, name.to_owned()));
    let identity = Identity::new(&facts, Some(signer), RESOURCE.to_owned()).unwrap();
    let credential = credential(Proof::Principal(identity));
    let fake = server(&credential).await;
    let ann = caller("änn, 100%", Some("bearer-of-ann"));
    let upstream = fake.start_for(Seat::Principal("ann".into()), Declared::nothing());
    upstream.speak_for(&ann);
    call(&upstream, Some(&ann)).await.unwrap();
    upstream.stop().await;
    assert_eq!(shown(&fake, "x-user"), ["%C3%A4nn%2C%20100%25"]);
    assert_eq!(shown(&fake, "x-groups"), ["eng,on%2Ccall"]);
    assert_eq!(shown(&fake, "x-tenant"), ["acme"]);
    for asked in fake.journal() {
        assert!(!asked.header("x-user").is_empty(), "{}", asked.method());
        assert!(!format!("{asked:?}").contains("bearer-of-ann"));
    }
    let told = shown(&fake, "x-portcullis-identity").remove(0);
    let claims = told.strip_prefix("head.").unwrap().strip_suffix(".sig").unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 60);
    let told = |name: &str| claims[name].clone();
    assert_eq!(
        json!([
            told("iss"),
            told("aud"),
            told("sub"),
            told("tenant"),
            told("groups"),
            told("principal_issuer")
        ]),
        json!(["portcullis", RESOURCE, "änn, 100%", "acme", ["eng", "on,call"], null])
    );
    let upstream = fake.start();
    call(&upstream, None).await.unwrap();
    assert_eq!(shown(&fake, "x-user"), ["%C3%A4nn%2C%20100%25", "portcullis"]);
    upstream.stop().await;
}

#[tokio::test]
async fn other_secrets_are_taken_over_while_conversations_go_on() {
    let header = |value: &str| vec![("x-key".to_owned(), value.to_owned())];
    let mut fake = server(&Credential::headers(header("old-secret"))).await;
    let (notices, _told) = tokio::sync::mpsc::channel(64);
    let memory: Arc<dyn crate::EraMemory> = Arc::<crate::scripted::Memory>::default();
    let pool = crate::Pool::new(memory, notices, Duration::from_secs(60));
    let seat =
        |fake: &Fake| pool.seat(&Arc::new(fake.spec.clone()), Seat::Shared, Declared::nothing(), 1).unwrap();
    let before = seat(&fake);
    call(&before, None).await.unwrap();
    fake.address().credential = Credential::headers(header("new-secret"));
    let after = seat(&fake);
    assert!(Arc::ptr_eq(&before, &after), "the seat stays");
    call(&after, None).await.unwrap();
    assert_eq!(shown(&fake, "x-key"), ["old-secret", "new-secret"]);
    assert_eq!(fake.count("POST", "initialize"), 1);
    // What is no mere secret makes another seat.
    fake.address().credential = Credential::headers(vec![("x-other".to_owned(), "v".to_owned())]);
    assert!(!Arc::ptr_eq(&after, &seat(&fake)));
    pool.stop_all().await;

    let (issuer, url) = generous().await;
    let with = |secret: &str| {
        let proof = ClientProof::Secret(secret.to_owned());
        credential(Proof::Client(Grant { proof, ..grant(TokenServer::Endpoint(url.clone())) }))
    };
    let (one, other) = (with("one-secret"), with("two-secret"));
    assert_eq!(one, other);
    let mut headers = http::HeaderMap::new();
    one.show(&mut headers, None, None).await.map(|_| ()).unwrap();
    one.renew_from(&with("one-secret"));
    one.show(&mut headers, None, None).await.map(|_| ()).unwrap();
    assert_eq!(issuer.journal().len(), 1, "nothing has changed");
    one.renew_from(&other);
    one.show(&mut headers, None, None).await.map(|_| ()).unwrap();
    assert_eq!(issuer.journal().len(), 2);
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_with_method_and_body() {
    for (status, place, follows) in [
        (307, "/mcp/", true),
        (308, "http://{host}/mcp/", true),
        (307, "http://127.0.0.1:1/mcp/", false),
        (307, "https://{host}/mcp/", false),
        (307, "http://user@{host}/mcp/", false),
        (302, "/mcp/", false),
        (303, "/mcp/", false),
    ] {
        let (on, turn) = (legacy(fine), Turn::default());
        let counted = turn.clone();
        let mut fake = Fake::new(move |asked: Asked| {
            if asked.target == "/mcp/" {
                return on(asked);
            }
            counted.next();
            let mut reply = text(status, "there");
            let place = place.replace("{host}", asked.header("host"));
            reply.headers_mut().insert("location", place.parse().unwrap());
            crate::fake::ready(reply)
        })
        .await;
        fake.address().credential = Credential::headers(vec![("x-key".to_owned(), "k".to_owned())]);
        let upstream = fake.start();
        let done = call(&upstream, None).await;
        upstream.stop().await;
        assert_eq!(done.is_ok(), follows, "{status} {place} {done:?}");
        if follows {
            assert_eq!(turn.next(), 2, "it is redirected once: {place}");
            assert_eq!(shown(&fake, "x-key"), ["k"]);
        }
    }
}

#[tokio::test]
async fn a_token_that_was_not_exchanged_keeps_no_later_one_waiting() {
    let (_issuer, url) = issuer(|asked| match fields(asked)["subject_token"].as_str() {
        "old" => (400, json!({ "error": "invalid_grant" })),
        _ => (200, token("tok")),
    })
    .await;
    let proof = Proof::Exchange { grant: grant(TokenServer::Endpoint(url)), audience: None };
    let fake = server(&credential(proof)).await;
    let upstream = fake.start_for(Seat::Principal("ann".into()), Declared::nothing());
    let (old, new) = (caller("ann", Some("old")), caller("ann", Some("new")));
    upstream.speak_for(&old);
    let refused = no("its token server does not take the caller's token (invalid_grant)");
    for _ in 0..3 {
        assert_eq!(call(&upstream, Some(&old)).await, refused);
    }
    upstream.speak_for(&new);
    call(&upstream, Some(&new)).await.unwrap();
    upstream.stop().await;
}

#[tokio::test]
async fn a_seat_of_a_principal_waits_for_who_calls() {
    let (_issuer, url) = generous().await;
    let proof = Proof::Exchange { grant: grant(TokenServer::Endpoint(url)), audience: None };
    let fake = server(&credential(proof)).await;
    let upstream = fake.start_for(Seat::Principal("ann".into()), Declared::nothing());
    assert!(fake.journal().is_empty());
    upstream.speak_for(&caller("ann", Some("bearer")));
    call(&upstream, None).await.unwrap();
    assert_eq!(shown(&fake, "authorization"), ["Bearer tok-1"]);
    upstream.stop().await;
}

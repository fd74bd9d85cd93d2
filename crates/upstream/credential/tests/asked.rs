//! What an authorization server is asked.

use super::*;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tokio::net::TcpListener;

fn endpoint(url: &Url) -> TokenServer {
    TokenServer::Endpoint(url.clone())
}

#[tokio::test]
async fn a_token_of_our_own_is_asked_for_once_and_shown_to_all() {
    let (issuer, url) = generous().await;
    let credential = credential(Proof::Client(grant(endpoint(&url))));
    let fake = server(&credential).await;
    let upstream = fake.start();
    for _ in 0..3 {
        call(&upstream, Some(&caller("ann", Some("bearer-of-ann")))).await.unwrap();
    }
    assert_eq!(shown(&fake, "authorization"), ["Bearer tok-1"; 3]);
    assert!(fake.journal().iter().all(|asked| asked.header("authorization") == "Bearer tok-1"));
    let [asked] = &issuer.journal()[..] else { panic!("{:?}", issuer.journal()) };
    assert_eq!(asked.verb, "POST");
    let wanted = [("grant_type", "client_credentials"), ("resource", RESOURCE), ("scope", "a b:c")]
        .map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(fields(asked), wanted.into());
    let basic = asked.header("authorization").strip_prefix("Basic ").unwrap();
    assert_eq!(STANDARD.decode(basic).unwrap(), b"gate+way:s3cret%2B%2F%3A%C3%A9%26%3D");
    for text in [format!("{credential:?}"), format!("{:?}", fake.spec)] {
        assert!(!text.contains("s3cret") && !text.contains("tok-1"), "{text}");
    }
    let secrets = fake.spec.secrets();
    assert!(secrets.iter().any(|secret| secret == SECRET), "{secrets:?}");
    upstream.stop().await;
}

#[tokio::test]
async fn a_token_is_exchanged_for_each_caller_whose_own_goes_no_further() {
    let (issuer, url) = generous().await;
    let credential =
        credential(Proof::Exchange { grant: grant(endpoint(&url)), audience: Some("up".to_owned()) });
    let fake = server(&credential).await;
    let (ann, bob) = (caller("ann", Some("bearer-of-ann")), caller("bob", Some("bearer-of-bob")));
    let less = caller("ann", Some("another-of-ann"));
    for (who, callers) in [("ann", vec![&ann, &less, &ann]), ("bob", vec![&bob])] {
        let upstream = fake.start_for(Seat::Principal(who.into()), Declared::nothing());
        upstream.speak_for(callers[0]);
        for caller in callers {
            call(&upstream, Some(caller)).await.unwrap();
        }
        upstream.stop().await;
    }
    assert_eq!(
        shown(&fake, "authorization"),
        ["Bearer tok-1", "Bearer tok-2", "Bearer tok-1", "Bearer tok-3"]
    );
    let asked = issuer.journal();
    let subjects: Vec<String> = asked.iter().map(|asked| fields(asked)["subject_token"].clone()).collect();
    assert_eq!(subjects, ["bearer-of-ann", "another-of-ann", "bearer-of-bob"]);
    let mut wanted: BTreeMap<String, String> = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("resource", RESOURCE),
        ("audience", "up"),
        ("scope", "a b:c"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    wanted.insert("subject_token".to_owned(), "bearer-of-ann".to_owned());
    assert_eq!(fields(&asked[0]), wanted);
    for asked in fake.journal() {
        assert!(!format!("{asked:?}").contains("of-ann") && !format!("{asked:?}").contains("of-bob"));
    }
}

#[tokio::test]
async fn lists_are_read_with_a_token_of_our_own_and_keys_cannot_be_exchanged() {
    let (issuer, url) = generous().await;
    let credential =
        credential(Proof::Exchange { grant: grant(endpoint(&url)), audience: Some("up".to_owned()) });
    let fake = server(&credential).await;
    let upstream = fake.start();
    call(&upstream, None).await.unwrap();
    assert_eq!(shown(&fake, "authorization"), ["Bearer tok-1"]);
    let fields = fields(&issuer.journal()[0]);
    assert_eq!(fields["grant_type"], "client_credentials");
    assert!(!fields.contains_key("subject_token") && !fields.contains_key("audience"));
    let refused = fake.spec.serves(&caller("ann", None)).unwrap_err().to_string();
    assert_eq!(refused, "it takes a token of the caller's own, and what the caller showed is none");
    upstream.stop().await;
}

#[tokio::test]
async fn a_key_of_ours_signs_for_the_server_it_is_shown_to() {
    let ed25519 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let p256 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let rsa = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let (issuer, url) = generous().await;
    let kinds: [(&rcgen::KeyPair, Signing, &str, &'static dyn VerificationAlgorithm); 3] = [
        (&ed25519, Signing::EdDsa, "EdDSA", &ED25519),
        (&p256, Signing::Es256, "ES256", &ECDSA_P256_SHA256_FIXED),
        (&rsa, Signing::Rs256, "RS256", &RSA_PKCS1_2048_8192_SHA256),
    ];
    for (number, (pair, signing, name, algorithm)) in kinds.into_iter().enumerate() {
        let pem = pair.serialize_pem();
        let key = ClientKey::read(pem.as_bytes(), Some("k1".to_owned()), signing).unwrap();
        for other in [Signing::EdDsa, Signing::Es256, Signing::Rs256] {
            assert_eq!(ClientKey::read(pem.as_bytes(), None, other).is_ok(), other == signing, "{name}");
        }
        let proof = ClientProof::Key(Arc::new(key));
        let credential = credential(Proof::Client(Grant { proof, ..grant(endpoint(&url)) }));
        let fake = server(&credential).await;
        let upstream = fake.start();
        call(&upstream, None).await.unwrap();
        upstream.stop().await;
        let asked = issuer.journal().remove(number);
        assert_eq!(asked.header("authorization"), "");
        let fields = fields(&asked);
        assert_eq!(fields["client_id"], "gate way");
        assert_eq!(fields["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        let assertion = &fields["client_assertion"];
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let public = UnparsedPublicKey::new(algorithm, pair.public_key_raw());
        public.verify(signed.as_bytes(), &signature).unwrap();
        let parts: Vec<Value> = signed
            .split('.')
            .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
            .collect();
        assert_eq!(parts[0], json!({ "alg": name, "typ": "JWT", "kid": "k1" }));
        let claims = &parts[1];
        assert_eq!(
            (&claims["iss"], &claims["sub"], &claims["aud"]),
            (&json!("gate way"), &json!("gate way"), &json!(url.as_str()))
        );
        assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 60);
        assert_eq!(claims["jti"].as_str().unwrap().len(), 32);
    }
    assert!(ClientKey::read(b"nonsense", None, Signing::EdDsa).is_err());
}

/// An issuer whose metadata are at one of its places.
async fn described(
    path: &'static str,
    metadata: impl Fn(&str) -> Value + Send + Sync + 'static,
) -> (Fake, Url) {
    issuer(move |asked| {
        let origin = format!("http://{}", asked.header("host"));
        match asked.target.as_str() {
            "/token" => (200, token("tok")),
            target if target == path => (200, metadata(&origin)),
            _ => (404, json!({})),
        }
    })
    .await
}

fn named(url: &Url, path: &str) -> TokenServer {
    let mut url = url.clone();
    url.set_path(path);
    let text = url.as_str();
    TokenServer::Issuer(text.strip_suffix('/').unwrap_or(text).to_owned(), url)
}

#[tokio::test]
async fn the_metadata_of_an_issuer_are_looked_for_in_order() {
    let whole = |origin: &str| {
        json!({ "issuer": format!("{origin}/t1"), "token_endpoint": format!("{origin}/token"),
            "token_endpoint_auth_methods_supported": ["client_secret_post"] })
    };
    let (fake_issuer, url) = described("/t1/.well-known/openid-configuration", whole).await;
    let fake = server(&credential(Proof::Client(grant(named(&url, "/t1"))))).await;
    let upstream = fake.start();
    call(&upstream, None).await.unwrap();
    upstream.stop().await;
    let targets: Vec<String> = fake_issuer.journal().into_iter().map(|asked| asked.target).collect();
    let places = [
        "/.well-known/oauth-authorization-server/t1",
        "/.well-known/openid-configuration/t1",
        "/t1/.well-known/openid-configuration",
        "/token",
    ];
    assert_eq!(targets, places);
    let fields = fields(fake_issuer.journal().last().unwrap());
    assert_eq!((fields["client_id"].as_str(), fields["client_secret"].as_str()), ("gate way", SECRET));

    let (fake_issuer, url) = described("/nowhere", |_| json!({})).await;
    let fake = server(&credential(Proof::Client(grant(named(&url, "/"))))).await;
    let upstream = fake.start();
    assert_eq!(call(&upstream, None).await, no("its authorization server has no metadata"));
    upstream.stop().await;
    let targets: Vec<String> = fake_issuer.journal().into_iter().map(|asked| asked.target).collect();
    assert_eq!(
        targets[..2],
        ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]
    );
}

#[tokio::test]
async fn metadata_that_lie_or_lead_astray_are_not_followed() {
    let canary = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = canary.local_addr().unwrap().port();
    let place = "/.well-known/oauth-authorization-server";
    let elsewhere = move |to: String| move |origin: &str| json!({ "issuer": origin, "token_endpoint": to });
    let astray = "the metadata of its authorization server lead where we do not go";
    for to in [
        format!("http://127.0.0.1:{port}/token"),
        format!("https://127.0.0.1:{port}/token"),
        format!("https://localhost:{port}/token"),
        format!("https://[::ffff:127.0.0.1]:{port}/token"),
        format!("https://2130706433:{port}/token"),
        "https://169.254.169.254/token".to_owned(),
        "file:///etc/passwd".to_owned(),
        "/token".to_owned(),
    ] {
        let (_issuer, url) = described(place, elsewhere(to.clone())).await;
        let fake = server(&credential(Proof::Client(grant(named(&url, "/"))))).await;
        let upstream = fake.start();
        assert_eq!(call(&upstream, None).await, no(astray), "{to}");
        assert!(fake.journal().is_empty(), "nothing is asked without a credential");
        upstream.stop().await;
    }
    let reached = tokio::time::timeout(std::time::Duration::ZERO, canary.accept()).await;
    assert!(reached.is_err(), "nobody came");
    // spec A-17: a slash is a difference.
    let lies =
        |origin: &str| json!({ "issuer": format!("{origin}/"), "token_endpoint": format!("{origin}/token") });
    let (_issuer, url) = described(place, lies).await;
    let fake = server(&credential(Proof::Client(grant(named(&url, "/"))))).await;
    let upstream = fake.start();
    assert_eq!(call(&upstream, None).await, no("the metadata of its authorization server name another"));
    upstream.stop().await;
}

#[tokio::test]
async fn answers_that_are_no_tokens_are_told_apart() {
    let plain = "its token server answered with something else than a token";
    for (status, body, why) in [
        (200, json!({}), plain),
        (200, json!([]), plain),
        (200, json!({ "access_token": "", "token_type": "Bearer" }), plain),
        (200, json!({ "access_token": "a\r\nX-Evil: 1", "token_type": "Bearer" }), plain),
        (200, json!({ "access_token": "x".repeat(20_000), "token_type": "Bearer" }), plain),
        (200, json!({ "access_token": "x", "token_type": "DPoP" }), plain),
        (200, json!({ "access_token": "x", "token_type": "N_A" }), plain),
        (
            200,
            json!({ "access_token": "x", "token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:refresh_token" }),
            plain,
        ),
        (
            200,
            json!({ "access_token": "x", "token_type": "bearer", "expires_in": 0 }),
            "its token server gave a token that is over",
        ),
        (
            200,
            json!({ "access_token": "x", "token_type": "bearer", "expires_in": -7 }),
            "its token server gave a token that is over",
        ),
        (401, json!({ "error": "invalid_client" }), "its token server does not know us (invalid_client)"),
        (
            400,
            json!({ "error": "invalid_scope" }),
            "its token server does not grant the scopes (invalid_scope)",
        ),
        (400, json!({ "error": "<script>" }), "its token server gave no token"),
        (302, json!({ "access_token": "x", "token_type": "Bearer" }), "its token server gave no token"),
        (500, json!("oops"), "its token server gave no token"),
        (404, json!({}), "its token server has moved"),
    ] {
        let (_issuer, url) = issuer(move |_| (status, body.clone())).await;
        let fake = server(&credential(Proof::Client(grant(endpoint(&url))))).await;
        let upstream = fake.start();
        assert_eq!(call(&upstream, None).await, no(why));
        assert!(fake.journal().is_empty());
        upstream.stop().await;
    }
}

#[tokio::test]
async fn ends_of_tokens_that_are_odd_are_taken_as_they_are_meant() {
    for expires in [json!("300"), json!(1e300), json!(null), json!({}), json!(60.5)] {
        let answer = json!({ "access_token": "x", "token_type": "bearer", "expires_in": expires });
        let (_issuer, url) = issuer(move |_| (200, answer.clone())).await;
        let fake = server(&credential(Proof::Client(grant(endpoint(&url))))).await;
        let upstream = fake.start();
        call(&upstream, None).await.unwrap();
        upstream.stop().await;
    }
}

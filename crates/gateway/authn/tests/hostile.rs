//! Tokens that must not let anybody in, each with what is wrong with it.

use serde_json::{Value, json};

use super::{
    Flaw,
    mint::{self, DROP, Signer, encode, raw, token, token_at},
    place::Place,
    told,
};
use crate::{
    authn::{LIFE, now},
    error::AuthnError,
};

type Case = (&'static str, String, Flaw);

const RSA: Signer<'static> = Signer::Rsa1("RS256");

fn header(signer: Signer<'_>, patch: Value) -> String {
    token(signer, patch, json!({}))
}

fn claims(patch: Value) -> String {
    token(Signer::Ed25519, json!({}), patch)
}

/// A good token whose text is changed afterwards.
fn changed(signer: Signer<'_>, change: impl Fn([&str; 3]) -> String) -> String {
    let token = header(signer, json!({}));
    let parts: Vec<&str> = token.split('.').collect();
    change([parts[0], parts[1], parts[2]])
}

/// A good payload with one member written as it stands.
fn written(member: &str) -> String {
    let payload = mint::good(now()).to_string();
    let payload = format!("{},{member}}}", payload.strip_suffix('}').unwrap());
    raw(Signer::Ed25519, json!({"alg": "EdDSA", "kid": "ed25519"}).to_string(), payload)
}

fn with_header(text: impl AsRef<[u8]>) -> String {
    raw(RSA, text, mint::good(now()).to_string())
}

fn algorithms() -> Vec<Case> {
    let n = mint::jwk("rsa1")["n"].as_str().unwrap().to_owned();
    let all = mint::jwk("rsa1").to_string();
    let named = |alg: Value| header(RSA, json!({"alg": alg}));
    vec![
        ("none", header(Signer::Nothing, json!({})), Flaw::Algorithm),
        ("NONE", header(Signer::Nothing, json!({"alg": "NONE"})), Flaw::Algorithm),
        ("nOnE", header(Signer::Nothing, json!({"alg": "nOnE"})), Flaw::Algorithm),
        ("none, signed all the same", named(json!("none")), Flaw::Algorithm),
        ("no algorithm", named(json!(DROP)), Flaw::Algorithm),
        ("null as algorithm", named(json!(null)), Flaw::Algorithm),
        ("a list of algorithms", named(json!(["RS256"])), Flaw::Algorithm),
        ("lower case", named(json!("rs256")), Flaw::Algorithm),
        ("a space after it", named(json!("RS256 ")), Flaw::Algorithm),
        ("an empty algorithm", named(json!("")), Flaw::Algorithm),
        (
            "shared secret: the modulus",
            header(Signer::Hmac("HS256", n.as_bytes()), json!({})),
            Flaw::Algorithm,
        ),
        ("shared secret: the JWK", header(Signer::Hmac("HS256", all.as_bytes()), json!({})), Flaw::Algorithm),
        ("shared secret: a guess", header(Signer::Hmac("HS512", b"secret"), json!({})), Flaw::Algorithm),
        ("shared secret: nothing", header(Signer::Hmac("HS256", b""), json!({})), Flaw::Algorithm),
        (
            "shared secret: the published one",
            header(Signer::Hmac("HS256", b"published-secret"), json!({"kid": "oct"})),
            Flaw::Algorithm,
        ),
        (
            "a shared secret said to be RSA",
            header(Signer::Hmac("RS256", n.as_bytes()), json!({})),
            Flaw::Signature,
        ),
        ("PS256 with a key for RS256", header(Signer::Rsa2("PS256"), json!({})), Flaw::Signature),
        ("said to be PS256", named(json!("PS256")), Flaw::Signature),
        ("said to be RS512", named(json!("RS512")), Flaw::Signature),
        ("said to be ES256", named(json!("ES256")), Flaw::Signature),
        ("said to be EdDSA", named(json!("EdDSA")), Flaw::Signature),
        (
            "ES256 of zeros",
            changed(Signer::P256, |[h, c, _]| format!("{h}.{c}.{}", encode([0; 64]))),
            Flaw::Signature,
        ),
        ("ES256 in DER", header(Signer::P256Der, json!({})), Flaw::Signature),
        ("ES256 cut", cut(Signer::P256, 63), Flaw::Signature),
        ("RS256 cut", cut(RSA, 255), Flaw::Signature),
        ("EdDSA cut", cut(Signer::Ed25519, 63), Flaw::Signature),
        ("ES384 with a key of P-256", header(Signer::P256, json!({"alg": "ES384"})), Flaw::Signature),
    ]
}

fn cut(signer: Signer<'_>, length: usize) -> String {
    let token = header(signer, json!({}));
    let (signed, _) = token.rsplit_once('.').unwrap();
    format!("{signed}.{}", encode(&signer.sign(signed.as_bytes())[..length]))
}

fn keys() -> Vec<Case> {
    let attacker = |patch: Value| header(Signer::Attacker, patch);
    vec![
        ("an attacker's key under our name", attacker(json!({"kid": "rsa1"})), Flaw::Signature),
        ("an unknown key", attacker(json!({})), Flaw::UnknownKey),
        ("a key that is a URL", attacker(json!({"kid": "http://169.254.169.254/jwks"})), Flaw::UnknownKey),
        ("a key that is a query", attacker(json!({"kid": "x' UNION SELECT 'x"})), Flaw::UnknownKey),
        ("a key that is a path", attacker(json!({"kid": "../../../dev/null"})), Flaw::UnknownKey),
        ("a key that breaks lines", attacker(json!({"kid": "a\n{}\u{1b}[2J"})), Flaw::UnknownKey),
        ("an empty key name", attacker(json!({"kid": ""})), Flaw::UnknownKey),
        ("a number as key name", header(RSA, json!({"kid": 1})), Flaw::Header),
        ("null as key name", header(RSA, json!({"kid": null})), Flaw::Header),
        ("no key name and several fit", header(RSA, json!({"kid": DROP})), Flaw::Signature),
        ("the key for encryption", header(Signer::Encryption, json!({})), Flaw::UnknownKey),
        ("the key that must not verify", header(Signer::Encryption, json!({"kid": "ops"})), Flaw::UnknownKey),
        ("the weak key", header(RSA, json!({"kid": "weak"})), Flaw::UnknownKey),
        ("another's jku", attacker(json!({"jku": "https://evil.example/keys"})), Flaw::UnknownKey),
        ("its own jwk", attacker(json!({"jwk": mint::jwk("attacker"), "kid": DROP})), Flaw::Signature),
        ("its own certificate", attacker(json!({"x5c": ["MIIB"], "kid": DROP})), Flaw::Signature),
        ("its own certificate by URL", attacker(json!({"x5u": "https://evil.example/c"})), Flaw::UnknownKey),
        ("crit of an unknown extension", header(RSA, json!({"crit": ["exp2"], "exp2": 1})), Flaw::Header),
        ("crit of a known member", header(RSA, json!({"crit": ["kid"]})), Flaw::Header),
        ("crit of nothing", header(RSA, json!({"crit": []})), Flaw::Header),
        ("crit null", header(RSA, json!({"crit": null})), Flaw::Header),
        ("unencoded payload", header(RSA, json!({"b64": false})), Flaw::Header),
        ("compressed", header(RSA, json!({"zip": "DEF"})), Flaw::Header),
        ("encrypted", header(RSA, json!({"enc": "A128GCM"})), Flaw::Header),
    ]
}

fn kinds() -> Vec<Case> {
    vec![
        ("a logout token", header(RSA, json!({"typ": "logout+jwt"})), Flaw::Kind),
        ("a refresh token", header(RSA, json!({"typ": "rt+jwt"})), Flaw::Kind),
        ("a proof of possession", header(RSA, json!({"typ": "dpop+jwt"})), Flaw::Kind),
        ("a kind that is no text", header(RSA, json!({"typ": 1})), Flaw::Header),
        ("an ID token (token_use)", claims(json!({"token_use": "id"})), Flaw::Kind),
        ("a refresh token (typ)", claims(json!({"typ": "Refresh"})), Flaw::Kind),
        ("an ID token (typ)", claims(json!({"typ": "ID"})), Flaw::Kind),
        ("an ID token (at_hash)", claims(json!({"at_hash": "x"})), Flaw::Kind),
        ("a logout token (events)", claims(json!({"events": {}})), Flaw::Kind),
        ("bound to a key nobody showed", claims(json!({"cnf": {"jkt": "abc"}})), Flaw::Kind),
        ("a use that is no text", claims(json!({"token_use": true})), Flaw::Kind),
    ]
}

fn times(now: u64) -> Vec<Case> {
    let exp = |value: Value| claims(json!({"exp": value}));
    vec![
        ("no exp", exp(json!(DROP)), Flaw::Claim("exp")),
        ("exp 61 s ago", exp(json!(now - 61)), Flaw::Expired),
        ("exp 0", token_at(now, Signer::Ed25519, json!({}), json!({"exp": 0})), Flaw::Expired),
        ("exp as text", exp(json!("9999999999")), Flaw::Claim("exp")),
        ("exp true", exp(json!(true)), Flaw::Claim("exp")),
        ("exp null", exp(json!(null)), Flaw::Claim("exp")),
        ("exp in a list", exp(json!([9_999_999_999_u64])), Flaw::Claim("exp")),
        ("exp in an object", exp(json!({"a": 1})), Flaw::Claim("exp")),
        ("exp 1e400", token_written("exp", "1e400"), Flaw::Unreadable),
        ("exp 1e300", exp(json!(1e300)), Flaw::Claim("exp")),
        ("exp negative", exp(json!(-1)), Flaw::Claim("exp")),
        ("ten years", exp(json!(now + 10 * 365 * 86_400)), Flaw::Lifetime),
        ("a little too long", exp(json!(now + LIFE + 10)), Flaw::Lifetime),
        ("too long since it was issued", claims(json!({"iat": now - LIFE})), Flaw::Lifetime),
        ("nbf in an hour", claims(json!({"nbf": now + 3600})), Flaw::Early),
        ("nbf as text", claims(json!({"nbf": "0"})), Flaw::Claim("nbf")),
        ("iat in an hour", claims(json!({"iat": now + 3600})), Flaw::Early),
        ("iat true", claims(json!({"iat": true})), Flaw::Claim("iat")),
    ]
}

fn names() -> Vec<Case> {
    let aud = |value: Value| claims(json!({"aud": value}));
    let iss = |value: Value| claims(json!({"iss": value}));
    let sub = |value: Value| claims(json!({"sub": value}));
    let base = "https://gw.example/t/acme/mcp";
    vec![
        ("no aud", aud(json!(DROP)), Flaw::Claim("aud")),
        ("aud *", aud(json!("*")), Flaw::Audience),
        ("aud of others", aud(json!(["https://a.example", "https://b.example"])), Flaw::Audience),
        ("aud of another path", aud(json!(format!("{base}/../other"))), Flaw::Audience),
        ("aud with a dot segment", aud(json!(format!("{base}/."))), Flaw::Audience),
        ("aud of the origin", aud(json!("https://gw.example")), Flaw::Audience),
        ("aud of the origin, with slash", aud(json!("https://gw.example/")), Flaw::Audience),
        ("aud of another tenant", aud(json!("https://gw.example/t/beta/mcp")), Flaw::Audience),
        ("aud with two slashes", aud(json!(format!("{base}//"))), Flaw::Audience),
        ("aud in the clear", aud(json!("http://gw.example/t/acme/mcp")), Flaw::Audience),
        ("aud with a port", aud(json!("https://gw.example:443/t/acme/mcp")), Flaw::Audience),
        ("aud in other case", aud(json!("https://gw.example/T/acme/mcp")), Flaw::Audience),
        ("aud with a query", aud(json!(format!("{base}?"))), Flaw::Audience),
        ("aud percent-encoded", aud(json!("https://gw.example/t/%61cme/mcp")), Flaw::Audience),
        ("aud with a user", aud(json!("https://x@gw.example/t/acme/mcp")), Flaw::Audience),
        ("aud prefix", aud(json!(format!("{base}x"))), Flaw::Audience),
        ("aud empty", aud(json!("")), Flaw::Audience),
        ("aud an empty list", aud(json!([])), Flaw::Claim("aud")),
        ("aud in a list in a list", aud(json!([[base]])), Flaw::Claim("aud")),
        ("aud beside a number", aud(json!([base, 1])), Flaw::Claim("aud")),
        ("aud an object", aud(json!({base: true})), Flaw::Claim("aud")),
        ("no iss", iss(json!(DROP)), Flaw::Claim("iss")),
        ("iss another", iss(json!("https://evil.example")), Flaw::Issuer),
        ("iss with a slash", iss(json!("https://id.acme.example/")), Flaw::Issuer),
        ("iss in upper case", iss(json!("https://ID.acme.example")), Flaw::Issuer),
        ("iss of look-alikes", iss(json!("https://id.\u{430}cme.example")), Flaw::Issuer),
        ("iss a list", iss(json!(["https://id.acme.example"])), Flaw::Claim("iss")),
        ("iss of another tenant", iss(json!("https://id.beta.example")), Flaw::UnknownKey),
        ("iss ourselves", iss(json!("portcullis")), Flaw::NoKeys),
        ("no sub", sub(json!(DROP)), Flaw::Claim("sub")),
        ("sub empty", sub(json!("")), Flaw::Claim("sub")),
        ("sub a number", sub(json!(1)), Flaw::Claim("sub")),
        ("sub that breaks lines", sub(json!("a1\n\u{0}b1")), Flaw::Claim("sub")),
        ("sub that turns text", sub(json!("a\u{202e}b")), Flaw::Claim("sub")),
        ("sub that hides", sub(json!("ada\u{200b}")), Flaw::Claim("sub")),
        ("sub too long", sub(json!("a".repeat(257))), Flaw::Claim("sub")),
        ("groups of numbers", claims(json!({"groups": [1]})), Flaw::Claim("groups")),
        ("groups in an object", claims(json!({"groups": {"a": true}})), Flaw::Claim("groups")),
        ("a group without a name", claims(json!({"groups": [""]})), Flaw::Claim("groups")),
        ("scope a number", claims(json!({"scope": 1})), Flaw::Claim("scope")),
        ("scope with a quote", claims(json!({"scope": "a\"b"})), Flaw::Claim("scope")),
        ("jti a number", claims(json!({"jti": 1})), Flaw::Claim("jti")),
    ]
}

fn token_written(name: &str, value: &str) -> String {
    let mut payload = mint::good(now());
    payload.as_object_mut().unwrap().remove(name);
    let payload = payload.to_string();
    let payload = format!("{},\"{name}\":{value}}}", payload.strip_suffix('}').unwrap());
    raw(Signer::Ed25519, json!({"alg": "EdDSA", "kid": "ed25519"}).to_string(), payload)
}

fn structures() -> Vec<Case> {
    vec![
        ("two sub", written("\"sub\":\"root\""), Flaw::Unreadable),
        ("two exp", written("\"exp\":9999999999"), Flaw::Unreadable),
        ("two sub, one escaped", written("\"s\\u0075b\":\"root\""), Flaw::Unreadable),
        ("two of no matter", written("\"a\":1,\"a\":1"), Flaw::Unreadable),
        ("two below", written("\"a\":{\"b\":1,\"b\":1}"), Flaw::Unreadable),
        ("two parts", changed(RSA, |[h, c, _]| format!("{h}.{c}")), Flaw::Unreadable),
        ("five parts", changed(RSA, |[h, c, s]| format!("{h}.{c}.{s}.AAAA.BBBB")), Flaw::Unreadable),
        ("only dots", "..".to_owned(), Flaw::Unreadable),
        ("one dot", ".".to_owned(), Flaw::Unreadable),
        ("no signature", changed(RSA, |[h, c, _]| format!("{h}.{c}.")), Flaw::Signature),
        (
            "another payload",
            changed(RSA, |[h, _, s]| {
                let mut other = mint::good(now());
                mint::patch(&mut other, json!({"sub": "root"}));
                format!("{h}.{}.{s}", encode(other.to_string()))
            }),
            Flaw::Signature,
        ),
        (
            "a bit of the signature",
            changed(Signer::Ed25519, |[h, c, s]| {
                let first = if s.starts_with('A') { 'B' } else { 'A' };
                format!("{h}.{c}.{first}{}", &s[1..])
            }),
            Flaw::Signature,
        ),
        ("padded", changed(RSA, |[h, c, s]| format!("{h}.{c}.{s}==")), Flaw::Unreadable),
        ("padded payload", changed(RSA, |[h, c, s]| format!("{h}.{c}====.{s}")), Flaw::Unreadable),
        ("another spelling of the last bits", changed(RSA, respelled), Flaw::Unreadable),
        (
            "the other base64",
            with_header("{\"alg\":\"RS256\",\"kid\":\"rsa1\",\"a\":\"\u{3ff}\u{7ff}>>>???\"}")
                .replace(['-', '_'], "+"),
            Flaw::Unreadable,
        ),
        ("percent-encoded dots", changed(RSA, |[h, c, s]| format!("{h}%2E{c}%2E{s}")), Flaw::Unreadable),
        ("a NUL at the end", changed(RSA, |[h, c, s]| format!("{h}.{c}.{s}\0")), Flaw::Unreadable),
        ("a line break inside", changed(RSA, |[h, c, s]| format!("{h}\n.{c}.{s}")), Flaw::Unreadable),
    ]
}

fn texts() -> Vec<Case> {
    let good = || mint::good(now()).to_string();
    let deep = format!("{}1{}", "{\"a\":".repeat(1000), "}".repeat(1000));
    vec![
        ("a list as header", with_header("[\"RS256\"]"), Flaw::Unreadable),
        ("two alg", with_header("{\"alg\":\"none\",\"alg\":\"RS256\",\"kid\":\"rsa1\"}"), Flaw::Unreadable),
        ("a header that is no UTF-8", with_header(b"{\"alg\":\"RS256\",\"kid\":\"\xff\"}"), Flaw::Unreadable),
        (
            "a header with a byte order mark",
            with_header("\u{feff}{\"alg\":\"RS256\",\"kid\":\"rsa1\"}"),
            Flaw::Unreadable,
        ),
        ("an empty header", with_header(""), Flaw::Unreadable),
        (
            "a list as payload",
            raw(RSA, json!({"alg": "RS256", "kid": "rsa1"}).to_string(), "[1]"),
            Flaw::Unreadable,
        ),
        (
            "a payload 1,000 deep",
            raw(RSA, json!({"alg": "RS256", "kid": "rsa1"}).to_string(), deep),
            Flaw::Unreadable,
        ),
        (
            "something after the payload",
            raw(RSA, json!({"alg": "RS256", "kid": "rsa1"}).to_string(), good() + "{\"sub\":\"root\"}"),
            Flaw::Unreadable,
        ),
        (
            "a payload with a byte order mark",
            raw(RSA, json!({"alg": "RS256", "kid": "rsa1"}).to_string(), format!("\u{feff}{}", good())),
            Flaw::Unreadable,
        ),
        ("too long", claims(json!({"pad": "p".repeat(8 * 1024)})), Flaw::Unreadable),
        ("no token at all", "opaque".to_owned(), Flaw::Unreadable),
    ]
}

/// The same signature with unused bits set in its last character.
fn respelled([h, c, s]: [&str; 3]) -> String {
    const ALL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let at = ALL.find(s.chars().last().unwrap()).unwrap();
    format!("{h}.{c}.{}{}", &s[..s.len() - 1], &ALL[at ^ 1..=at ^ 1])
}

#[tokio::test]
async fn every_hostile_token_is_refused_for_the_right_reason() {
    let place = Place::new().await;
    let now = now();
    let all = [algorithms(), keys(), kinds(), times(now), names(), structures(), texts()].concat();
    assert!(all.len() > 140, "{}", all.len());
    for (name, token, flaw) in &all {
        assert_eq!(place.judge("/t/acme/mcp", token, now).map(|_| ()), Err(*flaw), "{name}");
        let word = if *flaw == Flaw::Expired { "expired" } else { "invalid" };
        assert!(matches!(told(*flaw), AuthnError::Refused(why) if why == word), "{name}");
    }
    // Some of them are good but for the hour or the audience; none is remembered as good once it expired.
    for (name, token, _) in &all {
        assert!(place.judge("/t/acme/mcp", token, now).is_err(), "{name}: the second time");
    }
}

#[tokio::test]
async fn no_bit_of_a_token_can_be_changed() {
    let place = Place::new().await;
    let token = claims(json!({}));
    for at in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at] ^= 1;
        let Ok(other) = String::from_utf8(bytes) else { continue };
        assert!(place.judge("/t/acme/mcp", &other, now()).is_err(), "{at}");
    }
    for end in 0..token.len() {
        assert!(place.judge("/t/acme/mcp", &token[..end], now()).is_err(), "cut at {end}");
    }
}

//! What identity, certificates and upstreams by URL mean.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Memory;
use crate::{Algorithm, Credential, Identity, Issuer, JwksSource, Loaded, Sse, TokenProof, Transport};

const PROGRAM: &str = "upstreams: { x: { command: npx } }\n";

fn loaded(main: &str, tenants: &[&str]) -> Loaded {
    let names = ["etc/tenants/a.yaml", "etc/tenants/b.yaml", "etc/tenants/c.yaml"];
    let mut files = vec![("etc/main.yaml", main)];
    files.extend(names.into_iter().zip(tenants.iter().copied()));
    crate::load(Path::new("etc/main.yaml"), &Memory::of(&files))
        .unwrap_or_else(|problems| panic!("{}", crate::render(&problems)))
}

fn identity(written: &str) -> Identity {
    let tenant = format!("tenant: a\nidentity: {written}\n{PROGRAM}");
    loaded("keepalive: 15s\n", &[&tenant]).config.tenants.remove(0).identity.unwrap()
}

fn transport(written: &str) -> Transport {
    let tenant = format!("tenant: a\nupstreams: {{ x: {{ {written} }} }}\n");
    loaded("keepalive: 15s\n", &[&tenant]).config.tenants.remove(0).upstreams.remove(0).transport
}

fn warnings(main: &str, tenant: &str) -> Vec<(usize, String)> {
    let told = loaded(main, &[tenant]).warnings.into_iter();
    let other = told.filter(|warning| !warning.message.contains("has no `policies`"));
    other.map(|warning| (warning.line, warning.message)).collect()
}

#[test]
fn without_identity_a_tenant_is_anonymous() {
    let config = loaded("keepalive: 15s\n", &[&format!("tenant: a\n{PROGRAM}")]).config;
    assert!(config.tenants[0].identity.is_none());
    assert!(config.tls.is_none() && !config.http2 && config.trusted_proxies.is_empty());
}

#[test]
fn an_empty_identity_takes_keys_and_local_tokens() {
    let identity = identity("{}");
    assert!(identity.keys && identity.local && identity.issuers.is_empty());
    let identity = self::identity("{ keys: false }");
    assert!(!identity.keys && identity.local);
}

#[test]
fn an_issuer_has_defaults() {
    let Issuer { issuer, proof, audience, algorithms, claims, scopes, leeway, .. } =
        identity("{ issuers: [{ issuer: https://id.acme.example/, jwks: ../keys/acme.json }] }")
            .issuers
            .remove(0);
    // As it is written, with the final slash: it is compared as it stands.
    assert_eq!(&*issuer, "https://id.acme.example/");
    let file = JwksSource::File(PathBuf::from("etc/tenants/../keys/acme.json"));
    assert_eq!(proof, TokenProof::Keys(file));
    assert_eq!(algorithms, [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA]);
    assert_eq!((claims.principal.as_str(), claims.groups.as_str()), ("sub", "groups"));
    assert_eq!((claims.scopes, claims.tenant, leeway), (None, None, Duration::from_secs(30)));
    assert!(audience.is_none() && scopes.is_empty());
}

#[test]
fn an_issuer_says_what_differs() {
    let written = "{ issuers: [{ issuer: acme-sts, jwks: \"http://127.0.0.1:8080/jwks?v=1\", audience: \"api://gate\", \
                   algorithms: [PS256, ES384], claims: { principal: oid, groups: \"https://acme.example/roles\" }, \
                   scopes: [\"mcp:use\", openid] }], local: false }";
    let mut identity = identity(written);
    let issuer = identity.issuers.remove(0);
    let TokenProof::Keys(JwksSource::Url(url)) = &issuer.proof else { panic!("a URL") };
    assert_eq!(url.as_str(), "http://127.0.0.1:8080/jwks?v=1");
    assert_eq!(issuer.audience.as_deref(), Some("api://gate"));
    assert_eq!(issuer.algorithms, [Algorithm::PS256, Algorithm::ES384]);
    assert_eq!(
        (issuer.claims.principal.as_str(), &*issuer.claims.groups),
        ("oid", "https://acme.example/roles")
    );
    assert_eq!(issuer.scopes, ["mcp:use", "openid"]);
    assert!(identity.keys && !identity.local);
}

#[test]
fn an_issuer_is_asked_or_says_itself_where_its_keys_are() {
    let written = "{ issuers: [{ issuer: https://id.acme.example/realms/a, leeway: 5s, \
                   claims: { groups: /realm_access/roles, scopes: permissions }, \
                   scope_hierarchy: { admin: [write], write: [read, list] } }] }";
    let issuer = identity(written).issuers.remove(0);
    let TokenProof::KeysOfMetadata(url) = &issuer.proof else { panic!("metadata") };
    assert_eq!(url.as_str(), "https://id.acme.example/realms/a");
    assert_eq!(
        (issuer.claims.groups.as_str(), issuer.claims.scopes.as_deref()),
        ("/realm_access/roles", Some("permissions"))
    );
    let held = [("admin", vec!["write"]), ("write", vec!["read", "list"])];
    let held = held.map(|(scope, held)| (scope.to_owned(), held.into_iter().map(str::to_owned).collect()));
    assert_eq!((issuer.hierarchy, issuer.leeway), (held.to_vec(), Duration::from_secs(5)));

    let written = "{ issuers: [{ issuer: opaque, introspection: { url: http://localhost:9/introspect, client_id: gate, \
                   client_secret: abc } }] }";
    let TokenProof::Introspection(asked) = identity(written).issuers.remove(0).proof else { panic!("asked") };
    assert_eq!((asked.url.unwrap().path(), asked.client_id.as_str()), ("/introspect", "gate"));
    assert_eq!((asked.client_secret.expose(), asked.cache), ("abc", Duration::from_secs(30)));
}

#[test]
fn shared_issuers_tell_people_apart_in_every_tenant() {
    let main =
        "shared_issuers: [{ issuer: https://id.acme.example, jwks: j.json, claims: { tenant: org } }]\n";
    let config = loaded(main, &[&format!("tenant: a\n{PROGRAM}"), &format!("tenant: b\n{PROGRAM}")]).config;
    assert_eq!(config.shared_issuers[0].claims.tenant.as_deref(), Some("org"));
    assert_eq!(
        config.shared_issuers[0].proof,
        TokenProof::Keys(JwksSource::File(PathBuf::from("etc/j.json")))
    );
    assert!(
        config.tenants.iter().all(|tenant| tenant.identity.as_ref().is_some_and(|identity| identity.keys))
    );
}

#[test]
fn an_issuer_of_two_tenants_says_for_which_one_a_token_is() {
    let tenant = |name: &str| {
        format!(
            "tenant: {name}\nidentity: {{ issuers: [{{ issuer: i, jwks: j, claims: {{ tenant: org }} }}] }}\n{PROGRAM}"
        )
    };
    let config = loaded("keepalive: 15s\n", &[&tenant("a"), &tenant("b")]).config;
    assert_eq!(config.tenants.len(), 2);
}

#[test]
fn tenants_with_identity_stand_side_by_side_and_beyond_loopback() {
    let main = "listen: 0.0.0.0:7420\npublic_url: https://mcp.acme.example\n";
    let one = format!("tenant: one\nidentity: {{ issuers: [{{ issuer: a, jwks: j }}] }}\n{PROGRAM}");
    let two = format!("tenant: two\nidentity: {{ issuers: [{{ issuer: A, jwks: j }}] }}\n{PROGRAM}");
    let three = format!("tenant: three\nidentity: {{}}\n{PROGRAM}");
    let config = loaded(main, &[&one, &two, &three]).config;
    let names: Vec<&str> = config.tenants.iter().map(|tenant| &*tenant.name).collect();
    assert_eq!(names, ["one", "two", "three"]);
    assert!(config.tenants.iter().all(|tenant| tenant.identity.is_some()));
}

#[test]
fn the_process_has_certificates_and_proxies() {
    let main = "tls: { cert: tls/a.crt, key: /etc/a.key }
http2: true
trusted_proxies: [10.0.0.0/8, \"fd00::/8\", 192.0.2.7/32]
";
    let config = loaded(main, &[&format!("tenant: a\n{PROGRAM}")]).config;
    let tls = config.tls.unwrap();
    assert_eq!(
        (tls.cert.as_path(), tls.key.as_path()),
        (Path::new("etc/tls/a.crt"), Path::new("/etc/a.key"))
    );
    assert!(config.http2);
    assert!(config.trusted_proxies[0].contains(&"10.9.8.7".parse::<std::net::IpAddr>().unwrap()));
    assert_eq!(config.trusted_proxies.len(), 3);
}

#[test]
fn a_server_is_reached_by_its_url() {
    let Transport::Http { url, credential, ca, cert, key, proxy, sse } =
        transport("url: \"https://MCP.acme.example/mcp?project=7\"")
    else {
        panic!("a server")
    };
    assert_eq!(url.as_str(), "https://mcp.acme.example/mcp?project=7");
    assert_eq!(*credential, Credential::None);
    assert!(ca.is_none() && cert.is_none() && key.is_none() && proxy.is_none());
    assert_eq!(sse, Sse::Detect);

    let written = "url: https://mcp.acme.example/sse, sse: only, proxy: http://proxy.acme.example:3128, \
                   tls: { ca: ../ca.crt, cert: /etc/gate.crt, key: gate.key }";
    let Transport::Http { ca, cert, key, proxy, sse, .. } = transport(written) else { panic!("a server") };
    assert_eq!(ca.as_deref(), Some(Path::new("etc/tenants/../ca.crt")));
    assert_eq!(cert.as_deref(), Some(Path::new("/etc/gate.crt")));
    assert_eq!(key.as_deref(), Some(Path::new("etc/tenants/gate.key")));
    assert_eq!(proxy.unwrap().port(), Some(3128));
    assert_eq!(sse, Sse::Only);
}

#[test]
fn this_machine_needs_no_https() {
    for url in [
        "http://127.0.0.1:3000/mcp",
        "http://127.1.2.3/mcp",
        "http://[::1]:3000/mcp",
        "http://LOCALHOST:3000",
    ] {
        assert!(matches!(transport(&format!("url: \"{url}\"")), Transport::Http { .. }), "{url}");
    }
}

#[test]
fn what_is_open_is_told() {
    let main = "public_url: http://mcp.acme.example
admin: { listen: 0.0.0.0:7421 }
trusted_proxies: [0.0.0.0/0]
";
    let tenant = "tenant: a
upstreams:
  x: { url: http://mcp.acme.example/mcp, insecure: true }
  y: { url: https://mcp.acme.example/mcp, insecure: true }
  z:
    url: https://mcp.acme.example/mcp
    credential: { header: Authorization, value: Bearer abc }
  w: { url: \"http://127.0.0.1:3000\", insecure: true }
";
    let told = warnings(main, tenant);
    let expected = [
        (1, "tokens that are sent to `http://mcp.acme.example` can be read"),
        (2, "`0.0.0.0:7421` is not a loopback address: the operator's side"),
        (3, "`0.0.0.0/0` lets every client say what its address is"),
        (3, "`http://mcp.acme.example/mcp` is reached in the clear"),
        (4, "`insecure` changes nothing for an https URL"),
        (7, "the credential stands in this file as it is"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for ((line, message), (expected_line, part)) in told.iter().zip(expected) {
        assert!(*line == expected_line && message.contains(part), "{line}: {message}");
    }
}

#[test]
fn a_plain_public_url_does_not_fit_a_certificate() {
    let told = warnings(
        "public_url: http://localhost:7420\ntls: { cert: a, key: b }\n",
        "tenant: a\nupstreams: { x: { command: npx } }\n",
    );
    assert_eq!(told.len(), 1);
    assert!(told[0].1.contains("with `tls` clients are answered over https only"));
}

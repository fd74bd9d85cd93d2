//! References: what they bring, and what they cannot bring.

use super::Memory;
use crate::expand::expand;
use crate::{Credential, Secret, Transport};

fn args(args: &str) -> Vec<String> {
    let text = format!("tenant: a\nupstreams: {{ a: {{ command: npx, args: {args} }} }}\n");
    let files = Memory::of(&[("portcullis.yaml", "listen: 127.0.0.1:${PORT}\n"), ("tenants/a.yaml", &text)]);
    let config = files.loaded().config;
    assert_eq!(config.listen.port(), 7500);
    let Transport::Stdio { args, .. } = &config.tenants[0].upstreams[0].transport else {
        panic!("a program")
    };
    args.clone()
}

#[test]
fn references_are_replaced_in_scalars() {
    let table = [
        ("${PORT}", "7500"),
        ("${env:PORT}", "7500"),
        ("x${PORT}y${PORT}", "x7500y7500"),
        ("${NOT_SET:-a b}", "a b"),
        ("${NOT_SET:-}", ""),
        ("${EMPTY:-full}", "full"),
        ("${EMPTY}", ""),
        ("${PORT:-1}", "7500"),
        ("${env:NOT_SET:-x}", "x"),
        ("${secret:NOT_SET:-x}", "x"),
        ("$$", "$"),
        ("$${PORT}", "${PORT}"),
        ("$PORT", "$PORT"),
        ("ends in $", "ends in $"),
        ("$$$${PORT}", "$${PORT}"),
    ];
    for (written, meant) in table {
        assert_eq!(args(&format!("['{written}']")), [meant], "{written}");
    }
}

#[test]
fn a_value_brings_no_structure_and_no_references() {
    assert_eq!(args("[\"${SPLIT}\"]"), ["a, b: [c] ${PORT}"]);
}

#[test]
fn every_missing_reference_of_a_scalar_is_told() {
    let files = Memory::of(&[]);
    let unresolved = expand("${A}-${PORT}-${secret:B}-${c d}-${secret:../x}", &files, None).unwrap_err();
    let told: Vec<(usize, &str)> = unresolved.iter().map(|each| (each.at, each.message.as_str())).collect();
    assert_eq!(
        told,
        [
            (0, "the environment variable `A` is not set"),
            (13, "the secret `B` is not set"),
            (25, "`${c d}` is no reference"),
            (32, "`../x` cannot be the name of a secret"),
        ]
    );
}

#[test]
fn secrets_never_show() {
    let text = "tenant: a
upstreams: { a: { command: npx, env: { T: \"Bearer ${secret:TOKEN}\", U: \"${secret:a/TOKEN}\", V: plain } } }
";
    let loaded = Memory::of(&[("portcullis.yaml", "keepalive: 15s\n"), ("tenants/a.yaml", text)]).loaded();
    let Transport::Stdio { env, .. } = &loaded.config.tenants[0].upstreams[0].transport else {
        panic!("a program")
    };
    let values: Vec<&str> = env.iter().map(|(_, value)| value.expose()).collect();
    assert_eq!(values, ["Bearer hunter2", "hunter3", "plain"]);
    let shown = format!("{:?} {:#?} {}", loaded.config, loaded.warnings, Secret::new("hunter2".to_owned()));
    assert!(!shown.contains("hunter") && !shown.contains("plain") && shown.ends_with("***"));
}

#[test]
fn a_credential_is_a_secret() {
    let text = "tenant: a
upstreams: { a: { url: \"https://mcp.acme.example\", credential: { header: X-Api-Key, value: \"v1 ${secret:a/TOKEN}\" } } }
";
    let loaded = Memory::of(&[("portcullis.yaml", "keepalive: 15s\n"), ("tenants/a.yaml", text)]).loaded();
    let Transport::Http { credential, .. } = &loaded.config.tenants[0].upstreams[0].transport else {
        panic!("a server")
    };
    let Credential::Headers(headers) = &**credential else { panic!("headers") };
    let shown: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(shown, [("x-api-key", "v1 hunter3")]);
    assert!(!format!("{:?} {:?}", loaded.config, loaded.warnings).contains("hunter"));
}

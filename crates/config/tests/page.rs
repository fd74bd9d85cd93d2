//! The examples of `docs/credentials.md`, `docs/identity.md` and `docs/limits.md`: each is loaded as it stands.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Files, Transport, load, raw, render};

const PAGE: &str = include_str!("../../../docs/credentials.md");

const IDENTITY: &str = include_str!("../../../docs/identity.md");

const LIMITS: &str = include_str!("../../../docs/limits.md");

/// The YAML files of a page.
fn examples(page: &str) -> impl Iterator<Item = &str> {
    blocks(page, "```yaml\n")
}

fn blocks<'a>(page: &'a str, fence: &str) -> impl Iterator<Item = &'a str> {
    page.split(fence).skip(1).filter_map(|rest| rest.split("```").next())
}

/// One file, of a tenant or the main one; every secret is there.
struct Example<'a>(&'a str);

impl Files for Example<'_> {
    fn read(&self, path: &Path) -> io::Result<String> {
        let is_main = self.0.starts_with("# portcullis.yaml");
        Ok(match path.ends_with("portcullis.yaml") {
            true if is_main => self.0,
            true => "keepalive: 15s\n",
            false if is_main => {
                "tenant: acme\nupstreams: { files: { url: https://files.acme.example/mcp } }\n"
            }
            false => self.0,
        }
        .to_owned())
    }

    fn matching(&self, _pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec!["tenants/acme.yaml".into()])
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn secret(&self, name: &str) -> Option<String> {
        Some(format!("secret-{}", name.replace('/', "-")))
    }

    fn condition(&self, _text: &str, _about: &[crate::Subject]) -> Result<(), Vec<crate::Flaw>> {
        Ok(())
    }

    fn program(&self, _name: &str, _dir: Option<&Path>) -> Option<PathBuf> {
        None
    }
}

#[test]
fn every_example_about_limits_loads_and_shows_every_key() {
    for example in examples(LIMITS) {
        let loaded = load(Path::new("portcullis.yaml"), &Example(example));
        let loaded = loaded.unwrap_or_else(|problems| panic!("{example}\n{}", render(&problems)));
        let other = loaded.warnings.iter().filter(|warning| !warning.message.contains("`policies`"));
        assert_eq!(other.count(), 0, "{example}\n{}", render(&loaded.warnings));
    }
    let keys = [raw::limits::LimitRule::KEYS, raw::limits::Runaway::KEYS, raw::limits::Taint::KEYS];
    for key in keys.concat() {
        assert!(key == "server" || LIMITS.contains(&format!("{key}:")), "`{key}` is not shown");
    }
}

#[test]
fn every_example_about_identity_loads_and_shows_every_key() {
    for example in examples(IDENTITY) {
        let loaded = load(Path::new("portcullis.yaml"), &Example(example));
        let loaded = loaded.unwrap_or_else(|problems| panic!("{example}\n{}", render(&problems)));
        let other = loaded.warnings.iter().filter(|warning| !warning.message.contains("`policies`"));
        assert_eq!(other.count(), 0, "{example}\n{}", render(&loaded.warnings));
    }
    let keys = [
        raw::identity::Issuer::KEYS,
        raw::identity::Claims::KEYS,
        raw::identity::Introspection::KEYS,
        &["shared_issuers", "tool_scopes"],
    ];
    for key in keys.concat() {
        assert!(IDENTITY.contains(&format!("{key}:")), "`{key}` is not shown");
    }
    for client in blocks(IDENTITY, "```json\n") {
        serde_json::from_str::<serde_json::Value>(client).unwrap();
    }
}

#[test]
fn every_example_of_the_page_loads_and_shows_no_secret() {
    let mut kinds = BTreeSet::new();
    for example in examples(PAGE) {
        let loaded = load(Path::new("portcullis.yaml"), &Example(example));
        let loaded = loaded.unwrap_or_else(|problems| panic!("{example}\n{}", render(&problems)));
        let other = loaded.warnings.iter().filter(|warning| !warning.message.contains("`policies`"));
        assert_eq!(other.count(), 0, "{example}\n{}", render(&loaded.warnings));
        assert!(!format!("{:?}", loaded.config).contains("secret-"), "{example}");
        for upstream in &loaded.config.tenants[0].upstreams {
            let Transport::Http { credential, .. } = &upstream.transport else { panic!("{example}") };
            let shown = format!("{credential:?}");
            kinds.insert(shown.split(['(', ' ']).next().unwrap_or_default().to_owned());
        }
    }
    let all = ["Client", "Exchange", "Headers", "Principal"].map(str::to_owned);
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
}

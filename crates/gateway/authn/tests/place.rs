//! A gateway's identity in the making: two tenants with an issuer each, and one that takes nothing of ours.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use admission::Principal;
use config::{Algorithm, Config, Files, Identity, Issuer, IssuerClaims, JwksSource, TokenProof};
use tempfile::TempDir;

use super::{Flaw, mint};
use crate::{
    arrival::{Endpoint, Head, Mirrored, Transport, Verb},
    authn::{Authn, Mode, jwks::Jwks},
    tokens::{KeyRequest, Tokens},
};

pub(super) const ISSUER: &str = "https://id.acme.example";
pub(super) const BETA_ISSUER: &str = "https://id.beta.example";

pub(super) struct Place {
    pub(super) authn: Authn,
    pub(super) tokens: Tokens,
    folder: TempDir,
    config: Config,
}

impl Place {
    /// Tenants `acme`, `beta` and `closed`.
    pub(super) async fn new() -> Place {
        let (config, folder) = config(true);
        Place::of(&config, folder).await
    }

    /// The same, otherwise configured.
    pub(super) async fn changed(change: impl Fn(&mut Config)) -> Place {
        let (mut config, folder) = config(true);
        change(&mut config);
        Place::of(&config, folder).await
    }

    /// The same gateway with its one issuer changed.
    pub(super) fn reload(&mut self, change: impl Fn(&mut Issuer)) {
        change(&mut self.config.tenants[0].identity.as_mut().unwrap().issuers[0]);
        self.authn = Authn::compile(&self.config, self.tokens.known(), Some(&self.authn)).unwrap();
    }

    /// The keys of the one issuer.
    pub(super) fn keys(&self) -> Arc<Jwks> {
        let Mode::Identified { identity, .. } = &self.authn.0 else { panic!("anonymous") };
        Arc::clone(&identity.key_sets()[0])
    }

    /// One tenant with one issuer.
    pub(super) async fn with(issuer: &str, jwks: &str, change: impl Fn(&mut Issuer)) -> Place {
        let (mut config, folder) = config(true);
        let file = folder.path().join("jwks.json");
        std::fs::write(&file, jwks).unwrap();
        config.tenants.truncate(1);
        let mut wanted = self::issuer(issuer, &file);
        change(&mut wanted);
        config.tenants[0].identity.as_mut().unwrap().issuers = vec![wanted];
        Place::of(&config, folder).await
    }

    async fn of(config: &Config, folder: TempDir) -> Place {
        let tokens = Tokens::open(&folder.path().join("state")).await.unwrap();
        let authn = Authn::compile(config, tokens.known(), None).unwrap();
        Place { authn, tokens, folder, config: config.clone() }
    }

    pub(super) fn judge(&self, path: &str, credential: &str, now: u64) -> Result<Arc<Principal>, Flaw> {
        self.authn.judge(&head_with(path, credential), now)
    }

    /// What stands in the file of the one issuer from now on.
    pub(super) fn write_keys(&self, jwks: &str) {
        let fresh = self.folder.path().join("fresh.json");
        std::fs::write(&fresh, jwks).unwrap();
        std::fs::rename(&fresh, self.folder.path().join("jwks.json")).unwrap();
    }

    /// How many tokens are remembered as checked.
    pub(super) fn remembered(&self) -> usize {
        let Mode::Identified { identity, .. } = &self.authn.0 else { panic!("anonymous") };
        identity.verified.len()
    }

    /// What the issuer of `acme` publishes from now on.
    pub(super) fn publish(&self, jwks: &str) {
        let Mode::Identified { identity, .. } = &self.authn.0 else { panic!("anonymous") };
        for keys in identity.key_sets().iter().filter(|keys| **keys.issuer() == *ISSUER) {
            keys.hold(jwks.as_bytes()).unwrap();
        }
    }
}

pub(super) fn request(tenant: &str) -> KeyRequest {
    KeyRequest {
        tenant: tenant.to_owned(),
        name: "laptop".to_owned(),
        principal: "ada".to_owned(),
        groups: vec![],
        scopes: vec![],
        servers: None,
        expires_in: None,
    }
}

pub(super) fn endpoint(path: &str) -> Endpoint {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let boxed = |text: &&str| Box::from(*text);
    let (tenant, word, server) = match parts.as_slice() {
        ["t", tenant, word, server @ ..] => (Some(boxed(tenant)), *word, server),
        [word, server @ ..] => (None, *word, server),
        [] => panic!("{path}"),
    };
    let transport = match word {
        "mcp" => Transport::Streamable,
        "sse" => Transport::Sse,
        _ => panic!("{path}"),
    };
    Endpoint { tenant, server: server.first().map(boxed), transport }
}

pub(super) fn head(endpoint: Endpoint, authorization: &[&str]) -> Head {
    Head {
        verb: Verb::Post,
        endpoint,
        session: None,
        revision: None,
        last_event: None,
        authorization: authorization.iter().map(|value| (*value).into()).collect(),
        mirror: Mirrored::default(),
        accepts_json: true,
        accepts_events: true,
        peer: "127.0.0.1:1".parse().unwrap(),
        received: Instant::now(),
    }
}

pub(super) fn head_with(path: &str, credential: &str) -> Head {
    head(endpoint(path), &[&format!("Bearer {credential}")])
}

fn issuer(name: &str, jwks: &Path) -> Issuer {
    use Algorithm as A;
    Issuer {
        issuer: name.into(),
        proof: TokenProof::Keys(JwksSource::File(jwks.to_owned())),
        audience: None,
        algorithms: vec![
            A::RS256,
            A::RS384,
            A::RS512,
            A::PS256,
            A::PS384,
            A::PS512,
            A::ES256,
            A::ES384,
            A::EdDSA,
        ],
        leeway: Duration::from_secs(30),
        hierarchy: Vec::new(),
        claims: IssuerClaims::default(),
        scopes: vec!["mcp:use".to_owned(), "offline_access".to_owned()],
        required_scopes: Vec::new(),
    }
}

/// With identity three tenants, else one; and the folder their keys are in.
pub(super) fn config(identified: bool) -> (Config, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config::load(Path::new("/etc/p.yaml"), &Memory).unwrap().config;
    if !identified {
        return (config, folder);
    }
    config.public_url = Some("https://gw.example".parse().unwrap());
    let write = |name: &str, jwks: String| {
        let file = folder.path().join(name);
        std::fs::write(&file, jwks).unwrap();
        file
    };
    let acme = issuer(ISSUER, &write("acme.json", mint::jwks()));
    let beta = issuer(BETA_ISSUER, &write("beta.json", mint::jwks_of(&["beta"])));
    let tenant = config.tenants[0].clone();
    config.tenants = [("acme", Some(acme), true), ("beta", Some(beta), true), ("closed", None, false)]
        .into_iter()
        .map(|(name, issuer, own)| {
            let identity = Identity { issuers: issuer.into_iter().collect(), keys: own, local: own };
            config::Tenant { name: name.into(), identity: Some(identity), ..tenant.clone() }
        })
        .collect();
    (config, folder)
}

/// The files of the smallest configuration there is.
struct Memory;

impl Files for Memory {
    fn condition(&self, _text: &str, _about: &[config::Subject]) -> Result<(), Vec<config::Flaw>> {
        Ok(())
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let texts = HashMap::from([
            ("/etc/p.yaml", "tenants: t.yaml\nstate_dir: /nowhere\n"),
            ("/etc/t.yaml", "tenant: acme\nupstreams:\n  files: { command: npx }\n"),
        ]);
        let text = path.to_str().and_then(|path| texts.get(path));
        text.map(|text| (*text).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![pattern.to_owned()])
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn secret(&self, _: &str) -> Option<String> {
        None
    }

    fn program(&self, name: &str, _: Option<&Path>) -> Option<PathBuf> {
        Some(Path::new("/usr/bin").join(name))
    }
}

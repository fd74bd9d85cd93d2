//! What an upstream is: who owns it, how it is reached, how long we wait for it.

use crate::caller::Caller;
use crate::credential::Credential;
use crate::error::UpstreamError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Shorter values of the environment are switches and levels, and would blank half the log.
const SECRET: usize = 8;

/// One configured upstream of one tenant. Two that differ in the secrets of a credential only are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The tenant that owns it; the first part of every key.
    pub tenant: Arc<str>,
    /// Its configured id.
    pub id: Arc<str>,
    /// Where it is, or how it is started.
    pub reach: Reach,
    /// Whether we may speak the modern era with it. When not, a modern server is asked for a handshake all the same.
    pub modern: bool,
    /// How long we wait for what.
    pub patience: Patience,
    /// The longest message it may send, in bytes. A longer line ends a process; over HTTP a longer answer fails its request.
    pub line_cap: usize,
}

impl Spec {
    /// A server that is a process of ours.
    pub fn stdio(
        tenant: Arc<str>,
        id: Arc<str>,
        launch: Launch,
        patience: Patience,
        line_cap: usize,
    ) -> Self {
        Self { tenant, id, reach: Reach::Stdio(launch), modern: true, patience, line_cap }
    }

    /// A server at a URL.
    pub fn http(
        tenant: Arc<str>,
        id: Arc<str>,
        address: Address,
        patience: Patience,
        line_cap: usize,
    ) -> Self {
        Self { tenant, id, reach: Reach::Http(address), modern: true, patience, line_cap }
    }

    /// Whether a call must come with who calls.
    pub fn is_for_callers(&self) -> bool {
        matches!(&self.reach, Reach::Http(address) if address.credential.is_for_callers())
    }

    /// Whether this caller can be served at all.
    ///
    /// # Errors
    /// When its credential cannot be made into one for the server.
    pub fn serves(&self, caller: &Caller) -> Result<(), UpstreamError> {
        match &self.reach {
            Reach::Http(address) => address.credential.serves(caller),
            Reach::Stdio(_) => Ok(()),
        }
    }

    /// Takes over the secrets of a newer one that is equal to this one.
    pub(crate) fn renew_from(&self, newer: &Self) {
        if let (Reach::Http(ours), Reach::Http(theirs)) = (&self.reach, &newer.reach)
            && !Arc::ptr_eq(&ours.credential, &theirs.credential)
        {
            ours.credential.renew_from(&theirs.credential);
        }
    }

    /// What may not be shown of what the server says: our credentials for it, the longest first, since one may be a part
    /// of another (spec P-03, U-16).
    pub fn secrets(&self) -> Vec<String> {
        let (values, address) = match &self.reach {
            Reach::Stdio(launch) => (launch.env.iter().map(|(_, value)| value.clone()).collect(), None),
            Reach::Http(address) => (address.credential.secrets(), Some(address)),
        };
        let values = values.iter().flat_map(|value| forms(value)).flatten();
        let keys = address.and_then(|address| address.url.query()).unwrap_or_default().split('&');
        let keys = keys.filter_map(|pair| pair.split_once('=').map(|(_, value)| value));
        let urls = address.into_iter().flat_map(|address| [Some(&address.url), address.proxy.as_ref()]);
        let passwords = urls.flatten().filter_map(Url::password);
        let all = values.chain(keys).chain(passwords);
        let mut secrets: Vec<String> = all.filter(|value| value.len() >= SECRET).map(str::to_owned).collect();
        secrets.sort_by_key(|value| std::cmp::Reverse(value.len()));
        secrets
    }
}

/// A credential as it is sent, and without the `Bearer` or the like before it: that may be said.
fn forms(value: &str) -> [Option<&str>; 2] {
    [Some(value), value.rsplit_once(' ').map(|(_, last)| last)]
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// As a process of ours.
    Stdio(Launch),
    /// Over HTTP.
    Http(Address),
}

/// Where a server is, and what we need to talk to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Its MCP endpoint, `http` or `https`.
    pub url: Url,
    /// What proves us to it, never a client's own (security 19).
    pub credential: Arc<Credential>,
    /// Certificate authorities beside those of the system, as PEM.
    pub ca: Option<Vec<u8>>,
    /// Our own certificate and its key, as PEM.
    pub client_certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// The proxy between it and us, `http`. Asked to CONNECT for `https`, to forward for `http`.
    pub proxy: Option<Url>,
    /// Whether it may be one of the oldest servers over HTTP.
    pub legacy_sse: LegacySse,
}

impl Address {
    /// An address that needs nothing but its URL.
    pub fn new(url: Url) -> Self {
        let (credential, legacy_sse) = (Credential::none(), LegacySse::default());
        Self { url, credential, ca: None, client_certificate: None, proxy: None, legacy_sse }
    }
}

impl std::fmt::Debug for Address {
    /// Credentials, keys and the proxy's password are secrets and never printed.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Address")
            .field("url", &self.url.as_str())
            .field("credential", &self.credential)
            .field("legacy_sse", &self.legacy_sse)
            .finish_non_exhaustive()
    }
}

/// Whether HTTP+SSE of 2024-11-05 is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LegacySse {
    /// When the server turns out to be that old (spec S-07).
    #[default]
    Detect,
    /// Never.
    Never,
    /// At once, without trying anything newer.
    Only,
}

/// How a stdio server is started: `SUPERVISOR __child -- PROGRAM ARGS`, never through a shell.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// Our own executable.
    pub supervisor: PathBuf,
    /// The server's program, resolved to an absolute path when the configuration was loaded.
    pub program: PathBuf,
    /// Its arguments, fixed by the operator.
    pub args: Vec<String>,
    /// What the configuration adds to the small clean environment.
    pub env: Vec<(String, String)>,
    /// Its working directory; ours when absent.
    pub dir: Option<PathBuf>,
}

impl std::fmt::Debug for Launch {
    /// Values of the environment are secrets and never printed.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        out.debug_struct("Launch")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// How long we wait for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// From starting the process to the end of the handshake.
    pub start: Duration,
    /// Silence to `server/discover` until we take the server for a legacy one.
    pub probe: Duration,
    /// From closing its stdin to SIGTERM.
    pub eof_grace: Duration,
    /// From SIGTERM to SIGKILL.
    pub term_grace: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            probe: Duration::from_secs(1),
            eof_grace: Duration::from_secs(1),
            term_grace: Duration::from_secs(2),
        }
    }
}

/// For whom a process runs. A legacy server is never shared between principals unless the tenant says so (spec P-11).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Seat {
    /// The catalog connection; also the one of `share: tenant`.
    Shared,
    /// One principal's own process.
    Principal(Arc<str>),
    /// One session's own process.
    Session(Arc<str>),
}

/// How much of a session's identifier tells it from others in a log.
const SHOWN_OF_SESSION: usize = 8;

impl std::fmt::Debug for Seat {
    /// A session's identifier lets its bearer in, so it is never printed whole.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shared => out.write_str("Shared"),
            Self::Principal(name) => out.debug_tuple("Principal").field(name).finish(),
            Self::Session(id) => {
                let mut shown: String = id.chars().take(SHOWN_OF_SESSION).collect();
                if shown.len() < id.len() {
                    shown.push('…');
                }
                out.debug_tuple("Session").field(&shown).finish()
            }
        }
    }
}

/// What the probe found out about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraFound {
    /// It speaks `initialize`.
    Legacy,
    /// It speaks `server/discover`.
    Modern,
    /// It speaks `initialize`, and anything before that ends it, wedges it or makes it modern for good (spec E-13).
    DiesWhenProbed,
}

/// Remembers what probes found, so that later seats of the same upstream start faster (spec E-16).
pub trait EraMemory: Send + Sync {
    /// What was found last, if anything.
    fn recall(&self, tenant: &str, upstream: &str) -> Option<EraFound>;
    /// Keeps what was found.
    fn remember(&self, tenant: &str, upstream: &str, found: EraFound);
}

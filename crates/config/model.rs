//! What a configuration means once it has been checked: every value here is usable as it stands.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use url::Url;

use crate::filter::{Filter, Pattern};

mod identity;
mod limits;
mod policy;

pub use identity::{
    Algorithm, Identity, Introspection, Issuer, IssuerClaims, JwksSource, LOCAL_ISSUER, TokenProof,
};
pub use limits::{Counted, LimitRule, Per, Rate, Runaway, TenantLimits};
pub use policy::{
    Approvers, Asked, Asking, Deed, Effect, Expectation, Mode, Policy, PolicyRule, PolicyTest, Principals,
    Subject, TestFacts, TestPrincipal,
};

pub use credential::{ClientProof, Credential, Fact, Grant, Signing, TokenServer};

mod credential;
mod renewal;

/// The whole checked configuration: the process and its tenants.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The URL clients know us by.
    pub public_url: Option<Url>,
    /// The certificate clients are answered with; without one they are answered in the clear.
    pub tls: Option<ServerTls>,
    /// Whether clients may speak HTTP/2.
    pub http2: bool,
    /// Whether clients may speak HTTP+SSE, the transport of 2024-11-05.
    pub legacy_sse: bool,
    /// Whose `X-Forwarded-*` headers are believed, by the address of the peer.
    pub trusted_proxies: Vec<IpNet>,
    /// Where health, metrics and status are served; never the clients' port.
    pub admin: SocketAddr,
    /// `Host` values accepted beyond the loopback names, in lower case.
    pub allowed_hosts: Vec<String>,
    /// `Origin` values accepted, in their serialised form; no other page may talk to us, loopback included.
    pub allowed_origins: Vec<String>,
    /// The folder of everything that outlives a restart.
    pub state_dir: PathBuf,
    /// How long a session lives and how many a principal may have.
    pub session: SessionLimits,
    /// The pause between keep-alive comments on an idle event stream.
    pub keepalive: Duration,
    /// The longest exposed name.
    pub names_max: usize,
    /// Sizes and counts of the process.
    pub limits: Limits,
    /// Where records go.
    pub audit: Audit,
    /// How long a list waits for upstreams in their first start.
    pub list_timeout: Duration,
    /// How long running calls may take to finish at shutdown.
    pub drain: Duration,
    /// The tenants, in the order of their files.
    pub tenants: Vec<Tenant>,
    /// Issuers whose tokens say for which tenant they are. With any of them every tenant has an identity.
    pub shared_issuers: Vec<Issuer>,
}

/// The files that clients are answered with over TLS, both PEM. They are read at start and when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The certificate and what links it to its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Bounds of legacy sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// A session nobody used for this long ends.
    pub idle: Duration,
    /// No session lives longer than this.
    pub absolute: Duration,
    /// Sessions one principal may hold at a time.
    pub per_principal: usize,
}

/// Bounds of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest message a client may send, in bytes.
    pub body: usize,
    /// The largest result an upstream may answer, in bytes.
    pub result: usize,
    /// Connections from clients open at a time.
    pub connections: usize,
}

/// Where records go and how firmly they are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Every sink gets every record.
    pub sinks: Vec<AuditSink>,
    /// What has happened to a record before its call leaves.
    pub durability: Durability,
}

/// One place where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditSink {
    /// Files in this folder.
    File(PathBuf),
    /// The standard output of the process.
    Stdout,
}

/// What has happened to a record before its call leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Handed to the operating system: it survives a killed process.
    Os,
}

/// One tenant: the isolation unit.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The name, first part of every key.
    pub name: Arc<str>,
    /// Who may ask; absent is anonymous mode.
    pub identity: Option<Identity>,
    /// The MCP servers behind us, in the order they are written.
    pub upstreams: Vec<Upstream>,
    /// The selections offered at an address each; `default` is always among them.
    pub virtual_servers: Vec<VirtualServer>,
    /// Who may do what; without rules everything that is shown may be called.
    pub policy: Option<Policy>,
    /// How much may be asked for.
    pub limits: TenantLimits,
    /// Globs over the extension ids that clients and upstreams may negotiate.
    pub extensions: Vec<String>,
    /// The most upstream processes started for single principals.
    pub processes: usize,
    /// What upstreams may ask of clients beyond elicitation.
    pub allow: Vec<Asks>,
    /// The HTTP status that errors have.
    pub error_status: ErrorStatus,
}

/// The HTTP status that JSON-RPC errors have in the modern era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorStatus {
    /// The one the protocol names.
    Protocol,
    /// Always 200.
    Ok,
}

/// One configured MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The id, unique in its tenant; it begins the exposed names.
    pub id: Arc<str>,
    /// How it is reached.
    pub transport: Transport,
    /// How far its answers and definitions are trusted.
    pub trust: Trust,
    /// Who shares one connection.
    pub share: Share,
    /// What users are told it is called when it asks them something.
    pub label: Option<Arc<str>>,
    /// Which tools are visible.
    pub tools: Filter,
    /// Which of them carry data out, by native name; empty is none.
    pub egress: Vec<Pattern>,
    /// What a token must carry for whatever it offers.
    pub scopes: Vec<String>,
    /// What a token must carry besides for tools of these native names.
    pub tool_scopes: Vec<(Pattern, Vec<String>)>,
    /// Which prompts are visible.
    pub prompts: Filter,
    /// Which resources and templates are visible, by URI.
    pub resources: Filter,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// Tools beyond this many are dropped.
    pub max_tools: usize,
}

/// How an upstream is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks on its standard input and output.
    Stdio {
        /// The program, resolved at load: an absolute path.
        program: PathBuf,
        /// Its arguments, never a shell string.
        args: Vec<String>,
        /// What is added to its minimal environment.
        env: Vec<(String, Secret)>,
        /// Its working directory.
        dir: Option<PathBuf>,
    },
    /// A server that speaks HTTP.
    Http {
        /// Its endpoint: https, or on this machine, or the operator accepts that it is in the clear.
        url: Url,
        /// What proves us to it.
        credential: Box<Credential>,
        /// Authorities accepted beside those of the system, in a PEM file.
        ca: Option<PathBuf>,
        /// The certificate we show, in a PEM file; only together with `key`.
        cert: Option<PathBuf>,
        /// The private key of `cert`.
        key: Option<PathBuf>,
        /// The proxy it is reached through, over http and without credentials.
        proxy: Option<Url>,
        /// Whether it may speak the old HTTP+SSE transport.
        sse: Sse,
    },
}

/// Whether an upstream is spoken to over HTTP+SSE, the transport of 2024-11-05.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sse {
    /// When it does not understand Streamable HTTP.
    Detect,
    /// Never.
    Never,
    /// Always; nothing else is tried.
    Only,
}

/// How far an upstream is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// Nothing it says is taken on faith.
    Untrusted,
    /// The usual tier.
    Standard,
    /// Run or reviewed by the operator.
    Trusted,
}

impl Trust {
    /// The word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Trust::Untrusted => "untrusted",
            Trust::Standard => "standard",
            Trust::Trusted => "trusted",
        }
    }
}

/// What upstreams may ask of clients where the tenant allows it (spec Q-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asks {
    /// What the client's model says.
    Sampling,
    /// Which folders it works in, asked by programs on this machine.
    Roots,
    /// The same, asked by servers over HTTP too.
    RemoteRoots,
}

/// Who shares one connection to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// Everybody of the tenant.
    Tenant,
    /// The sessions of one principal.
    Principal,
    /// Nobody: each session has its own.
    Session,
}

/// How long an upstream may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From start to a finished handshake.
    pub start: Duration,
    /// A call without any sign of progress.
    pub call: Duration,
    /// A call, whatever progress it reports.
    pub call_max: Duration,
    /// One page of a list.
    pub list: Duration,
    /// A user, or a model, that is asked something.
    pub answer: Duration,
}

/// A named selection of upstreams at an address of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualServer {
    /// The name in the address; `default` stands for `/mcp` itself.
    pub name: Arc<str>,
    /// The upstreams it is made of.
    pub upstreams: Vec<Arc<str>>,
    /// Which of their tools are visible here, by native name.
    pub tools: Filter,
    /// Which of their prompts are visible here.
    pub prompts: Filter,
    /// Which of their resources are visible here.
    pub resources: Filter,
    /// The operator accepts that trust tiers mix.
    pub mixed_trust: bool,
    /// How its things are called.
    pub names: Naming,
}

/// How a virtual server calls what its upstreams have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Naming {
    /// With the id of the upstream in front.
    Prefixed,
    /// As the upstream itself does; it has only one.
    Bare,
}

/// A value that may be secret: it prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the value out of sight.
    pub fn new(value: String) -> Secret {
        Secret(value)
    }

    /// The value itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

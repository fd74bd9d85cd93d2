//! The gateway as a whole: what it is made of, and the order in which it starts and stops.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use admission::{Checks, TenantId};
use arc_swap::ArcSwap;
use config::{Config, Transport};
use tokio::sync::mpsc;
use upstream::{Address, Declared, EraMemory, Launch, LegacySse, Patience, Pool, Reach, Seat, Spec};

use crate::{
    approval::Approvals,
    arrival::Endpoint,
    asking::{self, Asking},
    audit::Audit,
    authn::{Authn, IdentityError},
    catalog::{Catalog, Source, Terms, refresh::Refresh},
    credential,
    limits::{self, Limits},
    logging,
    policy::{self, PolicyError},
    router::{Router, seat_key},
    seal::{Seal, SealError},
    session::{Session, SessionLimits, Sessions},
    snapshot::Snapshot,
    store::{Eras, Store, StoreError},
    subscriptions::Subscriptions,
    tasks::Tasks,
    telemetry::Metrics,
    tokens::{Known, Tokens, TokensError},
};

/// Processes of a principal stop after this long without a call.
const IDLE_PROCESS: Duration = Duration::from_secs(5 * 60);
/// Requests of a session that has ended are given up within so long.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Notices from upstreams that may wait to be sorted.
const NOTICES: usize = 1024;

mod reload;

pub use reload::Reloaded;

/// The gateway.
pub struct Gateway {
    pub(crate) config: Arc<Config>,
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) sessions: Sessions,
    pub(crate) limits: Arc<Limits>,
    pub(crate) approvals: Approvals,
    pub(crate) router: Router,
    pub(crate) audit: Arc<Audit>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) started: Instant,
    supervisor: PathBuf,
    reloading: tokio::sync::Mutex<()>,
    /// Why the last configuration was not taken; none after one that was.
    refused: std::sync::Mutex<Option<String>>,
    store: Arc<Store>,
    tokens: Arc<Tokens>,
    eras: Arc<Eras>,
    refresh: OnceLock<Refresh>,
}

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No tenant is configured.
    #[error("no tenant is configured: write a tenant file and name it under `tenants`")]
    NoTenant,
    /// A file that an upstream names cannot be read.
    #[error("`{path}` cannot be read: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        why: io::Error,
    },
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keys and revocations cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The identities cannot be told apart, or their keys cannot be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A rule does not compile.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// What proves us to an upstream cannot be used.
    #[error("the credential of upstream `{upstream}` cannot be used: {why}")]
    Credential {
        /// The upstream.
        upstream: Arc<str>,
        /// What is wrong with it.
        why: String,
    },
    /// The sealing keys are unusable.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// No record could be written, so nothing may be served.
    #[error("the audit log cannot be written: {0}")]
    Audit(#[source] io::Error),
    /// The metrics could not be registered.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

impl Gateway {
    /// Opens the store and the audit log, and starts one connection to every upstream. Does not wait for
    /// any of them.
    ///
    /// # Errors
    /// When something that must outlive a request cannot be opened. Upstreams never keep it from starting.
    pub async fn open(config: Arc<Config>, supervisor: PathBuf) -> Result<Arc<Gateway>, OpenError> {
        let metrics = Metrics::new()?;
        let store = Arc::new(Store::open(&config.state_dir).await?);
        let tokens = Arc::new(Tokens::load(Arc::clone(&store)).await?);
        let seal = Seal::new(store.seal_keys().await?)?;
        let eras = Arc::new(Eras::new(store.eras().await?));
        let audit = Audit::start(&config.audit, Arc::clone(&metrics)).map_err(OpenError::Audit)?;
        let (notice_sender, notices) = mpsc::channel(NOTICES);
        let memory: Arc<dyn EraMemory> = Arc::clone(&eras) as _;
        let pool = Pool::new(memory, notice_sender, IDLE_PROCESS);
        // What it signs may be asked for by any later configuration.
        tokens.prepare().await?;
        let compiled = compiled(&config, (&supervisor, tokens.known()), None)?;
        let snapshot = Arc::new(ArcSwap::from_pointee(compiled.in_force(Arc::clone(&config), None)));
        let session_limits = SessionLimits {
            idle: config.session.idle,
            absolute: config.session.absolute,
            per_principal: config.session.per_principal,
        };
        let limits = Arc::new(Limits::new());
        let (ended_sender, ended) = mpsc::unbounded_channel();
        let gateway = Arc::new(Gateway {
            snapshot: Arc::clone(&snapshot),
            sessions: Sessions::new(session_limits, Arc::clone(&metrics), ended_sender),
            limits: Arc::clone(&limits),
            approvals: Approvals,
            router: Router {
                snapshot,
                pool,
                result_limit: config.limits.result,
                subscriptions: Subscriptions::new(),
                seal,
                asking: Asking::new(Arc::clone(&audit), Arc::clone(&limits), Arc::clone(&metrics)),
                tasks: Tasks::new(Arc::clone(&metrics)),
            },
            audit,
            metrics,
            started: Instant::now(),
            store,
            tokens,
            eras,
            refresh: OnceLock::new(),
            supervisor,
            reloading: tokio::sync::Mutex::default(),
            refused: std::sync::Mutex::default(),
            config,
        });
        let refresh = Refresh::start(&gateway, notices, ended);
        // Set once, here; the cell only breaks the circle between the gateway and its tasks.
        let _ = gateway.refresh.set(refresh);
        gateway.start_catalog_connections();
        gateway.metrics.configured();
        Ok(gateway)
    }

    /// One connection an upstream, for its lists (product rule "Catalog connections").
    fn start_catalog_connections(&self) {
        for catalog in self.catalogs() {
            let terms = catalog.terms();
            for source in terms.sources.values() {
                if let Err(error) =
                    self.router.pool.seat(&source.spec, Seat::Shared, Declared::nothing(), terms.processes)
                {
                    tracing::error!(tenant = %catalog.tenant, upstream = %source.config.id, %error, "not started");
                }
            }
        }
    }

    /// Every tenant's catalog.
    pub(crate) fn catalogs(&self) -> Vec<Arc<Catalog>> {
        self.snapshot.load().catalogs.values().cloned().collect()
    }

    /// Stops the processes that only this session used (spec H-14).
    pub(crate) async fn release(&self, session: &Session) {
        self.router.subscriptions.ended(session);
        if session.hearing.wanted().is_some()
            && let Some(catalog) = self.snapshot.load().catalogs.get(&session.principal.tenant)
        {
            // Nobody else may want to hear as much.
            logging::spread_from(&self.router, &self.sessions, catalog, session);
        }
        // What was given up is told to its upstream before that is stopped.
        let _ = tokio::time::timeout(LAST_WORDS, session.rest()).await;
        let tenant = session.principal.tenant.name();
        self.router.pool.release(tenant, &Seat::Session(Arc::clone(&session.name))).await;
        if session.principal.issuer.is_empty() {
            // An anonymous session was a principal of its own, and will not come back.
            self.router.tasks.forget_all(&session.principal);
            self.router.pool.release(tenant, &Seat::Principal(seat_key(&session.principal))).await;
        }
    }

    /// Keeps what was learned about upstreams' eras for the next start.
    pub(crate) async fn save_eras(&self) {
        let learned = self.eras.unsaved();
        if learned.is_empty() {
            return;
        }
        if let Err(error) = self.store.remember_eras(&learned).await {
            // Soft: the next start probes again.
            tracing::warn!(%error, "upstream eras were not saved");
        }
    }

    /// Stops in order: no new sessions, parked calls are given up, running requests finish within `drain`, streams end,
    /// upstreams stop, the audit log is flushed, the store closes.
    pub async fn drain(&self) {
        self.sessions.drain();
        self.router.subscriptions.close();
        // Nobody comes back to them: no modern request begins any more.
        self.router.asking.parking.close().await;
        if tokio::time::timeout(self.config.drain, self.sessions.tracker.wait()).await.is_err() {
            tracing::warn!(drain = ?self.config.drain, "requests still running are given up");
        }
        self.sessions.end_all();
        self.sessions.tracker.wait().await;
        self.router.tasks.rest().await;
        if let Some(refresh) = self.refresh.get() {
            refresh.stop().await;
        }
        self.router.pool.stop_all().await;
        self.audit.stop().await;
        self.store.close().await;
    }

    /// The API keys, local tokens and revocations of this gateway.
    pub fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.tokens)
    }

    /// The RFC 9728 document of an endpoint; none where no issuer vouches for anybody (spec ).
    pub fn metadata(&self, endpoint: &Endpoint) -> Option<String> {
        self.snapshot.load().authn.metadata(endpoint)
    }

    /// The JWK set of what the gateway signs: upstreams check with it who calls.
    pub fn keys(&self) -> Option<String> {
        Some(self.tokens.known().local()?.jwks())
    }

    /// Whether every issuer's keys are known: before that its tokens cannot be checked, and are refused.
    pub fn is_ready(&self) -> bool {
        self.snapshot.load().authn.keyless_issuers().is_empty()
    }

    /// Everything counted, in the Prometheus text format.
    pub fn metrics(&self) -> String {
        for (tenant, upstream, restarts) in self.router.pool.restarts() {
            self.metrics.upstream_restarted(&tenant, &upstream, restarts);
        }
        self.metrics.render()
    }
}

type Sources = BTreeMap<Arc<str>, Source>;

/// A configuration, compiled and not in force yet.
struct Compiled {
    authn: Authn,
    checks: Checks,
    limits: limits::Rules,
    terms: Vec<(TenantId, Terms)>,
}

/// Compiles a configuration. Keys of issuers that were read for an earlier one are not read again.
fn compiled(
    config: &Config,
    (supervisor, known): (&Path, &Arc<Known>),
    before: Option<&Authn>,
) -> Result<Compiled, OpenError> {
    if config.tenants.is_empty() {
        return Err(OpenError::NoTenant);
    }
    let authn = Authn::compile(config, known, before)?;
    let checks = Checks { policy: policy::compile(config)?, ..Checks::default() };
    let mut terms = Vec::new();
    for tenant in &config.tenants {
        let sources = sources(tenant, config, (supervisor, known))?;
        terms.push((TenantId::new(Arc::clone(&tenant.name)), Terms::new(tenant, sources, config)));
    }
    Ok(Compiled { authn, checks, limits: limits::Rules::compile(config), terms })
}

impl Compiled {
    /// In force from now on. Catalogs of the snapshot before go on under their new terms; in the others every upstream is
    /// about to start.
    fn in_force(self, config: Arc<Config>, before: Option<&Snapshot>) -> Snapshot {
        let now = Instant::now();
        let catalog = |(tenant, terms): (TenantId, Terms)| {
            let catalog = match before.and_then(|before| before.catalogs.get(&tenant)) {
                Some(catalog) => {
                    catalog.retune(terms, now);
                    Arc::clone(catalog)
                }
                None => Arc::new(Catalog::new(tenant.clone(), terms, now)),
            };
            (tenant, catalog)
        };
        let catalogs = self.terms.into_iter().map(catalog).collect();
        Snapshot { config, authn: self.authn, checks: self.checks, limits: self.limits, catalogs }
    }
}

fn sources(
    tenant: &config::Tenant,
    config: &Config,
    (supervisor, known): (&Path, &Arc<Known>),
) -> Result<Sources, OpenError> {
    /// Room beyond `limits.result`: a result that is a little too large is refused by name, and only one
    /// that is much larger costs the upstream its process.
    const SLACK: usize = 1024 * 1024;
    let mut sources = BTreeMap::new();
    for upstream in &tenant.upstreams {
        let patience = Patience { start: upstream.timeouts.start, ..Patience::default() };
        let spec = Spec {
            tenant: Arc::clone(&tenant.name),
            id: Arc::clone(&upstream.id),
            reach: reach(&tenant.name, upstream, (supervisor, known))?,
            modern: true,
            patience,
            line_cap: config.limits.result.saturating_add(SLACK),
        };
        let reach = asking::Reach::of(upstream, &tenant.allow);
        let source = Source { config: upstream.clone(), spec: Arc::new(spec), reach };
        sources.insert(Arc::clone(&upstream.id), source);
    }
    Ok(sources)
}

/// How an upstream is reached, with everything read that it names.
fn reach(
    tenant: &Arc<str>,
    upstream: &config::Upstream,
    (supervisor, known): (&Path, &Arc<Known>),
) -> Result<Reach, OpenError> {
    match &upstream.transport {
        Transport::Stdio { program, args, env, dir } => Ok(Reach::Stdio(Launch {
            supervisor: supervisor.to_owned(),
            program: program.clone(),
            args: args.clone(),
            env: env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
            dir: dir.clone(),
        })),
        Transport::Http { url, credential, ca, cert, key, proxy, sse } => {
            let read = |path: &PathBuf| {
                std::fs::read(path).map_err(|why| OpenError::File { path: path.clone(), why })
            };
            let certificate = match (cert, key) {
                (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
                (Some(_) | None, _) => None,
            };
            let ca = ca.as_ref().map(read).transpose()?;
            let credential =
                credential::compile((tenant, &upstream.id), credential, (url, ca.as_deref()), known)?;
            Ok(Reach::Http(Address {
                url: url.clone(),
                credential,
                ca,
                client_certificate: certificate,
                proxy: proxy.clone(),
                legacy_sse: match sse {
                    config::Sse::Detect => LegacySse::Detect,
                    config::Sse::Never => LegacySse::Never,
                    config::Sse::Only => LegacySse::Only,
                },
            }))
        }
    }
}

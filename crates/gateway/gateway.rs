//! The gateway as a whole: what it is made of, and the order in which it starts and stops.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use admission::{Checks, TenantId};
use arc_swap::ArcSwap;
use config::{Config, Transport};
use tokio::sync::mpsc;
use upstream::{EraMemory, Launch, Patience, Pool, Seat, Spec};

use crate::{
    approval::Approvals,
    audit::Audit,
    authn::Authn,
    catalog::{Catalog, Source, refresh::Refresh},
    limits::Limits,
    router::Router,
    seal::{Seal, SealError},
    session::{Session, SessionLimits, Sessions},
    snapshot::Snapshot,
    store::{Eras, Store, StoreError},
    telemetry::Metrics,
};

/// Processes of a principal stop after this long without a call.
const IDLE_PROCESS: Duration = Duration::from_secs(5 * 60);
/// Notices from upstreams that may wait to be sorted.
const NOTICES: usize = 1024;

/// The gateway.
pub struct Gateway {
    pub(crate) config: Arc<Config>,
    pub(crate) snapshot: ArcSwap<Snapshot>,
    pub(crate) sessions: Sessions,
    pub(crate) limits: Limits,
    pub(crate) approvals: Approvals,
    pub(crate) router: Router,
    pub(crate) audit: Arc<Audit>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) started: Instant,
    store: Store,
    eras: Arc<Eras>,
    refresh: OnceLock<Refresh>,
}

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No tenant is configured.
    #[error("no tenant is configured: write a tenant file and name it under `tenants`")]
    NoTenant,
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
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
        let store = Store::open(&config.state_dir).await?;
        let seal = Seal::new(store.seal_keys().await?)?;
        let eras = Arc::new(Eras::new(store.eras().await?));
        let audit = Audit::start(&config.audit, Arc::clone(&metrics)).map_err(OpenError::Audit)?;
        let (notice_sender, notices) = mpsc::channel(NOTICES);
        let memory: Arc<dyn EraMemory> = Arc::clone(&eras) as _;
        let pool = Pool::new(memory, notice_sender, IDLE_PROCESS);
        let snapshot = compile(&config, &supervisor).ok_or(OpenError::NoTenant)?;
        let limits = SessionLimits {
            idle: config.session.idle,
            absolute: config.session.absolute,
            per_principal: config.session.per_principal,
        };
        let (ended_sender, ended) = mpsc::unbounded_channel();
        let gateway = Arc::new(Gateway {
            snapshot: ArcSwap::from_pointee(snapshot),
            sessions: Sessions::new(limits, Arc::clone(&metrics), ended_sender),
            limits: Limits,
            approvals: Approvals,
            router: Router { pool, result_limit: config.limits.result, seal },
            audit,
            metrics,
            started: Instant::now(),
            store,
            eras,
            refresh: OnceLock::new(),
            config,
        });
        let refresh = Refresh::start(&gateway, notices, ended);
        // Set once, here; the cell only breaks the circle between the gateway and its tasks.
        let _ = gateway.refresh.set(refresh);
        gateway.start_catalog_connections();
        Ok(gateway)
    }

    /// One connection an upstream, for its lists (product rule "Catalog connections").
    fn start_catalog_connections(&self) {
        for catalog in self.catalogs() {
            for source in catalog.sources.values() {
                if let Err(error) = self.router.pool.seat(&source.spec, Seat::Shared, catalog.processes) {
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
        let tenant = session.principal.tenant.name();
        self.router.pool.release(tenant, &Seat::Session(Arc::clone(&session.id))).await;
        if session.principal.issuer.is_empty() {
            // An anonymous session was a principal of its own, and will not come back.
            self.router.pool.release(tenant, &Seat::Principal(Arc::clone(&session.principal.subject))).await;
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

    /// Stops in order: no new sessions, running requests finish within `drain`, streams end, upstreams
    /// stop, the audit log is flushed, the store closes.
    pub async fn drain(&self) {
        self.sessions.drain();
        if tokio::time::timeout(self.config.drain, self.sessions.tracker.wait()).await.is_err() {
            tracing::warn!(drain = ?self.config.drain, "requests still running are given up");
        }
        self.sessions.end_all();
        self.sessions.tracker.wait().await;
        if let Some(refresh) = self.refresh.get() {
            refresh.stop().await;
        }
        self.router.pool.stop_all().await;
        self.audit.stop().await;
        self.store.close().await;
    }

    /// Everything counted, in the Prometheus text format.
    pub fn metrics(&self) -> String {
        self.metrics.render()
    }
}

/// Config → snapshot. None when there is nothing to serve.
fn compile(config: &Config, supervisor: &Path) -> Option<Snapshot> {
    let now = Instant::now();
    let catalogs: HashMap<TenantId, Arc<Catalog>> = config
        .tenants
        .iter()
        .map(|tenant| {
            let sources = sources(tenant, config, supervisor);
            let catalog = Catalog::new(tenant, sources, config, now);
            (catalog.tenant.clone(), Arc::new(catalog))
        })
        .collect();
    let tenant = TenantId::new(Arc::clone(&config.tenants.first()?.name));
    Some(Snapshot { authn: Authn::anonymous(tenant), checks: Checks::default(), catalogs })
}

fn sources(tenant: &config::Tenant, config: &Config, supervisor: &Path) -> BTreeMap<Arc<str>, Source> {
    let source = |upstream: &config::Upstream| {
        let Transport::Stdio { program, args, env, dir } = &upstream.transport;
        let launch = Launch {
            supervisor: supervisor.to_owned(),
            program: program.clone(),
            args: args.clone(),
            env: env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
            dir: dir.clone(),
        };
        let patience = Patience {
            start: upstream.timeouts.start,
            call: upstream.timeouts.call,
            call_max: upstream.timeouts.call_max,
            list: upstream.timeouts.list,
            ..Patience::default()
        };
        /// A line may carry more than one result: a whole list, or a result that is then refused by name.
        const LINE_CAP: usize = 16 * 1024 * 1024;
        let spec = Spec {
            tenant: Arc::clone(&tenant.name),
            id: Arc::clone(&upstream.id),
            launch,
            patience,
            line_cap: config.limits.result.max(LINE_CAP),
        };
        (Arc::clone(&upstream.id), Source { config: upstream.clone(), spec: Arc::new(spec) })
    };
    tenant.upstreams.iter().map(source).collect()
}

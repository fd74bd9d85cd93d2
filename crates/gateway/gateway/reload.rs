//! A new configuration in the place of the old one, while everything goes on that did not change.

use std::sync::{Arc, MutexGuard, PoisonError};

use admission::TenantId;
use config::Config;

use super::{Gateway, OpenError, compiled};

/// What came of a new configuration that was taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// Keys that changed and hold from the next start on only.
    pub needs_restart: Vec<&'static str>,
}

impl Gateway {
    /// The configuration that calls are answered by now.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.snapshot.load().config)
    }

    /// Takes a checked configuration in the place of the one before: all of it, or nothing. What did not change keeps its
    /// processes, its connections and its running calls; whoever is served by what is gone finishes within `drain`. Does
    /// not wait for upstreams.
    ///
    /// # Errors
    /// When something that it names cannot be used; everything is as before then.
    pub async fn reload(self: &Arc<Self>, config: Config) -> Result<Reloaded, OpenError> {
        // One at a time; whoever comes later has read the files later.
        let _turn = self.reloading.lock().await;
        let old = self.snapshot.load_full();
        let needs_restart = old.config.needs_restart(&config);
        let config = Arc::new(old.config.taking(config));
        let fresh = compiled(&config, (&self.supervisor, self.tokens.known()), Some(&old.authn))?;
        // From here on nothing can fail.
        self.snapshot.store(Arc::new(fresh.in_force(config, Some(&old))));
        self.follow();
        self.metrics.reloaded(true);
        *self.refused() = None;
        Ok(Reloaded { needs_restart })
    }

    /// The files say something that cannot be taken; the operator sees why in `/status`.
    pub fn reload_refused(&self, why: String) {
        self.metrics.reloaded(false);
        *self.refused() = Some(why);
    }

    /// Why the files and what is in force differ, if they do.
    pub(crate) fn refused(&self) -> MutexGuard<'_, Option<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings what runs beside requests in line with the snapshot.
    fn follow(self: &Arc<Self>) {
        if let Some(refresh) = self.refresh.get() {
            refresh.follow(self);
        }
        let snapshot = self.snapshot.load_full();
        let source = |tenant: &Arc<str>, id: &str| {
            snapshot.catalogs.get(&TenantId::new(Arc::clone(tenant))).and_then(|catalog| catalog.source(id))
        };
        let patience = snapshot.config.drain;
        self.router.pool.retire(patience, |spec| {
            source(&spec.tenant, &spec.id).is_some_and(|source| *source.spec == *spec)
        });
        self.start_catalog_connections();
        for session in self.sessions.all() {
            let catalog = snapshot.catalogs.get(&session.principal.tenant);
            // Nobody could answer it any more.
            if catalog.and_then(|catalog| catalog.server(&session.server)).is_none() {
                self.sessions.end(&session);
            }
        }
    }
}

//! Reads the configuration again: on SIGHUP, and when one of its files changes.
//!
//! What changed is found by reading, not by what the system tells of files: a folder in which anything happened is a
//! reason to look, and a reading that gives the same texts is none to do anything. So files may be written in place,
//! replaced, or be links that are bent over, as those of a ConfigMap are.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use config::{Loaded, Problem, Severity};
use gateway::Gateway;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
    time::{sleep, timeout},
};

use crate::{
    failure::Failure,
    files::{Disk, Texts},
};

/// Changes that come closer together than this are one.
const SETTLE: Duration = Duration::from_millis(200);

/// However much goes on in a folder, it is looked into after this long.
const LONGEST_SETTLE: Duration = Duration::from_millis(600);

/// How often the files are read without a sign, for file systems that give none.
const LOOK: Duration = Duration::from_secs(30);

/// Follows the files of a configuration.
pub(crate) struct Reload {
    main: PathBuf,
    /// What the files said when they were last read.
    texts: Texts,
    hangup: Signal,
    stirred: Arc<Notify>,
    /// None where the system cannot tell of changes: they are looked for then.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
}

/// Reads the configuration whose main file this is, and says what was read for it.
pub(crate) fn read(main: &Path) -> (Result<Loaded, Vec<Problem>>, Texts) {
    let disk = Disk::beside(main);
    (config::load(main, &disk), disk.texts())
}

impl Reload {
    /// Follows the files that were read for a main file. From here on a SIGHUP ends nobody.
    pub(crate) fn new(main: PathBuf, texts: Texts) -> Result<Reload, Failure> {
        let hangup = signal(SignalKind::hangup())
            .map_err(|error| Failure::system(format!("cannot watch signals: {error}")))?;
        let stirred = Arc::new(Notify::new());
        let rings = Arc::clone(&stirred);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is no change, and is what we do ourselves.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                rings.notify_one();
            }
        });
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(%error, "changes of files are looked for every half minute"))
            .ok();
        let mut reload = Reload { main, texts, hangup, stirred, watcher, folders: BTreeSet::new() };
        reload.watch();
        Ok(reload)
    }

    /// Reloads whenever there is a reason to. Never ends.
    pub(crate) async fn follow(mut self, gateway: Arc<Gateway>) {
        loop {
            let asked = tokio::select! {
                biased;
                _ = self.hangup.recv() => true,
                () = self.stirred.notified() => self.settle().await,
                () = sleep(LOOK) => false,
            };
            let main = self.main.clone();
            // Reads files, and compiles patterns: not on a thread that carries messages.
            let Ok((loaded, texts)) = tokio::task::spawn_blocking(move || read(&main)).await else {
                continue;
            };
            if asked || texts != self.texts {
                self.texts = texts;
                take(&gateway, loaded).await;
                self.watch();
            }
        }
    }

    /// Returns when nothing has stirred for a moment, or at once on SIGHUP, as is said: who writes files and then asks for
    /// them to be read is done with writing.
    async fn settle(&mut self) -> bool {
        let quiet = async { while timeout(SETTLE, self.stirred.notified()).await.is_ok() {} };
        tokio::select! {
            biased;
            _ = self.hangup.recv() => true,
            _ = timeout(LONGEST_SETTLE, quiet) => false,
        }
    }

    /// Watches the folders of everything that was read, and of what was looked for.
    fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let wanted = self.texts.folders();
        for gone in self.folders.difference(&wanted) {
            let _ = watcher.unwatch(gone);
        }
        for folder in wanted.difference(&self.folders) {
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                // It may not exist; what lies in it is looked for all the same.
                tracing::debug!(folder = %folder.display(), %error, "cannot watch a folder");
            }
        }
        self.folders = wanted;
    }
}

/// Puts what was read in force, or says why not.
async fn take(gateway: &Arc<Gateway>, loaded: Result<Loaded, Vec<Problem>>) {
    let Loaded { config, warnings, .. } = match loaded {
        Ok(loaded) => loaded,
        Err(problems) => return refused(gateway, config::render(&problems).trim_end().to_owned()),
    };
    for warning in warnings.iter().filter(|warning| warning.severity == Severity::Warning) {
        let (file, line, path) = (warning.file.display(), warning.line, &warning.path);
        tracing::warn!(%file, line, path, "{}", warning.message);
    }
    match gateway.reload(config).await {
        Ok(reloaded) => {
            tracing::info!("the configuration was reloaded");
            if !reloaded.needs_restart.is_empty() {
                let keys = reloaded.needs_restart.join(", ");
                tracing::warn!(keys, "changed keys hold from the next start on only");
            }
        }
        Err(error) => refused(gateway, error.to_string()),
    }
}

fn refused(gateway: &Gateway, why: String) {
    tracing::error!("the configuration was not reloaded, the one before goes on:\n{why}");
    gateway.reload_refused(why);
}

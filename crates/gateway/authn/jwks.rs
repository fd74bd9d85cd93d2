//! The published keys of one issuer, kept fresh: read at start, every few minutes, and when a token names
//! a key nobody knows.
//!
//! One task an issuer does all reading, so there is never more than one request to it, and never more than
//! one in half a minute because of tokens, whatever tokens arrive (spec A-13, security row 18). What cannot be read changes
//! nothing for a day: an identity provider that is down locks nobody out.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use sha2::Digest as _;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use upstream::egress::{Client, Destination, EgressError, LARGEST, PATIENCE};
use url::Url;

use super::{
    keys::{KeySet, KeysError},
    site::{Site, SiteError},
};

/// Keys are read again after this long: it bounds how long a key that was withdrawn is still believed.
const REFRESH: Duration = Duration::from_secs(5 * 60);
/// No two readings are closer together than this, whatever tokens ask for.
const BETWEEN: Duration = Duration::from_secs(30);
/// While there are no keys at all nobody can be let in, so it is tried more often.
const RETRY: Duration = Duration::from_secs(10);
/// Keys that could not be read again for this long are not believed any more.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// Keys are being read.
const READS: u8 = 0;
/// Who wishes for a reading gets one.
const LISTENS: u8 = 1;
/// Somebody wished for one within the last half minute.
const DEAF: u8 = 2;

/// The keys of one issuer.
pub(super) struct Jwks {
    issuer: Arc<str>,
    origin: Origin,
    held: ArcSwapOption<Held>,
    /// The next edition. Never given twice, not even when there were no keys in between: a token that was
    /// verified with keys of one edition must not come back with another.
    editions: AtomicU64,
    wanted: Notify,
    /// [`READS`], [`LISTENS`] or [`DEAF`].
    hears: AtomicU8,
    /// Counts readings, so that one can wait for the next.
    readings: watch::Sender<u64>,
}

/// Keys that were read.
pub(super) struct Held {
    /// The keys.
    pub(super) keys: KeySet,
    /// Changes with the keys, and only then.
    pub(super) edition: u64,
    hash: [u8; 32],
    read: Instant,
}

/// Where keys are read.
pub(super) enum Origin {
    File(PathBuf),
    Url(Url, Arc<Client>),
    /// Where the metadata of the issuer say.
    Metadata(Site, Arc<Client>),
}

/// Why keys could not be read. Names neither a host nor what was answered.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    File(#[source] io::Error),
    /// There is no whole answer.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The answer is no success; redirects are not followed.
    #[error("it answered with status {0}")]
    Status(u16),
    /// The issuer does not say where they are.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The text gives no keys.
    #[error(transparent)]
    Keys(#[from] KeysError),
}

impl Jwks {
    /// Nothing is read yet.
    pub(super) fn new(issuer: Arc<str>, origin: Origin) -> Jwks {
        Jwks {
            issuer,
            origin,
            held: ArcSwapOption::empty(),
            editions: AtomicU64::new(0),
            wanted: Notify::new(),
            hears: AtomicU8::new(READS),
            readings: watch::Sender::new(0),
        }
    }

    /// The keys as they were last read.
    pub(super) fn held(&self) -> Option<Arc<Held>> {
        self.held.load_full()
    }

    /// Whether they are read there.
    pub(super) fn is_read_from(&self, origin: &Origin) -> bool {
        match (&self.origin, origin) {
            (Origin::File(ours), Origin::File(theirs)) => ours == theirs,
            (Origin::Url(ours, _), Origin::Url(theirs, _)) => ours == theirs,
            (Origin::Metadata(ours, _), Origin::Metadata(theirs, _)) => ours.url == theirs.url,
            (Origin::File(_) | Origin::Url(..) | Origin::Metadata(..), _) => false,
        }
    }

    /// Whose keys these are.
    pub(super) fn issuer(&self) -> &Arc<str> {
        &self.issuer
    }

    /// Reads a file now, so that a wrong path is told at start. A URL is left to [`Jwks::watch`].
    pub(super) fn prime(&self) -> Result<(), JwksError> {
        match &self.origin {
            Origin::File(path) => self.hold(&read_file(path)?),
            Origin::Url(..) | Origin::Metadata(..) => Ok(()),
        }
    }

    /// Keeps the keys fresh; never ends. INVARIANT: runs once for each of these.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut well = true;
        let mut wished: Option<Instant> = None;
        loop {
            let done = self.read().await;
            well = self.report(done, well);
            let pause = match (well, self.held().is_some()) {
                (true, _) => REFRESH,
                (false, true) => BETWEEN,
                (false, false) => RETRY,
            };
            // Only readings that tokens asked for keep the next of them waiting: a key may be new since the last.
            let until = wished.map_or_else(Instant::now, |wished| wished + BETWEEN);
            self.hears.store(if until > Instant::now() { DEAF } else { LISTENS }, Ordering::SeqCst);
            self.readings.send_modify(|count| *count += 1);
            let hear = async {
                sleep_until(until).await;
                self.hears.store(LISTENS, Ordering::SeqCst);
                self.wanted.notified().await;
            };
            tokio::select! {
                () = sleep(pause) => (),
                () = hear => wished = Some(Instant::now()),
            }
            self.hears.store(READS, Ordering::SeqCst);
        }
    }

    /// Asks for a reading, or joins the one that is under way, and waits for its end. False when none may be made now: then
    /// nothing has changed.
    pub(super) async fn fresher(&self) -> bool {
        let mut readings = self.readings.subscribe();
        match self.hears.load(Ordering::SeqCst) {
            DEAF => return false,
            LISTENS => self.wanted.notify_one(),
            _ => (),
        }
        // A little longer than a reading may take.
        timeout(PATIENCE + Duration::from_secs(1), readings.changed()).await.is_ok_and(|done| done.is_ok())
    }

    pub(super) async fn read(&self) -> Result<(), JwksError> {
        match &self.origin {
            Origin::File(path) => {
                let path = path.clone();
                // The disk may be far away.
                let text = tokio::task::spawn_blocking(move || read_file(&path)).await;
                self.hold(&text.map_err(|_| EgressError::Unreachable)??)
            }
            Origin::Url(url, client) => self.hold(&fetch(client, &Destination::written(url.clone())).await?),
            Origin::Metadata(site, client) => {
                let done = timeout(PATIENCE, self.by_metadata(site, client)).await;
                let done = done.unwrap_or(Err(EgressError::Slow.into()));
                if done.is_err() {
                    // They may have moved.
                    site.forget();
                }
                done
            }
        }
    }

    async fn by_metadata(&self, site: &Site, client: &Client) -> Result<(), JwksError> {
        let known = site.metadata(client).await?;
        self.hold(&fetch(client, &site.leads("jwks_uri", known.1.jwks_uri.as_deref())?).await?)
    }

    pub(super) fn hold(&self, text: &[u8]) -> Result<(), JwksError> {
        let hash: [u8; 32] = sha2::Sha256::digest(text).into();
        let before = self.held();
        let keys = KeySet::read(text)?;
        let edition = match &before {
            Some(before) if before.hash == hash => before.edition,
            Some(_) | None => self.editions.fetch_add(1, Ordering::SeqCst),
        };
        self.held.store(Some(Arc::new(Held { keys, edition, hash, read: Instant::now() })));
        Ok(())
    }

    /// Says once that something went wrong, and once that it is well again.
    fn report(&self, done: Result<(), JwksError>, was_well: bool) -> bool {
        match done {
            Ok(()) => {
                if !was_well {
                    tracing::info!(issuer = %self.issuer, "the keys of the issuer can be read again");
                }
                true
            }
            Err(error) => {
                if self.held().is_some_and(|held| held.read.elapsed() > STALE) {
                    self.held.store(None);
                    tracing::error!(issuer = %self.issuer, %error, "the keys of the issuer are too old to be believed");
                } else if was_well {
                    tracing::warn!(issuer = %self.issuer, %error, "the keys of the issuer cannot be read");
                }
                false
            }
        }
    }
}

async fn fetch(client: &Client, to: &Destination) -> Result<Bytes, JwksError> {
    let request = http::Request::get("/")
        .header(http::header::ACCEPT, "application/jwk-set+json, application/json")
        .header(http::header::USER_AGENT, concat!("portcullis/", env!("CARGO_PKG_VERSION")))
        .body(Bytes::new())
        .map_err(|_| EgressError::Unreachable)?;
    let answer = client.fetch(to, request).await?;
    match answer.status() {
        http::StatusCode::OK => Ok(answer.into_body()),
        other => Err(JwksError::Status(other.as_u16())),
    }
}

fn read_file(path: &Path) -> Result<Bytes, JwksError> {
    use io::Read as _;
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(JwksError::File)?;
    file.take(LARGEST as u64 + 1).read_to_end(&mut text).map_err(JwksError::File)?;
    if text.len() > LARGEST { Err(EgressError::TooLarge.into()) } else { Ok(text.into()) }
}

#[cfg(test)]
mod tests;

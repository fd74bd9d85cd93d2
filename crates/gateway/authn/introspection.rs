//! Asking an issuer about a token (RFC 7662): for tokens that say nothing themselves.
//!
//! An answer is believed for a while, since a question costs a round trip. Who holds a stream is looked at again with what
//! was last answered; a message is asked for anew when that is old. While the issuer cannot be asked, what it said within
//! the last minutes goes on counting, as withdrawn keys do (security row 18), and nothing older ever does. What strangers show
//! neither takes the turns of tokens that were vouched for, nor keeps those from being asked about.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderMap, StatusCode};
use quick_cache::sync::Cache;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};
use upstream::egress::{self, Client, Destination, EgressError, SecretPlace};

use super::{
    claims::{Claims, Wrong},
    issuer::Issuer,
    site::{Site, SiteError},
    statement::{Proved, Statement, Verified},
};

/// Questions to one issuer at a time, about tokens it vouched for before and as many about others. One token is in one turn
/// only, so that nobody asks what another is asking.
const TURNS: usize = 32;
/// An answer that is larger, in bytes, is none.
const LARGEST: usize = 64 * 1024;
/// Tokens that the issuer does not know, remembered so that they are not asked for again and again.
const UNKNOWN: usize = 4096;
/// How long one of those is not asked for again.
const UNKNOWN_FOR: Duration = Duration::from_secs(10);
/// For how long all that was answered counts while the issuer cannot be asked.
pub(super) const GRACE: Duration = Duration::from_secs(5 * 60);
/// After a failure nobody asks for so long.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest wait for a turn, and for an answer.
const PATIENCE: Duration = Duration::from_secs(6);

/// How one issuer is asked.
pub(super) struct Introspection {
    client: Arc<Client>,
    place: Place,
    account: (Box<str>, config::Secret),
    cache: Duration,
    turns: [[Semaphore; TURNS]; 2],
    unknown: Cache<[u8; 32], Instant>,
    failed: Mutex<Option<Instant>>,
}

/// Where it is asked.
pub(super) enum Place {
    Written(Destination),
    Metadata(Site),
}

/// What came of a question.
pub(super) enum Answer {
    /// The token is good.
    Known(Box<Verified>),
    /// It is not, or not for us.
    Unknown,
    /// Nobody answered.
    Silent,
}

/// Why there is no answer. For the operator.
#[derive(Debug, thiserror::Error)]
enum Silence {
    #[error("{0}")]
    Site(#[from] SiteError),
    #[error("{0}")]
    Egress(#[from] EgressError),
    #[error("it answered with status {0}")]
    Status(u16),
    #[error("its answer is none to this question")]
    Unreadable,
    #[error("our account cannot be shown")]
    Account,
    #[error("it did not answer in time")]
    Late,
    #[error("it failed a moment ago")]
    Resting,
}

impl Introspection {
    /// Nothing was asked yet.
    pub(super) fn new(client: Arc<Client>, place: Place, wanted: &config::Introspection) -> Introspection {
        Introspection {
            client,
            place,
            account: (wanted.client_id.as_str().into(), wanted.client_secret.clone()),
            cache: wanted.cache,
            turns: [const { [const { Semaphore::const_new(1) }; TURNS] }; 2],
            unknown: Cache::new(UNKNOWN),
            failed: Mutex::default(),
        }
    }

    /// Whether what was answered is recent enough for a message that came then.
    pub(super) fn is_recent(&self, proved: Proved, came: Instant) -> bool {
        matches!(proved, Proved::Asked(at) if at >= came || at.elapsed() < self.cache)
    }

    /// Whether what was answered counts at all any more.
    pub(super) fn counts(&self, asked: Instant) -> bool {
        asked.elapsed() < self.cache.max(GRACE)
    }

    /// Whether the issuer said a moment ago that it does not know this token.
    pub(super) fn is_unknown(&self, name: &[u8; 32]) -> bool {
        self.unknown.get(name).is_some_and(|since| since.elapsed() < UNKNOWN_FOR)
    }

    /// The right to ask about this token, of which there was an answer before or not. None when it does not come in time.
    pub(super) async fn turn(&self, name: &[u8; 32], before: Option<Proved>) -> Option<SemaphorePermit<'_>> {
        let turns = self.turns.get(usize::from(before.is_some()))?;
        let turn = turns.get(usize::from(name[0]) % TURNS)?;
        timeout(PATIENCE, turn.acquire()).await.ok()?.ok()
    }

    /// Asks about a token.
    pub(super) async fn ask(&self, issuer: &Issuer, name: &[u8; 32], text: &str, now: u64) -> Answer {
        match self.answer(text).await {
            Ok(body) => {
                let known = body.and_then(|body| self.known(issuer, &body, text, now));
                if known.is_none() {
                    self.unknown.insert(*name, Instant::now());
                }
                known.map_or(Answer::Unknown, |verified| Answer::Known(Box::new(verified)))
            }
            Err(Silence::Resting) => Answer::Silent,
            Err(why) => {
                tracing::warn!(issuer = %issuer.name, %why, "the issuer could not be asked about a token");
                Answer::Silent
            }
        }
    }

    /// What it says; none where it does not want to hear of this token, which is no failure of its.
    async fn answer(&self, text: &str) -> Result<Option<bytes::Bytes>, Silence> {
        if self.failed().is_some_and(|since| since.elapsed() < PAUSE) {
            return Err(Silence::Resting);
        }
        let done = timeout(PATIENCE, self.send(text)).await.unwrap_or(Err(Silence::Late));
        if done.is_err()
            && let Place::Metadata(site) = &self.place
        {
            site.forget();
        }
        *self.failed() = done.is_err().then(Instant::now);
        done
    }

    fn failed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, text: &str) -> Result<Option<bytes::Bytes>, Silence> {
        let (to, shown) = match &self.place {
            Place::Written(to) => (to.clone(), SecretPlace::Header),
            Place::Metadata(site) => {
                let known = site.metadata(&self.client).await?;
                let metadata = &known.1;
                let methods = metadata.introspection_endpoint_auth_methods_supported.as_deref();
                let methods = methods.or(metadata.token_endpoint_auth_methods_supported.as_deref());
                let to = site.leads("introspection_endpoint", metadata.introspection_endpoint.as_deref())?;
                (to, SecretPlace::of(methods))
            }
        };
        let mut form = vec![("token", text.to_owned()), ("token_type_hint", "access_token".to_owned())];
        let mut headers = HeaderMap::new();
        let (id, secret) = (&*self.account.0, self.account.1.expose());
        shown.show((id, secret), &mut headers, &mut form).ok_or(Silence::Account)?;
        let answer = self.client.fetch(&to, egress::post(form, headers)).await?;
        match answer.status() {
            StatusCode::OK => (),
            // Something in front of it does not like the text of the token: that is for strangers to choose.
            StatusCode::BAD_REQUEST
            | StatusCode::FORBIDDEN
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::URI_TOO_LONG
            | StatusCode::UNPROCESSABLE_ENTITY => return Ok(None),
            other => return Err(Silence::Status(other.as_u16())),
        }
        let body = answer.into_body();
        match Claims::read(&body).and_then(|claims| claims.truth("active")) {
            Ok(_) if body.len() <= LARGEST => Ok(Some(body)),
            Ok(_) => Ok(None),
            Err(Wrong) => Err(Silence::Unreadable),
        }
    }

    /// What the answer says of the token: none when it is no good.
    fn known(&self, issuer: &Issuer, body: &[u8], text: &str, now: u64) -> Option<Verified> {
        let raw = std::str::from_utf8(body).ok()?;
        let claims = Claims::read(body).ok()?;
        if claims.truth("active") != Ok(true) {
            return None;
        }
        let is_ours = claims.optional_text("iss").ok()?.is_none_or(|name| *name == *issuer.name);
        let statement = Statement { claims: &claims, raw, text };
        // What has no end is good until it is asked for again.
        let lasts = now.saturating_add(self.cache.max(GRACE).as_secs());
        let claimed = statement.claimed(issuer, now, Some(lasts));
        let verified = claimed.and_then(|claimed| claimed.within(issuer, Proved::Asked(Instant::now())));
        let verified = verified.inspect_err(|flaw| {
            tracing::debug!(issuer = %issuer.name, %flaw, "a token that its issuer knows was refused");
        });
        verified.ok().filter(|_| is_ours)
    }
}

//! Tokens that were got for one upstream: each asked for once, whoever waits, and before it ends.

use crate::caller::Caller;
use aws_lc_rs::digest::{Context, SHA256};
use http::HeaderValue;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// Principals whose tokens are kept; beyond these the one used longest ago is forgotten.
const MOST: usize = 4096;
/// How long one asking may take in all, and how long others wait for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The end of a token when its server does not say, and the latest that is believed.
const USUAL_LIFE: Duration = Duration::from_secs(300);
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// A token is asked for again so long before its end, or after four fifths of its life.
const AHEAD: Duration = Duration::from_secs(60);
/// It is not shown any more when it would end on the way.
const ON_THE_WAY: Duration = Duration::from_secs(5);
/// A server that refuses a token this young refuses the next one too.
const YOUNG: Duration = Duration::from_secs(5);
/// After a failure nobody is asked for so long, and longer after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Tokens that are looked for in what a server says.
const LOOKED_FOR: usize = 64;

/// Whose token it is. The tenant, the upstream, the issuer and the resource are those of the credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Ourselves,
    /// A principal with the token it showed: another one may carry other scopes.
    Caller([u8; 32]),
}

impl Key {
    pub(super) fn of(caller: &Caller, bearer: &str) -> Self {
        let mut digest = Context::new(&SHA256);
        for part in [&*caller.tenant, &*caller.issuer, &*caller.subject, bearer] {
            // Its length first: no two lists of parts are the same text.
            digest.update(&part.len().to_be_bytes());
            digest.update(part.as_bytes());
        }
        let mut name = [0; 32];
        name.copy_from_slice(digest.finish().as_ref());
        Self::Caller(name)
    }
}

/// A token as it is shown.
pub(crate) struct Token {
    header: HeaderValue,
    text: String,
    got: Instant,
    fresh_until: Instant,
    ends: Instant,
}

impl Token {
    /// None when no header can carry it.
    pub(super) fn new(text: String, life: Option<Duration>) -> Option<Self> {
        let mut header = HeaderValue::try_from(format!("Bearer {text}")).ok()?;
        header.set_sensitive(true);
        let life = life.unwrap_or(USUAL_LIFE).min(LONGEST_LIFE);
        let got = Instant::now();
        let fresh_until = got + life - AHEAD.min(life / 5);
        Some(Self { header, text, got, fresh_until, ends: got + life - ON_THE_WAY.min(life / 10) })
    }

    pub(super) fn header(&self) -> &HeaderValue {
        &self.header
    }
}

impl fmt::Debug for Token {
    /// It is a secret and never printed.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(***)")
    }
}

/// Why there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoToken {
    pub(super) words: &'static str,
    /// Nobody was told before.
    pub(super) is_new: bool,
}

impl NoToken {
    pub(super) fn new(words: &'static str) -> Self {
        Self { words, is_new: true }
    }
}

#[derive(Default)]
pub(super) struct Vault(Mutex<HashMap<Key, Arc<Slot>>>);

struct Slot {
    /// One asking at a time.
    turn: Semaphore,
    held: Mutex<Held>,
}

struct Held {
    token: Option<Arc<Token>>,
    failed: Option<Failed>,
    used: Instant,
}

#[derive(Clone, Copy)]
struct Failed {
    words: &'static str,
    until: Instant,
    pause: Duration,
}

/// What there is without asking.
enum There {
    Token(Arc<Token>),
    /// It is good for a while; somebody should ask for the next.
    Ending(Arc<Token>),
    Nothing,
    Failed(NoToken),
}

impl Vault {
    /// A token, by `ask` if need be. `refused` is one that the server did not take.
    pub(super) async fn token<F: Future<Output = Result<Token, NoToken>>>(
        &self,
        key: Key,
        refused: Option<&Arc<Token>>,
        ask: impl FnOnce() -> F,
    ) -> Result<Arc<Token>, NoToken> {
        if refused.is_some_and(|refused| refused.got.elapsed() < YOUNG) {
            return Err(NoToken { words: "it does not accept our token", is_new: false });
        }
        let slot = self.slot(key);
        let ending = match slot.look(refused) {
            There::Token(token) => return Ok(token),
            There::Failed(why) => return Err(why),
            There::Ending(token) => Some(token),
            There::Nothing => None,
        };
        let turn = match &ending {
            // Whoever comes first asks; the others have one that is good.
            Some(token) => match slot.turn.try_acquire() {
                Ok(turn) => turn,
                Err(_) => return Ok(Arc::clone(token)),
            },
            None => match timeout(PATIENCE, slot.turn.acquire()).await {
                Ok(Ok(turn)) => turn,
                Ok(Err(_)) | Err(_) => {
                    return Err(NoToken { words: SLOW, is_new: false });
                }
            },
        };
        // Somebody else may have asked meanwhile.
        match slot.look(refused) {
            There::Token(token) => return Ok(token),
            There::Failed(why) => return Err(why),
            There::Ending(_) | There::Nothing => {}
        }
        let asked = timeout(PATIENCE, ask()).await.unwrap_or(Err(NoToken::new(SLOW)));
        let done = match asked {
            Ok(token) => Ok(slot.keep(token)),
            Err(why) => {
                slot.fail(why.words);
                ending.ok_or(why)
            }
        };
        drop(turn);
        done
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, key: Key) -> Arc<Slot> {
        let mut slots = self.slots();
        if slots.len() >= MOST
            && !slots.contains_key(&key)
            && let Some(oldest) = slots.iter().min_by_key(|(_, slot)| slot.held().used).map(|(key, _)| *key)
        {
            slots.remove(&oldest);
        }
        Arc::clone(slots.entry(key).or_insert_with(|| Arc::new(Slot::new())))
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        self.slots().clear();
    }

    /// The tokens themselves, the most of them.
    pub(super) fn texts(&self) -> Vec<String> {
        let slots = self.slots();
        let tokens = slots.values().filter_map(|slot| Some(slot.held().token.as_ref()?.text.clone()));
        tokens.take(LOOKED_FOR).collect()
    }
}

const SLOW: &str = "its token server did not answer in time";

impl Slot {
    fn new() -> Self {
        let held = Held { token: None, failed: None, used: Instant::now() };
        Self { turn: Semaphore::new(1), held: Mutex::new(held) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, refused: Option<&Arc<Token>>) -> There {
        let mut held = self.held();
        let now = Instant::now();
        held.used = now;
        let is_refused = |token: &Arc<Token>| refused.is_some_and(|refused| Arc::ptr_eq(refused, token));
        let token = held.token.as_ref().filter(|token| now < token.ends && !is_refused(token));
        let failed = held.failed.filter(|failed| now < failed.until);
        match (token, failed) {
            (Some(token), _) if now < token.fresh_until => There::Token(Arc::clone(token)),
            (Some(token), Some(_)) => There::Token(Arc::clone(token)),
            (Some(token), None) => There::Ending(Arc::clone(token)),
            (None, Some(failed)) => There::Failed(NoToken { words: failed.words, is_new: false }),
            (None, None) => There::Nothing,
        }
    }

    fn keep(&self, token: Token) -> Arc<Token> {
        let token = Arc::new(token);
        let mut held = self.held();
        held.token = Some(Arc::clone(&token));
        held.failed = None;
        token
    }

    fn fail(&self, words: &'static str) {
        let mut held = self.held();
        let pause = held.failed.map_or(FIRST_PAUSE, |failed| LONGEST_PAUSE.min(failed.pause * 2));
        held.failed = Some(Failed { words, until: Instant::now() + pause, pause });
    }
}

//! Logging in: how `connect` comes by a token of its own when the server wants one (spec ).
//!
//! Requests of the client that are refused ask here for another token and wait. They are served one after the other, by
//! one future that goes on when a request gives up: the browser comes back to a process that still knows it.

mod authorize;
mod browser;
mod callback;
mod challenge;
mod client;
mod discovery;
mod error;
mod grant;
mod kept;
mod person;

use std::{
    cell::{Cell, RefCell},
    future::pending,
    path::PathBuf,
    time::Duration,
};

use http::HeaderValue;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};
use url::Url;

pub(super) use self::{challenge::Challenge, error::LoginError};
use self::{client::Client, discovery::Reach, grant::Token, kept::Kept};
use crate::{cli::LoginArgs, failure::Failure};

/// How long a person may take.
const LOGIN_TIME: Duration = Duration::from_secs(5 * 60);

/// How long a request waits for a login. Clients give up after 60 s, and then nobody would see why.
const PATIENCE: Duration = Duration::from_secs(50);

/// Requests that may wait at once.
const MOST_WAITING: usize = 512;

/// What logs in to one server.
pub(super) struct Login {
    server: Url,
    options: Options,
    kept: Kept,
    held: RefCell<Held>,
    /// The scopes that the login asked for which gave the last token.
    asked: RefCell<Vec<String>>,
    /// Why a request waits at present.
    awaited: RefCell<Option<LoginError>>,
    pages: Cell<u8>,
    asks: mpsc::Sender<Ask>,
    desk: RefCell<Option<mpsc::Receiver<Ask>>>,
}

/// What the user wants of logins.
struct Options {
    client: Option<Client>,
    issuer: Option<Url>,
    port: Option<u16>,
    opens_browser: bool,
}

/// The token that is shown.
#[derive(Default)]
struct Held {
    token: Option<Token>,
    serial: u64,
    from: Source,
    /// The server has answered who showed it.
    taken: bool,
}

/// Where a token comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Source {
    /// It was kept, or another process got it.
    #[default]
    Files,
    Refresh,
    Login,
}

/// What a request needs.
pub(super) enum Need {
    /// The token is over.
    Fresh,
    /// The server refuses it, or wants one.
    Another(Challenge),
    /// Its scopes are too few.
    Scopes(Challenge),
}

/// For whom something is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The client waits for it: a person may be asked to log in.
    Client,
    /// Nobody has asked.
    Ourselves,
}

struct Ask {
    need: Need,
    asker: Asker,
    /// The token that does not do.
    of: u64,
    since: Instant,
    met: oneshot::Sender<Result<(), LoginError>>,
}

impl Login {
    /// What logs in to a server, with the token that was kept. None where no token can be kept.
    pub(super) fn new(server: Url, args: LoginArgs) -> Result<Option<Login>, Failure> {
        let options = Options::read(args)?;
        let Some(kept) = Kept::of(server.as_str()) else { return Ok(None) };
        let login = Login::at(server, options, kept);
        login.adopt(&[]).map_err(|error| Failure::system(error.to_string()))?;
        Ok(Some(login))
    }

    fn at(server: Url, options: Options, kept: Kept) -> Login {
        let (asks, desk) = mpsc::channel(MOST_WAITING);
        Login {
            server,
            options,
            kept,
            held: RefCell::default(),
            asked: RefCell::default(),
            awaited: RefCell::default(),
            pages: Cell::new(0),
            asks,
            desk: RefCell::new(Some(desk)),
        }
    }

    /// The header that shows the token, if there is one, and which token that is.
    pub(super) fn shown(&self) -> (Option<HeaderValue>, u64) {
        let held = self.held.borrow();
        let header = held.token.as_ref().and_then(|token| crate::client::bearer(token.access.expose()).ok());
        (header, held.serial)
    }

    /// Whether the token is over and can be replaced without a person.
    pub(super) fn is_over(&self) -> bool {
        let held = self.held.borrow();
        held.token.as_ref().is_some_and(|token| token.is_over() && token.refresh.is_some())
    }

    /// The server has taken that token.
    pub(super) fn is_taken(&self, serial: u64) {
        let mut held = self.held.borrow_mut();
        if held.serial == serial && held.token.is_some() {
            held.taken = true;
        }
    }

    /// Waits for another token than that one, but not as long as a login may take.
    pub(super) async fn ask(&self, need: Need, of: u64, asker: Asker) -> Result<(), LoginError> {
        let (met, told) = oneshot::channel();
        let ask = Ask { need, asker, of, since: Instant::now(), met };
        let asking = async {
            let _ = self.asks.send(ask).await;
            told.await
        };
        match timeout(PATIENCE, asking).await {
            Ok(Ok(met)) => met,
            // Nobody serves any more, or something takes longer than all that is waited for.
            Ok(Err(_)) | Err(_) => Err(self.awaited.borrow().clone().unwrap_or(LoginError::Wanted)),
        }
    }

    /// Serves those who ask, for ever.
    pub(super) async fn serve(&self) {
        let desk = self.desk.take();
        let Some(mut desk) = desk else { return pending().await };
        let mut failed: Option<(Instant, LoginError)> = None;
        while let Some(ask) = desk.recv().await {
            // Who has waited while it failed is told so, and begins no other login.
            let met = match &failed {
                Some((when, error)) if *when >= ask.since => Err(error.clone()),
                Some(_) | None => self.meet(&ask).await,
            };
            self.awaited.take();
            if let Err(error) = &met
                && *error != LoginError::Wanted
            {
                failed = Some((Instant::now(), error.clone()));
            }
            // It may have given up.
            let _ = ask.met.send(met);
        }
    }

    async fn meet(&self, ask: &Ask) -> Result<(), LoginError> {
        if self.held.borrow().serial != ask.of {
            return Ok(());
        }
        self.awaited.replace(Some(LoginError::Elsewhere));
        let alone = timeout(LOGIN_TIME, self.kept.alone()).await;
        let _alone = alone.map_err(|_| LoginError::Elsewhere)??;
        self.awaited.take();
        let reach = Reach::new(&self.server, self.options.issuer.as_ref())?;
        match &ask.need {
            Need::Fresh => {
                if !self.adopt(&[])?
                    && let Err(error) = self.refresh(&reach).await
                {
                    // The server says whether that matters.
                    tracing::info!("a token that is over was not renewed: {error}");
                }
                Ok(())
            }
            Need::Another(challenge) => self.replace(&reach, challenge, ask.asker).await,
            Need::Scopes(challenge) => self.step_up(&reach, challenge, ask.asker).await,
        }
    }

    /// Gets another token in place of one that is refused: without a person once, then with one.
    async fn replace(&self, reach: &Reach, challenge: &Challenge, asker: Asker) -> Result<(), LoginError> {
        if self.adopt(&[])? {
            return Ok(());
        }
        let (from, taken) = (self.held.borrow().from, self.held.borrow().taken);
        if from == Source::Login && !taken {
            return Err(LoginError::NotTaken);
        }
        if from != Source::Refresh || taken {
            match self.refresh(reach).await {
                Ok(true) => return Ok(()),
                Ok(false) => (),
                Err(error) if self.is_named(reach, challenge).await? => return Err(error),
                // Its issuer is not asked any more.
                Err(_) => (),
            }
        }
        asker.may_log_in()?;
        self.log_in(reach, challenge).await.map(drop)
    }

    /// Whether the server still names the issuer of the token.
    async fn is_named(&self, reach: &Reach, challenge: &Challenge) -> Result<bool, LoginError> {
        let protected = discovery::protected(reach, &self.server, challenge).await?;
        let held = self.held.borrow();
        Ok(held.token.as_ref().is_some_and(|token| protected.issuers.contains(&token.issuer)))
    }

    /// Takes the token that another process has got meanwhile. Says whether there was one, with these scopes.
    fn adopt(&self, scopes: &[String]) -> Result<bool, LoginError> {
        let options = &self.options;
        let is_wanted = |token: &Token| {
            options.client.as_ref().is_none_or(|client| client.id == token.client.id)
                && options.issuer.as_ref().is_none_or(|issuer| is_same(issuer, &token.issuer))
        };
        let Some(token) = self.kept.tokens()?.into_iter().find(is_wanted) else { return Ok(false) };
        let shown = self.held.borrow().token.as_ref().map(|token| token.access.clone());
        if shown.as_ref() == Some(&token.access) || scopes.iter().any(|scope| !token.scopes.contains(scope)) {
            return Ok(false);
        }
        self.hold(token, Source::Files);
        Ok(true)
    }

    /// Says whether there is a new token.
    async fn refresh(&self, reach: &Reach) -> Result<bool, LoginError> {
        let token = self.held.borrow().token.clone();
        let Some(token) = token.filter(|token| token.refresh.is_some()) else { return Ok(false) };
        // Its own issuer alone is shown a refresh token, whomever the server names by now (spec A-21).
        let authority = discovery::authority(reach, &token.issuer).await?;
        let Some(fresh) = token.refreshed(reach, &authority).await? else {
            if let Some(token) = &mut self.held.borrow_mut().token {
                token.refresh = None;
            }
            return Ok(false);
        };
        // The old refresh token counts for nothing any more: it is held even where it cannot be kept.
        self.hold(fresh.clone(), Source::Refresh);
        self.kept.keep(&fresh)?;
        Ok(true)
    }

    /// Asks for the scopes of the token and those that are missing (spec A-25).
    async fn step_up(&self, reach: &Reach, challenge: &Challenge, asker: Asker) -> Result<(), LoginError> {
        if self.adopt(&challenge.scopes)? {
            return Ok(());
        }
        if challenge.scopes.iter().all(|scope| self.asked.borrow().contains(scope)) {
            return Err(LoginError::StillScopes(challenge.scopes.join(" ")));
        }
        asker.may_log_in()?;
        let mut union =
            self.held.borrow().token.as_ref().map(|token| token.scopes.clone()).unwrap_or_default();
        union.extend(challenge.scopes.iter().cloned());
        self.log_in(reach, &challenge.with_scopes(union)).await.map(drop)
    }

    fn hold(&self, token: Token, from: Source) {
        let serial = self.held.borrow().serial + 1;
        self.held.replace(Held { token: Some(token), serial, from, taken: false });
    }

    /// Logs in now, whatever is kept. Returns the file of the token.
    pub(super) async fn log_in_now(&self, challenge: &Challenge) -> Result<PathBuf, LoginError> {
        let alone = timeout(LOGIN_TIME, self.kept.alone()).await;
        let _alone = alone.map_err(|_| LoginError::Elsewhere)??;
        let reach = Reach::new(&self.server, self.options.issuer.as_ref())?;
        self.log_in(&reach, challenge).await
    }

    /// Gives up all tokens of the server. Says how many files there were.
    pub(super) async fn log_out(&self) -> Result<usize, LoginError> {
        let tokens = self.kept.tokens()?;
        let reach = Reach::new(&self.server, self.options.issuer.as_ref())?;
        for token in &tokens {
            let revoked = match discovery::authority(&reach, &token.issuer).await {
                Ok(authority) => token.revoke(&reach, &authority).await,
                Err(error) => Err(error),
            };
            if let Err(error) = revoked {
                tracing::warn!("a token stays valid at `{}` until it ends: {error}", token.issuer);
            }
        }
        self.kept.forget()
    }
}

impl Asker {
    fn may_log_in(self) -> Result<(), LoginError> {
        match self {
            Asker::Client => Ok(()),
            Asker::Ourselves => Err(LoginError::Wanted),
        }
    }
}

impl Options {
    fn read(args: LoginArgs) -> Result<Options, Failure> {
        let issuer = args.issuer.map(|text| {
            let url =
                Url::parse(&text).ok().filter(|url| url.scheme() == "https" || config::is_loopback(url));
            url.ok_or_else(|| Failure::usage(format!("issuer `{text}`: write an https URL")))
        });
        let client = args.client_id.map(|id| Client::named(id, args.client_secret_file));
        Ok(Options {
            client: client.transpose()?,
            issuer: issuer.transpose()?,
            port: args.callback_port,
            opens_browser: !args.no_browser,
        })
    }
}

/// Whether an issuer is the one that a user named: users do not count slashes.
fn is_same(named: &Url, issuer: &str) -> bool {
    named.as_str().trim_end_matches('/') == issuer.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What logs in to a server that is nowhere.
    pub(super) fn login(state: &std::path::Path) -> Login {
        let server = Url::parse("https://mcp.example.com/mcp").unwrap();
        let kept = Kept::below(state, server.as_str());
        let options = Options { client: None, issuer: None, port: None, opens_browser: false };
        Login::at(server, options, kept)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_too_long_is_told_where_to_log_in() {
        let state = tempfile::tempdir().unwrap();
        let login = login(state.path());
        let pending = LoginError::Pending("https://as/authorize?state=x".to_owned());
        login.awaited.replace(Some(pending.clone()));
        let began = Instant::now();
        let need = Need::Another(Challenge::default());
        assert_eq!(login.ask(need, 0, Asker::Client).await, Err(pending.clone()));
        assert_eq!(began.elapsed(), PATIENCE);
        assert!(pending.to_string().contains("open https://as/authorize?state=x"), "{pending}");
    }

    #[test]
    fn an_issuer_is_named_with_or_without_a_slash() {
        let named = |text: &str| Url::parse(text).unwrap();
        for (text, issuer, same) in [
            ("https://as", "https://as", true),
            ("https://as/", "https://as", true),
            ("https://as/t1", "https://as/t1/", true),
            ("https://as/t1", "https://as/t2", false),
            ("https://as", "http://as", false),
        ] {
            assert_eq!(is_same(&named(text), issuer), same, "{text} {issuer}");
        }
    }
}

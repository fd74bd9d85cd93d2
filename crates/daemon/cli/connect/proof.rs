//! What proves the client to the server: a key or token that it was given, else a token that it logs in for.

use std::{cell::RefCell, future::pending, path::PathBuf};

use http::{HeaderValue, Response, StatusCode};
use url::Url;

use super::login::{Asker, Challenge, Login, LoginError, Need};
use crate::{cli::LoginArgs, failure::Failure};

/// What proves the client, unless a file is named.
const TOKEN: &str = "PORTCULLIS_TOKEN";

/// How often one message is sent anew after a refusal: with another token, and with more scopes (spec A-25).
const MOST_TOKENS: u8 = 2;
const MOST_STEPS: u8 = 3;

/// What proves the client.
pub(super) enum Proof {
    /// What it was given, or nothing at all.
    Given(Given),
    /// What a login gives.
    Login(Box<Login>),
}

/// A key or token.
pub(super) struct Given {
    file: Option<PathBuf>,
    now: RefCell<Option<HeaderValue>>,
}

/// What is shown to the server once.
pub(super) struct Shown {
    pub(super) header: Option<HeaderValue>,
    serial: u64,
}

impl Shown {
    /// Nothing at all.
    pub(super) fn nothing() -> Shown {
        Shown { header: None, serial: 0 }
    }
}

/// How often one message was sent anew.
#[derive(Default)]
pub(super) struct Tries {
    tokens: u8,
    steps: u8,
}

impl Proof {
    /// Reads what is to be shown from now on.
    pub(super) fn new(server: &Url, token_file: Option<PathBuf>, args: LoginArgs) -> Result<Proof, Failure> {
        let given = Given { file: token_file, now: RefCell::default() };
        given.read()?;
        if given.file.is_some() || given.now.borrow().is_some() {
            return Ok(Proof::Given(given));
        }
        Ok(match Login::new(server.clone(), args)? {
            Some(login) => Proof::Login(Box::new(login)),
            None => Proof::Given(given),
        })
    }

    /// What is shown now. Waits for a token in place of one that is over.
    pub(super) async fn show(&self, asker: Asker) -> Result<Shown, LoginError> {
        match self {
            Proof::Given(given) => Ok(Shown { header: given.now.borrow().clone(), serial: 0 }),
            Proof::Login(login) => {
                if login.is_over() {
                    login.ask(Need::Fresh, login.shown().1, asker).await?;
                }
                let (header, serial) = login.shown();
                Ok(Shown { header, serial })
            }
        }
    }

    /// Whether what was refused may be sent again, with something else to show.
    pub(super) async fn is_renewed<B>(
        &self,
        shown: &Shown,
        answer: &Response<B>,
        asker: Asker,
        tries: &mut Tries,
    ) -> Result<bool, LoginError> {
        let status = answer.status();
        if status == StatusCode::UNAUTHORIZED && tries.tokens < MOST_TOKENS {
            tries.tokens += 1;
            return match self {
                Proof::Given(given) => Ok(given.has_changed(shown)),
                Proof::Login(login) => {
                    let challenge = Challenge::of(answer.headers()).unwrap_or_default();
                    match login.ask(Need::Another(challenge), shown.serial, asker).await {
                        Err(LoginError::NotOffered) => Ok(false),
                        asked => asked.map(|()| true),
                    }
                }
            };
        }
        let Proof::Login(login) = self else { return Ok(false) };
        let challenge = Challenge::of(answer.headers()).filter(Challenge::wants_scopes);
        match challenge {
            Some(challenge) if status == StatusCode::FORBIDDEN && tries.steps < MOST_STEPS => {
                tries.steps += 1;
                login.is_taken(shown.serial);
                login.ask(Need::Scopes(challenge), shown.serial, asker).await.map(|()| true)
            }
            Some(_) | None => {
                if status != StatusCode::UNAUTHORIZED {
                    login.is_taken(shown.serial);
                }
                Ok(false)
            }
        }
    }

    /// Serves those who wait for a login, for ever.
    pub(super) async fn serve(&self) {
        match self {
            Proof::Given(_) => pending().await,
            Proof::Login(login) => login.serve().await,
        }
    }
}

impl Given {
    fn read(&self) -> Result<(), Failure> {
        let token = match &self.file {
            Some(file) => Some(std::fs::read_to_string(file).map_err(|error| {
                Failure::usage(format!("cannot read the token file {}: {error}", file.display()))
            })?),
            None => std::env::var(TOKEN).ok().filter(|token| !token.is_empty()),
        };
        *self.now.borrow_mut() = token.as_deref().map(crate::client::bearer).transpose()?;
        Ok(())
    }

    /// Reads the file again; says whether there is something else in it than what was shown.
    fn has_changed(&self, shown: &Shown) -> bool {
        self.read().is_ok() && *self.now.borrow() != shown.header
    }
}

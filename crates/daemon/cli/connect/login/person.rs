//! Having a person log in: the one part of getting a token that takes minutes.

use std::{future::pending, path::PathBuf};

use config::Secret;
use tokio::time::timeout;
use url::Url;

use super::{
    LOGIN_TIME, Login, Source,
    authorize::Attempt,
    browser,
    callback::Callback,
    challenge::Challenge,
    client::Client,
    discovery::{self, Authority, Protected, Reach},
    error::LoginError,
    grant::Token,
    is_same,
};
use crate::cli::output;

/// How often a browser is opened and nobody logs in. Later logins are told of, and open nothing.
const MOST_PAGES: u8 = 3;

impl Login {
    /// Has a person log in, and keeps the token. Returns its file.
    pub(super) async fn log_in(&self, reach: &Reach, challenge: &Challenge) -> Result<PathBuf, LoginError> {
        if self.server.scheme() != "https" && !config::is_loopback(&self.server) {
            return Err(LoginError::Plain);
        }
        let protected = discovery::protected(reach, &self.server, challenge).await?;
        let authority = discovery::authority(reach, self.issuer_of(&protected)?).await?;
        let scopes = discovery::scopes(&challenge.scopes, &protected.scopes, &authority);
        let known = self.kept.client(&authority.issuer)?;
        let (client, callback) = self.client_at(reach, &authority, known.as_ref()).await?;
        let mut attempt = Attempt::new(&authority, callback.redirect())?;
        let place = attempt.place(&authority, &client.id, &protected.resource, &scopes);
        let code = self.wait_for_code(callback, &mut attempt, &place).await;
        if code == Err(LoginError::Late) && known.is_some_and(|(known, _)| known == client) {
            // It may be that they do not know it any more: then they told nobody but the person.
            self.kept.forget_client(&authority.issuer)?;
        }
        let who = (client, protected.resource);
        let token = Token::for_code(reach, &authority, who, (&attempt, code?), scopes.clone()).await?;
        self.asked.replace(scopes);
        self.hold(token.clone(), Source::Login);
        self.pages.set(0);
        self.kept.keep(&token)
    }

    /// The issuer that the user names, else the first of the server's.
    fn issuer_of<'a>(&self, protected: &'a Protected) -> Result<&'a str, LoginError> {
        let mut issuers = protected.issuers.iter().map(String::as_str);
        match &self.options.issuer {
            Some(named) => issuers
                .find(|issuer| is_same(named, issuer))
                .ok_or_else(|| LoginError::NotListed(named.to_string())),
            None => issuers.next().ok_or(LoginError::NotOffered),
        }
    }

    /// As whom we ask, and where the answer is awaited (spec A-18).
    async fn client_at(
        &self,
        reach: &Reach,
        authority: &Authority,
        known: Option<&(Client, u16)>,
    ) -> Result<(Client, Callback), LoginError> {
        let port = self.options.port;
        if let Some(client) = &self.options.client {
            return Ok((client.clone(), Callback::open(port.unwrap_or(0)).await?));
        }
        // Not every authorization server lets the port differ from the registered one (RFC 8252 7.3).
        if let Some((client, registered)) = known
            && port.is_none_or(|port| port == *registered)
            && let Ok(callback) = Callback::open(*registered).await
        {
            return Ok((client.clone(), callback));
        }
        let callback = Callback::open(port.unwrap_or(0)).await?;
        let client = Client::register(reach, authority, &callback.redirect()).await?;
        self.kept.keep_client(&authority.issuer, &client, callback.port())?;
        Ok((client, callback))
    }

    pub(super) async fn wait_for_code(
        &self,
        callback: Callback,
        attempt: &mut Attempt,
        place: &Url,
    ) -> Result<Secret, LoginError> {
        output::complain(&output::harmless(&format!("log in to {}: open {place}", self.server)));
        self.awaited.replace(Some(LoginError::Pending(place.to_string())));
        let opening = async {
            if self.options.opens_browser && self.pages.get() < MOST_PAGES {
                self.pages.set(self.pages.get() + 1);
                browser::open(place).await;
            }
            pending::<Result<Secret, LoginError>>().await
        };
        let waiting = async {
            tokio::select! {
                code = callback.answer(attempt) => code,
                never = opening => never,
            }
        };
        timeout(LOGIN_TIME, waiting).await.unwrap_or(Err(LoginError::Late))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::cli::connect::login::tests::login;

    #[tokio::test(start_paused = true)]
    async fn a_login_that_nobody_answers_ends() {
        let state = tempfile::tempdir().unwrap();
        let login = login(state.path());
        let callback = Callback::open(0).await.unwrap();
        let port = callback.port();
        let place = Url::parse("https://as/authorize").unwrap();
        let mut attempt = Attempt::for_tests(&callback.redirect());
        let began = Instant::now();
        assert_eq!(login.wait_for_code(callback, &mut attempt, &place).await, Err(LoginError::Late));
        assert_eq!(began.elapsed(), LOGIN_TIME);
        assert!(Callback::open(port).await.is_ok(), "the port is free again");
    }
}

//! Why there is no token, as the client and the operator are told.

use std::fmt;

/// Why there is no token. Holds nothing of a token, a code or a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum LoginError {
    /// The server names nobody who could be asked for one.
    NotOffered,
    /// The URL is neither https nor on this machine.
    Plain,
    /// Something that the login needs cannot be read there.
    Unreadable(&'static str, String),
    /// The server's document is about something else.
    OtherResource(String),
    /// The metadata of the authorization server name another.
    OtherIssuer(String),
    /// The issuer that was asked for is none of the server's.
    NotListed(String),
    /// The authorization server does not protect codes as it must.
    NoPkce(String),
    /// The authorization server knows us under no name, and gives none.
    NoRegistration(String),
    /// What the authorization server said no to, and its word for why.
    Refused(&'static str, String),
    /// The answer to the login came from somebody else.
    WrongIssuer,
    /// The answer to the login has no code, or more than one.
    NoCode,
    /// Nobody has logged in in time.
    Late,
    /// Too much came to where the answer is awaited.
    Crowded,
    /// A new token is refused like the old one.
    NotTaken,
    /// More scopes are wanted, and asking for them has not helped.
    StillScopes(String),
    /// A login is needed, and no message of the client waits for it.
    Wanted,
    /// A login has begun: where it goes on.
    Pending(String),
    /// Another process does it.
    Elsewhere,
    /// Files of this machine, or its operating system.
    Machine(String),
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginError::NotOffered => f.write_str("it wants a credential and offers no login"),
            LoginError::Plain => f.write_str(
                "there is no login over plain http, where everybody could read the token; see `--token-file`",
            ),
            LoginError::Unreadable(what, why) => write!(f, "cannot read {what}: {why}"),
            LoginError::OtherResource(named) => write!(
                f,
                "its document is about `{named}`, and a token for that is not for this URL: write the URL as it does"
            ),
            LoginError::OtherIssuer(issuer) => {
                write!(f, "the metadata of `{issuer}` are those of another authorization server")
            }
            LoginError::NotListed(issuer) => write!(f, "it does not take tokens of `{issuer}`"),
            LoginError::NoPkce(issuer) => {
                write!(f, "`{issuer}` does not say that it supports PKCE with S256, so there is no login")
            }
            LoginError::NoRegistration(issuer) => write!(
                f,
                "`{issuer}` lets no client register itself: register one for the redirect \
                 `http://127.0.0.1/callback` there, and name it with `--client-id`"
            ),
            LoginError::Refused(what, word) => write!(f, "the authorization server refuses {what}: {word}"),
            LoginError::WrongIssuer => {
                f.write_str("the answer to the login is not of the authorization server")
            }
            LoginError::NoCode => f.write_str("the answer to the login has no code"),
            LoginError::Late => f.write_str("nobody has logged in in time; the next request begins again"),
            LoginError::Crowded => f.write_str("too many requests came to where the login is awaited"),
            LoginError::NotTaken => {
                f.write_str("it refuses the token that its authorization server gave for it")
            }
            LoginError::StillScopes(scopes) => {
                write!(f, "it wants the scopes `{scopes}`, and a login that asked for them has not helped")
            }
            LoginError::Wanted => f.write_str("it wants a login; the next request begins one"),
            LoginError::Pending(place) => write!(f, "a login is awaited: open {place} and then try again"),
            LoginError::Elsewhere => f.write_str(
                "a login is awaited by another `portcullis connect`: log in there and then try again",
            ),
            LoginError::Machine(why) => f.write_str(why),
        }
    }
}

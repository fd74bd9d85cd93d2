//! One variant a stage, and THE table that says what a client is told.

use std::fmt::Write as _;

use admission::Sort;
use bytes::Bytes;
use config::ErrorStatus;
use wire::{Era, FrameError, Id, Revision, code};

use crate::{arrival::BodyError, asking::Unmet, audit::AuditError};

mod cleaned;
mod ended;
mod failed;
mod limit;
mod relayed;

use cleaned::cleaned;
pub(crate) use ended::TaskError;
use failed::UNKNOWN_TASK;
pub(crate) use failed::{Failed, Refused};
pub(crate) use limit::{LimitError, Spent, SpentOf, Told};
pub(crate) use relayed::Relayed;

/// The longest text of a stranger that is passed on, in bytes (spec Z-05).
const LONGEST: usize = 2048;

/// Why a message did not get the answer it asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nobody we know asked, or for an endpoint that does not exist.
    #[error("authn: {0}")]
    Authn(#[from] AuthnError),
    /// The body could not be had.
    #[error("body: {0}")]
    Body(#[from] BodyError),
    /// The body is no message.
    #[error("frame: {0}")]
    Frame(#[from] FrameError),
    /// The message belongs to a revision we do not serve.
    #[error("era: {0}")]
    Era(#[from] EraError),
    /// The message does not fit the conversation.
    #[error("session: {0}")]
    Session(#[from] SessionError),
    /// The message asks for something that cannot be found or read.
    #[error("catalog: {0}")]
    Catalog(#[from] CatalogError),
    /// A bound was reached.
    #[error("limit: {0}")]
    Limit(#[from] LimitError),
    /// A check said no.
    #[error(transparent)]
    Denied(#[from] Box<Refused>),
    /// A person did not say yes.
    #[error("approval: {0}")]
    Approval(#[from] ApprovalError),
    /// The record could not be written.
    #[error("audit: {0}")]
    Audit(#[from] AuditError),
    /// The upstream did not answer, or not properly.
    #[error("upstream: {0}")]
    Upstream(#[from] Box<Failed>),
    /// The upstream answered with an error of its own.
    #[error(transparent)]
    Relayed(#[from] Box<Relayed>),
    /// The upstream asked for something, and did not get it.
    #[error(transparent)]
    Unmet(#[from] Box<Unmet>),
    /// A task has no answer to give.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// Identification failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthnError {
    /// The path names a tenant or virtual server that does not exist, or not for this asker.
    #[error("no such endpoint")]
    NoEndpoint,
    /// Nothing was shown (spec A-04).
    #[error("no credential")]
    Missing,
    /// What was shown is not accepted; the word is all a stranger learns.
    #[error("the credential is not accepted: {0}")]
    Refused(&'static str),
    /// What was shown is good, and carries fewer scopes than the endpoint needs (spec A-06).
    #[error("the token lacks a scope that this endpoint needs")]
    Scope,
    /// What was shown cannot be read: several values, or not the `Bearer` form.
    #[error("the `Authorization` header cannot be read")]
    Malformed,
}

/// The message belongs to another era.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EraError {
    /// The envelope names a revision that is not served this way (spec B-28, E-06).
    #[error("revision `{0}` is not served")]
    NotServed(Box<str>),
    /// No message of any era.
    #[error("{0}")]
    NoMessage(&'static str),
    /// `MCP-Protocol-Version` is missing, or names another revision than the body (spec H-28).
    #[error("`MCP-Protocol-Version` and the body name different revisions")]
    VersionHeader,
    /// Another header is missing, or says another thing than the body (spec H-28, H-30).
    #[error("header mismatch: {0}")]
    Header(Box<wire::headers::HeaderError>),
    /// `MCP-Protocol-Version` names no revision we know (spec H-16).
    #[error("unknown protocol version `{0}` in the header")]
    UnknownHeader(Box<str>),
    /// The message is modern and lacks a part of the envelope (spec B-27, E-03).
    #[error("`_meta` lacks `{0}`")]
    NoEnvelope(&'static str),
    /// The level in the envelope is none (spec U-15).
    #[error("`{}` names no level", wire::meta::LOG_LEVEL)]
    LogLevel,
    /// What is asked for comes as an event stream only, which this client does not take (spec H-04).
    #[error("changes are told on an event stream: accept `text/event-stream`")]
    NotAcceptable,
    /// The oldest transport carries no message of the modern era (spec S-06).
    #[error("HTTP+SSE carries the revisions up to 2025-11-25: speak later ones at `/mcp`")]
    Oldest,
    /// GET and DELETE do not exist in the modern era (spec E-07).
    #[error("this method does not exist in the modern era")]
    NoSuchVerb,
}

/// The message does not fit the conversation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// Neither a session nor `initialize` (spec H-12).
    #[error("no session")]
    Missing,
    /// No such session, or it belongs to somebody else (spec H-12, H-13).
    #[error("unknown session")]
    Unknown,
    /// The principal has as many sessions as it may (spec H-18).
    #[error("too many sessions")]
    TooMany,
    /// The gateway is stopping (spec Z-03).
    #[error("draining")]
    Draining,
    /// The id is in flight already (spec B-03).
    #[error("the request id is in use")]
    IdInUse,
    /// An `initialize` that names no revision.
    #[error("`protocolVersion` is missing")]
    NoRevision,
    /// The session has a stream already, as many as it may.
    #[error("too many streams")]
    TooManyStreams,
    /// `Last-Event-ID` is not of this session, or what it names is not kept any more (spec H-22).
    #[error("unknown event")]
    UnknownEvent,
    /// No such connection of HTTP+SSE, or it belongs to somebody else (spec S-04, S-05).
    #[error("unknown or ended connection: open one with GET, and send where its first event says")]
    NoLine,
    /// Nothing but `initialize` begins a conversation (spec B-16).
    #[error("no session: send `initialize` first")]
    Unopened,
    /// One connection of HTTP+SSE carries one session.
    #[error("this connection has a session already: open another one")]
    Opened,
}

/// The message asks for something that cannot be found or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CatalogError {
    /// No such method in this revision, or none that this endpoint has (spec B-10, B-11).
    #[error("unknown method `{0}`")]
    Method(Box<str>),
    /// A parameter is missing or of the wrong type.
    #[error("parameter `{0}` is missing or malformed")]
    Parameter(&'static str),
    /// Not a cursor of ours, for this list and caller (spec U-02, U-03).
    #[error("unknown cursor")]
    Cursor,
    /// The resource's server tells nobody of changes (spec R-08).
    #[error("`{0}` cannot be subscribed to: its server tells nobody of changes")]
    Subscription(Box<str>),
    /// No such task, or it belongs to somebody else (spec U-31).
    #[error("unknown task")]
    Task,
    /// It is over, and cannot be cancelled any more (spec U-35).
    #[error("the task is over")]
    TaskOver,
    /// The tool takes no tasks (spec U-30).
    #[error("calls of `{0}` cannot become tasks")]
    NoTask(Box<str>),
    /// The tool takes nothing else.
    #[error("`{0}` can only be called as a task")]
    OnlyAsTask(Box<str>),
    /// The request needs what its client has not declared; which is raw JSON (spec B-32).
    #[error("the request needs capabilities that were not declared: {0}")]
    Undeclared(&'static str),
}

/// A person did not say yes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApprovalError {
    /// Nobody can be asked in this release.
    #[error("nobody can be asked")]
    Unavailable {
        /// The call was a `tools/call`.
        tool: bool,
    },
}

impl From<wire::headers::HeaderError> for EraError {
    fn from(error: wire::headers::HeaderError) -> EraError {
        EraError::Header(Box::new(error))
    }
}

/// Whom it is told to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// The revision it speaks.
    pub(crate) revision: Revision,
    /// Whether it can stand an HTTP status (spec Z-04).
    pub(crate) statuses: ErrorStatus,
}

impl Client {
    /// One that has not said of which era it is.
    pub(crate) const UNKNOWN: Client =
        Client { revision: Revision::LATEST_LEGACY, statuses: ErrorStatus::Protocol };
}

/// Where an error comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The envelope of a modern message, or the headers that repeat it.
    Envelope,
    /// The gateway.
    Ourselves,
    /// The upstream.
    Upstream,
}

/// The table of spec section 10: the code a client is told, and the HTTP status of an answer whose head has not left
/// yet; one that ends an event stream has the 200 of the stream, whatever stands here (spec Z-01, H-08).
pub(crate) fn told(code: i64, origin: Origin, client: Client) -> (i64, u16) {
    use code::{
        HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY,
        RESOURCE_NOT_FOUND, UNSUPPORTED_VERSION, URL_ELICITATION_REQUIRED,
    };
    let era = client.revision.era();
    let status = |protocol: u16| match client.statuses {
        ErrorStatus::Protocol => protocol,
        ErrorStatus::Ok => 200,
    };
    match (code, origin, era) {
        (code, Origin::Envelope, _) => (code, status(400)),
        (METHOD_NOT_FOUND, _, Era::Modern) => (code, status(404)),
        (MISSING_CLIENT_CAPABILITY, _, Era::Modern) => (code, status(400)),
        (RESOURCE_NOT_FOUND, _, Era::Modern) => (INVALID_PARAMS, 200), // spec R-05
        (RESOURCE_NOT_FOUND, _, Era::Legacy) => (code, 200),
        // The only revision that has it is the last before the era changed (spec Q-16).
        (URL_ELICITATION_REQUIRED, _, Era::Legacy) if client.revision == Revision::R2025_11_25 => (code, 200),
        // They speak about one hop, and never about the client's (spec X-04); or are nobody's yet.
        (HEADER_MISMATCH | UNSUPPORTED_VERSION | MISSING_CLIENT_CAPABILITY, _, _)
        | (-32099..=-32023, _, _) => (INTERNAL_ERROR, 200),
        (code, Origin::Ourselves | Origin::Upstream, _) => (code, 200),
    }
}

/// All that leaves the gateway about a failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The JSON-RPC code; none when the model is told in a result (`isError`).
    pub(crate) code: Option<i64>,
    /// A stable word for programs.
    pub(crate) reason: &'static str,
}

/// How a failure is said.
enum Said {
    /// HTTP refuses, and the body repeats it.
    Http(u16, i64),
    /// By a code of the table.
    Code(i64, Origin),
    /// In a result that the model reads.
    Result,
}

impl Error {
    pub(crate) fn answer(&self, client: Client) -> Answer {
        let (said, reason) = self.said();
        let (status, code) = match said {
            Said::Http(status, code) => (status, Some(code)),
            Said::Code(code, origin) => {
                let (code, status) = told(code, origin, client);
                (status, Some(code))
            }
            Said::Result => (200, None),
        };
        Answer { status, code, reason }
    }

    /// Exhaustive on purpose: a new way to fail does not compile until it has an answer.
    /// Values: spec section 10, amended by the product's table of what a caller sees.
    fn said(&self) -> (Said, &'static str) {
        use Said::{Http, Result};
        let ours = |code| Said::Code(code, Origin::Ourselves);
        let hop = |code| Said::Code(code, Origin::Envelope);
        match self {
            Error::Authn(AuthnError::NoEndpoint) => (Http(404, code::INVALID_REQUEST), "unknown_endpoint"),
            Error::Authn(AuthnError::Missing | AuthnError::Refused(_)) => {
                (Http(401, code::INVALID_REQUEST), "unauthenticated")
            }
            Error::Authn(AuthnError::Scope) => (Http(403, code::INVALID_REQUEST), "insufficient_scope"),
            Error::Authn(AuthnError::Malformed) => (Http(400, code::INVALID_REQUEST), "unauthenticated"),
            Error::Body(BodyError::TooLarge { .. }) => (Http(413, code::INVALID_REQUEST), "too_large"),
            Error::Body(BodyError::Slow) => (Http(408, code::INVALID_REQUEST), "too_slow"),
            Error::Body(BodyError::Broken) => (Http(400, code::INVALID_REQUEST), "broken_body"),
            Error::Frame(error) if error.is_parse_error() => (Http(400, code::PARSE_ERROR), "parse"),
            Error::Frame(_) => (Http(400, code::INVALID_REQUEST), "not_a_message"),
            Error::Era(EraError::NotServed(_)) => (hop(code::UNSUPPORTED_VERSION), "unsupported_version"),
            Error::Era(EraError::UnknownHeader(_)) => {
                (Http(400, code::INVALID_REQUEST), "unsupported_version")
            }
            Error::Era(EraError::NoMessage(_)) => (Http(400, code::INVALID_REQUEST), "not_a_message"),
            Error::Era(EraError::NoEnvelope(_)) => (hop(code::INVALID_PARAMS), "no_envelope"),
            Error::Era(EraError::LogLevel) => (hop(code::INVALID_PARAMS), "bad_parameter"),
            Error::Era(EraError::VersionHeader | EraError::Header(_)) => {
                (hop(code::HEADER_MISMATCH), "header_mismatch")
            }
            Error::Era(EraError::NotAcceptable) => (Http(406, code::INVALID_REQUEST), "not_acceptable"),
            Error::Era(EraError::Oldest) => (Http(400, code::INVALID_REQUEST), "unsupported_version"),
            Error::Era(EraError::NoSuchVerb) => (Http(405, code::INVALID_REQUEST), "no_such_verb"),
            Error::Session(error) => error.said(),
            Error::Catalog(CatalogError::Method(_)) => (ours(code::METHOD_NOT_FOUND), "unknown_method"),
            Error::Catalog(CatalogError::Parameter(_)) => (ours(code::INVALID_PARAMS), "bad_parameter"),
            Error::Catalog(CatalogError::Cursor) => (ours(code::INVALID_PARAMS), "unknown_cursor"),
            Error::Catalog(CatalogError::Subscription(_)) => (ours(code::INVALID_PARAMS), "no_subscriptions"),
            Error::Catalog(CatalogError::Task) => (ours(code::INVALID_PARAMS), UNKNOWN_TASK),
            Error::Catalog(CatalogError::TaskOver) => (ours(code::INVALID_PARAMS), "task_over"),
            Error::Catalog(CatalogError::NoTask(_)) => (ours(code::METHOD_NOT_FOUND), "no_task"),
            Error::Catalog(CatalogError::OnlyAsTask(_)) => (ours(code::METHOD_NOT_FOUND), "only_as_task"),
            Error::Catalog(CatalogError::Undeclared(_)) => {
                (ours(code::MISSING_CLIENT_CAPABILITY), "missing_capability")
            }
            Error::Limit(error) => error.said(),
            Error::Denied(refused) => match refused.sort {
                // Hidden and missing must look the same, and each kind keeps its own code (spec R-05).
                Some(Sort::Resource) if refused.denial.refusal.hides && !refused.referred => {
                    (ours(code::RESOURCE_NOT_FOUND), refused.reason())
                }
                _ if refused.denial.refusal.hides => (ours(code::INVALID_PARAMS), refused.reason()),
                // A client that reads the challenge gets a token with more (spec A-06).
                _ if !refused.denial.refusal.lacks.is_empty() => {
                    (Http(403, code::INVALID_REQUEST), refused.reason())
                }
                Some(Sort::Tool) if !refused.referred => (Result, refused.reason()),
                _ => (ours(code::INTERNAL_ERROR), refused.reason()),
            },
            Error::Approval(ApprovalError::Unavailable { tool: true }) => (Result, "approval_unavailable"),
            Error::Approval(ApprovalError::Unavailable { tool: false }) => {
                (ours(code::INTERNAL_ERROR), "approval_unavailable")
            }
            Error::Audit(_) => (ours(code::INTERNAL_ERROR), "unrecorded"),
            Error::Upstream(failed) if failed.tool => (Result, failed.reason()),
            Error::Upstream(failed) => (ours(code::INTERNAL_ERROR), failed.reason()),
            Error::Relayed(relayed) => (Said::Code(relayed.code, Origin::Upstream), "upstream_error"),
            Error::Unmet(unmet) => (ours(unmet.code()), unmet.reason()),
            Error::Task(error) => (ours(code::INTERNAL_ERROR), error.reason()),
        }
    }

    /// The JSON-RPC message for the client. Says what and how to mend it; names no rule, host or path.
    pub(crate) fn message(&self, id: Option<&Id>, client: Client) -> Bytes {
        if let Error::Relayed(relayed) = self {
            return relayed.message(id, client);
        }
        let answer = self.answer(client);
        let text = self.text();
        let mut data = format!("{{\"reason\":\"{}\"", answer.reason);
        self.write_details(&mut data);
        data.push('}');
        match (answer.code, id) {
            (Some(code), _) => code::failure(id, code, &text, Some(&data)),
            (None, Some(id)) => code::tool_error(id, client.revision.era(), &text, &data),
            // INVARIANT: only requests are bound to a tool, and requests have an id.
            (None, None) => code::failure(None, code::INTERNAL_ERROR, &text, Some(&data)),
        }
    }

    /// What the client reads.
    fn text(&self) -> String {
        match self {
            Error::Authn(error) => error.to_string(),
            Error::Body(error) => error.to_string(),
            Error::Frame(error) => error.to_string(),
            Error::Era(EraError::NotServed(_)) => {
                "this protocol version is not served; `data.supported` lists those that are".to_owned()
            }
            Error::Era(error) => error.to_string(),
            Error::Session(SessionError::Missing) => {
                "no session: send `initialize` first, then every request with its `Mcp-Session-Id`".to_owned()
            }
            Error::Session(SessionError::Unknown) => {
                "unknown or ended session: start a new one with `initialize`".to_owned()
            }
            Error::Session(SessionError::Draining) => "the gateway is stopping".to_owned(),
            Error::Session(error) => error.to_string(),
            Error::Catalog(error) => error.to_string(),
            Error::Limit(error) => error.to_string(),
            Error::Denied(refused) => refused.text(),
            Error::Approval(_) => "this call needs an approval, and nobody can be asked".to_owned(),
            Error::Audit(_) => "the gateway cannot record this request, so nothing was called".to_owned(),
            // A server may have had a say in why it failed.
            Error::Upstream(failed) => cleaned(&failed.to_string(), LONGEST),
            Error::Relayed(relayed) => relayed.message.clone(),
            Error::Unmet(unmet) => unmet.to_string(),
            Error::Task(error) => error.to_string(),
        }
    }

    /// Members of `data` beside `reason`, each with its leading comma.
    fn write_details(&self, data: &mut String) {
        let mut member = |key: &str, value: &str| {
            // Writing to a `String` cannot fail.
            let _ = write!(data, ",\"{key}\":{}", code::quote(value));
        };
        match self {
            Error::Upstream(failed) => member("upstream", &failed.upstream),
            Error::Denied(refused) if refused.sort == Some(Sort::Resource) => member("uri", &refused.name),
            Error::Catalog(CatalogError::Subscription(uri)) => member("uri", uri),
            Error::Catalog(CatalogError::Undeclared(needed)) => {
                let _ = write!(data, ",\"requiredCapabilities\":{needed}");
            }
            Error::Era(EraError::NotServed(requested)) => {
                member("requested", requested);
                data.push_str(",\"supported\":[");
                for (i, revision) in wire::Revision::ALL.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    let _ = write!(data, "{comma}\"{}\"", revision.text());
                }
                data.push(']');
            }
            Error::Limit(error) => {
                if let LimitError::Runaway(runaway) = error {
                    member("pattern", runaway.circle.word());
                }
                if let Some(seconds) = error.retry_after() {
                    let _ = write!(data, ",\"retry_after\":{seconds}");
                }
            }
            Error::Unmet(unmet) => {
                if let Unmet::Needs(capabilities) = **unmet {
                    // An object, shaped like what a client declares (spec B-32).
                    data.push_str(",\"requiredCapabilities\":");
                    data.push_str(capabilities);
                }
            }
            Error::Authn(_)
            | Error::Body(_)
            | Error::Frame(_)
            | Error::Era(_)
            | Error::Session(_)
            | Error::Catalog(_)
            | Error::Denied(_)
            | Error::Approval(_)
            | Error::Audit(_)
            | Error::Relayed(_)
            | Error::Task(_) => (),
        }
    }
}

impl SessionError {
    fn said(&self) -> (Said, &'static str) {
        match self {
            SessionError::Missing => (Said::Http(400, code::INVALID_REQUEST), "no_session"),
            SessionError::Unknown => (Said::Http(404, code::INVALID_REQUEST), "unknown_session"),
            SessionError::TooMany => (Said::Http(429, code::INTERNAL_ERROR), "too_many_sessions"),
            SessionError::Draining => (Said::Http(503, code::INTERNAL_ERROR), "draining"),
            SessionError::IdInUse => (Said::Http(400, code::INVALID_REQUEST), "id_in_use"),
            SessionError::NoRevision => (Said::Code(code::INVALID_PARAMS, Origin::Ourselves), "no_revision"),
            SessionError::UnknownEvent => (Said::Http(400, code::INVALID_REQUEST), "unknown_event"),
            SessionError::NoLine => (Said::Http(404, code::INVALID_REQUEST), "unknown_session"),
            SessionError::Unopened => (Said::Http(400, code::INVALID_REQUEST), "no_session"),
            SessionError::Opened => (Said::Http(400, code::INVALID_REQUEST), "session_exists"),
            SessionError::TooManyStreams => (Said::Http(429, code::INTERNAL_ERROR), "too_many_streams"),
        }
    }
}

const _: () = assert!(size_of::<Error>() <= 32, "keep `Result` small: box what is large");

#[cfg(test)]
mod tests;

//! One variant a stage, and THE table that says what a client is told.

use std::fmt::Write as _;

use admission::{CheckName, Denial, Sort};
use bytes::Bytes;
use upstream::UpstreamError;
use wire::{Era, FrameError, Id, code};

use crate::{arrival::BodyError, audit::AuditError};

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
}

/// A denial, and what was denied, in the caller's own words.
#[derive(Debug, thiserror::Error)]
#[error("{denial}")]
pub(crate) struct Refused {
    /// Who said no.
    pub(crate) denial: Denial,
    /// What kind of thing was asked for.
    pub(crate) sort: Option<Sort>,
    /// It was only referred to, by a completion: there is one code for all kinds then (spec K-05, K-06).
    pub(crate) referred: bool,
    /// The name or URI as the caller wrote it.
    pub(crate) name: Box<str>,
}

/// An upstream's failure, and whose it was.
#[derive(Debug, thiserror::Error)]
#[error("upstream `{upstream}`: {why}")]
pub(crate) struct Failed {
    /// The upstream's configured id.
    pub(crate) upstream: std::sync::Arc<str>,
    /// What went wrong.
    pub(crate) why: UpstreamError,
    /// The call was a `tools/call`: the model is told in a result it can read.
    pub(crate) tool: bool,
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
}

/// A bound was reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LimitError {
    /// The session runs as many requests at once as it may.
    #[error("too many requests at once (at most {most})")]
    Concurrency {
        /// The bound.
        most: usize,
        /// The call was a `tools/call`.
        tool: bool,
    },
}

/// A person did not say yes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApprovalError {
    /// Nobody can be asked in this release.
    #[error("nobody can be asked")]
    Unavailable,
}

impl From<wire::headers::HeaderError> for EraError {
    fn from(error: wire::headers::HeaderError) -> EraError {
        EraError::Header(Box::new(error))
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

impl Error {
    /// Exhaustive on purpose: a new way to fail does not compile until it has an answer.
    /// Values: spec section 10, amended by the product's table of what a caller sees.
    pub(crate) fn answer(&self, era: Era) -> Answer {
        let (status, code, reason) = match self {
            Error::Authn(AuthnError::NoEndpoint) => (404, Some(code::INVALID_REQUEST), "unknown_endpoint"),
            Error::Authn(AuthnError::Missing | AuthnError::Refused(_)) => {
                (401, Some(code::INVALID_REQUEST), "unauthenticated")
            }
            Error::Authn(AuthnError::Malformed) => (400, Some(code::INVALID_REQUEST), "unauthenticated"),
            Error::Body(BodyError::TooLarge { .. }) => (413, Some(code::INVALID_REQUEST), "too_large"),
            Error::Body(BodyError::Slow) => (408, Some(code::INVALID_REQUEST), "too_slow"),
            Error::Body(BodyError::Broken) => (400, Some(code::INVALID_REQUEST), "broken_body"),
            Error::Frame(error) if error.is_parse_error() => (400, Some(code::PARSE_ERROR), "parse"),
            Error::Frame(_) => (400, Some(code::INVALID_REQUEST), "not_a_message"),
            Error::Era(EraError::NotServed(_)) => {
                (400, Some(code::UNSUPPORTED_VERSION), "unsupported_version")
            }
            Error::Era(EraError::UnknownHeader(_)) => {
                (400, Some(code::INVALID_REQUEST), "unsupported_version")
            }
            Error::Era(EraError::NoMessage(_)) => (400, Some(code::INVALID_REQUEST), "not_a_message"),
            Error::Era(EraError::NoEnvelope(_)) => (400, Some(code::INVALID_PARAMS), "no_envelope"),
            Error::Era(EraError::VersionHeader | EraError::Header(_)) => {
                (400, Some(code::HEADER_MISMATCH), "header_mismatch")
            }
            Error::Era(EraError::NoSuchVerb) => (405, Some(code::INVALID_REQUEST), "no_such_verb"),
            Error::Session(SessionError::Missing) => (400, Some(code::INVALID_REQUEST), "no_session"),
            Error::Session(SessionError::Unknown) => (404, Some(code::INVALID_REQUEST), "unknown_session"),
            Error::Session(SessionError::TooMany) => (429, Some(code::INTERNAL_ERROR), "too_many_sessions"),
            Error::Session(SessionError::Draining) => (503, Some(code::INTERNAL_ERROR), "draining"),
            Error::Session(SessionError::IdInUse) => (400, Some(code::INVALID_REQUEST), "id_in_use"),
            Error::Session(SessionError::NoRevision) => (200, Some(code::INVALID_PARAMS), "no_revision"),
            Error::Session(SessionError::TooManyStreams) => {
                (429, Some(code::INTERNAL_ERROR), "too_many_streams")
            }
            Error::Catalog(CatalogError::Method(_)) => match era {
                Era::Legacy => (200, Some(code::METHOD_NOT_FOUND), "unknown_method"),
                Era::Modern => (404, Some(code::METHOD_NOT_FOUND), "unknown_method"),
            },
            Error::Catalog(CatalogError::Parameter(_)) => (200, Some(code::INVALID_PARAMS), "bad_parameter"),
            Error::Catalog(CatalogError::Cursor) => (200, Some(code::INVALID_PARAMS), "unknown_cursor"),
            Error::Limit(LimitError::Concurrency { tool: true, .. }) => (200, None, "busy"),
            Error::Limit(LimitError::Concurrency { tool: false, .. }) => {
                (200, Some(code::INTERNAL_ERROR), "busy")
            }
            Error::Denied(refused) => match (refused.denial.by, refused.sort) {
                // Hidden and missing must look the same, and each kind keeps its own code (spec R-05).
                (CheckName::Visibility | CheckName::Pins, Some(Sort::Resource))
                    if era == Era::Legacy && !refused.referred =>
                {
                    (200, Some(code::RESOURCE_NOT_FOUND), "unknown_name")
                }
                (CheckName::Visibility | CheckName::Pins, _) => {
                    (200, Some(code::INVALID_PARAMS), "unknown_name")
                }
                (CheckName::Policy | CheckName::Screen, Some(Sort::Tool)) => (200, None, "denied"),
                (CheckName::Policy | CheckName::Screen, _) => (200, Some(code::INVALID_PARAMS), "denied"),
            },
            Error::Approval(ApprovalError::Unavailable) => (200, None, "approval_unavailable"),
            Error::Audit(_) => (200, Some(code::INTERNAL_ERROR), "unrecorded"),
            Error::Upstream(failed) if failed.tool => (200, None, failed.reason()),
            Error::Upstream(failed) => (200, Some(code::INTERNAL_ERROR), failed.reason()),
        };
        Answer { status, code, reason }
    }

    /// The JSON-RPC message for the client. Says what and how to mend it; names no rule, host or path.
    pub(crate) fn message(&self, id: Option<&Id>, era: Era) -> Bytes {
        let answer = self.answer(era);
        let text = self.text();
        let mut data = format!("{{\"reason\":\"{}\"", answer.reason);
        self.write_details(&mut data);
        data.push('}');
        match (answer.code, id) {
            (Some(code), _) => code::failure(id, code, &text, Some(&data)),
            (None, Some(id)) => code::tool_error(id, &text, &data),
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
            Error::Upstream(failed) => failed.to_string(),
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
            Error::Era(EraError::NotServed(requested)) => {
                member("requested", requested);
                data.push_str(",\"supported\":[");
                for (i, revision) in wire::Revision::ALL.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    let _ = write!(data, "{comma}\"{}\"", revision.text());
                }
                data.push(']');
            }
            Error::Authn(_)
            | Error::Body(_)
            | Error::Frame(_)
            | Error::Era(_)
            | Error::Session(_)
            | Error::Catalog(_)
            | Error::Limit(_)
            | Error::Denied(_)
            | Error::Approval(_)
            | Error::Audit(_) => (),
        }
    }
}

impl Refused {
    /// The same words for hidden and for missing (spec T-04).
    fn text(&self) -> String {
        match (self.denial.by, self.sort) {
            (CheckName::Visibility | CheckName::Pins, Some(Sort::Tool)) => {
                format!("unknown tool `{}`", self.name)
            }
            (CheckName::Visibility | CheckName::Pins, Some(Sort::Prompt)) => {
                format!("unknown prompt `{}`", self.name)
            }
            (CheckName::Visibility | CheckName::Pins, Some(Sort::Resource)) => {
                format!("unknown resource `{}`", self.name)
            }
            (CheckName::Visibility | CheckName::Pins, None) => "unknown name".to_owned(),
            (CheckName::Policy | CheckName::Screen, _) => "this call is not allowed".to_owned(),
        }
    }
}

impl Failed {
    fn reason(&self) -> &'static str {
        match &self.why {
            UpstreamError::NotRunning { .. } => "upstream_unavailable",
            UpstreamError::Exited { .. } => "upstream_exited",
            UpstreamError::TimedOut { .. } => "upstream_timed_out",
            UpstreamError::Busy => "upstream_busy",
            UpstreamError::TooLarge { .. } => "result_too_large",
            UpstreamError::Garbled { .. } => "upstream_garbled",
            UpstreamError::Incompatible { .. } => "upstream_incompatible",
            UpstreamError::TooMany { .. } => "too_many_processes",
        }
    }
}

const _: () = assert!(size_of::<Error>() <= 32, "keep `Result` small: box what is large");

#[cfg(test)]
mod tests;

//! How talking to an upstream fails, and whether the request may have run.

/// Why a request got no answer. The texts name no host, path or secret and carry nothing the server wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// There is nothing to talk to, or it refused before anything ran.
    #[error("not running: {why}")]
    NotRunning {
        /// What happened.
        why: Box<str>,
    },
    /// The server went away before it answered.
    #[error("{why}")]
    Exited {
        /// What happened.
        why: Box<str>,
        /// Whether any of the request was written: only what surely did not run may be repeated.
        sent: bool,
    },
    /// No answer within the time allowed.
    #[error("no answer in time")]
    TimedOut {
        /// Whether any of the request was written.
        sent: bool,
    },
    /// The server does not read its input and the queue toward it is full, or it says that it has too much to do; nothing ran.
    #[error("too many requests are waiting")]
    Busy,
    /// The answer is larger than what is accepted.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer breaks the protocol.
    #[error("malformed answer: {why}")]
    Garbled {
        /// Which rule it breaks.
        why: Box<str>,
    },
    /// The server speaks no revision that we speak.
    #[error("incompatible server: {why}")]
    Incompatible {
        /// What it speaks.
        why: Box<str>,
    },
    /// What proves us to it cannot be had, or it does not take that; nothing ran.
    #[error("{why}")]
    Credential {
        /// What happened.
        why: &'static str,
    },
    /// The tenant runs as many processes as it may.
    #[error("the limit of {limit} processes is reached")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

impl UpstreamError {
    pub(crate) fn not_running(why: impl Into<Box<str>>) -> Self {
        Self::NotRunning { why: why.into() }
    }

    /// The server refuses our credential; nothing ran.
    pub(crate) fn unauthorized() -> Self {
        Self::Credential { why: "it does not accept our credential" }
    }

    pub(crate) fn garbled(why: impl Into<Box<str>>) -> Self {
        Self::Garbled { why: why.into() }
    }

    pub(crate) fn incompatible(why: impl Into<Box<str>>) -> Self {
        Self::Incompatible { why: why.into() }
    }
}

// It travels in every result on the call path.
const _: () = assert!(size_of::<UpstreamError>() <= 32);

//! What was denied, and whose failure it was: the words of both.

use admission::{Denial, Sort};
use upstream::UpstreamError;

use super::CatalogError;

/// A rule has no answer. Which and why is in the record: the model may be led by whom the rule is against.
const UNDECIDED: &str = "whether this call is allowed cannot be told from its arguments, so it is not";

/// The word for programs of a task that nobody has, and of one that its owner must not know of.
pub(super) const UNKNOWN_TASK: &str = "unknown_task";

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

impl Refused {
    /// The same words for hidden and for missing (spec T-04).
    pub(super) fn text(&self) -> String {
        let refusal = &self.denial.refusal;
        match self.sort {
            Some(Sort::Tool) if refusal.hides => format!("unknown tool `{}`", self.name),
            Some(Sort::Prompt) if refusal.hides => format!("unknown prompt `{}`", self.name),
            Some(Sort::Resource) if refusal.hides => format!("unknown resource `{}`", self.name),
            // All that is asked about without being called is a task.
            None if refusal.hides => CatalogError::Task.to_string(),
            Some(_) | None => match &refusal.message {
                Some(message) => message.to_string(),
                None if refusal.error.is_some() => UNDECIDED.to_owned(),
                None if !refusal.lacks.is_empty() => {
                    format!("the token lacks a scope that this needs: {}", refusal.lacks.join(" "))
                }
                None => "this call is not allowed with these arguments".to_owned(),
            },
        }
    }

    /// The word for programs.
    pub(super) fn reason(&self) -> &'static str {
        let refusal = &self.denial.refusal;
        match refusal.error {
            _ if refusal.hides && self.sort.is_none() => UNKNOWN_TASK,
            _ if refusal.hides => "unknown_name",
            Some(_) => "rule_error",
            None if !refusal.lacks.is_empty() => "insufficient_scope",
            None => "denied",
        }
    }
}

impl Failed {
    pub(super) fn reason(&self) -> &'static str {
        match &self.why {
            UpstreamError::NotRunning { .. } => "upstream_unavailable",
            UpstreamError::Exited { .. } => "upstream_exited",
            UpstreamError::TimedOut { .. } => "upstream_timed_out",
            UpstreamError::Busy => "upstream_busy",
            UpstreamError::TooLarge { .. } => "result_too_large",
            UpstreamError::Garbled { .. } => "upstream_garbled",
            UpstreamError::Incompatible { .. } => "upstream_incompatible",
            UpstreamError::Credential { .. } => "upstream_credential",
            UpstreamError::TooMany { .. } => "too_many_processes",
        }
    }
}

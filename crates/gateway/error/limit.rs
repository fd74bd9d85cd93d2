//! Bounds that were reached.

use std::{fmt, sync::Arc, time::Duration};

use wire::{Method, code};

use super::{Origin, Said};
use crate::limits::{Circle, Runaway};

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
    /// So many resources are followed already.
    #[error("too many subscriptions (at most {most})")]
    Subscriptions {
        /// The bound.
        most: usize,
    },
    /// The answers of one body of several messages are together as large as they may be (spec B-07).
    #[error(
        "the answers of one batch are together larger than {most} bytes: send the message alone; it may have taken effect"
    )]
    Batch {
        /// The bound, in bytes.
        most: usize,
        /// The message was a `tools/call`.
        tool: bool,
    },
    /// The principal has so many tasks already (spec U-39).
    #[error("too many tasks (at most {most})")]
    Tasks {
        /// The bound.
        most: usize,
    },
    /// A task is looked at too often (spec U-39).
    #[error("this task is looked at too often: heed its poll interval")]
    Looks,
    /// A configured limit is used up.
    #[error("{0}")]
    Spent(Box<Spent>),
    /// An agent goes in circles.
    #[error("{0}")]
    Runaway(Box<Runaway>),
}

/// A configured limit that is used up.
#[derive(Debug)]
pub(crate) struct Spent {
    /// Its name, for the record.
    pub(crate) rule: Arc<str>,
    /// What there is no more of.
    pub(crate) of: SpentOf,
    /// When there is again.
    pub(crate) after: Duration,
    /// Who is told.
    pub(crate) told: Told,
}

/// Who is told of a limit that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The model, in the result of its `tools/call`.
    Model,
    /// Whoever sent the message.
    Caller,
    /// The transport: what was asked for is a session or a stream.
    Transport,
}

impl Told {
    /// Of a message of this method.
    pub(crate) fn of(method: Method) -> Told {
        match method {
            Method::ToolsCall => Told::Model,
            Method::Initialize => Told::Transport,
            _ => Told::Caller,
        }
    }
}

/// What there is no more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpentOf {
    /// Calls in a time.
    Rate,
    /// Calls at a time.
    Places,
    /// Bytes in a time.
    Bytes,
    /// Calls of the day.
    Budget,
    /// Streams.
    Streams,
}

impl LimitError {
    /// How it is said: the rows of the table that are about limits.
    pub(super) fn said(&self) -> (Said, &'static str) {
        let tells = |tool| match tool {
            true => Said::Result,
            false => Said::Code(code::INTERNAL_ERROR, Origin::Ourselves),
        };
        match self {
            LimitError::Concurrency { tool, .. } => (tells(*tool), "busy"),
            LimitError::Subscriptions { .. } => (tells(false), "too_many_subscriptions"),
            LimitError::Batch { tool, .. } => (tells(*tool), "batch_too_large"),
            LimitError::Tasks { .. } => (tells(false), "too_many_tasks"),
            LimitError::Looks => (Said::Http(429, code::INTERNAL_ERROR), "looked_too_often"),
            LimitError::Spent(spent) => {
                let said = match spent.told {
                    Told::Model => tells(true),
                    Told::Caller => tells(false),
                    Told::Transport => Said::Http(429, code::INTERNAL_ERROR),
                };
                (said, spent.of.reason())
            }
            LimitError::Runaway(_) => (Said::Result, "runaway"),
        }
    }

    /// The rule as records call it.
    pub(crate) fn rule(&self) -> String {
        match self {
            LimitError::Spent(spent) => format!("limit:{}", spent.rule),
            LimitError::Runaway(runaway) => format!("limit:runaway:{}", runaway.circle.word()),
            LimitError::Concurrency { .. } => "limit:running".to_owned(),
            LimitError::Subscriptions { .. } => "limit:subscriptions".to_owned(),
            LimitError::Batch { .. } => "limit:batch".to_owned(),
            LimitError::Tasks { .. } => "limit:tasks".to_owned(),
            LimitError::Looks => "limit:looks".to_owned(),
        }
    }

    /// When to come back, in whole seconds, and at least one.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        let after = match self {
            LimitError::Spent(spent) => spent.after,
            LimitError::Runaway(runaway) => runaway.after?,
            LimitError::Concurrency { .. }
            | LimitError::Subscriptions { .. }
            | LimitError::Batch { .. }
            | LimitError::Tasks { .. }
            | LimitError::Looks => return None,
        };
        Some(seconds(after))
    }
}

/// Rounded up: whoever comes back then is let in.
fn seconds(after: Duration) -> u64 {
    after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0)).max(1)
}

impl SpentOf {
    /// The word for programs.
    pub(super) fn reason(self) -> &'static str {
        match self {
            SpentOf::Rate => "rate_limited",
            SpentOf::Places => "busy",
            SpentOf::Bytes => "volume_spent",
            SpentOf::Budget => "budget_spent",
            SpentOf::Streams => "too_many_streams",
        }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.of {
            SpentOf::Rate => "a rate limit is reached",
            SpentOf::Places => "too many calls are running at once",
            SpentOf::Bytes => "the volume for now is used up",
            SpentOf::Budget => "the budget of today is used up",
            SpentOf::Streams => "too many streams are open",
        };
        write!(f, "{what}; nothing was called. Try again in {} s", seconds(self.after))
    }
}

impl fmt::Display for Runaway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (times, within) = (self.times, self.within.as_secs());
        match self.circle {
            Circle::Repeat => write!(
                f,
                "this call was made {times} times in a row within {within} s, with the same arguments; it was not made again"
            )?,
            Circle::Alternation => write!(
                f,
                "this call and another one were made in turn, {times} times each within {within} s; it was not made again"
            )?,
            Circle::Errors => write!(
                f,
                "this tool failed {times} times in a row within {within} s; it was not called again"
            )?,
            Circle::FanOut => {
                write!(f, "{times} different tools were called within {within} s; this one was not called")?
            }
        }
        match self.after {
            None => f.write_str(
                ". It looks as if you go in circles: look at the answers you have, and do something else or ask your user",
            ),
            Some(after) => write!(f, ". Do something else, or try again in {} s", seconds(after)),
        }
    }
}

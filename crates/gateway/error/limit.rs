//! Bounds that were reached.

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
}

//! How a task ends that has no answer of its server.

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TaskError {
    /// What ran it is gone.
    #[error("the server that ran this task is gone, and the task with it; it may have acted")]
    Lost,
    /// Its tenant keeps as much as it may.
    #[error("the task ended, and there was no room to keep its result; it may have acted")]
    NoRoom,
    /// It sent its user to a page, and can be gone on with by another call only.
    #[error("the server wants to be called again once a page was opened, which a task cannot be")]
    Page,
    /// Its client did not want it any more.
    #[error("the task was cancelled")]
    Cancelled,
}

impl TaskError {
    /// The word for programs and records.
    pub(super) fn reason(self) -> &'static str {
        match self {
            TaskError::Lost => "task_lost",
            TaskError::NoRoom => "no_room",
            TaskError::Page => "task_needs_page",
            TaskError::Cancelled => "task_cancelled",
        }
    }
}

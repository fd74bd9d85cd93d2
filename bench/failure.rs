//! Why there is no figure: one text for whoever started the run.

use std::{fmt, io, time::Duration};

use tokio::time::timeout;

/// What went wrong, in words that say what came instead of what.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// With these words.
    pub(crate) fn new(words: impl Into<String>) -> Failure {
        Failure(words.into())
    }

    /// The same, after what it happened to.
    pub(crate) fn of(self, what: &str) -> Failure {
        Failure(format!("{what}: {}", self.0))
    }
}

/// What this brings, or the failure that it took too long.
pub(crate) async fn within<T>(
    time: Duration,
    what: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let late = |_| Failure::new(format!("nothing came within {} s", time.as_secs()));
    timeout(time, what).await.map_err(late)?
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(error.to_string())
    }
}

//! Says how much of a flood is worth a log line.

use std::time::Duration;
use tokio::time::Instant;

/// Lets a few events through in each window and counts the rest.
pub(crate) struct Burst {
    most: u32,
    window: Duration,
    opened: Option<Instant>,
    admitted: u32,
    dropped: u64,
}

impl Burst {
    pub(crate) fn new(most: u32, window: Duration) -> Self {
        Self { most, window, opened: None, admitted: 0, dropped: 0 }
    }

    /// `Some` if this event may be logged, with the number of those dropped since the last that was.
    pub(crate) fn admit(&mut self) -> Option<u64> {
        let now = Instant::now();
        let fresh = self.opened.is_none_or(|opened| now.duration_since(opened) >= self.window);
        if fresh {
            self.opened = Some(now);
            self.admitted = 0;
        }
        if self.admitted < self.most {
            self.admitted += 1;
            return Some(std::mem::take(&mut self.dropped));
        }
        self.dropped += 1;
        None
    }

    /// How many were dropped and not yet told of.
    pub(crate) fn untold(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::Burst;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut_and_its_size_told_in_the_next_window() {
        let mut burst = Burst::new(2, Duration::from_secs(10));
        let seen: Vec<Option<u64>> = (0..5).map(|_| burst.admit()).collect();
        assert_eq!(seen, [Some(0), Some(0), None, None, None]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(burst.admit(), Some(3));
        assert_eq!(burst.untold(), 0);
    }
}

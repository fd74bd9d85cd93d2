//! How often a server that fails is started again.

use crate::error::UpstreamError;
use crate::spec::Reach;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After so many failures in a row the breaker opens: tries become rare.
const BREAKER_FAILURES: u32 = 10;
const BREAKER_PAUSE: Duration = Duration::from_secs(300);
/// Up for so long means that earlier failures are over.
const STABLE: Duration = Duration::from_secs(30);

/// How long to leave a server alone after it failed.
#[derive(Default)]
pub(crate) struct Backoff {
    /// In a row, since it was last up for a while.
    failures: u32,
    /// Asking costs next to nothing, so the breaker never opens.
    is_cheap: bool,
}

impl Backoff {
    /// A process is expensive to start in vain; a server elsewhere is asked by one request.
    pub(crate) fn of(reach: &Reach) -> Self {
        Self { failures: 0, is_cheap: matches!(reach, Reach::Http(_)) }
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// The pause after one more failure, of a process that was up for so long, if ever.
    pub(crate) fn pause(&mut self, up: Option<Duration>, error: &UpstreamError) -> Duration {
        if up.is_some_and(|up| up >= STABLE) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 && up.is_some() {
            // It worked and went away once: the next call should find it again (spec P-05).
            return Duration::ZERO;
        }
        // A server that is incompatible today is so in 30 s.
        let gives_up = self.failures > BREAKER_FAILURES && !self.is_cheap;
        if gives_up || matches!(error, UpstreamError::Incompatible { .. }) {
            return jitter(BREAKER_PAUSE);
        }
        jitter(LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.saturating_pow(self.failures - 1)))
    }
}

/// 80 to 120 %: servers that fell together do not get up together.
pub(crate) fn jitter(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    pause * (80 + random % 41) / 100
}

#[cfg(test)]
mod tests {
    use super::{Backoff, LONGEST_PAUSE, STABLE};
    use crate::error::UpstreamError;
    use std::time::Duration;

    fn down() -> UpstreamError {
        UpstreamError::not_running("x")
    }

    #[test]
    fn pauses_grow_to_half_a_minute_and_then_the_breaker_opens() {
        let mut backoff = Backoff::default();
        for (n, want) in
            [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 300.0, 300.0].into_iter().enumerate()
        {
            let got = backoff.pause(None, &down()).as_secs_f64();
            assert!((want * 0.79..=want * 1.21).contains(&got), "failure {n}: {got}");
        }
        // Up for a moment only is no recovery.
        assert!(backoff.pause(Some(Duration::from_secs(1)), &down()) > LONGEST_PAUSE * 2);
        // Up for a while is, and the first failure after that costs nothing.
        assert_eq!(backoff.pause(Some(STABLE), &down()), Duration::ZERO);
        assert!(backoff.pause(Some(Duration::from_secs(1)), &down()) > Duration::from_millis(300));
    }

    #[test]
    fn a_dying_server_starts_at_most_eight_times_in_five_seconds() {
        for up in [None, Some(Duration::ZERO)] {
            // One more for the try without the probe.
            let (mut backoff, mut starts, mut clock) = (Backoff::default(), 2, Duration::ZERO);
            loop {
                clock += backoff.pause(up, &down());
                if clock > Duration::from_secs(5) {
                    break;
                }
                starts += 1;
            }
            assert!(starts <= 8, "{up:?}: {starts}");
        }
    }

    #[test]
    fn a_server_over_http_is_asked_every_half_minute_for_as_long_as_it_takes() {
        let mut backoff = Backoff { is_cheap: true, ..Backoff::default() };
        let longest = (0..100).map(|_| backoff.pause(None, &down())).max();
        assert!(longest <= Some(LONGEST_PAUSE * 12 / 10));
    }

    #[test]
    fn an_incompatible_server_is_left_alone() {
        let pause = Backoff::default().pause(None, &UpstreamError::incompatible("x"));
        assert!(pause >= Duration::from_secs(240));
    }
}

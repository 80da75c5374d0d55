//! When a leg rests after a failure, and for how long.
//!
//! Owns the back-off. A leg that rests is not asked while another answers; where nobody else does it is asked all
//! the same. Takes the time as an argument.

use std::time::Duration;

use tokio::time::Instant;

use crate::assistant::backends::BackendError;

/// The first rest after a failure that cost no time: a server that is started again is back soon.
const QUICK_REST: Duration = Duration::from_secs(5);
/// A failure that took this long would cost every turn as much.
const SLOW_FAILURE: Duration = Duration::from_secs(2);
/// The first rest then.
const SLOW_REST: Duration = Duration::from_secs(30);
/// The first rest where only the operator can help: a wrong key, an empty account, a missing model.
const SETTINGS_REST: Duration = Duration::from_secs(60);
/// Each further failure doubles the rest, up to this.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// The longest rest that a server may wish for.
const LONGEST_WISH: Duration = Duration::from_secs(3600);

/// What is remembered of a leg.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Health {
    /// How its last use failed, for the operator.
    pub failed: Option<String>,
    rests_until: Option<Instant>,
    /// Rests in a row.
    rests: u32,
}

impl Health {
    /// How long it still rests; `None`: it doesn't.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        let until = self.rests_until?;
        (until > now).then(|| until.saturating_duration_since(now))
    }

    /// The same leg after that failure, which took so long.
    #[must_use]
    pub fn after(&self, error: &BackendError, took: Duration, now: Instant) -> Health {
        let first = match error {
            // The model's own fault says nothing of the leg, and what was never set up is none.
            BackendError::Broken(_)
            | BackendError::NoTools
            | BackendError::TooLong
            | BackendError::Unconfigured(_) => return self.clone(),
            BackendError::Overloaded { retry_after: Some(wish) } => {
                return self.resting(error, (*wish).min(LONGEST_WISH), now);
            }
            // It may be this one request that is refused.
            BackendError::Refused { status: 300..500, .. } => {
                return Health { failed: Some(error.to_string()), ..self.clone() };
            }
            BackendError::Auth(_) | BackendError::NoMoney(_) | BackendError::NoModel(_) => {
                SETTINGS_REST
            }
            BackendError::Unreachable(_)
            | BackendError::Overloaded { retry_after: None }
            | BackendError::Refused { .. } => {
                if took >= SLOW_FAILURE {
                    SLOW_REST
                } else {
                    QUICK_REST
                }
            }
        };
        let rest = first.saturating_mul(1 << self.rests.min(10)).min(LONGEST_REST);
        self.resting(error, rest, now)
    }

    fn resting(&self, error: &BackendError, rest: Duration, now: Instant) -> Health {
        Health {
            failed: Some(error.to_string()),
            rests_until: Some(now + rest),
            rests: self.rests.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rests(errors: &[BackendError], took: Duration) -> Vec<u64> {
        let now = Instant::now();
        let mut health = Health::default();
        errors
            .iter()
            .map(|error| {
                health = health.after(error, took, now);
                health.rest(now).map_or(0, |rest| rest.as_secs())
            })
            .collect()
    }

    #[test]
    fn each_failure_in_a_row_doubles_the_rest_up_to_its_greatest() {
        let gone = || BackendError::Unreachable("gone".to_owned());
        let quick = rests(&vec![gone(); 8], Duration::ZERO);
        assert_eq!(quick, [5, 10, 20, 40, 80, 160, 300, 300]);
        let just_quick = SLOW_FAILURE - Duration::from_millis(1);
        assert_eq!(rests(&[gone()], just_quick), [5]);
        assert_eq!(rests(&vec![gone(); 5], SLOW_FAILURE), [30, 60, 120, 240, 300]);
        let key = BackendError::Auth("no".to_owned());
        assert_eq!(rests(&vec![key; 4], Duration::ZERO), [60, 120, 240, 300]);
        assert_eq!(rests(&vec![gone(); 2000], Duration::ZERO).last(), Some(&300));
    }

    #[test]
    fn a_server_is_left_alone_as_long_as_it_wishes_within_reason() {
        let wish =
            |seconds| BackendError::Overloaded { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(rests(&[wish(20), wish(3600), wish(3601)], Duration::ZERO), [20, 3600, 3600]);
    }

    #[test]
    fn what_is_no_fault_of_the_leg_does_not_make_it_rest() {
        for (error, noted) in [
            (BackendError::Broken("empty".to_owned()), false),
            (BackendError::NoTools, false),
            (BackendError::TooLong, false),
            (BackendError::Unconfigured("no key".to_owned()), false),
            (BackendError::Refused { status: 499, reason: String::new() }, true),
        ] {
            let now = Instant::now();
            let health = Health::default().after(&error, SLOW_FAILURE, now);
            assert_eq!((health.rest(now), health.failed.is_some()), (None, noted), "{error}");
        }
        let server = BackendError::Refused { status: 500, reason: String::new() };
        assert_eq!(rests(&[server], Duration::ZERO), [5]);
    }
}

//! How long a leg takes for an answer.
//!
//! Owns the last times, and what is said of them. A failure is no answer, however quick.

use std::collections::VecDeque;
use std::time::Duration;

/// Answers that are looked at: few enough to follow a changed model, enough for one slow answer not to count.
const ANSWERS: usize = 9;

/// The last answers' times.
#[derive(Debug, Default)]
pub struct Speed {
    took: VecDeque<Duration>,
}

impl Speed {
    /// An answer came.
    pub fn answered(&mut self, took: Duration) {
        if self.took.len() == ANSWERS {
            self.took.pop_front();
        }
        self.took.push_back(took);
    }

    /// Milliseconds, the middle one; of an even number the slower of the two. `None` before the first answer.
    pub fn median_ms(&self) -> Option<u64> {
        let mut sorted: Vec<Duration> = self.took.iter().copied().collect();
        sorted.sort_unstable();
        let middle = sorted.get(sorted.len() / 2)?;
        u64::try_from(middle.as_millis()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_last_answers_counts() {
        let mut speed = Speed::default();
        assert_eq!(speed.median_ms(), None);
        for (ms, median) in [(900, 900), (100, 900), (60_000, 900), (800, 900), (700, 800)] {
            speed.answered(Duration::from_millis(ms));
            assert_eq!(speed.median_ms(), Some(median), "after {ms}");
        }
        for _ in 0..ANSWERS {
            speed.answered(Duration::from_millis(5));
        }
        assert_eq!((speed.median_ms(), speed.took.len()), (Some(5), ANSWERS));
    }
}

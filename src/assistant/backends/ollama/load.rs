//! How long the server last took to load a model.
//!
//! Owns one figure, for showing. A server tells it with each answer, and only there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Below this a model was in memory already.
const LEAST: Duration = Duration::from_millis(500);
/// In the text of an answer, before its nanoseconds.
const MARK: &[u8] = b"\"load_duration\":";

/// Milliseconds; 0 for none yet. One for the process: there is one local server.
static LAST_MS: AtomicU64 = AtomicU64::new(0);

/// Takes the figure out of an answer, if a model was loaded for it.
pub(super) fn note(body: &[u8]) {
    let Some(taken) = taken(body).filter(|taken| *taken >= LEAST) else { return };
    LAST_MS.store(u64::try_from(taken.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The last loading that took a while, since this process began.
pub fn last() -> Option<Duration> {
    match LAST_MS.load(Ordering::Relaxed) {
        0 => None,
        millis => Some(Duration::from_millis(millis)),
    }
}

/// The last one in the text: the server's own stands behind the words of the model, in which the mark
/// could only stand with escaped quotes.
fn taken(body: &[u8]) -> Option<Duration> {
    let at = body.windows(MARK.len()).rposition(|window| window == MARK)?;
    let digits = body.get(at + MARK.len()..)?.iter().skip_while(|b| b.is_ascii_whitespace());
    let digits: String =
        digits.take_while(|b| b.is_ascii_digit()).map(|b| char::from(*b)).collect();
    digits.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_figure_is_taken() {
        for (body, millis) in [
            (r#"{"message":{},"load_duration":3200000000,"eval_count":1}"#, Some(3200)),
            (r#"{"load_duration": 7}"#, Some(0)),
            (r#"{"message":{"content":"\"load_duration\":9000000000"},"done":true}"#, None),
            (r#"{"load_duration":99999999999999999999999}"#, None),
            (r#"{"load_duration":"#, None),
            ("", None),
        ] {
            let taken = taken(body.as_bytes()).map(|taken| taken.as_millis());
            assert_eq!(taken, millis, "{body}");
        }
    }
}

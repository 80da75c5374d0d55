//! The lines of a streamed answer.
//!
//! Owns putting them together and reading them. Prints nothing.

use serde_json::Value;

use crate::assistant::http::MAX_BODY;
use crate::cli::terminal::printable;

/// One line, read.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// A piece of the answer, fit for a terminal.
    Text(String),
    /// The end; `cut`: at the greatest length; the object that said so.
    Done { cut: bool, object: Value },
    /// The server gave up, or it is no server of this kind.
    Failed(String),
}

/// Bytes of a line that has not ended.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Takes bytes as they come, gives what has become whole.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.len() + piece.len() > MAX_BODY {
                events.push(Event::Failed("the server sent a line of more than 1 MiB".to_owned()));
                return events;
            }
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.begun);
                if !line.trim_ascii().is_empty() {
                    read(&line, &mut events);
                }
            }
        }
        events
    }

    /// The stream is over: what has begun counts only if it is whole.
    pub(super) fn finish(self) -> Vec<Event> {
        let mut events = Vec::new();
        if serde_json::from_slice::<Value>(&self.begun).is_ok() {
            read(&self.begun, &mut events);
        }
        events
    }
}

/// A line with a text and the end is two events.
fn read(line: &[u8], events: &mut Vec<Event>) {
    let Ok(line) = serde_json::from_slice::<Value>(line) else {
        return events.push(Event::Failed("the server sent a line that is no JSON".to_owned()));
    };
    // An error after the first byte comes with status 200.
    if let Some(error) = line["error"].as_str() {
        return events.push(Event::Failed(error.to_owned()));
    }
    if let Some(text) = line["message"]["content"].as_str()
        && !text.is_empty()
    {
        events.push(Event::Text(printable(text)));
    }
    if line["done"] == true {
        events.push(Event::Done { cut: line["done_reason"] == "length", object: line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(cut: bool, text: &str) -> Event {
        let reason = if cut { "length" } else { "stop" };
        let object = serde_json::json!({
            "message": {"content": text}, "done": true, "done_reason": reason,
        });
        Event::Done { cut, object }
    }

    #[test]
    fn lines_are_put_together_wherever_they_are_cut() {
        let stream = concat!(
            "{\"message\":{\"content\":\"It is \"},\"done\":false}\n",
            "{\"message\":{\"content\":\"18 °C\\u001b[2J\"},\"done\":false}\n\n",
            "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n",
        );
        let whole = Lines::default().feed(stream.as_bytes());
        let text = |text: &str| Event::Text(text.to_owned());
        assert_eq!(whole, [text("It is "), text("18 °C[2J"), done(false, "")]);
        for at in 0..stream.len() {
            let mut lines = Lines::default();
            let mut events = lines.feed(&stream.as_bytes()[..at]);
            events.extend(lines.feed(&stream.as_bytes()[at..]));
            assert_eq!(events, whole, "cut at {at}");
        }
    }

    #[test]
    fn an_error_in_the_stream_and_a_foreign_line_are_failures() {
        let events = Lines::default().feed(b"{\"error\":\"unexpected EOF\"}\nnonsense\n");
        assert_eq!(events[0], Event::Failed("unexpected EOF".to_owned()));
        assert!(matches!(events[1], Event::Failed(_)));
    }

    #[test]
    fn the_last_line_needs_no_end_but_has_to_be_whole() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"{\"message\":{\"content\":\"ok\"},\"done\":true}"), []);
        let object = serde_json::json!({"message": {"content": "ok"}, "done": true});
        assert_eq!(
            lines.finish(),
            [Event::Text("ok".to_owned()), Event::Done { cut: false, object }]
        );
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"{\"message\":{\"content\":\"ok\"},\"do"), []);
        assert_eq!(lines.finish(), []);
    }

    #[test]
    fn the_greatest_length_is_told() {
        let line = b"{\"message\":{\"content\":\"la\"},\"done\":true,\"done_reason\":\"length\"}\n";
        let events = Lines::default().feed(line);
        assert_eq!(events, [Event::Text("la".to_owned()), done(true, "la")]);
    }

    #[test]
    fn a_line_without_end_is_not_kept_for_ever() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(&vec![b'x'; MAX_BODY]), []);
        assert!(matches!(lines.feed(b"x")[..], [Event::Failed(_)]));
    }
}

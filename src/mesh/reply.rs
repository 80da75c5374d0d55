//! The reply planner: from an answer in Markdown to the texts of as few packets as the air allows.
//!
//! Owns the plain form of a text, where it is cut, and the marks that number its parts. Pure: no clock,
//! no radio, no disk. Must not know why an answer says what it says, nor when its parts leave.

mod cut;
mod markdown;

use crate::invisible;

/// Below this a budget is taken as this: marks, the note and one character must always fit.
pub const MIN_BUDGET: usize = 40;

/// One part of a planned text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where its body begins in the plain text, bytes.
    pub start: usize,
    /// Where its body ends, bytes.
    pub end: usize,
    /// What goes on air: mark, body, note.
    pub text: String,
}

/// Markdown becomes plain text. Lists begin with `- ` or their number, a link becomes its text and its
/// host, a table becomes lines, code stays as it is without its fences, tags of HTML go. No line is empty.
/// Of control, bidi and invisible characters only the line feed is left, and what joins an emoji.
pub fn plain(markdown: &str) -> String {
    tidy(&markdown::render(markdown))
}

/// The same for a text that is not Markdown: only its characters and its white space are put in order.
/// Applied to its own result, or to that of [`plain`], it changes nothing.
pub fn tidy(text: &str) -> String {
    let visible = invisible::visible(text);
    let mut lines = visible.split('\n').map(str::trim_end).filter(|line| !line.is_empty());
    let mut out = lines.next().unwrap_or_default().trim_start().to_owned();
    for line in lines {
        out.push('\n');
        out.push_str(line);
    }
    out
}

/// Cuts `text` (see [`plain`]) into the fewest parts of at most `budget` bytes each.
///
/// Several parts are numbered, `2/3 `; the last part of each `burst` that leaves something waiting ends in
/// ` (more_word)` (a word too long for that is left out); both count against the budget. Without them the parts are, in order, the tidy text,
/// where only the white space at a cut is missing. Among the ways to cut it into that few parts the one
/// with the fewest broken words is taken, then the one with the fewest broken sentences. A part begins and
/// ends on a grapheme border, unless one grapheme alone is longer than a part. Empty text: no parts.
pub fn plan(text: &str, budget: usize, burst: usize, more_word: &str) -> Vec<String> {
    let text = tidy(text);
    layout(&text, budget, burst, more_word, 0).into_iter().map(|piece| piece.text).collect()
}

/// As [`plan`], for a tidy text that follows `before` parts which are sent already: the first part here is
/// number `before + 1`, and `burst` counts from part 1.
pub fn layout(
    text: &str,
    budget: usize,
    burst: usize,
    more_word: &str,
    before: usize,
) -> Vec<Piece> {
    let budget = budget.max(MIN_BUDGET);
    let mut note = format!(" ({more_word})");
    if note.len() > budget / 4 {
        note.clear();
    }
    let marks = Marks { budget, burst: burst.max(1), note, before };
    cut::fewest(text, &marks)
}

/// What is put around the bodies.
struct Marks {
    budget: usize,
    burst: usize,
    note: String,
    before: usize,
}

impl Marks {
    /// `index` counts from 0 in the text at hand, `count` is the number of its parts.
    fn mark(&self, index: usize, count: usize) -> String {
        let (part, of) = (self.before + index + 1, self.before + count);
        if of == 1 { String::new() } else { format!("{part}/{of} ") }
    }

    fn note(&self, index: usize, count: usize) -> &str {
        let part = self.before + index + 1;
        if part.is_multiple_of(self.burst) && index + 1 < count { &self.note } else { "" }
    }

    /// Bytes left for the body.
    fn room(&self, index: usize, count: usize) -> usize {
        let taken = self.mark(index, count).len() + self.note(index, count).len();
        self.budget.saturating_sub(taken).max(4)
    }

    /// The longest grapheme that fits in any part, with marks of up to five digits each.
    fn longest(&self) -> usize {
        self.budget - self.note.len() - "12345/12345 ".len()
    }
}

#[cfg(test)]
mod tests;

//! Where a text is cut.
//!
//! Owns the search for the fewest parts, and among those for the cuts that hurt a reader least. The number
//! of parts is found first, by filling each part to the brim; the cuts are then moved back within the slack
//! that is left, so that good borders never cost a packet.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation as _;

use super::{Marks, Piece};

/// What a cut costs a reader. A dearer kind is never chosen to save cheaper ones (of which a text has
/// fewer than the factor between them).
const LINE: u64 = 0;
const SENTENCE: u64 = 1;
const WORD: u64 = 1_000;
const INSIDE_WORD: u64 = 1_000_000; // at a word border without a space: after a hyphen, between ideographs
const GRAPHEME: u64 = 1_000_000_000;
const CHAR: u64 = 1_000_000_000_000;

/// The text as a row of pieces that are not cut: graphemes, or characters where one is too long for a part.
struct Atoms {
    /// Where each begins, and the end of the text.
    offsets: Vec<usize>,
    /// Is it white space?
    blank: Vec<bool>,
    /// What a cut before it costs. No part begins with white space.
    cost: Vec<u64>,
}

pub(super) fn fewest(text: &str, marks: &Marks) -> Vec<Piece> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let atoms = Atoms::of(text, marks.longest());
    let mut count = text.split_whitespace().map(str::len).sum::<usize>().div_ceil(marks.budget);
    loop {
        let rooms: Vec<usize> = (0..count).map(|index| marks.room(index, count)).collect();
        if let Some(latest) = atoms.brimful(&rooms) {
            return atoms
                .cuts(&rooms, &latest)
                .into_iter()
                .enumerate()
                .map(|(index, (start, end))| {
                    let (mark, note) = (marks.mark(index, count), marks.note(index, count));
                    let body = &text[start..end];
                    Piece { start, end, text: format!("{mark}{body}{note}") }
                })
                .collect();
        }
        count += 1;
    }
}

impl Atoms {
    fn of(text: &str, longest: usize) -> Atoms {
        let words: HashSet<usize> = text.split_word_bound_indices().map(|(at, _)| at).collect();
        let sentences = sentence_starts(text);
        let (mut offsets, mut blank, mut cost) = (Vec::new(), Vec::new(), Vec::new());
        // Of the run of white space before: is there one, with a line feed, with a sentence's end?
        let (mut space, mut line, mut sentence) = (false, false, false);
        for (at, grapheme) in text.grapheme_indices(true) {
            sentence |= sentences.contains(&at);
            let white = grapheme.chars().all(char::is_whitespace);
            let here = if line {
                LINE
            } else if sentence && (space || ends_without_space(&text[..at])) {
                SENTENCE
            } else if space {
                WORD
            } else if words.contains(&at) {
                INSIDE_WORD
            } else {
                GRAPHEME
            };
            if grapheme.len() > longest {
                for (inner, c) in grapheme.char_indices() {
                    offsets.push(at + inner);
                    blank.push(c.is_whitespace());
                    cost.push(if inner == 0 { here } else { CHAR });
                }
            } else {
                offsets.push(at);
                blank.push(white);
                cost.push(here);
            }
            if white {
                space = true;
                line |= grapheme.contains('\n');
            } else {
                (space, line, sentence) = (false, false, false);
            }
        }
        offsets.push(text.len());
        Atoms { offsets, blank, cost }
    }

    fn len(&self) -> usize {
        self.blank.len()
    }

    /// The next atom from `at` on that is not white space.
    fn skip(&self, at: usize) -> usize {
        (at..self.len()).find(|i| !self.blank[*i]).unwrap_or(self.len())
    }

    /// The end of the part before a part that begins at `at`: without the white space between them.
    fn trim(&self, at: usize) -> usize {
        (0..at).rev().find(|i| !self.blank[*i]).map_or(0, |i| i + 1)
    }

    /// Where the next part begins at the latest, when one with that much room begins at `start`.
    fn reach(&self, start: usize, room: usize) -> usize {
        let limit = self.offsets[start] + room;
        let end = self.offsets.partition_point(|offset| *offset <= limit) - 1;
        self.skip(end.max(start))
    }

    /// Where a part with that much room begins at the earliest, when the next one begins at `next`.
    fn back(&self, next: usize, room: usize) -> usize {
        let limit = self.offsets[self.trim(next)].saturating_sub(room);
        self.skip(self.offsets.partition_point(|offset| *offset < limit))
    }

    /// The latest begin of each part, all filled to the brim; `None` when the text does not fit.
    fn brimful(&self, rooms: &[usize]) -> Option<Vec<usize>> {
        let mut latest = vec![self.skip(0)];
        for room in rooms {
            let last = latest.last().copied().unwrap_or(0);
            latest.push(self.reach(last, *room));
        }
        (latest.last() == Some(&self.len())).then_some(latest)
    }

    /// The bodies, as byte ranges: the cheapest cuts between the earliest and the latest begin of each
    /// part; of equally cheap ones the latest.
    fn cuts(&self, rooms: &[usize], latest: &[usize]) -> Vec<(usize, usize)> {
        let count = rooms.len();
        let mut earliest = vec![self.len(); count + 1];
        for index in (0..count).rev() {
            earliest[index] = self.back(earliest[index + 1], rooms[index]);
        }
        // For each part, by its begin (counted from the earliest): the cost of the rest, the next begin.
        let mut plans: Vec<Vec<(u64, usize)>> = vec![Vec::new(); count];
        for index in (0..count).rev() {
            let plan: Vec<(u64, usize)> = (earliest[index]..=latest[index].max(earliest[index]))
                .map(|start| {
                    if index + 1 == count {
                        return (0, self.len());
                    }
                    if self.blank.get(start).copied().unwrap_or(true) {
                        return (u64::MAX, self.len()); // no part begins with white space
                    }
                    let low = earliest[index + 1].max(start + 1);
                    let high = self.reach(start, rooms[index]).min(latest[index + 1]);
                    (low..=high)
                        .filter(|next| *next < self.len() && !self.blank[*next])
                        .map(|next| {
                            let rest = plans[index + 1][next - earliest[index + 1]].0;
                            (rest.saturating_add(self.cost[next]), next)
                        })
                        .min_by_key(|(cost, next)| (*cost, std::cmp::Reverse(*next)))
                        .unwrap_or((u64::MAX, self.len()))
                })
                .collect();
            plans[index] = plan;
        }
        let mut ranges = Vec::with_capacity(count);
        let mut start = self.skip(0);
        for index in 0..count {
            let next = plans[index][start - earliest[index]].1;
            ranges.push((self.offsets[start], self.offsets[self.trim(next)]));
            start = next;
        }
        ranges
    }
}

/// Where sentences begin, by the Unicode rules, without those after the number of a list item.
fn sentence_starts(text: &str) -> HashSet<usize> {
    let mut starts = HashSet::new();
    let mut before = "";
    for (at, sentence) in text.split_sentence_bound_indices() {
        let number = before.trim().trim_end_matches(['.', ')']);
        let numbered = !number.is_empty()
            && number.len() < before.trim().len()
            && number.chars().all(|c| c.is_ascii_digit());
        if !numbered {
            starts.insert(at);
        }
        before = sentence;
    }
    starts
}

/// Scripts that put no space after a sentence.
fn ends_without_space(text: &str) -> bool {
    text.ends_with(['\u{3002}', '\u{FF01}', '\u{FF1F}', '\u{FF61}'])
}

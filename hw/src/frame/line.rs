//! Text between frames, as bounded lines.
//!
//! Owns what is left of a radio's debug output: printable ASCII without escape sequences. Never grows,
//! however long a line is.

use heapless::Vec;

use super::MAX_LINE;

const ESC: u8 = 0x1B;
const BEL: u8 = 0x07;

/// Where in an escape sequence the last byte was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// In none.
    No,
    /// After `ESC`.
    Begun,
    /// After `ESC [`: parameters, then one final byte.
    Control,
    /// After `ESC ]` and the like: until BEL, another ESC, or the end of the line.
    Str,
}

/// The line that is being collected.
#[derive(Debug, Clone)]
pub(super) struct Line {
    bytes: Vec<u8, MAX_LINE>,
    escape: Escape,
    /// It was handed out; the next byte starts a new one.
    taken: bool,
    /// It was full; what follows up to the line's end is dropped.
    cut: bool,
}

impl Line {
    pub(super) const fn new() -> Line {
        Line { bytes: Vec::new(), escape: Escape::No, taken: false, cut: false }
    }

    /// Takes one byte; true when a line is complete, to be fetched with [`Line::take`].
    pub(super) fn push(&mut self, byte: u8) -> bool {
        if self.taken {
            self.bytes.clear();
            self.taken = false;
        }
        if byte == b'\n' {
            self.escape = Escape::No;
            return !core::mem::take(&mut self.cut) && !self.bytes.is_empty();
        }
        if !self.is_text(byte) || self.cut {
            return false;
        }
        let printable = match byte {
            b'\t' => b' ',
            b' '..=b'~' => byte,
            _ => return false,
        };
        self.cut = self.bytes.push(printable).is_err() || self.bytes.is_full();
        self.cut
    }

    /// The complete line.
    pub(super) fn take(&mut self) -> &[u8] {
        self.taken = true;
        &self.bytes
    }

    /// Follows escape sequences; true for a byte outside of them.
    fn is_text(&mut self, byte: u8) -> bool {
        let (next, text) = match (self.escape, byte) {
            (_, ESC) => (Escape::Begun, false),
            (Escape::No, _) => (Escape::No, true),
            (Escape::Begun, b'[') => (Escape::Control, false),
            (Escape::Begun, b']' | b'P' | b'X' | b'^' | b'_') => (Escape::Str, false),
            // Intermediates, then one final byte.
            (Escape::Begun, b' '..=b'/') => (Escape::Begun, false),
            (Escape::Begun, _) => (Escape::No, false),
            (Escape::Control, b' '..=b'?') => (Escape::Control, false),
            // A final byte; anything else is broken off, and is dropped as well.
            (Escape::Control, _) => (Escape::No, false),
            (Escape::Str, BEL) => (Escape::No, false),
            (Escape::Str, _) => (Escape::Str, false),
        };
        self.escape = next;
        text
    }
}

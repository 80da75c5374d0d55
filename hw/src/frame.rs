//! Meshtastic's stream framing: `94 C3`, a big-endian length, the payload; text anywhere between.
//!
//! Owns the encoder's header and the incremental decoder. Knows nothing of the payload's meaning:
//! whether it decodes is the caller's answer, and the decoder's only evidence, for the framing has no
//! checksum and no escape. Must never wait for more than one frame's worth of bytes.

mod line;

use line::Line;

/// The longest payload either way. A longer length is not a frame.
pub const MAX_PAYLOAD: usize = 512;
/// The two magic bytes and the length.
pub const HEADER_LEN: usize = 4;
/// The longest line of text that is passed on; the rest of a longer one is dropped.
pub const MAX_LINE: usize = 1024;

const MAGIC: [u8; 2] = [0x94, 0xC3];
/// Two frames: one that waits to be completed, and room to read the next.
const CAPACITY: usize = 2 * (HEADER_LEN + MAX_PAYLOAD);

// After `next` has said `None`, at most one incomplete frame is held, so `feed` always has room.
const _: () = assert!(CAPACITY > HEADER_LEN + MAX_PAYLOAD);
// A length must fit its two bytes.
const _: () = assert!(MAX_PAYLOAD <= u16::MAX as usize);

/// The four bytes before a payload of that length; `None` above [`MAX_PAYLOAD`].
#[must_use]
pub const fn header(len: usize) -> Option<[u8; HEADER_LEN]> {
    if len > MAX_PAYLOAD {
        return None;
    }
    // Cannot truncate: checked above.
    let [high, low] = (len as u16).to_be_bytes();
    Some([MAGIC[0], MAGIC[1], high, low])
}

/// What the decoder found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A payload that the caller accepted.
    Frame(&'a [u8]),
    /// One line of text from between frames: printable ASCII, no escape sequences, never empty, at
    /// most [`MAX_LINE`] bytes. Firmware prints message texts in such lines, so a line belongs into
    /// no log above `trace`.
    Log(&'a [u8]),
}

/// Finds frames in a byte stream.
///
/// Feed what was read, call [`Decoder::next`] until it says `None`, feed the rest.
#[derive(Debug, Clone)]
pub struct Decoder {
    buffer: [u8; CAPACITY],
    /// The first byte that is not dealt with.
    start: usize,
    /// One past the last byte held.
    end: usize,
    /// So many of the next bytes belong to a refused payload: they are searched for a frame, but they
    /// are no text (they may hold a key or somebody's message).
    mute: usize,
    line: Line,
    rejected: u32,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

/// What stands at the start of the held bytes.
enum Head {
    /// Nothing, or the beginning of what may become a frame.
    Wait,
    /// A byte that begins no frame.
    Text(u8),
    /// A header that cannot be one.
    Lie,
    /// A frame with a payload of that length, wholly there.
    Whole(usize),
}

impl Decoder {
    /// Empty.
    #[must_use]
    pub const fn new() -> Decoder {
        Decoder { buffer: [0; CAPACITY], start: 0, end: 0, mute: 0, line: Line::new(), rejected: 0 }
    }

    /// Copies what fits and returns how many bytes were taken: at least one of a non-empty slice, if
    /// [`Decoder::next`] said `None` before.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let taken = bytes.len().min(CAPACITY - self.end);
        if let (Some(room), Some(new)) =
            (self.buffer.get_mut(self.end..self.end + taken), bytes.get(..taken))
        {
            room.copy_from_slice(new);
            self.end += taken;
        }
        taken
    }

    /// The next frame or line; `None` when more bytes are needed.
    ///
    /// `accept` answers whether a payload decodes. When it does not, the search goes on one byte after
    /// the start of that frame, inside the payload too: that finds the good frame behind a truncated
    /// one. An accepted payload is never searched, whatever bytes it holds.
    pub fn next(&mut self, accept: &mut dyn FnMut(&[u8]) -> bool) -> Option<Item<'_>> {
        loop {
            match self.head() {
                Head::Wait => return None,
                Head::Text(byte) => {
                    let muted = self.mute > 0;
                    self.skip(1);
                    if !muted && self.line.push(byte) {
                        return Some(Item::Log(self.line.take()));
                    }
                }
                Head::Lie => {
                    self.rejected = self.rejected.saturating_add(1);
                    self.skip(1);
                }
                Head::Whole(len) => {
                    let from = self.start + HEADER_LEN;
                    let payload = self.buffer.get(from..from + len).unwrap_or_default();
                    if accept(payload) {
                        self.skip(HEADER_LEN + len);
                        return Some(Item::Frame(
                            self.buffer.get(from..from + len).unwrap_or_default(),
                        ));
                    }
                    self.rejected = self.rejected.saturating_add(1);
                    self.mute = self.mute.max(HEADER_LEN + len);
                    self.skip(1);
                }
            }
        }
    }

    /// Is the beginning of a frame held, that more bytes could complete? To be asked after
    /// [`Decoder::next`] said `None`.
    #[must_use]
    pub const fn in_frame(&self) -> bool {
        self.start < self.end
    }

    /// To be called when no byte came for two seconds while [`Decoder::in_frame`]: what is held begins
    /// no frame. The search goes on one byte later; call [`Decoder::next`] again.
    pub fn stalled(&mut self) {
        if self.start < self.end {
            self.rejected = self.rejected.saturating_add(1);
            self.mute = self.mute.max(self.end - self.start);
            self.skip(1);
        }
    }

    /// How many headers turned out to be none: a length above [`MAX_PAYLOAD`], a payload that was not
    /// accepted, or one that never came.
    #[must_use]
    pub const fn rejected(&self) -> u32 {
        self.rejected
    }

    fn head(&self) -> Head {
        let held = self.buffer.get(self.start..self.end).unwrap_or_default();
        match *held {
            [] | [0x94] | [0x94, 0xC3] | [0x94, 0xC3, _] => Head::Wait,
            [0x94, 0xC3, high, low, ref rest @ ..] => {
                let len = usize::from(u16::from_be_bytes([high, low]));
                if len > MAX_PAYLOAD {
                    Head::Lie
                } else if rest.len() < len {
                    Head::Wait
                } else {
                    Head::Whole(len)
                }
            }
            // Also a `94` before another `94`: the second may be the one.
            [byte, ..] => Head::Text(byte),
        }
    }

    fn skip(&mut self, count: usize) {
        self.start += count;
        self.mute = self.mute.saturating_sub(count);
    }
}

#[cfg(test)]
mod captures;
#[cfg(test)]
mod tests;

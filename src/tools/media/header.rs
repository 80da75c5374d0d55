//! What the first bytes of a picture, a sound or a film say of it.
//!
//! Owns the formats' headers. Decodes no picture and no sound: it reads a few numbers from fixed places,
//! through [`Window`], which bounds how much of a file is read. What it reads is hostile until shown
//! otherwise; a header that contradicts itself gives no figures.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Bytes that are read of one file, in all.
const MAX_READ: usize = 512 * 1024;
/// Pieces that a file is read in.
const MAX_PIECES: usize = 200;
/// Longer than any film.
const MAX_SECONDS: f64 = 1_000_000.0;

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Facts {
    /// The format, by its first bytes; `""` for an unknown one.
    pub format: &'static str,
    /// Width and height in pixels.
    pub pixels: Option<(u32, u32)>,
    /// Seconds.
    pub seconds: Option<f64>,
}

/// Bounded reading of a file.
pub trait Source {
    /// Bytes of the file.
    fn size(&self) -> u64;
    /// Fills the buffer from there; `None` past the end.
    fn read(&self, at: u64, into: &mut [u8]) -> Option<()>;
}

impl Source for File {
    fn size(&self) -> u64 {
        self.metadata().map_or(0, |facts| facts.len())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        self.read_exact_at(into, at).ok()
    }
}

impl Source for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let at = usize::try_from(at).ok()?;
        into.copy_from_slice(self.get(at..at.checked_add(into.len())?)?);
        Some(())
    }
}

/// A file, and how much of it may still be read.
struct Window<'s> {
    source: &'s dyn Source,
    bytes: usize,
    pieces: usize,
}

impl Window<'_> {
    fn take<const N: usize>(&mut self, at: u64) -> Option<[u8; N]> {
        let mut piece = [0; N];
        self.spend(N)?;
        self.source.read(at, &mut piece)?;
        Some(piece)
    }

    /// As many bytes as there are, up to `count`.
    fn some(&mut self, at: u64, count: usize) -> Option<Vec<u8>> {
        let left = usize::try_from(self.source.size().checked_sub(at)?).unwrap_or(usize::MAX);
        let count = count.min(left);
        self.spend(count)?;
        let mut piece = vec![0; count];
        self.source.read(at, &mut piece)?;
        Some(piece)
    }

    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        self.pieces = self.pieces.checked_sub(1)?;
        Some(())
    }

    fn be16(&mut self, at: u64) -> Option<u32> {
        self.take::<2>(at).map(|b| u32::from(u16::from_be_bytes(b)))
    }

    fn be32(&mut self, at: u64) -> Option<u32> {
        self.take::<4>(at).map(u32::from_be_bytes)
    }

    fn be64(&mut self, at: u64) -> Option<u64> {
        self.take::<8>(at).map(u64::from_be_bytes)
    }

    fn le16(&mut self, at: u64) -> Option<u32> {
        self.take::<2>(at).map(|b| u32::from(u16::from_le_bytes(b)))
    }

    fn le32(&mut self, at: u64) -> Option<u32> {
        self.take::<4>(at).map(u32::from_le_bytes)
    }
}

/// Reads the header.
pub fn read(source: &dyn Source) -> Facts {
    let mut window = Window { source, bytes: MAX_READ, pieces: MAX_PIECES };
    let head = window.some(0, 16).unwrap_or_default();
    let has = |at: usize, mark: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(mark));
    let w = &mut window;
    let mut facts = Facts::default();
    if has(0, b"\x89PNG\r\n\x1a\n") {
        facts.format = "PNG";
        facts.pixels = w.be32(16).zip(w.be32(20));
    } else if has(0, b"GIF8") {
        facts.format = "GIF";
        facts.pixels = w.le16(6).zip(w.le16(8));
    } else if has(0, b"BM") {
        facts.format = "BMP";
        // A negative height is one that is counted from the top.
        facts.pixels = w.le32(18).zip(w.le32(22).map(|height| height.cast_signed().unsigned_abs()));
    } else if has(0, &[0xFF, 0xD8, 0xFF]) {
        facts.format = "JPEG";
        facts.pixels = jpeg(w);
    } else if has(0, b"RIFF") && has(8, b"WEBP") {
        facts.format = "WebP";
        facts.pixels = webp(w);
    } else if has(0, b"RIFF") && has(8, b"WAVE") {
        facts.format = "WAV";
        facts.seconds = wav(w);
    } else if has(0, b"fLaC") {
        facts.format = "FLAC";
        facts.seconds = flac(w);
    } else if has(0, b"OggS") {
        facts.format = "Ogg";
        facts.seconds = ogg(w);
    } else if has(4, b"ftyp") {
        facts = mp4(w);
        facts.format = if has(8, b"M4A") {
            "M4A"
        } else if has(8, b"qt") {
            "QuickTime"
        } else if has(8, b"heic") || has(8, b"mif1") {
            "HEIF"
        } else if has(8, b"avif") {
            "AVIF"
        } else {
            "MP4"
        };
    } else if has(0, &[0x1A, 0x45, 0xDF, 0xA3]) {
        facts.format = "Matroska";
    } else if has(0, b"ID3")
        || head.first() == Some(&0xFF) && head.get(1).is_some_and(|b| b & 0xE0 == 0xE0)
    {
        facts.format = "MP3";
        facts.seconds = mp3(w);
    }
    facts.pixels = facts.pixels.filter(|(width, height)| *width > 0 && *height > 0);
    facts.seconds = facts.seconds.filter(|s| s.is_finite() && (0.0..=MAX_SECONDS).contains(s));
    facts
}

/// From marker to marker, up to the frame's.
fn jpeg(w: &mut Window<'_>) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let [mark, kind] = w.take::<2>(at)?;
        if mark != 0xFF {
            return None;
        }
        match kind {
            0xFF => at += 1,
            0x01 | 0xD0..=0xD8 => at += 2,
            0xC0..=0xCF if !matches!(kind, 0xC4 | 0xC8 | 0xCC) => {
                let height = w.be16(at + 5)?;
                return Some((w.be16(at + 7)?, height));
            }
            0xD9 | 0xDA => return None,
            _ => at += 2 + u64::from(w.be16(at + 2)?).max(2),
        }
    }
}

fn webp(w: &mut Window<'_>) -> Option<(u32, u32)> {
    match &w.take::<4>(12)? {
        b"VP8 " => Some((w.le16(26)? & 0x3FFF, w.le16(28)? & 0x3FFF)),
        b"VP8L" => {
            let bits = w.le32(21)?;
            Some(((bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1))
        }
        b"VP8X" => {
            let [a, b, c, d, e, f] = w.take::<6>(24)?;
            let wide = u32::from_le_bytes([a, b, c, 0]) + 1;
            Some((wide, u32::from_le_bytes([d, e, f, 0]) + 1))
        }
        _ => None,
    }
}

fn wav(w: &mut Window<'_>) -> Option<f64> {
    let (mut at, mut rate) = (12, None);
    loop {
        let name = w.take::<4>(at)?;
        let size = w.le32(at + 4)?;
        match &name {
            b"fmt " => rate = Some(w.le32(at + 16)?).filter(|rate| *rate > 0),
            b"data" => {
                let there = w.source.size().saturating_sub(at + 8).min(u64::from(size));
                return Some(float(there) / f64::from(rate?));
            }
            _ => {}
        }
        at += 8 + u64::from(size) + u64::from(size & 1);
    }
}

fn flac(w: &mut Window<'_>) -> Option<f64> {
    let bits = w.be64(18)?;
    let (rate, samples) = (bits >> 44, bits & 0xF_FFFF_FFFF);
    (rate > 0 && samples > 0).then(|| float(samples) / float(rate))
}

/// The position of the last page over the rate of the first.
fn ogg(w: &mut Window<'_>) -> Option<f64> {
    let head = w.some(0, 128)?;
    let after = |mark: &[u8]| {
        head.windows(mark.len()).position(|window| window == mark).map(|at| at + mark.len())
    };
    let (rate, skipped) = if let Some(at) = after(b"OpusHead") {
        // Always counted as if at this rate.
        let skip = head.get(at + 2..at + 4)?.try_into().ok().map(u16::from_le_bytes)?;
        (48_000, u64::from(skip))
    } else if let Some(at) = after(b"\x01vorbis") {
        (head.get(at + 5..at + 9)?.try_into().ok().map(u32::from_le_bytes)?, 0)
    } else {
        return None;
    };
    let from = w.source.size().saturating_sub(64 * 1024);
    let tail = w.some(from, 64 * 1024)?;
    let page = tail.windows(4).rposition(|window| window == b"OggS")?;
    let position = tail.get(page + 6..page + 14)?.try_into().ok().map(u64::from_le_bytes)?;
    (rate > 0).then(|| float(position.saturating_sub(skipped)) / f64::from(rate))
}

/// From box to box: `moov`, in it `mvhd` for the length and each `trak`'s `tkhd` for the size.
fn mp4(w: &mut Window<'_>) -> Facts {
    let mut facts = Facts::default();
    let end = w.source.size();
    let mut stack = vec![(0, end)];
    while let Some((mut at, end)) = stack.pop() {
        while at < end {
            let Some((kind, body, next)) = mp4_box(w, at, end) else { break };
            match &kind {
                b"moov" | b"trak" => stack.push((body, next)),
                b"mvhd" => facts.seconds = facts.seconds.or_else(|| mvhd(w, body)),
                b"tkhd" => facts.pixels = facts.pixels.or_else(|| tkhd(w, body)),
                _ => {}
            }
            at = next;
        }
    }
    facts
}

/// Name, where its content begins, where the next begins.
fn mp4_box(w: &mut Window<'_>, at: u64, end: u64) -> Option<([u8; 4], u64, u64)> {
    let size = u64::from(w.be32(at)?);
    let kind = w.take::<4>(at + 4)?;
    let (body, size) = match size {
        0 => (at + 8, end - at),
        1 => (at + 16, w.be64(at + 8)?),
        size => (at + 8, size),
    };
    let next = at.checked_add(size)?;
    (next >= body && next <= end).then_some((kind, body, next))
}

fn mvhd(w: &mut Window<'_>, at: u64) -> Option<f64> {
    let [version] = w.take::<1>(at)?;
    let (scale, length) = match version {
        0 => (w.be32(at + 12)?, u64::from(w.be32(at + 16)?)),
        _ => (w.be32(at + 20)?, w.be64(at + 24)?),
    };
    (scale > 0).then(|| float(length) / f64::from(scale))
}

fn tkhd(w: &mut Window<'_>, at: u64) -> Option<(u32, u32)> {
    let [version] = w.take::<1>(at)?;
    let sizes = at + if version == 0 { 76 } else { 88 };
    // Fixed point, 16 bits each way.
    let pixels = (w.be32(sizes)? >> 16, w.be32(sizes + 4)? >> 16);
    (pixels.0 > 0 && pixels.1 > 0).then_some(pixels)
}

/// By the count of frames in the first one's own header, else by its bit rate.
fn mp3(w: &mut Window<'_>) -> Option<f64> {
    let mut at = 0;
    if &w.take::<3>(0)? == b"ID3" {
        let [a, b, c, d] = w.take::<4>(6)?;
        let size = [a, b, c, d].iter().fold(0_u64, |sum, byte| sum << 7 | u64::from(byte & 0x7F));
        at = 10 + size;
    }
    let [sync, version, rates, channels] = w.take::<4>(at)?;
    if sync != 0xFF || version & 0xE0 != 0xE0 || (version >> 1) & 3 != 1 {
        return None; // not a frame of layer 3
    }
    let is_first = (version >> 3) & 3 == 3;
    let rate = match ((version >> 3) & 3, (rates >> 2) & 3) {
        (_, 3) | (1, _) => return None,
        (3, _) => [44_100_u32, 48_000, 32_000],
        (2, _) => [22_050, 24_000, 16_000],
        _ => [11_025, 12_000, 8_000],
    }
    .get(usize::from((rates >> 2) & 3))
    .copied()?;
    let samples: u32 = if is_first { 1152 } else { 576 };
    let mono = channels >> 6 == 3;
    let side = match (is_first, mono) {
        (true, false) => 32,
        (false, true) => 9,
        _ => 17,
    };
    let info = at + 4 + side;
    if matches!(&w.take::<4>(info)?, b"Xing" | b"Info") && w.be32(info + 4)? & 1 == 1 {
        let frames = w.be32(info + 8)?;
        return Some(f64::from(frames) * f64::from(samples) / f64::from(rate));
    }
    const FIRST: [u32; 15] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    const SECOND: [u32; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
    let table = if is_first { FIRST } else { SECOND };
    let kilobits = table.get(usize::from(rates >> 4)).copied().filter(|k| *k > 0)?;
    Some(float(w.source.size().saturating_sub(at)) * 8.0 / (f64::from(kilobits) * 1000.0))
}

/// Sizes of files are far below what a float holds exactly.
#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;

//! Headers made by hand, and anything at all.

use proptest::prelude::*;

use super::*;

fn facts(bytes: &[u8]) -> Facts {
    read(&bytes)
}

fn bx(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut all = u32::try_from(body.len() + 8).unwrap().to_be_bytes().to_vec();
    all.extend(kind);
    all.extend(body);
    all
}

#[test]
fn pictures_tell_their_size() {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend([0, 0, 2, 128, 0, 0, 1, 224]);
    let mut bmp = b"BM".to_vec();
    bmp.resize(18, 0);
    bmp.extend(640_i32.to_le_bytes());
    bmp.extend((-480_i32).to_le_bytes());
    let mut jpeg = vec![0xFF, 0xD8, 0xFF, 0xE0, 0, 6, 1, 2, 3, 4, 0xFF, 0xFF, 0xC2, 0, 17, 8];
    jpeg.extend([1, 224, 2, 128]);
    let mut vp8 = b"RIFF\0\0\0\0WEBPVP8 ".to_vec();
    vp8.resize(26, 0);
    vp8.extend([128, 2, 224, 1]);
    let mut vp8l = b"RIFF\0\0\0\0WEBPVP8L".to_vec();
    vp8l.resize(21, 0);
    vp8l.extend((639_u32 | 479 << 14).to_le_bytes());
    let mut vp8x = b"RIFF\0\0\0\0WEBPVP8X".to_vec();
    vp8x.resize(24, 0);
    vp8x.extend([127, 2, 0, 223, 1, 0]);
    for (bytes, format) in [
        (png, "PNG"),
        (b"GIF89a\x80\x02\xe0\x01".to_vec(), "GIF"),
        (bmp, "BMP"),
        (jpeg, "JPEG"),
        (vp8, "WebP"),
        (vp8l, "WebP"),
        (vp8x, "WebP"),
    ] {
        let found = facts(&bytes);
        assert_eq!((found.format, found.pixels), (format, Some((640, 480))));
        // One byte less, and the header is not there.
        let cut = facts(&bytes[..bytes.len() - 1]);
        assert_eq!((cut.format, cut.pixels), (format, None));
    }
}

#[test]
fn sounds_and_films_tell_their_length() {
    let mut wav = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    wav.extend(8000_u32.to_le_bytes());
    wav.extend(16_000_u32.to_le_bytes());
    wav.extend([2, 0, 16, 0]);
    wav.extend(b"data");
    wav.extend(24_000_u32.to_le_bytes());
    wav.resize(wav.len() + 24_000, 0);
    assert_eq!(facts(&wav).seconds, Some(1.5));

    let mut flac = b"fLaC\0\0\0\x22".to_vec();
    flac.resize(18, 0);
    flac.extend(((48_000_u64 << 44) | 96_000).to_be_bytes());
    assert_eq!(facts(&flac).seconds, Some(2.0));

    let mut opus = b"OggS".to_vec();
    opus.resize(28, 0);
    opus.extend(b"OpusHead\x01\x02");
    opus.extend(480_u16.to_le_bytes());
    opus.resize(200, 0);
    opus.extend(b"OggS\0\x04");
    opus.extend((48_000_u64 * 3 + 480).to_le_bytes());
    assert_eq!(facts(&opus).seconds, Some(3.0));

    let mut mvhd = vec![0; 20];
    mvhd[12..16].copy_from_slice(&1000_u32.to_be_bytes());
    mvhd[16..20].copy_from_slice(&62_500_u32.to_be_bytes());
    let sound = bx(b"trak", &bx(b"tkhd", &[0; 84]));
    let mut tkhd = vec![0; 84];
    tkhd[76..80].copy_from_slice(&(1920_u32 << 16).to_be_bytes());
    tkhd[80..84].copy_from_slice(&(1080_u32 << 16).to_be_bytes());
    let film = bx(b"trak", &bx(b"tkhd", &tkhd));
    let moov = bx(b"moov", &[bx(b"mvhd", &mvhd), sound, film].concat());
    let mp4 = [bx(b"ftyp", b"isom\0\0\0\0"), bx(b"mdat", &[0; 1000]), moov].concat();
    assert_eq!(
        facts(&mp4),
        Facts { format: "MP4", pixels: Some((1920, 1080)), seconds: Some(62.5) }
    );

    let mut mp3 = b"ID3\x04\0\0\0\0\0\x0a".to_vec();
    mp3.resize(20, 0);
    mp3.extend([0xFF, 0xFB, 0x90, 0x00]);
    mp3.resize(mp3.len() + 32, 0);
    let constant = {
        let mut mp3 = mp3.clone();
        mp3.resize(20 + 16_000 * 4, 0);
        mp3
    };
    assert_eq!(facts(&constant).seconds, Some(4.0), "128 kbit/s");
    mp3.extend(b"Xing\0\0\0\x01");
    mp3.extend(1000_u32.to_be_bytes());
    let seconds = facts(&mp3).seconds.unwrap();
    assert!((seconds - 1000.0 * 1152.0 / 44_100.0).abs() < 0.001, "{seconds}");
}

#[test]
fn contradictions_and_bombs_give_no_figures() {
    let mut zero = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    zero.extend([0; 8]);
    assert_eq!(facts(&zero).pixels, None);
    // Boxes within boxes without end, and one that claims to be larger than the file.
    let mut deep = Vec::new();
    for _ in 0..5000 {
        deep = bx(b"moov", &deep);
    }
    facts(&[bx(b"ftyp", b"isom\0\0\0\0"), deep].concat());
    let mut large = bx(b"ftyp", b"isom\0\0\0\0");
    large.extend(1_u32.to_be_bytes());
    large.extend(b"moov");
    large.extend(u64::MAX.to_be_bytes());
    assert_eq!(facts(&large).seconds, None);
    // A thousand empty segments before the frame.
    let mut segments = vec![0xFF, 0xD8];
    for _ in 0..100_000 {
        segments.extend([0xFF, 0xE0, 0, 2]);
    }
    assert_eq!(facts(&segments).format, "JPEG");
    assert_eq!(facts(b"").format, "");
    assert_eq!(facts(b"#!/bin/sh").format, "");
}

proptest! {
    #[test]
    fn no_header_breaks_the_reader(
        head in prop_oneof![
            Just(&b"\x89PNG\r\n\x1a\n"[..]), Just(&b"GIF89a"[..]), Just(&b"BM"[..]), Just(&[0xFF, 0xD8, 0xFF][..]),
            Just(&b"RIFF\0\0\0\0WEBP"[..]), Just(&b"RIFF\0\0\0\0WAVEfmt "[..]), Just(&b"fLaC"[..]), Just(&b"OggS"[..]),
            Just(&b"\0\0\0\x08ftyp"[..]), Just(&b"ID3"[..]), Just(&[0xFF, 0xFB][..]), Just(&b"\x1A\x45\xDF\xA3"[..]), Just(&b""[..]),
        ],
        rest in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let found = facts(&[head, &rest].concat());
        if let Some(seconds) = found.seconds {
            prop_assert!((0.0..=MAX_SECONDS).contains(&seconds));
        }
    }
}

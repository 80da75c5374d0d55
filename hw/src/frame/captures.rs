//! The decoder on what real firmware sent.

use super::*;

macro_rules! captures {
    ($($name:literal: $frames:literal,)*) => {
        [$(($name, $frames, include_bytes!(concat!("../../../tests/captures/", $name, ".bin")).as_slice()),)*]
    };
}

const CAPTURES: [(&str, usize, &[u8]); 20] = captures! {
    "burst10_rate_limited": 8,
    "channel1_text_received": 2,
    "channel_text_received": 1,
    "channel_text_sender_implicit_ack": 2,
    "disabled_channel": 2,
    "dm_received": 2,
    "dm_sender_queue_status_and_ack": 2,
    "duty_cycle_limit": 3,
    "heartbeat_queue_status": 1,
    "nak_max_retransmit": 2,
    "nak_no_channel_remote": 2,
    "nak_pki_failed": 2,
    "nak_pki_send_fail_public_key": 2,
    "nak_pki_unknown_pubkey": 4,
    "reboot_tail": 2,
    "text_rejected_too_large": 2,
    "undecryptable_received": 1,
    "want_config_handshake": 47,
    "want_config_only_config": 45,
    "want_config_only_nodes": 4,
};

/// Stands in for the real decoder: known field numbers, well-formed protobuf on the outermost level, no
/// bytes left.
fn decodes(mut payload: &[u8]) -> bool {
    while !payload.is_empty() {
        let Some((tag, rest)) = varint(payload) else { return false };
        let len = match tag & 7 {
            0 => varint(rest).map(|(_, after)| rest.len() - after.len()),
            2 => varint(rest).and_then(|(len, after)| (rest.len() - after.len()).checked_add(len)),
            5 => Some(4),
            _ => None,
        };
        match len.and_then(|len| rest.get(len..)) {
            Some(after) if (1..=19).contains(&(tag >> 3)) => payload = after,
            _ => return false,
        }
    }
    true
}

fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)?;
    let value =
        bytes[..=end].iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7F));
    Some((value, &bytes[end + 1..]))
}

/// The frames of a stream that is fed in pieces of that size, and how often the decoder was misled.
fn frames(bytes: &[u8], size: usize) -> (Vec<Vec<u8>>, u32) {
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    let mut next = |decoder: &mut Decoder| {
        while let Some(item) = decoder.next(&mut decodes) {
            if let Item::Frame(payload) = item {
                frames.push(payload.to_vec());
            }
        }
    };
    for mut piece in bytes.chunks(size) {
        while !piece.is_empty() {
            piece = &piece[decoder.feed(piece)..];
            next(&mut decoder);
        }
    }
    while decoder.in_frame() {
        decoder.stalled();
        next(&mut decoder);
    }
    (frames, decoder.rejected())
}

#[test]
fn every_capture_is_frames_from_end_to_end() {
    for (name, count, bytes) in CAPTURES {
        for size in [1, 7, 64, 4096] {
            let (found, rejected) = frames(bytes, size);
            assert_eq!((found.len(), rejected), (count, 0), "{name} by {size}");
            let len: usize = found.iter().map(|payload| HEADER_LEN + payload.len()).sum();
            assert_eq!(len, bytes.len(), "{name}");
        }
    }
}

/// A gap may go unseen where what follows completes the torn frame to something that decodes: then the
/// frame right behind it is lost too. No other may be.
#[test]
fn a_gap_anywhere_costs_at_most_the_frame_behind_it() {
    let (_, _, bytes) =
        CAPTURES.into_iter().find(|(name, ..)| *name == "nak_pki_unknown_pubkey").unwrap();
    let (whole, _) = frames(bytes, 4096);
    for from in 0..bytes.len() {
        for len in [1, 2, 5, 30] {
            let to = (from + len).min(bytes.len());
            let (found, _) = frames(&[&bytes[..from], &bytes[to..]].concat(), 16);
            let mut start = 0;
            let mut behind = 0;
            for payload in &whole {
                let end = start + HEADER_LEN + payload.len();
                if start >= to {
                    behind += 1;
                }
                let must_be_there = end <= from || behind > 1;
                assert!(!must_be_there || found.contains(payload), "gap of {len} at {from}");
                start = end;
            }
        }
    }
}

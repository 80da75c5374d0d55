//! The decoder: any split, any noise, and every row of `hw/tests/frames.tsv`.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq)]
enum Got {
    Frame(Vec<u8>),
    Log(String),
}

fn drain(decoder: &mut Decoder, accept: &mut dyn FnMut(&[u8]) -> bool, got: &mut Vec<Got>) {
    while let Some(item) = decoder.next(accept) {
        got.push(match item {
            Item::Frame(payload) => Got::Frame(payload.to_vec()),
            Item::Log(line) => Got::Log(String::from_utf8(line.to_vec()).unwrap()),
        });
    }
}

/// Feeds in pieces of the given sizes (the last repeats), then lets the decoder run dry.
fn decode(bytes: &[u8], sizes: &[usize], accept: &mut dyn FnMut(&[u8]) -> bool) -> (Vec<Got>, u32) {
    let mut decoder = Decoder::new();
    let mut got = Vec::new();
    let mut rest = bytes;
    let mut sizes = sizes.iter().copied().cycle();
    while !rest.is_empty() {
        let (mut piece, after) = rest.split_at(sizes.next().unwrap().clamp(1, rest.len()));
        rest = after;
        while !piece.is_empty() {
            let taken = decoder.feed(piece);
            assert!(taken > 0, "no room for {} bytes", piece.len());
            piece = &piece[taken..];
            drain(&mut decoder, accept, &mut got);
        }
    }
    while decoder.in_frame() {
        decoder.stalled();
        drain(&mut decoder, accept, &mut got);
    }
    (got, decoder.rejected())
}

fn frames(got: &[Got]) -> Vec<Vec<u8>> {
    let frame = |item: &Got| match item {
        Got::Frame(payload) => Some(payload.clone()),
        Got::Log(_) => None,
    };
    got.iter().filter_map(frame).collect()
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut frame = header(payload.len()).unwrap().to_vec();
    frame.extend_from_slice(payload);
    frame
}

fn log(text: &str) -> Got {
    Got::Log(text.to_owned())
}

#[test]
fn a_header_up_to_the_limit_and_none_above() {
    assert_eq!(header(0), Some([0x94, 0xC3, 0, 0]));
    assert_eq!(header(512), Some([0x94, 0xC3, 2, 0]));
    assert_eq!(header(513), None);
}

#[test]
fn every_recorded_stream() {
    let table = include_str!("../../tests/frames.tsv");
    let mut rows = 0;
    let mut everything = Vec::new();
    let mut expected_in_all = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [name, count, hex] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        assert_eq!(bytes.len().to_string(), count, "{name}");
        let expected = match name {
            "ansi_log" => vec![log("DEBUG | 12:00:01 42 [Router] hello")],
            "oversize_len" => vec![],
            "double_start" => vec![Got::Frame(bytes[5..].to_vec())],
            _ => vec![Got::Frame(bytes[4..].to_vec())],
        };
        for size in [1, 2, 3, 5, 1000] {
            let (got, rejected) = decode(&bytes, &[size], &mut |_| true);
            assert_eq!(got, expected, "{name} by {size}");
            assert_eq!(rejected, u32::from(name == "oversize_len"), "{name}");
        }
        rows += 1;
        expected_in_all += frames(&expected).len();
        everything.extend_from_slice(&bytes);
    }
    assert_eq!(rows, 25);
    let (got, _) = decode(&everything, &[7, 1, 64], &mut |_| true);
    assert_eq!(frames(&got).len(), expected_in_all, "one after another");
}

#[test]
fn magic_bytes_inside_an_accepted_payload_are_payload() {
    let inner = framed(b"not a frame");
    let mut bytes = framed(&[b"\xF0\x9F\x94", &*inner, b"\xC3\xA9"].concat());
    let payload = bytes[4..].to_vec();
    bytes.extend(framed(b"next"));
    let (got, rejected) = decode(&bytes, &[1], &mut |_| true);
    assert_eq!(frames(&got), [payload, b"next".to_vec()]);
    assert_eq!(rejected, 0);
}

#[test]
fn the_longest_payload_is_delivered_and_a_longer_length_is_no_frame() {
    let longest = vec![7; MAX_PAYLOAD];
    let (got, rejected) = decode(&framed(&longest), &[100], &mut |_| true);
    assert_eq!((frames(&got), rejected), (vec![longest], 0));

    let mut lie = vec![0x94, 0xC3, 0x02, 0x01];
    lie.extend(framed(b"good"));
    let (got, rejected) = decode(&lie, &[100], &mut |_| true);
    assert_eq!((frames(&got), rejected), (vec![b"good".to_vec()], 1), "found at once");
}

#[test]
fn a_frame_behind_a_truncated_one_is_found_when_the_payload_is_refused() {
    let mut bytes = framed(&[0xAA; 60])[..30].to_vec();
    for _ in 0..3 {
        bytes.extend(framed(b"good frame"));
    }
    let (got, rejected) = decode(&bytes, &[1000], &mut |payload| payload == b"good frame");
    assert_eq!(frames(&got).len(), 3);
    assert_eq!(rejected, 1);
}

#[test]
fn a_frame_that_never_ends_is_given_up_when_told_that_nothing_comes() {
    let mut decoder = Decoder::new();
    let mut got = Vec::new();
    decoder.feed(&[0x94, 0xC3, 0x02, 0x00, b'x']);
    decoder.feed(&framed(b"good"));
    drain(&mut decoder, &mut |_| true, &mut got);
    assert!(got.is_empty() && decoder.in_frame());
    decoder.stalled();
    drain(&mut decoder, &mut |_| true, &mut got);
    assert_eq!(got, [Got::Frame(b"good".to_vec())]);
    assert!(!decoder.in_frame());
    decoder.stalled();
    assert_eq!(decoder.rejected(), 1, "nothing was held the second time");
}

#[test]
fn what_a_refused_payload_held_is_never_text() {
    let secret = framed(b"\xFFprivate key\nmore of it\n");
    let (got, _) = decode(&[&secret, &b"after\n"[..]].concat(), &[3], &mut |_| false);
    assert_eq!(got, [log("after")]);
    // The same when the rest of it never comes.
    let (got, _) = decode(&secret[..secret.len() - 5], &[3], &mut |_| false);
    assert_eq!(got, []);
}

#[test]
fn lines_are_cut_stripped_and_never_empty() {
    let exact = "x".repeat(MAX_LINE);
    for (text, lines) in [
        ("\n\r\n \x1b[0m\n".to_owned(), vec![log(" ")]),
        ("a\tb\x07\x00c\x7f\r\n".to_owned(), vec![log("a bc")]),
        ("caf\u{e9} \u{9b}31m\n".to_owned(), vec![log("caf 31m")]),
        (
            "\x1b[38;5;1mred\x1b[0m \x1b]0;title\x07bell \x1b(Bset\x1b=\n".to_owned(),
            vec![log("red bell set")],
        ),
        ("\x1b]0;never ended\nnext\n".to_owned(), vec![log("next")]),
        ("\x1b[1\x1b[2mtwice\n".to_owned(), vec![log("twice")]),
        (format!("{}\nb\n", &exact[1..]), vec![log(&exact[1..]), log("b")]),
        (format!("{exact}\nb\n"), vec![log(&exact), log("b")]),
        (format!("{exact}dropped\nb\n"), vec![log(&exact), log("b")]),
        (exact.repeat(100), vec![log(&exact)]),
    ] {
        let (got, _) = decode(text.as_bytes(), &[11], &mut |_| true);
        assert_eq!(got, lines, "{:?}", &text[..text.len().min(40)]);
    }
}

#[test]
fn a_frame_in_the_middle_of_a_line_leaves_the_line_whole() {
    let bytes = [b"hel", &*framed(b"frame"), b"lo\n"].concat();
    let (got, _) = decode(&bytes, &[4], &mut |_| true);
    assert_eq!(got, [Got::Frame(b"frame".to_vec()), log("hello")]);
}

/// A payload that proves itself, as a decodable message does: eight bytes of a sum over the rest.
fn proven(body: &[u8]) -> Vec<u8> {
    let mut payload = sum(body).to_be_bytes().to_vec();
    payload.extend_from_slice(body);
    payload
}

fn proves_itself(payload: &[u8]) -> bool {
    payload.split_first_chunk::<8>().is_some_and(|(mark, body)| *mark == sum(body).to_be_bytes())
}

fn sum(body: &[u8]) -> u64 {
    body.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// Payload bodies rich in the bytes that confuse.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![2 => Just(0x94u8), 2 => Just(0xC3u8), 1 => 0u8..4, 3 => any::<u8>()];
    prop::collection::vec(byte, 0..=MAX_PAYLOAD - 8)
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1usize..4, 1usize..1500], 1..6)
}

proptest! {
    #[test]
    fn frames_and_text_in_any_mix_and_any_split_all_arrive(
        parts in prop::collection::vec(
            prop_oneof![body().prop_map(Ok), "[ -~\x1b\n\r\t]{0,80}".prop_map(Err)],
            0..12,
        ),
        sizes in sizes(),
    ) {
        let mut bytes = Vec::new();
        let mut sent = Vec::new();
        for part in parts {
            match part {
                Ok(body) => {
                    bytes.extend(framed(&proven(&body)));
                    sent.push(proven(&body));
                }
                Err(text) => bytes.extend(text.into_bytes()),
            }
        }
        let (got, rejected) = decode(&bytes, &sizes, &mut |_| true);
        prop_assert_eq!(frames(&got), sent);
        prop_assert_eq!(rejected, 0);
        let (whole, _) = decode(&bytes, &[usize::MAX], &mut |_| true);
        prop_assert_eq!(got, whole, "the same whatever the read sizes");
    }

    #[test]
    fn random_bytes_do_no_harm_and_lines_stay_clean(
        bytes in prop::collection::vec(any::<u8>(), 0..5000),
        sizes in sizes(),
        accepted in any::<u8>(),
    ) {
        let (got, _) =
            decode(&bytes, &sizes, &mut |payload| payload.first().is_some_and(|b| *b < accepted));
        for item in got {
            match item {
                Got::Frame(payload) => prop_assert!(payload.len() <= MAX_PAYLOAD),
                Got::Log(line) => {
                    prop_assert!(!line.is_empty() && line.len() <= MAX_LINE);
                    prop_assert!(line.bytes().all(|b| (b' '..=b'~').contains(&b)));
                }
            }
        }
    }
}

proptest! {
    // Fewer: every refused header is tried at each of its bytes, which is slow unoptimised.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn noise_between_frames_costs_none_of_them(
        parts in prop::collection::vec(
            (prop_oneof![
                // Noise with headers in it, a truncated frame, a lying length.
                body(),
                // Twelve bytes short at least: fewer could by chance be those of the next header.
                (body(), 0usize..520).prop_map(|(body, at)| {
                    let frame = framed(&proven(&body));
                    frame[..at.min(frame.len() - 12)].to_vec()
                }),
                any::<[u8; 2]>().prop_map(|[high, low]| vec![0x94, 0xC3, high, low]),
            ], body()),
            1..5,
        ),
        sizes in sizes(),
    ) {
        let mut bytes = Vec::new();
        let mut sent = Vec::new();
        for (noise, body) in parts {
            bytes.extend(noise);
            bytes.extend(framed(&proven(&body)));
            sent.push(proven(&body));
        }
        let (got, _) = decode(&bytes, &sizes, &mut proves_itself);
        prop_assert_eq!(frames(&got), sent);
    }
}

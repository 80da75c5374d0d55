//! Tests of the planner: what a construct becomes, and what holds for any text.

use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation as _;

use super::*;

const FAMILY: &str = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}";
const SCOTLAND: &str = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}";
const UKRAINE: &str = "\u{1F1FA}\u{1F1E6}";

#[test]
fn markdown_becomes_plain_text() {
    for (markdown, expected) in [
        ("# Disk\n\nYou have **18 GB** _free_.", "Disk\nYou have 18 GB free."),
        ("* one\n* two\n  * deep\n+ three", "- one\n- two\n - deep\n- three"),
        ("3. three\n4. four", "3. three\n4. four"),
        ("1) a\n\n2) b", "1) a\n2) b"),
        ("- a\n\n  second paragraph\n- b", "- a\nsecond paragraph\n- b"),
        ("see [the docs](https://example.org/a/b?c=d)", "see the docs (example.org)"),
        ("[example.org](https://example.org/a)", "example.org"),
        ("[bank](https://bank.example@evil.example/x)", "bank (evil.example)"),
        ("[x](javascript:alert(1)) [y](#top)", "x y"),
        ("<https://example.org/a_b_c>", "https://example.org/a_b_c"),
        ("https://example.org/a_b_c?d=e_f", "https://example.org/a_b_c?d=e_f"),
        ("[write](mailto:a@example.org)", "write (a@example.org)"),
        ("![a map](https://example.org/m.png)", "a map"),
        (
            "| disk | free |\n|---|---|\n| a | 5 GB |\n| b | 7 GB |",
            "disk | free\na | 5 GB\nb | 7 GB",
        ),
        ("use `df  -h` now", "use df  -h now"),
        ("```sh\nif x; then\n    rm *a*\nfi\n```\ndone", "if x; then\n    rm *a*\nfi\ndone"),
        ("> quoted\n\nown", "> quoted\nown"),
        ("a<br>b <b>c</b> <!-- no --> d", "a\nb c d"),
        ("<div class=\"x\">\nkept &amp; <i>all</i>\n</div>", "kept & all"),
        ("<script>\nalert(1)\n</script>\n\nafter", "after"),
        ("a Vec<String> of <file>", "a Vec<String> of <file>"),
        ("2*3*4 = 24, 2**3**2, but *this* is", "2*3*4 = 24, 2**3**2, but this is"),
        ("x < y and y > z, 5 <6", "x < y and y > z, 5 <6"),
        ("a  \nb\nc", "a\nb c"),
        ("\n\n  \n", ""),
        ("&#x202E;abc&#8203;d", "abcd"),
        ("one\n\n---\n\ntwo", "one\ntwo"),
        ("- [ ] to do", "- [ ] to do"),
    ] {
        assert_eq!(plain(markdown), expected, "{markdown}");
    }
}

#[test]
fn what_is_not_seen_goes_except_inside_an_emoji() {
    for (text, expected) in [
        ("a\u{200B}b\u{202E}c\u{FEFF}d\u{AD}e\u{7}f\u{1B}[31mg", "abcdef[31mg"),
        ("a\u{FE0F}\u{200D}b", "ab"),
        ("caf\u{65}\u{301}", "cafe\u{301}"),
        (FAMILY, FAMILY),
        (SCOTLAND, SCOTLAND),
        (UKRAINE, UKRAINE),
        ("1\u{FE0F}\u{20E3}", "1\u{FE0F}\u{20E3}"),
        ("\u{2764}\u{FE0F}", "\u{2764}\u{FE0F}"),
        ("\u{1F44B}\u{1F3FD}", "\u{1F44B}\u{1F3FD}"),
        // hidden text behind an emoji
        ("\u{1F600}\u{E0068}\u{E0069}\u{E007F}", "\u{1F600}"),
        ("\u{1F600}\u{FE01}\u{FE02}\u{E0101}", "\u{1F600}"),
        ("\u{1F3F4}\u{E0068}\u{E0069}", "\u{1F3F4}"),
        // a mark of Malayalam that joins with what follows: the emoji is not in front of its grapheme
        ("\u{D4E}\u{2764}\u{FE0F}", "\u{D4E}\u{2764}\u{FE0F}"),
        ("\u{D4E}\u{FE0F}a", "\u{D4E}a"),
        ("\u{1F600}\u{FE0F}\u{FE0F}", "\u{1F600}\u{FE0F}"),
        ("\u{1F600}\u{200D}a", "\u{1F600}a"),
        ("a\r\nb\rc\u{2028}d\te\u{A0}f", "a\nb\nc\nd e f"),
    ] {
        assert_eq!(tidy(text), expected, "{text:?}");
    }
}

#[test]
fn one_part_has_no_mark_and_the_limit_is_a_byte() {
    assert_eq!(plan("", 200, 3, "more"), Vec::<String>::new());
    assert_eq!(plan(" \n\u{200B}", 200, 3, "more"), Vec::<String>::new());
    let text = "a".repeat(200);
    assert_eq!(plan(&text, 200, 3, "more"), vec![text.clone()]);
    let parts = plan(&format!("{text}a"), 200, 3, "more");
    assert_eq!(parts, vec![format!("1/2 {}", "a".repeat(196)), "2/2 aaaaa".to_owned()]);
    // Cyrillic counts by bytes.
    assert_eq!(plan(&"ї".repeat(100), 200, 3, "more").len(), 1);
    assert_eq!(plan(&"ї".repeat(101), 200, 3, "more").len(), 2);
}

#[test]
fn cuts_fall_on_sentences_then_words() {
    let first = "The disk has 18.5 GB free, see https://example.org/a.B?c=d&e=3.14 for more."; // 76
    let text = format!("{first} Then {}", "word ".repeat(12));
    let parts = plan(&text, 100, 9, "more");
    assert_eq!(parts[0], format!("1/2 {first}"));
    assert!(parts[1].starts_with("2/2 Then word"), "{parts:?}");

    // Nothing to spare: the sentence can't be kept without another packet, the word can.
    let text = format!("{} {}", "abcd ".repeat(19).trim(), "efgh ".repeat(18).trim());
    let parts = plan(&text, 100, 9, "more");
    assert_eq!(parts.len(), 2);
    assert!(parts[0].ends_with("abcd") || parts[0].ends_with("efgh"), "{parts:?}");

    // A line's end is better than a sentence's; the number of a list item stays with its text.
    let text = format!("1. {}.\n2. {}. Yes", "a ".repeat(30).trim(), "b ".repeat(30).trim());
    let parts = plan(&text, 80, 9, "more");
    assert!(parts[1].starts_with("2/2 2. b"), "{parts:?}");
}

#[test]
fn a_number_or_an_emoji_is_never_cut() {
    for tail in ["3.14159", FAMILY, SCOTLAND, UKRAINE, "example.org"] {
        for lead in 60..100 {
            let text = format!("{} {tail} {}", "x".repeat(lead), "y".repeat(60));
            let parts = plan(&text, 100, 9, "more");
            assert!(parts.iter().any(|part| part.contains(tail)), "{lead} {parts:?}");
        }
    }
}

#[test]
fn a_burst_that_leaves_something_says_so_inside_its_budget() {
    let text = "word ".repeat(200);
    let parts = plan(&text, 100, 3, "more");
    assert!(parts.len() > 9, "marks of ten parts are longer");
    for (index, part) in parts.iter().enumerate() {
        assert!(part.len() <= 100);
        assert!(part.starts_with(&format!("{}/{} ", index + 1, parts.len())));
        let last_of_burst = (index + 1) % 3 == 0 && index + 1 < parts.len();
        assert_eq!(part.ends_with(" (more)"), last_of_burst, "{part}");
    }
    let exact = plan(&"a".repeat(96 * 3), 100, 3, "more");
    assert_eq!(exact.len(), 3);
    assert!(!exact[2].ends_with(" (more)"), "nothing waits");
}

#[test]
fn the_rest_is_numbered_on() {
    let pieces = layout(&"word ".repeat(60), 100, 3, "more", 2);
    let count = pieces.len() + 2;
    assert!(pieces[0].text.starts_with(&format!("3/{count} ")));
    assert!(pieces[0].text.ends_with(" (more)"), "part 3 ends a burst of three");
    assert_eq!(layout("end", 100, 3, "more", 2)[0].text, "3/3 end");
}

#[test]
fn a_flood_of_marks_on_one_letter_is_cut_between_characters() {
    let flood = format!("e{}", "\u{301}".repeat(300));
    let parts = plan(&flood, 200, 9, "more");
    assert!(parts.iter().all(|part| part.len() <= 200));
    assert_eq!(bodies(&parts, 9).concat(), flood);
}

#[test]
fn six_hundred_characters_cost_the_least_number_of_packets() {
    let english: String =
        "All disks are in good health today. ".chars().cycle().take(600).collect();
    let ukrainian: String = "Усі диски сьогодні в порядку. ".chars().cycle().take(600).collect();
    assert_eq!(plan(&english, 200, 9, "more").len(), 4); // 600 bytes and four marks are more than 3 × 200
    assert_eq!(plan(&ukrainian, 200, 9, "more").len(), ukrainian.trim_end().len().div_ceil(196));
}

/// The parts without marks and notes.
fn bodies(parts: &[String], burst: usize) -> Vec<String> {
    let count = parts.len();
    let body = |(index, part): (usize, &String)| {
        let mark = format!("{}/{count} ", index + 1);
        let body = if count > 1 { part.strip_prefix(&mark).unwrap() } else { part };
        let noted = (index + 1) % burst == 0 && index + 1 < count;
        let body = if noted { body.strip_suffix(" (more)").unwrap() } else { body };
        body.to_owned()
    };
    parts.iter().enumerate().map(body).collect()
}

/// Walks the bodies through the text: only white space may be missing between them. Gives the cuts.
fn walk(text: &str, bodies: &[String]) -> Vec<usize> {
    let mut at = 0;
    let mut cuts = Vec::new();
    for body in bodies {
        let rest = &text[at..];
        let found = rest.find(body.as_str()).expect("the body is in the text");
        assert!(rest[..found].trim().is_empty(), "lost {:?}", &rest[..found]);
        cuts.push(at + found);
        at += found + body.len();
        cuts.push(at);
    }
    assert!(text[at..].trim().is_empty(), "lost {:?}", &text[at..]);
    cuts
}

/// The least number of parts, found the plain way: for each number of parts, fill to the brim.
fn least(text: &str, budget: usize, burst: usize) -> usize {
    (1..)
        .find(|count| {
            let mut rest = text;
            for part in 1..=*count {
                let mark = if *count > 1 { format!("{part}/{count} ").len() } else { 0 };
                let note = if part % burst == 0 && part < *count { 7 } else { 0 };
                let mut next = 0;
                for (at, grapheme) in rest.grapheme_indices(true) {
                    if grapheme.chars().all(char::is_whitespace) {
                        next = if next == at { at + grapheme.len() } else { next };
                        continue;
                    }
                    if at + grapheme.len() > budget - mark - note {
                        break;
                    }
                    next = at + grapheme.len();
                }
                rest = &rest[next..];
            }
            rest.trim().is_empty()
        })
        .unwrap()
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "[a-zA-Z]{1,12}",
        6 => Just(" ".to_owned()),
        2 => prop_oneof![Just(". "), Just("\n"), Just("? "), Just("3.14"), Just("\n\n"), Just("   ")]
            .prop_map(str::to_owned),
        2 => "[а-яії]{1,12}",
        1 => "[\u{4e00}-\u{4e40}]{1,20}。",
        1 => prop_oneof![Just(FAMILY), Just(SCOTLAND), Just(UKRAINE), Just("\u{2764}\u{FE0F}")]
            .prop_map(str::to_owned),
        1 => prop_oneof![Just("*"), Just("`"), Just("**"), Just("- "), Just("[a](https://b.c/d)")]
            .prop_map(str::to_owned),
        1 => "\\PC{1,6}",
        1 => any::<String>(),
    ];
    proptest::collection::vec(piece, 0..160).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_fit_join_and_are_the_fewest(text in any_text(), budget in 60usize..220, burst in 1usize..6) {
        let text = tidy(&text);
        let parts = plan(&text, budget, burst, "more");
        prop_assert!(parts.iter().all(|part| part.len() <= budget));
        prop_assert_eq!(parts.is_empty(), text.is_empty());
        if text.is_empty() {
            return Ok(());
        }
        let bodies = bodies(&parts, burst);
        prop_assert!(bodies.iter().all(|body| !body.is_empty()));
        let cuts = walk(&text, &bodies);
        let flood = text.graphemes(true).any(|g| g.len() > budget - 19);
        if !flood {
            let borders: std::collections::HashSet<usize> =
                text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
            prop_assert!(cuts.iter().all(|cut| borders.contains(cut)));
            prop_assert_eq!(parts.len(), least(&text, budget, burst));
        }
    }

    #[test]
    fn putting_in_order_twice_changes_nothing(text in any_text()) {
        let once = plain(&text);
        prop_assert_eq!(tidy(&once), once.clone());
        prop_assert!(!once.contains("\n\n") && once.trim() == once);
        let twice = tidy(&text);
        prop_assert_eq!(tidy(&twice), twice);
    }

    #[test]
    fn nothing_hidden_survives(text in any_text(), noise in "[\u{200B}-\u{200F}\u{202A}-\u{202E}\u{FE00}-\u{FE0F}\u{E0020}-\u{E007F}\u{0}-\u{1F}\u{1F600}\u{1F3F4}a]{0,40}") {
        let out = plain(&format!("{text}{noise}"));
        for grapheme in out.graphemes(true) {
            // Not always in front: some scripts have marks that join with what follows.
            let emoji = grapheme.chars().any(|c| invisible::pictograph(c) || c == '\u{20E3}');
            let bad = grapheme.chars().filter(|c| invisible::hidden(*c) && *c != '\n').count();
            prop_assert!(bad == 0 || emoji, "{:?}", grapheme);
            // Even there: never more than what joins what is seen.
            let seen = grapheme.chars().count() - bad;
            prop_assert!(bad < 2 * seen || grapheme.contains('\u{1F3F4}'), "{:?}", grapheme);
        }
    }

    #[test]
    fn a_text_without_markup_is_left_alone(text in "[a-zA-Zїєґ ,.?!0-9()/:-]{0,300}") {
        let text = format!("x{text}"); // not the mark of a list
        let spaced = text.split_whitespace().collect::<Vec<_>>().join(" ");
        prop_assert_eq!(plain(&text), spaced);
    }
}

#[test]
fn a_model_that_repeats_one_sign_neither_holds_up_the_node_nor_fills_its_memory() {
    // An answer of a server may have four times that; work that grows with the square would take minutes here.
    const MOST: usize = 1 << 18;
    for sign in ["<", "<a>", "1. ", "- ", "> ", "[", "*", "|", "`"] {
        for begin in ["", "<div>\n"] {
            let text = format!("{begin}{}", sign.repeat(MOST / sign.len()));
            let plain = plain(&text).len();
            assert!(plain <= 4 * MOST, "{begin}{sign}: {plain} bytes");
        }
    }
}

#[test]
fn nested_lists_are_set_in_up_to_a_limit() {
    let list: String = (0..8).map(|depth| format!("{}- x\n", "  ".repeat(depth))).collect();
    let set_in: Vec<usize> =
        plain(&list).lines().map(|line| line.len() - line.trim_start().len()).collect();
    assert_eq!(set_in, [0, 1, 2, 3, 4, 4, 4, 4]);
}

//! A hunk applies where it says, or not at all.

use proptest::prelude::*;

use super::*;

fn apply(text: &str, patch: &str) -> Result<String, String> {
    Patch::parse(patch)?.apply(text)
}

const TEXT: &str = "one\ntwo\nthree\nfour\nfive\n";

#[test]
fn hunks_replace_add_and_remove() {
    for (patch, expected) in [
        ("@@ -2,1 +2,1 @@\n-two\n+2\n", "one\n2\nthree\nfour\nfive\n"),
        ("@@ -2 +2 @@\n-two\n+2", "one\n2\nthree\nfour\nfive\n"),
        ("@@ -1,2 +1,3 @@ fn\n one\n+new\n two\n", "one\nnew\ntwo\nthree\nfour\nfive\n"),
        ("@@ -5,1 +4,0 @@\n-five\n", "one\ntwo\nthree\nfour\n"),
        ("@@ -0,0 +1 @@\n+zero\n", "zero\none\ntwo\nthree\nfour\nfive\n"),
        ("@@ -5,0 +6 @@\n+six\n", "one\ntwo\nthree\nfour\nfive\nsix\n"),
        ("@@ -1 +1 @@\n-one\n+1\n@@ -5 +5 @@\n-five\n+5\n", "1\ntwo\nthree\nfour\n5\n"),
        ("@@ -1,5 +0,0 @@\n-one\n-two\n-three\n-four\n-five\n", ""),
        (
            "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\t2026\n+++ b/x\n@@ -5 +5 @@\n-five\n+5\n\\ No newline at end of file\n-- \n2.1\n",
            "one\ntwo\nthree\nfour\n5",
        ),
    ] {
        assert_eq!(apply(TEXT, patch).unwrap(), expected, "{patch}");
    }
    assert_eq!(apply("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n").unwrap(), "a\n\nc\n");
    assert_eq!(apply("a\n-- b\n", "@@ -1,2 +1 @@\n a\n--- b\n").unwrap(), "a\n");
    let removes = "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n";
    assert_eq!(apply("a", removes).unwrap(), "a\n");
}

#[test]
fn what_does_not_fit_exactly_is_refused_and_says_where() {
    for (patch, why) in [
        (
            "@@ -3 +3 @@\n-two\n+2\n",
            "line 3 is \"three\", not \"two\"; its old lines are at line 2",
        ),
        ("@@ -2 +2 @@\n-tow\n+2\n", "line 2 is \"two\", not \"tow\""),
        ("@@ -1,2 +1,2 @@\n one \n-two\n+2\n", "line 1 is"),
        ("@@ -5,2 +5,2 @@\n five\n-six\n+6\n", "the file ends before line 6"),
        ("@@ -6 +6 @@\n-six\n+6\n", "the file ends before line 6"),
        ("@@ -7 +7 @@\n-six\n+6\n", "for line 7, but the file has 5 lines"),
        ("@@ -6,0 +7 @@\n+six\n", "for line 6"),
        ("@@ -5 +5 @@\n-five\n\\ No newline at end of file\n+5\n", "line 5 has a newline"),
        ("@@ -2 +2 @@\n-two\n+2\n\\ No newline at end of file\n", "without a newline"),
        ("@@ -2 +2 @@\n-two\n+2\n@@ -1 +1 @@\n-one\n+1\n", "out of order"),
        ("@@ -2,2 +2,2 @@\n-two\n+2\n three\n@@ -3 +3 @@\n-three\n+3\n", "overlaps"),
    ] {
        let refused = apply(TEXT, patch).unwrap_err();
        assert!(refused.contains(why), "{patch}: {refused}");
    }
    let refused = apply("a", "@@ -1 +1 @@\n-a\n+b\n").unwrap_err();
    assert!(refused.contains("has no newline"), "{refused}");
    let refused = apply("a", "@@ -1,0 +2 @@\n+b\n").unwrap_err();
    assert!(refused.contains("without a newline"), "{refused}");
}

#[test]
fn a_patch_that_says_something_else_than_it_does_is_refused() {
    for (patch, why) in [
        ("", "no hunk"),
        ("just text", "no hunk"),
        ("@@ -1,2 +1,2 @@\n one\n", "fewer lines"),
        ("@@ -1 +1 @@\n-one\n+1\n+2\n", "more lines than its header says, from \"+2\""),
        ("@@ -1,2 +1 @@\n-one\n+1\n+2\n", "other lines than"),
        ("@@ -1 +1 @@\n-one\nx\n", "without a sign"),
        ("@@ -0,1 +1 @@\n-one\n+1\n", "line 0"),
        ("@@ -x +1 @@\n", "broken header"),
        ("@@ 1 1 @@\n", "broken header"),
        ("@@ -1 +1\n", "broken header"),
        ("@@ -99999999999999999999 +1 @@\n", "broken header"),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "deletes"),
        ("rename from x\n", "only changes of text"),
        ("GIT binary patch\n", "only changes of text"),
        ("@@ -1 +1 @@\n-one\n+1\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "more than one file"),
        ("@@ -1 +1 @@\n-one\n+1\ndiff --git a/y b/y\n", "more than one file"),
    ] {
        let refused = apply(TEXT, patch).unwrap_err();
        assert!(refused.contains(why), "{patch}: {refused}");
    }
}

#[test]
fn its_headers_name_the_file_or_nothing() {
    let patch = "--- a/src/x.rs\n+++ b/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n";
    let patch = Patch::parse(patch).unwrap();
    for path in ["src/x.rs", "./src/x.rs", "/home/w/src/x.rs"] {
        assert_eq!(patch.other_name(path), None, "{path}");
    }
    for path in ["x.rs", "src/y.rs", "asrc/x.rs"] {
        assert_eq!(patch.other_name(path), Some("src/x.rs"), "{path}");
    }
    let creates = Patch::parse("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n").unwrap();
    assert!(creates.creates());
    assert_eq!(creates.other_name("x"), None);
    assert_eq!(creates.apply("").unwrap(), "a\n");
}

/// A patch that is right but not short: everything between the common start and end is one hunk.
fn diff(old: &str, new: &str, context: usize) -> Option<String> {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    if old == new {
        return None;
    }
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let end = old[start..]
        .iter()
        .rev()
        .zip(new[start..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let before = &old[start.saturating_sub(context)..start];
    let after = &old[old.len() - end..(old.len() - end + context).min(old.len())];
    let (removed, added) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let from = start - before.len();
    let old_count = before.len() + removed.len() + after.len();
    let new_count = before.len() + added.len() + after.len();
    let line = |count: usize| if count == 0 { from } else { from + 1 };
    let mut patch =
        format!("@@ -{},{old_count} +{},{new_count} @@\n", line(old_count), line(new_count));
    for (sign, pieces) in [(' ', before), ('-', removed), ('+', added), (' ', after)] {
        for piece in pieces {
            patch.push(sign);
            patch.push_str(piece);
            if !piece.ends_with('\n') {
                patch.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    Some(patch)
}

fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just(String::new()),
        Just("- a".to_owned()),
        Just("@@ -1 +1 @@".to_owned()),
        Just("\\ No".to_owned()),
        "[ab ü\r\t]{0,3}",
    ];
    (proptest::collection::vec(line, 0..12), any::<bool>()).prop_map(|(lines, ends)| {
        let mut text = lines.join("\n");
        if ends && !text.is_empty() {
            text.push('\n');
        }
        text
    })
}

proptest! {
    #[test]
    fn the_difference_leads_from_one_to_the_other(old in text(), new in text(), context in 0usize..4) {
        if let Some(patch) = diff(&old, &new, context) {
            prop_assert_eq!(apply(&old, &patch), Ok(new));
        }
    }

    #[test]
    fn on_another_text_it_fails_or_changes_only_what_it_names(
        old in text(), new in text(), other in text()
    ) {
        // With all of the text as context nothing else can fit but the text itself.
        if let Some(patch) = diff(&old, &new, usize::MAX / 4)
            && let Ok(result) = apply(&other, &patch)
        {
            prop_assert!(other.starts_with(&old), "{old:?} {other:?}");
            prop_assert_eq!(result, format!("{new}{}", &other[old.len()..]));
        }
    }

    #[test]
    fn nothing_makes_it_panic(text in "[-+ @a\\\\\n\r,01]{0,60}", patch in "[-+ @a\\\\\n\r,01]{0,80}") {
        let _ = apply(&text, &patch);
        let _ = apply(&text, &format!("@@ -1,2 +1,2 @@\n{patch}"));
    }
}

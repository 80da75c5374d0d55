//! A question as the index understands it.
//!
//! Owns what becomes of the words that a person or a model wrote. No character of a question has a meaning
//! to the index: each word is quoted. There are no word lists and no grammar of any language: a word finds
//! what begins like it, and a long one also what begins like its beginning, because endings change.

/// Words of a question that are looked at.
const MAX_WORDS: usize = 16;
/// Characters of a word.
const MAX_WORD: usize = 40;

/// The expressions, the strictest first: all words as they are written or begin; then any of them, and
/// any beginning.
pub fn expressions(query: &str) -> Vec<String> {
    let words: Vec<String> = query
        .split(|c: char| c.is_whitespace() || "\"'’ʼ`,;:!?()[]{}/\\|<>*^+=~".contains(c))
        .map(|word| {
            word.trim_matches(|c: char| !c.is_alphanumeric()).chars().take(MAX_WORD).collect()
        })
        .filter(|word: &String| word.chars().any(char::is_alphanumeric))
        .take(MAX_WORDS)
        .collect();
    if words.is_empty() {
        return Vec::new();
    }
    let all: Vec<String> = words.iter().map(|word| begins(word)).collect();
    // Short words stand in every text.
    let mut any: Vec<String> = words
        .iter()
        .filter(|word| word.chars().count() > 2 || word.chars().any(|c| c.is_ascii_digit()))
        .map(|word| begins(&beginning(word)))
        .collect();
    if any.is_empty() {
        any.clone_from(&all);
    }
    vec![all.join(" AND "), any.join(" OR ")]
}

/// Quoted; a word of three characters or more finds what begins so.
fn begins(word: &str) -> String {
    let quoted = word.replace('"', "\"\"");
    if word.chars().count() >= 3 { format!("\"{quoted}\"*") } else { format!("\"{quoted}\"") }
}

/// A longer word without what may be its ending.
fn beginning(word: &str) -> String {
    let chars = word.chars().count();
    let kept = match chars {
        _ if word.chars().any(|c| c.is_numeric()) => chars,
        // Four letters of a language with endings are a stem of three.
        4 if !word.is_ascii() => 3,
        0..=4 => chars,
        5 => 4,
        _ => chars - 2,
    };
    word.chars().take(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_have_no_meaning_of_their_own() {
        for (query, all) in [
            ("pump oil", "\"pump\"* AND \"oil\"*"),
            ("a \"b\" OR NOT c*", "\"a\" AND \"b\" AND \"OR\" AND \"NOT\"* AND \"c\""),
            ("title:x NEAR(a, b)", "\"title\"* AND \"x\" AND \"NEAR\"* AND \"a\" AND \"b\""),
            ("м'яч", "\"м\" AND \"яч\""),
            ("e-mail v2.5", "\"e-mail\"* AND \"v2.5\"*"),
        ] {
            assert_eq!(expressions(query)[0], all, "{query}");
        }
        for nothing in ["", "  ", "\"*\" - ()"] {
            assert!(expressions(nothing).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn endings_are_left_open() {
        let any = |query: &str| expressions(query)[1].clone();
        assert_eq!(any("криниці"), "\"криниц\"*"[..].replace("криниц", "крини"));
        assert_eq!(any("вода is in it"), "\"вод\"*");
        assert_eq!(any("wells of 2026"), "\"well\"* OR \"2026\"*");
        assert_eq!(any("is it"), "\"is\" AND \"it\"".replace("AND", "OR"));
        assert_eq!(expressions(&"word ".repeat(40))[0].matches("AND").count(), MAX_WORDS - 1);
    }
}

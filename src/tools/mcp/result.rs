//! What a foreign tool answered, as text for a model.
//!
//! Owns its bounds. The text is foreign: it is data for the model and never an instruction to this program.

use rmcp::model::{CallToolResult, ContentBlock};

use crate::invisible::legible;

/// Characters that are kept.
const MAX_CHARS: usize = 8_000;
/// Of an error.
const MAX_ERROR_CHARS: usize = 300;

/// The texts of the answer; what is no text is named. `Err`: the tool says that it failed.
pub fn text_of(result: &CallToolResult) -> Result<String, String> {
    let mut parts: Vec<String> = result.content.iter().map(block).collect();
    if parts.is_empty()
        && let Some(value) = &result.structured_content
    {
        parts.push(value.to_string());
    }
    let text = bounded(&parts.join("\n"), MAX_CHARS);
    if result.is_error == Some(true) {
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
        return Err(bounded(line, MAX_ERROR_CHARS).trim_end_matches('.').to_owned());
    }
    Ok(if text.trim().is_empty() { "(no output)".to_owned() } else { text })
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(_) => "[a picture, not shown]".to_owned(),
        ContentBlock::Audio(_) => "[a sound, not played]".to_owned(),
        ContentBlock::Resource(_) | ContentBlock::ResourceLink(_) => {
            "[a resource, not fetched]".to_owned()
        }
        _ => "[something that is no text]".to_owned(),
    }
}

fn bounded(text: &str, limit: usize) -> String {
    let clean = legible(text);
    let mut clean = clean.chars();
    let mut taken: String = clean.by_ref().take(limit).collect();
    let left = clean.count();
    if left > 0 {
        taken.push_str(&format!("\n[… {left} characters left out …]"));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(blocks: Vec<ContentBlock>, is_error: bool) -> CallToolResult {
        if is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) }
    }

    #[test]
    fn texts_are_joined_and_the_rest_is_named() {
        let blocks = vec![
            ContentBlock::text("12 C\u{1b}[2J\u{e0041}\u{200b}"),
            ContentBlock::image("aGVsbG8=", "image/png"),
            ContentBlock::text("wind 3"),
        ];
        assert_eq!(
            text_of(&result(blocks, false)).unwrap(),
            "12 C[2J\n[a picture, not shown]\nwind 3"
        );
        assert_eq!(text_of(&result(Vec::new(), false)).unwrap(), "(no output)");
    }

    #[test]
    fn the_longest_text_is_kept_whole_and_a_longer_one_says_what_is_missing() {
        let whole = "x".repeat(MAX_CHARS);
        assert_eq!(text_of(&result(vec![ContentBlock::text(&whole)], false)).unwrap(), whole);
        let cut = text_of(&result(vec![ContentBlock::text(format!("{whole}yz"))], false)).unwrap();
        assert_eq!(cut, format!("{whole}\n[… 2 characters left out …]"));
    }

    #[test]
    fn a_failure_is_one_line() {
        let error = text_of(&result(vec![ContentBlock::text("\nno such place.\nat line 3")], true));
        assert_eq!(error, Err("no such place".to_owned()));
        assert_eq!(text_of(&result(Vec::new(), true)), Err("it gave no reason".to_owned()));
    }
}

//! Questions whose first call is plain from their words.
//!
//! Owns the three forms: `read FILE lines A to B`, `search for '…'` and `run '…'`, each at the very
//! beginning of what was typed. What was piped in, or stands further on, never makes a call. The call
//! found here is checked and confirmed like any other.

use serde_json::{Map, Value, json};

use crate::assistant::backends::ToolCall;
use crate::assistant::backends::ollama::synthesize_call_id;

/// Opening quotes, and what closes each.
const QUOTES: [(char, char); 5] = [('\'', '\''), ('"', '"'), ('`', '`'), ('‘', '’'), ('“', '”')];

/// The call that the typed words can't do without.
pub fn call(typed: &str) -> Option<ToolCall> {
    let words = after(typed.trim(), "please").unwrap_or(typed.trim());
    let (name, arguments) = if let Some(rest) = after(words, "read") {
        ("read_file", read(rest)?)
    } else if let Some(rest) = after(words, "search for") {
        ("search_files", search(rest)?)
    } else if let Some(rest) = after(words, "run") {
        ("run_shell_command", json!({ "command": quoted(rest)?.0 }))
    } else {
        return None;
    };
    Some(ToolCall { id: synthesize_call_id(), name: name.to_owned(), arguments })
}

/// `FILE`, alone or with `lines A to B`, `lines A-B` or `line A`.
fn read(rest: &str) -> Option<Value> {
    let (path, rest) = match quoted(rest) {
        Some(found) => found,
        None => {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (path, rest) = rest.split_at(end);
            (path.trim_end_matches([',', ':']), rest)
        }
    };
    let rest = rest.trim_start();
    let rest = after(rest, "from").unwrap_or(rest);
    let (start, end) = if let Some(rest) = after(rest, "lines") {
        let (start, rest) = number(rest)?;
        let rest = rest.trim_start();
        let rest = ["to", "through"]
            .iter()
            .find_map(|word| after(rest, word))
            .or_else(|| rest.strip_prefix(['-', '–']))?;
        (start, number(rest)?.0)
    } else {
        let (line, _) = number(after(rest, "line")?)?;
        (line, line)
    };
    if path.is_empty() {
        return None;
    }
    Some(json!({ "path": path, "start_line": start, "end_line": end }))
}

/// A quoted text, alone or with `in PATH`.
fn search(rest: &str) -> Option<Value> {
    let (pattern, rest) = quoted(rest)?;
    let mut arguments = Map::from_iter([("pattern".to_owned(), json!(pattern))]);
    if let Some(path) = after(rest.trim_start(), "in") {
        let path = quoted(path).map(|found| found.0).or_else(|| path.split_whitespace().next());
        // `in src/`, `in notes.md`; not `in all files`.
        if let Some(path) = path.map(|path| path.trim_end_matches(['.', ',', '?', '!']))
            && path.contains(['/', '.'])
        {
            arguments.insert("path".to_owned(), json!(path));
        }
    }
    Some(Value::Object(arguments))
}

/// What stands after these words, without leading space; `None` when it doesn't begin with them.
fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(words.len())?;
    let fits = start.eq_ignore_ascii_case(words) && rest.starts_with(char::is_whitespace);
    fits.then(|| rest.trim_start())
}

/// A text in quotes at the beginning, and what stands after it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let open = text.chars().next()?;
    let (_, close) = QUOTES.iter().find(|(quote, _)| *quote == open)?;
    let (inside, rest) = text.get(open.len_utf8()..)?.split_once(*close)?;
    (!inside.trim().is_empty()).then_some((inside, rest))
}

fn number(text: &str) -> Option<(u32, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok().filter(|number| *number > 0)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_are_known() {
        let lines = |path: &str, start: u32, end: u32| {
            ("read_file", json!({"path": path, "start_line": start, "end_line": end}))
        };
        let run = |command: &str| ("run_shell_command", json!({ "command": command }));
        let search = |arguments: Value| ("search_files", arguments);
        for (typed, (name, arguments)) in [
            ("read src/main.rs lines 1 to 20", lines("src/main.rs", 1, 20)),
            ("Please read src/main.rs, lines 1-20 and explain", lines("src/main.rs", 1, 20)),
            ("read 'a b.txt' from lines 3 through 4", lines("a b.txt", 3, 4)),
            ("read a.txt line 7", lines("a.txt", 7, 7)),
            ("search for 'TODO'", search(json!({"pattern": "TODO"}))),
            (
                "search for \"fn main\" in src/.",
                search(json!({"pattern": "fn main", "path": "src/"})),
            ),
            ("Search for ‘x’ in all files", search(json!({"pattern": "x"}))),
            ("run 'pwd' and 'ls src | head'", run("pwd")),
            ("run `ls src | head`", run("ls src | head")),
        ] {
            let found = call(typed).unwrap_or_else(|| panic!("{typed}"));
            assert_eq!((found.name.as_str(), &found.arguments), (name, &arguments), "{typed}");
        }
    }

    #[test]
    fn everything_else_makes_no_call() {
        for typed in [
            "",
            "run",
            "run it",
            "run ''",
            "run 'unclosed",
            "runs 'pwd'",
            "don't run 'rm -r x'",
            "never ever run 'rm -r x'",
            "what does: run 'pwd' do?",
            "read src/main.rs",
            "read lines 1 to 2",
            "read a.txt lines 0 to 2",
            "read a.txt lines 1",
            "read a.txt lines 1 to 99999999999",
            "reading a.txt lines 1 to 2",
            "search for TODO",
            "search 'TODO'",
            "ü",
        ] {
            assert_eq!(call(typed), None, "{typed}");
        }
    }
}

//! `read_file`: lines of a text file, numbered.
//!
//! Owns what a model sees of a file. Reads only, and only regular files inside of the workspace.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::path::Workspace;
use crate::assistant::PermissionCategory;
use crate::assistant::loop_::MAX_TOOL_RESULT_CHARS;
use crate::assistant::tools::{Description, ToolDef};

/// Bytes of a file that is read.
pub(in crate::tools) const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Characters of lines and numbers in one result. Below what the loop cuts, so that the closing note
/// on how to go on is always seen.
const MAX_SHOWN_CHARS: usize = MAX_TOOL_RESULT_CHARS - 200;
/// Characters shown of one line.
const MAX_LINE_CHARS: usize = 1000;

/// What is to be read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct Arguments {
    /// In the workspace.
    pub path: String,
    /// From 1.
    pub start_line: Option<usize>,
    /// Included.
    pub end_line: Option<usize>,
}

/// `read_file`
pub(super) fn tool(workspace: Arc<Workspace>) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Files,
        "read_file",
        "Shows a text file of the workspace with line numbers. Without start_line and \
                      end_line it starts at the top; a long file is shown in pieces.",
    )
    .taking(
        json!({
            "path": {"type": "string", "description": "Path in the workspace"},
            "start_line": {"type": "integer", "minimum": 1, "description": "First line, from 1"},
            "end_line": {"type": "integer", "minimum": 1, "description": "Last line, included"}
        }),
        &["path"],
    );
    ToolDef::new(about, move |arguments: Arguments| {
        let workspace = workspace.clone();
        Box::pin(super::blocking(move || read(&workspace, &arguments)))
    })
}

/// The lines, numbered, or why not.
pub(in crate::tools) fn read(
    workspace: &Workspace,
    arguments: &Arguments,
) -> Result<String, String> {
    let start = arguments.start_line.unwrap_or(1);
    let end = arguments.end_line.unwrap_or(usize::MAX);
    if start == 0 || end == 0 {
        return Err("lines are counted from 1".to_owned());
    }
    if end < start {
        return Err(format!("end_line {end} is before start_line {start}"));
    }
    let mut file = workspace.open_file(&arguments.path).map_err(|e| e.to_string())?;
    let bytes = content(&mut file, &arguments.path)?;
    let text = String::from_utf8_lossy(&bytes);
    let shown = numbered(&text, start, end)?;
    Ok(if matches!(text, std::borrow::Cow::Owned(_)) {
        format!("{shown}[not all of it is UTF-8; those bytes are shown as \u{fffd}]\n")
    } else {
        shown
    })
}

/// All bytes of a text file.
pub(in crate::tools) fn content(file: &mut File, path: &str) -> Result<Vec<u8>, String> {
    let path = super::path::shown(path);
    let mut bytes = Vec::new();
    // Bounded while reading: the size that a file claims can change.
    file.by_ref()
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("{path}: {e}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{path} is larger than {} MiB", MAX_FILE_BYTES / 1024 / 1024));
    }
    if bytes.contains(&0) {
        return Err(format!("{path} is a binary file"));
    }
    Ok(bytes)
}

/// Lines `start` to `end`, from 1, both included, as `number<TAB>line`.
fn numbered(text: &str, start: usize, end: usize) -> Result<String, String> {
    let total = text.lines().count();
    if total == 0 {
        return Ok("[the file is empty]\n".to_owned());
    }
    if start > total {
        return Err(format!("start_line {start} is after the last line, {total}"));
    }
    let mut out = String::new();
    let mut chars = 0;
    for (number, line) in (1..).zip(text.lines()).skip(start - 1).take(end - start + 1) {
        let mut entry = format!("{number}\t");
        match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((cut, _)) => {
                let rest = line.chars().count() - MAX_LINE_CHARS;
                let kept = line.get(..cut).unwrap_or_default();
                let _ = writeln!(entry, "{kept}[… {rest} more characters]");
            }
            None => {
                let _ = writeln!(entry, "{line}");
            }
        }
        chars += entry.chars().count();
        if chars > MAX_SHOWN_CHARS && number > start {
            let last = end.min(total);
            let _ = writeln!(
                out,
                "[lines {number} to {last} are not shown; go on with start_line {number}]"
            );
            return Ok(out);
        }
        out.push_str(&entry);
    }
    if end < total {
        let _ = writeln!(out, "[the file has {total} lines]");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Folder;
    use super::*;

    fn read_in(
        folder: &Folder,
        path: &str,
        start: Option<usize>,
        end: Option<usize>,
    ) -> Result<String, String> {
        let arguments = Arguments { path: path.to_owned(), start_line: start, end_line: end };
        read(&folder.workspace(), &arguments)
    }

    #[test]
    fn lines_are_numbered_and_chosen() {
        let folder = Folder::new();
        folder.write("a.txt", "one\r\ntwo\r\n\r\nfour");
        assert_eq!(
            read_in(&folder, "a.txt", None, None).unwrap(),
            "1\tone\n2\ttwo\n3\t\n4\tfour\n"
        );
        assert_eq!(
            read_in(&folder, "a.txt", Some(2), Some(3)).unwrap(),
            "2\ttwo\n3\t\n[the file has 4 lines]\n"
        );
        assert_eq!(read_in(&folder, "a.txt", Some(4), Some(99)).unwrap(), "4\tfour\n");
        assert!(read_in(&folder, "a.txt", Some(5), None).unwrap_err().contains("last line, 4"));
        assert!(read_in(&folder, "a.txt", Some(0), None).is_err());
        assert!(read_in(&folder, "a.txt", Some(3), Some(2)).is_err());
        assert!(read_in(&folder, "a.txt", Some(1), Some(usize::MAX)).is_ok());
    }

    #[test]
    fn binary_is_refused_and_other_encodings_are_shown() {
        let folder = Folder::new();
        folder.write("b", b"ab\0c");
        assert_eq!(read_in(&folder, "b", None, None).unwrap_err(), "b is a binary file");
        folder.write("latin", b"caf\xe9\n");
        let shown = read_in(&folder, "latin", None, None).unwrap();
        assert!(shown.starts_with("1\tcaf\u{fffd}\n") && shown.contains("UTF-8"), "{shown}");
        folder.write("empty", b"");
        assert!(read_in(&folder, "empty", None, None).unwrap().contains("empty"));
    }

    #[test]
    fn a_file_up_to_the_limit_is_read_and_one_byte_more_is_refused() {
        let folder = Folder::new();
        let limit = usize::try_from(MAX_FILE_BYTES).unwrap();
        folder.write("most", vec![b'x'; limit]);
        assert!(read_in(&folder, "most", None, None).is_ok());
        folder.write("more", vec![b'x'; limit + 1]);
        assert_eq!(read_in(&folder, "more", None, None).unwrap_err(), "more is larger than 4 MiB");
    }

    #[test]
    fn a_long_line_is_cut_with_a_mark() {
        for (length, cut) in [(MAX_LINE_CHARS, false), (MAX_LINE_CHARS + 1, true)] {
            let shown = numbered(&"ü".repeat(length), 1, 1).unwrap();
            assert_eq!(shown.contains("[… 1 more characters]"), cut, "{length}");
            assert_eq!(shown.matches('ü').count(), MAX_LINE_CHARS);
        }
    }

    #[test]
    fn a_long_file_is_shown_in_pieces_that_join_without_a_gap() {
        // Each entry is "n\txxxxxxx\n" with a number of one digit: ten characters.
        let line = format!("{}\n", "x".repeat(MAX_SHOWN_CHARS / 4 - 3));
        let whole = numbered(&line.repeat(4), 1, usize::MAX).unwrap();
        assert_eq!(whole.chars().count(), MAX_SHOWN_CHARS);
        assert!(!whole.contains("not shown"));
        let five = numbered(&line.repeat(5), 1, usize::MAX).unwrap();
        assert!(five.contains("[lines 5 to 5 are not shown; go on with start_line 5]"), "{five}");
        assert!(five.chars().count() <= MAX_TOOL_RESULT_CHARS);
        let rest = numbered(&line.repeat(5), 5, usize::MAX).unwrap();
        assert!(rest.starts_with("5\t"));
    }
}

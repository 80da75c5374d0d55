//! `search_files`: a pattern in the files of the workspace.
//!
//! Owns the pattern and the bounds of a search, with ripgrep's own libraries. A file's content comes
//! from the workspace's handle, so that a folder that turns into a link meanwhile shows nothing from
//! outside.

mod walk;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::path::Workspace;
use crate::assistant::PermissionCategory;
use crate::assistant::loop_::MAX_TOOL_RESULT_CHARS;
use crate::assistant::tools::{Description, ToolDef};

/// Matches shown without a limit of the caller's.
const DEFAULT_MATCHES: usize = 50;
/// Matches at most.
const MAX_MATCHES: usize = 500;
/// Characters shown of a line.
const MAX_LINE_CHARS: usize = 300;
/// Characters of a result, below what the loop cuts.
const MAX_RESULT_CHARS: usize = MAX_TOOL_RESULT_CHARS - 200;
/// Bytes of a pattern.
const MAX_PATTERN: usize = 1000;
/// Bytes of memory of a compiled pattern.
const MAX_COMPILED: usize = 4 * 1024 * 1024;
/// Bytes of a file that is searched.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// How long a search may take; what was found until then is shown.
const MAX_TIME: Duration = Duration::from_secs(20);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    limit: Option<usize>,
}

/// What is looked for, and how what is found is shown.
pub(in crate::tools) struct Search {
    matcher: RegexMatcher,
    limit: usize,
}

/// `search_files`
pub(super) fn tool(workspace: Arc<Workspace>) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Files,
        "search_files",
        "Searches the workspace's files for a regular expression; each match is shown \
                      as path:line:content. Hidden, binary and ignored files are left out.",
    )
    .taking(
        json!({
            "pattern": {"type": "string", "description": "Regular expression, as in ripgrep"},
            "path": {"type": "string", "description": "File or folder to search in; all of the \
                                                       workspace if left out"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_MATCHES,
                      "description": "How many matches at most"}
        }),
        &["pattern"],
    );
    ToolDef::new(about, move |arguments: Arguments| Box::pin(bounded(workspace.clone(), arguments)))
}

/// The search of one workspace.
async fn bounded(workspace: Arc<Workspace>, arguments: Arguments) -> Result<String, String> {
    stoppable(move |stop| search(&workspace, &arguments, stop)).await
}

fn search(
    workspace: &Workspace,
    arguments: &Arguments,
    stop: &CancellationToken,
) -> Result<String, String> {
    let search = Search::of(&arguments.pattern, arguments.limit, false)?;
    let mut found = search.begin(stop);
    let path = arguments.path.as_deref().unwrap_or(".");
    search.look(workspace, "", path, &mut found)?;
    Ok(found.words())
}

/// A search in a thread of its own, told to stop when its time is over or when nobody waits for it.
pub(in crate::tools) async fn stoppable(
    search: impl FnOnce(&CancellationToken) -> Result<String, String> + Send + 'static,
) -> Result<String, String> {
    let stop = CancellationToken::new();
    let _stop_when_dropped = stop.clone().drop_guard();
    let told = stop.clone();
    let mut search = std::pin::pin!(super::blocking(move || search(&told)));
    tokio::select! {
        found = &mut search => return found,
        () = tokio::time::sleep(MAX_TIME) => stop.cancel(),
    }
    search.await
}

impl Search {
    /// `smart_case`: a pattern without capitals finds both.
    pub(in crate::tools) fn of(
        pattern: &str,
        limit: Option<usize>,
        smart_case: bool,
    ) -> Result<Search, String> {
        let limit = limit.unwrap_or(DEFAULT_MATCHES);
        if !(1..=MAX_MATCHES).contains(&limit) {
            return Err(format!("limit must be 1 to {MAX_MATCHES}"));
        }
        Ok(Search { matcher: compile(pattern, smart_case)?, limit })
    }

    /// Nothing found yet.
    pub(in crate::tools) fn begin<'a>(&self, stop: &'a CancellationToken) -> Found<'a> {
        Found::new(self.limit, stop)
    }

    /// Looks in a file or folder of the workspace; shown paths begin with `prefix`.
    pub(in crate::tools) fn look(
        &self,
        workspace: &Workspace,
        prefix: &str,
        path: &str,
        found: &mut Found<'_>,
    ) -> Result<(), String> {
        prefix.clone_into(&mut found.prefix);
        if workspace.is_dir(path).map_err(|e| e.to_string())? {
            let folder = workspace.relative(path).map_err(|e| e.to_string())?;
            return in_folder(workspace, &folder, &self.matcher, found);
        }
        // A file that was named is searched even where an ignore file leaves it out.
        let file = workspace.open_file(path).map_err(|e| e.to_string())?;
        found.in_file(path, file, &self.matcher);
        Ok(())
    }
}

/// The pattern, or where it is wrong.
fn compile(pattern: &str, smart_case: bool) -> Result<RegexMatcher, String> {
    if pattern.is_empty() {
        return Err("the pattern is empty".to_owned());
    }
    if pattern.len() > MAX_PATTERN {
        return Err(format!("the pattern is longer than {MAX_PATTERN} bytes"));
    }
    if let Err(error) = regex_syntax::parse(pattern) {
        let (at, what) = match &error {
            regex_syntax::Error::Parse(e) => (e.span().start, e.kind().to_string()),
            regex_syntax::Error::Translate(e) => (e.span().start, e.kind().to_string()),
            _ => return Err("the pattern does not compile".to_owned()),
        };
        let place = if pattern.contains('\n') {
            format!("line {}, character {}", at.line, at.column)
        } else {
            format!("character {}", at.column)
        };
        return Err(format!("the pattern does not compile, at {place}: {what}"));
    }
    RegexMatcherBuilder::new()
        // Lines are matched one by one; without this, `$` would not see an end before a CR.
        .multi_line(true)
        .case_smart(smart_case)
        .crlf(true)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .build(pattern)
        .map_err(|error| format!("the pattern does not compile: {error}"))
}

fn in_folder(
    workspace: &Workspace,
    folder: &Path,
    matcher: &RegexMatcher,
    found: &mut Found<'_>,
) -> Result<(), String> {
    if folder.components().any(|part| part == Component::ParentDir) {
        return Err("path has \"..\" in it; write it from the workspace's root".to_owned());
    }
    walk::walk(workspace, folder, |entry| {
        match entry {
            walk::Found::Folder => {}
            walk::Found::File(path) => match workspace.open_file(path) {
                Ok(file) => found.in_file(path, file, matcher),
                Err(_) => found.skipped += 1,
            },
            walk::Found::Unreadable => found.skipped += 1,
        }
        !found.is_over()
    });
    Ok(())
}

/// What was found until now, and what ends the search.
pub(in crate::tools) struct Found<'a> {
    prefix: String,
    limit: usize,
    stop: &'a CancellationToken,
    lines: String,
    chars: usize,
    matches: usize,
    /// A match more than is shown.
    more: bool,
    /// Files that could not be read, or are too large.
    skipped: usize,
}

impl<'a> Found<'a> {
    fn new(limit: usize, stop: &'a CancellationToken) -> Found<'a> {
        let (prefix, lines) = (String::new(), String::new());
        Found { prefix, limit, stop, lines, chars: 0, matches: 0, more: false, skipped: 0 }
    }

    /// Nothing more is to be looked at.
    pub(in crate::tools) fn is_over(&self) -> bool {
        self.more || self.stop.is_cancelled()
    }

    fn in_file(&mut self, path: &str, file: File, matcher: &RegexMatcher) {
        if file.metadata().is_ok_and(|facts| facts.len() > MAX_FILE_BYTES) {
            self.skipped += 1;
            return;
        }
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .heap_limit(Some(2 * MAX_FILE_BYTES as usize))
            .build();
        let source = Stoppable { file: file.take(MAX_FILE_BYTES), stop: self.stop };
        if searcher.search_reader(matcher, source, InFile { path, found: self }).is_err() {
            self.skipped += 1;
        }
    }

    fn add(&mut self, path: &str, number: u64, line: &[u8]) -> bool {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\r', '\n']);
        let mut entry = format!("{}{path}:{number}:", self.prefix);
        entry.extend(line.chars().take(MAX_LINE_CHARS));
        if line.chars().nth(MAX_LINE_CHARS).is_some() {
            entry.push('…');
        }
        entry.push('\n');
        let chars = self.chars + entry.chars().count();
        if self.matches == self.limit || (chars > MAX_RESULT_CHARS && self.matches > 0) {
            self.more = true;
            return false;
        }
        self.lines.push_str(&entry);
        self.chars = chars;
        self.matches += 1;
        true
    }

    /// For a model.
    pub(in crate::tools) fn words(self) -> String {
        let mut words = self.lines;
        if self.matches == 0 {
            words.push_str("[no match]\n");
        }
        if self.more {
            words.push_str(&format!(
                "[there are more than these {}; narrow the pattern or the path]\n",
                self.matches
            ));
        }
        if self.stop.is_cancelled() {
            words.push_str("[not all was searched: the time is over]\n");
        }
        if self.skipped > 0 {
            words.push_str(&format!(
                "[{} files or folders are unreadable or too large and were not searched]\n",
                self.skipped
            ));
        }
        words
    }
}

/// Takes the matches of one file.
struct InFile<'f, 'a> {
    path: &'f str,
    found: &'f mut Found<'a>,
}

impl Sink for InFile<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let number = matched.line_number().unwrap_or_default();
        Ok(self.found.add(self.path, number, matched.bytes()) && !self.found.is_over())
    }
}

/// A file that ends when the search is told to stop: a pattern that is slow in a large file is the
/// one thing that the walk itself can't interrupt.
struct Stoppable<'a> {
    file: io::Take<File>,
    stop: &'a CancellationToken,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() { Ok(0) } else { self.file.read(buffer) }
    }
}

#[cfg(test)]
mod tests;

//! Unified patches: reading one, and applying it to a text.
//!
//! Owns the rule that a hunk applies where it says and nowhere else, with every context line the same.
//! Knows no files: a text goes in, and a whole new text comes out or an error.

/// A patch of one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Patch<'a> {
    /// From `---`, without `a/`; `None` where there are no headers.
    old_name: Option<&'a str>,
    /// From `+++`, without `b/`.
    new_name: Option<&'a str>,
    hunks: Vec<Hunk<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Hunk<'a> {
    /// In the old text, from 1; with an old side of no lines, the line after which it goes.
    start: usize,
    old_lines: usize,
    lines: Vec<Line<'a>>,
}

/// Text with its newline, if the patch doesn't say that it has none.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Keep(Text<'a>),
    Remove(Text<'a>),
    Add(Text<'a>),
}

#[derive(Debug, PartialEq, Eq)]
struct Text<'a> {
    line: &'a str,
    newline: bool,
}

impl Text<'_> {
    fn is(&self, piece: &str) -> bool {
        match piece.strip_suffix('\n') {
            Some(line) => self.newline && self.line == line,
            None => !self.newline && self.line == piece,
        }
    }

    fn push_to(&self, out: &mut String) {
        out.push_str(self.line);
        if self.newline {
            out.push('\n');
        }
    }
}

/// The name for "no file" in a header.
const NO_FILE: &str = "/dev/null";

impl<'a> Patch<'a> {
    /// Reads a patch; what a line means follows from the counts in the hunk's header, as in `patch`.
    pub(super) fn parse(text: &'a str) -> Result<Patch<'a>, String> {
        let mut patch = Patch { old_name: None, new_name: None, hunks: Vec::new() };
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            if let Some(header) = line.strip_prefix("@@ ") {
                let number = patch.hunks.len() + 1;
                patch.hunks.push(hunk(header, number, &mut lines)?);
            } else if patch.hunks.is_empty() {
                patch.header(line)?;
            } else if line == "-- " || line == "--" {
                break; // the signature of a patch in a mail
            } else if line.starts_with("diff ") || line.starts_with("--- ") {
                return Err(
                    "the patch is of more than one file; send one file at a time".to_owned()
                );
            } else if !line.trim().is_empty() {
                return Err(format!(
                    "hunk {} has more lines than its header says, from \"{}\"",
                    patch.hunks.len(),
                    excerpt(line)
                ));
            }
        }
        if patch.hunks.is_empty() {
            return Err(
                "the patch has no hunk (a line with @@ -line,count +line,count @@)".to_owned()
            );
        }
        if patch.new_name == Some(NO_FILE) {
            return Err("a patch that deletes the file is not applied".to_owned());
        }
        Ok(patch)
    }

    fn header(&mut self, line: &'a str) -> Result<(), String> {
        if let Some(name) = line.strip_prefix("--- ") {
            self.old_name = Some(header_name(name, "a/"));
        } else if let Some(name) = line.strip_prefix("+++ ") {
            self.new_name = Some(header_name(name, "b/"));
        } else if ["rename ", "copy ", "deleted file", "old mode", "GIT binary", "Binary files"]
            .iter()
            .any(|unwanted| line.starts_with(unwanted))
        {
            return Err(format!("only changes of text are applied, not \"{}\"", excerpt(line)));
        }
        Ok(())
    }

    /// Whether it makes a new file.
    pub(super) fn creates(&self) -> bool {
        self.old_name == Some(NO_FILE)
    }

    /// A name in its headers that is another file's than `path`.
    pub(super) fn other_name(&self, path: &str) -> Option<&'a str> {
        let path = path.trim_start_matches("./");
        [self.old_name, self.new_name].into_iter().flatten().find(|name| {
            // An absolute path, or one written from the workspace's own parent, may end with the name.
            *name != NO_FILE && *name != path && !path.ends_with(&format!("/{name}"))
        })
    }

    /// How many places it changes.
    pub(super) fn hunks(&self) -> usize {
        self.hunks.len()
    }

    /// The new text. All hunks apply, or none does.
    pub(super) fn apply(&self, text: &str) -> Result<String, String> {
        let old: Vec<&str> = text.split_inclusive('\n').collect();
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (number, hunk) in (1..).zip(&self.hunks) {
            // A hunk without old lines goes after the line that it names.
            let start = if hunk.old_lines == 0 { hunk.start } else { hunk.start.saturating_sub(1) };
            if start < at {
                return Err(format!("hunk {number} overlaps the one before, or is out of order"));
            }
            let Some(between) = old.get(at..start) else {
                return Err(format!(
                    "hunk {number} is for line {}, but the file has {} lines",
                    hunk.start,
                    old.len()
                ));
            };
            out.extend(between.iter().copied());
            at = start;
            for line in &hunk.lines {
                let (Line::Keep(text) | Line::Remove(text) | Line::Add(text)) = line;
                if !matches!(line, Line::Add(_)) {
                    let found = old.get(at).copied();
                    if !found.is_some_and(|piece| text.is(piece)) {
                        return Err(mismatch(number, at, text, found, hunk, &old));
                    }
                    at += 1;
                }
                if !matches!(line, Line::Remove(_)) {
                    if !out.is_empty() && !out.ends_with('\n') {
                        return Err(format!(
                            "hunk {number} puts a line after one without a newline at its end"
                        ));
                    }
                    text.push_to(&mut out);
                }
            }
        }
        let rest = old.get(at..).unwrap_or_default();
        if !rest.is_empty() && !out.is_empty() && !out.ends_with('\n') {
            return Err("a line without a newline at its end is not at the file's end".to_owned());
        }
        out.extend(rest.iter().copied());
        Ok(out)
    }
}

impl Hunk<'_> {
    /// Whether its old side is what stands at `at`, from 0.
    fn fits(&self, old: &[&str], at: usize) -> bool {
        let mut pieces = old.get(at..).unwrap_or_default().iter();
        self.lines.iter().all(|line| match line {
            Line::Keep(text) | Line::Remove(text) => {
                pieces.next().is_some_and(|piece| text.is(piece))
            }
            Line::Add(_) => true,
        })
    }
}

fn mismatch(
    number: usize,
    at: usize,
    expected: &Text<'_>,
    found: Option<&str>,
    hunk: &Hunk<'_>,
    old: &[&str],
) -> String {
    let line = at + 1;
    let mut words = match found {
        None => format!("hunk {number} does not apply: the file ends before line {line}"),
        Some(piece) if piece.strip_suffix('\n').unwrap_or(piece) == expected.line => {
            let has = if expected.newline { "no" } else { "a" };
            format!("hunk {number} does not apply: line {line} has {has} newline at its end")
        }
        Some(piece) => format!(
            "hunk {number} does not apply: line {line} is \"{}\", not \"{}\"",
            excerpt(piece),
            excerpt(expected.line)
        ),
    };
    let mut elsewhere = (0..old.len()).filter(|&at| hunk.fits(old, at));
    if let (Some(place), None) = (elsewhere.next(), elsewhere.next()) {
        words.push_str(&format!("; its old lines are at line {}", place + 1));
    }
    words
}

fn hunk<'a>(
    header: &str,
    number: usize,
    lines: &mut std::iter::Peekable<std::str::Split<'a, char>>,
) -> Result<Hunk<'a>, String> {
    let (start, old_lines, new_lines) = ranges(header)
        .ok_or_else(|| format!("hunk {number} has a broken header, \"@@ {}\"", excerpt(header)))?;
    if start == 0 && old_lines > 0 {
        return Err(format!("hunk {number} starts at line 0; lines are counted from 1"));
    }
    let mut hunk = Hunk { start, old_lines, lines: Vec::new() };
    let (mut old_left, mut new_left) = (old_lines, new_lines);
    while old_left > 0 || new_left > 0 {
        let early = || {
            format!(
                "hunk {number} has fewer lines than its header says: {old_left} old and \
                 {new_left} new are missing"
            )
        };
        let line = lines.next().ok_or_else(early)?;
        // The text after the last newline is no line; and an editor may have taken the one blank of an
        // empty context line.
        let line = match line {
            "" if lines.peek().is_none() => return Err(early()),
            "" => " ",
            "\r" => " \r",
            other => other,
        };
        let mut chars = line.chars();
        let sign = chars.next();
        let newline = !lines.peek().is_some_and(|next| next.starts_with("\\ "));
        if !newline {
            lines.next();
        }
        let text = Text { line: chars.as_str(), newline };
        let (line, old, new) = match sign {
            Some(' ') => (Line::Keep(text), 1, 1),
            Some('-') => (Line::Remove(text), 1, 0),
            Some('+') => (Line::Add(text), 0, 1),
            _ => {
                let line = excerpt(line);
                return Err(format!("hunk {number} has a line without a sign, \"{line}\""));
            }
        };
        match (old_left.checked_sub(old), new_left.checked_sub(new)) {
            (Some(old), Some(new)) => (old_left, new_left) = (old, new),
            _ => return Err(format!("hunk {number} has other lines than its header says")),
        }
        hunk.lines.push(line);
    }
    Ok(hunk)
}

/// `-start[,count] +start[,count] @@…`: the old start and both counts.
fn ranges(header: &str) -> Option<(usize, usize, usize)> {
    let (ranges, _) = header.split_once(" @@")?;
    let (old, new) = ranges.split_once(' ')?;
    let (start, old_lines) = range(old.strip_prefix('-')?)?;
    let (_, new_lines) = range(new.strip_prefix('+')?)?;
    Some((start, old_lines, new_lines))
}

fn range(text: &str) -> Option<(usize, usize)> {
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((start.parse().ok()?, count.parse().ok()?))
}

/// The name without a time stamp, the mark of its side, and a carriage return.
fn header_name<'a>(name: &'a str, side: &str) -> &'a str {
    let name = name.split('\t').next().unwrap_or(name).trim_end();
    name.strip_prefix(side).unwrap_or(name)
}

/// A line in a message.
fn excerpt(line: &str) -> String {
    const MAX: usize = 60;
    let line = line.trim_end_matches('\n');
    let mut short: String = line.chars().take(MAX).flat_map(char::escape_debug).collect();
    if line.chars().nth(MAX).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;

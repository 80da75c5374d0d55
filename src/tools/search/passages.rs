//! How a document is cut into passages: what is found and cited.
//!
//! Owns the borders: a heading, or so many characters. Pure; knows neither files nor the index.

use super::html;
use crate::invisible;

/// Characters of a passage; it ends at the next line, or within one that is longer.
const MAX_PASSAGE: usize = 1200;
/// Characters of a heading with those above it.
const MAX_HEADING: usize = 160;

/// What kind of text a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Lines.
    Text,
    /// Markdown.
    Markdown,
    /// A page.
    Html,
}

/// A piece of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The headings that it stands under, the outermost first, joined by ` › `.
    pub heading: String,
    /// Where it begins in the document, from 1.
    pub line: usize,
    /// Its text.
    pub body: String,
}

impl Kind {
    /// By the end of a file's name; `None` for what is no document.
    pub fn of(name: &str) -> Option<Kind> {
        let (stem, extension) = name.rsplit_once('.')?;
        if stem.is_empty() {
            return None;
        }
        match extension.to_ascii_lowercase().as_str() {
            "md" | "markdown" | "mdown" => Some(Kind::Markdown),
            "txt" | "text" => Some(Kind::Text),
            "html" | "htm" | "xhtml" => Some(Kind::Html),
            _ => None,
        }
    }
}

/// Gives each passage to `each`, in order. The result is the document's own title, if it has one.
pub fn cut(kind: Kind, text: &str, each: &mut impl FnMut(Passage)) -> Option<String> {
    let mut cutter =
        Cutter { each, headings: Vec::new(), title: None, body: String::new(), chars: 0, line: 1 };
    match kind {
        Kind::Text => {
            for (number, line) in (1..).zip(text.lines()) {
                cutter.text(number, line);
            }
        }
        Kind::Markdown => markdown(text, &mut cutter),
        Kind::Html => html::lines(text, &mut |line| match line.heading {
            Some(0) => cutter.title = Some(clean(&line.text)),
            Some(level) => cutter.heading(level, &line.text),
            None => cutter.text(line.line, &line.text),
        }),
    }
    cutter.end();
    cutter.title
}

fn markdown(text: &str, cutter: &mut Cutter<'_, impl FnMut(Passage)>) {
    let mut fence: Option<&str> = None;
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        let opens = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, opens) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if fence.is_none() {
            let marks = line.bytes().take_while(|b| *b == b'#').count();
            let rest = line.get(marks..).unwrap_or_default();
            if let (Ok(level @ 1..=6), true) = (u8::try_from(marks), rest.starts_with([' ', '\t']))
            {
                cutter.heading(level, rest.trim().trim_end_matches('#').trim_end());
                continue;
            }
            let under =
                lines.peek().map(|(_, next)| next.trim_end()).filter(|next| next.len() >= 3);
            let level = under.and_then(|next| match next.bytes().next() {
                Some(b'=') if next.bytes().all(|b| b == b'=') => Some(1),
                Some(b'-') if next.bytes().all(|b| b == b'-') => Some(2),
                _ => None,
            });
            if let (Some(level), false) = (level, trimmed.is_empty()) {
                cutter.heading(level, trimmed);
                lines.next();
                continue;
            }
        }
        cutter.text(number, line);
    }
}

struct Cutter<'e, E> {
    each: &'e mut E,
    headings: Vec<(u8, String)>,
    title: Option<String>,
    body: String,
    chars: usize,
    line: usize,
}

impl<E: FnMut(Passage)> Cutter<'_, E> {
    fn heading(&mut self, level: u8, text: &str) {
        self.end();
        let text = clean(text);
        if self.title.is_none() && !text.is_empty() {
            self.title = Some(text.clone());
        }
        self.headings.retain(|(above, _)| *above < level);
        self.headings.push((level, text));
    }

    fn text(&mut self, number: usize, line: &str) {
        let line = clean(line);
        let mut rest = line.as_str();
        loop {
            let piece = first_piece(rest);
            if self.chars > 0 && self.chars + piece.chars().count() > MAX_PASSAGE {
                self.end();
            }
            if self.body.trim().is_empty() {
                self.body.clear();
                self.line = number;
            }
            self.body.push_str(piece);
            self.body.push('\n');
            self.chars += piece.chars().count() + 1;
            rest = rest.get(piece.len()..).unwrap_or_default();
            if rest.is_empty() {
                return;
            }
        }
    }

    fn end(&mut self) {
        let body = self.body.trim_end();
        if !body.is_empty() {
            let headings: Vec<&str> = self.headings.iter().map(|(_, text)| text.as_str()).collect();
            let heading = headings.join(" › ").chars().take(MAX_HEADING).collect();
            (self.each)(Passage { heading, line: self.line, body: body.to_owned() });
        }
        self.body.clear();
        self.chars = 0;
    }
}

/// As much of a line as fits in one passage, ended at a space where there is one.
fn first_piece(line: &str) -> &str {
    let Some((end, _)) = line.char_indices().nth(MAX_PASSAGE) else { return line };
    let head = line.get(..end).unwrap_or(line);
    let at = head.rfind(' ').map_or(end, |space| space + 1);
    line.get(..at).unwrap_or(line)
}

/// One line without what nobody sees.
fn clean(line: &str) -> String {
    invisible::visible(line).replace('\n', " ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passages(kind: Kind, text: &str) -> (Option<String>, Vec<(usize, String, String)>) {
        let mut all = Vec::new();
        let title = cut(kind, text, &mut |p| all.push((p.line, p.heading, p.body)));
        (title, all)
    }

    #[test]
    fn markdown_is_cut_at_its_headings() {
        let text = "intro\n\n# Wells\n\nWater.\n\n## Pump\nOil it.\n```sh\n# no heading\n```\n\nOther\n=====\nlast\n";
        let (title, found) = passages(Kind::Markdown, text);
        assert_eq!(title.as_deref(), Some("Wells"));
        let expected = [
            (1, "", "intro"),
            (5, "Wells", "Water."),
            (8, "Wells › Pump", "Oil it.\n```sh\n# no heading\n```"),
            (15, "Other", "last"),
        ]
        .map(|(line, heading, body)| (line, heading.to_owned(), body.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_page_has_its_title_and_headings() {
        let (title, found) =
            passages(Kind::Html, "<title>T</title>\n<h2>A</h2><p>x\n<h2>B</h2>\n<p>y");
        assert_eq!(title.as_deref(), Some("T"));
        let expected =
            [(2, "A", "x"), (4, "B", "y")].map(|(l, h, b)| (l, h.to_owned(), b.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn long_texts_are_cut_at_lines_and_long_lines_at_spaces() {
        let line = "x".repeat(MAX_PASSAGE / 2 - 1);
        let (_, two) = passages(Kind::Text, &format!("{line}\n{line}\n"));
        assert_eq!(two.len(), 1, "what just fits stays together");
        let (_, three) = passages(Kind::Text, &format!("{line}\n{line}y\ny\nz"));
        assert_eq!(three.iter().map(|p| p.0).collect::<Vec<_>>(), [1, 3]);
        let (_, long) = passages(Kind::Text, &"слово ".repeat(1000));
        assert!(long.len() > 4);
        for (line, _, body) in &long {
            assert_eq!(*line, 1);
            assert!(body.starts_with("слово") && body.ends_with("слово"), "{body}");
        }
        let (_, one) = passages(Kind::Text, &"x".repeat(MAX_PASSAGE + 1));
        assert_eq!(one.iter().map(|p| p.2.len()).collect::<Vec<_>>(), [MAX_PASSAGE, 1]);
    }

    #[test]
    fn only_documents_have_a_kind() {
        for (name, kind) in [
            ("a.md", Some(Kind::Markdown)),
            ("a.b.TXT", Some(Kind::Text)),
            ("index.HTM", Some(Kind::Html)),
            ("a.pdf", None),
            ("md", None),
            (".md", None),
            ("a.", None),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_word_is_lost_and_every_passage_is_bounded(words in prop::collection::vec("[a-zа-яїє]{1,12}|#|=====|```|\n", 0..400)) {
            let text = words.join(" ");
            for kind in [Kind::Text, Kind::Markdown, Kind::Html] {
                let mut seen = String::new();
                cut(kind, &text, &mut |p| {
                    seen.push_str(&p.heading);
                    seen.push_str(&p.body);
                    seen.push(' ');
                    assert!(p.body.chars().count() <= 2 * MAX_PASSAGE);
                    assert!(p.line >= 1 && p.line <= text.lines().count().max(1));
                });
                if kind != Kind::Markdown {
                    for word in words.iter().filter(|w| w.chars().all(char::is_alphabetic)) {
                        prop_assert!(seen.contains(word.as_str()), "{} lost", word);
                    }
                }
            }
        }
    }
}

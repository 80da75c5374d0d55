//! Markdown as a model writes it, rendered for a screen that shows only plain text.
//!
//! Owns what becomes of each construct. Every byte costs airtime, so nothing is added that a reader does
//! not need; and what only looks like Markdown (`2*3*4`, `Vec<u8>`) must not lose a character.

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// Lists within lists are set in so far at most.
const MAX_INDENT: usize = 4;

/// Renders it; white space is not yet in order.
pub(super) fn render(source: &str) -> String {
    let mut page = Page { source, ..Page::default() };
    for (event, range) in Parser::new_ext(source, Options::ENABLE_TABLES).into_offset_iter() {
        page.take(event, &range);
    }
    page.out
}

#[derive(Default)]
struct Page<'a> {
    source: &'a str,
    out: String,
    /// The lists that are open: the next number, where they are numbered.
    lists: Vec<Option<u64>>,
    /// The links that are open: their address, and where their text begins.
    links: Vec<(String, usize)>,
    /// For each emphasis that is open, the stars that stay.
    stars: Vec<&'static str>,
    /// A list mark was just written: what follows stays on its line.
    after_mark: bool,
    in_code: bool,
    first_cell: bool,
    html: String,
}

impl Page<'_> {
    fn take(&mut self, event: Event<'_>, range: &Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => self.push(&text),
            Event::Text(text) => self.words(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&text);
            }
            Event::Html(text) => self.html.push_str(&text),
            Event::InlineHtml(tag) => match tag_kind(&tag) {
                TagKind::Break => self.out.push('\n'),
                TagKind::Html => {}
                TagKind::Word => self.push(&tag),
            },
            Event::SoftBreak => self.out.push(' '),
            Event::HardBreak => self.out.push('\n'),
            Event::Rule => self.line(),
            Event::FootnoteReference(_) | Event::TaskListMarker(_) => {} // not enabled
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: &Range<usize>) {
        match tag {
            Tag::Paragraph | Tag::Heading { .. } => {
                self.line();
            }
            Tag::BlockQuote(_) => {
                self.line();
                self.out.push_str("> ");
                self.after_mark = true;
            }
            Tag::CodeBlock(_) => {
                self.line();
                self.in_code = true;
            }
            Tag::HtmlBlock => {
                self.line();
                self.html.clear();
            }
            Tag::List(first) => self.lists.push(first),
            Tag::Item => self.item(range),
            Tag::TableHead | Tag::TableRow => {
                self.line();
                self.first_cell = true;
            }
            Tag::TableCell => {
                if !self.first_cell {
                    self.out.push_str(" | ");
                }
                self.first_cell = false;
            }
            Tag::Emphasis => self.emphasis("*", range),
            Tag::Strong => self.emphasis("**", range),
            Tag::Link { link_type, dest_url, .. } => {
                let plain = matches!(link_type, LinkType::Autolink | LinkType::Email);
                let address = if plain { String::new() } else { dest_url.into_string() };
                self.links.push((address, self.out.len()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::CodeBlock => {
                self.in_code = false;
                self.line();
            }
            TagEnd::HtmlBlock => {
                let text = without_tags(&std::mem::take(&mut self.html));
                self.push(&text);
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.line();
            }
            TagEnd::Item | TagEnd::BlockQuote(_) => {
                self.after_mark = false;
                self.line();
            }
            TagEnd::Emphasis | TagEnd::Strong => {
                let stars = self.stars.pop().unwrap_or_default();
                self.out.push_str(stars);
            }
            TagEnd::Link => self.end_link(),
            _ => {}
        }
    }

    /// The mark of a list item, one space deeper for each list around it.
    fn item(&mut self, range: &Range<usize>) {
        self.line();
        // A model that repeats itself nests without end, and every level would lengthen all lines in it.
        let depth = self.lists.len().saturating_sub(1).min(MAX_INDENT);
        self.out.extend(std::iter::repeat_n(' ', depth));
        match self.lists.last_mut() {
            Some(Some(number)) => {
                let written = self.source.get(range.clone()).unwrap_or_default();
                let bracket = written.trim_start_matches(|c: char| c.is_ascii_digit());
                let stop = if bracket.starts_with(')') { ')' } else { '.' };
                self.out.push_str(&format!("{number}{stop} "));
                *number = number.saturating_add(1);
            }
            _ => self.out.push_str("- "),
        }
        self.after_mark = true;
    }

    /// `2*3*4` and `a**b**c` are arithmetic or a file pattern, not emphasis: with a letter or digit on
    /// both outer sides the stars stay.
    fn emphasis(&mut self, stars: &'static str, range: &Range<usize>) {
        let before = self.source.get(..range.start).and_then(|s| s.chars().next_back());
        let after = self.source.get(range.end..).and_then(|s| s.chars().next());
        let inside = [before, after].iter().all(|c| c.is_some_and(char::is_alphanumeric));
        let starred = self.source.get(range.start..).is_some_and(|s| s.starts_with('*'));
        let kept = if inside && starred { stars } else { "" };
        self.out.push_str(kept);
        self.stars.push(kept);
    }

    /// The host behind a link, unless its text names it: people must see where a link leads.
    fn end_link(&mut self) {
        let Some((address, start)) = self.links.pop() else { return };
        let Some(host) = host(&address) else { return };
        let text = self.out.get(start..).unwrap_or_default();
        if text.trim().is_empty() {
            self.push(host);
        } else if !text.contains(host) {
            self.out.push_str(&format!(" ({host})"));
        }
    }

    fn words(&mut self, text: &str) {
        let mut gap = self.out.ends_with(char::is_whitespace);
        for c in text.chars() {
            let space = matches!(c, ' ' | '\t' | '\n');
            if !(space && gap) {
                self.out.push(if space { ' ' } else { c });
            }
            gap = space;
        }
        self.after_mark = false;
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.after_mark = false;
    }

    /// Begins a new line, except right after a list mark.
    fn line(&mut self) {
        if !self.after_mark && !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }
}

/// `https://user@example.org:8080/x` → `example.org:8080`; `mailto:a@b.c` → `a@b.c`. Others have none.
fn host(address: &str) -> Option<&str> {
    if let Some(mail) = address.strip_prefix("mailto:") {
        return mail.split('?').next().filter(|m| !m.is_empty());
    }
    let (scheme, rest) = address.split_once("://")?;
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    {
        return None;
    }
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?; // what comes before an `@` is made to deceive
    (!host.is_empty()).then_some(host)
}

enum TagKind {
    Break,
    Html,
    /// `<String>` or `<file>`: a word in angle brackets, no HTML.
    Word,
}

/// Elements that models write. A bare word that is not among them stays.
const ELEMENTS: &str = " a abbr address article aside audio b base blockquote body button caption center \
    cite code col colgroup data dd del details dfn dialog div dl dt em embed fieldset figcaption figure \
    font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label legend li link \
    main map mark math meta nav noscript object ol optgroup option output p param picture pre progress q rp rt \
    ruby s samp script section select slot small source span strike strong style sub summary sup svg table \
    tbody td template textarea tfoot th thead time title tr track tt u ul var video wbr ";

fn tag_kind(tag: &str) -> TagKind {
    let inside = tag.trim_start_matches('<').trim_end_matches('>');
    let name = inside.trim_matches('/').trim();
    if name.eq_ignore_ascii_case("br") {
        return TagKind::Break;
    }
    let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let known = ELEMENTS.contains(&format!(" {} ", name.to_ascii_lowercase()));
    if word && !known { TagKind::Word } else { TagKind::Html }
}

/// The text of a block of HTML; of scripts, styles and comments nothing.
fn without_tags(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    // Lowered once, not again for each sign: what is left of it is as long as `rest`.
    let all_lower = html.to_ascii_lowercase();
    while let Some(open) = rest.find('<') {
        let (text, tag) = rest.split_at(open);
        out.push_str(text);
        let lower = all_lower.get(html.len() - tag.len()..).unwrap_or_default();
        let end = if lower.starts_with("<!--") {
            after(lower, "-->")
        } else if lower.starts_with("<script") {
            after(lower, "</script>")
        } else if lower.starts_with("<style") {
            after(lower, "</style>")
        } else if lower[1..].starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)) {
            let end = after(lower, ">");
            match tag_kind(&tag[..end]) {
                TagKind::Break => out.push('\n'),
                TagKind::Word => out.push_str(&tag[..end]),
                TagKind::Html => {}
            }
            end
        } else {
            out.push('<');
            1
        };
        rest = &tag[end..];
    }
    out.push_str(rest);
    let lines: Vec<&str> = out.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let mut text = lines.join("\n");
    for (entity, c) in
        [("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
    {
        text = text.replace(entity, c);
    }
    text
}

/// Where `what` ends in `text`; the whole length when it never comes.
fn after(text: &str, what: &str) -> usize {
    text.find(what).map_or(text.len(), |at| at + what.len())
}

//! The text of a page of HTML.
//!
//! Owns which characters of a page are read: not its scripts, its styles and its tags. Tolerant: a broken
//! page gives what can be read of it. Loads nothing that a page refers to.

/// One line of text of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtmlLine {
    /// Where it begins in the source, from 1.
    pub line: usize,
    /// 1 to 6 for a heading, 0 for the page's title.
    pub heading: Option<u8>,
    /// Without tags, one space at a time.
    pub text: String,
}

/// Characters of a line; a longer one goes on in the next.
const MAX_LINE: usize = 4000;
/// Characters of the name of a tag or an entity.
const MAX_WORD: usize = 32;

/// Elements whose content is no text for readers.
const SKIPPED: [&str; 6] = ["script", "style", "noscript", "template", "svg", "iframe"];
/// Elements that stand within a line.
const INLINE: [&str; 26] = [
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins",
    "kbd", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "u", "var",
];
/// The entities that documents use most; numbers are read as well.
const ENTITIES: [(&str, char); 28] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("mdash", '—'),
    ("ndash", '–'),
    ("hellip", '…'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("deg", '°'),
    ("copy", '©'),
    ("times", '×'),
    ("euro", '€'),
    ("micro", 'µ'),
    ("auml", 'ä'),
    ("ouml", 'ö'),
    ("uuml", 'ü'),
    ("szlig", 'ß'),
    ("eacute", 'é'),
    ("egrave", 'è'),
    ("agrave", 'à'),
    ("ccedil", 'ç'),
];

/// Gives each line of text to `each`, in order.
pub fn lines(source: &str, each: &mut impl FnMut(HtmlLine)) {
    let mut reader = Reader { rest: source, line: 1, out: Out::default() };
    while let Some(c) = reader.rest.chars().next() {
        match c {
            '<' => reader.tag(each),
            '&' => reader.entity(each),
            c => {
                reader.advance(c.len_utf8());
                let keep = reader.out.preformatted && c == '\n';
                if keep { reader.out.end(each) } else { reader.out.push(c, reader.line, each) }
            }
        }
    }
    reader.out.end(each);
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    out: Out,
}

/// The line that is being gathered.
#[derive(Default)]
struct Out {
    text: String,
    chars: usize,
    line: usize,
    heading: Option<u8>,
    preformatted: bool,
}

impl Out {
    fn push(&mut self, c: char, line: usize, each: &mut impl FnMut(HtmlLine)) {
        if c.is_whitespace() {
            if !self.text.is_empty() && !self.text.ends_with(' ') {
                self.text.push(' ');
                self.chars += 1;
            }
        } else {
            if self.text.is_empty() {
                self.line = line;
            }
            self.text.push(c);
            self.chars += 1;
        }
        if self.chars >= MAX_LINE && c.is_whitespace() || self.chars >= 2 * MAX_LINE {
            self.end(each);
        }
    }

    fn end(&mut self, each: &mut impl FnMut(HtmlLine)) {
        let text = self.text.trim_end();
        if !text.is_empty() {
            each(HtmlLine { line: self.line, heading: self.heading, text: text.to_owned() });
        }
        self.text.clear();
        self.chars = 0;
    }
}

impl Reader<'_> {
    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.line += passed.bytes().filter(|b| *b == b'\n').count();
        self.rest = rest;
    }

    /// At a `<`.
    fn tag(&mut self, each: &mut impl FnMut(HtmlLine)) {
        if let Some(comment) = self.rest.strip_prefix("<!--") {
            let end = comment.find("-->").map_or(self.rest.len(), |at| at + "<!---->".len());
            return self.advance(end);
        }
        let inside = self.rest.get(1..).unwrap_or_default();
        let closes = inside.starts_with('/');
        let name: String = inside
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .take(MAX_WORD)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        if name.is_empty() && !inside.starts_with(['!', '?']) {
            // A lone `<`, as in `a < b`.
            self.advance(1);
            return self.out.push('<', self.line, each);
        }
        let end = tag_end(self.rest);
        self.advance(end);
        if !closes && SKIPPED.contains(&name.as_str()) {
            return self.skip(&name);
        }
        if INLINE.contains(&name.as_str()) {
            return;
        }
        if matches!(name.as_str(), "td" | "th") {
            return self.out.push(' ', self.line, each);
        }
        self.out.end(each);
        let level = name.strip_prefix('h').and_then(|level| level.parse::<u8>().ok());
        self.out.heading = match (name.as_str(), level) {
            ("title", _) if !closes => Some(0),
            (_, Some(level @ 1..=6)) if !closes => Some(level),
            _ => None,
        };
        match name.as_str() {
            "pre" | "textarea" => self.out.preformatted = !closes,
            "li" if !closes => {
                for c in "- ".chars() {
                    self.out.push(c, self.line, each);
                }
            }
            _ => {}
        }
    }

    /// Past the end of an element that is not read.
    fn skip(&mut self, name: &str) {
        let mut from = 0;
        while let Some(at) = self.rest.get(from..).and_then(|rest| rest.find("</")) {
            let begin = from + at;
            let after = self.rest.get(begin + 2..).unwrap_or_default();
            if after.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name)) {
                let end = begin + tag_end(self.rest.get(begin..).unwrap_or_default());
                return self.advance(end);
            }
            from = begin + 2;
        }
        self.advance(self.rest.len());
    }

    /// At a `&`.
    fn entity(&mut self, each: &mut impl FnMut(HtmlLine)) {
        let after = self.rest.get(1..).unwrap_or_default();
        let word: String = after
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '#')
            .take(MAX_WORD)
            .collect();
        let ended = after.get(word.len()..).is_some_and(|rest| rest.starts_with(';'));
        let found = if let Some(number) = word.strip_prefix('#') {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => number.parse().ok(),
            };
            code.and_then(char::from_u32)
        } else {
            ENTITIES.iter().find(|(name, _)| *name == word).map(|(_, c)| *c)
        };
        match found {
            Some(c) if ended => {
                self.advance(1 + word.len() + 1);
                self.out.push(c, self.line, each);
            }
            _ => {
                self.advance(1);
                self.out.push('&', self.line, each);
            }
        }
    }
}

/// Bytes of a tag, its quotes read; all of the rest where it has no end.
fn tag_end(tag: &str) -> usize {
    let mut quote = None;
    for (at, c) in tag.char_indices() {
        match (quote, c) {
            (None, '>') => return at + 1,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    // A quote that is never closed: up to the first end.
    tag.find('>').map_or(tag.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(source: &str) -> Vec<(usize, Option<u8>, String)> {
        let mut all = Vec::new();
        lines(source, &mut |line| all.push((line.line, line.heading, line.text)));
        all
    }

    #[test]
    fn text_is_read_and_everything_else_is_not() {
        let page = "<!DOCTYPE html>\n<html><head><title>Wells &amp; pumps</title>\n\
                    <style>p { color: red }</style><script>if (a < b) { x(\"</p>\") }</script></head>\n\
                    <body><h1 class=\"a>b\">The <em>pump</em></h1><p>First&nbsp;line,\n still the same.</p>\
                    <!-- <p>hidden</p> -->\n<ul><li>one<li>two &#1111;&#x44F;</ul>\n\
                    <pre>a\nb</pre><table><tr><td>1</td><td>2</td></tr></table>3 < 4 &unknown; R&D</body></html>";
        let text: Vec<(Option<u8>, String)> =
            read(page).into_iter().map(|(_, heading, text)| (heading, text)).collect();
        let expected = [
            (Some(0), "Wells & pumps"),
            (Some(1), "The pump"),
            (None, "First line, still the same."),
            (None, "- one"),
            (None, "- two їя"),
            (None, "a"),
            (None, "b"),
            (None, "1 2"),
            (None, "3 < 4 &unknown; R&D"),
        ]
        .map(|(heading, text)| (heading, text.to_owned()));
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_know_where_they_begin() {
        let found = read("<p>a</p>\n\n<div>\n\n  b\n c</div>\n<script>\n\n</script><p>d");
        let places: Vec<(usize, &str)> =
            found.iter().map(|(line, _, text)| (*line, text.as_str())).collect();
        assert_eq!(places, [(1, "a"), (5, "b c"), (9, "d")]);
    }

    #[test]
    fn a_page_without_ends_is_bounded() {
        let long = read(&"wörd ".repeat(5000));
        assert!(long.len() > 2 && long.iter().all(|line| line.2.chars().count() <= 2 * MAX_LINE));
        let unbroken = read(&"x".repeat(20_000));
        let all: usize = unbroken.iter().map(|line| line.2.len()).sum();
        assert_eq!((all, unbroken.len()), (20_000, 3));
        for open in
            ["<script>x", "<!-- x", "<p title=\"x", "&", "&#", "&#xffffffff;", "<", "</", "<é"]
        {
            read(open);
        }
    }

    proptest! {
        #[test]
        fn no_page_breaks_the_reader(page in "(\\PC|[<>&;/!\"'#\\n-]|<[a-z1-6/]{0,8}|script>){0,120}") {
            for (line, _, text) in read(&page) {
                prop_assert!(line >= 1 && line <= page.matches('\n').count() + 1);
                prop_assert!(!text.is_empty() && text.trim_end() == text);
            }
        }
    }
}

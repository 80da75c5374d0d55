//! An answer's Markdown as HTML that is safe to insert into a page.
//!
//! Owns the allowlist: only the tags written in this file can come out, with no attribute but a list's
//! `start`, a link's fixed `class` and the web address that it would lead to, as data. Raw HTML comes out as text, an
//! image as its description, a link as its text and the host that it names, without an address to click. Loads and
//! fetches nothing.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::invisible;

/// Elements within elements, at most; deeper ones come out as their text.
const MAX_DEPTH: usize = 24;
/// A longer answer is cut before it is rendered.
const MAX_BYTES: usize = 64 * 1024;
/// An address that is longer is not for people to judge, and is left out.
const MAX_ADDRESS_CHARS: usize = 2000;

/// Renders.
pub fn to_html(markdown: &str) -> String {
    let mut end = markdown.len().min(MAX_BYTES);
    while !markdown.is_char_boundary(end) {
        end -= 1;
    }
    let markdown = markdown.get(..end).unwrap_or_default();
    let mut page = Page::default();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        page.take(event);
    }
    page.out
}

#[derive(Default)]
struct Page {
    out: String,
    /// For each open element of the parser: what closes it here.
    open: Vec<Closing>,
    /// Elements written and not yet closed.
    depth: usize,
    in_table_head: bool,
}

enum Closing {
    /// An end tag.
    Tag(&'static str),
    /// The host of a link, then its end.
    Link(String),
    /// Nothing was opened.
    Nothing,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.text(&text);
                self.out.push_str("</code>");
            }
            // Models break lines where they mean it.
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            // Not switched on above; as text if ever they are.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text);
            }
            Event::TaskListMarker(done) => self.out.push_str(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let closing = match tag {
            // Raw HTML is a paragraph that shows it.
            Tag::Paragraph | Tag::HtmlBlock => self.element("<p>", "</p>"),
            // A page has headings of its own above these.
            Tag::Heading { level, .. } => match level {
                HeadingLevel::H1 => self.element("<h3>", "</h3>"),
                HeadingLevel::H2 => self.element("<h4>", "</h4>"),
                HeadingLevel::H3 => self.element("<h5>", "</h5>"),
                _ => self.element("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => self.element("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => {
                self.element("<pre><code>", "</code></pre>")
            }
            Tag::List(None) => self.element("<ul>", "</ul>"),
            Tag::List(Some(1)) => self.element("<ol>", "</ol>"),
            Tag::List(Some(first)) => {
                self.element(&format!("<ol start=\"{}\">", first.min(999_999_999)), "</ol>")
            }
            Tag::Item => self.element("<li>", "</li>"),
            Tag::Table(_) => self.element("<table>", "</tbody></table>"),
            Tag::TableHead => {
                self.in_table_head = true;
                self.element("<thead><tr>", "</tr></thead><tbody>")
            }
            Tag::TableRow => self.element("<tr>", "</tr>"),
            Tag::TableCell if self.in_table_head => self.element("<th>", "</th>"),
            Tag::TableCell => self.element("<td>", "</td>"),
            Tag::Emphasis => self.element("<em>", "</em>"),
            Tag::Strong => self.element("<strong>", "</strong>"),
            Tag::Strikethrough => self.element("<del>", "</del>"),
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            // The description of an image is the text inside it.
            Tag::Image { .. }
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => Closing::Nothing,
        };
        self.open.push(closing);
    }

    fn end(&mut self, end: TagEnd) {
        if end == TagEnd::TableHead {
            self.in_table_head = false;
        }
        match self.open.pop() {
            Some(Closing::Tag(tag)) => {
                self.out.push_str(tag);
                self.depth -= 1;
            }
            Some(Closing::Link(host)) => {
                if !host.is_empty() {
                    self.out.push_str(" (");
                    self.text(&host);
                    self.out.push(')');
                }
                self.out.push_str("</span>");
                self.depth -= 1;
            }
            Some(Closing::Nothing) | None => {}
        }
    }

    /// A web address is given along as data: the page shows it whole when asked, and never follows it.
    fn link(&mut self, address: &str) -> Closing {
        if self.depth >= MAX_DEPTH {
            return Closing::Nothing;
        }
        self.depth += 1;
        self.out.push_str("<span class=\"link\"");
        if is_web(address) && address.chars().count() <= MAX_ADDRESS_CHARS {
            self.out.push_str(" data-address=\"");
            self.text(&invisible::word(address, MAX_ADDRESS_CHARS));
            self.out.push('"');
        }
        self.out.push('>');
        Closing::Link(host(address))
    }

    fn element(&mut self, start: &str, end: &'static str) -> Closing {
        if self.depth >= MAX_DEPTH {
            return Closing::Nothing;
        }
        self.depth += 1;
        self.out.push_str(start);
        Closing::Tag(end)
    }

    fn text(&mut self, text: &str) {
        for c in invisible::legible(text).chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                '\'' => self.out.push_str("&#39;"),
                c => self.out.push(c),
            }
        }
    }
}

fn is_web(address: &str) -> bool {
    address.split_once("://").is_some_and(|(scheme, _)| {
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    })
}

/// What a link names, for people to judge: scheme and host of a web address, else the address itself,
/// shortened. What stands before an `@` is not the host.
fn host(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let shown = if scheme.is_empty() {
        rest
    } else {
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        authority.rsplit('@').next().unwrap_or_default()
    };
    let prefix = if matches!(scheme, "" | "http" | "https") { "" } else { "other scheme: " };
    format!("{prefix}{}", shown.chars().take(80).collect::<String>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_an_answer_uses_is_rendered() {
        for (markdown, html) in [
            (
                "a *b* **c** ~~d~~ `e`",
                "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>",
            ),
            ("# One\n\ntwo", "<h3>One</h3><p>two</p>"),
            ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
            ("3. a\n4. b", "<ol start=\"3\"><li>a</li><li>b</li></ol>"),
            ("```sh\ndf -h <x>\n```", "<pre><code>df -h &lt;x&gt;\n</code></pre>"),
            ("> q", "<blockquote><p>q</p></blockquote>"),
            (
                "|a|b|\n|-|-|\n|1|2|",
                "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>",
            ),
            ("a\\\nb\nc", "<p>a<br>b<br>c</p>"),
            ("---", "<hr>"),
        ] {
            assert_eq!(to_html(markdown), html, "{markdown}");
        }
    }

    #[test]
    fn html_images_and_links_are_harmless() {
        for (markdown, html) in [
            ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
            ("a <b onclick='x'>b</b>", "<p>a &lt;b onclick=&#39;x&#39;&gt;b&lt;/b&gt;</p>"),
            ("![alt](https://evil.example/x.png)", "<p>alt</p>"),
            (
                "[bank](https://bank.example@evil.example/login?x=1)",
                "<p><span class=\"link\" data-address=\"https://bank.example@evil.example/login?x=1\">bank \
                 (evil.example)</span></p>",
            ),
            (
                "[x](javascript:alert(1))",
                "<p><span class=\"link\">x (javascript:alert(1))</span></p>",
            ),
            (
                "[x](ftp://h.example/f)",
                "<p><span class=\"link\">x (other scheme: h.example)</span></p>",
            ),
            ("[x](\"><img>)", "<p><span class=\"link\">x (&quot;&gt;&lt;img&gt;)</span></p>"),
            (
                "<https://h.example/a\"b>",
                "<p><span class=\"link\" data-address=\"https://h.example/a&quot;b\">https://h.example/a&quot;b \
                 (h.example)</span></p>",
            ),
            ("```\"><img src=x>\na\n```", "<pre><code>a\n</code></pre>"),
            ("a\u{202e}b\u{200b}c\u{0007}d\u{e0041}e", "<p>abcde</p>"),
            ("👩\u{200d}🚀", "<p>👩\u{200d}🚀</p>"),
            // Not seen, and in no emoji: a soft hyphen, a filler, a run of variation selectors and of tags.
            (
                "a\u{ad}b\u{3164}c\u{fe00}\u{fe01}d\u{200d}\u{200c}e\u{180e}f\u{e0100}g\u{1d173}h",
                "<p>abcdefgh</p>",
            ),
            ("می\u{200c}خواهم", "<p>می\u{200c}خواهم</p>"),
            ("`a\u{2028}b`\t&#x202e;c&#8203;d", "<p><code>a\nb</code>\tcd</p>"),
            (
                "[x](https://h.example/\u{202e}a\u{2028}b)",
                "<p><span class=\"link\" data-address=\"https://h.example/ab\">x (h.example)</span></p>",
            ),
        ] {
            assert_eq!(to_html(markdown), html, "{markdown}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = to_html(&format!("{} x", ">".repeat(5000)));
        assert_eq!(deep.matches("<blockquote>").count(), MAX_DEPTH);
        assert!(is_well_formed(&deep) && deep.contains('x'));
        let long = to_html(&"ä".repeat(MAX_BYTES));
        assert_eq!(long.chars().filter(|c| *c == 'ä').count(), MAX_BYTES / 2);
    }

    const TAGS: [&str; 22] = [
        "p",
        "h3",
        "h4",
        "h5",
        "h6",
        "blockquote",
        "pre",
        "code",
        "ul",
        "ol",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "em",
        "strong",
        "del",
        "span",
        "br",
    ];

    /// Every `<` opens an allowed tag without foreign attributes, and every tag is closed in its order.
    fn is_well_formed(html: &str) -> bool {
        let mut open = Vec::new();
        let mut rest = html;
        while let Some(at) = rest.find('<') {
            let Some(end) = rest[at..].find('>') else { return false };
            let tag = &rest[at + 1..at + end];
            rest = &rest[at + end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                if open.pop() != Some(name.to_owned()) {
                    return false;
                }
                continue;
            }
            let (name, attribute) = tag.split_once(' ').unwrap_or((tag, ""));
            let number = attribute.strip_prefix("start=\"").and_then(|n| n.strip_suffix('"'));
            let allowed = match name {
                "hr" | "br" => {
                    if attribute.is_empty() {
                        continue;
                    }
                    false
                }
                "span" => {
                    let address = attribute.strip_prefix("class=\"link\" data-address=\"");
                    attribute == "class=\"link\""
                        || address
                            .and_then(|a| a.strip_suffix('"'))
                            .is_some_and(|a| is_web(a) && !a.contains(['"', '\'']))
                }
                "ol" => attribute.is_empty() || number.is_some_and(|n| n.parse::<u64>().is_ok()),
                _ => attribute.is_empty() && TAGS.contains(&name),
            };
            if !allowed {
                return false;
            }
            open.push(name.to_owned());
        }
        open.is_empty() && !rest.contains('>')
    }

    #[test]
    fn the_judge_of_the_next_test_can_say_no() {
        for wrong in [
            "<span class=\"link\" data-address=\"javascript:x\"></span>",
            "<span class=\"link\" data-address=\"http://a\" onclick=\"x\"></span>",
            "<b>x</b>",
            "<p>",
            "<p><em></p></em>",
            "<p class=\"x\"></p>",
            "a > b",
            "<p",
        ] {
            assert!(!is_well_formed(wrong), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn nothing_but_the_allowlist_comes_out(
            pieces in prop::collection::vec(
                prop_oneof![
                    Just("<script>".to_owned()), Just("](".to_owned()), Just("![".to_owned()),
                    Just("\n\n".to_owned()), Just("|a|b|\n|-|-|\n".to_owned()), Just("```".to_owned()),
                    Just("> ".to_owned()), Just("- ".to_owned()), Just("1. ".to_owned()),
                    Just("**".to_owned()), Just("&lt;".to_owned()), Just("<a href=\"".to_owned()),
                    Just("[x]: https://e.example \"t\"\n".to_owned()), Just("\t".to_owned()), any::<String>(),
                ],
                0..40,
            )
        ) {
            let html = to_html(&pieces.concat());
            prop_assert!(is_well_formed(&html), "{html}");
        }
    }
}

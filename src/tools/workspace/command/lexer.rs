//! Words and operators of a command line.
//!
//! Owns quoting. Every character that a shell would act on is either one of the operators here, or
//! refused, or quoted and thus text.

use super::{CommandError, Redirection, Stream, When};

/// A piece of a command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Token {
    /// With its quotes taken off.
    Word(Word),
    /// `|`
    Pipe,
    /// `;`, `&&`, `||`
    Then(When),
    /// The end of a line.
    Newline,
    /// The file is the next word.
    Redirect(Redirect),
}

/// A word.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// What the program gets.
    pub text: String,
    /// The variable that a shell would set, were this the first word.
    pub assigns: Option<String>,
}

/// A redirection, before its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirect {
    /// To or from the word after it.
    File(Kind),
    /// That stream goes where the other goes.
    Same(Stream),
}

/// The direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `<`
    Input,
    /// `>` or `>>`
    Output(Stream, bool),
}

impl Kind {
    /// With the file's name.
    pub fn with(self, path: String) -> Redirection {
        match self {
            Kind::Input => Redirection::Input(path),
            Kind::Output(stream, append) => Redirection::Output { stream, path, append },
        }
    }
}

/// A word being read.
#[derive(Default)]
struct Draft {
    text: String,
    /// There is a word, be it empty: `''`.
    started: bool,
    /// Something of it was quoted.
    quoted: bool,
    /// Bytes before an unquoted `=`, all of them unquoted letters: a variable's name.
    assigns: Option<String>,
    open_bracket: bool,
    /// Where an unquoted `{` was.
    open_brace: Option<usize>,
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Splits a command line.
pub fn tokens(text: &str) -> Result<Vec<Token>, CommandError> {
    let mut chars = text.chars().peekable();
    let mut tokens = Vec::new();
    let mut word = Draft::default();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' => word.end(&mut tokens),
            // A carriage return is the end of a line that was written elsewhere.
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => {
                word.end(&mut tokens);
                tokens.push(Token::Newline);
            }
            '\'' => single(&mut chars, &mut word)?,
            '"' => double(&mut chars, &mut word)?,
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(char) => word.push_quoted(char),
                None => return Err(CommandError::Backslash),
            },
            '|' => {
                word.end(&mut tokens);
                tokens.push(match chars.next_if_eq(&'|') {
                    Some(_) => Token::Then(When::Failed),
                    None if chars.peek() == Some(&'&') => {
                        return Err(CommandError::Redirection("|&".to_owned()));
                    }
                    None => Token::Pipe,
                });
            }
            '&' => {
                word.end(&mut tokens);
                tokens.push(match chars.next() {
                    Some('&') => Token::Then(When::Succeeded),
                    Some('>') => return Err(CommandError::Redirection("&>".to_owned())),
                    _ => return Err(CommandError::Background),
                });
            }
            ';' => {
                word.end(&mut tokens);
                tokens.push(Token::Then(When::Always));
            }
            '<' | '>' => {
                let number = word.take_number(&mut tokens);
                tokens.push(Token::Redirect(redirect(char, number.as_deref(), &mut chars)?));
            }
            '(' | ')' => return Err(CommandError::Subshell),
            '`' => return Err(CommandError::Substitution),
            '$' if expands(chars.peek().copied(), true) => return Err(CommandError::Variable),
            '#' if !word.started => return Err(CommandError::Comment),
            '~' if !word.started => return Err(CommandError::Tilde),
            '*' | '?' => return Err(CommandError::Wildcard(char)),
            other => word.push(other)?,
        }
    }
    word.end(&mut tokens);
    Ok(tokens)
}

/// Whether a shell would expand a `$` before that character. A lone one is text, as in `grep 'x$'`.
fn expands(next: Option<char>, unquoted: bool) -> bool {
    next.is_some_and(|next| {
        next.is_ascii_alphanumeric()
            || "_({?!#@*$-[".contains(next)
            || (unquoted && (next == '\'' || next == '"'))
    })
}

fn single(chars: &mut Chars<'_>, word: &mut Draft) -> Result<(), CommandError> {
    word.quote();
    for char in chars.by_ref() {
        match char {
            '\'' => return Ok(()),
            char => word.push_quoted(char),
        }
    }
    Err(CommandError::Unclosed('\''))
}

fn double(chars: &mut Chars<'_>, word: &mut Draft) -> Result<(), CommandError> {
    word.quote();
    while let Some(char) = chars.next() {
        match char {
            '"' => return Ok(()),
            '`' => return Err(CommandError::Substitution),
            '$' if expands(chars.peek().copied(), false) => return Err(CommandError::Variable),
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(char @ ('"' | '\\' | '$' | '`')) => word.push_quoted(char),
                // Before any other character it is text.
                Some(char) => {
                    word.push_quoted('\\');
                    word.push_quoted(char);
                }
                None => break,
            },
            char => word.push_quoted(char),
        }
    }
    Err(CommandError::Unclosed('"'))
}

fn redirect(
    char: char,
    number: Option<&str>,
    chars: &mut Chars<'_>,
) -> Result<Redirect, CommandError> {
    let unsupported = |tail: &str| {
        let number = number.unwrap_or_default();
        Err(CommandError::Redirection(format!("{number}{char}{tail}")))
    };
    if char == '<' {
        return match (chars.peek(), number) {
            (Some('<'), _) => Err(CommandError::HereDocument),
            (Some('('), _) => Err(CommandError::Substitution),
            (Some(next @ ('>' | '&')), _) => unsupported(&next.to_string()),
            (_, None | Some("0")) => Ok(Redirect::File(Kind::Input)),
            _ => unsupported(""),
        };
    }
    let stream = match number {
        None | Some("1") => Stream::Output,
        Some("2") => Stream::Error,
        Some(_) => return unsupported(""),
    };
    match chars.peek() {
        Some('>') => {
            chars.next();
            Ok(Redirect::File(Kind::Output(stream, true)))
        }
        Some('(') => Err(CommandError::Substitution),
        Some('|') => unsupported("|"),
        Some('&') => {
            chars.next();
            let target = chars.next();
            // What follows must end the word: `2>&12` is another file descriptor.
            let ends = chars.peek().is_none_or(|next| " \t\r\n|&;<>()".contains(*next));
            match (stream, target) {
                (Stream::Error, Some('1')) | (Stream::Output, Some('2')) if ends => {
                    Ok(Redirect::Same(stream))
                }
                (_, target) => {
                    unsupported(&format!("&{}", target.map_or(String::new(), String::from)))
                }
            }
        }
        _ => Ok(Redirect::File(Kind::Output(stream, false))),
    }
}

impl Draft {
    /// An unquoted character that is no operator.
    fn push(&mut self, char: char) -> Result<(), CommandError> {
        match char {
            '[' => self.open_bracket = true,
            ']' if self.open_bracket => return Err(CommandError::Wildcard('[')),
            '{' => self.open_brace = Some(self.text.len()),
            '}' => {
                let inside = self.open_brace.and_then(|at| self.text.get(at..)).unwrap_or_default();
                if inside.contains(',') || inside.contains("..") {
                    return Err(CommandError::Wildcard('{'));
                }
            }
            '=' if self.assigns.is_none() && !self.quoted && is_variable(&self.text) => {
                self.assigns = Some(self.text.clone());
            }
            _ => {}
        }
        self.started = true;
        self.text.push(char);
        Ok(())
    }

    fn push_quoted(&mut self, char: char) {
        self.quote();
        self.text.push(char);
    }

    fn quote(&mut self) {
        self.started = true;
        self.quoted = true;
    }

    /// Ends the word, if there is one.
    fn end(&mut self, tokens: &mut Vec<Token>) {
        let word = std::mem::take(self);
        if word.started {
            tokens.push(Token::Word(Word { text: word.text, assigns: word.assigns }));
        }
    }

    /// The number right before a redirection; any other word is one for itself.
    fn take_number(&mut self, tokens: &mut Vec<Token>) -> Option<String> {
        let is_number = !self.quoted
            && !self.text.is_empty()
            && self.text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            return Some(std::mem::take(self).text);
        }
        self.end(tokens);
        None
    }
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

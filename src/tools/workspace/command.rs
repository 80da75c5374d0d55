//! A command line as a shell would read it, less everything that a shell does by itself.
//!
//! Owns the grammar: words and quotes, pipes, `&&`, `||`, `;`, and redirections to files. Whatever
//! would be expanded, substituted or left running is refused with its reason, not passed on as text.
//! Runs nothing and knows no files.

mod lexer;

use lexer::{Token, tokens};

/// Bytes of a command line.
const MAX_COMMAND: usize = 8192;
/// Programs in one command line.
const MAX_PROGRAMS: usize = 16;

/// What runs, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// At least one.
    pub steps: Vec<Step>,
}

/// Programs joined by pipes, and when they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// What the step before has to do with it.
    pub when: When,
    /// At least one; each one's output is the next one's input.
    pub programs: Vec<Program>,
}

/// Whether a step runs, after the last that did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// The first, or after `;`.
    Always,
    /// After `&&`.
    Succeeded,
    /// After `||`.
    Failed,
}

/// One program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// As it was written.
    pub name: String,
    /// Without the name.
    pub arguments: Vec<String>,
    /// In order.
    pub redirections: Vec<Redirection>,
}

/// Where a stream goes instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirection {
    /// `<`
    Input(String),
    /// `>`, `>>`
    Output {
        /// Which.
        stream: Stream,
        /// The file.
        path: String,
        /// To its end.
        append: bool,
    },
    /// `2>&1`, `1>&2`: the stream goes where the other goes now.
    Same(Stream),
}

/// A program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// 1
    Output,
    /// 2
    Error,
}

/// Why a command line is not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommandError {
    #[error("the command is empty")]
    Empty,
    #[error("the command is longer than {MAX_COMMAND} bytes")]
    TooLong,
    #[error("more than {MAX_PROGRAMS} programs in one command")]
    TooManyPrograms,
    #[error("there is a NUL in the command")]
    Nul,
    #[error("a quote {0} is not closed")]
    Unclosed(char),
    #[error("there is nothing after the \\ at the end")]
    Backslash,
    #[error("variables and substitutions ($…) are not expanded; quote it with '…' if it is text")]
    Variable,
    #[error("substitutions (`…`, <(…)) are not run; quote it with '…' if it is text")]
    Substitution,
    #[error("{0} is a wildcard, and none is expanded; quote it with '…' if it is text")]
    Wildcard(char),
    #[error("~ is not expanded; paths are written from the workspace's root")]
    Tilde,
    #[error("programs can't be left in the background (&)")]
    Background,
    #[error("groups and subshells (parentheses) are not run; quote it with '…' if it is text")]
    Subshell,
    #[error("comments (#) are not taken; quote it with '…' if it is text")]
    Comment,
    #[error("here documents (<<) are not taken")]
    HereDocument,
    #[error("{0} is no redirection that is supported; < > >> 2> 2>> and 2>&1 are")]
    Redirection(String),
    #[error("there is no program {0}")]
    NoProgram(&'static str),
    #[error("a redirection needs the name of a file after it")]
    NoTarget,
    #[error("{0} is a part of a shell, and there is none; name a program")]
    ShellWord(String),
    #[error("cd does not last: every command runs in the workspace's root; write paths from there")]
    ChangeFolder,
    #[error("variables ({0}=…) are not set for a program")]
    Assignment(String),
}

/// Words that a shell runs by itself or that steer it.
const SHELL_WORDS: [&str; 50] = [
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "for", "while", "until", "do",
    "done", "case", "esac", "select", "function", "in", "coproc", ".", "source", "eval", "exec",
    "export", "alias", "unalias", "set", "unset", "shift", "read", "readonly", "local", "declare",
    "typeset", "let", "trap", "wait", "jobs", "fg", "bg", "builtin", "command", "type", "umask",
    "ulimit", "exit", "return", "hash",
];

/// Reads a command line.
pub(super) fn parse(text: &str) -> Result<CommandLine, CommandError> {
    if text.len() > MAX_COMMAND {
        return Err(CommandError::TooLong);
    }
    if text.contains('\0') {
        return Err(CommandError::Nul);
    }
    let mut steps = Vec::new();
    let mut step = Step { when: When::Always, programs: Vec::new() };
    let mut program = Draft::default();
    let mut count = 0;
    let mut tokens = tokens(text)?.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            Token::Word(word) => program.words.push(word),
            Token::Redirect(redirect) => {
                let redirection = match redirect {
                    lexer::Redirect::Same(stream) => Redirection::Same(stream),
                    lexer::Redirect::File(kind) => match tokens.next() {
                        Some(Token::Word(path)) if !path.text.is_empty() => kind.with(path.text),
                        _ => return Err(CommandError::NoTarget),
                    },
                };
                program.redirections.push(redirection);
            }
            Token::Pipe => {
                step.programs.push(program.finish("before |", &mut count)?);
                program = Draft::default();
            }
            Token::Newline if program.is_empty() && step.programs.is_empty() => {
                // An empty line; or a line that ends in && and goes on with the next.
            }
            Token::Newline if program.is_empty() => {} // a line that ends in |
            Token::Then(_) | Token::Newline => {
                let (place, when) = match token {
                    Token::Then(when @ When::Succeeded) => ("before &&", when),
                    Token::Then(when @ When::Failed) => ("before ||", when),
                    _ => ("before ;", When::Always),
                };
                step.programs.push(program.finish(place, &mut count)?);
                program = Draft::default();
                steps.push(std::mem::replace(&mut step, Step { when, programs: Vec::new() }));
            }
        }
    }
    let is_nothing = program.is_empty() && step.programs.is_empty();
    // A `;` or a line's end may be the last thing; `&&` may not.
    if !(is_nothing && step.when == When::Always && !steps.is_empty()) {
        if is_nothing && steps.is_empty() {
            return Err(CommandError::Empty);
        }
        step.programs.push(program.finish("at the end", &mut count)?);
        steps.push(step);
    }
    Ok(CommandLine { steps })
}

/// A program being read.
#[derive(Default)]
struct Draft {
    words: Vec<lexer::Word>,
    redirections: Vec<Redirection>,
}

impl Draft {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.redirections.is_empty()
    }

    fn finish(self, place: &'static str, count: &mut usize) -> Result<Program, CommandError> {
        let mut words = self.words.into_iter();
        let Some(name) = words.next() else {
            return Err(CommandError::NoProgram(place));
        };
        *count += 1;
        if *count > MAX_PROGRAMS {
            return Err(CommandError::TooManyPrograms);
        }
        if let Some(variable) = name.assigns {
            return Err(CommandError::Assignment(variable));
        }
        let name = name.text;
        if ["cd", "pushd", "popd"].contains(&name.as_str()) {
            return Err(CommandError::ChangeFolder);
        }
        if name.is_empty() || SHELL_WORDS.contains(&name.as_str()) {
            return Err(CommandError::ShellWord(format!("\"{name}\"")));
        }
        let arguments = words.map(|word| word.text).collect();
        Ok(Program { name, arguments, redirections: self.redirections })
    }
}

#[cfg(test)]
mod tests;

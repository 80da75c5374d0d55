//! The question of a command that asks a model: from the command line, and from a pipe.
//!
//! Owns the limits of the pipe. Reads no file.

use std::io::{IsTerminal, Read};

use anyhow::{Context, Result, bail};

/// Bytes that are taken from a pipe.
const MAX_PIPE: u64 = 256 * 1024;

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// From the command line; may be empty.
    pub typed: String,
    /// From standard input; may be empty.
    pub piped: String,
}

impl Question {
    /// The words of the command line; standard input is read to its end unless it is a terminal.
    pub fn read(words: &[String]) -> Result<Question> {
        let stdin = std::io::stdin();
        let piped = if stdin.is_terminal() { String::new() } else { piped(stdin.lock())? };
        let piped = if piped.trim().is_empty() { String::new() } else { piped };
        Ok(Question { typed: words.join(" ").trim().to_owned(), piped })
    }

    /// Nothing was asked.
    pub fn is_empty(&self) -> bool {
        self.typed.is_empty() && self.piped.is_empty()
    }

    /// Both, for a model.
    pub fn text(&self) -> String {
        match (self.typed.as_str(), self.piped.as_str()) {
            (typed, "") => typed.to_owned(),
            ("", piped) => piped.to_owned(),
            (typed, piped) => format!("{typed}\n\n{piped}"),
        }
    }

    /// For a transcript: what was piped beside a question is the content of some file.
    pub fn kept(&self) -> String {
        if self.typed.is_empty() || self.piped.is_empty() {
            return self.text();
        }
        format!("{}\n\n[{} bytes of standard input, not kept]", self.typed, self.piped.len())
    }
}

fn piped(input: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    input.take(MAX_PIPE + 1).read_to_end(&mut bytes).context("reading standard input")?;
    if u64::try_from(bytes.len())? > MAX_PIPE {
        bail!("standard input is larger than {} KiB", MAX_PIPE / 1024);
    }
    String::from_utf8(bytes).context("standard input is no UTF-8 text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_taken_up_to_its_limit() {
        let limit = usize::try_from(MAX_PIPE).unwrap();
        assert_eq!(piped(&vec![b'a'; limit][..]).unwrap().len(), limit);
        assert!(piped(&vec![b'a'; limit + 1][..]).is_err());
        assert!(piped(&[0xFF, 0xFE][..]).is_err());
    }

    #[test]
    fn what_was_piped_beside_a_question_is_not_kept() {
        let question =
            |typed: &str, piped: &str| Question { typed: typed.into(), piped: piped.into() };
        assert_eq!(question("what?", "canary\n").text(), "what?\n\ncanary\n");
        assert_eq!(
            question("what?", "canary\n").kept(),
            "what?\n\n[7 bytes of standard input, not kept]"
        );
        assert_eq!(question("", "what?").kept(), "what?");
        assert_eq!(question("what?", "").kept(), "what?");
    }
}

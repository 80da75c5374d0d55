//! The exit codes of the commands that ask a model.
//!
//! Owns their meaning. Other commands end with 0 or 1.

use std::process::ExitCode;

/// There is no answer.
pub const FAILED: u8 = 1;
/// The command was not used as it can be.
pub const USAGE: u8 = 2;
/// Something that the model wanted to do was refused: by a deny list, by the operator, or because
/// nobody was there to confirm it. There may be an answer all the same.
pub const REFUSED: u8 = 3;
/// Stopped by an interrupt, as shells have it.
pub const STOPPED: u8 = 130;

/// One line on standard error, and the code of a wrong use.
pub fn usage(words: &str) -> ExitCode {
    super::terminal::complain(words);
    ExitCode::from(USAGE)
}

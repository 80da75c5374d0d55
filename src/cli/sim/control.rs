//! The commands that `tombolo sim --control` reads from its standard input.
//!
//! Owns the lines: their length, their numbers, the answer to each. What a command means is in `sim::acts`.

use std::io::{BufRead, Read as _};

use tokio::sync::mpsc;

use super::print;
use crate::invisible::visible;
use crate::sim::{Act, Sim, SimConfig};

/// The longest line, in bytes. A text for the air has at most 233.
const MAX_LINE: u64 = 4096;

/// Does what the lines say, in their order, until they end.
pub(super) async fn obey(sim: &Sim, mesh: &SimConfig) {
    // One line waits; the thread, and whoever writes, wait when it is there.
    let (lines, mut given) = mpsc::channel(1);
    // A thread of its own, which nothing waits for when the program ends: it may wait for a line for ever.
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        while let Some(line) = next_line(&mut input) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let mut number: u64 = 0;
    while let Some(line) = given.recv().await {
        number += 1;
        let act = line.and_then(|line| match line.trim() {
            "" => Ok(None),
            line => Act::parse(line, mesh).map(Some),
        });
        match act {
            Ok(None) => {}
            Ok(Some(act)) => {
                act.perform(sim);
                print(&format!("line {number}: done"));
            }
            // The line is quoted there, and an answer is one line.
            Err(problem) => eprintln!("line {number}: {}", visible(&problem).replace('\n', " ")),
        }
    }
}

/// The next line without its end, or what is wrong with it; `None` at the end of the input.
fn next_line(input: &mut impl BufRead) -> Option<Result<String, String>> {
    let mut line = Vec::new();
    // An input that can't be read has ended.
    let read = input.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line).ok()?;
    if read == 0 {
        return None;
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 > MAX_LINE {
        skip_line(input);
        return Some(Err(format!("a line has at most {MAX_LINE} bytes")));
    }
    Some(String::from_utf8(line).map_err(|_| "a line is UTF-8".to_owned()))
}

/// Reads on to the end of the line, and keeps nothing of it.
fn skip_line(input: &mut impl BufRead) {
    loop {
        let Ok(buffer) = input.fill_buf() else { return };
        let (len, end) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(place) => (place + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(len);
        if end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    //! Lines at the border of their length, and what is no line.

    use super::*;

    #[test]
    fn lines_are_told_apart_and_the_longest_passes() {
        let longest = "x".repeat(4096);
        let mut bytes = format!("one\n\n{longest}\n{longest}x\ntwo\n").into_bytes();
        bytes.extend_from_slice(b"\xff\nlast");
        // A small buffer: what is skipped comes in many pieces.
        let mut input = std::io::BufReader::with_capacity(7, bytes.as_slice());
        let lines: Vec<_> = std::iter::from_fn(|| next_line(&mut input)).collect();
        let too_long = Err("a line has at most 4096 bytes".to_owned());
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(
            lines,
            [
                ok("one"),
                ok(""),
                ok(&longest),
                too_long,
                ok("two"),
                Err("a line is UTF-8".to_owned()),
                ok("last"),
            ]
        );
    }
}

//! How the demo looks in a terminal, on a narrow one too.
//!
//! Owns layout and colour. Knows nothing of the daemon but its events.

use std::io::{IsTerminal, Write};

use crate::assistant::Assurance;
use crate::mesh::view::{AirtimeView, Delivery, MeshEvent};

/// Columns before the text of an event.
const MARGIN: usize = 2;

/// Standard output.
pub struct Screen {
    colour: bool,
    width: usize,
}

#[derive(Clone, Copy)]
enum Style {
    Plain,
    Dim,
    Bold,
    Green,
    Yellow,
    Red,
}

impl Screen {
    /// Finds out the width and whether colours are wanted.
    pub fn new() -> Screen {
        let terminal = std::io::stdout().is_terminal();
        let width = rustix::termios::tcgetwinsize(std::io::stdout())
            .map_or(0, |size| usize::from(size.ws_col));
        Screen {
            colour: terminal && std::env::var_os("NO_COLOR").is_none(),
            width: if width < 30 { 80 } else { width.min(100) },
        }
    }

    /// The first lines.
    pub fn title(&self, login_link: &str) {
        self.put(
            Style::Bold,
            0,
            "Tombolo on a simulated mesh: nothing is on the air, nothing is kept.",
        );
        // Never wrapped: a link has to stay clickable.
        self.raw(Style::Plain, &format!("Node page, already logged in (once): {login_link}\n"));
    }

    /// What can be typed.
    pub fn hint(&self, friend: &str, stranger: &str, example: &str) {
        self.put(
            Style::Dim,
            0,
            &format!(
                "You are {friend}, a contact with a pinned key. Try: {example}\n\
                 /stranger TEXT speaks as {stranger}, /air shows the airtime, /quit ends."
            ),
        );
    }

    /// A plain line.
    pub fn line(&self, text: &str) {
        self.put(Style::Plain, 0, text);
    }

    /// The airtime so far.
    pub fn summary(&self, air: &AirtimeView) {
        let share = air.share_ms.map_or_else(String::new, |share| {
            format!(" of the {} s an hour that answers may use here", seconds(share))
        });
        self.put(Style::Bold, 0, &format!("On the air so far: {} s{share}.", seconds(air.used_ms)));
    }

    /// One event.
    pub fn event(&self, event: &MeshEvent) {
        match event {
            MeshEvent::Link { up, detail } => {
                let style = if *up { Style::Dim } else { Style::Red };
                self.put(style, 0, detail);
            }
            MeshEvent::Heard { name, assurance, text, ignored, channel, .. } => {
                let sure = match assurance {
                    Assurance::Verified => "key verified",
                    Assurance::Signed => "signed",
                    Assurance::Unverified => "unverified",
                };
                let place = channel.as_ref().map_or_else(String::new, |c| format!(" on {c}"));
                self.blank();
                self.put(Style::Bold, 0, &format!("{name}{place} ({sure}): {text}"));
                if let Some(why) = ignored {
                    self.put(Style::Yellow, MARGIN, &format!("not answered: {why}"));
                }
            }
            MeshEvent::TurnStarted { .. } => {}
            MeshEvent::TurnEnded { backend, tools, millis, parts, .. } => {
                let tools = if tools.is_empty() {
                    "no tool".to_owned()
                } else {
                    tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", ")
                };
                self.put(
                    Style::Dim,
                    MARGIN,
                    &format!(
                        "{backend}, {tools}, {millis} ms, {parts} part{}",
                        if *parts == 1 { "" } else { "s" }
                    ),
                );
            }
            MeshEvent::PartSent { name, part, of, bytes, airtime_us, text, .. } => {
                self.put(
                    Style::Green,
                    MARGIN,
                    &format!(
                        "to {name}, part {part} of {of}, {bytes} bytes, {} s on air",
                        seconds(u64::from(*airtime_us) / 1000)
                    ),
                );
                self.put(Style::Plain, 2 * MARGIN, text);
            }
            MeshEvent::PartState { part, of, delivery, .. } => {
                let (style, words) = delivery_words(delivery);
                if let Some(words) = words {
                    self.put(style, MARGIN, &format!("part {part} of {of}: {words}"));
                }
            }
            MeshEvent::Paused { reason: Some(reason) } => {
                self.put(Style::Yellow, MARGIN, &format!("sending waits: {reason}"));
            }
            MeshEvent::Paused { reason: None } => {}
            MeshEvent::Paired { name, fingerprint, .. } => {
                self.put(Style::Green, MARGIN, &format!("paired with {name} ({fingerprint})"));
            }
            MeshEvent::Distress { name, cleared: false, .. } => {
                let words =
                    format!("distress text of {name}: it stands at the top of the node page");
                self.put(Style::Red, MARGIN, &words);
            }
            MeshEvent::Distress { name, cleared: true, .. } => {
                self.put(Style::Dim, MARGIN, &format!("distress text of {name} cleared"));
            }
            MeshEvent::Changed { what, .. } => self.put(Style::Dim, 0, what),
            MeshEvent::Security { detail, .. } => self.put(Style::Red, MARGIN, detail),
        }
    }

    fn put(&self, style: Style, margin: usize, text: &str) {
        let room = self.width.saturating_sub(margin).max(20);
        let mut out = String::new();
        for paragraph in text.lines() {
            for line in wrap(paragraph, room) {
                out.push_str(&" ".repeat(margin));
                out.push_str(&line);
                out.push('\n');
            }
        }
        self.raw(style, &out);
    }

    fn blank(&self) {
        self.raw(Style::Plain, "\n");
    }

    fn raw(&self, style: Style, text: &str) {
        let code = match style {
            Style::Plain => "",
            Style::Dim => "2",
            Style::Bold => "1",
            Style::Green => "32",
            Style::Yellow => "33",
            Style::Red => "31",
        };
        let mut out = std::io::stdout().lock();
        // A closed pipe ends the show, not the program: there is nobody to tell.
        let _ = if self.colour && !code.is_empty() {
            writeln!(out, "\x1b[{code}m{}\x1b[0m", text.trim_end_matches('\n'))
        } else {
            out.write_all(text.as_bytes())
        };
        let _ = out.flush();
    }
}

fn delivery_words(delivery: &Delivery) -> (Style, Option<String>) {
    match delivery {
        Delivery::Queued | Delivery::Sent => (Style::Dim, None),
        Delivery::Relayed => (Style::Dim, Some("relayed by another node".to_owned())),
        Delivery::Delivered => {
            (Style::Green, Some("delivered (acknowledged by its radio)".to_owned()))
        }
        Delivery::NotConfirmed => (Style::Yellow, Some("not confirmed".to_owned())),
        Delivery::Waiting(why) => (Style::Yellow, Some(format!("waits: {why}"))),
        Delivery::Failed(why) => (Style::Red, Some(format!("failed: {why}"))),
        Delivery::Cancelled => (Style::Yellow, Some("withdrawn".to_owned())),
    }
}

fn seconds(millis: u64) -> String {
    format!("{}.{}", millis / 1000, millis % 1000 / 100)
}

/// Lines of at most `room` characters, cut at spaces where there are any.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        while used == 0 && word.len() > room {
            lines.push(word.drain(..room).collect());
        }
        used += word.len();
        line.extend(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_the_terminal_and_lose_nothing() {
        let text = "part 1 of 2 abcdefghijklmnopqrstuvwxyz and the rest";
        for room in 20..60 {
            let lines = wrap(text, room);
            assert!(lines.iter().all(|line| line.chars().count() <= room), "{lines:?}");
            let words: String = lines.concat().replace(' ', "");
            assert_eq!(words, text.replace(' ', ""));
        }
    }
}

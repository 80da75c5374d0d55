//! What `[tools]` opens, as this user finds it.
//!
//! Owns a line a key. Opens nothing but to look whether it is there, and runs nothing.

use std::path::Path;

use super::{Found, Line};
use crate::config::{Config, ToolsConfig};
use crate::tools::{folder, opened};

/// Nothing configured: no line.
pub(super) fn lines(config: &Config) -> Vec<Line> {
    let tools = &config.tools;
    let mut lines = Vec::new();
    if let Some(found) = folders(tools, &config.data_dir) {
        lines.push(("folders", found));
    }
    if let Some(found) = programs(tools) {
        lines.push(("commands", found));
    }
    lines
}

fn folders(tools: &ToolsConfig, data_dir: &Path) -> Option<Found> {
    let (mut good, mut notes, mut bad) = (0, Vec::new(), Vec::new());
    for (key, folder) in opened(tools) {
        let shown = folder.path.display();
        if folder::holds_or_is_in(&folder.path, data_dir) {
            bad.push(format!("{key}: {shown} would show the node's own data; name another folder"));
        } else if !folder.path.is_dir() {
            notes.push(format!("{key}: {shown} is not there, or is no folder"));
        } else if std::fs::read_dir(&folder.path).is_err() {
            notes.push(format!("{key}: this user can't read {shown}"));
        } else if folder.writable && !super::is_writable(&folder.path) {
            notes.push(format!("{key}: this user can't write to {shown}"));
        } else {
            good += 1;
        }
    }
    if !bad.is_empty() {
        return Some(Found::Bad(bad.join("; ")));
    }
    if !notes.is_empty() {
        return Some(Found::Note(notes.join("; ")));
    }
    (good > 0).then(|| Found::Good(format!("{good} that can be opened")))
}

fn programs(tools: &ToolsConfig) -> Option<Found> {
    let missing: Vec<String> = tools
        .commands
        .iter()
        .filter_map(|command| {
            let program = command.command.0.first()?;
            let runs = rustix::fs::access(program.as_str(), rustix::fs::Access::EXEC_OK).is_ok();
            (!runs).then(|| format!("{}: this user can't run {program}", command.name.0))
        })
        .collect();
    match (tools.commands.len(), missing.is_empty()) {
        (0, _) => None,
        (count, true) => Some(Found::Good(format!("{count} that can be run"))),
        (_, false) => Some(Found::Note(missing.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn of(text: &str) -> Vec<Line> {
        lines(&parse(text, "t.toml", []).unwrap())
    }

    #[test]
    fn what_is_not_there_is_noted_and_what_shows_the_secrets_is_bad() {
        assert!(of("").is_empty());
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().display();
        std::fs::create_dir(temp.path().join("data")).unwrap();
        std::fs::create_dir(temp.path().join("plans")).unwrap();
        std::os::unix::fs::symlink(temp.path().join("data"), temp.path().join("link")).unwrap();
        let good = of(&format!("[tools]\nfolders = [\"{path}/plans\"]"));
        assert_eq!(good, [("folders", Found::Good("1 that can be opened".to_owned()))]);
        let missing = of("[tools]\nmedia = [\"/nowhere/at/all\"]");
        assert!(matches!(&missing[..], [("folders", Found::Note(words))]
            if words.contains("tools.media: /nowhere/at/all is not there")));
        let own = of(&format!("data_dir = \"{path}/data\"\n[tools]\nfolders = [\"{path}/link\"]"));
        assert!(matches!(&own[..], [("folders", Found::Bad(_))]), "{own:?}");
        let command = |program: &str| {
            of(&format!(
                "[[tools.commands]]\nname = \"a\"\ndescription = \"a\"\ncommand = [\"{program}\"]"
            ))
        };
        assert!(matches!(&command("/bin/ls")[..], [("commands", Found::Good(_))]));
        assert!(matches!(&command("/nowhere/x")[..], [("commands", Found::Note(_))]));
    }
}

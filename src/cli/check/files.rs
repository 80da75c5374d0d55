//! The files that the node writes for itself, as the next start will find them.
//!
//! Owns a line a file that is there, and what follows where one makes no sense; `radio.json` is in the radio's own line. Changes and moves none of them.

use std::path::Path;

use serde::de::IgnoredAny;

use super::{Found, Line};
use crate::assistant::{grants, models};
use crate::mesh::{distress, identity};
use crate::rpc::auth::sessions;
use crate::store::document::{self, Document};

/// Looks at the text of a file: a note, or what is wrong.
type Look = fn(&[u8]) -> Result<Option<String>, String>;

/// A file, the newest version of it that this program writes, how it is looked at, and what a broken one comes to.
type File = (&'static str, u64, Look, &'static str);

const FILES: &[File] = &[
    (
        "contacts.json",
        identity::VERSION as u64,
        |text| identity::Contacts::look(text).map(|()| None),
        "the daemon does not start with it: repair it, or move it away, and contacts without a key in the configuration are \
         pinned anew",
    ),
    (
        "grants.json",
        grants::VERSION as u64,
        grants::Grants::look,
        "the next start sets it aside, and nobody has any grants until they are set anew",
    ),
    (
        "distress.json",
        distress::VERSION as u64,
        |text| distress::DistressBook::look(text).map(|()| None),
        "the next start sets it aside: look into it for calls that nobody has seen",
    ),
    (
        "settings.json",
        models::VERSION,
        |text| models::ModelChoice::look(text).map(|()| None),
        "the model of the configuration is used until one is chosen again",
    ),
    (
        "sessions.json",
        sessions::VERSION,
        |text| match serde_json::from_slice::<sessions::Sessions>(text) {
            Ok(_) => Ok(None),
            Err(error) => Err(error.to_string()),
        },
        "the next start sets it aside, and everybody must log in again",
    ),
    #[cfg(feature = "mcp")]
    (
        "mcp.json",
        crate::tools::mcp::pins::VERSION,
        crate::tools::mcp::pins::Pins::look,
        "the next start sets it aside, and every foreign tool waits for `tombolo mcp accept`",
    ),
];

/// A line for each that is there.
pub(super) fn lines(data_dir: &Path) -> Vec<Line> {
    let line = |file: &File| Some((file.0, found(data_dir, file)?));
    FILES.iter().filter_map(line).collect()
}

fn found(data_dir: &Path, &(name, newest, look, comes_to): &File) -> Option<Found> {
    let path = data_dir.join(name);
    match document::read::<IgnoredAny>(&path, newest) {
        Ok(Document::Missing) => return None,
        // What makes no sense at all is found below, as its owner finds it.
        Ok(Document::Whole(IgnoredAny) | Document::Broken(_)) => {}
        Err(error) => {
            let why = error.source;
            return Some(Found::Bad(format!("the daemon does not start with it: {why}")));
        }
    }
    let shown = path.display();
    Some(match std::fs::read(&path).map_err(|error| error.to_string()).and_then(|t| look(&t)) {
        Ok(None) => Found::Good("can be read".to_owned()),
        Ok(Some(note)) => Found::Note(note),
        Err(why) => Found::Bad(format!("{shown} makes no sense: {why}; {comes_to}")),
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // test data, in folders that go away
mod tests {
    use super::*;

    #[test]
    fn each_file_that_is_there_has_a_line_and_a_broken_one_says_what_follows() {
        let whole = [
            ("contacts.json", "{\"version\":2,\"contacts\":[]}"),
            ("grants.json", "{\"version\":1,\"callers\":{},\"history\":[]}"),
            ("distress.json", "{\"version\":1,\"texts\":[]}"),
            ("settings.json", "{\"model\":\"qwen3:4b\"}"),
            ("sessions.json", "{\"live\":[],\"ended\":[]}"),
            ("mcp.json", "{\"version\":1,\"servers\":{}}"),
        ];
        let empty = tempfile::tempdir().unwrap();
        assert!(lines(empty.path()).is_empty());
        for (name, text) in whole {
            if cfg!(not(feature = "mcp")) && name == "mcp.json" {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            let of = |text: &str| {
                std::fs::write(&path, text).unwrap();
                let lines = lines(folder.path());
                assert_eq!(lines.len(), 1);
                // Nothing was moved or written.
                assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
                let (part, found) = lines.into_iter().next().unwrap();
                assert_eq!(part, name);
                found
            };
            assert!(matches!(of(text), Found::Good(_)), "{name}");
            for broken in ["", "{", "[7]", &text[..text.len() - 1]] {
                let found = of(broken);
                assert!(
                    matches!(&found, Found::Bad(words) if words.contains("makes no sense")),
                    "{name} {broken}: {found:?}"
                );
            }
        }
        let bad = |name: &str, text: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(name), text).unwrap();
            match lines(folder.path()).pop() {
                Some((_, Found::Bad(words) | Found::Note(words))) => words,
                other => format!("{other:?}"),
            }
        };
        for (name, newest, ..) in FILES {
            let newer = bad(name, &format!("{{\"version\":{}}}", newest + 1));
            assert!(newer.contains("does not start") && newer.contains("newer tombolo"), "{newer}");
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join(name)).unwrap();
            let found = lines(folder.path());
            assert!(
                matches!(&found[..], [(_, Found::Bad(why))] if why.contains("is a folder")),
                "{found:?}"
            );
        }
        assert!(bad("settings.json", "{\"model\":7}").contains("no name of a model"));
        let closed = "{\"version\":1,\"closed\":true,\"callers\":{},\"history\":[]}";
        assert!(bad("grants.json", closed).contains("broken once"));
    }
}

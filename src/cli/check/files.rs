//! The files that the node writes for itself, as the next start will find them.
//!
//! Owns a line a file that is there, and what follows where one makes no sense. Changes and moves none of them.

use std::io::ErrorKind;
use std::path::Path;

use super::{Found, Line};
use crate::assistant::grants::Grants;
use crate::assistant::models::ModelChoice;
use crate::mesh::identity::Contacts;
use crate::rpc::auth::sessions::Sessions;

/// Looks at the text of a file: a note, or what is wrong.
type Look = fn(&[u8]) -> Result<Option<String>, String>;

/// Each file, how it is looked at, and what a broken one comes to.
const FILES: [(&str, Look, &str); 4] = [
    (
        "contacts.json",
        |text| Contacts::look(text).map(|()| None),
        "the daemon does not start with it: repair it, or move it away, and contacts without a key in the configuration are \
         pinned anew",
    ),
    (
        "grants.json",
        Grants::look,
        "the next start sets it aside, and nobody has any grants until they are set anew",
    ),
    (
        "settings.json",
        |text| ModelChoice::look(text).map(|()| None),
        "the model of the configuration is used until one is chosen again",
    ),
    (
        "sessions.json",
        |text| match serde_json::from_slice::<Sessions>(text) {
            Ok(_) => Ok(None),
            Err(error) => Err(error.to_string()),
        },
        "the next start sets it aside, and everybody must log in again",
    ),
];

/// A line for each that is there.
pub(super) fn lines(data_dir: &Path) -> Vec<Line> {
    let lines = FILES.iter().filter_map(|(name, look, comes_to)| {
        Some((*name, found(&data_dir.join(name), *look, comes_to)?))
    });
    #[cfg(feature = "mcp")]
    let lines = lines.chain({
        let look = crate::tools::mcp::pins::Pins::look;
        let comes_to =
            "the next start sets it aside, and every foreign tool waits for `tombolo mcp accept`";
        found(&data_dir.join("mcp.json"), look, comes_to).map(|found| ("mcp.json", found))
    });
    lines.collect()
}

fn found(path: &Path, look: Look, comes_to: &str) -> Option<Found> {
    let shown = path.display();
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(Found::Bad(format!("{shown} can't be read: {error}"))),
        Ok(text) => Some(match look(&text) {
            Ok(None) => Found::Good("can be read".to_owned()),
            Ok(Some(note)) => Found::Note(note),
            Err(why) => Found::Bad(format!("{shown} makes no sense: {why}; {comes_to}")),
        }),
    }
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
        assert!(bad("contacts.json", "{\"version\":3}").contains("newer tombolo (version 3)"));
        assert!(
            bad("grants.json", "{\"version\":2,\"callers\":{},\"history\":[]}")
                .contains("version 2")
        );
        assert!(bad("settings.json", "{\"model\":7}").contains("no name of a model"));
        let closed = "{\"version\":1,\"closed\":true,\"callers\":{},\"history\":[]}";
        assert!(bad("grants.json", closed).contains("broken once"));
    }
}

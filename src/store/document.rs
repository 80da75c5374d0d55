//! This program's own JSON files in the data folder: one rule for those that can't be used.
//!
//! Owns the rule. What a newer version wrote, what is a folder, and what can't be read is an error that says what to do,
//! and is left as it is; what makes no sense is broken, and its owner says what becomes of it. Must not know what the
//! files mean.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{StoreError, set_aside};

/// What a file turned out to be.
#[derive(Debug)]
pub enum Document<T> {
    /// There is none.
    Missing,
    /// It is whole.
    Whole(T),
    /// It makes no sense, and why. It is left where it is.
    Broken(StoreError),
}

/// A file that was broken and lies aside now.
#[derive(Debug)]
pub struct Aside {
    /// Where.
    pub path: PathBuf,
    /// What was wrong with it.
    pub why: String,
}

/// Reads a file that versions up to `newest` have written.
///
/// # Errors
/// It is a folder, it can't be read, or a newer version wrote it: the text says what to do.
pub fn read<T: DeserializeOwned>(path: &Path, newest: u64) -> Result<Document<T>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_there(path) => {
            return Ok(Document::Missing);
        }
        Err(error) => return Err(unusable(path, &error)),
    };
    // What a newer version wrote need not have the form of today, but it has a version.
    let version = serde_json::from_slice::<Map<String, Value>>(&bytes)
        .ok()
        .and_then(|members| members.get("version").and_then(Value::as_u64));
    if let Some(version) = version.filter(|version| *version > newest) {
        let why = format!(
            "it was written by a newer tombolo (version {version} of the file; this program knows {newest}): run that \
             program again, or put back a backup of before the update; it is left as it is"
        );
        return Err(failure(path, io::ErrorKind::Unsupported, why));
    }
    Ok(match serde_json::from_slice(&bytes) {
        Ok(content) => Document::Whole(content),
        Err(error) => {
            Document::Broken(failure(path, io::ErrorKind::InvalidData, error.to_string()))
        }
    })
}

/// The same for a file without which the node does as well: a broken one is set aside, and its owner says so with the
/// cause.
///
/// # Errors
/// As [`read`]; and it could not be set aside.
pub fn read_or_set_aside<T: DeserializeOwned>(
    path: &Path,
    newest: u64,
) -> Result<(Option<T>, Option<Aside>), StoreError> {
    match read(path, newest)? {
        Document::Missing => Ok((None, None)),
        Document::Whole(content) => Ok((Some(content), None)),
        Document::Broken(error) => {
            let aside = set_aside(path)?;
            Ok((None, Some(Aside { path: aside, why: error.source.to_string() })))
        }
    }
}

/// A link to nowhere is there all the same.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn unusable(path: &Path, error: &io::Error) -> StoreError {
    let why = match error.kind() {
        io::ErrorKind::IsADirectory => {
            "it is a folder, and should be a file: move the folder away".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            format!("{error}: give the file to the user that runs tombolo, with mode 600")
        }
        _ => format!("{error}: repair it, or move it away"),
    };
    failure(path, error.kind(), why)
}

fn failure(path: &Path, kind: io::ErrorKind, why: String) -> StoreError {
    StoreError { doing: "reading", path: path.to_owned(), source: io::Error::new(kind, why) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    use super::*;

    type Numbers = BTreeMap<String, u64>;

    #[test]
    fn each_state_of_a_file_is_told_from_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        assert!(matches!(read::<Numbers>(&path, 2), Ok(Document::Missing)));
        for (text, whole) in [
            ("{}", true),
            (r#"{"version":2,"x":1}"#, true),
            (r#"{"version":null}"#, false),
            (r#"{"version":"9"}"#, false),
            (r#"{"version":-1}"#, false),
            ("", false),
            ("null", false),
            ("[3]", false),
            (r#"{"x":"#, false),
        ] {
            fs::write(&path, text).unwrap();
            match read::<Numbers>(&path, 2).unwrap() {
                Document::Whole(_) => assert!(whole, "{text}"),
                Document::Broken(error) => assert!(!whole && !error.source.to_string().is_empty()),
                Document::Missing => panic!("{text}"),
            }
        }
    }

    #[test]
    fn what_a_newer_version_wrote_is_refused_in_whatever_form_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        for text in [r#"{"version":3}"#, r#"{"x":["new"],"version":18446744073709551615}"#] {
            fs::write(&path, text).unwrap();
            let error = read_or_set_aside::<Numbers>(&path, 2).unwrap_err();
            let words = error.source.to_string();
            assert!(words.contains("newer tombolo") && words.contains("backup"), "{words}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_broken_file_is_set_aside_with_its_cause_and_a_folder_or_a_wrong_link_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "{\"x\":").unwrap();
        let (content, aside) = read_or_set_aside::<Numbers>(&path, 1).unwrap();
        let aside = aside.unwrap();
        assert!(content.is_none() && !path.exists());
        assert_eq!(aside.path, folder.path().join("a.json.broken"));
        assert!(aside.why.contains("EOF"), "{}", aside.why);

        fs::create_dir(&path).unwrap();
        let error = read_or_set_aside::<Numbers>(&path, 1).unwrap_err();
        assert!(error.source.to_string().contains("move the folder away"), "{}", error.source);
        fs::remove_dir(&path).unwrap();
        for target in [path.clone(), folder.path().join("nowhere")] {
            symlink(target, &path).unwrap();
            let error = read_or_set_aside::<Numbers>(&path, 1).unwrap_err();
            assert!(error.source.to_string().contains("move it away"), "{}", error.source);
            fs::remove_file(&path).unwrap();
        }
    }
}

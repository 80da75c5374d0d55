//! What is in a copy, and what is left where none could be made.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use super::*;

/// 2026-12-01 14:30:05 UTC.
const NOW_MS: u64 = 1_796_135_405_000;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A data folder, and a place for copies.
fn folders() -> (tempfile::TempDir, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("contacts.json", "{}"),
        ("grants.json", "{}"),
        ("sessions.json", "no"),
        ("lock", ""),
        ("index/documents.sqlite", "no"),
        ("seen.log", "one\ntw"),
        ("inbox/a.json", "{}"),
        ("replies/a.jsonl", "x"),
        ("secrets/operator-password", "hash"),
        ("transcripts/a.json", "hello"),
        ("transcripts/a.json.tmp", "no"),
        ("transcripts/b.json.broken", "kept"),
    ] {
        write(&data.path().join(name), text);
    }
    (data, tempfile::tempdir().unwrap())
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        names.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_copy_is_whole_private_and_noted_and_holds_nothing_that_is_made_anew() {
    let (data, to) = folders();
    let made = make(data.path(), to.path(), NOW_MS).unwrap();
    assert_eq!(names(to.path()), ["tombolo-backup-20261201-143005"]);
    assert_eq!((made.files, made.bytes), (8, 26));
    assert_eq!((made.skipped.len(), made.not_noted), (0, None));
    let copy = &made.folder;
    assert_eq!(
        names(copy),
        ["contacts.json", "grants.json", "inbox", "replies", "secrets", "seen.log", "transcripts"]
    );
    assert_eq!(names(&copy.join("transcripts")), ["a.json", "b.json.broken"]);
    assert_eq!(fs::read_to_string(copy.join("seen.log")).unwrap(), "one\ntw");
    for (path, wanted) in [("", 0o700), ("secrets", 0o700), ("secrets/operator-password", 0o600)] {
        assert_eq!(mode(&copy.join(path)), wanted, "{path}");
    }
    let note = last(data.path()).unwrap().unwrap();
    assert_eq!((note.at, &note.folder), (NOW_MS, copy));
    assert_eq!(mode(&data.path().join(NOTE)), 0o600);
    // The next one has the note of this one, and stands beside it.
    let next = make(data.path(), to.path(), NOW_MS + 1000).unwrap();
    assert_eq!(last(&next.folder).unwrap(), Some(note));
    assert_eq!(names(to.path()).len(), 2);
}

#[test]
fn what_can_not_be_a_place_is_said_and_nothing_is_left_there() {
    let (data, to) = folders();
    let file = to.path().join("file");
    write(&file, "");
    let inside = data.path().join("notes");
    fs::create_dir(&inside).unwrap();
    let link = to.path().join("link");
    symlink(&inside, &link).unwrap();
    for (place, words) in [
        (to.path().join("nowhere"), "create it, or mount the disk"),
        (file, "not a folder"),
        (data.path().to_owned(), "outside it"),
        (inside.clone(), "outside it"),
        (link, "outside it"),
    ] {
        let error = make(data.path(), &place, NOW_MS).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let none = make(&to.path().join("data"), to.path(), NOW_MS).unwrap_err();
    assert!(matches!(none, BackupError::NoData(_)));
    assert_eq!(names(to.path()), ["file", "link"]);
    assert!(names(&inside).is_empty() && !data.path().join(NOTE).exists());
    // A folder beside it whose name begins the same way is outside.
    let beside = PathBuf::from(format!("{}-beside", data.path().display()));
    fs::create_dir(&beside).unwrap();
    make(data.path(), &beside, NOW_MS).unwrap();
    fs::remove_dir_all(&beside).unwrap();
}

#[test]
fn what_just_fits_is_copied_and_a_byte_less_is_refused_and_nothing_is_left() {
    let (data, to) = folders();
    let error = make_within(data.path(), to.path(), NOW_MS, |_| Some(25)).unwrap_err();
    let words = error.to_string();
    assert!(words.contains("26 bytes are needed and 25 are free"), "{words}");
    assert!(names(to.path()).is_empty() && last(data.path()).unwrap().is_none());
    make_within(data.path(), to.path(), NOW_MS, |_| Some(26)).unwrap();
}

#[test]
fn one_of_the_same_second_is_not_overwritten() {
    let (data, to) = folders();
    make(data.path(), to.path(), NOW_MS).unwrap();
    let error = make(data.path(), to.path(), NOW_MS + 999).unwrap_err();
    assert!(matches!(error, BackupError::There(_)), "{error}");
    assert_eq!(names(to.path()).len(), 1);
}

#[test]
fn a_copy_that_fails_half_way_leaves_nothing_and_no_note() {
    let (data, to) = folders();
    // A file whose name is longer in the copy can't be made by hand, so one that can't be read: a folder's bytes.
    let (mut copy, from) = (Copy::default(), data.path().join("transcripts"));
    assert!(copy.file(&from, &to.path().join("x")).is_err());
    fs::remove_file(to.path().join("x")).unwrap();
    // A copy begun by a process that was killed goes, one that is being made stays.
    let unfinished = |name: &str| to.path().join(format!(".tombolo-backup-{name}.unfinished"));
    write(&unfinished("killed").join("secrets/key"), "x");
    write(&unfinished("running").join("secrets/key"), "x");
    let held = File::open(unfinished("running")).unwrap();
    held.lock().unwrap();
    make(data.path(), to.path(), NOW_MS).unwrap();
    assert_eq!(
        names(to.path()),
        [".tombolo-backup-running.unfinished", "tombolo-backup-20261201-143005"]
    );
}

#[test]
fn links_and_sockets_are_left_out_and_named() {
    let (data, to) = folders();
    symlink("/etc/passwd", data.path().join("inbox/link.json")).unwrap();
    let _socket = UnixListener::bind(data.path().join("socket")).unwrap();
    let made = make(data.path(), to.path(), NOW_MS).unwrap();
    let skipped: Vec<_> = made.skipped.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(skipped, ["link.json", "socket"]);
    assert_eq!(names(&made.folder.join("inbox")), ["a.json"]);
}

#[test]
fn a_question_is_copied_before_its_answer() {
    let (data, _) = folders();
    let order: Vec<String> =
        entries(data.path(), 0).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(order[..3], ["inbox", "replies", "contacts.json"]);
    assert!(!order.iter().any(|name| LEFT_OUT.contains(&name.as_str())));
}

#[test]
fn a_note_that_makes_no_sense_is_an_error_and_not_overwritten_by_reading() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(last(data.path()).unwrap(), None);
    for broken in ["{", "{\"version\":1}", "{\"version\":2,\"at\":1,\"folder\":\"/x\"}"] {
        write(&data.path().join(NOTE), broken);
        assert!(last(data.path()).is_err(), "{broken}");
    }
}

#[test]
fn a_stamp_is_of_utc_to_the_second() {
    assert_eq!(stamp(0), "19700101-000000");
    assert_eq!(stamp(NOW_MS + 54_999), "20261201-143059");
    assert_eq!(stamp(NOW_MS + 55_000), "20261201-143100");
}

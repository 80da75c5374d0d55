//! Files that are replaced, extended, closed and set aside.

use super::*;

#[test]
fn a_replaced_file_is_whole_and_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    replace_json(&path, &vec![1, 2], Durability::Disk).unwrap();
    replace_json(&path, &vec![3], Durability::Process).unwrap();
    assert_eq!(read_json::<Vec<i32>>(&path).unwrap(), Some(vec![3]));
    assert!(is_private(&path).unwrap());
    assert_eq!(json_files(folder.path()).unwrap(), vec![path]);
}

#[test]
fn what_root_writes_belongs_to_the_owner_of_the_folder() {
    use std::os::unix::fs::MetadataExt as _;
    if !rustix::process::geteuid().is_root() {
        println!("not run: only root can give files away");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    std::os::unix::fs::chown(&data, Some(4711), Some(4712)).unwrap();
    replace(&data.join("a.json"), b"{}", Durability::Process).unwrap();
    Journal::open(&data.join("a.log")).unwrap().append("x", Durability::Process).unwrap();
    private_dir(&data.join("b")).unwrap();
    replace(&data.join("b/c"), b"{}", Durability::Disk).unwrap();
    for name in ["a.json", "a.log", "b", "b/c"] {
        let facts = fs::metadata(data.join(name)).unwrap();
        assert_eq!((facts.uid(), facts.gid()), (4711, 4712), "{name}");
    }
    private_dir(&folder.path().join("ours")).unwrap();
    assert_eq!(fs::metadata(folder.path().join("ours")).unwrap().uid(), 0);
}

#[test]
fn a_folder_is_closed_only_if_it_is_ours() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    fs::create_dir(&folder).unwrap();
    let mode = || fs::metadata(&folder).unwrap().permissions().mode() & 0o7777;
    let open = || fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    for (file, ours) in [("", true), ("other", false), ("lock", true)] {
        if !file.is_empty() {
            fs::write(folder.join(file), "").unwrap();
        }
        open();
        let closed = close_dir(&folder, &["lock"]);
        assert_eq!(mode(), if ours { 0o700 } else { 0o755 }, "{file}");
        match closed {
            Ok(closed) => assert!(closed && ours),
            Err(error) => assert!(error.source.to_string().contains("chmod 700")),
        }
    }
    assert!(!close_dir(&folder, &[]).unwrap(), "closed already");
}

#[test]
fn what_was_set_aside_is_not_overwritten_and_there_is_an_end_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    for number in 1..=ASIDE + 3 {
        fs::write(&path, number.to_string()).unwrap();
        let aside = set_aside(&path).unwrap();
        assert_eq!(fs::read_to_string(aside).unwrap(), number.to_string());
    }
    assert_eq!(fs::read_to_string(folder.path().join("a.json.broken")).unwrap(), "1");
    assert_eq!(fs::read_to_string(folder.path().join("a.json.broken.2")).unwrap(), "2");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), ASIDE);
    assert!(json_files(folder.path()).unwrap().is_empty());
}

#[test]
fn a_world_readable_file_is_not_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, "x").unwrap();
    for (mode, private) in
        [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o700, true)]
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(is_private(&path).unwrap(), private, "{mode:o}");
    }
}

#[test]
fn a_torn_line_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, "one\ntw").unwrap();
    assert_eq!(journal_lines(&path).unwrap(), vec!["one"]);
    Journal::open(&path).unwrap().append("three", Durability::Process).unwrap();
    assert_eq!(journal_lines(&path).unwrap(), vec!["one", "tw", "three"]);
}

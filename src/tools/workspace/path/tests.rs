//! What is outside stays outside, however it is written.

use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::fixture::{Folder, SECRET};
use super::*;

/// With the kernel's help and without.
fn both(folder: &Folder) -> [Workspace; 2] {
    let open = || Workspace::open(&folder.root()).unwrap();
    assert!(open().resolves, "these tests need openat2");
    [open(), open().without_resolving()]
}

fn read(workspace: &Workspace, path: &str) -> Result<String, PathError> {
    Ok(io::read_to_string(workspace.open_file(path)?).unwrap())
}

#[test]
fn what_is_inside_opens() {
    let folder = Folder::new();
    folder.write("a/b/c.txt", "inside");
    let absolute = folder.root().join("a/b/c.txt").display().to_string();
    for workspace in both(&folder) {
        for path in ["a/b/c.txt", "./a/./b//c.txt", &absolute] {
            assert_eq!(read(&workspace, path).unwrap(), "inside", "{path}");
        }
        assert!(workspace.is_dir(".").unwrap());
        assert!(workspace.is_dir(&folder.root().display().to_string()).unwrap());
        assert!(!workspace.is_dir("a/b/c.txt").unwrap());
    }
    let [kernel, walk] = both(&folder);
    assert_eq!(read(&kernel, "a/../a/b/c.txt").unwrap(), "inside");
    assert!(read(&walk, "a/../a/b/c.txt").is_err(), "an old kernel can't vouch for it");
}

#[test]
fn what_is_outside_is_refused() {
    let folder = Folder::new();
    folder.write("a/b.txt", "inside");
    let outside = folder.outside();
    let above = format!("{}/../outside.txt", folder.root().display());
    for path in ["../outside.txt", "a/../../outside.txt", outside.to_str().unwrap(), &above] {
        for workspace in both(&folder) {
            let refused = read(&workspace, path);
            assert!(matches!(refused, Err(PathError::Outside(_))), "{path}: {refused:?}");
            let place = workspace.place(path, true);
            assert!(matches!(place, Err(PathError::Outside(_))), "{path}: {place:?}");
            let output = workspace.open_for_output(path, false);
            assert!(matches!(output, Err(PathError::Outside(_))), "{path}: {output:?}");
        }
    }
    for path in ["/proc/self/root/etc/passwd", "/etc/passwd", "/", ".."] {
        for workspace in both(&folder) {
            let refused = read(&workspace, path);
            assert!(matches!(refused, Err(PathError::Outside(_))), "{path}: {refused:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), SECRET);
}

#[test]
fn links_that_lead_outside_are_refused() {
    let folder = Folder::new();
    folder.write("a/in.txt", "inside");
    folder.link("file", folder.outside());
    folder.link("relative", "../outside.txt");
    folder.link("folder", folder.root().parent().unwrap());
    folder.link("a/up", "../..");
    folder.link("root", "/proc/self/root");
    folder.link("fd", "/proc/self/cwd");
    folder.link("loop", "loop");
    for path in [
        "file",
        "relative",
        "folder/outside.txt",
        "folder/w/a/in.txt",
        "a/up/outside.txt",
        "root/etc/passwd",
        "fd/Cargo.toml",
        "loop",
    ] {
        for workspace in both(&folder) {
            assert!(read(&workspace, path).is_err(), "{path}");
            assert!(workspace.open_for_output(path, false).is_err(), "{path}");
            assert!(workspace.is_dir(path).is_err(), "{path}");
        }
    }
    for path in ["folder/new.txt", "a/up/new.txt", "root/tmp/new.txt", "folder/new/new.txt"] {
        for workspace in both(&folder) {
            assert!(workspace.place(path, true).is_err(), "{path}");
        }
    }
    assert!(!folder.root().parent().unwrap().join("new").exists());
    assert_eq!(std::fs::read_to_string(folder.outside()).unwrap(), SECRET);
}

#[test]
fn a_link_inside_is_followed_where_the_kernel_can_vouch_for_it() {
    let folder = Folder::new();
    folder.write("a/in.txt", "inside");
    folder.link("short", "a/in.txt");
    folder.link("b", "a");
    let [kernel, walk] = both(&folder);
    for path in ["short", "b/in.txt"] {
        assert_eq!(read(&kernel, path).unwrap(), "inside");
        assert!(read(&walk, path).is_err(), "{path}");
    }
}

#[test]
fn a_folder_that_becomes_a_link_meanwhile_shows_nothing_from_outside() {
    let folder = Folder::new();
    let outside = folder.root().parent().unwrap().join("other");
    #[allow(clippy::disallowed_methods)] // test data
    {
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("x.txt"), SECRET).unwrap();
    }
    folder.write("real/x.txt", "inside");
    folder.link("link", &outside);
    let root = folder.root();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags};
            while !stop.load(Ordering::Relaxed) {
                let (real, link) = (root.join("real"), root.join("link"));
                rustix::fs::renameat_with(CWD, real, CWD, link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        // The thread ends even where an assertion fails, so that the failure shows.
        let _ends = Ends(&stop);
        let mut seen_inside = 0;
        for workspace in both(&folder) {
            for _ in 0..3000 {
                match read(&workspace, "real/x.txt") {
                    Ok(content) => {
                        assert_eq!(content, "inside");
                        seen_inside += 1;
                    }
                    Err(PathError::Outside(_) | PathError::Malformed(..)) => {}
                    Err(PathError::System(_, error)) => {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
        assert!(seen_inside > 0);
    });
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_handle_stays_with_its_file_when_the_name_is_given_to_another() {
    let folder = Folder::new();
    folder.write("a.txt", "inside");
    let workspace = folder.workspace();
    let file = workspace.open_file("a.txt").unwrap();
    std::fs::remove_file(folder.root().join("a.txt")).unwrap();
    folder.link("a.txt", folder.outside());
    assert_eq!(io::read_to_string(file).unwrap(), "inside");
    assert!(workspace.open_file("a.txt").is_err());
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = Folder::new();
    folder.write("d/x", "");
    let fifo = folder.root().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::from_raw_mode(0o600)).unwrap();
    let _listener = UnixListener::bind(folder.root().join("socket")).unwrap();
    for workspace in both(&folder) {
        // Were one of these openings to wait, the test would never end.
        for path in ["fifo", "socket", "d"] {
            let refused = workspace.open_file(path);
            assert!(matches!(refused, Err(PathError::NotAFile(..))), "{path}: {refused:?}");
            let refused = workspace.open_for_output(path, true);
            assert!(matches!(refused, Err(PathError::NotAFile(..))), "{path}: {refused:?}");
        }
        for path in ["d/", "d/.", "."] {
            let refused = workspace.place(path, false);
            assert!(matches!(refused, Err(PathError::NotAFile(..))), "{path}: {refused:?}");
        }
    }
    // A workspace of devices, to see one refused without the right to make one.
    let devices = Workspace::open(Path::new("/dev")).unwrap();
    let refused = devices.open_file("zero");
    assert!(matches!(refused, Err(PathError::NotAFile(_, "a device"))), "{refused:?}");
}

#[test]
fn names_that_can_be_no_file_are_refused() {
    let folder = Folder::new();
    folder.write("a", "");
    let longest = "n".repeat(255);
    folder.write(&longest, "inside");
    for workspace in both(&folder) {
        assert_eq!(read(&workspace, &longest).unwrap(), "inside");
        for path in ["", "a\0b", &"n".repeat(256), "a/b", &"a/".repeat(50_000)] {
            let refused = read(&workspace, path);
            assert!(matches!(refused, Err(PathError::Malformed(..))), "{refused:?}");
            assert!(refused.unwrap_err().to_string().len() < 300);
        }
        // The longest path that is looked for, and one byte more.
        let most = format!("{}a", "./".repeat(MAX_PATH / 2));
        assert_eq!(most.len(), MAX_PATH);
        assert_eq!(read(&workspace, &most).unwrap(), "");
        assert!(read(&workspace, &format!("{most}a")).is_err());
        assert!(matches!(read(&workspace, "none"), Err(PathError::Missing(_))));
        let named = read(&workspace, "\u{1b}[2Jx").unwrap_err().to_string();
        assert!(!named.contains('\u{1b}'), "{named}");
    }
}

#[test]
fn missing_folders_are_made_only_when_asked() {
    let folder = Folder::new();
    for workspace in both(&folder) {
        assert!(matches!(workspace.place("x/y/z.txt", false), Err(PathError::Missing(_))));
    }
    assert!(folder.names().is_empty());
    for workspace in both(&folder) {
        assert_eq!(workspace.place("x/y/z.txt", true).unwrap().name, "z.txt");
    }
    assert_eq!(folder.names(), ["x", "x/y"]);
}

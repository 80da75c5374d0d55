//! `media`: pictures, sound and films in the folders that the operator named.
//!
//! Owns the two tools. A file is listed by the end of its name and described by its first bytes; nothing is
//! decoded, played or sent.

mod header;

use serde::Deserialize;
use serde_json::json;

use self::header::Facts;
use super::folder::{self, Entry, Folders};
use super::system::size;
use crate::assistant::PermissionCategory;
use crate::assistant::loop_::MAX_TOOL_RESULT_CHARS;
use crate::assistant::tools::{Description, ToolDef};
use crate::invisible;

/// Files that are listed without a wish of the caller's.
const DEFAULT_FILES: usize = 20;
/// Files that are listed at most.
const MAX_FILES: usize = 100;
/// Files that are looked at.
const MAX_SEEN: usize = 20_000;
/// Characters of a listing, below what the loop cuts.
const MAX_RESULT_CHARS: usize = MAX_TOOL_RESULT_CHARS - 200;

/// What a file is, by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Picture,
    Sound,
    Film,
}

/// The ends of names.
const ENDS: [(Kind, &[&str]); 3] = [
    (
        Kind::Picture,
        &["jpg", "jpeg", "png", "gif", "webp", "bmp", "heic", "avif", "tif", "tiff", "svg"],
    ),
    (Kind::Sound, &["mp3", "flac", "ogg", "oga", "opus", "wav", "m4a", "aac"]),
    (Kind::Film, &["mp4", "m4v", "mov", "mkv", "webm", "avi", "mpg", "mpeg"]),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    kind: Option<Kind>,
    name: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeArguments {
    path: String,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        let (_, end) = name.rsplit_once('.')?;
        let end = end.to_ascii_lowercase();
        ENDS.iter().find(|(_, ends)| ends.contains(&end.as_str())).map(|(kind, _)| *kind)
    }

    fn word(self) -> &'static str {
        match self {
            Kind::Picture => "picture",
            Kind::Sound => "sound",
            Kind::Film => "film",
        }
    }
}

/// All of the category; none without folders.
pub(super) fn tools(folders: &Folders) -> Vec<ToolDef> {
    if folders.is_empty() {
        return Vec::new();
    }
    vec![list_tool(folders.clone()), describe_tool(folders.clone())]
}

fn list_tool(folders: Folders) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Media,
        "media_list",
        "Pictures, sound and films of this node, newest first.",
    )
    .taking(
        json!({
            "kind": {"type": "string", "enum": ["picture", "sound", "film"]},
            "name": {"type": "string", "description": "Part of the path"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FILES}
        }),
        &[],
    );
    ToolDef::new(about, move |arguments: ListArguments| {
        let folders = folders.clone();
        Box::pin(super::blocking(move || Ok(list(&folders, &arguments))))
    })
}

fn describe_tool(folders: Folders) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Media,
        "media_describe",
        "Format, size, date, dimensions or length of one of these files.",
    )
    .taking(
        json!({"path": {"type": "string", "description": "As media_list shows it"}}),
        &["path"],
    );
    ToolDef::new(about, move |DescribeArguments { path }| {
        let folders = folders.clone();
        Box::pin(super::blocking(move || describe(&folders, &path)))
    })
}

fn list(folders: &Folders, arguments: &ListArguments) -> String {
    let limit = arguments.limit.unwrap_or(DEFAULT_FILES).min(MAX_FILES);
    let part = arguments.name.as_deref().unwrap_or_default().to_lowercase();
    let mut found: Vec<(String, Entry, Kind)> = Vec::new();
    let (mut seen, mut notes) = (0, String::new());
    for folder in folders.all() {
        let workspace = match folders.open(folder) {
            Ok(workspace) => workspace,
            Err(why) => {
                notes.push_str(&format!("[{why}]\n"));
                continue;
            }
        };
        let complete = folder::walk(&workspace, |path, entry| {
            seen += 1;
            let path = format!("{}/{path}", folder.name);
            let kind = Kind::of(&entry.name);
            let wanted = arguments.kind.is_none_or(|wanted| Some(wanted) == kind);
            if let (Some(kind), true) = (kind, wanted && path.to_lowercase().contains(&part)) {
                found.push((path, entry.clone(), kind));
            }
            seen < MAX_SEEN
        });
        if !complete {
            notes.push_str(&format!("[not all of {} was seen]\n", folder.name));
        }
    }
    found.sort_by(|a, b| b.1.changed.cmp(&a.1.changed).then_with(|| a.0.cmp(&b.0)));
    let mut words = String::new();
    let mut chars = 0;
    for (shown, (path, entry, kind)) in found.iter().enumerate() {
        let line = format!(
            "{}  {}, {}, {}\n",
            one_line(path),
            kind.word(),
            size(entry.size),
            folder::date(entry.changed)
        );
        chars += line.chars().count();
        if shown == limit || chars > MAX_RESULT_CHARS {
            words.push_str(&format!("[{} more]\n", found.len() - shown));
            break;
        }
        words.push_str(&line);
    }
    if words.is_empty() {
        words.push_str("[no such file]\n");
    }
    words + &notes
}

fn describe(folders: &Folders, path: &str) -> Result<String, String> {
    let spot = folders.spot(path)?;
    let kind = Kind::of(path)
        .ok_or("that is no picture, sound or film; expected a path as media_list shows it")?;
    let file = spot.workspace.open_file(&spot.path).map_err(|e| e.to_string())?;
    let facts = file.metadata().map_err(|e| e.to_string())?;
    let changed = std::os::unix::fs::MetadataExt::mtime(&facts);
    let Facts { format, pixels, seconds } = header::read(&file);
    let mut words = format!("{}: {}", one_line(path), kind.word());
    if format.is_empty() {
        words.push_str(", of no format that is known here");
    } else {
        words.push_str(&format!(", {format}"));
    }
    if let Some((width, height)) = pixels {
        words.push_str(&format!(", {width} x {height} pixels"));
    }
    if let Some(seconds) = seconds {
        words.push_str(&format!(", {}", length(seconds)));
    }
    let date = folder::date(i128::from(changed) * 1_000_000_000);
    words.push_str(&format!(", {}, changed {date}", size(facts.len())));
    Ok(words)
}

/// `4.2 s`, `3:07`, `1:02:03`
fn length(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    // Bounded by the header's reader.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

fn one_line(path: &str) -> String {
    invisible::visible(path).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::ToolOutcome;
    use crate::config::tools::Folder;
    use crate::tools::fixture::Caller;

    fn world(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Caller) {
        let temp = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = temp.path().join("m").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let folder =
            Folder { name: "photos".to_owned(), path: temp.path().join("m"), writable: false };
        let folders = Folders::new(&[folder], &temp.path().join("data"));
        (temp, Caller::of(tools(&folders), PermissionCategory::Media))
    }

    #[tokio::test]
    async fn media_are_listed_and_described() {
        let (temp, caller) = world(&[
            ("2026/a.gif", b"GIF89a\x80\x02\xe0\x01"),
            ("song.MP3", b"ID3 broken"),
            ("notes.txt", b"no media"),
            (".hidden.jpg", b""),
        ]);
        std::os::unix::fs::symlink("/etc/passwd", temp.path().join("m/link.jpg")).unwrap();
        let (_, all) = caller.run("media_list", json!({})).await;
        assert_eq!(all.lines().count(), 2, "{all}");
        let (_, pictures) = caller.run("media_list", json!({"kind": "picture"})).await;
        assert!(pictures.starts_with("photos/2026/a.gif  picture, 10 B, 20"), "{pictures}");
        let (_, named) = caller.run("media_list", json!({"name": "SONG"})).await;
        assert!(named.starts_with("photos/song.MP3  sound"), "{named}");
        assert_eq!(caller.run("media_list", json!({"name": "zzz"})).await.1, "[no such file]\n");
        let (outcome, words) =
            caller.run("media_describe", json!({"path": "photos/2026/a.gif"})).await;
        assert_eq!(outcome, ToolOutcome::Ran);
        assert!(
            words
                .starts_with("photos/2026/a.gif: picture, GIF, 640 x 480 pixels, 10 B, changed 20"),
            "{words}"
        );
        for wrong in [
            "photos/notes.txt",
            "photos/link.jpg",
            "photos/../x.jpg",
            "photos/.hidden.jpg",
            "x.jpg",
        ] {
            let (outcome, words) = caller.run("media_describe", json!({ "path": wrong })).await;
            assert_eq!(outcome, ToolOutcome::Failed, "{wrong}: {words}");
        }
        let (outcome, words) = caller.run("media_list", json!({"kind": "song"})).await;
        assert_eq!(outcome, ToolOutcome::BadArguments);
        assert!(
            words.contains("`kind` must be one of \"picture\", \"sound\", \"film\""),
            "{words}"
        );
    }

    #[tokio::test]
    async fn a_listing_is_bounded() {
        let names: Vec<String> =
            (0..150).map(|i| format!("{i:03}-{}.png", "x".repeat(60))).collect();
        let files: Vec<(&str, &[u8])> =
            names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        let (_temp, caller) = world(&files);
        let (_, listing) = caller.run("media_list", json!({"limit": MAX_FILES})).await;
        assert!(
            listing.chars().count() <= MAX_TOOL_RESULT_CHARS && listing.contains(" more]"),
            "{listing}"
        );
        let (_, one) = caller.run("media_list", json!({"limit": 1})).await;
        assert_eq!(one.lines().last(), Some("[149 more]"));
    }

    #[test]
    fn lengths_are_told_as_players_do() {
        for (seconds, words) in
            [(4.25, "4.2 s"), (59.94, "59.9 s"), (60.0, "1:00"), (3723.0, "1:02:03")]
        {
            assert_eq!(length(seconds), words);
        }
    }
}

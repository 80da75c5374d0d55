//! Bringing the index up to its documents.
//!
//! Owns one update: what is new is read, what changed is read again, what is gone is forgotten, and what
//! can't be seen now is left as it is known. One document is in memory at a time.

use std::collections::HashSet;
use std::io::Read as _;

use rusqlite::{Connection, OptionalExtension as _, params};
use tokio_util::sync::CancellationToken;

use super::super::super::folder::{self, Entry, Folders};
use super::super::super::workspace::Workspace;
use super::super::passages::{self, Kind, Passage};
use super::{IndexError, MAX_PASSAGES, Report};

/// Bytes of a document that is indexed; a larger one is left out and counted.
pub(super) const MAX_DOCUMENT: u64 = 8 * 1024 * 1024;
/// Documents that are indexed.
const MAX_DOCUMENTS: usize = 50_000;
/// Documents after which what was done is kept.
const BATCH: usize = 50;

/// Until all folders were seen, or until it is told to stop.
pub(super) fn run(
    database: &Connection,
    folders: &Folders,
    stop: &CancellationToken,
) -> Result<Report, IndexError> {
    let mut update = Update {
        database,
        stop,
        seen: HashSet::new(),
        report: Report { complete: true, ..Report::default() },
        since_commit: 0,
    };
    database.execute_batch("BEGIN IMMEDIATE")?;
    let done = update.folders(folders);
    // What was done is good, also where the rest failed.
    let committed = database.execute_batch("COMMIT");
    done?;
    committed?;
    Ok(update.report)
}

/// An update under way.
struct Update<'a> {
    database: &'a Connection,
    stop: &'a CancellationToken,
    seen: HashSet<i64>,
    report: Report,
    since_commit: usize,
}

impl Update<'_> {
    fn folders(&mut self, folders: &Folders) -> Result<(), IndexError> {
        for folder in folders.all() {
            let name = folder.path.to_string_lossy().into_owned();
            let complete = match folders.open(folder) {
                Ok(workspace) => self.folder(&name, &workspace)?,
                Err(_) => false,
            };
            if self.stop.is_cancelled() {
                self.report.complete = false;
                return Ok(());
            }
            self.report.complete &= complete;
            // A folder that is not there now, or not all of it, keeps what is known of it.
            if complete {
                self.forget(&name)?;
            }
        }
        self.forget_folders(folders)
    }

    /// `true`: all of it was seen.
    fn folder(&mut self, name: &str, workspace: &Workspace) -> Result<bool, IndexError> {
        let mut failed = None;
        let complete = folder::walk(workspace, |path, entry| {
            if self.stop.is_cancelled() || self.seen.len() >= MAX_DOCUMENTS {
                return false;
            }
            let Some(kind) = Kind::of(&entry.name) else { return true };
            match self.document(name, workspace, path, entry, kind) {
                Ok(()) => true,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        });
        failed.map_or(Ok(complete), Err)
    }

    fn document(
        &mut self,
        folder: &str,
        workspace: &Workspace,
        path: &str,
        entry: &Entry,
        kind: Kind,
    ) -> Result<(), IndexError> {
        let size = i64::try_from(entry.size).unwrap_or(i64::MAX);
        let changed = i64::try_from(entry.changed).unwrap_or(i64::MAX);
        let known: Option<(i64, i64, i64)> = self
            .database
            .query_row(
                "SELECT id, size, changed FROM documents WHERE folder = ?1 AND path = ?2",
                [folder, path],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        if let Some((id, known_size, known_changed)) = known {
            if (known_size, known_changed) == (size, changed) {
                self.seen.insert(id);
                return Ok(());
            }
            self.remove(id)?;
        }
        let Some(text) = text(workspace, path) else {
            self.report.skipped += 1;
            return Ok(());
        };
        self.database.execute(
            "INSERT INTO documents (folder, path, title, size, changed) VALUES (?1, ?2, '', ?3, ?4)",
            params![folder, path, size, changed],
        )?;
        let id = self.database.last_insert_rowid();
        let named = entry.name.rsplit_once('.').map_or(entry.name.as_str(), |(stem, _)| stem);
        let named = named.replace(['_', '-'], " ");
        let mut number = 0;
        let mut failed = None;
        {
            let mut insert = self.database.prepare(
                "INSERT INTO passages (rowid, title, heading, body, line) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let title = passages::cut(kind, &text, &mut |passage: Passage| {
                if failed.is_some() || number >= MAX_PASSAGES {
                    return;
                }
                let line = i64::try_from(passage.line).unwrap_or(i64::MAX);
                let row =
                    params![id * MAX_PASSAGES + number, named, passage.heading, passage.body, line];
                failed = insert.execute(row).err();
                number += 1;
            });
            let title = title.filter(|title| !title.is_empty()).unwrap_or(named.clone());
            self.database
                .execute("UPDATE documents SET title = ?2 WHERE id = ?1", params![id, title])?;
            // Known only at the end. The first passage is where a search for the title should lead.
            self.database.execute(
                "UPDATE passages SET title = ?2 WHERE rowid = ?1",
                params![id * MAX_PASSAGES, format!("{named} {title}")],
            )?;
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        self.seen.insert(id);
        self.report.indexed += 1;
        self.keep()
    }

    fn remove(&self, id: i64) -> Result<(), IndexError> {
        self.database.execute(
            "DELETE FROM passages WHERE rowid >= ?1 AND rowid < ?2",
            [id * MAX_PASSAGES, (id + 1) * MAX_PASSAGES],
        )?;
        self.database.execute("DELETE FROM documents WHERE id = ?1", [id])?;
        Ok(())
    }

    /// Removes the documents of a folder that were not seen.
    fn forget(&mut self, folder: &str) -> Result<(), IndexError> {
        let mut statement = self.database.prepare("SELECT id FROM documents WHERE folder = ?1")?;
        let ids: Vec<i64> =
            statement.query_map([folder], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for id in ids.into_iter().filter(|id| !self.seen.contains(id)) {
            self.remove(id)?;
            self.report.removed += 1;
        }
        Ok(())
    }

    /// Removes the documents of folders that are no longer configured.
    fn forget_folders(&mut self, folders: &Folders) -> Result<(), IndexError> {
        let mut statement = self.database.prepare("SELECT DISTINCT folder FROM documents")?;
        let known: Vec<String> =
            statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let is_there = |name: &str| folders.all().iter().any(|f| f.path.to_string_lossy() == name);
        for name in known.iter().filter(|name| !is_there(name)) {
            let mut statement =
                self.database.prepare("SELECT id FROM documents WHERE folder = ?1")?;
            let ids: Vec<i64> =
                statement.query_map([name], |row| row.get(0))?.collect::<Result<_, _>>()?;
            for id in ids {
                self.remove(id)?;
                self.report.removed += 1;
            }
        }
        Ok(())
    }

    /// Now and then what was done is kept, and can be found.
    fn keep(&mut self) -> Result<(), IndexError> {
        self.since_commit += 1;
        if self.since_commit >= BATCH {
            self.since_commit = 0;
            self.database.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
        }
        Ok(())
    }
}

/// The text of a document; `None` for one that is too large, binary or unreadable.
fn text(workspace: &Workspace, path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    workspace.open_file(path).ok()?.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > MAX_DOCUMENT || bytes.contains(&0) {
        return None;
    }
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

//! The index of the documents, on disk.
//!
//! Owns the file `index/documents.sqlite` in the data folder: what is in it, how it follows the documents,
//! and that a broken one is made anew. Nothing in it is not in the documents, so nothing is lost with it.
//! Everything here waits for a disk: it is called away from the runtime's thread.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};
use tokio_util::sync::CancellationToken;

use super::super::folder::{self, Entry, Folders};
use super::super::workspace::Workspace;
use super::passages::{self, Kind, Passage};
use super::words;
use crate::store;

/// Bytes of a document that is indexed; a larger one is left out and counted.
const MAX_DOCUMENT: u64 = 8 * 1024 * 1024;
/// Documents that are indexed.
const MAX_DOCUMENTS: usize = 50_000;
/// Passages of one document.
const MAX_PASSAGES: i64 = 1 << 20;
/// Documents after which what was done is kept.
const BATCH: usize = 50;
/// Changed when the tables change: an index of another version is made anew.
const VERSION: i64 = 1;

/// Made anew by [`Index::open`] where it is missing or another version.
const TABLES: &str = "
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        folder TEXT NOT NULL,
        path TEXT NOT NULL,
        title TEXT NOT NULL,
        size INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        UNIQUE (folder, path)
    );
    CREATE VIRTUAL TABLE passages USING fts5(
        title, heading, body, line UNINDEXED,
        tokenize = \"unicode61 remove_diacritics 2 separators 'ʼ'\"
    );";

/// What goes wrong with the index itself.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// SQLite's own words.
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    /// Its file.
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

impl IndexError {
    fn is_corrupt(&self) -> bool {
        match self {
            IndexError::Database(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ),
            IndexError::Store(_) => false,
        }
    }
}

/// What an update came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Documents that were read.
    pub indexed: usize,
    /// Documents that are gone.
    pub removed: usize,
    /// Documents that could not be read, or are too large.
    pub skipped: usize,
    /// All folders were seen to their end.
    pub complete: bool,
}

/// A passage that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The folder's path.
    pub folder: String,
    /// In the folder.
    pub path: String,
    /// The document's title.
    pub title: String,
    /// The headings above it.
    pub heading: String,
    /// Where it begins.
    pub line: i64,
    /// Around what was found.
    pub excerpt: String,
}

/// The index.
#[derive(Debug)]
pub struct Index {
    folder: PathBuf,
    /// One update at a time.
    updating: Mutex<()>,
}

impl Index {
    /// Below that data folder. Opens nothing yet.
    pub fn of(data_dir: &Path) -> Index {
        Index { folder: data_dir.join("index"), updating: Mutex::new(()) }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("documents.sqlite")
    }

    /// Brings the index up to the documents. A broken one is made anew, once.
    pub fn update(
        &self,
        folders: &Folders,
        stop: &CancellationToken,
    ) -> Result<Report, IndexError> {
        let _alone = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        match self.try_update(folders, stop) {
            Err(error) if error.is_corrupt() => {
                tracing::warn!(%error, "the index of the documents is broken and is made anew");
                self.remove()?;
                self.try_update(folders, stop)
            }
            done => done,
        }
    }

    /// Whether SQLite finds its file whole. Reads all of it.
    pub fn is_whole(&self) -> Result<bool, IndexError> {
        let whole = self.open().and_then(|database| {
            let words: String =
                database.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            Ok(words == "ok")
        });
        match whole {
            Err(error) if error.is_corrupt() => Ok(false),
            whole => whole,
        }
    }

    /// Removes it; the next update makes it anew.
    pub fn remove(&self) -> Result<(), IndexError> {
        for end in ["", "-wal", "-shm", "-journal"] {
            let mut name = self.file().into_os_string();
            name.push(end);
            store::remove(Path::new(&name))?;
        }
        Ok(())
    }

    /// How many documents it has.
    pub fn count(&self) -> Result<i64, IndexError> {
        Ok(self.open()?.query_row("SELECT count(*) FROM documents", [], |row| row.get(0))?)
    }

    /// The passages that fit best, at most `limit`. `Err` of a broken index: it has to be updated first.
    pub fn find(&self, query: &str, limit: usize) -> Result<Vec<Hit>, IndexError> {
        let database = self.open()?;
        let mut hits: Vec<(i64, Hit)> = Vec::new();
        for expression in words::expressions(query) {
            let mut statement = database.prepare(
                "SELECT passages.rowid, folder, path, documents.title, heading, line,
                        snippet(passages, 2, '', '', ' … ', 60)
                 FROM passages JOIN documents ON documents.id = passages.rowid / ?3
                 WHERE passages MATCH ?1 ORDER BY bm25(passages, 4.0, 2.0, 1.0) LIMIT ?2",
            )?;
            let found = statement.query_map(
                params![expression, i64::try_from(limit).unwrap_or(i64::MAX), MAX_PASSAGES],
                |row| {
                    let hit = Hit {
                        folder: row.get(1)?,
                        path: row.get(2)?,
                        title: row.get(3)?,
                        heading: row.get(4)?,
                        line: row.get(5)?,
                        excerpt: row.get(6)?,
                    };
                    Ok((row.get::<_, i64>(0)?, hit))
                },
            )?;
            for row in found {
                let (rowid, hit) = row?;
                if hits.len() < limit && !hits.iter().any(|(known, _)| *known == rowid) {
                    hits.push((rowid, hit));
                }
            }
            if hits.len() >= limit {
                break;
            }
        }
        Ok(hits.into_iter().map(|(_, hit)| hit).collect())
    }

    /// The text of a document from the passage that holds `line` on, at most `chars` characters: each
    /// passage with its line and headings.
    pub fn read(
        &self,
        folder: &str,
        path: &str,
        line: i64,
        chars: usize,
    ) -> Result<Option<Vec<Passage>>, IndexError> {
        let database = self.open()?;
        let id: Option<i64> = database
            .query_row(
                "SELECT id FROM documents WHERE folder = ?1 AND path = ?2",
                [folder, path],
                |row| row.get(0),
            )
            .optional()?;
        let Some(id) = id else { return Ok(None) };
        let mut statement = database.prepare(
            "SELECT line, heading, body FROM passages WHERE rowid >= ?1 AND rowid < ?2 ORDER BY rowid",
        )?;
        let rows = statement.query_map([id * MAX_PASSAGES, (id + 1) * MAX_PASSAGES], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })?;
        let mut passages: Vec<Passage> = Vec::new();
        let mut taken = 0;
        for row in rows {
            let (begins, heading, body) = row?;
            if begins <= line {
                // A later one that begins before the line is nearer to it.
                passages.clear();
                taken = 0;
            }
            taken += body.chars().count();
            if taken > chars && !passages.is_empty() {
                break;
            }
            passages.push(Passage { heading, line: usize::try_from(begins).unwrap_or(1), body });
        }
        Ok(Some(passages))
    }

    fn open(&self) -> Result<Connection, IndexError> {
        store::private_dir(&self.folder)?;
        let mut database = Connection::open(self.file())?;
        database.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 5000;
             PRAGMA cache_size = -2000; PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 1048576;",
        )?;
        let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != VERSION {
            let change =
                database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            // Another connection may have done it meanwhile.
            let version: i64 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            if version != VERSION {
                change.execute_batch(
                    "DROP TABLE IF EXISTS passages; DROP TABLE IF EXISTS documents;",
                )?;
                change.execute_batch(TABLES)?;
                change.pragma_update(None, "user_version", VERSION)?;
            }
            change.commit()?;
        }
        Ok(database)
    }

    fn try_update(
        &self,
        folders: &Folders,
        stop: &CancellationToken,
    ) -> Result<Report, IndexError> {
        let database = self.open()?;
        let mut update = Update {
            database: &database,
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

#[cfg(test)]
mod tests;

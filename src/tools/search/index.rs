//! The index of the documents, on disk.
//!
//! Owns the file `index/documents.sqlite` in the data folder: what is in it, how it follows the documents,
//! and that a broken one is made anew. Nothing in it is not in the documents, so nothing is lost with it.
//! Everything here waits for a disk: it is called away from the runtime's thread.

mod update;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};
use tokio_util::sync::CancellationToken;

use super::super::folder::Folders;
use super::passages::Passage;
use super::words;
use crate::store;

/// Passages of one document.
const MAX_PASSAGES: i64 = 1 << 20;
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
        update::run(&database, folders, stop)
    }
}

#[cfg(test)]
mod tests;

//! `search`: full-text search in the operator's offline documents.
//!
//! Owns the two tools, and when the index is brought up to the documents: at the start, and before a
//! search that comes a while after the last time. A search never waits long for that: it says that the
//! index is not up to date yet. What is found is foreign text, and cited with document, line and heading.

mod html;
mod index;
mod passages;
mod words;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use self::index::{Hit, Index};
use super::folder::Folders;
use crate::assistant::PermissionCategory;
use crate::assistant::loop_::MAX_TOOL_RESULT_CHARS;
use crate::assistant::tools::{Description, ToolDef};

/// An index that was brought up to date this long ago is good enough.
const FRESH: Duration = Duration::from_secs(15);
/// A search waits so long for an update.
const PATIENCE: Duration = Duration::from_secs(3);
/// Hits without a wish of the caller's.
const DEFAULT_HITS: usize = 4;
/// Hits at most.
const MAX_HITS: usize = 10;
/// Characters of a hit's excerpt.
const MAX_EXCERPT: usize = 500;
/// Characters of a document that are shown at once, below what the loop cuts.
const MAX_READ_CHARS: usize = MAX_TOOL_RESULT_CHARS - 600;

/// The documents and their index.
struct Library {
    folders: Folders,
    index: Index,
    state: watch::Sender<State>,
    tracker: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    running: bool,
    /// When the last update ended well.
    updated: Option<Instant>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    query: String,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    document: String,
    line: Option<i64>,
}

/// All of the category; none without folders. Begins to bring the index up to date, on `tracker`, until
/// `stop`. Needs a runtime.
pub(super) fn tools(
    folders: &Folders,
    data_dir: &Path,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) -> Vec<ToolDef> {
    if folders.is_empty() {
        return Vec::new();
    }
    let library = Arc::new(Library {
        folders: folders.clone(),
        index: Index::of(data_dir),
        state: watch::Sender::new(State::default()),
        tracker: tracker.clone(),
        stop: stop.clone(),
    });
    library.begin_update();
    vec![search_tool(library.clone()), read_tool(library)]
}

fn search_tool(library: Arc<Library>) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Search,
        "documents_search",
        "Full-text search in this node's offline documents. Cite the source in the answer.",
    )
    .taking(
        json!({
            "query": {"type": "string", "description": "A few words"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HITS}
        }),
        &["query"],
    );
    ToolDef::new(about, move |SearchArguments { query, limit }| {
        let library = library.clone();
        Box::pin(async move { library.search(query, limit.unwrap_or(DEFAULT_HITS)).await })
    })
}

fn read_tool(library: Arc<Library>) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Search,
        "documents_read",
        "Shows a document that documents_search found, from a line on.",
    )
    .taking(
        json!({
            "document": {"type": "string", "description": "As it was cited, without the line"},
            "line": {"type": "integer", "minimum": 1}
        }),
        &["document"],
    );
    ToolDef::new(about, move |ReadArguments { document, line }| {
        let library = library.clone();
        Box::pin(async move { library.read(document, line).await })
    })
}

impl Library {
    /// Begins an update, unless one runs or the last one is fresh.
    fn begin_update(self: &Arc<Library>) {
        let begin = self.state.send_if_modified(|state| {
            let fresh = state.updated.is_some_and(|at| at.elapsed() < FRESH);
            let begin = !state.running && !fresh;
            state.running |= begin;
            begin
        });
        if !begin {
            return;
        }
        let library = Arc::clone(self);
        self.tracker.spawn_blocking(move || {
            let first = library.state.borrow().updated.is_none();
            if first && !library.index.is_whole().unwrap_or(true) {
                warn!("the index of the documents is broken and is made anew");
                let _ = library.index.remove();
            }
            let updated = match library.index.update(&library.folders, &library.stop) {
                Ok(report) => {
                    if report.indexed + report.removed + report.skipped > 0 {
                        info!(
                            indexed = report.indexed,
                            removed = report.removed,
                            skipped = report.skipped,
                            complete = report.complete,
                            "documents indexed"
                        );
                    }
                    Some(Instant::now())
                }
                Err(error) => {
                    warn!(%error, "the documents could not be indexed");
                    None
                }
            };
            library.state.send_modify(|state| {
                state.running = false;
                state.updated = updated.or(state.updated);
            });
        });
    }

    /// Waits for an update, not for long. `false`: one still runs.
    async fn bring_up(self: &Arc<Library>) -> bool {
        let mut state = self.state.subscribe();
        self.begin_update();
        let ended = state.wait_for(|state| !state.running);
        matches!(tokio::time::timeout(PATIENCE, ended).await, Ok(Ok(_)))
    }

    async fn search(self: Arc<Library>, query: String, limit: usize) -> Result<String, String> {
        if words::expressions(&query).is_empty() {
            return Err("`query` has no word in it; expected a few words to look for".to_owned());
        }
        let current = self.bring_up().await;
        super::blocking(move || {
            let found = self.index.find(&query, limit).and_then(|hits| {
                let documents = self.index.count()?;
                Ok((hits, documents))
            });
            let (hits, documents) = found.map_err(|error| {
                warn!(%error, "the index of the documents can't be read");
                // What is broken is made anew by the next update.
                self.state.send_modify(|state| state.updated = None);
                "the index can't be read now and is made anew; try again in a minute".to_owned()
            })?;
            Ok(self.words(&hits, documents, current))
        })
        .await
    }

    fn words(&self, hits: &[Hit], documents: i64, current: bool) -> String {
        let mut words = String::new();
        for hit in hits {
            // A folder that was closed a moment ago.
            let Some(name) = self.name_of(&hit.folder) else { continue };
            words.push_str(&format!("{name}/{}:{}", hit.path, hit.line));
            for title in [&hit.title, &hit.heading] {
                if !title.is_empty() && (title == &hit.title || !title.starts_with(&hit.title)) {
                    words.push_str(&format!(" — {title}"));
                }
            }
            if hit.heading.starts_with(&hit.title) && hit.heading.len() > hit.title.len() {
                words.push_str(hit.heading.get(hit.title.len()..).unwrap_or_default());
            }
            let excerpt: String = hit.excerpt.chars().take(MAX_EXCERPT).collect();
            words.push_str(&format!("\n{}\n\n", excerpt.trim()));
        }
        if words.is_empty() {
            words = format!("[nothing found in {documents} documents]\n");
        }
        if !current {
            words.push_str(&format!(
                "[the documents are being indexed: {documents} so far; there may be more]\n"
            ));
        }
        words
    }

    fn name_of(&self, folder: &str) -> Option<&str> {
        let found = self.folders.all().iter().find(|one| one.path.to_string_lossy() == folder);
        found.map(|folder| folder.name.as_str())
    }

    async fn read(
        self: Arc<Library>,
        document: String,
        line: Option<i64>,
    ) -> Result<String, String> {
        super::blocking(move || {
            // A model copies the line as well.
            let cited =
                document.rsplit_once(':').and_then(|(path, line)| Some((path, line.parse().ok()?)));
            let (path, cited) =
                cited.map_or((document.as_str(), None), |(path, line)| (path, Some(line)));
            let line: i64 = line.or(cited).unwrap_or(1);
            let unknown = || {
                format!(
                    "`document` names none; expected one as documents_search cites it, in: {}",
                    self.folders.names()
                )
            };
            let (name, path) = path.split_once('/').ok_or_else(unknown)?;
            let folder =
                self.folders.all().iter().find(|one| one.name == name).ok_or_else(unknown)?;
            let folder = folder.path.to_string_lossy();
            let passages = self
                .index
                .read(&folder, path, line, MAX_READ_CHARS)
                .map_err(|_| "the index can't be read now; try again in a minute".to_owned())?
                .ok_or_else(unknown)?;
            let mut words = String::new();
            let mut heading = "";
            for passage in &passages {
                if passage.heading != heading {
                    heading = &passage.heading;
                    words.push_str(&format!("[{heading}]\n"));
                }
                words.push_str(&format!("{}: {}\n", passage.line, passage.body));
            }
            Ok(if words.is_empty() { "[there is no text in it]\n".to_owned() } else { words })
        })
        .await
    }
}

#[cfg(test)]
mod tests;

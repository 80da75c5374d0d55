//! For tests: tools in every category that note each run, and a log that can be searched.
//!
//! Judges nothing.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, Once};

use serde::Deserialize;
use serde_json::{Value, json};
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;

use super::backends::{BackendError, BackendTurn, ToolCall};
use super::caller::PermissionCategory;
use super::tools::{Description, ToolDef};

/// Every run of a tool of [`tools`]: its name and its text.
#[derive(Debug, Clone, Default)]
pub struct Runs(Arc<Mutex<Vec<(String, String)>>>);

impl Runs {
    /// All so far, in order.
    pub fn all(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().clone()
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// The names, in order.
    pub fn names(&self) -> Vec<String> {
        self.all().into_iter().map(|(name, _)| name).collect()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    text: String,
    #[serde(default, rename = "count")]
    _count: u32,
}

const NAMES: [(&str, &str); 10] = [
    ("apps_read", "apps_write"),
    ("system_read", "system_write"),
    ("network_read", "network_write"),
    ("wallet_read", "wallet_write"),
    ("files_read", "files_write"),
    ("media_read", "media_write"),
    ("search_read", "search_write"),
    ("ai_local_read", "ai_local_write"),
    ("notes_read", "notes_write"),
    ("bitcoin_read", "bitcoin_write"),
];

/// In every category a tool that only reads and one that changes something.
pub fn tools(runs: &Runs) -> Vec<ToolDef> {
    let pairs = PermissionCategory::ALL.into_iter().zip(NAMES);
    pairs
        .flat_map(|(category, (read, write))| [(category, read, false), (category, write, true)])
        .map(|(category, name, destructive)| {
            let runs = runs.clone();
            ToolDef::new(about(name, category, destructive), move |arguments: Arguments| {
                runs.0.lock().unwrap().push((name.to_owned(), arguments.text.clone()));
                let result = format!("{name} did {}", arguments.text);
                Box::pin(async move { Ok(result) })
            })
        })
        .collect()
}

/// Two more that change something: `notes_own`, which answers in fixed words, and `notes_fails`.
pub fn notes(runs: &Runs) -> [ToolDef; 2] {
    let made = |name, works: bool| {
        let runs = runs.clone();
        let tool =
            ToolDef::new(about(name, PermissionCategory::Notes, true), move |given: Arguments| {
                runs.0.lock().unwrap().push((name.to_owned(), given.text));
                Box::pin(async move {
                    if works { Ok("Noted.".to_owned()) } else { Err("no".to_owned()) }
                })
            });
        tool.with_own_results()
    };
    [made("notes_own", true), made("notes_fails", false)]
}

fn about(name: &'static str, category: PermissionCategory, destructive: bool) -> Description {
    let about = Description::reads(category, name, "notes its run");
    let properties = json!({
        "text": {"type": "string"},
        "count": {"type": "integer", "minimum": 0},
    });
    Description { destructive, ..about }.taking(properties, &["text"])
}

/// One call, as a model makes it.
pub fn calls(name: &str, arguments: Value) -> Result<BackendTurn, BackendError> {
    let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments };
    Ok(BackendTurn::ToolCalls { text: String::new(), calls: vec![call], raw: None })
}

thread_local! {
    static HEARD: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Everything that is logged on this thread while it lives, at every level.
///
/// One subscriber for all threads: what one thread's own subscriber sees depends on which thread met a line of code first.
pub struct Log(());

struct Sink;

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        HEARD.with_borrow_mut(|heard| heard.iter_mut().for_each(|heard| heard.extend(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Begins to listen.
    pub fn listen() -> Log {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let listening = dynamic_filter_fn(|_, _| HEARD.with_borrow(Option::is_some));
            let subscriber = tracing_subscriber::fmt()
                .with_max_level(tracing::Level::TRACE)
                .with_ansi(false)
                .with_writer(|| Sink)
                .finish()
                .with(listening);
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
        HEARD.set(Some(Vec::new()));
        Log(())
    }

    /// What was logged so far.
    pub fn text(&self) -> String {
        HEARD.with_borrow(|heard| {
            String::from_utf8_lossy(heard.as_deref().unwrap_or_default()).into_owned()
        })
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        HEARD.set(None);
    }
}

/// All files below a folder, as one text.
pub fn all_files(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text.push_str(&all_files(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            text.push_str(&format!("\n== {}\n", path.display()));
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    text
}

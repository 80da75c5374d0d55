//! A leg that does what the question says: `hang` never answers, `wait` answers when it is released,
//! `disk` calls a tool and one that is not there, everything else is answered at once.
//!
//! Owns what it was asked, for the tests to judge.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tombolo::assistant::backends::{
    Answer, Backend, BackendTurn, Capabilities, Request, ToolCall, Turn,
};
use tombolo::assistant::tools::{Description, ToolDef, ToolRegistry};
use tombolo::assistant::{Assistant, PermissionCategory};
use tombolo::config::CloudPolicy;
use tombolo::tools::system::{Disks, disk_tool};

/// The leg. Its clones are one.
#[derive(Clone, Default)]
pub struct ScriptedLeg(Arc<State>);

struct State {
    offered: Mutex<Vec<Vec<String>>>,
    progress: watch::Sender<Progress>,
    release: Semaphore,
}

/// How far the questions are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Questions that came.
    pub begun: usize,
    /// Answers that were given.
    pub answered: usize,
    /// Requests dropped before they had an answer: the connection to a model server would be closed.
    pub dropped: usize,
}

impl Default for State {
    fn default() -> State {
        State {
            offered: Mutex::default(),
            progress: watch::Sender::new(Progress::default()),
            release: Semaphore::new(0),
        }
    }
}

impl ScriptedLeg {
    /// Requests that reached it.
    pub fn asked(&self) -> usize {
        self.0.offered.lock().unwrap().len()
    }

    /// The tools that the last request offered.
    pub fn last_offered(&self) -> Vec<String> {
        self.0.offered.lock().unwrap().last().cloned().expect("a request")
    }

    /// How far the questions are.
    pub fn progress(&self) -> Progress {
        *self.0.progress.borrow()
    }

    /// Waits until it is so.
    pub async fn until(&self, is_so: impl FnMut(&Progress) -> bool) {
        self.0.progress.subscribe().wait_for(is_so).await.unwrap();
    }

    /// Lets one waiting question be answered.
    pub fn release(&self) {
        self.0.release.add_permits(1);
    }

    async fn turn(&self, request: Request<'_>) -> BackendTurn {
        let offered = request.tools.iter().map(|tool| tool.name.clone()).collect();
        self.0.offered.lock().unwrap().push(offered);
        let question = request.history.iter().rev().find_map(|turn| match turn {
            Turn::User(text) => Some(text.clone()),
            _ => None,
        });
        let question = question.expect("a question");
        let fresh = matches!(request.history.last(), Some(Turn::User(_)));
        self.0.progress.send_modify(|progress| progress.begun += usize::from(fresh));
        let mut fate = Fate { leg: self, answered: false };
        match question.as_str() {
            "hang" => std::future::pending().await,
            "wait" => self.0.release.acquire().await.unwrap().forget(),
            _ => {}
        }
        fate.answered = true;
        if question == "disk" && fresh {
            let call = |name: &str| ToolCall {
                id: name.to_owned(),
                name: name.to_owned(),
                arguments: json!({}),
            };
            let calls = vec![call("system_disk_status"), call("no_such_tool"), call("wallet_pay")];
            return BackendTurn::ToolCalls { text: String::new(), calls, raw: None };
        }
        BackendTurn::Text(format!("You said **{question}** <script>"))
    }
}

struct Fate<'a> {
    leg: &'a ScriptedLeg,
    answered: bool,
}

impl Drop for Fate<'_> {
    fn drop(&mut self) {
        self.leg.0.progress.send_modify(|progress| match self.answered {
            true => progress.answered += 1,
            false => progress.dropped += 1,
        });
    }
}

impl Backend for ScriptedLeg {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn is_cloud(&self) -> bool {
        false
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async { Ok(Capabilities { tools: true }) })
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        Box::pin(async move { Ok(self.turn(request).await) })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// An assistant with this leg only, the disk tool, and one of a category that nobody is granted.
pub fn assistant(leg: &ScriptedLeg, data_dir: &Path) -> Assistant {
    let about = Description {
        name: "wallet_pay",
        description: "Pays.",
        parameters: json!({ "type": "object", "properties": {}, "additionalProperties": false }),
        category: PermissionCategory::Wallet,
        destructive: true,
    };
    let wallet =
        ToolDef::new(about, |NoArguments {}| Box::pin(async { panic!("nobody may call this") }));
    let tools = ToolRegistry::new([disk_tool(Disks::of_node(data_dir)), wallet]);
    Assistant::with_legs(vec![Box::new(leg.clone())], CloudPolicy::All, tools, data_dir).unwrap()
}

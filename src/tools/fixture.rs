//! A caller for the tests of tools: what it calls goes through the choke point like everything else.

use serde_json::Value;

use crate::assistant::backends::ToolCall;
use crate::assistant::gate::{Asking, Closed, Decision, Gate};
use crate::assistant::tools::{ToolDef, ToolRegistry, execute_tool};
use crate::assistant::{
    Assurance, CallerScope, PeerId, PermissionCategory, SessionId, ToolOutcome,
};

/// The operator, or a peer, with one grant.
pub struct Caller {
    /// What can be called.
    pub registry: ToolRegistry,
    /// Who calls.
    pub scope: CallerScope,
}

/// Somebody who says yes to everything.
pub struct Open;

impl Gate for Open {
    fn ask<'a>(&'a self, _: &'a ToolDef, _: &'a Value) -> Asking<'a> {
        Box::pin(async { Decision::Approved })
    }
}

impl Caller {
    /// The operator.
    pub fn of(tools: Vec<ToolDef>, granted: PermissionCategory) -> Caller {
        let scope = CallerScope::LocalOperator {
            session_id: SessionId("s".to_owned()),
            granted: [granted].into(),
        };
        Caller { registry: ToolRegistry::new(tools), scope }
    }

    /// Another caller of the same tools: a verified peer of that name.
    pub fn peer(&self, name: &str) -> Caller {
        let scope = CallerScope::Mesh {
            peer_id: PeerId(format!("key:{name}")),
            name: name.to_owned(),
            assurance: Assurance::Verified,
            granted: self.scope.granted_categories(),
        };
        Caller { registry: self.registry.clone(), scope }
    }

    /// A call that somebody confirms where that is needed.
    pub async fn run(&self, tool: &str, arguments: Value) -> (ToolOutcome, String) {
        self.call(tool, arguments, &Open).await
    }

    /// A call that nobody confirms.
    pub async fn without_gate(&self, tool: &str, arguments: Value) -> (ToolOutcome, String) {
        self.call(tool, arguments, &Closed).await
    }

    async fn call(&self, tool: &str, arguments: Value, gate: &dyn Gate) -> (ToolOutcome, String) {
        let call = ToolCall { id: "1".to_owned(), name: tool.to_owned(), arguments };
        let executed = execute_tool(&self.registry, &self.scope, &call, gate).await;
        (executed.record.outcome, executed.content)
    }
}

//! What a login may call.
//!
//! Owns the roles. Which role a method asks for stands in the method table; nothing here names a method.

use serde::{Deserialize, Serialize};

use crate::rpc::methods;

/// A role; every session has one, fixed at its login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Whoever runs the node: everything.
    Operator,
    /// Who may look and change nothing.
    Viewer,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 2] = [Role::Operator, Role::Viewer];

    /// The contract's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Operator => "operator",
            Role::Viewer => "viewer",
        }
    }

    /// May this role call the method? Not one that isn't in the table.
    pub fn can_access(self, method: &str) -> bool {
        methods::find(method).is_some_and(|method| match method.access {
            methods::Access::Open => true,
            methods::Access::Session(roles) => roles.contains(&self),
        })
    }
}

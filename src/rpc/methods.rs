//! The method table: every RPC method, who may call it, and its contract.
//!
//! Owns the names and the access rules. Runs nothing: the dispatcher asks here before it calls a handler,
//! and refuses what is not in the table. `docs/rpc.schema.json` is made from it.

use serde_json::Value;

use super::auth::Role;
use super::error::ErrorCode;
use super::{
    assistant_grants, assistant_schema, auth_methods, contacts, distress, history, mesh, system,
};

/// Who may call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anyone who reaches the port with the right `Host`.
    Open,
    /// A live session in one of these roles.
    Session(&'static [Role]),
}

/// One method.
#[derive(Debug)]
pub struct Method {
    /// `area.verb`.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Who may call it.
    pub access: Access,
    /// Must `X-CSRF-Token` be the session's?
    pub csrf: bool,
    /// The JSON Schema of its parameters.
    pub params: fn() -> Value,
    /// The JSON Schema of its result.
    pub result: fn() -> Value,
    /// Errors of its own, beside those that any call may get.
    pub errors: &'static [ErrorCode],
}

/// Methods that need no session; no `assistant.*` is ever among them.
pub const UNAUTHENTICATED_METHODS: [&str; 2] = ["auth.login", "auth.setup"];

const OPERATOR: Access = Access::Session(&[Role::Operator]);
/// For methods that only show something.
const READERS: Access = Access::Session(&[Role::Operator, Role::Viewer]);
const LOGIN_ERRORS: &[ErrorCode] = &[ErrorCode::LoginFailed, ErrorCode::Throttled];
const SETUP_ERRORS: &[ErrorCode] =
    &[ErrorCode::LoginFailed, ErrorCode::Throttled, ErrorCode::SetUpAlready];
const MAY_BE_AWAY: &[ErrorCode] = &[ErrorCode::Unavailable];
const MAY_BE_REFUSED: &[ErrorCode] = &[ErrorCode::Unavailable, ErrorCode::Refused];

/// Every method there is.
pub static METHODS: &[Method] = &[
    Method {
        name: "auth.login",
        summary: "Opens a session in the role whose password it is, and sets its cookie.",
        access: Access::Open,
        csrf: false,
        params: auth_methods::login_params,
        result: auth_methods::credentials,
        errors: LOGIN_ERRORS,
    },
    Method {
        name: "auth.setup",
        summary: "Stores the first password, once, with the token printed at first start, and logs in.",
        access: Access::Open,
        csrf: false,
        params: auth_methods::setup_params,
        result: auth_methods::credentials,
        errors: SETUP_ERRORS,
    },
    Method {
        name: "auth.whoami",
        summary: "The calling session's role and its CSRF token.",
        access: READERS,
        csrf: false,
        params: auth_methods::none,
        result: auth_methods::credentials,
        errors: &[],
    },
    Method {
        name: "auth.logout",
        summary: "Ends the calling session. The next login of the same browser finds its transcript again.",
        access: READERS,
        csrf: true,
        params: auth_methods::none,
        result: auth_methods::empty,
        errors: &[],
    },
    Method {
        name: "auth.sessions",
        summary: "Who is logged in, oldest login first.",
        access: OPERATOR,
        csrf: true,
        params: auth_methods::none,
        result: auth_methods::sessions_result,
        errors: &[],
    },
    Method {
        name: "auth.revoke",
        summary: "Ends a session at once, its streams and its running turn too; its own session as well as another.",
        access: OPERATOR,
        csrf: true,
        params: auth_methods::revoke_params,
        result: auth_methods::empty,
        errors: &[],
    },
    Method {
        name: "auth.set-password",
        summary: "Sets a role's password. The role's other sessions end. With new = null the viewers' is taken away, \
                  and nobody is a viewer.",
        access: OPERATOR,
        csrf: true,
        params: auth_methods::set_password_params,
        result: auth_methods::empty,
        errors: LOGIN_ERRORS,
    },
    Method {
        name: "assistant.chat",
        summary: "Asks the assistant and waits for the answer. The turn goes on when the caller hangs up; \
                  the same turn_id joins a running turn or finds its stored answer.",
        access: OPERATOR,
        csrf: true,
        params: assistant_schema::chat_params,
        result: assistant_schema::chat_result,
        errors: &[ErrorCode::TurnRunning, ErrorCode::TooManyTurns],
    },
    Method {
        name: "assistant.stop",
        summary: "Stops the calling session's running turn: model and tools.",
        access: OPERATOR,
        csrf: true,
        params: assistant_schema::stop_params,
        result: assistant_schema::stop_result,
        errors: &[],
    },
    Method {
        name: "assistant.history",
        summary: "The calling session's own transcript, oldest first, and its running turn.",
        access: OPERATOR,
        csrf: true,
        params: auth_methods::none,
        result: assistant_schema::history_result,
        errors: &[],
    },
    Method {
        name: "assistant.clear-history",
        summary: "Deletes the calling session's own transcript; a running turn is stopped first.",
        access: OPERATOR,
        csrf: true,
        params: auth_methods::none,
        result: auth_methods::empty,
        errors: &[ErrorCode::TurnRunning],
    },
    Method {
        name: "assistant.list-tools",
        summary: "The tools as this caller sees them.",
        access: OPERATOR,
        csrf: true,
        params: auth_methods::none,
        result: assistant_schema::tools_result,
        errors: &[],
    },
    Method {
        name: "assistant.grants-list",
        summary: "Who may use which tools: the operator, each contact, and from where each has it.",
        access: OPERATOR,
        csrf: true,
        params: auth_methods::none,
        result: assistant_grants::list_result,
        errors: &[],
    },
    Method {
        name: "assistant.grants-set",
        summary: "Gives a category to a caller or takes it, or sets how a tool may be used; in force at once, for \
                  running turns too. What is set replaces the configuration for that caller.",
        access: OPERATOR,
        csrf: true,
        params: assistant_grants::set_params,
        result: assistant_grants::list_result,
        errors: &[],
    },
    Method {
        name: "assistant.pending",
        summary: "The calls that wait for a confirmation, of all callers, with their exact arguments.",
        access: OPERATOR,
        csrf: true,
        params: auth_methods::none,
        result: assistant_grants::pending_result,
        errors: &[],
    },
    Method {
        name: "assistant.confirm-tool",
        summary: "Runs a waiting call, once, or drops it. What it gives goes to its caller without a model.",
        access: OPERATOR,
        csrf: true,
        params: assistant_grants::confirm_params,
        result: assistant_grants::confirm_result,
        errors: &[],
    },
    Method {
        name: "assistant.ledger",
        summary: "The last tool calls of all callers, the newest last; never with arguments or results.",
        access: OPERATOR,
        csrf: true,
        params: assistant_grants::ledger_params,
        result: assistant_grants::ledger_result,
        errors: &[],
    },
    Method {
        name: "mesh.assistant-status",
        summary: "Who is answered over the mesh, and by which models.",
        access: READERS,
        csrf: true,
        params: auth_methods::none,
        result: mesh::assistant_status_result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "mesh.status",
        summary: "The link, the radio, the queues and the airtime.",
        access: READERS,
        csrf: true,
        params: auth_methods::none,
        result: mesh::status_result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "mesh.nodes",
        summary: "The nodes that the radio knows. Names are untrusted text.",
        access: READERS,
        csrf: true,
        params: auth_methods::none,
        result: mesh::nodes_result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "mesh.messages",
        summary: "The last messages in and out, the newest last. Texts are untrusted.",
        access: READERS,
        csrf: true,
        params: mesh::messages_params,
        result: mesh::messages_result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "mesh.airtime",
        summary: "What was sent in the rolling hour, and what the law and the configuration leave.",
        access: READERS,
        csrf: true,
        params: auth_methods::none,
        result: mesh::airtime_result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "mesh.history",
        summary: "The last 24 hours for charts, the present one last.",
        access: READERS,
        csrf: true,
        params: auth_methods::none,
        result: history::result,
        errors: &[],
    },
    Method {
        name: "mesh.distress",
        summary: "Distress texts of peers, the newest first: those that nobody has cleared, and some of the others. Texts \
                  and names are untrusted.",
        access: READERS,
        csrf: true,
        params: auth_methods::none,
        result: distress::result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "mesh.distress-clear",
        summary: "Says that a person has seen this distress text. One that is cleared already stays as it was.",
        access: OPERATOR,
        csrf: true,
        params: distress::clear_params,
        result: distress::result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "mesh.stop-all",
        summary: "Stops every answer over the mesh: nothing is accepted and nothing leaves, across restarts, until \
                  it is called with resume.",
        access: OPERATOR,
        csrf: true,
        params: mesh::stop_all_params,
        result: mesh::stop_all_result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "mesh.radio-accept",
        summary: "Uses the radio that is refused now, because it is not the one used last, from now on.",
        access: OPERATOR,
        csrf: true,
        params: mesh::radio_accept_params,
        result: mesh::status_result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "mesh.assistant-configure",
        summary: "Changes who is answered: exactly one change a call, in force at once and across restarts. The result is \
                  that of mesh.assistant-status, with the warnings about this change.",
        access: OPERATOR,
        csrf: true,
        params: contacts::configure_params,
        result: mesh::assistant_status_result,
        errors: MAY_BE_REFUSED,
    },
    Method {
        name: "mesh.peer-accept-key",
        summary: "Decides on a key: takes a foreign key as the contact's, confirms a pinned one, or drops either. What \
                  waits for that contact's confirmation is void.",
        access: OPERATOR,
        csrf: true,
        params: contacts::accept_key_params,
        result: mesh::assistant_status_result,
        errors: MAY_BE_REFUSED,
    },
    Method {
        name: "mesh.pair",
        summary: "Opens a code, once and for ten minutes: whoever sends it back in an encrypted direct message is a \
                  contact of that name from then on, with that key. A new code voids the one before.",
        access: OPERATOR,
        csrf: true,
        params: contacts::pair_params,
        result: contacts::pair_result,
        errors: MAY_BE_REFUSED,
    },
    Method {
        name: "mesh.send",
        summary: "Sends one text of the operator's to one node, encrypted to its key, under the same airtime and pace as \
                  answers.",
        access: OPERATOR,
        csrf: true,
        params: contacts::send_params,
        result: contacts::send_result,
        errors: MAY_BE_REFUSED,
    },
    Method {
        name: "system.disk-status",
        summary: "Used and free space of the node's file systems: the handler that the tool calls.",
        access: READERS,
        csrf: true,
        params: auth_methods::none,
        result: system::disk_result,
        errors: MAY_BE_AWAY,
    },
    Method {
        name: "system.log",
        summary: "The last lines of the log at info and above, oldest first. Names in them are untrusted text.",
        access: OPERATOR,
        csrf: true,
        params: system::log_params,
        result: system::log_result,
        errors: &[],
    },
    Method {
        name: "system.info",
        summary: "Version, uptime, data folder, clock and the last backup.",
        access: READERS,
        csrf: true,
        params: auth_methods::none,
        result: system::info_result,
        errors: &[],
    },
];

/// A method by its exact name.
pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assistant_methods_require_session() {
        let open: Vec<&str> =
            METHODS.iter().filter(|m| m.access == Access::Open).map(|m| m.name).collect();
        assert_eq!(open, UNAUTHENTICATED_METHODS);
        let assistant: Vec<&Method> =
            METHODS.iter().filter(|m| m.name.starts_with("assistant.")).collect();
        assert_eq!(assistant.len(), 10);
        for method in assistant {
            assert!(matches!(method.access, Access::Session(roles) if !roles.is_empty()));
            assert!(method.csrf, "{}", method.name);
            assert!(!UNAUTHENTICATED_METHODS.contains(&method.name));
        }
    }

    #[test]
    fn only_login_setup_and_whoami_go_without_a_csrf_token() {
        let without: Vec<&str> = METHODS.iter().filter(|m| !m.csrf).map(|m| m.name).collect();
        assert_eq!(without, ["auth.login", "auth.setup", "auth.whoami"]);
    }

    #[test]
    fn a_name_stands_once_and_only_in_the_table_is_there_access() {
        for (index, method) in METHODS.iter().enumerate() {
            assert!(METHODS[..index].iter().all(|other| other.name != method.name));
            assert!(method.name.split_once('.').is_some());
        }
        assert!(METHODS.iter().all(|method| Role::Operator.can_access(method.name)));
        for role in Role::ALL {
            for unknown in ["", "auth.", "assistant.Chat", "assistant.chat ", "rpc.discover"] {
                assert!(!role.can_access(unknown), "{unknown}");
            }
        }
    }
}

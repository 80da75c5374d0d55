//! The contract of `GET /events`: the schema of each event's data.
//!
//! Owns these schemas. Tests compare what is sent with them.

use serde_json::{Map, Value, json};

use super::Changed;
use crate::rpc::schema::{count, flag, node_id, object, one_of, or_null, text};
use crate::rpc::{assistant_schema, mesh, system};

/// All events by their names, each with who sees it and the schema of its data.
pub fn events() -> Value {
    let everybody = &["operator", "viewer"][..];
    let operators = &["operator"][..];
    let rows: [(&str, &[&str], &str, Value); 8] = [
        (
            "hello",
            everybody,
            "First on every stream. Another `boot` than before: the daemon was started anew.",
            object(&[("boot", text("names this run of the daemon"))]),
        ),
        (
            "reset",
            everybody,
            "Events were missed, for instance after a long sleep: fetch everything again.",
            object(&[]),
        ),
        (
            "status",
            everybody,
            "Once at the beginning, then when it changes.",
            mesh::status_result(),
        ),
        (
            "mesh",
            everybody,
            "Something happened on the mesh. Names and texts are untrusted.",
            mesh_event(),
        ),
        ("turn", operators, "How a turn of this very session goes on.", turn()),
        (
            "pending",
            operators,
            "Calls that wait for a confirmation: fetch assistant.pending.",
            object(&[("count", count("how many"))]),
        ),
        (
            "changed",
            everybody,
            "Something changed that is fetched by RPC.",
            object(&[("what", one_of(&Changed::ALL.map(Changed::as_str)))]),
        ),
        ("log", operators, "A line of the log, as system.log has it.", system::log_line()),
    ];
    let rows: Map<String, Value> = rows
        .into_iter()
        .map(|(name, roles, summary, data)| {
            (name.to_owned(), json!({ "summary": summary, "roles": roles, "data": data }))
        })
        .collect();
    Value::Object(rows)
}

fn turn() -> Value {
    object(&[
        ("turn_id", assistant_schema::turn_id()),
        ("stage", one_of(&["thinking", "tool", "leg", "ended"])),
        ("leg?", text("of leg and ended: which")),
        ("tool?", text("of tool: as the model named it, untrusted text")),
        ("category?", assistant_schema::category()),
        (
            "outcome?",
            text(
                "of leg: answered or skipped; of tool: none while it runs, then as in assistant.chat; of ended: \
                 answered, stopped or failed",
            ),
        ),
    ])
}

/// One schema for each kind of event, told apart by `event`.
fn mesh_event() -> Value {
    let turn_id = || text("names the turn and its answer");
    let part = || count("from 1");
    let kind = |name: &str, members: Vec<(&str, Value)>| {
        let mut all = vec![("event", one_of(&[name])), ("at", count("Unix milliseconds"))];
        all.extend(members);
        object(&all)
    };
    let kinds = vec![
        kind("link", vec![("up", flag("is it up?")), ("detail", text("for people"))]),
        kind(
            "heard",
            vec![
                ("from", node_id()),
                ("name", text("the contact's name, or the node id")),
                ("assurance", mesh::assurance()),
                ("channel", or_null(text("the channel's name; null for a direct message"))),
                ("text", text("untrusted text")),
                ("ignored", or_null(text("why it is not answered; null when it was accepted"))),
            ],
        ),
        kind("turn_started", vec![("turn_id", turn_id()), ("name", text("who asked"))]),
        kind(
            "turn_ended",
            vec![
                ("turn_id", turn_id()),
                ("answered", flag("is there an answer, and not only why there is none?")),
                ("backend", text("the leg that answered; empty when none did")),
                ("tools", assistant_schema::tools()),
                ("millis", count("in all")),
                ("parts", count("of the answer")),
            ],
        ),
        kind(
            "part_sent",
            vec![
                ("reply", turn_id()),
                ("name", text("to whom")),
                ("id", count("the packet's id")),
                ("part", part()),
                ("of", count("how many parts")),
                ("bytes", count("of text")),
                ("airtime_us", count("one transmission, microseconds")),
                ("text", text("the part")),
            ],
        ),
        kind(
            "part_state",
            vec![
                ("reply", turn_id()),
                ("part", part()),
                ("of", count("how many parts")),
                ("delivery", mesh::delivery()),
            ],
        ),
        kind("paused", vec![("reason", or_null(text("why sending waits; null: it goes on")))]),
        kind(
            "distress",
            vec![
                ("id", text("as mesh.distress has it")),
                ("from", node_id()),
                ("name", text("the contact's name, or the node id")),
                ("assurance", mesh::assurance()),
                ("cleared", flag("false: it came; true: a person has seen it")),
            ],
        ),
        kind(
            "security",
            vec![
                ("kind", text("a word, such as foreign_key or replay")),
                ("from", node_id()),
                ("detail", text("for people")),
            ],
        ),
    ];
    json!({ "anyOf": kinds })
}

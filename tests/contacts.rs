//! The operator's authority over contacts while the daemon runs: over RPC, on the air, across restarts and new readings of
//! the configuration.

use serde_json::{Value, json};
use tombolo::node::NodeNum;
use tombolo::sim::{SayTo, key_for};

use crate::support::ollama::Answer;
use crate::support::world::{Operator, Wire, World, all_files, ana_is_a_contact};

const ANA: NodeNum = NodeNum(0xa1b2_c3d4);
const BEN: NodeNum = NodeNum(0xb0b0_b0b2);

async fn world(mesh: &str) -> (World, Operator) {
    let mut world = World::with(Wire::Tcp, mesh, |_| {}).await;
    world.ollama.set_default(Answer::text("noted"));
    world.start().await;
    let operator = world.operator().await;
    (world, operator)
}

async fn configure(operator: &Operator, change: Value) -> Value {
    operator.call("mesh.assistant-configure", change).await
}

fn contact<'a>(status: &'a Value, name: &str) -> &'a Value {
    let contacts = status["allowed_contacts"].as_array().unwrap();
    contacts.iter().find(|contact| contact["name"] == name).unwrap_or(&Value::Null)
}

fn add_ben() -> Value {
    json!({ "add_contact": { "id": BEN, "key": key_for("Ben").to_string(), "name": "Ben" } })
}

/// What Ana hears after her `ping`: everything that was said before it was answered, or never will be.
async fn ana_pings(world: &World, before: usize) {
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    world.heard("Ana", before + 1).await;
}

fn reload(world: &World) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(world.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
}

#[tokio::test]
async fn a_contact_is_added_while_the_daemon_runs_and_stays_one() {
    let (mut world, operator) = world(&ana_is_a_contact()).await;
    world.sim.say("Ben", SayTo::Direct, "!ai before");
    ana_pings(&world, 0).await;
    assert!(world.sim.heard("Ben").is_empty());

    let status = configure(&operator, add_ben()).await;
    let ben = contact(&status, "Ben");
    assert_eq!((&ben["pin"], &ben["source"]), (&json!("confirmed"), &json!("node")));
    assert_eq!(contact(&status, "Ana")["source"], "configuration");
    world.sim.say("Ben", SayTo::Direct, "!ai who");
    let who = &world.heard("Ben", 1).await[0].text;
    assert!(who.contains("verified. May use: system"), "{who}");

    // The configuration is read again, with a key that shows that it was; what was decided here stays.
    let text = std::fs::read_to_string(world.config_path()).unwrap();
    let text = text.replace("[mesh]", "[mesh]\ntrigger = \"!node\"");
    std::fs::write(world.config_path(), text).unwrap();
    reload(&world);
    world
        .until("it was read again", async |w: &World| {
            w.log().contains("configuration was read again")
        })
        .await;
    world.sim.say("Ben", SayTo::Direct, "!node ping");
    world.heard("Ben", 2).await;
    // And a restart.
    world.kill();
    world.start().await;
    world.sim.say("Ben", SayTo::Direct, "!node ping");
    world.heard("Ben", 3).await;

    let operator = world.operator().await;
    let status = configure(&operator, json!({ "remove_contact": { "id": BEN } })).await;
    assert!(contact(&status, "Ben").is_null());
    world.sim.say("Ben", SayTo::Direct, "!node after");
    world.sim.say("Ana", SayTo::Direct, "!node ping");
    world.heard("Ana", 2).await;
    assert_eq!(world.sim.heard("Ben").len(), 3);
    let record = std::fs::read_to_string(world.data_dir().join("changes.log")).unwrap();
    assert!(record.contains("contact added: Ben") && record.contains("contact removed: Ben"));
    assert!(record.contains("\"by\":\"operator "), "{record}");
}

#[tokio::test]
async fn a_suspended_contact_meets_silence_until_it_is_not_suspended_any_more() {
    let (mut world, operator) = world(&ana_is_a_contact()).await;
    configure(&operator, add_ben()).await;
    let status = configure(&operator, json!({ "suspend": { "id": ANA } })).await;
    assert_eq!(contact(&status, "Ana")["suspended"], true);
    world.kill();
    world.start().await;
    for text in ["!ai hello", "!ai help", "!ai stop"] {
        world.sim.say("Ana", SayTo::Direct, text);
    }
    world.sim.say("Ben", SayTo::Direct, "!ai ping");
    world.heard("Ben", 1).await;
    assert!(world.sim.heard("Ana").is_empty());
    let operator = world.operator().await;
    configure(&operator, json!({ "unsuspend": { "id": ANA } })).await;
    world.sim.say("Ana", SayTo::Direct, "!ai hello");
    assert_eq!(world.heard("Ana", 1).await[0].text, "noted");
}

#[tokio::test]
async fn a_new_peer_is_paired_by_the_code_and_asks_a_question() {
    let (world, operator) = world(&ana_is_a_contact()).await;
    let opened = operator.call("mesh.pair", json!({ "name": "Ben on the hill" })).await;
    let code = opened["code"].as_str().unwrap().to_owned();
    assert_eq!((code.len(), &opened["expires_in_s"]), (5, &json!(600)));
    // A wrong code of a stranger: silence, and the message list shows no code.
    let wrong = if code.starts_with('0') { "11111" } else { "00000" };
    world.sim.say("Mallory", SayTo::Direct, &format!("!ai pair {wrong}"));
    world.sim.say("Mallory", SayTo::Channel(1), &format!("!ai pair {code}"));
    world.sim.say("Ben", SayTo::Direct, &format!("!ai pair {code}"));
    assert_eq!(world.heard("Ben", 1).await[0].text, "Paired as Ben on the hill. Send: !ai help");
    world.sim.say("Ben", SayTo::Direct, "!ai a question");
    assert_eq!(world.heard("Ben", 2).await[1].text, "noted");
    assert!(world.sim.heard("Mallory").is_empty());

    let status = operator.call("mesh.assistant-status", json!({})).await;
    let ben = contact(&status, "Ben on the hill");
    assert_eq!((&ben["id"], &ben["pin"]), (&json!(BEN), &json!("confirmed")));
    assert_eq!(ben["fingerprint"], key_for("Ben").fingerprint());
    assert!(status["pairing"].is_null());
    // Once is once.
    world.sim.say("Mallory", SayTo::Direct, &format!("!ai pair {code}"));
    ana_pings(&world, 0).await;
    assert!(world.sim.heard("Mallory").is_empty());
    let messages = operator.call("mesh.messages", json!({})).await.to_string();
    assert!(messages.contains("pair …"), "{messages}");
    for (place, text) in
        [("messages", messages), ("log", world.log()), ("files", all_files(&world.data_dir()))]
    {
        assert!(!text.contains(&code), "the code is in the {place}");
    }
}

#[tokio::test]
async fn a_foreign_key_is_refused_and_another_is_accepted() {
    let (world, operator) = world(&ana_is_a_contact()).await;
    // Mallory has Ana's number, and our radio believes it.
    world.sim.learn_key(ANA, Some(key_for("Mallory")));
    world.sim.say_as("Mallory", ANA, SayTo::Direct, "!ai I am Ana");
    let foreign = async |world: &World, key: &str| {
        let status = operator.call("mesh.assistant-status", json!({})).await;
        let _ = world;
        contact(&status, "Ana")["foreign_fingerprint"] == key_for(key).fingerprint()
    };
    world.until("the foreign key is seen", async |w: &World| foreign(w, "Mallory").await).await;
    let decide = |key: &str, accept: bool| {
        json!({
            "id": ANA, "fingerprint": key_for(key).fingerprint(), "accept": accept,
            "pinned": key_for("Ana").fingerprint(),
        })
    };
    let stale = operator.refused("mesh.peer-accept-key", decide("Ben", true)).await;
    assert_eq!(
        (&stale["data"]["name"], &stale["data"]["field"]),
        (&json!("invalid_params"), &json!("fingerprint"))
    );
    let status = operator.call("mesh.peer-accept-key", decide("Mallory", false)).await;
    assert!(contact(&status, "Ana")["foreign_fingerprint"].is_null());
    // It is not told again; the real Ana is served as before.
    world.sim.say_as("Mallory", ANA, SayTo::Direct, "!ai I am Ana, really");
    world.sim.learn_key(ANA, Some(key_for("Ana")));
    ana_pings(&world, 0).await;
    assert!(!foreign(&world, "Mallory").await);

    // Ana has a new phone: another key under her number. The operator compares, and accepts.
    let new = key_for("Ana's new phone");
    world.sim.set_peer("Ana", |ana| ana.key = Some(new));
    world.sim.learn_key(ANA, Some(new));
    world.sim.say("Ana", SayTo::Direct, "!ai hello");
    world.until("it is seen", async |w: &World| foreign(w, "Ana's new phone").await).await;
    let status = operator.call("mesh.peer-accept-key", decide("Ana's new phone", true)).await;
    let ana = contact(&status, "Ana");
    assert_eq!(
        (&ana["pin"], &ana["fingerprint"]),
        (&json!("confirmed"), &json!(new.fingerprint()))
    );
    world.sim.say("Ana", SayTo::Direct, "!ai hello again");
    assert_eq!(world.heard("Ana", 2).await[1].text, "noted");
}

#[tokio::test]
async fn denial_wins_over_everything_and_over_a_code() {
    let (world, operator) = world(&format!("{}\ntrusted_only = false", ana_is_a_contact())).await;
    configure(&operator, add_ben()).await;
    let ben = json!({ "asker": key_for("Ben").to_string() });
    let status = configure(&operator, json!({ "deny": ben })).await;
    assert_eq!(contact(&status, "Ben")["denied"], true);
    assert_eq!(status["denied"][0]["source"], "node");
    let mallory = json!({ "asker": "!0badcafe" });
    configure(&operator, json!({ "deny": mallory })).await;
    let opened = operator.call("mesh.pair", json!({ "name": "Eve" })).await;
    let pair = format!("!ai pair {}", opened["code"].as_str().unwrap());
    for peer in ["Ben", "Mallory"] {
        for text in ["!ai hello", "!ai help", &pair] {
            world.sim.say(peer, SayTo::Direct, text);
        }
    }
    ana_pings(&world, 0).await;
    assert!(world.sim.heard("Ben").is_empty() && world.sim.heard("Mallory").is_empty());
    let status = configure(&operator, json!({ "undeny": ben })).await;
    assert!(contact(&status, "Eve").is_null());
    world.sim.say("Ben", SayTo::Direct, "!ai hello");
    assert_eq!(world.heard("Ben", 1).await[0].text, "noted");
}

#[tokio::test]
async fn a_text_of_the_operators_arrives_and_bad_input_names_its_field() {
    let (world, operator) = world(&ana_is_a_contact()).await;
    let sent = operator.call("mesh.send", json!({ "to": ANA, "text": "Storm at noon" })).await;
    assert_eq!(
        (&sent["bytes"], &sent["budget"], &sent["name"]),
        (&json!(13), &json!(200), &json!("Ana"))
    );
    assert_eq!(world.heard("Ana", 1).await[0].text, "Storm at noon");
    world
        .until("it is delivered", async |_: &World| {
            let rows = operator.call("mesh.messages", json!({})).await;
            rows["messages"][0]["delivery"]["state"] == "delivered"
        })
        .await;

    let file = world.config_path().display().to_string();
    for (method, params, code, field, part) in [
        (
            "mesh.send",
            json!({ "to": ANA, "text": "a".repeat(201) }),
            "invalid_params",
            "text",
            "201 bytes",
        ),
        ("mesh.send", json!({ "to": "Ana", "text": "x" }), "invalid_params", "to", "node id"),
        (
            "mesh.send",
            json!({ "to": "!00001234", "text": "x" }),
            "invalid_params",
            "to",
            "was heard",
        ),
        ("mesh.send", json!({ "to": ANA }), "invalid_params", "text", "missing"),
        (
            "mesh.send",
            json!({ "to": ANA, "text": "x", "now": 1 }),
            "invalid_params",
            "now",
            "no such field",
        ),
        ("mesh.pair", json!({}), "invalid_params", "name", "cancel"),
        ("mesh.pair", json!({ "name": "n".repeat(40) }), "invalid_params", "name", "39 bytes"),
        (
            "mesh.assistant-configure",
            json!({ "add_contact": { "id": BEN, "key": "short" } }),
            "invalid_params",
            "key",
            "44 characters",
        ),
        (
            "mesh.assistant-configure",
            json!({ "add_contact": { "id": BEN, "name": "B\u{202e}en" } }),
            "invalid_params",
            "name",
            "U+202E",
        ),
        (
            "mesh.assistant-configure",
            json!({ "remove_contact": { "id": ANA } }),
            "refused",
            "id",
            &file,
        ),
        (
            "mesh.assistant-configure",
            json!({ "undeny": { "asker": ANA } }),
            "invalid_params",
            "asker",
            "not denied",
        ),
        (
            "mesh.assistant-configure",
            json!({ "trusted_only": "yes" }),
            "invalid_params",
            "trusted_only",
            "true",
        ),
        (
            "mesh.assistant-configure",
            json!({ "suspend": ANA }),
            "invalid_params",
            "suspend",
            "object",
        ),
    ] {
        let error = operator.refused(method, params.clone()).await;
        let data = &error["data"];
        assert_eq!(
            (&data["name"], &data["field"]),
            (&json!(code), &json!(field)),
            "{params}: {error}"
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
    let both = json!({ "trusted_only": true, "enabled": true });
    let error = operator.refused("mesh.assistant-configure", both).await;
    assert!(error["message"].as_str().unwrap().contains("exactly one of"), "{error}");
    operator.call("mesh.stop-all", json!({})).await;
    let error = operator.refused("mesh.send", json!({ "to": ANA, "text": "x" })).await;
    assert_eq!(error["data"]["name"], "refused");
    assert!(error["message"].as_str().unwrap().contains("stopped"), "{error}");
}

#[tokio::test]
async fn a_name_that_looks_like_a_contacts_or_a_heard_nodes_is_warned_about() {
    let (_world, operator) = world(&ana_is_a_contact()).await;
    let status =
        configure(&operator, json!({ "add_contact": { "id": "!00001234", "name": "Αna" } })).await;
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains("looks like `Ana`") && warnings.contains("mixes"), "{warnings}");
    let named = json!({ "rename": { "id": "!00001234", "name": "Ma11ory" } });
    let status = configure(&operator, named).await;
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains("as the node !0badcafe calls itself"), "{warnings}");
}

#[tokio::test]
async fn the_model_is_chosen_at_the_node_and_the_answer_shows_it_at_once() {
    let (mut world, operator) = world(&ana_is_a_contact()).await;
    let other = json!({ "models": [{ "name": "toy:latest" }, { "name": "other:4b" }] });
    world.ollama.set_path("/api/tags", Answer::json(200, other));
    let status = operator.call("mesh.assistant-status", json!({})).await;
    assert_eq!(status["model"], json!({ "name": "toy", "source": "configuration" }));
    let error = operator.refused("mesh.assistant-configure", json!({ "model": "none" })).await;
    assert_eq!(error["data"]["field"], "model");
    assert!(error["message"].as_str().unwrap().contains("the server has toy:latest, other:4b"));

    let status = configure(&operator, json!({ "model": "other:4b" })).await;
    assert_eq!(status["model"], json!({ "name": "other:4b", "source": "node" }));
    world.kill();
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai hello");
    assert_eq!(world.heard("Ana", 1).await[0].text, "noted");
    let asked = world.ollama.requests_to("/api/chat");
    assert!(asked.iter().all(|request| request.body["model"] == "other:4b"));
    let record = std::fs::read_to_string(world.data_dir().join("changes.log")).unwrap();
    assert!(record.contains("model chosen: other:4b"), "{record}");
}

//! All tools together: what a node has of them, what they cost of a prompt, and that each keeps to its
//! schema.

use std::collections::BTreeSet;

use serde_json::json;

use super::network::{Airtime, Asked, KnownNode, Mesh};
use super::*;
use crate::assistant::tools::tests::schema_and_struct_agree;
use crate::assistant::{Assurance, CallerScope, PeerId, PermissionCategory, prompt};
use crate::config;

struct Silent;

impl Mesh for Silent {
    fn nodes(&self) -> Asked<'_, Vec<KnownNode>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn airtime(&self) -> Asked<'_, Airtime> {
        Box::pin(async { Ok(Airtime::default()) })
    }

    fn now(&self) -> u64 {
        0
    }
}

/// A set with its folder; `text` is the configuration's `[tools]`.
fn set(text: &str) -> (tempfile::TempDir, Arc<ToolSet>, ToolRegistry) {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("library")).unwrap();
    let text = text.replace("$T", temp.path().to_str().unwrap());
    let config = config::parse(&text, "t.toml", []).unwrap();
    let data_dir = temp.path().join("data");
    let sources = Sources {
        data_dir: data_dir.clone(),
        secrets: Secrets::open(&data_dir).unwrap(),
        ollama_url: "http://127.0.0.1:1".to_owned(),
        mesh: Arc::new(Silent),
        tracker: TaskTracker::new(),
        cancel: CancellationToken::new(),
    };
    let set = Arc::new(ToolSet::default());
    assert!(set.tools().is_empty());
    set.start(sources, &config.tools).unwrap();
    let registry = registry(&data_dir).with(set.tools());
    (temp, set, registry)
}

const EVERYTHING: &str = r#"
    [tools]
    services = [{ name = "mosquitto", restart = true }]
    folders = [{ path = "$T/library", writable = true }]
    documents = ["$T/library"]
    media = ["$T/library"]
    notes = "shared"
    wallet = "tips"
    [[tools.commands]]
    name = "tides"
    description = "Today's tides"
    command = ["/usr/local/bin/tides"]
    [tools.bitcoin]
"#;

#[tokio::test]
async fn every_tool_keeps_to_its_schema_and_says_what_it_needs() {
    let (_temp, _set, registry) = set(EVERYTHING);
    let mut destructive = Vec::new();
    for tool in registry.all() {
        schema_and_struct_agree(tool);
        assert!(tool.name.len() <= 64 && tool.description.len() <= 160, "{}", tool.name);
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        assert!(tool.name.bytes().all(fits), "{}", tool.name);
        if tool.destructive {
            destructive.push(tool.name.to_string());
        }
    }
    assert_eq!(
        destructive,
        [
            "app_tides",
            "files_edit",
            "notes_add",
            "notes_delete",
            "system_service_restart",
            "wallet_receive_address"
        ]
    );
    assert!(registry.unconfigured().is_empty());
    let mut named =
        names::of(&config::parse(&EVERYTHING.replace("$T", "/srv"), "t.toml", []).unwrap().tools);
    named.sort();
    let there: Vec<names::Name> = registry
        .all()
        .map(|tool| (tool.name.to_string(), tool.category, tool.destructive))
        .collect();
    assert_eq!(named, there);
    // Whatever can hold a stranger's words is marked.
    let own: Vec<&str> =
        registry.all().filter(|tool| !tool.foreign_results).map(|tool| &*tool.name).collect();
    assert_eq!(
        own,
        [
            "ai_models",
            "bitcoin_status",
            "files_edit",
            "mesh_airtime",
            "network_interfaces",
            "notes_add",
            "notes_delete",
            "system_disk_status",
            "system_service_restart",
            "system_status",
            "wallet_balance",
            "wallet_receive_address"
        ]
    );
}

#[tokio::test]
async fn a_category_with_nothing_configured_has_no_tool() {
    let (_temp, _set, registry) = set("");
    let unconfigured: BTreeSet<_> = registry.unconfigured().into_iter().collect();
    let there: BTreeSet<_> = registry.all().map(|tool| tool.category).collect();
    use PermissionCategory::*;
    assert_eq!(there, BTreeSet::from([System, Network, AiLocal]));
    assert_eq!(unconfigured, BTreeSet::from([Apps, Wallet, Files, Media, Search, Notes, Bitcoin]));
}

#[tokio::test]
async fn a_changed_configuration_changes_the_tools_and_a_bad_one_does_not() {
    let (temp, set, _) = set(EVERYTHING);
    let before = set.tools().len();
    let with = |text: String| config::parse(&text, "t.toml", []).unwrap().tools;
    std::os::unix::fs::symlink(temp.path().join("data"), temp.path().join("innocent")).unwrap();
    let bad = with(format!("[tools]\nfolders = [\"{}/innocent\"]", temp.path().display()));
    let error = set.reconfigure(&bad, "http://127.0.0.1:1").unwrap_err().to_string();
    assert!(error.contains("tools.folders") && error.contains("the node's own data"), "{error}");
    assert_eq!(set.tools().len(), before);
    set.reconfigure(&ToolsConfig::default(), "http://127.0.0.1:1").unwrap();
    assert!(set.tools().iter().all(|tool| tool.category != PermissionCategory::Files));
}

/// The prompt of a mesh peer with the default grant: system prompt and tools as Ollama is sent them, at four
/// bytes a token.
#[tokio::test]
async fn a_peers_prompt_is_small() {
    const MAX_TOKENS: usize = 350;
    let peer = CallerScope::Mesh {
        peer_id: PeerId("key:a".to_owned()),
        name: "Ana".to_owned(),
        assurance: Assurance::Verified,
        granted: [PermissionCategory::System].into(),
    };
    for (text, most) in [
        ("", MAX_TOKENS),
        ("[tools]\nservices = [{ name = \"gpsd\", restart = true }]", MAX_TOKENS),
    ] {
        let (_temp, _set, registry) = set(text);
        let tools: Vec<_> = registry
            .offered_to(&peer)
            .into_iter()
            .map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": tool.parameters
                }})
            })
            .collect();
        let bytes = prompt::system(&peer, Some(200), true).len() + json!(tools).to_string().len();
        println!("{} tools, {bytes} bytes, {} tokens", tools.len(), bytes.div_ceil(4));
        assert!(bytes.div_ceil(4) <= most, "{bytes} bytes");
    }
}

//! What is read, what is refused and in which words.

use super::*;
use crate::config::parse;

fn read(text: &str) -> Result<ToolsConfig, String> {
    parse(text, "t.toml", []).map(|config| config.tools).map_err(|e| e.to_string())
}

#[test]
fn the_documented_example_is_read() {
    let tools = read(EXAMPLE).unwrap();
    assert_eq!(tools.services[0].unit, "mosquitto.service");
    assert!(!tools.services[0].restart && tools.services[1].restart);
    assert_eq!(tools.folders[0].name, "plans");
    assert!(tools.folders[1].writable);
    assert_eq!(tools.notes, Some(Notes::Own));
    assert_eq!(tools.commands[0].timeout_s, Seconds(20));
    assert_eq!(read("").unwrap(), ToolsConfig::default());
}

/// The example of the operator guide.
pub(super) const EXAMPLE: &str = r#"
    [tools]
    services = ["mosquitto", { name = "gpsd.service", restart = true }]
    folders = ["/srv/plans", { path = "/srv/shared", name = "shared", writable = true }]
    documents = ["/srv/library"]
    media = ["/srv/photos"]
    notes = "own"
    wallet = "tips"
    [[tools.commands]]
    name = "tides"
    description = "Today's tides"
    command = ["/usr/local/bin/tides", "--today"]
    safe = true
    [tools.bitcoin]
    cookie = "/var/lib/bitcoind/.cookie"
"#;

#[test]
fn a_wrong_value_names_file_line_key_and_what_would_be_right() {
    for (text, line, words) in [
        ("[tools]\nfolder = []", 2, &["unknown key `folder`", "folders"][..]),
        ("[tools]\nfolders = [\"srv\"]", 2, &["tools.folders", "absolute path"]),
        ("[tools]\nfolders = [7]", 2, &["tools.folders", "/srv/library"]),
        ("[tools]\nfolders = [\"/\"]", 2, &["tools.folders", "whole machine", "/srv/library"]),
        (
            "[tools]\nmedia = [{ path = \"/\", name = \"all\" }]",
            2,
            &["tools.media", "whole machine", "/srv/library"],
        ),
        ("[tools]\nfolders = [\"/a/..\"]", 2, &["tools.folders", "name = "]),
        ("[tools]\nfolders = [\"/a/x\", \"/b/x\"]", 2, &["tools.folders", "one name"]),
        ("[tools]\nmedia = [\"/var/lib\"]", 2, &["tools.media", "secrets"]),
        ("[tools]\nmedia = [\"/var/lib/tombolo/secrets\"]", 2, &["tools.media", "secrets"]),
        ("[tools]\nmedia = [{ path = \"/m\", writable = true }]", 2, &["tools.folders"]),
        ("[tools]\nservices = [\"-H evil\"]", 2, &["tools.services", "mosquitto"]),
        ("[tools]\nservices = [\"a.mount\"]", 2, &["tools.services", ".service"]),
        ("[tools]\nservices = [\"a\", \"a.service\"]", 2, &["tools.services", "twice"]),
        ("[tools]\nnotes = \"mine\"", 2, &["tools.notes", "shared"]),
        ("[tools]\nwallet = \"x\"", 2, &["tools.wallet", "[tools.bitcoin]"]),
        ("[tools]\nwallet = \"../x\"\n[tools.bitcoin]", 2, &["tools.wallet", "letters"]),
        ("[tools.bitcoin]\nurl = \"http://10.0.0.1:8332\"", 2, &["tools.bitcoin.url", "clear"]),
        ("[tools.bitcoin]\nurl = \"8332\"", 2, &["tools.bitcoin.url", "http://host:port"]),
        (
            "[[tools.commands]]\nname = \"a-b\"\ndescription = \"x\"\ncommand = [\"/x\"]",
            2,
            &["tools.commands.name", "a-z"],
        ),
        (
            "[[tools.commands]]\nname = \"a\"\ndescription = \"x\"\ncommand = [\"x\"]",
            4,
            &["tools.commands.command", "absolute path"],
        ),
        (
            "[[tools.commands]]\nname = \"a\"\ndescription = \"x\"\ncommand = [\"/x\"]\ntimeout_s = 121",
            5,
            &["tools.commands.timeout_s", "1 to 120"],
        ),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.starts_with(&format!("t.toml:{line}: ")), "{text}: {error}");
        for word in words {
            assert!(error.contains(word), "{text}: {error} lacks {word}");
        }
    }
}

#[test]
fn limits_come_in_pairs() {
    let command = |name: &str, seconds: u64, words: usize| {
        let arguments = vec!["\"/x\""; words].join(", ");
        format!(
            "[[tools.commands]]\nname = \"{name}\"\ndescription = \"x\"\ncommand = [{arguments}]\ntimeout_s = {seconds}"
        )
    };
    let folders = |count: usize| {
        let list: Vec<String> = (0..count).map(|i| format!("\"/srv/{i}\"")).collect();
        format!("[tools]\nfolders = [{}]", list.join(", "))
    };
    for (text, good) in [
        (command(&"a".repeat(32), 120, 32), true),
        (command(&"a".repeat(33), 120, 32), false),
        (command("a", 1, 1), true),
        (command("a", 0, 1), false),
        (command("a", 121, 1), false),
        (command("a", 1, 33), false),
        (folders(32), true),
        (folders(33), false),
    ] {
        assert_eq!(read(&text).is_ok(), good, "{text}");
    }
}

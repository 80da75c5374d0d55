//! `tombolo check`: a line for each part, and exit code 1 where one fails.

use serde_json::json;
use tokio::net::TcpListener;
use tombolo::sim::SimConfig;

use crate::support::machine::{
    Machine, failed, line, listing, model_server, on_pty, on_tcp, out, secret,
};

#[tokio::test]
async fn a_machine_that_is_ready_passes_the_check() {
    let (_sim, path, _cancel) = on_pty();
    let (_server, model) = model_server().await;
    let machine = Machine::new(&format!("[radio]\nport = \"{}\"\n{model}", path.display()));
    secret(&machine, "claude-api-key", 0o600);
    let before = listing(&machine.data());
    let output = machine.run(&["check"]).await;
    let text = out(&output);
    assert!(output.status.success(), "{text}");
    for starts in ["ok     configuration", "ok     data folder", "ok     claude", "ok     radio"] {
        line(&text, starts);
    }
    assert!(line(&text, "ok     radio").contains("firmware 2.7.26"), "{text}");
    assert!(line(&text, "ok     ollama").contains("can call tools"), "{text}");
    assert!(!text.contains("sk-canary"));
    assert_eq!(listing(&machine.data()), before, "a check makes nothing");
}

#[tokio::test]
async fn each_part_that_is_not_ready_fails_the_check_by_itself() {
    use std::os::unix::fs::PermissionsExt as _;
    let (server, model) = model_server().await;
    let unset = {
        let mut config = SimConfig::default();
        config.lora.region = 0;
        config
    };
    let old = SimConfig { firmware: "2.7.14.aaaaaaa".to_owned(), ..SimConfig::default() };
    for (config, words) in [(unset, "region is set"), (old, "2.7.15")] {
        let (_sim, port, _cancel) = on_tcp(config).await;
        let machine = Machine::new(&format!("[radio]\nport = \"{port}\"\n{model}"));
        let output = machine.run(&["check"]).await;
        let text = out(&output);
        assert_eq!((output.status.code(), failed(&text)), (Some(1), vec!["radio"]), "{text}");
        assert!(text.contains(words), "{text}");
    }

    let simulated = format!("[radio]\nport = \"sim\"\n{model}");
    let machine = Machine::new(&simulated);
    assert!(machine.run(&["check"]).await.status.success());
    secret(&machine, "claude-api-key", 0o644);
    let text = out(&machine.run(&["check"]).await);
    assert_eq!(failed(&text), ["secrets"], "{text}");
    assert!(text.contains("chmod 600") && !text.contains("sk-canary"), "{text}");

    let machine = Machine::new(&simulated);
    std::fs::set_permissions(machine.data(), std::fs::Permissions::from_mode(0o750)).unwrap();
    let text = out(&machine.run(&["check"]).await);
    assert_eq!(failed(&text), ["data folder"], "{text}");

    let other = simulated.replace("\"toy\"", "\"another:7b\"");
    let text = out(&Machine::new(&other).run(&["check"]).await);
    assert_eq!(failed(&text), ["ollama"], "{text}");
    assert!(text.contains("ollama pull another:7b"), "{text}");

    server.set_show(200, json!({"capabilities": ["completion"]}));
    let output = Machine::new(&simulated).run(&["check"]).await;
    assert!(output.status.success());
    assert!(line(&out(&output), "note   ollama").contains("can't call tools"));

    let nowhere = "[radio]\nport = \"sim\"\n[assistant.ollama]\nurl = \"http://127.0.0.1:9\"\n";
    let text = out(&Machine::new(nowhere).run(&["check"]).await);
    assert_eq!(failed(&text), ["ollama"], "{text}");
}

#[tokio::test]
async fn a_file_or_a_program_that_the_node_needs_and_that_is_not_as_it_should_be_fails_the_check() {
    let (_server, model) = model_server().await;
    let simulated = format!("[radio]\nport = \"sim\"\n{model}");
    for (file, words) in [
        ("contacts.json", "the daemon does not start with it"),
        ("grants.json", "nobody has any grants"),
        ("settings.json", "the model of the configuration is used"),
        ("sessions.json", "everybody must log in again"),
        #[cfg(feature = "mcp")]
        ("mcp.json", "every foreign tool waits"),
    ] {
        let machine = Machine::new(&simulated);
        let path = machine.data().join(file);
        std::fs::write(&path, "{ broken").unwrap();
        let output = machine.run(&["check"]).await;
        let text = out(&output);
        assert_eq!((output.status.code(), failed(&text)), (Some(1), vec![file]), "{text}");
        assert!(line(&text, &format!("FAILED {file}")).contains(words), "{text}");
        assert_eq!(listing(&machine.data()), [path], "a check changes nothing");
    }
    let pause = "[tools]\nservices = [\"tombolo-no-such\"]\n";
    let output = Machine::new(&format!("{simulated}{pause}")).run(&["check"]).await;
    let text = out(&output);
    // A machine without systemd can't say which services it has.
    let there =
        text.contains("FAILED services") && text.contains("this machine has no tombolo-no-such");
    assert!(there || text.contains("note   services"), "{text}");
    for (config, part, words) in [
        (
            "[tools.bitcoin]\ncookie = \"/nowhere/.cookie\"\n",
            "bitcoin",
            "can't read /nowhere/.cookie",
        ),
        #[cfg(feature = "mcp")]
        (
            "[[mcp]]\nname = \"toy\"\ncommand = [\"/nowhere/toy\"]\n",
            "mcp",
            "toy: there is no program /nowhere/toy",
        ),
        #[cfg(feature = "mcp")]
        (
            "[[mcp]]\nname = \"toy\"\nurl = \"http://127.0.0.1:9/mcp\"\n",
            "mcp",
            "toy: http://127.0.0.1:9/mcp",
        ),
    ] {
        let output = Machine::new(&format!("{simulated}{config}")).run(&["check"]).await;
        let text = out(&output);
        assert_eq!((output.status.code(), failed(&text)), (Some(1), vec![part]), "{text}");
        assert!(text.contains(words), "{text}");
    }
    #[cfg(feature = "mcp")]
    for (tools, words) in [
        ("", "no tool of it is named in [[mcp.tools]]"),
        ("[[mcp.tools]]\nname = \"a\"\n", "for want of category or destructive: a"),
        (
            "[[mcp.tools]]\nname = \"a\"\ncategory = \"search\"\ndestructive = false\n",
            "it was not started",
        ),
    ] {
        let config =
            format!("{simulated}[[mcp]]\nname = \"toy\"\ncommand = [\"/bin/true\"]\n{tools}");
        let output = Machine::new(&config).run(&["check"]).await;
        let text = out(&output);
        assert!(output.status.success() && text.contains(words), "{text}");
    }
    // The Bitcoin node answers, and then it refuses the password.
    for (status, words) in [(200, "ok     bitcoin"), (401, "FAILED bitcoin")] {
        let app = axum::Router::new().fallback(
            move |axum::Json(asked): axum::Json<serde_json::Value>| async move {
                let result = match asked["method"].as_str() {
                    Some("getblockchaininfo") => {
                        json!({"chain": "main", "blocks": 9, "headers": 9})
                    }
                    _ => json!({}),
                };
                let status = axum::http::StatusCode::from_u16(status).unwrap();
                (status, axum::Json(json!({"result": result, "error": null})))
            },
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let machine = Machine::new(&format!(
            "{simulated}[tools]\nwallet = \"tips\"\n[tools.bitcoin]\nurl = \"{url}\"\n"
        ));
        secret(&machine, "bitcoin-rpc", 0o600);
        std::fs::write(machine.data().join("secrets/bitcoin-rpc"), "user:sk-canary").unwrap();
        let text = out(&machine.run(&["check"]).await);
        assert!(text.contains(words) && !text.contains("sk-canary"), "{text}");
    }
}

#[tokio::test]
async fn without_a_local_model_a_key_for_another_leg_is_enough_where_everybody_may_use_it() {
    let nowhere = "[radio]\nport = \"sim\"\n[assistant.ollama]\nurl = \"http://127.0.0.1:9\"\n";
    let openai = "[assistant.openai]\nurl = \"https://models.example/v1\"\nmodel = \"toy\"\n";
    for (key, leg, more) in
        [("claude-api-key", "Claude", ""), ("openai-api-key", "OpenAI-compatible", openai)]
    {
        let machine = Machine::new(&format!("{nowhere}{more}"));
        secret(&machine, key, 0o600);
        let output = machine.run(&["check"]).await;
        let text = out(&output);
        assert!(output.status.success(), "{key}: {text}");
        let words = line(&text, "note   ollama");
        assert!(words.contains("is Ollama running?") && words.contains(leg), "{words}");
    }
    // Peers' questions have nowhere to go.
    for cloud in ["operator", "none"] {
        let machine = Machine::new(&format!("{nowhere}[assistant]\ncloud = \"{cloud}\"\n"));
        secret(&machine, "claude-api-key", 0o600);
        assert_eq!(failed(&out(&machine.run(&["check"]).await)), ["ollama"], "{cloud}");
    }
}

#[tokio::test]
async fn another_radio_than_the_one_used_last_fails_the_check() {
    let (_sim, port, _cancel) = on_tcp(SimConfig::default()).await;
    let (_server, model) = model_server().await;
    let machine = Machine::new(&format!("[radio]\nport = \"{port}\"\n{model}"));
    let file = machine.data().join("radio.json");
    let key = tombolo::sim::key_for("Another");
    std::fs::write(&file, json!({"key": key.to_string(), "node": "!70b01001"}).to_string())
        .unwrap();
    let text = out(&machine.run(&["check"]).await);
    assert_eq!(failed(&text), ["radio"], "{text}");
    assert!(text.contains("another radio") && text.contains("tombolo radio accept"), "{text}");
    let key = tombolo::sim::key_for("Tombolo Node");
    std::fs::write(&file, json!({"key": key.to_string(), "node": "!00000009"}).to_string())
        .unwrap();
    assert!(machine.run(&["check"]).await.status.success());
    std::fs::write(&file, "{").unwrap();
    let text = out(&machine.run(&["check"]).await);
    assert_eq!(failed(&text), ["radio"], "{text}");
    assert!(text.contains("radio.json") && text.contains("move it away"), "{text}");
}

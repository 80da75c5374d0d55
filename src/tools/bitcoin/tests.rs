//! A scripted bitcoind: what is asked of it, and what callers are told.

use std::sync::Mutex;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::{Json, Router};

use super::*;
use crate::assistant::ToolOutcome;
use crate::tools::fixture::Caller;

type Log = Arc<Mutex<Vec<String>>>;

/// Answers as bitcoind does, and notes path and method of each request.
async fn bitcoind(log: Log) -> String {
    async fn answer(
        State(log): State<Log>,
        uri: Uri,
        headers: HeaderMap,
        Json(body): Json<Value>,
    ) -> (StatusCode, Json<Value>) {
        // rpcuser:pass1 in base64
        if headers["authorization"] != "Basic cnBjdXNlcjpwYXNzMQ==" {
            return (StatusCode::UNAUTHORIZED, Json(Value::Null));
        }
        let method = body["method"].as_str().unwrap().to_owned();
        log.lock().unwrap().push(format!("{} {method} {}", uri.path(), body["params"]));
        let result = match method.as_str() {
            "getblockchaininfo" => json!({
                "chain": "main", "blocks": 900_000, "headers": 900_001, "verificationprogress": 0.99999,
                "initialblockdownload": false, "size_on_disk": 700_000_000_000_u64, "pruned": false
            }),
            "getnetworkinfo" => json!({"connections": 10, "subversion": "/Satoshi:29.0.0/"}),
            "getmempoolinfo" => json!({"size": 1234}),
            "estimatesmartfee" => json!({"feerate": 0.00012}),
            "getbalances" => {
                json!({"mine": {"trusted": 0.1, "untrusted_pending": 0.00000001, "immature": 0.0}})
            }
            "getnewaddress" if uri.path() == "/wallet/tips" => {
                json!("bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq")
            }
            _ => {
                let error = json!({"code": -18, "message": "Requested wallet\n does not exist"});
                let body = json!({"result": null, "error": error});
                return (StatusCode::INTERNAL_SERVER_ERROR, Json(body));
            }
        };
        (StatusCode::OK, Json(json!({"result": result, "error": null})))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(log);
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

struct World {
    temp: tempfile::TempDir,
    url: String,
    log: Log,
}

impl World {
    async fn new() -> World {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("cookie"), "rpcuser:pass1\n").unwrap();
        let log = Log::default();
        World { url: bitcoind(log.clone()).await, log, temp }
    }

    fn caller(&self, wallet: &str, cookie: Option<&str>) -> Caller {
        let secrets = Secrets::open(&self.temp.path().join("data")).unwrap();
        let cookie = cookie.map(|name| self.temp.path().join(name));
        let config = Bitcoin { url: self.url.clone(), cookie };
        let mut caller =
            Caller::of(tools(Some(&config), Some(wallet), &secrets), PermissionCategory::Wallet);
        caller.scope = crate::assistant::CallerScope::LocalOperator {
            session_id: crate::assistant::SessionId("s".to_owned()),
            granted: [PermissionCategory::Wallet, PermissionCategory::Bitcoin].into(),
        };
        caller
    }
}

#[tokio::test]
async fn the_nodes_state_and_the_wallets_balance_are_told() {
    let world = World::new().await;
    let caller = world.caller("tips", Some("cookie"));
    let (outcome, words) = caller.run("bitcoin_status", json!({})).await;
    assert_eq!(outcome, ToolOutcome::Ran, "{words}");
    assert_eq!(
        words,
        "chain: main, block 900000 of 900001\nup to date\non disk: 700.0 GB\npeers: 10 (/Satoshi:29.0.0/)\n\
         mempool: 1234 transactions\nfee for 6 blocks: 12.0 sat/vB"
    );
    let (_, words) = caller.run("wallet_balance", json!({})).await;
    assert_eq!(words, "0.10000000 BTC, and 0.00000001 BTC not confirmed yet");
    assert!(world.log.lock().unwrap().contains(&"/wallet/tips getbalances []".to_owned()));
}

#[tokio::test]
async fn a_new_address_needs_a_confirmation_and_nothing_spends() {
    let world = World::new().await;
    let caller = world.caller("tips", Some("cookie"));
    let (outcome, _) = caller.without_gate("wallet_receive_address", json!({})).await;
    assert_eq!(outcome, ToolOutcome::NeedsConfirmation);
    assert!(world.log.lock().unwrap().is_empty());
    let (_, address) = caller.run("wallet_receive_address", json!({})).await;
    assert_eq!(address, "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq");
    let names: Vec<String> = caller.registry.all().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["bitcoin_status", "wallet_balance", "wallet_receive_address"]);
    for tool in names {
        let (outcome, _) = caller.run(&tool, json!({"method": "sendtoaddress"})).await;
        assert_eq!(outcome, ToolOutcome::BadArguments);
    }
}

#[tokio::test]
async fn what_is_wrong_is_told_without_the_password_and_the_address() {
    let world = World::new().await;
    let (outcome, words) =
        world.caller("other", Some("cookie")).run("wallet_receive_address", json!({})).await;
    assert_eq!(outcome, ToolOutcome::Failed);
    assert!(words.contains("the Bitcoin node says: Requested wallet does not exist"), "{words}");
    std::fs::write(world.temp.path().join("wrong"), "rpcuser:pass2").unwrap();
    std::fs::write(world.temp.path().join("odd"), "secretwithoutcolon").unwrap();
    for (cookie, reason) in [
        (Some("wrong"), "refuses this password"),
        (Some("odd"), "not written as user:password"),
        (Some("none"), "cookie file can't be read"),
        (None, "the secret bitcoin-rpc"),
    ] {
        let (outcome, words) = world.caller("tips", cookie).run("bitcoin_status", json!({})).await;
        assert_eq!(outcome, ToolOutcome::Failed);
        assert!(words.contains(reason), "{words}");
        for secret in ["pass2", "secretwithoutcolon", "127.0.0.1"] {
            assert!(!words.contains(secret), "{words}");
        }
    }
    let secrets = Secrets::open(&world.temp.path().join("data")).unwrap();
    secrets.write(SecretName::BitcoinRpc, &Secret::new("rpcuser:pass1")).unwrap();
    assert_eq!(
        world.caller("tips", None).run("bitcoin_status", json!({})).await.0,
        ToolOutcome::Ran
    );
}

#[test]
fn without_a_node_there_is_no_tool_and_without_a_wallet_none_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let secrets = Secrets::open(temp.path()).unwrap();
    assert!(tools(None, Some("x"), &secrets).is_empty());
    assert_eq!(tools(Some(&Bitcoin::default()), None, &secrets).len(), 1);
}

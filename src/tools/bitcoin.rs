//! `bitcoin` and `wallet`: what a Bitcoin node of the operator's says of itself and of one of its wallets.
//!
//! Owns the tools and the requests, a fixed list of methods without a parameter of a model's. There is no
//! method that spends, signs or shows a key, and none can be named. The password comes from the node's
//! cookie file, read anew each time for it changes at each start, or from the secrets.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::system::size;
use crate::assistant::PermissionCategory;
use crate::assistant::http::{HttpClient, exchange};
use crate::assistant::tools::{Description, ToolDef};
use crate::config::tools::Bitcoin;
use crate::secrets::{Secret, SecretName, Secrets};

/// A node that is busy with a block may need some seconds.
const TIME: Duration = Duration::from_secs(15);
/// Bytes of a cookie file.
const MAX_COOKIE: u64 = 4096;
/// Characters of the node's own words.
const MAX_WORDS: usize = 200;
/// Blocks within which the fee that is told should be enough.
const FEE_BLOCKS: u32 = 6;

/// The node.
struct Node {
    url: String,
    http: HttpClient,
    cookie: Option<PathBuf>,
    secrets: Secrets,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// All of both categories; none without a node.
pub(super) fn tools(
    config: Option<&Bitcoin>,
    wallet: Option<&str>,
    secrets: &Secrets,
) -> Vec<ToolDef> {
    let Some(config) = config else { return Vec::new() };
    let node = Arc::new(Node {
        url: config.url.trim_end_matches('/').to_owned(),
        http: HttpClient::new(&config.url),
        cookie: config.cookie.clone(),
        secrets: secrets.clone(),
    });
    let mut tools = vec![status_tool(node.clone())];
    if let Some(wallet) = wallet {
        // A wallet's name is a part of the path; the configuration lets only plain letters through.
        let path = format!("/wallet/{}", wallet.replace(' ', "%20"));
        tools.push(balance_tool(node.clone(), path.clone()));
        tools.push(address_tool(node, path));
    }
    tools
}

fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

fn status_tool(node: Arc<Node>) -> ToolDef {
    let about = Description {
        name: "bitcoin_status",
        description: "State of this node's Bitcoin node: blocks, sync, peers, mempool, fee.",
        parameters: no_parameters(),
        category: PermissionCategory::Bitcoin,
        destructive: false,
    };
    ToolDef::new(about, move |NoArguments {}| {
        let node = node.clone();
        Box::pin(async move { node.status().await })
    })
}

fn balance_tool(node: Arc<Node>, wallet: String) -> ToolDef {
    let about = Description {
        name: "wallet_balance",
        description: "Balance of this node's Bitcoin wallet.",
        parameters: no_parameters(),
        category: PermissionCategory::Wallet,
        destructive: false,
    };
    ToolDef::new(about, move |NoArguments {}| {
        let (node, wallet) = (node.clone(), wallet.clone());
        Box::pin(async move { Ok(balance(&node.ask(&wallet, "getbalances", json!([])).await?)) })
    })
}

fn address_tool(node: Arc<Node>, wallet: String) -> ToolDef {
    let about = Description {
        name: "wallet_receive_address",
        description: "A new address to be paid at.",
        parameters: no_parameters(),
        category: PermissionCategory::Wallet,
        // It uses up an address of the wallet, and people will send money there.
        destructive: true,
    };
    ToolDef::new(about, move |NoArguments {}| {
        let (node, wallet) = (node.clone(), wallet.clone());
        Box::pin(async move {
            let answer = node.ask(&wallet, "getnewaddress", json!([])).await?;
            match answer.as_str() {
                Some(address)
                    if (20..=100).contains(&address.len())
                        && address.bytes().all(|b| b.is_ascii_alphanumeric()) =>
                {
                    Ok(address.to_owned())
                }
                _ => Err("the node gave no address".to_owned()),
            }
        })
    })
}

impl Node {
    async fn status(&self) -> Result<String, String> {
        let chain = self.ask("", "getblockchaininfo", json!([])).await?;
        let (network, pool, fee) = tokio::join!(
            self.ask("", "getnetworkinfo", json!([])),
            self.ask("", "getmempoolinfo", json!([])),
            self.ask("", "estimatesmartfee", json!([FEE_BLOCKS])),
        );
        let mut lines = vec![format!(
            "chain: {}, block {} of {}",
            word(&chain["chain"]),
            chain["blocks"],
            chain["headers"]
        )];
        let progress = chain["verificationprogress"].as_f64().unwrap_or(0.0) * 100.0;
        if chain["initialblockdownload"] == true {
            lines.push(format!("still catching up: {progress:.2} %"));
        } else {
            lines.push("up to date".to_owned());
        }
        if let Some(bytes) = chain["size_on_disk"].as_u64() {
            let pruned = if chain["pruned"] == true { ", pruned" } else { "" };
            lines.push(format!("on disk: {}{pruned}", size(bytes)));
        }
        // What one of the others doesn't say is left out.
        if let Ok(network) = network {
            lines.push(format!(
                "peers: {} ({})",
                network["connections"],
                word(&network["subversion"])
            ));
        }
        if let Ok(pool) = pool {
            lines.push(format!("mempool: {} transactions", pool["size"]));
        }
        if let Some(rate) = fee.ok().and_then(|fee| fee["feerate"].as_f64()) {
            // From bitcoin a kilobyte to satoshi a byte.
            lines.push(format!("fee for {FEE_BLOCKS} blocks: {:.1} sat/vB", rate * 100_000.0));
        }
        Ok(lines.join("\n"))
    }

    async fn ask(&self, path: &str, method: &str, params: Value) -> Result<Value, String> {
        let unreachable = || "the Bitcoin node can't be reached".to_owned();
        let login = self.login().await?;
        let (user, password) = login
            .expose()
            .split_once(':')
            .ok_or("the Bitcoin node's password is not written as user:password")?;
        let request = self
            .http
            .get()
            .map_err(|_| unreachable())?
            .post(format!("{}{path}", self.url))
            .basic_auth(user, Some(password))
            .json(&json!({"jsonrpc": "1.0", "id": "tombolo", "method": method, "params": params}));
        let reply = exchange(request, TIME).await.map_err(|_| unreachable())?;
        if matches!(reply.status, 401 | 403) {
            return Err("the Bitcoin node refuses this password, or this machine".to_owned());
        }
        // An error of a method comes with status 500 and a body like any other.
        let mut body = reply.json().ok_or("the Bitcoin node's answer can't be read")?;
        if let Some(words) = body["error"]["message"].as_str() {
            let words: String = words.chars().filter(|c| !c.is_control()).take(MAX_WORDS).collect();
            return Err(format!("the Bitcoin node says: {words}"));
        }
        match body["result"].take() {
            Value::Null => Err("the Bitcoin node's answer can't be read".to_owned()),
            result => Ok(result),
        }
    }

    /// `user:password`
    async fn login(&self) -> Result<Secret, String> {
        let Some(path) = self.cookie.clone() else {
            let secret = self.secrets.read(SecretName::BitcoinRpc).ok().flatten();
            return secret.ok_or_else(|| {
                "no password for the Bitcoin node: set tools.bitcoin.cookie, or the secret bitcoin-rpc"
                    .to_owned()
            });
        };
        super::blocking(move || {
            cookie(&path).ok_or_else(|| {
                "the Bitcoin node's cookie file can't be read; is it running, and may this user read it?"
                    .to_owned()
            })
        })
        .await
    }
}

fn cookie(path: &Path) -> Option<Secret> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(MAX_COOKIE).read_to_string(&mut text).ok()?;
    Some(Secret::new(text.trim()))
}

fn balance(answer: &Value) -> String {
    let mine = &answer["mine"];
    let amount = |name: &str| mine[name].as_f64().unwrap_or(0.0);
    let mut words = format!("{:.8} BTC", amount("trusted"));
    for (name, what) in [("untrusted_pending", "not confirmed yet"), ("immature", "not mature yet")]
    {
        if amount(name) > 0.0 {
            words.push_str(&format!(", and {:.8} BTC {what}", amount(name)));
        }
    }
    words
}

/// A text of the node's as one bounded word.
fn word(value: &Value) -> String {
    let text = value.as_str().unwrap_or("?");
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
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
                    let error =
                        json!({"code": -18, "message": "Requested wallet\n does not exist"});
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
            let mut caller = Caller::of(
                tools(Some(&config), Some(wallet), &secrets),
                PermissionCategory::Wallet,
            );
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
        assert!(
            words.contains("the Bitcoin node says: Requested wallet does not exist"),
            "{words}"
        );
        std::fs::write(world.temp.path().join("wrong"), "rpcuser:pass2").unwrap();
        std::fs::write(world.temp.path().join("odd"), "secretwithoutcolon").unwrap();
        for (cookie, reason) in [
            (Some("wrong"), "refuses this password"),
            (Some("odd"), "not written as user:password"),
            (Some("none"), "cookie file can't be read"),
            (None, "the secret bitcoin-rpc"),
        ] {
            let (outcome, words) =
                world.caller("tips", cookie).run("bitcoin_status", json!({})).await;
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
}

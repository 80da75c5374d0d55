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
use crate::invisible;
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
    let node = Arc::new(Node::new(config, secrets));
    let mut tools = vec![status_tool(node.clone())];
    if let Some(wallet) = wallet {
        let path = wallet_path(wallet);
        tools.push(balance_tool(node.clone(), path.clone()));
        tools.push(address_tool(node, path));
    }
    tools
}

/// Does the node answer, and its wallet where one is named? In one line how far it is, or why not.
pub async fn probe(
    config: &Bitcoin,
    wallet: Option<&str>,
    secrets: &Secrets,
) -> Result<String, String> {
    let node = Node::new(config, secrets);
    let status = node.status().await?;
    if let Some(wallet) = wallet {
        node.ask(&wallet_path(wallet), "getbalances", json!([])).await.map_err(|why| {
            format!("the node is there, and its wallet \"{wallet}\" can't be used: {why}")
        })?;
    }
    Ok(status.lines().take(2).collect::<Vec<_>>().join(", "))
}

/// A wallet's name is a part of the path; the configuration lets only plain letters through.
fn wallet_path(wallet: &str) -> String {
    format!("/wallet/{}", wallet.replace(' ', "%20"))
}

fn status_tool(node: Arc<Node>) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Bitcoin,
        "bitcoin_status",
        "State of this node's Bitcoin node: blocks, sync, peers, mempool, fee.",
    );
    ToolDef::new(about, move |NoArguments {}| {
        let node = node.clone();
        Box::pin(async move { node.status().await })
    })
    .with_own_results()
}

fn balance_tool(node: Arc<Node>, wallet: String) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Wallet,
        "wallet_balance",
        "Balance of this node's Bitcoin wallet.",
    );
    ToolDef::new(about, move |NoArguments {}| {
        let (node, wallet) = (node.clone(), wallet.clone());
        Box::pin(async move { Ok(balance(&node.ask(&wallet, "getbalances", json!([])).await?)) })
    })
    .with_own_results()
}

fn address_tool(node: Arc<Node>, wallet: String) -> ToolDef {
    // It uses up an address of the wallet, and people will send money there.
    let about = Description::changes(
        PermissionCategory::Wallet,
        "wallet_receive_address",
        "A new address to be paid at.",
    );
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
    .with_own_results()
}

impl Node {
    fn new(config: &Bitcoin, secrets: &Secrets) -> Node {
        Node {
            url: config.url.trim_end_matches('/').to_owned(),
            http: HttpClient::new(&config.url),
            cookie: config.cookie.clone(),
            secrets: secrets.clone(),
        }
    }

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
            let words = invisible::word(words, MAX_WORDS);
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
    invisible::word(text, 60)
}

#[cfg(test)]
mod tests;

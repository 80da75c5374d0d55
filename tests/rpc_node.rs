//! The web server of the daemon on a real port, with a scripted mesh side behind it, and a client that
//! sends exactly the bytes it is told to.
//!
//! Owns starting and asking. Judges nothing.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tombolo::assistant::{
    Assistant, Assurance, PermissionCategory, ToolOutcome, ToolRecord, TurnId,
};
use tombolo::config::Config;
use tombolo::mesh::operator::{Changed, Opened, Queued, Refusal};
use tombolo::mesh::pairing::{Code, PairingView};
use tombolo::mesh::view::{
    AirtimeView, AnsweringView, ContactView, Delivery, DeniedView, DistressView, MeshEvent,
    MeshHandle, MeshQuery, MeshStatus, MessageView, NodeView, Quota, StopView,
};
use tombolo::node::{NodeNum, PacketId};
use tombolo::radio::known::RefusedRadio;
use tombolo::rpc::Services;
use tombolo::rpc::auth::password;
use tombolo::secrets::{Secret, SecretName, Secrets};

use crate::rpc_leg::{ScriptedLeg, assistant};

/// The operator's, where one is stored.
pub const PASSWORD: &str = "correct horse battery";

/// A running server.
pub struct Node {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is served from.
    pub services: Arc<Services>,
    /// The assistant's only leg.
    pub leg: ScriptedLeg,
    /// Questions that reached the mesh side.
    pub mesh_asked: Arc<AtomicUsize>,
    cancel: CancellationToken,
    serving: JoinHandle<()>,
}

impl Node {
    /// On this data folder, as it is.
    pub async fn start(data_dir: &Path) -> Node {
        let leg = ScriptedLeg::default();
        Node { leg: leg.clone(), ..Node::with(data_dir, assistant(&leg, data_dir)).await }
    }

    /// With an assistant of one's own.
    pub async fn with(data_dir: &Path, assistant: Assistant) -> Node {
        let config = Config { data_dir: data_dir.to_owned(), ..Config::default() };
        Node::configured(config, Arc::new(assistant)).await
    }

    /// With a configuration of one's own.
    pub async fn configured(config: Config, assistant: Arc<Assistant>) -> Node {
        let (mesh, mesh_asked) = scripted_mesh();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let secrets = Secrets::open(&config.data_dir).unwrap();
        let services =
            Services::new(&config, address, assistant, mesh, secrets, TaskTracker::new());
        let services = Arc::new(services.unwrap());
        let cancel = CancellationToken::new();
        let serving =
            tokio::spawn(tombolo::web::serve(listener, Arc::clone(&services), cancel.clone()));
        Node { address, services, leg: ScriptedLeg::default(), mesh_asked, cancel, serving }
    }

    /// Shuts down and waits for its end.
    pub async fn stop(self) {
        self.cancel.cancel();
        self.serving.await.unwrap();
    }

    /// `127.0.0.1:PORT`
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// How often the mesh side was asked.
    pub fn mesh_asked(&self) -> usize {
        self.mesh_asked.load(Ordering::SeqCst)
    }

    /// A request to be sent.
    pub fn request(&self, method: &str, path: &str) -> Request {
        Request {
            address: self.address,
            line: format!("{method} {path} HTTP/1.1"),
            headers: vec![("Host".to_owned(), self.host())],
            body: Vec::new(),
        }
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send().await
    }

    /// A call as our own page sends it, without a session.
    pub fn rpc(&self, method: &str, params: Value) -> Request {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.request("POST", "/rpc")
            .header("Origin", &format!("http://{}", self.host()))
            .header("Content-Type", "application/json")
            .body(body.to_string())
    }

    /// Logs in with the password; `held` is the cookie that the browser has already.
    pub async fn login(&self, held: Option<&str>) -> Session {
        let mut request = self.rpc("auth.login", json!({ "password": PASSWORD }));
        if let Some(cookie) = held {
            request = request.header("Cookie", cookie);
        }
        Session::of(&request.send().await)
    }
}

/// Stores [`PASSWORD`] in a data folder.
pub fn store_password(data_dir: &Path) {
    let hash = password::hash(&Secret::new(PASSWORD)).unwrap();
    Secrets::open(data_dir).unwrap().write(SecretName::OperatorPassword, &hash).unwrap();
}

/// A folder with a stored password.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    store_password(folder.path());
    folder
}

/// What a logged-in page holds.
#[derive(Debug, Clone)]
pub struct Session {
    /// `tombolo_session=TOKEN`
    pub cookie: String,
    /// For `X-CSRF-Token`.
    pub csrf: String,
}

impl Session {
    /// From the answer to a login.
    #[track_caller]
    pub fn of(answer: &Answer) -> Session {
        assert_eq!(answer.status, 200, "{}", answer.body);
        let cookie = answer.header("set-cookie").expect("a cookie");
        Session {
            cookie: cookie.split(';').next().unwrap().to_owned(),
            csrf: answer.json()["result"]["csrf_token"].as_str().unwrap().to_owned(),
        }
    }
}

/// A request, header by header.
#[derive(Debug, Clone)]
pub struct Request {
    address: SocketAddr,
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes a header away.
    pub fn without(mut self, name: &str) -> Request {
        self.headers.retain(|(header, _)| header != name);
        self
    }

    /// Another value for a header.
    pub fn with(self, name: &str, value: &str) -> Request {
        self.without(name).header(name, value)
    }

    /// The session's cookie and token.
    pub fn session(self, session: &Session) -> Request {
        self.with("Cookie", &session.cookie).with("X-CSRF-Token", &session.csrf)
    }

    /// The body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{}\r\nConnection: close\r\n", self.line);
        let chunked = self.headers.iter().any(|(name, _)| name == "Transfer-Encoding");
        if !chunked && (!self.body.is_empty() || self.line.starts_with("POST")) {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends it and reads the answer to its end.
    pub async fn send(&self) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&self.bytes()).await.unwrap();
        Answer::read(&mut stream).await
    }

    /// Sends it and gives the connection, with nothing read.
    pub async fn begin(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&self.bytes()).await.unwrap();
        stream
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// Reads to the end of the connection.
    pub async fn read(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole header");
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap_or((line, "")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Answer { status, headers, body: body.to_owned() }
    }

    /// The value of a header that is there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter().filter(|(header, _)| header == name);
        let first = all.next().map(|(_, value)| value.as_str());
        assert!(all.next().is_none(), "{name} is there twice");
        first
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The name of the error in it; empty for a result.
    pub fn error_name(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["error"]["data"]["name"].as_str().unwrap_or_default().to_owned()
    }

    /// Everything that was received, for a search for what must not be there.
    pub fn everything(&self) -> String {
        format!("{:?} {}", self.headers, self.body)
    }
}

/// A mesh side that answers each question with a filled-in form.
fn scripted_mesh() -> (MeshHandle, Arc<AtomicUsize>) {
    let (queries, mut asked) = mpsc::channel(64);
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&count);
    tokio::spawn(async move {
        while let Some(query) = asked.recv().await {
            counting.fetch_add(1, Ordering::SeqCst);
            match query {
                MeshQuery::StopAll(resume, reply) => {
                    let _ = reply.send(StopView { stopped: !resume, turns: 0, parts: 0 });
                }
                MeshQuery::Status(reply) => drop(reply.send(status())),
                MeshQuery::Nodes(reply) => drop(reply.send(vec![node()])),
                MeshQuery::Messages(limit, reply) => {
                    let all = [message(Some(Delivery::Delivered)), message(None)];
                    let waiting = message(Some(Delivery::Waiting("for an ack".to_owned())));
                    drop(reply.send(all.into_iter().chain([waiting]).take(limit).collect()));
                }
                MeshQuery::Distress(reply) => drop(reply.send(vec![distress(None)])),
                MeshQuery::ClearDistress(wish, reply) => {
                    let by_an_operator = wish.by.starts_with("operator ");
                    let cleared = vec![distress(Some(1_700_000_100_000))];
                    drop(reply.send(if by_an_operator && wish.what.0 == "m-1" {
                        Ok(cleared)
                    } else {
                        Err(Refusal::wrong("id", "there is none"))
                    }));
                }
                MeshQuery::Airtime(reply) => drop(reply.send(airtime())),
                MeshQuery::Answering(reply) => drop(reply.send(answering())),
                MeshQuery::AcceptRadio(_, reply) => drop(reply.send(Ok(status()))),
                MeshQuery::Reconfigure(_, reply) => drop(reply.send(())),
                MeshQuery::RadioDrift(reply) => drop(reply.send(Some(-2))),
                MeshQuery::Sizes(reply) => drop(reply.send(Vec::new())),
                MeshQuery::Change(_, reply) => {
                    let warnings = vec!["they look alike".to_owned()];
                    drop(reply.send(Ok(Changed { answering: answering(), warnings })));
                }
                MeshQuery::Pair(wish, reply) => {
                    let code = wish.what.and_then(|_| Code::parse("7KQ2M"));
                    let opened = Opened { code, expires_in_s: 600, warnings: Vec::new() };
                    drop(reply.send(Ok(opened)));
                }
                MeshQuery::SendText(wish, reply) => drop(reply.send(Ok(Queued {
                    reply: "s-1".to_owned(),
                    to: wish.what.to,
                    name: "Ana".to_owned(),
                    bytes: wish.what.text.len(),
                    budget: 200,
                }))),
            }
        }
    });
    (MeshHandle { queries, events: broadcast::Sender::new(8) }, count)
}

fn status() -> MeshStatus {
    MeshStatus {
        connected: true,
        link: "the simulated radio".to_owned(),
        refused_radio: Some(RefusedRadio {
            fingerprint: "0000 1111 2222 3333".to_owned(),
            owner: "Foreign".to_owned(),
            node: NodeNum(0x70b0_2002),
        }),
        my_node: Some(NodeNum(0x70b0_1001)),
        port: Some("/dev/ttyACM0".to_owned()),
        frequency_mhz: Some(869.525),
        role: Some("CLIENT".to_owned()),
        firmware_note: Some("too old".to_owned()),
        turns_waiting: 2,
        distress: 1,
        airtime: airtime(),
        ..MeshStatus::default()
    }
}

fn distress(seen_at: Option<u64>) -> DistressView {
    DistressView {
        id: TurnId("m-1".to_owned()),
        at: 1_700_000_000_000,
        first_at: 1_700_000_000_000,
        times: 1,
        node: NodeNum(0xa1b2_c3d4),
        name: "Ana".to_owned(),
        assurance: Assurance::Verified,
        fingerprint: Some("0000 1111 2222 3333".to_owned()),
        claims: None,
        channel: None,
        mqtt: false,
        text: "broken leg <b>&".to_owned(),
        seen_at,
        snr: Some(-3.5),
        hops: None,
    }
}

fn airtime() -> AirtimeView {
    AirtimeView {
        used_ms: 1500,
        limit_ms: Some(360_000),
        channel_utilization: Some(3.5),
        ..AirtimeView::default()
    }
}

fn node() -> NodeView {
    NodeView {
        node: NodeNum(0xa1b2_c3d4),
        long_name: "Ana <b>&".to_owned(),
        short_name: "Ana".to_owned(),
        fingerprint: None,
        contact: Some("Ana".to_owned()),
        standing: "pinned",
        last_heard: 1_700_000_000,
        snr: Some(6.25),
        rssi: Some(-80),
        hops: Some(1),
        battery: None,
    }
}

fn message(delivery: Option<Delivery>) -> MessageView {
    MessageView {
        at: 1_700_000_000_000,
        direction: if delivery.is_some() { "out" } else { "in" },
        node: NodeNum(0xa1b2_c3d4),
        name: "Ana".to_owned(),
        assurance: Assurance::Verified,
        channel: None,
        text: "hello".to_owned(),
        delivery,
        ignored: None,
        id: PacketId(7),
        snr: Some(6.25),
        rssi: Some(-80),
    }
}

fn answering() -> AnsweringView {
    AnsweringView {
        enabled: true,
        trusted_only: true,
        allowed_contacts: vec![ContactView {
            id: NodeNum(0xa1b2_c3d4),
            name: "Ana".to_owned(),
            key: None,
            fingerprint: Some("0011 2233 4455 6677".to_owned()),
            pin: "configured",
            foreign_fingerprint: None,
            grants: vec!["system".to_owned()],
            grants_source: "default",
            suspended: false,
            denied: false,
            source: "configuration",
            queries: Some(Quota { used: 3, limit: Some(20) }),
        }],
        denied_askers: vec!["!0badcafe".to_owned()],
        denied: vec![DeniedView { asker: "!0badcafe".to_owned(), source: "node" }],
        enabled_source: "configuration",
        trusted_only_source: "node",
        pairing: Some(PairingView { name: "Eve".to_owned(), expires_in_s: 600, tries_left: 5 }),
        warnings: Vec::new(),
        trigger: "!ai".to_owned(),
        channels: vec!["bots".to_owned()],
    }
}

/// Every kind of event of the mesh side, filled in.
pub fn one_of_each_mesh_event() -> Vec<MeshEvent> {
    let turn = || TurnId("m-1".to_owned());
    let tools = vec![ToolRecord {
        name: "disk_status".to_owned(),
        category: Some(PermissionCategory::System),
        outcome: ToolOutcome::Ran,
    }];
    let part_state = |delivery| MeshEvent::PartState { reply: turn(), part: 1, of: 2, delivery };
    vec![
        MeshEvent::Link { up: true, detail: "the simulated radio".to_owned() },
        MeshEvent::Heard {
            from: NodeNum(0xa1b2_c3d4),
            name: "Ana".to_owned(),
            assurance: Assurance::Verified,
            channel: None,
            text: "!ai hello".to_owned(),
            ignored: None,
        },
        MeshEvent::TurnStarted { turn_id: turn(), name: "Ana".to_owned() },
        MeshEvent::TurnEnded {
            turn_id: turn(),
            answered: true,
            backend: "ollama".to_owned(),
            tools,
            millis: 900,
            parts: 2,
        },
        MeshEvent::PartSent {
            reply: turn(),
            name: "Ana".to_owned(),
            id: PacketId(7),
            part: 1,
            of: 2,
            bytes: 5,
            airtime_us: 300_000,
            text: "hello".to_owned(),
        },
        part_state(Delivery::Delivered),
        part_state(Delivery::Waiting("for an ack".to_owned())),
        MeshEvent::Paused { reason: Some("the hour is used up".to_owned()) },
        MeshEvent::Distress {
            id: TurnId("m-1".to_owned()),
            from: NodeNum(0xa1b2_c3d4),
            name: "Ana".to_owned(),
            assurance: Assurance::Verified,
            cleared: false,
        },
        MeshEvent::Security {
            kind: "foreign_key".to_owned(),
            from: NodeNum(0xa1b2_c3d4),
            detail: "another key".to_owned(),
        },
    ]
}

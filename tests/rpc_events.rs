//! `GET /events` as a page has it: who may listen, what comes, and when it ends.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tombolo::mesh::view::MeshEvent;
use tombolo::node::NodeNum;
use tombolo::rpc::events::stream::MAX_OF_SESSION;
use tombolo::rpc::events::{Changed, Event};

use crate::rpc_contract::fits;
use crate::rpc_node::{Node, Request, Session, folder};
use crate::support::world::SOON;

/// One event, as a browser takes it apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    pub id: String,
    pub name: String,
    pub data: Value,
}

/// An open stream.
pub struct Listening {
    stream: TcpStream,
    /// Of the body, with its chunks joined.
    text: String,
    raw: Vec<u8>,
}

impl Listening {
    /// Sends the request; the status must be 200.
    pub async fn open(request: &Request) -> Listening {
        let mut listening =
            Listening { stream: request.begin().await, text: String::new(), raw: Vec::new() };
        loop {
            let end = listening.raw.windows(4).position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8(listening.raw.drain(..end + 4).collect()).unwrap();
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                assert!(head.contains("content-type: text/event-stream"), "{head}");
                assert!(head.contains("cache-control: no-store"), "{head}");
                return listening;
            }
            assert!(listening.fill().await, "the stream ended in its header");
        }
    }

    async fn fill(&mut self) -> bool {
        self.stream.read_buf(&mut self.raw).await.is_ok_and(|count| count > 0)
    }

    /// The next event; `None` at the stream's end.
    pub async fn next(&mut self) -> Option<Received> {
        loop {
            while let Some(block) = self.text.split_once("\n\n").map(|(block, _)| block.to_owned())
            {
                self.text.drain(..block.len() + 2);
                let field = |name: &str| {
                    let mut lines = block.lines().filter_map(|line| line.strip_prefix(name));
                    lines.next().unwrap_or_default().to_owned()
                };
                if block.lines().any(|line| line.starts_with("data: ")) {
                    let data = serde_json::from_str(&field("data: ")).unwrap();
                    return Some(Received { id: field("id: "), name: field("event: "), data });
                }
            }
            if !self.chunk().await {
                return None;
            }
        }
    }

    /// The next event of that name; others are passed over.
    pub async fn until(&mut self, name: &str) -> Received {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("ended before {name}"));
            if event.name == name {
                return event;
            }
        }
    }

    /// Reads on until the stream ends, which it must.
    pub async fn ended(&mut self) -> usize {
        let reading = async {
            let mut count = 0;
            while self.next().await.is_some() {
                count += 1;
            }
            count
        };
        tokio::time::timeout(SOON, reading).await.expect("the stream goes on")
    }

    async fn chunk(&mut self) -> bool {
        loop {
            if let Some(end) = self.raw.windows(2).position(|bytes| bytes == b"\r\n") {
                let size = std::str::from_utf8(&self.raw[..end]).unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                if size == 0 {
                    return false;
                }
                if self.raw.len() >= end + 2 + size + 2 {
                    let body = self.raw[end + 2..end + 2 + size].to_vec();
                    self.raw.drain(..end + 2 + size + 2);
                    self.text.push_str(&String::from_utf8(body).unwrap());
                    return true;
                }
            }
            if !self.fill().await {
                return false;
            }
        }
    }
}

/// As a browser asks: with the cookie and nothing else.
fn request(node: &Node, session: &Session) -> Request {
    node.request("GET", "/events").header("Cookie", &session.cookie)
}

async fn listen(node: &Node, session: &Session) -> Listening {
    let mut listening = Listening::open(&request(node, session)).await;
    assert_eq!(listening.next().await.unwrap().name, "hello");
    assert_eq!(listening.next().await.unwrap().name, "status");
    listening
}

fn security(from: u32) -> MeshEvent {
    MeshEvent::Security {
        kind: "replay".to_owned(),
        from: NodeNum(from),
        detail: "heard before".to_owned(),
    }
}

#[tokio::test]
async fn only_a_page_of_ours_with_a_session_may_listen() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let ended = node.login(None).await;
    node.rpc("auth.logout", json!({})).session(&ended).send().await;
    let right = request(&node, &session);
    let ours = format!("http://{}", node.host());
    for (what, request, status) in [
        ("no session", right.clone().without("Cookie"), 401),
        ("ended session", request(&node, &ended), 401),
        ("unknown session", right.clone().with("Cookie", "tombolo_session=x"), 401),
        ("foreign origin", right.clone().header("Origin", "http://evil.example"), 403),
        ("null origin", right.clone().header("Origin", "null"), 403),
        ("another port", right.clone().header("Origin", "http://127.0.0.1:1"), 403),
        ("an image of another port", right.clone().header("Sec-Fetch-Site", "same-site"), 403),
        ("wrong host", right.clone().with("Host", "evil.example"), 403),
        ("no host", right.clone().without("Host"), 403),
    ] {
        let answer = request.send().await;
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        assert!(!answer.body.contains("event:"), "{what}");
    }
    assert_eq!(node.mesh_asked(), 0);
    assert_eq!(node.services.streams.count(), 0);
    for request in [
        right.clone(),
        right.clone().header("Origin", &ours),
        right.header("Sec-Fetch-Site", "same-origin"),
    ] {
        assert_eq!(Listening::open(&request).await.next().await.unwrap().name, "hello");
    }
    node.stop().await;
}

#[tokio::test]
async fn how_things_stand_comes_first_then_what_happens_and_after_a_break_what_was_missed() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let mut page = Listening::open(&request(&node, &session)).await;
    let hello = page.next().await.unwrap();
    assert_eq!(
        (hello.name.as_str(), &hello.data),
        ("hello", &json!({ "boot": node.services.events.boot() }))
    );
    let status = page.next().await.unwrap();
    assert_eq!((status.name.as_str(), &status.data["connected"]), ("status", &json!(true)));
    for from in 1..=3 {
        node.services.mesh.events.send(security(from)).unwrap();
    }
    let first = page.until("mesh").await;
    assert_eq!(first.data["event"], "security");
    assert_eq!(first.data["from"], "!00000001");
    assert!(first.data["at"].as_u64().unwrap() > 1_500_000_000_000);
    drop(page);

    // The browser comes back and says what it read last.
    let again = request(&node, &session).header("Last-Event-ID", &first.id);
    let mut page = Listening::open(&again).await;
    let hello = page.next().await.unwrap();
    assert_eq!((hello.name.as_str(), &hello.id), ("hello", &first.id));
    for from in ["!00000002", "!00000003"] {
        assert_eq!(page.until("mesh").await.data["from"], from);
    }
    // One that knows an id of an earlier run is told to start afresh.
    let stale = request(&node, &session).header("Last-Event-ID", "0000aaaa-1");
    let mut page = Listening::open(&stale).await;
    let names = [page.next().await.unwrap().name, page.next().await.unwrap().name];
    assert_eq!(names, ["hello", "reset"]);
    node.stop().await;
}

#[tokio::test]
async fn a_turn_is_followed_by_its_own_session_only_and_no_text_is_in_it() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let (mine, other) = (node.login(None).await, node.login(None).await);
    let mut page = listen(&node, &mine).await;
    let mut others = listen(&node, &other).await;
    let ask = json!({ "text": "disk", "turn_id": "t-1" });
    let answer = node.rpc("assistant.chat", ask).session(&mine).send().await;
    assert_eq!(answer.status, 200);
    node.services.events.publish(Event::Changed(Changed::Grants));

    let mut stages = Vec::new();
    loop {
        let event = page.next().await.unwrap();
        match event.name.as_str() {
            "turn" => {
                assert_eq!(event.data["turn_id"], "t-1");
                assert!(!event.data.to_string().contains("You said"), "{}", event.data);
                stages.push(event.data);
            }
            "changed" => break,
            _ => {}
        }
    }
    let plain: Vec<String> = stages
        .iter()
        .map(|moment| {
            let word = |name: &str| moment[name].as_str().unwrap_or("-").to_owned();
            ["stage", "leg", "tool", "category", "outcome"].map(word).join(" ")
        })
        .collect();
    assert_eq!(
        plain,
        [
            "thinking - - - -",
            "leg ollama - - answered",
            "tool - system_disk_status system -",
            "tool - system_disk_status system ran",
            "thinking - - - -",
            "tool - no_such_tool - -",
            "tool - no_such_tool - unknown",
            "thinking - - - -",
            "tool - wallet_pay wallet -",
            "tool - wallet_pay wallet denied",
            "thinking - - - -",
            "leg ollama - - answered",
            "ended ollama - - answered",
        ]
    );
    loop {
        let event = others.next().await.unwrap();
        assert_ne!(event.name, "turn", "another session's");
        if event.name == "changed" {
            break;
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_and_one_that_waits_no_more_are_told_at_once() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let call = async |method: &str, params: Value| {
        let answer = node.rpc(method, params).session(&session).send().await;
        assert_eq!(answer.status, 200, "{method}: {}", answer.body);
        answer.json()["result"].clone()
    };
    let ask = json!({ "caller": "operator", "tool": "system_disk_status", "mode": "ask" });
    call("assistant.grants-set", ask).await;
    let mut page = listen(&node, &session).await;
    let mut waiting = Vec::new();
    for turn in ["t-1", "t-2"] {
        let reply = call("assistant.chat", json!({ "text": "disk", "turn_id": turn })).await;
        waiting.push(reply["pending"]["id"].clone());
        assert_eq!(page.until("pending").await.data, json!({ "count": waiting.len() }));
    }
    for left in [1, 0] {
        let params = json!({ "id": waiting.pop(), "approve": false });
        call("assistant.confirm-tool", params).await;
        assert_eq!(page.until("pending").await.data, json!({ "count": left }));
    }
    node.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_its_session_and_with_the_daemon() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let (mine, other) = (node.login(None).await, node.login(None).await);
    let mut page = listen(&node, &mine).await;
    let mut others = listen(&node, &other).await;
    node.rpc("auth.logout", json!({})).session(&mine).send().await;
    page.ended().await;
    node.services.events.publish(Event::Pending { count: 3 });
    assert_eq!(others.until("pending").await.data, json!({ "count": 3 }));
    assert_eq!(node.services.streams.count(), 1);
    // A login over a live session renews its token: what listened under the old one is over.
    node.login(Some(&other.cookie)).await;
    others.ended().await;
    let last = node.login(None).await;
    let mut page = listen(&node, &last).await;
    node.stop().await;
    page.ended().await;
}

#[tokio::test]
async fn a_reader_that_reads_nothing_is_cut_off_and_a_session_has_so_many() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let mut slow = listen(&node, &session).await;
    let mut first = listen(&node, &session).await;
    // What the kernel keeps for a reader is some megabytes; the ring is far less.
    for _ in 0..4000 {
        let event = MeshEvent::Paused { reason: Some("x".repeat(8000)) };
        node.services.events.publish(Event::Mesh { at: 1, event: Box::new(event) });
        tokio::task::yield_now().await;
    }
    let count = slow.ended().await;
    assert!(count < 4000, "{count} events were kept for a reader that read none");
    first.ended().await;
    let mut pages = Vec::new();
    for _ in 0..=MAX_OF_SESSION {
        pages.push(listen(&node, &session).await);
    }
    pages[0].ended().await;
    assert_eq!(node.services.streams.count(), MAX_OF_SESSION);
    node.stop().await;
}

#[tokio::test]
async fn every_event_fits_the_contract() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let contract: Value = serde_json::from_str(include_str!("../docs/rpc.schema.json")).unwrap();
    let stale = request(&node, &session).header("Last-Event-ID", "0000aaaa-1");
    let mut page = Listening::open(&stale).await;
    for event in crate::rpc_node::one_of_each_mesh_event() {
        node.services.mesh.events.send(event).unwrap();
    }
    node.services.events.publish(Event::Pending { count: 0 });
    for what in Changed::ALL {
        node.services.events.publish(Event::Changed(what));
    }
    let tools = json!({ "text": "disk", "turn_id": "t-1" });
    node.rpc("assistant.chat", tools).session(&session).send().await;
    node.services.lines.push("warn", "tombolo::test", "a line");
    let mut seen = std::collections::BTreeSet::new();
    let names = contract["events"]["names"].as_object().unwrap();
    while seen.len() < names.len() {
        let event = page.next().await.unwrap();
        let row = names.get(&event.name).unwrap_or_else(|| panic!("{} is not in it", event.name));
        fits(&row["data"], &event.data, &event.name).unwrap();
        seen.insert(event.name);
    }
    node.stop().await;
}

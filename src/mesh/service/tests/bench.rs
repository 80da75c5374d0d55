//! The bench of these tests: a radio made of channels, which acknowledges what it is given as firmware does, and an
//! assistant made of a script.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};

use super::super::*;
use crate::assistant::{CallerScope, ChatContext, ChatReply, ChatStatus, ModelPlace};
use crate::config::Contact;
use crate::mesh::packets::{KEY_A, KEY_B, pki_packet, text_packet};
use crate::node::PacketId;
use crate::radio::{
    Channel, Data, Inbound, LoraSettings, NodeInfo, Payload, QueueStatus, port, routing,
};

pub const ME: NodeNum = NodeNum(0x70b0_1001);
pub const ANA: NodeNum = NodeNum(0xa1b2_c3d4);
pub const BEN: NodeNum = NodeNum(0xb0b0_b0b2);
pub const MALLORY: NodeNum = NodeNum(0x0bad_cafe);

/// What the script does with a question.
#[derive(Clone)]
pub enum Act {
    Say(String),
    After(Duration, String),
    Fail(String),
    Panic,
    /// Until it is stopped, and then as told.
    Hang,
    /// Takes no notice of being stopped.
    Deaf,
}

/// One call of the assistant.
#[derive(Debug, Clone)]
pub struct Asked {
    pub scope: CallerScope,
    pub turn: TurnId,
    pub text: String,
    pub answer_bytes: Option<usize>,
    pub quotes: Option<TurnId>,
}

type Rule = dyn Fn(&str) -> Act + Send + Sync;

pub struct Script {
    pub asked: Mutex<Vec<Asked>>,
    /// `new` and `forget`, of whom.
    pub ended: Mutex<Vec<(&'static str, CallerScope)>>,
    /// Callers whose key changed.
    pub changed: Mutex<Vec<PeerId>>,
    /// Where the model is; `None`: nobody says.
    pub place: Mutex<Option<ModelPlace>>,
    rule: Mutex<Arc<Rule>>,
}

impl Default for Script {
    fn default() -> Script {
        Script {
            asked: Mutex::default(),
            changed: Mutex::default(),
            ended: Mutex::default(),
            place: Mutex::new(Some(ModelPlace::Local)),
            rule: Mutex::new(Arc::new(|_: &str| Act::Say("fine".to_owned()))),
        }
    }
}

impl Answerer for Script {
    fn chat(&self, context: ChatContext, text: String) -> Answer<'_> {
        let act = (self.rule.lock().unwrap().clone())(&text);
        self.asked.lock().unwrap().push(Asked {
            scope: context.scope.clone(),
            turn: context.turn_id.clone(),
            text,
            answer_bytes: context.answer_bytes,
            quotes: context.quotes.clone(),
        });
        let reply = |status, text: &str| ChatReply {
            status,
            text: text.to_owned(),
            backend: "scripted".to_owned(),
            tools: Vec::new(),
            reasons: Vec::new(),
        };
        Box::pin(async move {
            match act {
                Act::Say(text) => reply(ChatStatus::Answered, &text),
                Act::After(time, text) => {
                    tokio::select! {
                        () = tokio::time::sleep(time) => reply(ChatStatus::Answered, &text),
                        () = context.cancel.cancelled() => reply(ChatStatus::Stopped, ""),
                    }
                }
                Act::Fail(text) => reply(ChatStatus::Failed, &text),
                Act::Panic => panic!("scripted panic"),
                Act::Hang => {
                    context.cancel.cancelled().await;
                    reply(ChatStatus::Stopped, "")
                }
                Act::Deaf => std::future::pending().await,
            }
        })
    }

    fn new_conversation(&self, caller: &CallerScope) -> Result<(), StoreError> {
        self.ended.lock().unwrap().push(("new", caller.clone()));
        Ok(())
    }

    fn forget(&self, caller: &CallerScope) -> Result<(), StoreError> {
        self.ended.lock().unwrap().push(("forget", caller.clone()));
        Ok(())
    }

    fn key_changed(&self, caller: &PeerId) {
        self.changed.lock().unwrap().push(caller.clone());
    }

    fn model_place<'a>(&'a self, _caller: &'a CallerScope) -> Place<'a> {
        let place = *self.place.lock().unwrap();
        match place {
            Some(place) => Box::pin(std::future::ready(place)),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// The radio's side of the bench.
pub struct FakeRadio {
    sent: Mutex<Vec<Outbound>>,
    events: mpsc::Sender<LinkEvent>,
    pub contacts: Mutex<Vec<(NodeNum, PublicKey)>>,
    pub refuses: AtomicBool,
}

impl RadioSink for FakeRadio {
    fn send(&self, _session: u64, packet: Outbound) -> Result<(), NotSent> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(NotSent::Full);
        }
        let events = self.events.clone();
        let (id, to, want_ack) = (packet.id, packet.to, packet.want_ack);
        self.sent.lock().unwrap().push(packet);
        tokio::spawn(async move {
            let status = QueueStatus { res: 0, free: 15, maxlen: 16, id };
            tokio::time::sleep(Duration::from_millis(100)).await;
            let _ = events.send(LinkEvent::QueueStatus(status)).await;
            if want_ack {
                tokio::time::sleep(Duration::from_millis(1300)).await;
                let ack = Inbound {
                    payload: Payload::Data(Data {
                        port: port::ROUTING,
                        request_id: id,
                        routing_error: Some(routing::NONE),
                        ..Data::default()
                    }),
                    ..text_packet(to, ME, "")
                };
                let _ = events.send(LinkEvent::Packet(ack)).await;
            }
        });
        Ok(())
    }

    fn add_contact(
        &self,
        _session: u64,
        node: NodeNum,
        _name: &str,
        key: PublicKey,
    ) -> Result<(), NotSent> {
        self.contacts.lock().unwrap().push((node, key));
        Ok(())
    }
}

pub struct Bench {
    pub folder: tempfile::TempDir,
    pub radio: Arc<FakeRadio>,
    pub script: Arc<Script>,
    pub handle: MeshHandle,
    pub clock: Clock,
    heard: broadcast::Receiver<MeshEvent>,
    events: Mutex<Vec<MeshEvent>>,
    link: mpsc::Sender<LinkEvent>,
    cancel: CancellationToken,
}

/// Ana and Ben are contacts; strangers may ask, and the channel `bots` is answered.
pub fn open() -> MeshConfig {
    MeshConfig { trusted_only: false, channels: vec!["bots".to_owned()], ..trusted() }
}

/// Ana and Ben are contacts, and nobody else is answered.
pub fn trusted() -> MeshConfig {
    let contact = |id, key, name: &str| Contact {
        id,
        key: Some(key),
        name: Some(name.to_owned()),
        grants: None,
    };
    MeshConfig {
        allowed_contacts: vec![contact(ANA, KEY_A, "Ana"), contact(BEN, KEY_B, "Ben")],
        ..MeshConfig::default()
    }
}

pub fn radio_info() -> RadioInfo {
    let channel = |index, name: &str| Channel { index, name: name.to_owned(), primary: index == 0 };
    let node =
        |num: NodeNum, key| NodeInfo { num: num.0, public_key: Some(key), ..NodeInfo::default() };
    RadioInfo {
        session: 1,
        port: String::new(),
        my_node: ME,
        public_key: Some(PublicKey([0x70; 32])),
        owner: NodeInfo { num: ME.0, long_name: "Tombolo Node".to_owned(), ..NodeInfo::default() },
        firmware: "2.7.26.54e0d8d".to_owned(),
        role: 0,
        announces_every_s: 0,
        lora: LoraSettings {
            region: 3,
            use_preset: true,
            hop_limit: 3,
            tx_enabled: true,
            ..LoraSettings::default()
        },
        channels: vec![channel(0, ""), channel(1, "bots")],
        nodes: vec![node(ANA, KEY_A), node(BEN, KEY_B)],
    }
}

impl Bench {
    /// A service on an empty data folder, with the link up.
    pub async fn start(config: MeshConfig) -> Bench {
        Bench::on(tempfile::tempdir().unwrap(), config, |_| Act::Say("fine".to_owned())).await
    }

    /// A service on a data folder, with the link up.
    pub async fn on(
        folder: tempfile::TempDir,
        config: MeshConfig,
        rule: impl Fn(&str) -> Act + Send + Sync + 'static,
    ) -> Bench {
        let bench = Bench::offline(folder, config, rule);
        bench.up(radio_info()).await;
        bench
    }

    /// The same before the link is up.
    pub fn offline(
        folder: tempfile::TempDir,
        config: MeshConfig,
        rule: impl Fn(&str) -> Act + Send + Sync + 'static,
    ) -> Bench {
        let script = Arc::new(Script { rule: Mutex::new(Arc::new(rule)), ..Script::default() });
        Bench::answered_by(folder, config, script.clone(), script)
    }

    /// The same with an assistant of one's own; the script is asked nothing then.
    pub fn answered_by(
        folder: tempfile::TempDir,
        config: MeshConfig,
        script: Arc<Script>,
        answerer: Arc<dyn Answerer>,
    ) -> Bench {
        let (link, link_events) = mpsc::channel(256);
        let radio = Arc::new(FakeRadio {
            sent: Mutex::default(),
            events: link.clone(),
            contacts: Mutex::default(),
            refuses: AtomicBool::new(false),
        });
        let (clock, cancel) = (Clock::start(), CancellationToken::new());
        let handle = spawn(MeshParts {
            mesh: config,
            airtime: AirtimeConfig { share: 1.0, ..AirtimeConfig::default() },
            data_dir: folder.path().to_owned(),
            answerer,
            radio: radio.clone(),
            events: link_events,
            clock,
            cancel: cancel.clone(),
            tracker: TaskTracker::new(),
        })
        .unwrap();
        let heard = handle.events.subscribe();
        let events = Mutex::default();
        Bench { folder, radio, script, handle, clock, heard, events, link, cancel }
    }

    pub async fn up(&self, info: RadioInfo) {
        self.link.send(LinkEvent::Up(Arc::new(info))).await.unwrap();
    }

    pub async fn tell(&self, event: LinkEvent) {
        self.link.send(event).await.unwrap();
    }

    pub async fn hear(&self, packet: Inbound) {
        self.link.send(LinkEvent::Packet(packet)).await.unwrap();
    }

    /// A direct message from Ana, encrypted with her key.
    pub async fn ana(&self, id: u32, text: &str) {
        self.hear(pki_packet(ANA, ME, KEY_A, id, text)).await;
    }

    pub async fn ben(&self, id: u32, text: &str) {
        self.hear(pki_packet(BEN, ME, KEY_B, id, text)).await;
    }

    /// A text on the channel `bots`, under any number.
    pub async fn channel(&self, from: NodeNum, id: u32, text: &str) {
        let packet = text_packet(from, NodeNum::BROADCAST, text);
        self.hear(Inbound { id: PacketId(id), channel: 1, ..packet }).await;
    }

    pub fn rule(&self, rule: impl Fn(&str) -> Act + Send + Sync + 'static) {
        *self.script.rule.lock().unwrap() = Arc::new(rule);
    }

    /// What was asked of the assistant, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.script.asked.lock().unwrap().clone()
    }

    /// Everything that left.
    pub fn sent(&self) -> Vec<Outbound> {
        self.radio.sent.lock().unwrap().clone()
    }

    /// The texts that left.
    pub fn texts(&self) -> Vec<String> {
        self.sent().iter().map(|p| String::from_utf8_lossy(&p.bytes).into_owned()).collect()
    }

    /// Lets so much time pass.
    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until the service has done what was asked of it so far.
    pub async fn settle(&self) {
        self.pass(3).await;
        self.handle.status().await.unwrap();
    }

    /// Waits, for an hour at most.
    pub async fn until(&self, what: &str, mut is_so: impl FnMut(&Bench) -> bool) {
        for _ in 0..36_000 {
            if is_so(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not within an hour: {what}; sent {:?}, asked {:?}", self.texts(), self.asked());
    }

    /// Everything that was told so far.
    pub fn events(&mut self) -> Vec<MeshEvent> {
        let events = self.events.get_mut().unwrap();
        while let Ok(event) = self.heard.try_recv() {
            events.push(event);
        }
        events.clone()
    }

    /// The kinds of the security events so far.
    pub fn security(&mut self) -> Vec<String> {
        let kind = |event| match event {
            MeshEvent::Security { kind, .. } => Some(kind),
            _ => None,
        };
        self.events().into_iter().filter_map(kind).collect()
    }

    /// Why incoming texts were ignored, in order; empty for those that were not.
    pub async fn ignored(&self) -> Vec<String> {
        let messages = self.handle.messages(500).await.unwrap();
        let incoming = messages.into_iter().filter(|message| message.direction == "in");
        incoming.map(|message| message.ignored.unwrap_or_default()).collect()
    }

    /// The data folder as a kill at this instant would leave it.
    pub fn snapshot(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(self.folder.path(), copy.path());
        copy
    }

    /// Ends the service in good order; gives the data folder.
    pub async fn end(self) -> tempfile::TempDir {
        self.cancel.cancel();
        self.handle.queries.closed().await;
        self.folder
    }

    /// How many questions are on disk without an answer.
    pub fn journalled(&self) -> usize {
        crate::store::json_files(&self.folder.path().join("inbox")).unwrap().len()
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

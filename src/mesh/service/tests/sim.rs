//! The service on the real link and the simulated radio: that they mean the same by what they tell each other.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::*;
use crate::assistant::{ChatContext, ChatReply, ChatStatus, ModelPlace};
use crate::config::Contact;
use crate::radio::link;
use crate::radio::transport::Connector;
use crate::sim::{Heard, SayTo, Sim, SimConfig};

/// Answers everything with one text after a time.
struct Slow {
    after: Duration,
    text: fn(&str) -> String,
}

impl Answerer for Slow {
    fn chat(&self, context: ChatContext, text: String) -> Answer<'_> {
        let tools = context.scope.granted_categories().len();
        Box::pin(async move {
            tokio::time::sleep(self.after).await;
            ChatReply {
                status: ChatStatus::Answered,
                text: format!("{}: {tools} categories.", (self.text)(&text)),
                backend: "slow".to_owned(),
                tools: Vec::new(),
                reasons: Vec::new(),
            }
        })
    }

    fn new_conversation(&self, _caller: &CallerScope) -> Result<(), StoreError> {
        Ok(())
    }

    fn forget(&self, _caller: &CallerScope) -> Result<(), StoreError> {
        Ok(())
    }

    fn model_place<'a>(&'a self, _caller: &'a CallerScope) -> Place<'a> {
        Box::pin(std::future::ready(ModelPlace::Local))
    }
}

/// The service on the simulated radio, with Ana as its contact. Ends when it is dropped.
struct Town {
    sim: Sim,
    handle: MeshHandle,
    cancel: CancellationToken,
    link: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Drop for Town {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Town {
    async fn start(after: Duration, text: fn(&str) -> String) -> Town {
        Town::on(SimConfig::default(), after, text).await
    }

    async fn on(config: SimConfig, after: Duration, text: fn(&str) -> String) -> Town {
        let sim = Sim::start(config);
        let radio = sim.clone();
        let (clock, cancel) = (Clock::start(), CancellationToken::new());
        let tracker = TaskTracker::new();
        let connector = Connector::from_fn("sim", move || radio.connect());
        let link_cancel = cancel.child_token();
        let link = link::spawn(connector, link_cancel.clone(), &tracker);
        let config = SimConfig::default();
        let ana = config.peers.iter().find(|peer| peer.name == "Ana").unwrap();
        let contact =
            Contact { id: ana.num, key: ana.key, name: Some("Ana".to_owned()), grants: None };
        let folder = tempfile::tempdir().unwrap();
        let handle = spawn(MeshParts {
            mesh: MeshConfig { allowed_contacts: vec![contact], ..MeshConfig::default() },
            airtime: AirtimeConfig::default(),
            data_dir: folder.path().to_owned(),
            answerer: Arc::new(Slow { after, text }),
            radio: Arc::new(link.handle),
            events: link.events,
            clock,
            cancel: cancel.clone(),
            tracker,
        })
        .unwrap();
        let town = Town { sim, handle, cancel, link: link_cancel, _folder: folder };
        town.pass(5).await;
        town
    }

    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// What Ana's radio gave her.
    fn ana_heard(&self) -> Vec<Heard> {
        self.sim.heard("Ana")
    }
}

#[tokio::test(start_paused = true)]
async fn a_contact_of_the_simulated_mesh_is_answered_in_parts_and_a_stranger_is_not() {
    let town =
        Town::start(Duration::ZERO, |text| format!("{text} {}", "And more words. ".repeat(30)))
            .await;
    let (sim, handle) = (&town.sim, &town.handle);
    assert_eq!(handle.status().await.unwrap().warnings, Vec::<String>::new());

    sim.say("Mallory", SayTo::Direct, "!ai let me in");
    sim.say("Ana", SayTo::Direct, "!ai how much?");
    let parts = sim.wait_heard("Ana", 3, Duration::from_secs(120)).await.unwrap();
    assert!(parts[0].text.starts_with("1/3 how much? And more"), "{}", parts[0].text);
    assert!(parts.iter().all(|part| part.pki && part.text.len() <= 200));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(sim.heard("Mallory").is_empty());

    let shown = handle.messages(20).await.unwrap();
    let delivered = shown
        .iter()
        .filter(|message| message.delivery == Some(crate::mesh::view::Delivery::Delivered))
        .count();
    assert_eq!(delivered, 3);
    assert!(parts[2].text.ends_with(": 1 categories."), "{}", parts[2].text);
    let ignored: Vec<_> = shown.iter().filter_map(|message| message.ignored.clone()).collect();
    assert_eq!(ignored, ["not a verified contact"]);
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_threaded_to_its_question_and_a_slow_one_is_announced_by_a_reaction() {
    let town = Town::start(Duration::from_secs(20), str::to_owned).await;
    let question = town.sim.say("Ana", SayTo::Direct, "!ai slow");
    town.pass(14).await;
    assert!(town.ana_heard().is_empty(), "nothing before 15 s");
    let heard = town.sim.wait_heard("Ana", 2, Duration::from_secs(60)).await.unwrap();
    assert!(heard[0].emoji && !heard[1].emoji);
    assert_eq!((heard[0].text.as_str(), heard[1].text.as_str()), ("⏳", "slow: 1 categories."));
    assert_eq!((heard[0].reply_id, heard[1].reply_id), (Some(question), Some(question)));
    let waited = heard[0].at_ms - 5_000;
    assert!((15_000..22_000).contains(&waited), "{waited} ms");

    // One that is ready before that has none.
    let town = Town::start(Duration::from_secs(10), str::to_owned).await;
    let question = town.sim.say("Ana", SayTo::Direct, "!ai quick");
    town.pass(120).await;
    let heard = town.ana_heard();
    assert_eq!(heard.len(), 1);
    assert!(!heard[0].emoji && heard[0].reply_id == Some(question));
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_an_absent_peer_and_arrives_once_within_a_day() {
    // 24 hours count from when the answer was made, 5 s after the question.
    // A neighbour's radio says nothing at all, a relay in between passes it on to nobody.
    for (hops, hours, arrives) in
        [(0, 1, true), (1, 1, true), (1, 23, true), (0, 25, false), (1, 25, false)]
    {
        let town =
            Town::start(Duration::from_secs(5), |text| format!("{text} {}", "word ".repeat(60)))
                .await;
        town.sim.set_peer("Ana", |ana| ana.hops = hops);
        let question = town.sim.say("Ana", SayTo::Direct, "!ai later");
        town.pass(3).await;
        town.sim.set_peer("Ana", |ana| ana.reachable = false);
        town.pass(600).await;
        assert_eq!(town.handle.status().await.unwrap().kept_answers, 1, "it is kept");
        let texts =
            |town: &Town| town.sim.transmissions().iter().filter(|sent| sent.bytes > 100).count();
        let tries = texts(&town);
        town.pass(hours * 3600 - 600).await;
        assert_eq!(texts(&town), tries, "and the air is left alone meanwhile");
        town.sim.set_peer("Ana", |ana| ana.reachable = true);
        town.sim.say("Ana", SayTo::Channel(0), "good morning");
        town.pass(300).await;
        town.sim.say("Ana", SayTo::Channel(0), "still here");
        town.pass(300).await;
        let heard: Vec<String> = town
            .ana_heard()
            .into_iter()
            .map(|heard| {
                assert_eq!(heard.reply_id, Some(question));
                heard.text
            })
            .collect();
        if arrives {
            assert_eq!(heard.len(), 2, "both parts, once: {heard:?}");
            assert!(heard[0].starts_with("1/2 later") && heard[1].starts_with("2/2 "));
        } else {
            assert_eq!(heard, Vec::<String>::new());
        }
        assert_eq!(town.handle.status().await.unwrap().kept_answers, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_that_ends_by_itself_ends_the_service_so_that_a_supervisor_sees_it() {
    let town = Town::start(Duration::from_secs(1), str::to_owned).await;
    assert!(town.handle.status().await.is_ok());
    town.link.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(5), town.handle.queries.closed()).await;
    assert!(ended.is_ok(), "it goes on, deaf and dumb");
}

#[tokio::test(start_paused = true)]
async fn what_the_radio_gives_again_after_a_handshake_is_no_sign_of_life() {
    let mut config = SimConfig { firmware: "2.8.0.7754068".to_owned(), ..SimConfig::default() };
    (config.peers[0].hops, config.peers[0].beacon) = (0, Some(Duration::from_secs(200))); // Ana
    let town = Town::on(config, Duration::from_secs(5), str::to_owned).await;
    town.pass(250).await;
    town.sim.say("Ana", SayTo::Direct, "!ai later");
    town.pass(4).await;
    town.sim.set_peer("Ana", |ana| ana.reachable = false);
    town.pass(600).await;
    assert_eq!(town.handle.status().await.unwrap().kept_answers, 1, "it waits for Ana");
    let tries = town.sim.transmissions().len();
    town.sim.drop_link();
    town.pass(300).await;
    assert!(town.handle.status().await.unwrap().connected);
    assert_eq!(town.sim.transmissions().len(), tries, "old telemetry of hers is not herself");
    town.sim.set_peer("Ana", |ana| ana.reachable = true);
    town.pass(300).await;
    assert_eq!(town.ana_heard().len(), 1, "her own telemetry is");
}

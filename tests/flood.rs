//! A hundred questions at once from fifty peers: the link, the mesh side, the assistant and the simulated
//! mesh in memory under a paused clock, so that the hour that the air needs takes a moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tombolo::assistant::Assistant;
use tombolo::assistant::backends::{Answer, Backend, BackendTurn, Capabilities, Request, Turn};
use tombolo::assistant::tools::ToolRegistry;
use tombolo::clock::Clock;
use tombolo::config::{AirtimeConfig, CloudPolicy, Contact, MeshConfig};
use tombolo::mesh::{self, MeshParts};
use tombolo::node::NodeNum;
use tombolo::radio::link;
use tombolo::radio::transport::Connector;
use tombolo::sim::{SayTo, Sim, SimConfig, SimPeer};

use crate::support::world::fast_mesh;

/// Repeats the question, after a while.
struct Echo;

impl Backend for Echo {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn is_cloud(&self) -> bool {
        false
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async { Ok(Capabilities { tools: true }) })
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        let question = match request.history.last() {
            Some(Turn::User(question)) => question.clone(),
            other => panic!("a question was expected: {other:?}"),
        };
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(BackendTurn::Text(format!("echo {question}")))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_questions_from_fifty_peers_are_all_answered_or_refused_with_a_reason() {
    const PEERS: u32 = 50;
    let mut config: SimConfig = fast_mesh();
    config.phone_queue = 8; // as the smallest boards have
    config.peers =
        (0..PEERS).map(|n| SimPeer::new(&format!("P{n}"), NodeNum(0x1000_0000 + n))).collect();
    let contacts: Vec<Contact> = config
        .peers
        .iter()
        .map(|p| Contact { id: p.num, key: p.key, name: Some(p.name.clone()), grants: None })
        .collect();
    let sim = Sim::start(config);

    let data = tempfile::tempdir().unwrap();
    let (clock, cancel, tracker) = (Clock::start(), CancellationToken::new(), TaskTracker::new());
    let radio = sim.clone();
    let connector = Connector::from_fn("sim", move || radio.connect());
    let link = link::spawn(connector, cancel.clone(), &tracker);
    let legs: Vec<Box<dyn Backend>> = vec![Box::new(Echo)];
    let assistant =
        Assistant::with_legs(legs, CloudPolicy::None, ToolRegistry::default(), data.path())
            .unwrap();
    let handle = mesh::spawn(MeshParts {
        mesh: MeshConfig { allowed_contacts: contacts, ..MeshConfig::default() },
        airtime: AirtimeConfig { share: 1.0, ..AirtimeConfig::default() },
        data_dir: data.path().to_owned(),
        answerer: Arc::new(assistant),
        radio: Arc::new(link.handle),
        events: link.events,
        clock,
        cancel: cancel.clone(),
        tracker: tracker.clone(),
    })
    .unwrap();
    while !handle.status().await.unwrap().connected {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    // One behind the other, as fast as the air carries them: a question is 50 ms long.
    for round in 0..2 {
        for n in 0..PEERS {
            sim.say(&format!("P{n}"), SayTo::Direct, &format!("!ai question {round} of {n}"));
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    }

    let mut silent = u64::MAX;
    let mut quiet_rounds = 0;
    while quiet_rounds < 6 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let heard: u64 = (0..PEERS).map(|n| sim.heard(&format!("P{n}")).len() as u64).sum();
        quiet_rounds = if heard == silent { quiet_rounds + 1 } else { 0 };
        silent = heard;
    }

    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for n in 0..PEERS {
        let heard = sim.heard(&format!("P{n}"));
        let mut ids: Vec<_> = heard.iter().map(|text| text.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), heard.len());
        for round in 0..2 {
            let wanted = format!("echo question {round} of {n}");
            let answers = heard.iter().filter(|text| text.text == wanted).count();
            assert!(answers <= 1, "P{n} was answered {answers} times");
            *outcomes.entry(if answers == 1 { "answered" } else { "not answered" }).or_default() +=
                1;
        }
        // Nobody hears another's answer.
        let foreign = heard
            .iter()
            .filter(|text| {
                text.text.starts_with("echo") && !text.text.ends_with(&format!(" of {n}"))
            })
            .count();
        assert_eq!(foreign, 0);
    }
    let messages = handle.messages(1000).await.unwrap();
    let refused = messages.iter().filter(|m| m.ignored.is_some()).count();
    let answered = outcomes["answered"];
    let received = messages.iter().filter(|m| m.direction == "in").count();
    assert_eq!(received, 100, "the reader was blocked");
    assert_eq!(answered + refused, 100, "{outcomes:?}, {refused} refused");
    // Fair: nobody's second question before everybody's first.
    let firsts = (0..PEERS)
        .filter(|n| sim.heard(&format!("P{n}")).iter().any(|t| t.text.starts_with("echo question")))
        .count();
    assert_eq!(firsts, 50, "every peer got its first answer");
    cancel.cancel();
}

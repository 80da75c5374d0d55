//! The service on the real link and the simulated radio: that they mean the same by what they tell each other.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::*;
use crate::assistant::ChatStatus;
use crate::config::Contact;
use crate::radio::link;
use crate::radio::transport::Connector;
use crate::sim::{SayTo, Sim, SimConfig};

struct Echo;

impl Answerer for Echo {
    fn chat(&self, context: ChatContext, text: String) -> Answer<'_> {
        let tools = context.scope.granted_categories().len();
        Box::pin(async move {
            ChatReply {
                status: ChatStatus::Answered,
                text: format!("{text}: {tools} categories. {}", "And more words. ".repeat(30)),
                backend: "echo".to_owned(),
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

#[tokio::test(start_paused = true)]
async fn a_contact_of_the_simulated_mesh_is_answered_in_parts_and_a_stranger_is_not() {
    let sim = Sim::start(SimConfig::default());
    let radio = sim.clone();
    let (clock, cancel, tracker) = (Clock::start(), CancellationToken::new(), TaskTracker::new());
    let connector = Connector::from_fn("sim", move || radio.connect());
    let link = link::spawn(connector, clock, cancel.clone(), &tracker);
    let config = SimConfig::default();
    let ana = config.peers.iter().find(|peer| peer.name == "Ana").unwrap();
    let contact = Contact { id: ana.num, key: ana.key, name: Some("Ana".to_owned()), grants: None };
    let folder = tempfile::tempdir().unwrap();
    let handle = spawn(MeshParts {
        mesh: MeshConfig { allowed_contacts: vec![contact], ..MeshConfig::default() },
        airtime: AirtimeConfig::default(),
        data_dir: folder.path().to_owned(),
        answerer: Arc::new(Echo),
        radio: Arc::new(link.handle),
        events: link.events,
        clock,
        cancel: cancel.clone(),
        tracker: tracker.clone(),
    })
    .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(handle.status().await.unwrap().warnings, Vec::<String>::new());

    sim.say("Mallory", SayTo::Direct, "!ai let me in");
    sim.say("Ana", SayTo::Direct, "!ai how much?");
    let parts = sim.wait_heard("Ana", 3, Duration::from_secs(120)).await.unwrap();
    assert!(parts[0].text.starts_with("1/3 how much?: 1 categories."), "{}", parts[0].text);
    assert!(parts.iter().all(|part| part.pki && part.text.len() <= 200));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(sim.heard("Mallory").is_empty());

    let shown = handle.messages(20).await.unwrap();
    let delivered = shown
        .iter()
        .filter(|message| message.delivery == Some(crate::mesh::view::Delivery::Delivered))
        .count();
    assert_eq!(delivered, 3);
    let ignored: Vec<_> = shown.iter().filter_map(|message| message.ignored.clone()).collect();
    assert_eq!(ignored, ["not a verified contact"]);
    cancel.cancel();
}

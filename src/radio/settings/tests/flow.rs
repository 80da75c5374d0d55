//! Info and apply against the simulated radio, with everything that can go wrong on the way.

use std::time::Duration;

use meshtastic::Message as _;
use meshtastic::protobufs::{
    AdminMessage, ToRadio, admin_message::PayloadVariant as Admin, config, mesh_packet, to_radio,
};

use super::super::apply::{self, Applied, ApplyError};
use super::super::session::{Session, SessionError};
use super::*;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::radio::LinkEvent;
use crate::radio::known::KnownRadio;
use crate::radio::link::{self, LinkParts};
use crate::sim::key_for;

fn quiet() -> impl FnMut(&str) + Send {
    |_: &str| {}
}

/// To any radio, and to the end.
async fn apply(
    connector: &Connector,
    wanted: &Wanted,
    say: &mut (dyn FnMut(&str) + Send),
) -> Result<Applied, ApplyError> {
    let (any, never) = (KnownRadio::any(), CancellationToken::new());
    apply::apply(connector, wanted, &any, &never, say).await
}

fn all() -> RadioSettings {
    RadioSettings {
        owner: Some("Hilltop".to_owned()),
        role: Some("CLIENT".to_owned()),
        hop_limit: Some(5),
        ..file("US", "LONG_SLOW")
    }
}

fn admin(payload: &[u8]) -> Option<Admin> {
    let frame = ToRadio::decode(payload).ok()?;
    let Some(to_radio::PayloadVariant::Packet(packet)) = frame.payload_variant else { return None };
    let Some(mesh_packet::PayloadVariant::Decoded(data)) = packet.payload_variant else {
        return None;
    };
    AdminMessage::decode(data.payload.as_slice()).ok()?.payload_variant
}

fn admins(sent: &Sent) -> Vec<Admin> {
    sent.lock().unwrap().iter().filter_map(|payload| admin(payload)).collect()
}

/// What the radio says of itself now.
async fn look(connector: &Connector) -> RadioNow {
    let session = Session::open(connector).await.unwrap();
    let now = RadioNow {
        region: session.info.lora.region,
        preset: session.info.lora.preset,
        coding_rate: session.info.lora.coding_rate,
        hops: session.info.lora.hop_limit,
        role: session.info.role,
        name: session.info.owner.long_name.clone(),
    };
    assert_eq!(session.info.public_key, Some(key_for("Tombolo Node")), "never another identity");
    session.leave().await;
    now
}

#[derive(Debug, PartialEq)]
struct RadioNow {
    region: i32,
    preset: i32,
    coding_rate: u32,
    hops: u32,
    role: i32,
    name: String,
}

fn as_before() -> RadioNow {
    RadioNow {
        region: 3,
        preset: 0,
        coding_rate: 5,
        hops: 3,
        role: 1,
        name: "Tombolo Node".to_owned(),
    }
}

fn as_wanted() -> RadioNow {
    RadioNow { region: 1, preset: 1, coding_rate: 8, hops: 5, role: 0, name: "Hilltop".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn info_tells_what_the_radio_is_set_to_and_writes_nothing() {
    let sim = sim(SimConfig { debug_text: true, ..SimConfig::default() });
    let (connector, sent) = direct(&sim);
    let session = Session::open(&connector).await.unwrap();
    assert_eq!(session.info.firmware, "2.7.26.54e0d8d");
    assert_eq!(session.details.bluetooth, Some(true));
    assert_eq!(session.details.power_saving, Some(false));
    assert!(!session.details.managed);
    session.leave().await;
    assert_eq!(admins(&sent), []);
    assert_eq!(look(&connector).await, as_before());
}

#[tokio::test(start_paused = true)]
async fn everything_that_differs_is_written_at_once_and_read_back() {
    for firmware in ["2.7.26.54e0d8d", "2.8.0.aaaaaaa"] {
        let sim = sim(SimConfig { firmware: firmware.to_owned(), ..SimConfig::default() });
        let (connector, sent) = direct(&sim);
        let applied = apply(&connector, &wanted(&all()), &mut quiet()).await.unwrap();
        let Applied::Written { changed, .. } = applied else { panic!("nothing written") };
        assert_eq!(changed.len(), 5);
        assert_eq!(look(&connector).await, as_wanted());
        let sent = admins(&sent);
        assert_eq!(sent.first(), Some(&Admin::BeginEditSettings(true)));
        assert_eq!(sent.last(), Some(&Admin::CommitEditSettings(true)));
        assert_eq!(sent.len(), 5, "begin, role, name, LoRa, commit");
        for message in &sent {
            if let Admin::SetConfig(config) = message {
                let variant = config.payload_variant.as_ref().unwrap();
                assert!(!matches!(variant, config::PayloadVariant::Security(_)));
            }
        }
        // A second time there is nothing to do, and nothing is sent.
        let (connector, sent) = direct(&sim);
        let applied = apply(&connector, &wanted(&all()), &mut quiet()).await.unwrap();
        assert!(matches!(applied, Applied::AlreadyRight(_)));
        assert_eq!(admins(&sent), []);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_differs_is_written_and_the_rest_of_its_message_stays() {
    let sim = sim(SimConfig::default());
    let (connector, sent) = direct(&sim);
    let hops = RadioSettings { hop_limit: Some(6), ..file("EU_868", "LONG_FAST") };
    apply(&connector, &wanted(&hops), &mut quiet()).await.unwrap();
    let sent = admins(&sent);
    let [_, Admin::SetConfig(config), _] = sent.as_slice() else { panic!("{sent:?}") };
    let Some(config::PayloadVariant::Lora(lora)) = &config.payload_variant else { panic!() };
    assert_eq!((lora.hop_limit, lora.tx_power, lora.tx_enabled, lora.region), (6, 27, true, 3));
    assert_eq!(look(&connector).await, RadioNow { hops: 6, ..as_before() });
}

#[tokio::test(start_paused = true)]
async fn a_region_is_set_for_the_first_time() {
    let mut config = SimConfig::default();
    config.lora.region = 0;
    config.lora.tx_enabled = false;
    let sim = sim(config);
    let (connector, _) = direct(&sim);
    let applied = apply(&connector, &wanted(&file("EU_868", "LONG_FAST")), &mut quiet()).await;
    let Ok(Applied::Written { info, .. }) = applied else { panic!("{applied:?}") };
    assert_eq!((info.lora.region, info.lora.tx_enabled), (3, true));
}

#[tokio::test(start_paused = true)]
async fn impossible_settings_are_refused_before_anything_is_written() {
    let sim = sim(SimConfig::default());
    let (connector, sent) = direct(&sim);
    let turbo =
        RadioSettings { preset: Some("SHORT_TURBO".to_owned()), ..RadioSettings::default() };
    let error = apply(&connector, &wanted(&turbo), &mut quiet()).await.unwrap_err();
    assert!(matches!(error, ApplyError::Impossible(_)), "{error}");
    assert!(error.to_string().contains("500 kHz"), "{error}");
    assert_eq!(admins(&sent), []);
    assert_eq!(look(&connector).await, as_before());
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_is_sent_again() {
    let sim = sim(SimConfig::default());
    let lost = Mutex::new(false);
    let (connector, sent) = behind(
        &sim,
        Arc::new(move |payload| {
            let commit = matches!(admin(payload), Some(Admin::CommitEditSettings(_)));
            !commit || std::mem::replace(&mut *lost.lock().unwrap(), true)
        }),
    );
    let applied = apply(&connector, &wanted(&all()), &mut quiet()).await;
    assert!(matches!(applied, Ok(Applied::Written { .. })), "{applied:?}");
    assert_eq!(admins(&sent).last(), Some(&Admin::CommitEditSettings(true)));
    assert_eq!(look(&connector).await, as_wanted());
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_never_arrives_is_said_and_a_restart_brings_the_old_settings_back() {
    let sim = sim(SimConfig::default());
    let lose =
        |payload: &mut Vec<u8>| !matches!(admin(payload), Some(Admin::CommitEditSettings(_)));
    let (connector, _) = behind(&sim, Arc::new(lose));
    let error = apply(&connector, &wanted(&all()), &mut quiet()).await.unwrap_err();
    assert!(matches!(error, ApplyError::NoRestart), "{error}");
    assert!(error.to_string().contains("take its power away"), "{error}");
    sim.reboot(Duration::from_secs(1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(look(&connector).await, as_before());
}

#[tokio::test(start_paused = true)]
async fn what_fails_before_the_commit_is_undone() {
    let sim = sim(SimConfig::default());
    let lose = |payload: &mut Vec<u8>| {
        !matches!(admin(payload), Some(Admin::SetConfig(c))
        if matches!(c.payload_variant, Some(config::PayloadVariant::Lora(_))))
    };
    let (connector, sent) = behind(&sim, Arc::new(lose));
    let error = apply(&connector, &wanted(&all()), &mut quiet()).await.unwrap_err();
    assert!(matches!(error, ApplyError::Undone { .. }), "{error}");
    assert!(error.to_string().contains("LoRa settings"), "{error}");
    let sent = admins(&sent);
    assert!(!sent.contains(&Admin::CommitEditSettings(true)), "{sent:?}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(look(&connector).await, as_before(), "role and name too");
}

#[tokio::test(start_paused = true)]
async fn a_read_back_that_differs_is_said() {
    let sim = sim(SimConfig::default());
    let change = |payload: &mut Vec<u8>| {
        let at = payload.windows(7).position(|window| window == b"Hilltop");
        if let Some(at) = at {
            payload[at..at + 7].copy_from_slice(b"Hillbot");
        }
        true
    };
    let (connector, _) = behind(&sim, Arc::new(change));
    let error = apply(&connector, &wanted(&all()), &mut quiet()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the radio restarted with other settings than it was given: name is Hillbot, wanted Hilltop \
         (radio.settings.owner)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_never_ends_is_said() {
    let boot_time = Duration::from_secs(3600);
    let sim = sim(SimConfig { boot_time, ..SimConfig::default() });
    let (connector, _) = direct(&sim);
    let error = apply(&connector, &wanted(&all()), &mut quiet()).await.unwrap_err();
    assert!(matches!(error, ApplyError::Away { .. }), "{error}");
    assert!(error.to_string().contains("90 s"), "{error}");
    tokio::time::sleep(boot_time).await;
    assert_eq!(look(&connector).await, as_wanted());
}

#[tokio::test(start_paused = true)]
async fn behind_a_bridge_the_port_stays_and_the_restart_is_seen_by_its_boot_text() {
    let sim = sim(SimConfig { reboot_closes: false, ..SimConfig::default() });
    let (connector, sent) = direct(&sim);
    let applied = apply(&connector, &wanted(&all()), &mut quiet()).await;
    assert!(matches!(applied, Ok(Applied::Written { .. })), "{applied:?}");
    let commits = admins(&sent).iter().filter(|a| **a == Admin::CommitEditSettings(true)).count();
    assert_eq!(commits, 1);
}

#[tokio::test(start_paused = true)]
async fn something_that_does_not_answer_is_no_radio() {
    let connector = Connector::from_fn("the gadget", || {
        let (ours, theirs) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            let mut theirs = theirs;
            let mut buffer = [0; 64];
            while theirs.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
        });
        ours
    });
    let error = Session::open(&connector).await.unwrap_err();
    assert!(matches!(error, SessionError::Silent { .. }), "{error}");
    assert!(error.to_string().contains("the gadget"), "{error}");

    let connector = Connector::from_fn("the closed door", || tokio::io::duplex(64).0);
    let error = Session::open(&connector).await.unwrap_err();
    assert!(matches!(error, SessionError::Lost { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_managed_radio_is_left_alone() {
    let sim = sim(SimConfig { managed: true, ..SimConfig::default() });
    let (connector, sent) = direct(&sim);
    let error = apply(&connector, &wanted(&all()), &mut quiet()).await.unwrap_err();
    assert!(matches!(error, ApplyError::Managed), "{error}");
    assert_eq!(admins(&sent), []);
}

#[tokio::test(start_paused = true)]
async fn the_daemons_link_writes_at_its_start_where_that_is_wanted_and_only_then() {
    for apply in [false, true] {
        let sim = sim(SimConfig::default());
        let (connector, sent) = direct(&sim);
        let (cancel, tracker) = (CancellationToken::new(), TaskTracker::new());
        let settings = RadioSettings { apply, ..all() };
        let parts = LinkParts::plain(connector, cancel.clone(), &tracker);
        let mut link = link::start(LinkParts { settings, ..parts });
        let info = loop {
            match link.events.recv().await.unwrap() {
                LinkEvent::Up(info) => break info,
                LinkEvent::Down { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(info.lora.region, if apply { 1 } else { 3 });
        // And not again when the link comes back.
        let written = admins(&sent).len();
        sim.drop_link();
        while !matches!(link.events.recv().await.unwrap(), LinkEvent::Up(_)) {}
        let later: Vec<Admin> = admins(&sent).split_off(written);
        assert!(later.iter().all(|a| matches!(a, Admin::SetTimeOnly(_))), "{later:?}");
        assert_eq!(admins(&sent).contains(&Admin::CommitEditSettings(true)), apply);
        cancel.cancel();
        tracker.close();
        tracker.wait().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_radio_that_is_away_at_the_start_is_written_to_when_it_comes() {
    let sim = sim(SimConfig::default());
    sim.reboot(Duration::from_secs(300));
    let (connector, _) = direct(&sim);
    let (cancel, tracker) = (CancellationToken::new(), TaskTracker::new());
    let settings = RadioSettings { apply: true, ..all() };
    let parts = LinkParts::plain(connector, cancel.clone(), &tracker);
    let mut link = link::start(LinkParts { settings, ..parts });
    let mut downs = 0;
    let info = loop {
        match link.events.recv().await.unwrap() {
            LinkEvent::Up(info) => break info,
            _ => downs += 1,
        }
    };
    assert!(downs > 0);
    assert_eq!(info.owner.long_name, "Hilltop");
    cancel.cancel();
}

/// Ends with that fault when the end is asked for at that frame, and leaves the radio as it was or as it is wanted.
async fn interrupted_at(
    moment: impl Fn(&Admin) -> bool + Send + Sync + 'static,
) -> (ApplyError, Vec<Admin>, RadioNow) {
    let sim = sim(SimConfig::default());
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let stops = move |payload: &mut Vec<u8>| {
        if admin(payload).is_some_and(|message| moment(&message)) {
            stop.cancel();
        }
        true
    };
    let (connector, sent) = behind(&sim, Arc::new(stops));
    let (any, wanted) = (KnownRadio::any(), wanted(&all()));
    let error = apply::apply(&connector, &wanted, &any, &cancel, &mut quiet()).await.unwrap_err();
    let sent = admins(&sent);
    tokio::time::sleep(Duration::from_secs(30)).await;
    (error, sent, look(&connector).await)
}

#[tokio::test(start_paused = true)]
async fn an_end_between_begin_and_commit_leaves_the_radio_as_it_was() {
    for first in [true, false] {
        let moment = move |message: &Admin| match message {
            Admin::BeginEditSettings(_) => first,
            Admin::SetOwner(_) => true,
            _ => false,
        };
        let (error, sent, now) = interrupted_at(moment).await;
        assert!(matches!(error, ApplyError::Interrupted), "{error}");
        assert!(!sent.contains(&Admin::CommitEditSettings(true)), "{sent:?}");
        assert!(matches!(sent.last(), Some(Admin::RebootSeconds(_))), "{sent:?}");
        assert_eq!(now, as_before());
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_after_the_commit_is_said_and_the_radio_has_it() {
    let (error, _, now) =
        interrupted_at(|message| matches!(message, Admin::CommitEditSettings(_))).await;
    assert!(matches!(error, ApplyError::Unverified), "{error}");
    assert!(error.to_string().contains("not read back"), "{error}");
    assert_eq!(now, as_wanted());
}

#[tokio::test(start_paused = true)]
async fn the_settings_of_one_radio_are_not_written_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownRadio::open(folder.path()).unwrap();
    let first = sim(SimConfig { key: key_for("Another"), ..SimConfig::default() });
    known.admit(&Session::open(&direct(&first).0).await.unwrap().info).unwrap();
    let (connector, sent) = direct(&sim(SimConfig::default()));
    let never = CancellationToken::new();
    let error = apply::apply(&connector, &wanted(&all()), &known, &never, &mut quiet()).await;
    assert!(matches!(error, Err(ApplyError::Foreign(_))), "{error:?}");
    assert_eq!(sent.lock().unwrap().len(), 1, "only the question who it is");
    assert_eq!(look(&connector).await, as_before());
}

//! Writing wanted settings to a radio, and making sure that they are there afterwards.
//!
//! Owns the order: compare, begin, write, commit, wait for the restart, read back. Writes only messages
//! that hold a wanted change, and never the security settings. What fails before the commit is undone by
//! a restart: a radio forgets what was not committed.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Wanted;
use super::compare::{differences, impossible};
use super::session::{Session, SessionError};
use crate::node::PublicKey;
use crate::radio::RadioInfo;
use crate::radio::known::{KnownRadio, RefusedRadio};
use crate::radio::transport::Connector;
use crate::radio::wire::settings::{LoraChange, Request, device_with, lora_with, user_with};

/// The firmware restarts 7 s after a commit.
const RESTART: Duration = Duration::from_secs(20);
/// A connection to a radio that has silently restarted shows itself when something is written.
const BEAT: Duration = Duration::from_secs(3);
/// A radio is back within this time, or it stays away.
const BACK: Duration = Duration::from_secs(90);
/// Between two tries to open it.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Seconds until a radio restarts that is asked to forget.
const FORGET: i32 = 1;

/// How it ended well.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// Nothing had to be written.
    AlreadyRight(Box<RadioInfo>),
    /// Written, and read back.
    Written {
        /// What differed before, a line each.
        changed: Vec<String>,
        /// The radio afterwards.
        info: Box<RadioInfo>,
    },
}

/// How it ended badly; each says in what state the radio is left.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Before anything was written.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// The settings are for another radio. Nothing was written.
    #[error("nothing was written: {0}")]
    Foreign(RefusedRadio),
    /// This radio can't take it. Nothing was written.
    #[error("nothing was written: {}", .0.join("; "))]
    Impossible(Vec<String>),
    /// Local settings are ignored.
    #[error(
        "nothing was written: this radio is managed (security.is_managed) and takes settings only from \
         its administrators"
    )]
    Managed,
    /// The radio did not show the message that has to be changed.
    #[error("nothing was written: the radio did not show its {0}")]
    NotShown(&'static str),
    /// Between begin and commit.
    #[error("{cause}; nothing was saved, and the radio was asked to restart with its old settings")]
    Undone {
        /// What went wrong.
        cause: SessionError,
    },
    /// The end was asked for between begin and commit.
    #[error(
        "interrupted; nothing was saved, and the radio was asked to restart with its old settings"
    )]
    Interrupted,
    /// The end was asked for after the commit.
    #[error(
        "interrupted while the radio restarts: the settings were sent and not read back; look with \
         `tombolo radio info`"
    )]
    Unverified,
    /// The commit was sent twice and the radio goes on.
    #[error(
        "the radio did not restart after the commit, so the settings may not be saved: take its power \
         away, give it back, and look with `tombolo radio info`"
    )]
    NoRestart,
    /// It restarted and does not come back.
    #[error("the settings were sent, and the radio has not come back within {} s: {cause}", BACK.as_secs())]
    Away {
        /// The last try.
        cause: SessionError,
    },
    /// Another one answers now.
    #[error("another radio answers than the one that was written to: its key is not the same")]
    OtherRadio,
    /// It took something else.
    #[error("the radio restarted with other settings than it was given: {}", .0.join("; "))]
    Differs(Vec<String>),
}

/// Writes what differs, to a radio that is known. `say` hears what happens, a line each. After `cancel` it ends
/// as soon as it can without leaving the radio half-changed or a frame half-written.
///
/// # Errors
/// See [`ApplyError`]; after each the radio works, with old or new settings.
pub async fn apply(
    connector: &Connector,
    wanted: &Wanted,
    known: &KnownRadio,
    cancel: &CancellationToken,
    say: &mut (dyn FnMut(&str) + Send),
) -> Result<Applied, ApplyError> {
    let opened = tokio::select! {
        () = cancel.cancelled() => return Err(ApplyError::Interrupted),
        opened = Session::open(connector) => opened,
    };
    let mut session = opened?;
    if let Err(refused) = known.admit(&session.info) {
        // Not even a goodbye: it is not ours.
        return Err(ApplyError::Foreign(refused));
    }
    let changed = differences(wanted, &session.info);
    if changed.is_empty() {
        let info = Box::new(session.info.clone());
        session.leave().await;
        return Ok(Applied::AlreadyRight(info));
    }
    let requests = match requests(wanted, &session) {
        Ok(requests) => requests,
        Err(error) => {
            session.leave().await;
            return Err(error);
        }
    };
    for line in &changed {
        say(line);
    }
    let before = session.info.public_key;
    for request in &requests {
        let undone = match session.request(request).await {
            Ok(()) if !cancel.is_cancelled() => continue,
            Ok(()) => ApplyError::Interrupted,
            Err(cause) => ApplyError::Undone { cause },
        };
        // It may have taken part of it, into its memory only.
        let _ = session.request(&Request::Restart(FORGET)).await;
        session.leave().await;
        return Err(undone);
    }
    say("written; waiting for the radio to restart");
    // Whether the radio has it is seen by the restart, not by the answer, which may get lost.
    let _ = session.request(&Request::Commit).await;
    tokio::select! {
        () = cancel.cancelled() => Err(ApplyError::Unverified),
        verified = verify(connector, wanted, session, before, say) => {
            let info = Box::new(verified?);
            Ok(Applied::Written { changed, info })
        }
    }
}

/// Waits out the restart after the commit, and reads back.
async fn verify(
    connector: &Connector,
    wanted: &Wanted,
    mut session: Session,
    before: Option<PublicKey>,
    say: &mut (dyn FnMut(&str) + Send),
) -> Result<RadioInfo, ApplyError> {
    let mut restarted = session.restarts(RESTART, BEAT).await;
    if !restarted {
        say("no restart yet; saying again that the changes are complete");
        let _ = session.request(&Request::Commit).await;
        restarted = session.restarts(RESTART, BEAT).await;
    }
    session.leave().await;
    let session = back(connector).await?;
    let info = session.info.clone();
    session.leave().await;
    if before.is_some() && info.public_key != before {
        return Err(ApplyError::OtherRadio);
    }
    let left = differences(wanted, &info);
    if !left.is_empty() {
        return Err(ApplyError::Differs(left));
    }
    if !restarted {
        return Err(ApplyError::NoRestart);
    }
    Ok(info)
}

/// What has to be sent between begin and commit, the begin included.
fn requests(wanted: &Wanted, session: &Session) -> Result<Vec<Request>, ApplyError> {
    let (info, details) = (&session.info, &session.details);
    if details.managed {
        return Err(ApplyError::Managed);
    }
    let faults = impossible(wanted, info);
    if !faults.is_empty() {
        return Err(ApplyError::Impossible(faults));
    }
    let mut requests = vec![Request::Begin];
    let mut lora = Vec::new();
    for row in super::compare::rows(wanted, info).iter().filter(|row| row.differs) {
        use super::Field;
        match row.field {
            Field::Region => {
                lora.extend(wanted.region.as_ref().map(|w| LoraChange::Region(w.value.code)));
            }
            Field::Preset => lora.extend(wanted.preset.as_ref().map(|w| LoraChange::Preset {
                code: w.value.code(),
                coding_rate: w.value.modem(false).coding_rate,
            })),
            Field::HopLimit => {
                lora.extend(wanted.hop_limit.as_ref().map(|w| LoraChange::HopLimit(w.value)));
            }
            Field::Role => {
                let original = shown(&details.device, "role")?;
                let role = wanted.role.as_ref().map(|w| device_with(original, w.value));
                requests.extend(role.map(Request::Device));
            }
            Field::Name => {
                let original = shown(&details.owner, "name")?;
                let owner = wanted.name.as_ref().map(|w| user_with(original, &w.value));
                requests.extend(owner.map(Request::Owner));
            }
        }
    }
    if !lora.is_empty() {
        let original = shown(&details.lora, "LoRa settings")?;
        requests.push(Request::Lora(lora_with(original, &lora)));
    }
    Ok(requests)
}

/// The original of a message. A locked radio shows blank ones, and writing those back would wipe the rest.
fn shown<'a>(bytes: &'a Option<Vec<u8>>, what: &'static str) -> Result<&'a [u8], ApplyError> {
    bytes.as_deref().filter(|bytes| !bytes.is_empty()).ok_or(ApplyError::NotShown(what))
}

/// The radio after its restart.
async fn back(connector: &Connector) -> Result<Session, ApplyError> {
    let end = Instant::now() + BACK;
    loop {
        // Closed first, so that a radio on USB can come back under its old name.
        sleep(TRY_AGAIN).await;
        match Session::open(connector).await {
            Ok(session) => return Ok(session),
            Err(cause) if Instant::now() >= end => return Err(ApplyError::Away { cause }),
            Err(_) => {}
        }
    }
}

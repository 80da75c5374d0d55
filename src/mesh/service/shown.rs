//! What the service shows of itself, from memory.

use tombolo_hw::preset::Preset;
use tombolo_hw::region::Region;
use tombolo_hw::slot::{self, Choice};

use super::Mesh;
use crate::assistant::{Assurance, CallerScope, PeerId};
use crate::clock::Now;
use crate::mesh::airtime::law::{Law, is_2_8};
use crate::mesh::inbox;
use crate::mesh::view::{AnsweringView, ContactView, MeshQuery, MeshStatus, Quota, Sizes};
use crate::radio::{MIN_FIRMWARE, RadioInfo, firmware_version, wire};

impl Mesh {
    /// Answers a query. That its asker has gone is fine.
    pub(super) fn query(&mut self, query: MeshQuery, now: Now) {
        let _asker_is_there = match query {
            MeshQuery::Status(reply) => reply.send(self.status(now)).is_ok(),
            MeshQuery::Nodes(reply) => {
                reply.send(self.nodes.view(&self.contacts, &self.config)).is_ok()
            }
            MeshQuery::Messages(limit, reply) => reply.send(self.messages.view(limit)).is_ok(),
            MeshQuery::Airtime(reply) => reply.send(self.outbox.airtime(now)).is_ok(),
            MeshQuery::Answering(reply) => reply.send(self.answering(now)).is_ok(),
            MeshQuery::Change(wish, reply) => reply.send(self.change(&wish, now)).is_ok(),
            MeshQuery::Pair(wish, reply) => reply.send(self.open_pairing(wish, now)).is_ok(),
            MeshQuery::SendText(wish, reply) => reply.send(self.send_text(&wish, now)).is_ok(),
            MeshQuery::Distress(reply) => reply.send(self.distress.view()).is_ok(),
            MeshQuery::ClearDistress(wish, reply) => {
                reply.send(self.clear_distress(&wish, now)).is_ok()
            }
            MeshQuery::Sizes(reply) => reply.send(self.sizes()).is_ok(),
            MeshQuery::RadioDrift(reply) => reply.send(self.drift.seconds(now.mono_ms)).is_ok(),
            MeshQuery::StopAll(resume, reply) => reply.send(self.stop_all(resume, now)).is_ok(),
            MeshQuery::AcceptRadio(fingerprint, reply) => {
                reply.send(self.accept_radio(&fingerprint, now)).is_ok()
            }
            MeshQuery::Reconfigure(settings, reply) => {
                let (mesh, airtime) = *settings;
                self.reconfigure(mesh, &airtime, now);
                reply.send(()).is_ok()
            }
        };
    }

    fn sizes(&self) -> Sizes {
        let mut sizes = vec![
            ("turns", self.turns.len()),
            ("queue", self.queue.waiting() + self.queue.running()),
            ("receivers", self.shown.len()),
            ("unstored answers", self.unsubmitted.len() + self.handed_over.len()),
            ("security events", self.told.len()),
            ("contacts in the radio", self.kept_in_radio.len()),
            ("wishes to forget", self.forget_until.len() + self.forgetting.len()),
            ("nodes", self.nodes.len()),
            ("messages", self.messages.len()),
            ("budgets", self.budgets.len()),
            ("loops", self.loops.len()),
            ("distress texts", self.distress.len()),
        ];
        sizes.extend(self.seen.sizes());
        sizes.extend(self.outbox.sizes());
        sizes
    }

    pub(super) fn status(&self, now: Now) -> MeshStatus {
        let (turns_running, turns_waiting) = self.running_and_waiting();
        let (parts_waiting, kept_answers) = self.outbox.counts();
        let mut status = MeshStatus {
            connected: self.up,
            link: self.link.clone(),
            turns_running,
            turns_waiting,
            parts_waiting,
            kept_answers,
            distress: self.distress.uncleared(),
            stopped: self.stopped,
            refused_radio: self.refused.clone(),
            airtime: self.outbox.airtime(now),
            warnings: self.warnings(),
            ..MeshStatus::default()
        };
        if let Some(radio) = &self.radio {
            status.my_node = Some(radio.my_node);
            status.owner = inbox::clean_name(&radio.owner.long_name, 40);
            status.fingerprint = radio.public_key.map(|key| key.fingerprint());
            status.firmware = inbox::clean_name(&radio.firmware, 40);
            status.region = region_name(radio.lora.region);
            status.modem = modem_name(radio);
            status.port = Some(radio.port.clone()).filter(|port| !port.is_empty());
            status.frequency_mhz = frequency_mhz(radio);
            status.role = Some(role_name(radio.role));
            status.licensed = radio.owner.licensed;
            status.firmware_note = firmware_note(radio);
        }
        status
    }

    pub(super) fn answering(&self, now: Now) -> AnsweringView {
        let mut view = self.contacts.answering(&self.configured, &self.config);
        self.show_grants(&mut view.allowed_contacts);
        self.show_quotas(&mut view.allowed_contacts, now);
        AnsweringView { pairing: self.pairing.view(now), ..view }
    }

    /// Puts in the grants that count now.
    fn show_grants(&self, views: &mut [ContactView]) {
        for (view, contact) in views.iter_mut().zip(self.contacts.entries()) {
            let Some(known) = self.standing(contact) else {
                // Without a key nothing is in force, whatever is configured.
                view.grants.clear();
                continue;
            };
            let scope = self.answerer.current(CallerScope::Mesh {
                peer_id: known.caller.clone(),
                name: known.name,
                assurance: Assurance::Verified,
                granted: known.base,
            });
            let granted = scope.granted_categories();
            view.grants = granted.iter().map(ToString::to_string).collect();
            view.grants_source = match self.answerer.grants_source(&known.caller) {
                "default" if known.configured => "configuration",
                source => source,
            };
        }
    }

    /// Puts in what each asked in the rolling hour, by the counters that refuse.
    fn show_quotas(&self, views: &mut [ContactView], now: Now) {
        let limit = self.config.queries_per_hour;
        for (view, contact) in views.iter_mut().zip(self.contacts.entries()) {
            let Some(key) = contact.pin.key() else { continue };
            let caller = PeerId(format!("key:{key}"));
            let left = self.budgets.questions_left(Some(&caller), limit, now.mono_ms);
            view.queries = Some(Quota { used: limit.saturating_sub(left), limit: Some(limit) });
        }
    }

    /// What the operator should put right.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.contacts.warnings(&self.configured);
        warnings.extend(self.distress.warning().map(str::to_owned));
        if self.stopped {
            warnings.push("all answers are stopped, until they are resumed".to_owned());
        }
        if let Some(radio) = &self.refused {
            warnings.push(radio.to_string());
        }
        if self.trigger.word().is_empty() {
            warnings.push("the trigger is empty: no text is a question".to_owned());
        }
        if let Some(radio) = &self.radio {
            radio_warnings(radio, &mut warnings);
            for name in &self.config.channels {
                if !radio.channels.iter().any(|c| channel_name(radio, c.index) == *name) {
                    warnings.push(format!("the radio has no channel `{name}`"));
                }
            }
        }
        warnings
    }
}

fn radio_warnings(radio: &RadioInfo, warnings: &mut Vec<String>) {
    match firmware_version(&radio.firmware) {
        Some(version) if version < MIN_FIRMWARE => warnings.push(format!(
            "firmware {} is older than 2.7.15: a direct message may be forged or fall back to the \
             channel key; update the radio",
            inbox::clean_name(&radio.firmware, 40)
        )),
        Some(_) => {}
        None => warnings.push("the radio does not say its firmware".to_owned()),
    }
    if let Err(reason) = Law::of(radio) {
        warnings.push(format!("nothing is sent: {reason}"));
    }
    if radio.owner.licensed {
        warnings.push(
            "the radio is in licensed mode: everything is sent in the clear, nobody can be verified, and \
             nobody has tools or memory; its owner answers for what is sent, under the call sign in its name"
                .to_owned(),
        );
    } else if radio.public_key.is_none() {
        warnings.push("the radio has no key of its own: nobody can be verified".to_owned());
    }
}

/// Does that firmware mark how a packet arrived? Unknown firmware is taken to, which trusts less.
pub(super) fn tags_transport(firmware: &str) -> bool {
    firmware_version(firmware).is_none_or(|version| version >= MIN_FIRMWARE)
}

/// A channel's name as people know it: its own, or the preset's where it has none.
pub(super) fn channel_name(radio: &RadioInfo, index: u32) -> String {
    match radio.channels.iter().find(|channel| channel.index == index) {
        None => format!("channel {index}"),
        Some(channel) if !channel.name.is_empty() => channel.name.clone(),
        Some(_) if !radio.lora.use_preset => "Custom".to_owned(),
        Some(_) => Preset::from_code(radio.lora.preset)
            .map_or_else(|| format!("channel {index}"), |preset| preset.display_name().to_owned()),
    }
}

/// The firmware, where it is too old.
fn firmware_note(radio: &RadioInfo) -> Option<String> {
    let (major, minor, patch) = MIN_FIRMWARE;
    let old = firmware_version(&radio.firmware).is_some_and(|version| version < MIN_FIRMWARE);
    old.then(|| format!("too old: {major}.{minor}.{patch} or later is needed"))
}

/// Where it transmits, as its firmware computes it. What the owner chose is right to 100 Hz: the radio keeps it in 32
/// bits.
fn frequency_mhz(radio: &RadioInfo) -> Option<f64> {
    let lora = &radio.lora;
    let chosen = f64::from(lora.override_frequency);
    let mhz = if chosen == 0.0 {
        let region = Region::from_code(lora.region)?;
        let modem = Law::modem(radio, region)?;
        let primary = radio.channels.iter().find(|channel| channel.primary)?.index;
        let channel = channel_name(radio, primary);
        let since_2_8 = is_2_8(&radio.firmware);
        let choice = Choice { slot: lora.channel_num, channel: &channel, since_2_8 };
        f64::from(slot::frequency_hz(region, &modem, choice)?) / 1e6
    } else {
        chosen
    };
    let rounded = |mhz: f64, steps: f64| (mhz * steps).round() / steps;
    let offset = f64::from(lora.frequency_offset);
    Some(if chosen == 0.0 && offset == 0.0 { mhz } else { rounded(mhz + offset, 1e4) })
}

fn role_name(code: i32) -> String {
    wire::settings::role_name(code).map_or_else(|| format!("unknown ({code})"), str::to_owned)
}

fn region_name(code: i32) -> String {
    match Region::from_code(code) {
        Some(region) => region.name.to_owned(),
        None if code == 0 => "unset".to_owned(),
        None => format!("unknown ({code})"),
    }
}

fn modem_name(radio: &RadioInfo) -> String {
    let lora = &radio.lora;
    if !lora.use_preset {
        return format!(
            "bandwidth {}, spreading factor {}, coding rate 4/{}",
            lora.bandwidth, lora.spread_factor, lora.coding_rate
        );
    }
    Preset::from_code(lora.preset)
        .map_or_else(|| format!("unknown preset ({})", lora.preset), |p| p.name().to_owned())
}

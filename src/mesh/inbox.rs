//! The inbox: what a packet says, and from where, before anybody decides anything about it.
//!
//! Owns the text's cleaning, the checks of sender and addressee, and the [`Envelope`]: everything of a
//! packet that identity and policy may look at. The text is not in it, so that no word can become
//! authority. Must not know contacts, configuration or the assistant.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::invisible;
use crate::node::{NodeNum, PacketId, PublicKey};
use crate::radio::{Data, Inbound, Payload, port};

/// Longest text that is looked at, in bytes of cleaned UTF-8. A packet holds at most 233 bytes; bytes that
/// are not UTF-8 grow to three each.
pub const MAX_TEXT: usize = 512;
/// `TransportMechanism` of the primary LoRa radio.
const TRANSPORT_LORA: i32 = 1;
/// `TransportMechanism` where the firmware doesn't say.
const TRANSPORT_UNKNOWN: i32 = 0;
/// `TransportMechanism` of MQTT.
const TRANSPORT_MQTT: i32 = 5;
/// A count of hops is three bits.
const MAX_HOPS: u32 = 7;

/// The channel that a text was broadcast on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRef {
    /// The local index.
    pub index: u32,
    /// Its name, the preset's own where it has none.
    pub name: String,
}

/// What a packet proves and claims about its sender: the only input of identity and policy. It is kept with
/// the question on disk, so that a caller is resolved again after a restart from the same evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The sender's number, a claim.
    pub from: NodeNum,
    /// The packet's id; 0 where the sender gave none.
    pub id: PacketId,
    /// `None` for a direct message to us.
    pub channel: Option<ChannelRef>,
    /// It crossed the internet, as far as anybody says.
    pub mqtt: bool,
    /// The key that a direct message to us was decrypted with, received by LoRa: evidence of that key.
    pub proven_key: Option<PublicKey>,
    /// The key that our radio holds for the claimed number, where it checked a signature: no evidence of
    /// more than that.
    pub signed_key: Option<PublicKey>,
    /// The hops that it took, where it says: how far an answer must reach.
    #[serde(default)]
    pub hops: Option<u32>,
}

/// How a packet was heard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signal {
    /// dB, of the last hop.
    pub snr: f32,
    /// dBm, of the last hop; `None` where the radio doesn't say.
    pub rssi: Option<i32>,
    /// Hops that it took, where it says.
    pub hops: Option<u32>,
}

/// A text that somebody sent to us or to everybody.
#[derive(Debug, Clone, PartialEq)]
pub struct Letter {
    /// From whom, and how that is known.
    pub envelope: Envelope,
    /// Cleaned; never empty.
    pub text: String,
    /// How it was heard.
    pub signal: Signal,
}

/// What is known of our own radio when a packet arrives.
pub struct Receiver<'a> {
    /// Our own number.
    pub my_node: NodeNum,
    /// Does its firmware say how a packet arrived? Firmware before 2.7.15 may not: there `0` stands for
    /// LoRa, and the operator is warned about that firmware. Later firmware marks every packet, so `0` is
    /// none that came by LoRa.
    pub tags_transport: bool,
    /// Is it in licensed mode? Then nothing is encrypted, and nobody proves anything.
    pub licensed: bool,
    /// The name of a channel of ours.
    pub channel_name: &'a dyn Fn(u32) -> String,
    /// The key that the radio holds for a node.
    pub key_of: &'a dyn Fn(NodeNum) -> Option<PublicKey>,
}

/// Why a text is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// It claims our own number, 0, a reserved one or the broadcast address.
    SpoofedSender,
    /// It is for somebody else.
    NotForUs,
    /// Nothing is left of it.
    Empty,
    /// A reaction to another message.
    Reaction,
    /// It starts like a part of one of our answers.
    PartMark,
    /// It does not start with the trigger.
    NoTrigger,
    /// Answering is switched off.
    Disabled,
    /// The sender is on the list of those who are refused.
    Denied,
    /// The operator has suspended this contact.
    Suspended,
    /// It came through the internet.
    Mqtt,
    /// The channel is not listed.
    ChannelNotListed,
    /// Only contacts are answered, and this is not surely one.
    NotVerified,
    /// The same packet was answered before.
    Replay,
    /// The same question is being answered.
    BeingAnswered,
    /// The same text was answered a moment ago; its answer was sent once more.
    Repeated,
    /// The same text again, after its answer was sent twice.
    RepeatedAgain,
    /// Over the budget.
    OverBudget,
    /// Too many questions wait.
    Busy,
    /// It could not be written to the disk.
    Storage,
    /// Its sender has answered each of our answers at once, again and again: two programs talk.
    Loop,
    /// The operator has stopped all answers.
    Stopped,
    /// A distress text that was recorded; one of the same caller was acknowledged a moment ago.
    Acknowledged,
    /// It was accepted so long ago that nobody waits for an answer.
    TooOld,
}

impl Ignored {
    /// For people, and for the record of refused questions.
    pub fn as_str(self) -> &'static str {
        match self {
            Ignored::SpoofedSender => "spoofed sender",
            Ignored::NotForUs => "not for us",
            Ignored::Empty => "empty",
            Ignored::Reaction => "a reaction",
            Ignored::PartMark => "a part of an answer",
            Ignored::NoTrigger => "no trigger",
            Ignored::Disabled => "answering is off",
            Ignored::Denied => "denied",
            Ignored::Suspended => "suspended",
            Ignored::Mqtt => "came by MQTT",
            Ignored::ChannelNotListed => "channel not listed",
            Ignored::NotVerified => "not a verified contact",
            Ignored::Replay => "replay",
            Ignored::BeingAnswered => "already being answered",
            Ignored::Repeated => "repeated: answer sent once more",
            Ignored::RepeatedAgain => "repeated",
            Ignored::OverBudget => "over the hourly budget",
            Ignored::Busy => "busy",
            Ignored::Storage => "could not be stored",
            Ignored::Loop => "answers each answer at once: paused",
            Ignored::Stopped => "stopped by the operator",
            Ignored::Acknowledged => "recorded; acknowledged a moment ago",
            Ignored::TooOld => "too old",
        }
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Envelope {
    /// What the packet shows. The rule of who is verified begins here: a key counts only if our radio
    /// decrypted with it, the packet was for us alone, and it came by LoRa.
    pub fn of(packet: &Inbound, radio: &Receiver<'_>) -> Envelope {
        let direct = packet.to == radio.my_node;
        let by_lora = packet.transport == TRANSPORT_LORA
            || (packet.transport == TRANSPORT_UNKNOWN && !radio.tags_transport);
        let proven = packet.pki_encrypted && direct && by_lora && !radio.licensed;
        Envelope {
            from: packet.from,
            id: packet.id,
            channel: (!direct).then(|| ChannelRef {
                index: packet.channel,
                name: (radio.channel_name)(packet.channel),
            }),
            mqtt: packet.via_mqtt || packet.transport == TRANSPORT_MQTT,
            proven_key: packet.public_key.filter(|_| proven),
            signed_key: (radio.key_of)(packet.from)
                .filter(|_| packet.xeddsa_signed && !radio.licensed),
            hops: Signal::of(packet).hops,
        }
    }

    /// The same as an unencrypted packet would show it: what licensed mode leaves of it.
    pub fn in_the_clear(&self) -> Envelope {
        Envelope { proven_key: None, signed_key: None, ..self.clone() }
    }
}

impl Signal {
    /// How a packet was heard.
    pub fn of(packet: &Inbound) -> Signal {
        // A start of 0 is old firmware, which doesn't say, or truly zero hops; the two look the same here.
        let hops = packet
            .hop_start
            .checked_sub(packet.hop_limit)
            .filter(|hops| packet.hop_start > 0 && *hops <= MAX_HOPS);
        let rssi = (packet.rx_rssi != 0).then_some(packet.rx_rssi);
        Signal { snr: packet.rx_snr, rssi, hops }
    }

    /// dB, where the radio says: what came by another way than the air has neither figure.
    pub fn snr(&self) -> Option<f32> {
        let heard = self.rssi.is_some() || self.snr != 0.0;
        (heard && self.snr.is_finite()).then_some(self.snr)
    }
}

/// Reads a text packet: `None` when it is no text at all, `Err` with the reason when it is one that can't be a
/// question. The text of an `Err` is for the message list.
pub fn read(packet: &Inbound, radio: &Receiver<'_>) -> Option<Result<Letter, (Ignored, String)>> {
    let Payload::Data(data) = &packet.payload else {
        return None;
    };
    if data.port != port::TEXT_MESSAGE {
        return None;
    }
    let text = clean(&data.bytes);
    if let Some(reason) = refuse(packet, data, &text, radio) {
        return Some(Err((reason, text)));
    }
    let envelope = Envelope::of(packet, radio);
    Some(Ok(Letter { envelope, text, signal: Signal::of(packet) }))
}

fn refuse(packet: &Inbound, data: &Data, text: &str, radio: &Receiver<'_>) -> Option<Ignored> {
    if packet.from == radio.my_node || !packet.from.is_peer() {
        // The radio doesn't echo our own texts, so even our own number means somebody else wrote it.
        return Some(Ignored::SpoofedSender);
    }
    if packet.to != radio.my_node && packet.to != NodeNum::BROADCAST {
        return Some(Ignored::NotForUs);
    }
    if data.emoji != 0 {
        return Some(Ignored::Reaction);
    }
    text.is_empty().then_some(Ignored::Empty)
}

/// The text of a packet as everything else may see it: UTF-8 with bad bytes replaced, line ends made `\n`,
/// every other control, bidirectional, zero-width and tag character gone, trimmed, at most [`MAX_TEXT`] bytes.
/// Joiners stay between letters of the scripts that spell with them.
pub fn clean(bytes: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(bytes);
    let mut text = String::with_capacity(lossy.len().min(MAX_TEXT));
    let mut chars = lossy.chars().peekable();
    while let Some(c) = chars.next() {
        let kept = match c {
            '\r' if chars.peek() == Some(&'\n') => continue,
            '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' => '\n',
            '\t' | '\u{b}' | '\u{c}' => ' ',
            '\u{200c}' | '\u{200d}' => {
                let joins = text.chars().next_back().is_some_and(invisible::spells_with_joiners)
                    && chars.peek().copied().is_some_and(invisible::spells_with_joiners);
                if !joins {
                    continue;
                }
                c
            }
            c if invisible::hidden(c) => continue,
            c => c,
        };
        if text.len() + kept.len_utf8() > MAX_TEXT {
            break;
        }
        text.push(kept);
    }
    text.trim().to_owned()
}

/// A name that somebody else chose, made fit to show: as [`clean`], on one line, at most `max` characters.
pub fn clean_name(name: &str, max: usize) -> String {
    clean(name.as_bytes()).replace('\n', " ").chars().take(max).collect()
}

#[cfg(test)]
mod tests;

//! Every frame that real firmware was recorded to send, every field of it, against what an independent decoder reads.
//!
//! `tests/captures/frames.tsv` was made with the protobufs of the official Python client: file, frame, kind and fields.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use tombolo::node::PublicKey;
use tombolo::radio::wire::{self, FromRadio};
use tombolo::radio::{Inbound, NodeInfo, Payload, Telemetry, port, routing};
use tombolo_hw::frame::{Decoder, Item};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

/// The frames of a stream. It must hold nothing else.
fn frames(stream: &[u8]) -> Vec<FromRadio> {
    let mut decoder = Decoder::new();
    let (mut rest, mut found) = (stream, Vec::new());
    loop {
        let mut decoded = None;
        let item = decoder.next(&mut |payload| {
            decoded = wire::decode(payload).ok();
            decoded.is_some()
        });
        match item {
            Some(Item::Frame(_)) => found.push(decoded.unwrap()),
            Some(Item::Log(line)) => panic!("text between frames: {line:?}"),
            None if rest.is_empty() => break,
            None => {
                let taken = decoder.feed(rest);
                rest = &rest[taken..];
            }
        }
    }
    assert!(!decoder.in_frame() && decoder.rejected() == 0);
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn key(key: Option<PublicKey>) -> String {
    key.map_or_else(|| "-".to_owned(), |key| hex(&key.0))
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn metrics(telemetry: Option<Telemetry>) -> String {
    let Some(telemetry) = telemetry else { return "telemetry=-".to_owned() };
    format!(
        "channel_utilization={} air_util_tx={} battery={}",
        or_dash(telemetry.channel_utilization.map(|percent| format!("{percent:.4}"))),
        or_dash(telemetry.air_util_tx.map(|percent| format!("{percent:.4}"))),
        or_dash(telemetry.battery_level),
    )
}

fn packet(p: &Inbound) -> String {
    let mut line = format!(
        "packet from={} to={} id={:08x} channel={} hop_limit={} hop_start={} want_ack={} via_mqtt={} \
         transport={} pki={} key={} snr={:.4} rssi={} rx_time={}",
        p.from,
        p.to,
        p.id.0,
        p.channel,
        p.hop_limit,
        p.hop_start,
        u8::from(p.want_ack),
        u8::from(p.via_mqtt),
        p.transport,
        u8::from(p.pki_encrypted),
        key(p.public_key),
        p.rx_snr,
        p.rx_rssi,
        p.rx_time.unwrap_or(0),
    );
    match &p.payload {
        Payload::Encrypted { len } => write!(line, " encrypted={len}").unwrap(),
        Payload::Empty => line.push_str(" empty"),
        Payload::Data(data) => {
            write!(
                line,
                " port={} request_id={:08x} reply_id={:08x} emoji={} want_response={} payload={}",
                data.port,
                data.request_id.0,
                data.reply_id.0,
                data.emoji,
                u8::from(data.want_response),
                hex(&data.bytes)
            )
            .unwrap();
            if data.port == port::ROUTING {
                write!(line, " routing_error={}", or_dash(data.routing_error)).unwrap();
            }
            if data.port == port::TELEMETRY {
                write!(line, " {}", metrics(data.telemetry)).unwrap();
            }
        }
    }
    line
}

fn node_info(node: &NodeInfo) -> String {
    format!(
        "node_info node=!{:08x} long_name={:?} short_name={:?} key={} last_heard={} snr={:.4} hops_away={} \
         licensed={} {}",
        node.num,
        node.long_name,
        node.short_name,
        key(node.public_key),
        node.last_heard,
        node.snr,
        or_dash(node.hops_away),
        u8::from(node.licensed),
        metrics(node.telemetry),
    )
}

/// A frame in the words of the table.
fn line(frame: &FromRadio) -> String {
    match frame {
        FromRadio::MyInfo(node) => format!("my_info node={node}"),
        FromRadio::NodeInfo(node) => node_info(node),
        FromRadio::Metadata { firmware } => format!("metadata firmware={firmware}"),
        FromRadio::Channel(channel) => format!(
            "channel index={} name={:?} primary={}",
            channel.index,
            channel.name,
            u8::from(channel.primary)
        ),
        FromRadio::NoChannel(index) => format!("channel index={index} disabled"),
        FromRadio::Device { role, announces_every_s } => {
            format!("device role={role} announces_every_s={announces_every_s}")
        }
        FromRadio::Lora(lora) => format!(
            "lora region={} use_preset={} preset={} bandwidth={} spread_factor={} coding_rate={} hop_limit={} \
             tx_enabled={} override_duty_cycle={} override_frequency={:.4} channel_num={}",
            lora.region,
            u8::from(lora.use_preset),
            lora.preset,
            lora.bandwidth,
            lora.spread_factor,
            lora.coding_rate,
            lora.hop_limit,
            u8::from(lora.tx_enabled),
            u8::from(lora.override_duty_cycle),
            lora.override_frequency,
            lora.channel_num,
        ),
        FromRadio::OwnKey(own) => format!("own_key key={}", key(*own)),
        FromRadio::ConfigComplete(nonce) => format!("config_complete nonce={nonce}"),
        FromRadio::QueueStatus(status) => format!(
            "queue_status res={} free={} maxlen={} id={:08x}",
            status.res, status.free, status.maxlen, status.id.0
        ),
        FromRadio::Notification { reply_id, text } => {
            format!("notification reply_id={:08x} text={text:?}", reply_id.0)
        }
        FromRadio::Packet(inbound) => packet(inbound),
        other => match format!("{other:?}").as_str() {
            "Other" => "other".to_owned(),
            unexpected => panic!("no recording holds a {unexpected}"),
        },
    }
}

/// What the table says of each recording.
fn table() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(folder().join("frames.tsv")).unwrap();
    let mut table: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in text.lines() {
        let [name, number, fields] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let rows = table.entry(name.to_owned()).or_default();
        rows.push(fields.to_owned());
        assert_eq!(number, rows.len().to_string(), "{name}");
    }
    table
}

#[test]
fn every_field_of_every_recorded_frame_is_read_as_an_independent_decoder_reads_it() {
    let mut table = table();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "bin") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let read: Vec<String> = frames(&std::fs::read(&path).unwrap()).iter().map(line).collect();
        let wanted = table.remove(&name).unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(read.len(), wanted.len(), "{name}");
        for (number, (read, wanted)) in read.iter().zip(&wanted).enumerate() {
            assert_eq!(read, wanted, "{name}, frame {}", number + 1);
        }
    }
    assert!(table.is_empty(), "in the table and not there: {:?}", table.keys());
}

/// What `tests/captures/README.md` says of the answers: how many frames, the fate in the queue, who refuses or
/// acknowledges, and why.
#[test]
fn each_recording_says_what_its_description_says() {
    let ours = |name| match name {
        "reboot_tail" => "!9c41d7e0",
        "duty_cycle_limit" => "!5d90b21c",
        _ => "!51b8a6f3",
    };
    let table = table();
    let frames_of = |name: &str| table.get(name).unwrap_or_else(|| panic!("{name}")).clone();
    for (name, count, res, own, reason) in [
        ("dm_sender_queue_status_and_ack", 2, 0, false, routing::NONE),
        ("channel_text_sender_implicit_ack", 2, 0, true, routing::NONE),
        ("text_rejected_too_large", 2, 7, true, routing::TOO_LARGE),
        ("disabled_channel", 2, 6, true, routing::NO_CHANNEL),
        ("duty_cycle_limit", 3, 9, true, routing::DUTY_CYCLE_LIMIT),
        ("nak_max_retransmit", 2, 0, true, routing::MAX_RETRANSMIT),
        ("nak_no_channel_remote", 2, 0, false, routing::NO_CHANNEL),
        ("nak_pki_failed", 2, 34, true, routing::PKI_FAILED),
        ("nak_pki_send_fail_public_key", 2, 39, true, routing::PKI_SEND_FAIL_PUBLIC_KEY),
        ("nak_pki_unknown_pubkey", 4, 0, false, routing::PKI_UNKNOWN_PUBKEY),
        ("reboot_tail", 2, 0, true, routing::NONE),
    ] {
        let frames = frames_of(name);
        assert_eq!(frames.len(), count, "{name}");
        assert!(
            frames[0].starts_with(&format!("queue_status res={res} ")),
            "{name}: {}",
            frames[0]
        );
        let id = frames[0].rsplit('=').next().unwrap();
        let about = |line: &&String| line.contains(&format!("request_id={id} "));
        let verdict = frames.iter().find(about).unwrap_or_else(|| panic!("{name}: no verdict"));
        assert!(verdict.ends_with(&format!("routing_error={reason}")), "{name}: {verdict}");
        let from_own = verdict.contains(&format!("from={} to={} ", ours(name), ours(name)));
        assert_eq!(from_own, own, "{name}: {verdict}");
    }
    let burst = frames_of("burst10_rate_limited");
    let refused = burst.iter().filter(|line| line.ends_with("routing_error=38")).count();
    let statuses = burst.iter().filter(|line| line.starts_with("queue_status res=0")).count();
    assert_eq!((burst.len(), statuses, refused), (8, 3, 4), "of ten and nine");
    assert_eq!(
        frames_of("heartbeat_queue_status"),
        ["queue_status res=0 free=16 maxlen=16 id=00000000"]
    );
    for (name, count, nonce) in [
        ("want_config_handshake", 47, 987_654_321),
        ("want_config_only_config", 45, 69_420),
        ("want_config_only_nodes", 4, 69_421),
    ] {
        let frames = frames_of(name);
        assert_eq!(frames.len(), count, "{name}");
        assert_eq!(frames.last(), Some(&format!("config_complete nonce={nonce}")));
    }
}

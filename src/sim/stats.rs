//! What our simulated radio counts of its own traffic, and tells its client every quarter of an hour.
//!
//! Owns the counters, lost at each reboot, and the `LocalStats` packet. Must not decide anything by them.

use meshtastic::Message as _;
use meshtastic::protobufs::{
    Data, LocalStats, MeshPacket, PortNum, Telemetry, mesh_packet, telemetry,
};

use super::world::{Event, World};

/// How often the radio tells.
pub(super) const EVERY_US: u64 = 900_000_000;

/// Since the last start of the radio.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    /// Transmissions, those of others included.
    pub sent: u32,
    /// Of those, packets of others that it passed on.
    pub relayed: u32,
    /// Receptions.
    pub heard: u32,
    /// Of those, disturbed.
    pub bad: u32,
    /// Of those, known already.
    pub known: u32,
}

impl World {
    /// Own counters, unless the client has not taken the last things yet.
    pub fn local_stats(&mut self) {
        self.after(EVERY_US, Event::LocalStats { boot: self.boot });
        if !self.phone.is_idle() {
            return;
        }
        let uptime = self.now_us.saturating_sub(self.booted_us) / 1_000_000;
        let nodes = u32::try_from(self.device.nodes.len() + 1).unwrap_or(u32::MAX);
        let stats = LocalStats {
            uptime_seconds: u32::try_from(uptime).unwrap_or(u32::MAX),
            channel_utilization: self.meter.channel_utilization(self.now_us),
            air_util_tx: self.meter.air_util_tx(self.now_us),
            num_packets_tx: self.counters.sent,
            num_packets_rx: self.counters.heard,
            num_packets_rx_bad: self.counters.bad,
            num_rx_dupe: self.counters.known,
            num_tx_relay: self.counters.relayed,
            num_online_nodes: nodes,
            num_total_nodes: nodes,
            ..LocalStats::default()
        };
        let variant = Some(telemetry::Variant::LocalStats(stats));
        let said = Telemetry { time: self.radio_time(), variant };
        self.own_telemetry(&said);
    }

    /// Telemetry of our own node, as its client gets it. It does not go on air.
    pub fn own_telemetry(&mut self, said: &Telemetry) {
        let packet = MeshPacket {
            from: self.device.num,
            to: u32::MAX,
            id: self.rng.id(),
            priority: mesh_packet::Priority::Background as i32,
            hop_limit: self.device.lora().hop_limit,
            rx_time: self.radio_time(),
            payload_variant: Some(mesh_packet::PayloadVariant::Decoded(Data {
                portnum: PortNum::TelemetryApp as i32,
                payload: said.encode_to_vec(),
                ..Data::default()
            })),
            ..MeshPacket::default()
        };
        self.show_client(packet, false);
    }
}

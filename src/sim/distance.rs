//! How far away a peer is, and what that does to its signal.
//!
//! Owns one rough model of a suburb (log-distance path loss, 14 dBm, plain antennas), good enough for loss that grows
//! with distance and with faster presets. Must not be taken for a coverage plan.

use tombolo_hw::lora::Modem;

use super::config::SimPeer;

/// dBm.
const POWER: f32 = 14.0;
/// dB in the first metre at 868 MHz, cables and antennas included.
const FIRST_METRE: f32 = 40.0;
/// dB for ten times the distance.
const DECADE: f32 = 32.0;
/// dB that a receiver adds to the noise.
const NOISE_FIGURE: f32 = 6.0;
/// How many dB of fading lie between almost everything and almost nothing.
const FADING: f32 = 2.0;

/// dBm and dB at so many metres.
pub(super) fn signal(metres: f32, modem: &Modem) -> (i32, f32) {
    let rssi = POWER - FIRST_METRE - DECADE * metres.max(1.0).log10();
    #[allow(clippy::cast_precision_loss)] // Hz, a rough figure
    let noise = -174.0 + 10.0 * (modem.bandwidth_hz as f32).log10() + NOISE_FIGURE;
    #[allow(clippy::cast_possible_truncation)] // tens of dB
    let whole = rssi.round() as i32;
    (whole, rssi - noise)
}

/// The chance that a packet with that signal is lost, 0..=1: a half where it is just as strong as the spreading factor
/// needs.
pub(super) fn loss(snr: f32, modem: &Modem) -> f32 {
    let needed = -7.5 - 2.5 * (f32::from(modem.spreading_factor) - 7.0);
    1.0 / (1.0 + ((snr - needed) / FADING).exp())
}

impl SimPeer {
    /// The same peer, so many metres from our radio, or from the relay next to it.
    #[must_use]
    pub fn at(self, metres: f32, modem: &Modem) -> SimPeer {
        let (rssi, snr) = signal(metres, modem);
        SimPeer { rssi, snr, loss: loss(snr, modem), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeNum;
    use tombolo_hw::preset::Preset;

    fn peer(metres: f32, preset: &str) -> SimPeer {
        let modem = Preset::from_name(preset).unwrap().modem(false);
        SimPeer::new("Ana", NodeNum(77)).at(metres, &modem)
    }

    #[test]
    fn loss_grows_with_distance_and_with_speed() {
        let losses: Vec<f32> =
            [10.0, 500.0, 1_500.0, 2_000.0, 4_000.0].map(|m| peer(m, "LONG_FAST").loss).to_vec();
        assert!(losses.is_sorted(), "{losses:?}");
        assert!(losses[0] < 0.001 && losses[4] > 0.9, "{losses:?}");
        assert!(peer(1_000.0, "SHORT_TURBO").loss > peer(1_000.0, "LONG_SLOW").loss + 0.5);
    }

    #[test]
    fn at_the_edge_of_what_the_modem_can_hear_a_half_is_lost() {
        // 14 - 40 - 32 · log10(1933) = -131.2 dBm; the noise in 250 kHz is -114 dBm, and SF 11 needs -17.5 dB.
        let edge = peer(1_933.0, "LONG_FAST");
        assert_eq!(edge.rssi, -131);
        assert!((edge.snr + 17.2).abs() < 0.1 && (edge.loss - 0.46).abs() < 0.03, "{edge:?}");
    }
}

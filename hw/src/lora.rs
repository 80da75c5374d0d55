//! LoRa's time on air, and the waiting times that the radio derives from it.
//!
//! Owns the modem's parameters and integer arithmetic that equals the firmware's (truncated where it
//! truncates). Knows no law: that is `region` and `duty`.

use crate::preset::Preset;

/// Symbols of preamble on sub-gigahertz chips.
pub(crate) const PREAMBLE: u16 = 16;
/// Symbols of preamble on the 2.4 GHz chip.
pub(crate) const PREAMBLE_WIDE: u16 = 12;
/// An ack on air: 16 bytes of header, 13 of `Data` (port 2, payload 4, request id 5, bitfield 2).
const ACK_LEN: usize = 29;
/// What the firmware allows a receiver for its work, on top of the channel's times.
const PROCESSING_MS: u32 = 4500;
/// The contention window is 2^3 to 2^8 slots wide, by how busy the channel is.
const CW_MIN: u32 = 3;
const CW_MAX: u32 = 8;

/// How a radio modulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modem {
    /// Hz.
    pub bandwidth_hz: u32,
    /// 5..=12.
    pub spreading_factor: u8,
    /// 5..=8, for 4/5 to 4/8.
    pub coding_rate: u8,
    /// Symbols.
    pub preamble: u16,
    /// The 2.4 GHz chip, which counts a little differently.
    pub wide: bool,
}

impl Modem {
    /// A modem with the preamble that the firmware uses. `None` where a value is out of range:
    /// bandwidth 7 to 2000 kHz, spreading factor 5 to 12, coding rate 5 to 8.
    #[must_use]
    pub const fn new(
        bandwidth_hz: u32,
        spreading_factor: u8,
        coding_rate: u8,
        wide: bool,
    ) -> Option<Modem> {
        let preamble = if wide { PREAMBLE_WIDE } else { PREAMBLE };
        let modem = Modem { bandwidth_hz, spreading_factor, coding_rate, preamble, wide };
        if in_range(&modem) { Some(modem) } else { None }
    }

    /// The modem that a radio's LoRa settings mean, by the rule of firmware 2.7: a coding rate of 5 to
    /// 8 replaces the preset's, up or down. `None` where they mean none.
    ///
    /// `bandwidth` is the configured code (31, 62, 125, 250…), used only without a preset.
    #[must_use]
    pub fn from_settings(
        use_preset: bool,
        preset: i32,
        bandwidth: u32,
        spread_factor: u32,
        coding_rate: u32,
        wide: bool,
    ) -> Option<Modem> {
        let rate = match u8::try_from(coding_rate).ok()? {
            rate @ 5..=8 => Some(rate),
            _ => None,
        };
        if use_preset {
            let modem = Preset::from_code(preset)?.modem(wide);
            return Some(Modem { coding_rate: rate.unwrap_or(modem.coding_rate), ..modem });
        }
        // Zero is what the firmware itself turns into 4/5.
        let rate = if coding_rate == 0 { Some(5) } else { rate };
        let factor = u8::try_from(spread_factor).ok()?;
        Modem::new(bandwidth_hz(bandwidth)?, factor, rate?, wide)
    }

    /// The same by the rule of firmware 2.8: a configured coding rate only ever raises the preset's.
    #[must_use]
    pub fn from_settings_2_8(
        use_preset: bool,
        preset: i32,
        bandwidth: u32,
        spread_factor: u32,
        coding_rate: u32,
        wide: bool,
    ) -> Option<Modem> {
        let modem =
            Modem::from_settings(use_preset, preset, bandwidth, spread_factor, coding_rate, wide)?;
        if !use_preset {
            return Some(modem);
        }
        let floor = Preset::from_code(preset)?.modem(wide).coding_rate;
        Some(Modem { coding_rate: modem.coding_rate.max(floor), ..modem })
    }

    /// One symbol, in µs, truncated.
    #[must_use]
    pub const fn symbol_us(&self) -> u32 {
        if self.bandwidth_hz == 0 {
            return 0;
        }
        // At most 10^6 · 2^12 before the division.
        let us = (1_000_000u64 << self.factor()) / self.bandwidth_hz as u64;
        saturate(us)
    }

    /// The time on air of a frame of that many bytes (the 16 of the header counted), in µs.
    ///
    /// Explicit header, CRC on, low data rate optimisation where a symbol takes 16 ms or more.
    /// `symbols = preamble + 4.25 + 8 + ceil(bits / div) · CR`, with 6.25 for SF 5 and 6.
    #[must_use]
    pub const fn time_on_air_us(&self, frame_len: usize) -> u32 {
        if self.bandwidth_hz == 0 {
            return 0;
        }
        // No frame is longer than 255; the cap only keeps the arithmetic within its type.
        let len = if frame_len > 65_535 { 65_535 } else { frame_len as u64 };
        let sf = self.factor() as u64;
        let low_factor = sf < 7;
        let slow = if self.wide {
            // This chip decides by the factor alone.
            sf >= 11
        } else {
            (1u64 << sf) * 1000 >= 16 * self.bandwidth_hz as u64
        };
        // Quarter symbols, so that 4.25 is a whole number.
        let quarters_fixed = (self.preamble as u64 + 8) * 4 + if low_factor { 25 } else { 17 };
        let div = if slow { 4 * (sf - 2) } else { 4 * sf };
        // What does not fit the eight symbols of the first block: payload, CRC and header, less the
        // bits that the first block carries.
        let bits = 8 * len + 16 + 20;
        let first_block = match (self.wide, low_factor) {
            (_, true) => 4 * sf,
            (false, false) => 4 * sf - 8,
            (true, false) => 4 * sf + 8,
        };
        let blocks = bits.saturating_sub(first_block).div_ceil(div);
        let quarters = quarters_fixed + blocks * self.coding_rate as u64 * 4;
        if self.wide {
            // No rounding to whole microseconds a symbol here: the chip's bandwidths divide badly.
            saturate((quarters * (1_000_000u64 << sf)) / (4 * self.bandwidth_hz as u64))
        } else {
            saturate(quarters * self.symbol_us() as u64 / 4)
        }
    }

    /// One slot of the contention window, in ms, truncated: channel activity detection (2.5 symbols,
    /// or 4 + (2·SF + 3)/32 on the 2.4 GHz chip) and 7.6 ms for propagation, turnaround and software.
    #[must_use]
    pub const fn slot_ms(&self) -> u32 {
        let sf = self.factor() as u64;
        let symbols_32 = if self.wide { 4 * 32 + 2 * sf + 3 } else { 80 };
        if self.bandwidth_hz == 0 {
            return 0;
        }
        let us = symbols_32 * (1_000_000u64 << sf) / (32 * self.bandwidth_hz as u64);
        saturate((us + 7_600) / 1000)
    }

    /// The time on air of an ack, in µs.
    #[must_use]
    pub const fn ack_us(&self) -> u32 {
        self.time_on_air_us(ACK_LEN)
    }

    /// After how long the radio repeats an unacknowledged frame, in ms, nothing else on the air. Three
    /// transmissions in all; after the third such interval the radio gives up.
    #[must_use]
    pub const fn retransmission_ms(
        &self,
        frame_len: usize,
        channel_utilization_percent: u8,
    ) -> u32 {
        let percent =
            if channel_utilization_percent > 100 { 100 } else { channel_utilization_percent };
        let cw = CW_MIN + percent as u32 * (CW_MAX - CW_MIN) / 100;
        let slots = (1u32 << cw) + 2 * CW_MAX + (1 << ((CW_MAX + CW_MIN) / 2));
        let air_ms = self.time_on_air_us(frame_len) / 1000;
        air_ms
            .saturating_mul(2)
            .saturating_add(slots.saturating_mul(self.slot_ms()))
            .saturating_add(PROCESSING_MS)
    }

    /// The factor, kept where a shift and a subtraction are safe whatever was written into the field.
    const fn factor(&self) -> u32 {
        let sf = self.spreading_factor;
        if sf < 5 {
            5
        } else if sf > 12 {
            12
        } else {
            sf as u32
        }
    }
}

/// Can a chip be set to this?
pub(crate) const fn in_range(modem: &Modem) -> bool {
    modem.bandwidth_hz >= 7_000
        && modem.bandwidth_hz <= 2_000_000
        && modem.spreading_factor >= 5
        && modem.spreading_factor <= 12
        && modem.coding_rate >= 5
        && modem.coding_rate <= 8
}

/// The bandwidth that a configured code means, in Hz: the code is the rounded number of kHz.
#[must_use]
pub const fn bandwidth_hz(code: u32) -> Option<u32> {
    Some(match code {
        0 => return None,
        8 => 7_800,
        10 => 10_400,
        16 => 15_600,
        21 => 20_800,
        31 => 31_250,
        42 => 41_700,
        62 => 62_500,
        200 => 203_125,
        400 => 406_250,
        800 => 812_500,
        1600 => 1_625_000,
        khz if khz <= 2000 => khz * 1000,
        _ => return None,
    })
}

const fn saturate(value: u64) -> u32 {
    if value > u32::MAX as u64 { u32::MAX } else { value as u32 }
}

#[cfg(test)]
mod tests;

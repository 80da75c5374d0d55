//! What the region's law, the operator's share and good manners make of the airtime that was used.
//!
//! Owns the admission of one transmission: whether it may be made now, when, or never. Region and law set
//! the limit; configuration only lowers it. Must not know what is sent, nor to whom.

use tombolo_hw::{Modem, Region};

use super::Ledger;
use crate::clock::Now;
use crate::mesh::view::AirtimeView;
use crate::radio::{RadioInfo, Telemetry, station};

/// Above this the channel counts as busy, percent: slower.
const BUSY: f32 = 25.0;
/// Above this it counts as full, percent: stopped.
const FULL: f32 = 40.0;
/// Telemetry older than this says nothing any more, ms.
const STALE_MS: u64 = 180_000;
/// How long before its arrival a sample may have been taken, ms.
const SAMPLE_LAG_MS: u64 = 60_000;
/// Answers leave one in so many of the share to commands: a `stop` must always get through.
const RESERVE: u64 = 20;
/// One in so many of what the law allows is left to the radio's own acks, whatever the share.
const ACKS: u64 = 50;
/// Percent of an hour in µs.
const PERCENT_US: f64 = 36_000_000.0;

/// Roles of `Config.DeviceConfig.Role`.
const ROUTER: i32 = 2;
const ROUTER_LATE: i32 = 11;

/// What a radio's settings mean for sending.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    /// How it modulates.
    pub modem: Modem,
    /// What the region allows in any hour, µs.
    pub limit_us: u64,
    /// Does it sign what it broadcasts (firmware 2.8)?
    pub signs: bool,
    /// Licensed mode: everything goes in the clear.
    pub licensed: bool,
}

impl Law {
    /// # Errors
    /// Why nothing at all may be sent, for people.
    pub fn of(radio: &RadioInfo) -> Result<Law, String> {
        let lora = &radio.lora;
        if lora.region == 0 {
            return Err("the radio's region is not set: set it, and answers will be sent".into());
        }
        let region = Region::from_code(lora.region)
            .ok_or_else(|| format!("the radio's region ({}) is not known here", lora.region))?;
        if !lora.tx_enabled {
            return Err("the radio's transmitter is switched off (tx_enabled)".into());
        }
        station::identified(radio)?;
        let licensed = radio.owner.licensed;
        if lora.override_duty_cycle && !licensed {
            return Err("the radio's duty cycle override is on: switch it off".into());
        }
        if lora.override_duty_cycle && !region.is_amateur() {
            return Err(format!(
                "the radio's duty cycle override is on, and {} is no amateur band: switch it off",
                region.name
            ));
        }
        let new = is_2_8(&radio.firmware);
        let modem = Law::modem(radio, region)
            .ok_or("the radio's modem settings are not known here: their airtime can't be told")?;
        if !region.holds(&modem) {
            return Err(format!(
                "the modem's bandwidth does not fit into the band of {}",
                region.name
            ));
        }
        if !within(region, &modem, lora.override_frequency) {
            return Err(format!(
                "the radio's own frequency ({} MHz) is outside the band of {}",
                lora.override_frequency, region.name
            ));
        }
        let router = matches!(radio.role, ROUTER | ROUTER_LATE);
        // The duty cycle counts in licensed mode too: the override never raises it here.
        let limit_us = region.limit_us_per_hour_for(router);
        Ok(Law { modem, limit_us, signs: new && !licensed, licensed })
    }

    /// The modem that it runs with in that region; `None` where its settings mean none that is known here.
    pub fn modem(radio: &RadioInfo, region: &Region) -> Option<Modem> {
        let lora = &radio.lora;
        let new = is_2_8(&radio.firmware);
        let modem_of = if new { Modem::from_settings_2_8 } else { Modem::from_settings };
        modem_of(
            lora.use_preset,
            lora.preset,
            lora.bandwidth,
            lora.spread_factor,
            lora.coding_rate,
            region.wide,
        )
    }
}

/// Are both edges of the channel in the band? `mhz`: a frequency that the owner chose, 0 for none.
fn within(region: &Region, modem: &Modem, mhz: f32) -> bool {
    let (centre, half) = (f64::from(mhz) * 1e6, f64::from(modem.bandwidth_hz) / 2.0);
    // The radio keeps the figure in 32 bits: it is right to some 30 Hz.
    let slack = 100.0;
    mhz == 0.0
        || (centre - half >= f64::from(region.start_khz) * 1e3 - slack
            && centre + half <= f64::from(region.end_khz) * 1e3 + slack)
}

/// Firmware 2.8 or later; so is one that doesn't say, because that counts more airtime.
pub fn is_2_8(firmware: &str) -> bool {
    let mut numbers = firmware.split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= (2, 8),
        _ => true,
    }
}

/// What a transmission is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// An answer, or a reaction: leaves the reserve alone.
    Answer,
    /// The answer to a command, a notice: may use the reserve.
    Command,
}

/// Whether something may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Now.
    Now,
    /// Not before that time ([`Now::mono_ms`]).
    At(u64),
    /// It is longer than everything that is ever allowed.
    Never,
}

/// How busy the channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Nothing in the way.
    Normal,
    /// Slower.
    Busy,
    /// Nothing goes, until the time at which the figure is stale.
    Full(u64),
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    percent: f32,
    at_ms: u64,
}

/// The radio's own figures and the operator's share.
#[derive(Debug, Clone)]
pub struct Air {
    share: f64,
    channel: Option<Sample>,
    sent: Option<Sample>,
    impossible: bool,
}

impl Air {
    /// `share` of what the law allows; out of range, it counts as the nearest in range.
    pub fn new(share: f64) -> Air {
        let mut air = Air { share: 0.0, channel: None, sent: None, impossible: false };
        air.set_share(share);
        air
    }

    /// See [`Air::new`].
    pub fn set_share(&mut self, share: f64) {
        self.share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    }

    /// Takes our own node's figures. Impossible ones (real radios have reported 7000 %) are left out.
    pub fn telemetry(&mut self, metrics: Telemetry, now: Now) {
        let mut take = |value: Option<f32>, old: &mut Option<Sample>| {
            let Some(percent) = value else { return };
            let possible = (0.0..=100.0).contains(&percent);
            self.impossible = !possible;
            if possible {
                *old = Some(Sample { percent, at_ms: now.mono_ms });
            }
        };
        take(metrics.channel_utilization, &mut self.channel);
        take(metrics.air_util_tx, &mut self.sent);
    }

    /// Percent, while it is fresh.
    pub fn channel_utilization(&self, now: Now) -> Option<f32> {
        fresh(self.channel, now).map(|sample| sample.percent)
    }

    /// How busy the channel is; normal when nobody knows.
    pub fn pace(&self, now: Now) -> Pace {
        match fresh(self.channel, now) {
            Some(sample) if sample.percent > FULL => Pace::Full(sample.at_ms + STALE_MS + 1),
            Some(sample) if sample.percent > BUSY => Pace::Busy,
            _ => Pace::Normal,
        }
    }

    /// What own replies may use in an hour, µs.
    pub fn share_us(&self, law: &Law) -> u64 {
        // A share is at most 1, so the product is at most the limit.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let us = (law.limit_us as f64 * self.share) as u64;
        us.min(law.limit_us)
    }

    /// Whether `need_us`, all retries counted, may be sent now.
    pub fn admit(
        &self,
        need_us: u64,
        purpose: Use,
        law: &Law,
        ledger: &Ledger,
        now: Now,
    ) -> Admission {
        let share = self.share_us(law);
        let own = match purpose {
            Use::Answer => share - share / RESERVE,
            Use::Command => share.min(law.limit_us - law.limit_us / ACKS),
        };
        let Some(own_at) = ledger.fits_at_ms(need_us, own, now) else { return Admission::Never };
        if own_at > now.mono_ms {
            return Admission::At(own_at);
        }
        match self.by_radio_us(ledger, now) {
            // The next sample is due within a minute.
            Some(used) if used + need_us > law.limit_us => Admission::At(now.mono_ms + 60_000),
            _ => Admission::Now,
        }
    }

    /// By the radio's count, which knows what it relays: its sample, and everything since.
    fn by_radio_us(&self, ledger: &Ledger, now: Now) -> Option<u64> {
        let sample = fresh(self.sent, now)?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 100 percent
        let us = (f64::from(sample.percent) * PERCENT_US) as u64;
        Some(us + ledger.since_us(sample.at_ms.saturating_sub(SAMPLE_LAG_MS)))
    }

    /// For `mesh.airtime`. `full_us`: what a full part costs, retries counted.
    pub fn view(&self, law: Option<&Law>, full_us: u64, ledger: &Ledger, now: Now) -> AirtimeView {
        let used_us = ledger.used_us(now).max(self.by_radio_us(ledger, now).unwrap_or(0));
        let admission = law.map(|law| self.admit(full_us, Use::Answer, law, ledger, now));
        let recovers_in_s = match admission {
            Some(Admission::At(at)) => at.saturating_sub(now.mono_ms).div_ceil(1000),
            Some(Admission::Never) => 3600,
            _ => 0,
        };
        let mut notes = Vec::new();
        if fresh(self.sent, now).is_none() && fresh(self.channel, now).is_none() {
            notes.push(
                "no telemetry from the radio: only own ledger and share count, and nobody knows how busy \
                 the channel is"
                    .to_owned(),
            );
        }
        if self.impossible {
            notes.push("the radio reports an impossible figure; it is left out".to_owned());
        }
        if admission == Some(Admission::Never) {
            notes.push(
                "a full part with its retries is longer than the share of an hour".to_owned(),
            );
        }
        if ledger.unreadable() > 0 {
            notes.push(format!(
                "airtime.log had {} lines that can't be read: they count as just sent",
                ledger.unreadable()
            ));
        }
        AirtimeView {
            used_ms: used_us.div_ceil(1000),
            limit_ms: law.map(|law| law.limit_us / 1000),
            share_ms: law.map(|law| self.share_us(law) / 1000),
            channel_utilization: self.channel_utilization(now),
            air_util_tx: fresh(self.sent, now).map(|sample| sample.percent),
            recovers_in_s,
            paused: None,
            notes,
        }
    }
}

fn fresh(sample: Option<Sample>, now: Now) -> Option<Sample> {
    sample.filter(|sample| now.mono_ms <= sample.at_ms.saturating_add(STALE_MS))
}

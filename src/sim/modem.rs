//! Stands in for `tombolo_hw::lora` until that has landed.

#[derive(Debug, Clone, Copy)]
pub struct Modem {
    bandwidth_hz: u64,
    sf: u64,
    cr: u64,
}

impl Modem {
    pub fn from_settings(
        use_preset: bool,
        preset: i32,
        bw: u32,
        sf: u32,
        cr: u32,
        _wide: bool,
    ) -> Option<Modem> {
        let (bandwidth_hz, sf, own) = if use_preset {
            match preset {
                0 | 2 => (250_000, 11, 5),
                1 => (125_000, 12, 8),
                3 => (250_000, 10, 5),
                4 => (250_000, 9, 5),
                5 => (250_000, 8, 5),
                6 => (250_000, 7, 5),
                7 => (125_000, 11, 8),
                8 => (500_000, 7, 5),
                9 => (500_000, 11, 8),
                _ => return None,
            }
        } else {
            (u64::from(bw) * 1000, u64::from(sf), 5)
        };
        let cr = if (5..=8).contains(&cr) { u64::from(cr) } else { own };
        Some(Modem { bandwidth_hz, sf, cr })
    }

    fn symbol_us(&self) -> u64 {
        (1_000_000 << self.sf) / self.bandwidth_hz
    }

    pub fn time_on_air_us(&self, len: usize) -> u32 {
        let t = self.symbol_us();
        let de = u64::from(t >= 16_000);
        let bits = (8 * len as u64 + 16 + 28).saturating_sub(4 * self.sf);
        let n = bits.div_ceil(4 * (self.sf - 2 * de));
        (t * ((16 + 8) * 4 + 17 + n * self.cr * 4) / 4) as u32
    }

    pub fn slot_ms(&self) -> u32 {
        ((self.symbol_us() * 5 / 2 + 7600) / 1000) as u32
    }

    pub fn retransmission_ms(&self, len: usize, channel_utilization_percent: u8) -> u32 {
        let cw = 3 + u32::from(channel_utilization_percent) * 5 / 100;
        2 * (self.time_on_air_us(len) / 1000) + ((1 << cw) + 48) * self.slot_ms() + 4500
    }
}

#[derive(Debug)]
pub struct Region {
    pub wide: bool,
    pub duty_permyriad: u16,
}

impl Region {
    pub fn from_code(code: i32) -> Option<&'static Region> {
        match code {
            0 => None,
            2 | 3 | 12 | 14 => Some(&Region { wide: false, duty_permyriad: 1000 }),
            15 => Some(&Region { wide: false, duty_permyriad: 100 }),
            13 => Some(&Region { wide: true, duty_permyriad: 10000 }),
            1..=26 => Some(&Region { wide: false, duty_permyriad: 10000 }),
            _ => None,
        }
    }
}

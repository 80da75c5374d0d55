//! Regions: the band, the power and the duty cycle that a radio's firmware enforces in each.
//!
//! Owns the table. The numbers are the firmware's (2.7 and 2.8), not legal advice; configuration may
//! only lower what they allow.

use crate::lora::Modem;

/// Microseconds of an hour.
const HOUR_US: u64 = 3_600_000_000;
/// All of the time, in 1/10000.
const ALWAYS: u16 = 10_000;
/// `EU_866`, where a fixed router may transmit more than others.
const EU_866: i32 = 29;
const EU_866_ROUTER_PERMYRIAD: u16 = 1_000;

/// One region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// `RegionCode` of the protobufs.
    pub code: i32,
    /// Its name there, for instance `EU_868`.
    pub name: &'static str,
    /// The band's lower end, kHz.
    pub start_khz: u32,
    /// The band's upper end, kHz.
    pub end_khz: u32,
    /// The share of an hour in which one transmitter may be on air, in 1/10000 (10000 is all of it).
    pub duty_permyriad: u16,
    /// dBm.
    pub power_dbm: i8,
    /// The 2.4 GHz chip.
    pub wide: bool,
}

const fn row(
    code: i32,
    name: &'static str,
    start_khz: u32,
    end_khz: u32,
    duty_permyriad: u16,
    power_dbm: i8,
) -> Region {
    let wide = start_khz >= 2_000_000;
    Region { code, name, start_khz, end_khz, duty_permyriad, power_dbm, wide }
}

/// In the order of their codes. 0 is unset (the radio is silent), 30 and 31 have a name but no numbers.
#[rustfmt::skip]
static REGIONS: [Region; 35] = [
    row( 1, "US",          902_000,   928_000, ALWAYS, 30),
    row( 2, "EU_433",      433_000,   434_000,  1_000, 10),
    row( 3, "EU_868",      869_400,   869_650,  1_000, 27),
    row( 4, "CN",          470_000,   510_000, ALWAYS, 19),
    row( 5, "JP",          920_500,   923_500, ALWAYS, 13),
    row( 6, "ANZ",         915_000,   928_000, ALWAYS, 30),
    row( 7, "KR",          920_000,   923_000, ALWAYS, 23),
    row( 8, "TW",          920_000,   925_000, ALWAYS, 27),
    row( 9, "RU",          868_700,   869_200, ALWAYS, 20),
    row(10, "IN",          865_000,   867_000, ALWAYS, 30),
    row(11, "NZ_865",      864_000,   868_000, ALWAYS, 36),
    row(12, "TH",          920_000,   925_000,  1_000, 27),
    row(13, "LORA_24",   2_400_000, 2_483_500, ALWAYS, 10),
    row(14, "UA_433",      433_000,   434_700,  1_000, 10),
    // Gone since firmware 2.8, but a radio may still be set to it.
    row(15, "UA_868",      868_000,   868_600,    100, 14),
    row(16, "MY_433",      433_000,   435_000, ALWAYS, 20),
    row(17, "MY_919",      919_000,   924_000, ALWAYS, 27),
    row(18, "SG_923",      917_000,   925_000, ALWAYS, 20),
    row(19, "PH_433",      433_000,   434_700, ALWAYS, 10),
    row(20, "PH_868",      868_000,   869_400, ALWAYS, 14),
    row(21, "PH_915",      915_000,   918_000, ALWAYS, 24),
    row(22, "ANZ_433",     433_050,   434_790, ALWAYS, 14),
    row(23, "KZ_433",      433_075,   434_775, ALWAYS, 10),
    row(24, "KZ_863",      863_000,   868_000, ALWAYS, 30),
    row(25, "NP_865",      865_000,   868_000, ALWAYS, 30),
    row(26, "BR_902",      902_000,   907_500, ALWAYS, 30),
    // From here on since firmware 2.8.
    row(27, "ITU1_2M",     144_000,   146_000, ALWAYS, 30),
    row(28, "ITU2_2M",     144_000,   148_000, ALWAYS, 30),
    row(EU_866, "EU_866",  865_600,   867_600,    250, 27),
    row(32, "EU_N_868",    869_400,   869_650,  1_000, 27),
    row(33, "ITU3_2M",     144_000,   148_000, ALWAYS, 30),
    row(34, "ITU1_70CM",   430_000,   440_000, ALWAYS, 30),
    row(35, "ITU2_70CM",   420_000,   450_000, ALWAYS, 30),
    row(36, "ITU3_70CM",   430_000,   450_000, ALWAYS, 30),
    row(37, "ITU2_125CM",  220_000,   225_000, ALWAYS, 30),
];

impl Region {
    /// All of them, in the order of their codes.
    pub fn all() -> impl Iterator<Item = &'static Region> {
        REGIONS.iter()
    }

    /// `None` for 0 (unset), for codes without numbers, and for codes that are newer than the table:
    /// nothing may be sent then.
    #[must_use]
    pub fn from_code(code: i32) -> Option<&'static Region> {
        REGIONS.iter().find(|region| region.code == code)
    }

    /// By the protobufs' name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Region> {
        REGIONS.iter().find(|region| region.name == name)
    }

    /// How long one transmitter may be on air in any hour, µs.
    #[must_use]
    pub const fn limit_us_per_hour(&self) -> u64 {
        HOUR_US / ALWAYS as u64 * self.duty_permyriad as u64
    }

    /// The same with the exception for fixed routers (roles `ROUTER` and `ROUTER_LATE` in `EU_866`).
    #[must_use]
    pub const fn limit_us_per_hour_for(&self, router: bool) -> u64 {
        if router && self.code == EU_866 {
            HOUR_US / ALWAYS as u64 * EU_866_ROUTER_PERMYRIAD as u64
        } else {
            self.limit_us_per_hour()
        }
    }

    /// Does the whole band belong to the amateur service as well? The firmware's own amateur regions; what lies in
    /// 430 to 440 MHz (amateur in all three ITU regions); and 902 to 928 MHz in the Americas.
    #[must_use]
    pub const fn is_amateur(&self) -> bool {
        let seventy_cm = self.start_khz >= 430_000 && self.end_khz <= 440_000;
        let americas = matches!(self.code, 1 | 26);
        let amateur_only = matches!(self.code, 27 | 28 | 33..=37);
        seventy_cm || americas || amateur_only
    }

    /// Is the band at least as wide as that modem's signal? Where it is not, firmware 2.7 quietly runs
    /// other settings, and 2.8 refuses or changes the region.
    #[must_use]
    pub const fn holds(&self, modem: &Modem) -> bool {
        modem.bandwidth_hz <= (self.end_khz - self.start_khz) * 1000
    }
}

// 1/10000 of an hour is a whole number of microseconds, so no limit is rounded.
const _: () = assert!(HOUR_US.is_multiple_of(ALWAYS as u64));

const _: () = {
    let mut index = 0;
    while index < REGIONS.len() {
        let region = &REGIONS[index];
        assert!(region.start_khz < region.end_khz);
        assert!(region.duty_permyriad > 0 && region.duty_permyriad <= ALWAYS);
        assert!(index == 0 || REGIONS[index - 1].code < region.code);
        index += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    #[test]
    fn the_table_equals_the_firmwares() {
        let mut rows = 0;
        for line in include_str!("../tests/regions.tsv").lines().filter(|l| !l.starts_with('#')) {
            let [code, name, start, end, duty, dbm, wide] =
                line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let code: i32 = code.parse().unwrap();
            rows += 1;
            if code == 0 {
                // Listed with numbers by the firmware, but nothing may be sent.
                assert_eq!(Region::from_code(0), None);
                continue;
            }
            let region = Region::from_code(code).unwrap();
            assert_eq!(Region::from_name(name), Some(region));
            assert_eq!(region.start_khz, start.parse::<u32>().unwrap(), "{name}");
            assert_eq!(region.end_khz, end.parse::<u32>().unwrap(), "{name}");
            assert_eq!(region.duty_permyriad, duty.parse::<u16>().unwrap(), "{name}");
            assert_eq!(region.power_dbm, dbm.parse::<i8>().unwrap(), "{name}");
            assert_eq!(region.wide, wide == "yes", "{name}");
        }
        assert_eq!(rows, REGIONS.len() + 1);
        for code in [-1, 0, 30, 31, 38] {
            assert_eq!(Region::from_code(code), None, "{code}");
        }
        assert_eq!(Region::from_name("UNSET"), None);
    }

    #[test]
    fn limits_of_an_hour() {
        for (name, plain, router) in [
            ("EU_868", 360_000_000, 360_000_000),
            ("EU_866", 90_000_000, 360_000_000),
            ("UA_868", 36_000_000, 36_000_000),
            ("US", HOUR_US, HOUR_US),
        ] {
            let region = Region::from_name(name).unwrap();
            assert_eq!(region.limit_us_per_hour(), plain, "{name}");
            assert_eq!(region.limit_us_per_hour_for(false), plain, "{name}");
            assert_eq!(region.limit_us_per_hour_for(true), router, "{name}");
        }
    }

    #[test]
    fn amateur_bands_are_told_from_others() {
        let amateur = |name: &str| Region::from_name(name).unwrap().is_amateur();
        for name in ["US", "EU_433", "ITU1_2M", "ITU2_2M", "ITU3_2M", "ITU1_70CM", "ITU2_125CM"] {
            assert!(amateur(name), "{name}");
        }
        for name in
            ["EU_868", "EU_866", "EU_N_868", "UA_868", "ANZ", "LORA_24", "RU", "CN", "SG_923"]
        {
            assert!(!amateur(name), "{name}");
        }
    }

    #[test]
    fn a_band_holds_a_signal_as_wide_as_itself_and_no_wider() {
        let europe = Region::from_name("EU_868").unwrap();
        let signal = |hz| Modem::new(hz, 7, 5, false).unwrap();
        assert!(europe.holds(&signal(250_000)));
        assert!(!europe.holds(&signal(250_001)));
        assert!(!europe.holds(&Preset::ShortTurbo.modem(false)));
        assert!(Region::from_name("LORA_24").unwrap().holds(&Preset::ShortTurbo.modem(true)));
    }
}

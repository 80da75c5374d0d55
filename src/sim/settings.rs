//! The settings that our simulated radio starts with: channels, configuration, modules.
//!
//! Owns their values, as the native firmware has them where nobody chose others. Must not change them later.

use meshtastic::protobufs::{
    Channel, ChannelSettings, DeviceUiConfig, ModuleSettings, channel, config, module_config,
};

use super::config::{SimConfig, invented};

pub(super) fn channel_of(config: &SimConfig, index: usize) -> Channel {
    let role = match config.channels.get(index) {
        Some(c) if c.disabled => channel::Role::Disabled,
        Some(_) if index == 0 => channel::Role::Primary,
        Some(_) => channel::Role::Secondary,
        None => channel::Role::Disabled,
    };
    let settings = match config.channels.get(index) {
        Some(c) => ChannelSettings {
            // The first carries the well-known default key, the others an invented one.
            psk: if index == 0 { vec![1] } else { invented(&c.name).to_vec() },
            name: c.name.clone(),
            module_settings: (index == 0)
                .then(|| ModuleSettings { position_precision: 13, ..ModuleSettings::default() }),
            ..ChannelSettings::default()
        },
        None => ChannelSettings::default(),
    };
    Channel {
        index: i32::try_from(index).unwrap_or(0),
        settings: Some(settings),
        role: role as i32,
    }
}

pub(super) fn configs_of(sim: &SimConfig) -> Vec<config::PayloadVariant> {
    use config::PayloadVariant as C;
    vec![
        C::Device(config::DeviceConfig {
            role: sim.role,
            node_info_broadcast_secs: 10800,
            ..config::DeviceConfig::default()
        }),
        C::Position(config::PositionConfig {
            position_broadcast_secs: 3600,
            position_broadcast_smart_enabled: true,
            gps_update_interval: 120,
            position_flags: 811,
            broadcast_smart_minimum_distance: 100,
            broadcast_smart_minimum_interval_secs: 300,
            gps_mode: config::position_config::GpsMode::NotPresent as i32,
            ..config::PositionConfig::default()
        }),
        C::Power(config::PowerConfig {
            wait_bluetooth_secs: 60,
            sds_secs: u32::MAX,
            ls_secs: 300,
            min_wake_secs: 10,
            ..config::PowerConfig::default()
        }),
        C::Network(config::NetworkConfig {
            ntp_server: "meshtastic.pool.ntp.org".to_owned(),
            ..config::NetworkConfig::default()
        }),
        C::Display(config::DisplayConfig {
            screen_on_secs: 600,
            ..config::DisplayConfig::default()
        }),
        C::Lora(sim.lora.shown()),
        C::Bluetooth(config::BluetoothConfig {
            enabled: true,
            mode: config::bluetooth_config::PairingMode::FixedPin as i32,
            fixed_pin: 123_456,
        }),
        C::Security(config::SecurityConfig {
            public_key: sim.key.0.to_vec(),
            // As invented as the public one: it opens nothing.
            private_key: invented(&format!("simulated private key of {}", sim.name)).to_vec(),
            serial_enabled: true,
            is_managed: sim.managed,
            ..config::SecurityConfig::default()
        }),
        C::Sessionkey(config::SessionkeyConfig {}),
        C::DeviceUi(DeviceUiConfig::default()),
    ]
}

pub(super) fn modules() -> Vec<module_config::PayloadVariant> {
    use module_config::PayloadVariant as M;
    vec![
        M::Mqtt(module_config::MqttConfig {
            address: "mqtt.example.org".to_owned(),
            root: "msh/EU_868".to_owned(),
            encryption_enabled: true,
            ..module_config::MqttConfig::default()
        }),
        M::Serial(module_config::SerialConfig::default()),
        M::ExternalNotification(module_config::ExternalNotificationConfig::default()),
        M::StoreForward(module_config::StoreForwardConfig::default()),
        M::RangeTest(module_config::RangeTestConfig::default()),
        M::Telemetry(module_config::TelemetryConfig {
            device_update_interval: i32::MAX.unsigned_abs(),
            ..module_config::TelemetryConfig::default()
        }),
        M::CannedMessage(module_config::CannedMessageConfig::default()),
        M::Audio(module_config::AudioConfig::default()),
        M::RemoteHardware(module_config::RemoteHardwareConfig::default()),
        M::NeighborInfo(module_config::NeighborInfoConfig::default()),
        M::AmbientLighting(module_config::AmbientLightingConfig {
            current: 10,
            red: 65,
            green: 215,
            blue: 224,
            ..module_config::AmbientLightingConfig::default()
        }),
        M::DetectionSensor(module_config::DetectionSensorConfig {
            minimum_broadcast_secs: 45,
            detection_trigger_type: module_config::detection_sensor_config::TriggerType::LogicHigh
                as i32,
            ..module_config::DetectionSensorConfig::default()
        }),
        M::Paxcounter(module_config::PaxcounterConfig::default()),
    ]
}

//! `tombolo radio`: the radios that are there, what one says of itself, and writing the wanted settings.
//!
//! Owns what is typed and what is printed. What may be written, and how, is `radio::settings`'s.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tokio_util::sync::CancellationToken;

use super::run::runtime;
use crate::config::{self, Config, PortSpec};
use crate::gateway;
use crate::radio::known::KnownRadio;
use crate::radio::settings::apply::{self, Applied};
use crate::radio::settings::compare::{
    Row, impossible, modem_words, printable, region_words, role_words, rows,
};
use crate::radio::settings::session::{Details, Session};
use crate::radio::settings::{Wanted, udev};
use crate::radio::transport::Connector;
use crate::radio::{RadioInfo, discovery, station};
use crate::sim::{Sim, SimConfig};
use crate::telemetry;

/// Arguments of `tombolo radio`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// The serial ports that may be radios, by their USB ids. Opens none.
    List,
    /// What the radio says of itself, and what differs from what is wanted. Writes nothing.
    Info(Which),
    /// Write the wanted settings, wait until the radio has restarted, and read them back.
    Apply(Which),
    /// Use the radio that is on the port from now on, in place of the one that was used last.
    Accept {
        /// Its fingerprint, as `radio info` shows it [default: only show which radio is there].
        fingerprint: Option<String>,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The configuration [default: $TOMBOLO_CONFIG, else /etc/tombolo/tombolo.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The radio, as in radio.port [default: the configured one].
    #[arg(long, value_name = "PORT", value_parser = |text: &str| PortSpec::try_from(text.to_owned()))]
    port: Option<PortSpec>,
}

/// Does it.
pub fn run(args: Args) -> Result<ExitCode> {
    telemetry::start("warn");
    match args.action {
        Action::List => print!("{}", list(Path::new("/"))),
        Action::Info(which) => runtime()?.block_on(async {
            let target = Target::of(which)?;
            let session = Session::open(&target.connector).await?;
            let (info, details) = (session.info.clone(), session.details.clone());
            session.leave().await;
            print!("{}", info_text(&target, &info, &details));
            if let Some(refused) = target.known.refuses(&info) {
                println!("Note: {refused}");
            }
            anyhow::Ok(())
        })?,
        Action::Apply(which) => runtime()?.block_on(async {
            let target = Target::of(which)?;
            if target.wanted.is_empty() {
                println!("Nothing is wanted: write [radio.settings] in the configuration first.");
                return Ok(());
            }
            let mut say = |line: &str| println!("{line}");
            let cancel = CancellationToken::new();
            let interrupted = cancel.clone();
            tokio::spawn(async move {
                if tokio::signal::ctrl_c().await.is_ok() {
                    interrupted.cancel();
                }
            });
            let Target { connector, wanted, known, .. } = &target;
            match apply::apply(connector, wanted, known, &cancel, &mut say).await? {
                Applied::AlreadyRight(info) => {
                    println!("Nothing to do: {} is set as wanted.", info.my_node);
                }
                Applied::Written { info, .. } => {
                    println!("Done: {} has restarted and is set as wanted.", info.my_node);
                }
            }
            anyhow::Ok(())
        })?,
        Action::Accept { fingerprint, which } => {
            return runtime()?.block_on(async {
                let target = Target::of(which)?;
                accept(&target, fingerprint.as_deref()).await
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Accepts the radio that is there, if it is the one that is meant.
async fn accept(target: &Target, fingerprint: Option<&str>) -> Result<ExitCode> {
    let session = Session::open(&target.connector).await?;
    let info = session.info.clone();
    session.leave().await;
    let Err(refused) = target.known.admit(&info) else {
        println!("Nothing to do: {} is the radio that is used.", info.my_node);
        return Ok(ExitCode::SUCCESS);
    };
    let Some(fingerprint) = fingerprint else {
        println!(
            "{} \"{}\" is not the radio that was used last. If it should be used from now on:\n    tombolo \
             radio accept '{}'",
            refused.node, refused.owner, refused.fingerprint
        );
        return Ok(ExitCode::FAILURE);
    };
    target.known.accept(fingerprint)?;
    println!("Done: {} \"{}\" is the radio that is used from now on.", refused.node, refused.owner);
    Ok(ExitCode::SUCCESS)
}

/// The radio that is meant, and what it should be set to.
struct Target {
    connector: Connector,
    wanted: Wanted,
    known: KnownRadio,
    // Lives as long as it is talked to.
    _sim: Option<Sim>,
}

impl Target {
    fn of(which: Which) -> Result<Target> {
        let config = config_of(&which)?;
        let port = which.port.unwrap_or_else(|| config.radio.port.clone());
        if port == config.radio.port
            && port != PortSpec::Sim
            && gateway::is_running(&config.data_dir)
        {
            bail!(
                "the radio is in use: a tombolo is running on {}; stop it first, or look at its node page",
                config.data_dir.display()
            );
        }
        let sim = (port == PortSpec::Sim).then(|| Sim::start(SimConfig::default()));
        let connector = match &sim {
            Some(sim) => {
                let sim = sim.clone();
                Connector::from_fn("the simulated radio", move || sim.connect())
            }
            None => Connector::to(&port).context("this port can't be opened")?,
        };
        let wanted = wanted(&config, &connector)?;
        // A port that was named by hand is meant, whichever radio is on it.
        let known = match port == config.radio.port && port != PortSpec::Sim {
            true => KnownRadio::open(&config.data_dir)?,
            false => KnownRadio::any(),
        };
        Ok(Target { connector, wanted, known, _sim: sim })
    }
}

/// With a port on the command line no configuration is needed.
fn config_of(which: &Which) -> Result<Config> {
    let path = config::path(which.config.clone());
    match config::load(&path) {
        Err(config::ConfigError::Missing { .. })
            if which.config.is_none() && which.port.is_some() =>
        {
            Ok(Config::default())
        }
        loaded => Ok(loaded?),
    }
}

/// What the configuration and the port's udev properties want.
fn wanted(config: &Config, connector: &Connector) -> Result<Wanted> {
    let properties =
        connector.device().map(|d| udev::properties(Path::new("/"), &d)).unwrap_or_default();
    Wanted::resolve(&config.radio.settings, &properties).map_err(|faults| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(lines.join("\n"))
    })
}

fn list(root: &Path) -> String {
    let found = discovery::candidates(&root.join("sys"), &root.join("dev"));
    let mut text = String::new();
    if found.is_empty() {
        text.push_str(
            "No radio found on USB. A port that is in no table can still be named with radio.port.\n",
        );
    }
    for candidate in found {
        let board = candidate.board;
        let serial = match &candidate.serial {
            Some(serial) if board.unique_serial => format!("serial {}", printable(serial)),
            _ => "no serial number of its own: the name is that of the socket".to_owned(),
        };
        // Writing to a text does not fail.
        let _ = writeln!(text, "{}  {}, {serial}", candidate.path.display(), board.name);
        for (name, value) in udev::properties(root, &candidate.path) {
            if !udev::OWN.contains(&name.as_str()) {
                let _ = writeln!(text, "    {name}={}", printable(&value));
            }
        }
    }
    for other in discovery::others(&root.join("sys"), &root.join("dev")) {
        let _ = writeln!(text, "not taken for a radio: {other}");
    }
    text
}

fn info_text(target: &Target, info: &RadioInfo, details: &Details) -> String {
    let switched = |on: Option<bool>| match on {
        Some(true) => "on",
        Some(false) => "off",
        None => "not told",
    };
    let or_unknown = |text: String| if text.is_empty() { "not told".to_owned() } else { text };
    let lora = &info.lora;
    let mut text = String::new();
    for (name, value) in [
        ("port", target.connector.name().to_owned()),
        ("node", info.my_node.to_string()),
        ("name", or_unknown(printable(&info.owner.long_name))),
        ("short name", or_unknown(printable(&info.owner.short_name))),
        ("key", info.public_key.map_or("none".to_owned(), |key| key.fingerprint())),
        ("firmware", or_unknown(printable(&info.firmware))),
        ("region", region_words(lora.region)),
        ("modem", modem_words(lora)),
        ("hop limit", lora.hop_limit.to_string()),
        ("role", role_words(info.role)),
        ("transmitter", switched(Some(lora.tx_enabled)).to_owned()),
        ("Bluetooth", switched(details.bluetooth).to_owned()),
        ("power saving", switched(details.power_saving).to_owned()),
        ("licensed", if info.owner.licensed { "yes" } else { "no" }.to_owned()),
        ("managed", if details.managed { "yes" } else { "no" }.to_owned()),
    ] {
        let _ = writeln!(text, "{name:<13}{value}");
    }
    let rows = rows(&target.wanted, info);
    if target.wanted.is_empty() {
        text.push_str("\nNothing is wanted of it.\n");
    } else {
        text.push('\n');
        text.push_str(&table(&rows));
        let differing = rows.iter().filter(|row| row.differs).count();
        let _ = match differing {
            0 => writeln!(text, "\nIt is set as wanted."),
            _ => writeln!(
                text,
                "\n{differing} differ. `tombolo radio apply` writes them all at once and restarts the \
                 radio once."
            ),
        };
        for fault in impossible(&target.wanted, info) {
            let _ = writeln!(text, "Impossible: {fault}");
        }
    }
    for advice in advice(info, details) {
        let _ = writeln!(text, "Note: {advice}");
    }
    if let Err(unidentified) = station::identified(info) {
        let _ = writeln!(text, "Note: {unidentified}");
    }
    text
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<11}{:<21}{:<21}{:<25}{}\n",
        "setting", "is", "wanted", "by", "restarts the radio"
    );
    for row in rows {
        let (wanted, by) = match &row.wanted {
            Some((value, source)) => (value.as_str(), row.field.place(*source)),
            None => ("-", ""),
        };
        let restarts = match (row.differs, row.restarts) {
            (false, _) => "",
            (true, true) => "yes",
            (true, false) => "no",
        };
        let line = format!("{:<11}{:<21}{wanted:<21}{by:<25}{restarts}", row.field, row.actual);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What is not wanted by anybody, and hurts a gateway.
fn advice(info: &RadioInfo, details: &Details) -> Vec<&'static str> {
    [
        (info.lora.region == 0, "the region is unset: the radio sends nothing"),
        (
            details.bluetooth == Some(true),
            "Bluetooth is on: a phone that is connected takes packets away from the daemon",
        ),
        (
            details.power_saving == Some(true),
            "power saving is on: the radio leaves USB when it sleeps",
        ),
        (
            info.owner.licensed,
            "licensed mode: nothing is encrypted, so nobody can be told from anybody",
        ),
        (info.lora.override_duty_cycle, "the duty cycle is overridden: the daemon will not send"),
        (details.managed, "managed: the radio ignores settings of its own client"),
    ]
    .into_iter()
    .filter_map(|(hurts, words)| hurts.then_some(words))
    .collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test lays out files of its own
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_list_has_the_candidates_and_says_which_name_is_a_sockets() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("sys/class/tty")).unwrap();
        assert!(list(root).contains("No radio found"));
        for (port, vid, pid) in [
            ("ttyACM0", "239a", "8029"),
            ("ttyUSB0", "10c4", "ea60"),
            ("ttyACM1", "239a", "0029"), // a bootloader
        ] {
            let usb = root.join(format!("sys/devices/usb1/{port}"));
            fs::create_dir_all(usb.join("1-1:1.0")).unwrap();
            fs::write(usb.join("idVendor"), vid).unwrap();
            fs::write(usb.join("idProduct"), pid).unwrap();
            fs::write(usb.join("serial"), "0001\n").unwrap();
            let tty = root.join("sys/class/tty").join(port);
            fs::create_dir_all(&tty).unwrap();
            symlink(usb.join("1-1:1.0"), tty.join("device")).unwrap();
        }
        let text = list(root);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[2].contains("ttyACM1\" (a board in its bootloader"), "{text}");
        assert!(lines[0].contains("ttyACM0") && lines[0].ends_with("serial 0001"), "{text}");
        assert!(lines[1].contains("ttyUSB0") && lines[1].contains("that of the socket"), "{text}");
    }

    #[test]
    fn a_row_names_who_wants_it_and_what_it_would_cost() {
        use crate::radio::settings::{Field, Source};
        let row = |differs, restarts| Row {
            field: Field::HopLimit,
            actual: "3".to_owned(),
            wanted: Some(("5".to_owned(), Source::Udev)),
            differs,
            restarts,
        };
        let text = table(&[row(true, true), row(true, false), row(false, false)]);
        let words: Vec<Vec<&str>> =
            text.lines().skip(1).map(|l| l.split_whitespace().collect()).collect();
        let start = ["hop", "limit", "3", "5", "TOMBOLO_HOP_LIMIT"];
        assert_eq!(
            words,
            [[&start[..], &["yes"]].concat(), [&start[..], &["no"]].concat(), start.to_vec()]
        );
    }
}

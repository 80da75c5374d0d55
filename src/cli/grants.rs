//! `tombolo grants`: who may use which tools, from the machine itself.
//!
//! Owns the words on the command line. Acts on the data folder; while a daemon holds it, it only lists, for the daemon
//! has the present state in its memory and its node page changes it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::assistant::confirm::needs_operator;
use crate::assistant::grants::{
    CallerGrants, GrantError, Grants, LONGEST_MS, OPERATOR, Standing, ToolMode, Wish,
};
use crate::assistant::{PeerId, PermissionCategory};
use crate::cli::likeness::suggestion;
use crate::cli::terminal;
use crate::clock;
use crate::config::{self, Config};
use crate::gateway;
use crate::mesh::identity::Contacts;
use crate::tools::folder::date;
use crate::tools::names;
use crate::tools::system::span;

/// Arguments of `tombolo grants`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tombolo grants list
  tombolo grants set Ana notes on --for 7d
  tombolo grants set operator network off
  tombolo grants tool Ana notes_add never

CALLER is `operator`, a contact's name or number, or its key as `list` shows it. What is set replaces what the
configuration says for that caller.")]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The configuration [default: $TOMBOLO_CONFIG, else /etc/tombolo/tombolo.toml].
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show everybody's grants, and from where they are.
    List,
    /// Give a category to a caller, or take it.
    Set {
        /// Whose.
        caller: String,
        /// One of: apps system network wallet files media search ai_local notes bitcoin.
        #[arg(value_parser = category)]
        category: PermissionCategory,
        /// Give or take.
        #[arg(value_enum)]
        state: State,
        /// Only for so long: 90m, 12h, 7d.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        lasting: Option<Duration>,
    },
    /// Say how a caller may use one tool.
    Tool {
        /// Whose.
        caller: String,
        /// The tool's name.
        #[arg(value_parser = tool_name)]
        tool: String,
        /// How.
        #[arg(value_enum)]
        mode: Mode,
        /// Only for so long: 90m, 12h, 7d.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        lasting: Option<Duration>,
        /// Although this program and the configuration know no tool of that name: for one that comes later.
        #[arg(long)]
        unknown: bool,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum State {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Mode {
    /// Without a confirmation, as long as only the caller's words and the node's are in the conversation.
    Always,
    /// With a confirmation, though it changes nothing.
    Ask,
    /// Not at all.
    Never,
    /// As the tool is: with a confirmation if it changes something.
    Default,
}

/// Does it.
pub fn run(args: Args) -> Result<ExitCode> {
    let config = config::load(&config::path(args.config))?;
    if !config.data_dir.is_dir() {
        bail!("there is no data folder at {} (key data_dir)", config.data_dir.display());
    }
    let running = gateway::is_running(&config.data_dir);
    let mut unknown_too = false;
    let (caller, wish) = match args.action.unwrap_or(Action::List) {
        Action::List => {
            let grants = open(&config)?;
            terminal::print(&listed(&grants.list(), grants.warning()))?;
            return Ok(ExitCode::SUCCESS);
        }
        Action::Set { caller, category, state, lasting } => {
            let granted = matches!(state, State::On);
            if !granted && lasting.is_some() {
                bail!("--for goes with `on`: what is taken is taken for good");
            }
            (caller, Wish::Category { category, granted, until: until(lasting) })
        }
        Action::Tool { caller, tool, mode, lasting, unknown } => {
            unknown_too = unknown;
            let mode = match mode {
                Mode::Always => Some(ToolMode::Always),
                Mode::Ask => Some(ToolMode::Ask),
                Mode::Never => Some(ToolMode::Never),
                Mode::Default => None,
            };
            if mode.is_none() && lasting.is_some() {
                bail!("--for does not go with `default`");
            }
            (caller, Wish::Tool { tool, mode, until: until(lasting) })
        }
    };
    if running {
        bail!(
            "a daemon is running on {}: change grants on its node page, or stop it first",
            config.data_dir.display()
        );
    }
    let grants = open(&config)?;
    let caller = named(&grants.list(), &caller, &contacts(&config.data_dir, &config)?)?;
    if let Wish::Tool { tool, mode: Some(mode), .. } = &wish {
        let set = grants.list().into_iter().find(|row| row.caller == caller);
        let set_before = set.is_some_and(|row| row.tools.iter().any(|one| one.tool == *tool));
        check_tool(&config, &caller, tool, *mode, unknown_too || set_before)?;
    }
    grants.set(&caller, wish, "command line")?;
    let shown: Vec<CallerGrants> =
        grants.list().into_iter().filter(|row| row.caller == caller).collect();
    terminal::print(&listed(&shown, grants.warning()))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a name that no tool has, for a typing error in `never` would forbid nothing; and what no peer may have.
fn check_tool(
    config: &Config,
    caller: &str,
    tool: &str,
    mode: ToolMode,
    unknown_too: bool,
) -> Result<()> {
    let known = known_tools(config);
    let Some((_, category, destructive)) = known.iter().find(|(name, ..)| name == tool) else {
        if unknown_too {
            return Ok(());
        }
        let names = known.iter().map(|(name, ..)| name.as_str());
        bail!(
            "there is no tool `{tool}`; {} (for a tool that comes later, of a command or an [[mcp]] server that is not in the \
             configuration yet, add --unknown)",
            suggestion(tool, names)
        );
    };
    let always = mode == ToolMode::Always && *destructive;
    if always && caller != OPERATOR && needs_operator(*category) {
        let (tool, category) = (tool.to_owned(), *category);
        return Err(GrantError::OperatorOnly { tool, category }.into());
    }
    Ok(())
}

/// Whatever this program may have, and the commands and marked foreign tools of the configuration.
fn known_tools(config: &Config) -> Vec<names::Name> {
    let known = names::of(&config.tools).into_iter();
    #[cfg(feature = "mcp")]
    let known = known.chain(config.mcp.iter().flat_map(|server| {
        server.tools.iter().map(|tool| {
            let name = crate::tools::mcp::offered_name(&server.name, &tool.name);
            // Without marks it is not offered; the gate looks at those that it has by then.
            let category = tool.category.unwrap_or(PermissionCategory::Search);
            (name, category, tool.destructive.unwrap_or(true))
        })
    }));
    known.collect()
}

fn open(config: &Config) -> Result<Grants> {
    let grants = Grants::open(&config.data_dir).context("opening the grants")?;
    let contacts = contacts(&config.data_dir, config)?;
    grants.set_contacts(
        contacts
            .entries()
            .iter()
            .filter_map(|contact| {
                let key = contact.pin.key()?;
                let listed =
                    config.mesh.allowed_contacts.iter().find(|listed| listed.id == contact.id);
                Some(Standing {
                    caller: PeerId(format!("key:{key}")),
                    name: contact.name.clone(),
                    base: contact.grants.clone(),
                    configured: listed.is_some_and(|listed| listed.grants.is_some()),
                    confirmed: contact.pin.is_confirmed(),
                })
            })
            .collect(),
    );
    Ok(grants)
}

fn contacts(data_dir: &Path, config: &Config) -> Result<Contacts> {
    Contacts::open(data_dir, &config.mesh.allowed_contacts).context("reading the contacts")
}

/// The caller that is meant.
fn named(rows: &[CallerGrants], word: &str, contacts: &Contacts) -> Result<String> {
    if word == OPERATOR || rows.iter().any(|row| row.caller == word) {
        return Ok(word.to_owned());
    }
    let meant: Vec<String> = contacts
        .entries()
        .iter()
        .filter(|contact| {
            contact.name.eq_ignore_ascii_case(word)
                || contact.id.to_string() == word
                || contact.number.to_string() == word
        })
        .map(|contact| match contact.pin.key() {
            Some(key) => Ok(format!("key:{key}")),
            None => bail!("{} has no key yet: grants go with a key", contact.name),
        })
        .collect::<Result<_>>()?;
    match meant.as_slice() {
        [one] => Ok(one.clone()),
        [] => bail!(
            "there is no caller `{}`; `tombolo grants list` shows them",
            terminal::printable(word)
        ),
        _ => bail!(
            "several contacts are called `{}`: give the number or the key",
            terminal::printable(word)
        ),
    }
}

fn until(lasting: Option<Duration>) -> Option<u64> {
    let ms = u64::try_from(lasting?.as_millis()).unwrap_or(u64::MAX);
    Some(clock::unix_ms().saturating_add(ms))
}

fn listed(rows: &[CallerGrants], warning: Option<&str>) -> String {
    let mut text = String::new();
    if let Some(warning) = warning {
        let _ = writeln!(text, "warning: {warning}");
    }
    for row in rows {
        let name = terminal::printable(&row.name);
        let key = if row.caller == OPERATOR { String::new() } else { format!("  {}", row.caller) };
        let force = if row.in_force { "" } else { ", not in force" };
        let _ = writeln!(text, "{name}{key}  ({}{force})", row.source);
        let now = clock::unix_ms();
        let left = |until: Option<u64>| {
            until.map_or_else(String::new, |until| {
                let end = date(i128::from(until) * 1_000_000);
                let left = span(until.saturating_sub(now) / 1000);
                format!(" (until {end} UTC, {left} from now)")
            })
        };
        let all: Vec<String> = row
            .categories
            .iter()
            .map(|grant| format!("{}{}", grant.category, left(grant.until)))
            .collect();
        let all = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
        let _ = writeln!(text, "  may use: {all}");
        for grant in &row.tools {
            let mode = match grant.mode {
                ToolMode::Always => "always",
                ToolMode::Ask => "ask",
                ToolMode::Never => "never",
            };
            let tool = terminal::printable(&grant.tool);
            let _ = writeln!(text, "  {tool}: {mode}{}", left(grant.until));
        }
    }
    text
}

fn category(word: &str) -> Result<PermissionCategory, String> {
    let all = PermissionCategory::ALL;
    all.into_iter().find(|category| category.as_str() == word).ok_or_else(|| {
        let all: Vec<&str> = all.iter().map(|category| category.as_str()).collect();
        format!("the categories are: {}", all.join(" "))
    })
}

fn tool_name(word: &str) -> Result<String, String> {
    let right = (1..=64).contains(&word.len())
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    right.then(|| word.to_owned()).ok_or_else(|| {
        "a tool's name is 1 to 64 of the characters A-Z a-z 0-9 _ -, as the node page lists it"
            .to_owned()
    })
}

fn duration(word: &str) -> Result<Duration, String> {
    let wrong = || {
        "a time is a number with m, h or d, such as 90m, 12h or 7d, at most ten years".to_owned()
    };
    let (number, unit) = word.split_at_checked(word.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let plain = (1..=9).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|n| plain && *n > 0).ok_or_else(wrong)?;
    let seconds =
        number.checked_mul(seconds).filter(|s| *s <= LONGEST_MS / 1000).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_and_an_end() {
        for (word, seconds) in
            [("1m", 60), ("90m", 5_400), ("12h", 43_200), ("7d", 604_800), ("3660d", 316_224_000)]
        {
            assert_eq!(duration(word), Ok(Duration::from_secs(seconds)), "{word}");
        }
        for wrong in
            ["", "m", "0m", "5", "5s", "-1h", "+1h", "1.5h", "3661d", "9999999999d", "1é", "é"]
        {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_are_checked_before_anything_is_opened() {
        assert_eq!(category("ai_local"), Ok(PermissionCategory::AiLocal));
        assert!(category("AI").unwrap_err().contains("ai_local notes"));
        assert!(tool_name("toy_getForecast").is_ok());
        assert!(tool_name("notes_add").is_ok() && tool_name(&"x".repeat(64)).is_ok());
        for wrong in ["", "Notés", "a b", "a\n", &"x".repeat(65)] {
            assert!(tool_name(wrong).is_err(), "{wrong}");
        }
    }
}

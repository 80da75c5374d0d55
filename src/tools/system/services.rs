//! The services of systemd that the operator named.
//!
//! Owns their states, the tool that restarts one, and the only two commands that are ever given to `systemctl`: fixed words and a
//! unit's name out of the configuration. A name that a model wrote is looked up, never passed on.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use crate::assistant::PermissionCategory;
use crate::assistant::tools::{Description, ToolDef};
use crate::config::tools::Service;
use crate::invisible;

/// A state is told at once.
const STATUS_TIME: Duration = Duration::from_secs(10);
/// A restart may take as long as the service takes to stop.
const RESTART_TIME: Duration = Duration::from_secs(95);
/// Bytes taken of the output.
const MAX_OUTPUT: u64 = 32 * 1024;
/// After the name of one that this machine does not have.
const NOT_INSTALLED: &str = ": not installed";
/// What is asked of a unit.
const PROPERTIES: &str =
    "--property=Id,LoadState,ActiveState,SubState,Result,NRestarts,ActiveEnterTimestamp";

/// The services, and the program that knows them.
#[derive(Debug, Clone)]
pub(super) struct Services {
    services: Arc<Vec<Service>>,
    program: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RestartArguments {
    service: String,
}

/// `system_service_restart`, if one may be restarted.
pub(super) fn tool(services: &Services) -> Option<ToolDef> {
    let any = services.services.iter().any(|service| service.restart);
    any.then(|| restart_tool(services.clone()))
}

fn restart_tool(services: Services) -> ToolDef {
    let names: Vec<&str> =
        services.services.iter().filter(|one| one.restart).map(|one| short(&one.unit)).collect();
    let about = Description {
        name: "system_service_restart",
        description: "Restarts a service.",
        parameters: restart_parameters(&names),
        category: PermissionCategory::System,
        destructive: true,
    };
    ToolDef::new(about, move |RestartArguments { service }| {
        let services = services.clone();
        Box::pin(async move { services.restart(&service).await })
    })
    .with_own_results()
}

fn restart_parameters(names: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": {"service": {"type": "string", "enum": names}},
        "required": ["service"],
        "additionalProperties": false
    })
}

/// The unit without its ending, as people say it.
fn short(unit: &str) -> &str {
    unit.strip_suffix(".service").unwrap_or(unit)
}

impl Services {
    /// Those of the configuration.
    pub fn new(services: &[Service]) -> Services {
        Services {
            services: Arc::new(services.to_vec()),
            program: PathBuf::from("/usr/bin/systemctl"),
        }
    }

    /// A line for each; nothing without services.
    pub async fn words(&self) -> String {
        if self.services.is_empty() {
            return String::new();
        }
        self.status().await.unwrap_or_else(|why| format!("services: {why}"))
    }

    async fn status(&self) -> Result<String, String> {
        let units = self.services.iter().map(|service| service.unit.as_str());
        let arguments = ["show", "--no-pager", PROPERTIES, "--"].into_iter().chain(units);
        let output = self.ask(arguments, STATUS_TIME).await?;
        // One block a unit, in the order in which they were asked for, with an empty line between.
        let mut blocks = output.split("\n\n");
        let lines: Vec<String> = self
            .services
            .iter()
            .map(|service| state(service, blocks.next().unwrap_or_default()))
            .collect();
        Ok(lines.join("\n"))
    }

    /// Those that this machine does not have.
    pub async fn missing(&self) -> Result<Vec<String>, String> {
        let words = self.status().await?;
        let missing = words.lines().filter_map(|line| line.strip_suffix(NOT_INSTALLED));
        Ok(missing.map(str::to_owned).collect())
    }

    async fn restart(&self, name: &str) -> Result<String, String> {
        let unit = self
            .services
            .iter()
            .find(|service| {
                service.restart && (service.unit == name || short(&service.unit) == name)
            })
            .map(|service| service.unit.as_str())
            .ok_or("that service may not be restarted")?;
        self.ask(["--no-ask-password", "restart", "--", unit], RESTART_TIME).await?;
        Ok(format!("{} was restarted.", short(unit)))
    }

    async fn ask(
        &self,
        arguments: impl IntoIterator<Item = &str>,
        time: Duration,
    ) -> Result<String, String> {
        let mut child = Command::new(&self.program)
            .args(arguments)
            .env_clear()
            .env("LANG", "C.UTF-8")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|_| "this node has no systemd".to_owned())?;
        let finished = tokio::time::timeout(time, finish(&mut child)).await;
        let (success, output, errors) = finished
            .map_err(|_| format!("no answer within {} s", time.as_secs()))?
            .map_err(|e| e.to_string())?;
        if success {
            return Ok(output);
        }
        let line = errors.lines().next().unwrap_or_default();
        let words = invisible::word(line, 200);
        Err(if words.is_empty() { "systemd refused it".to_owned() } else { words })
    }
}

async fn finish(child: &mut Child) -> std::io::Result<(bool, String, String)> {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read = async {
        tokio::try_join!(
            async {
                match stdout {
                    Some(from) => from.take(MAX_OUTPUT).read_to_end(&mut output).await,
                    None => Ok(0),
                }
            },
            async {
                match stderr {
                    Some(from) => from.take(MAX_OUTPUT).read_to_end(&mut errors).await,
                    None => Ok(0),
                }
            }
        )
    };
    read.await?;
    let status = child.wait().await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((status.success(), text(&output), text(&errors)))
}

/// `mosquitto: active (running), since …, 2 restarts`
fn state(service: &Service, block: &str) -> String {
    let value = |name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or_default()
            .trim()
    };
    let name = short(&service.unit);
    match (value("LoadState"), value("ActiveState")) {
        ("not-found", _) => return format!("{name}{NOT_INSTALLED}"),
        (_, "") => return format!("{name}: unknown"),
        _ => {}
    }
    let mut words = format!("{name}: {} ({})", value("ActiveState"), value("SubState"));
    if !matches!(value("Result"), "success" | "") {
        words.push_str(&format!(", failed: {}", value("Result")));
    }
    if !value("ActiveEnterTimestamp").is_empty() {
        words.push_str(&format!(", since {}", value("ActiveEnterTimestamp")));
    }
    if !matches!(value("NRestarts"), "0" | "") {
        words.push_str(&format!(", restarted by itself {} times", value("NRestarts")));
    }
    words
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;
    use crate::assistant::ToolOutcome;
    use crate::tools::fixture::Caller;

    fn service(unit: &str, restart: bool) -> Service {
        Service { unit: unit.to_owned(), restart }
    }

    /// A systemctl that notes its arguments and says what it is told to.
    fn script(folder: &Path, says: &str) -> PathBuf {
        let path = folder.join("systemctl");
        let log = folder.join("log");
        let text = format!(
            "#!/bin/sh\nfor a in \"$@\"; do printf '[%s]' \"$a\"; done >> {}\nenv > {}\n{says}\n",
            log.display(),
            folder.join("env").display()
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn services(named: &[Service], program: &Path) -> Services {
        Services { services: Arc::new(named.to_vec()), program: program.to_owned() }
    }

    fn caller(services: &Services) -> Caller {
        Caller::of(tool(services).into_iter().collect(), PermissionCategory::System)
    }

    #[tokio::test]
    async fn states_are_told_unit_by_unit() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(
            folder.path(),
            "printf 'Id=a.service\\nLoadState=loaded\\nActiveState=active\\nSubState=running\\nResult=success\\n\
             NRestarts=2\\nActiveEnterTimestamp=Mon 2026-11-30 12:00:00 UTC\\n\\n\
             Id=b.service\\nLoadState=not-found\\nActiveState=inactive\\n\\n\
             Id=c.service\\nLoadState=loaded\\nActiveState=failed\\nSubState=failed\\nResult=exit-code\\n'",
        );
        let named =
            [service("a.service", false), service("b.service", false), service("c.service", false)];
        let services = services(&named, &program);
        assert!(tool(&services).is_none(), "none may be restarted");
        let words = services.words().await;
        assert_eq!(services.missing().await.unwrap(), ["b"]);
        assert_eq!(
            words,
            "a: active (running), since Mon 2026-11-30 12:00:00 UTC, restarted by itself 2 times\n\
             b: not installed\nc: failed (failed), failed: exit-code"
        );
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(log.ends_with("[--][a.service][b.service][c.service]"), "{log}");
        assert_eq!(log.matches("[show]").count(), 2);
    }

    #[tokio::test]
    async fn only_a_listed_service_is_restarted_with_fixed_words_and_no_environment() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), "");
        let named = [service("gpsd.service", true), service("sshd.service", false)];
        let caller = caller(&services(&named, &program));
        let log = folder.path().join("log");
        for wrong in ["sshd", "sshd.service", "gpsd.service --force", "--help", "gpsd; reboot", ""]
        {
            let arguments = json!({"service": wrong});
            let (outcome, words) = caller.run("system_service_restart", arguments).await;
            assert_eq!(outcome, ToolOutcome::BadArguments, "{wrong}: {words}");
        }
        let right = json!({"service": "gpsd"});
        let (outcome, _) = caller.without_gate("system_service_restart", right.clone()).await;
        assert_eq!(outcome, ToolOutcome::NeedsConfirmation);
        assert!(!log.exists(), "nothing ran");
        let (outcome, words) = caller.run("system_service_restart", right).await;
        assert_eq!((outcome, words.as_str()), (ToolOutcome::Ran, "gpsd was restarted."));
        assert_eq!(
            std::fs::read_to_string(log).unwrap(),
            "[--no-ask-password][restart][--][gpsd.service]"
        );
        let environment = std::fs::read_to_string(folder.path().join("env")).unwrap();
        assert!(!environment.contains("CARGO"), "{environment}");
    }

    #[tokio::test]
    async fn what_systemd_says_and_that_it_is_missing_are_told_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), "printf 'Access denied\\nmore\\n' >&2; exit 4");
        let named = [service("gpsd.service", true)];
        let named_there = services(&named, &program);
        let (outcome, words) =
            caller(&named_there).run("system_service_restart", json!({"service": "gpsd"})).await;
        assert_eq!(outcome, ToolOutcome::Failed);
        assert_eq!(words, "system_service_restart failed: Access denied.");
        assert_eq!(named_there.words().await, "services: Access denied");
        let nowhere = services(&named, Path::new("/nowhere/systemctl"));
        assert!(nowhere.words().await.contains("no systemd"));
        assert_eq!(services(&[], Path::new("/nowhere/systemctl")).words().await, "");
    }
}

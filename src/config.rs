//! The typed configuration and its errors.
//!
//! Owns every key of `tombolo.toml`, its default, and what a wrong one is answered with. Holds no
//! secret. Reading and the environment are in [`mod@load`].

pub mod check;
pub mod load;
pub mod mcp;
pub mod tools;

use std::path::PathBuf;

use serde::Deserialize;

use crate::assistant::PermissionCategory;
use crate::node::{NodeNum, PublicKey};

pub use load::{ConfigError, load, parse, path};
pub use tools::ToolsConfig;

/// Everything.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where transcripts, secrets and the ledger live.
    pub data_dir: PathBuf,
    /// The radio.
    pub radio: RadioConfig,
    /// Who is answered.
    pub mesh: MeshConfig,
    /// How much of the air may be used.
    pub airtime: AirtimeConfig,
    /// The models.
    pub assistant: AssistantConfig,
    /// What the assistant's tools may reach.
    pub tools: ToolsConfig,
    /// The node page and RPC.
    pub http: HttpConfig,
    /// The file that it was read from, to name it in messages; no key.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// `[[mcp]]`: other programs that bring tools.
    pub mcp: Vec<mcp::McpServer>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data_dir: PathBuf::from("/var/lib/tombolo"),
            radio: RadioConfig::default(),
            mesh: MeshConfig::default(),
            airtime: AirtimeConfig::default(),
            assistant: AssistantConfig::default(),
            tools: ToolsConfig::default(),
            http: HttpConfig::default(),
            file: None,
            mcp: Vec::new(),
        }
    }
}

/// `[radio]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RadioConfig {
    /// Where the radio is.
    pub port: PortSpec,
    /// What the radio should be set to.
    pub settings: RadioSettings,
}

impl Default for RadioConfig {
    fn default() -> RadioConfig {
        RadioConfig { port: PortSpec::Auto, settings: RadioSettings::default() }
    }
}

/// Where a radio is: `auto`, a device, `tcp://host:4403`, or `sim`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum PortSpec {
    /// The only candidate of the board table.
    Auto,
    /// A serial device.
    Serial(PathBuf),
    /// A radio on the network, as `host:port`.
    Tcp(String),
    /// The simulator in this process.
    Sim,
}

impl TryFrom<String> for PortSpec {
    type Error = String;

    fn try_from(text: String) -> Result<PortSpec, String> {
        match text.as_str() {
            "auto" => Ok(PortSpec::Auto),
            "sim" => Ok(PortSpec::Sim),
            path if path.starts_with('/') => Ok(PortSpec::Serial(PathBuf::from(path))),
            url => {
                let host = url.strip_prefix("tcp://").ok_or_else(|| {
                    format!(
                        "`{url}` is not a port: write \"auto\", \"sim\", \"tcp://host:4403\" or a \
                         device such as \"/dev/serial/by-id/usb-…\""
                    )
                })?;
                let host = host.trim_end_matches('/');
                match host.rsplit_once(':') {
                    Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => {
                        Ok(PortSpec::Tcp(host.to_owned()))
                    }
                    None if !host.is_empty() => Ok(PortSpec::Tcp(format!("{host}:4403"))),
                    _ => Err(format!("`{url}` is not a TCP port: write \"tcp://host:4403\"")),
                }
            }
        }
    }
}

/// `[radio.settings]`: wanted values, compared and shown; written only when `apply` says so.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RadioSettings {
    /// For instance `EU_868`.
    pub region: Option<String>,
    /// For instance `LONG_FAST`.
    pub preset: Option<String>,
    /// The long name.
    pub owner: Option<String>,
    /// For instance `CLIENT_MUTE`.
    pub role: Option<String>,
    /// 1 to 7.
    pub hop_limit: Option<u32>,
    /// Write them at start.
    pub apply: bool,
}

/// `[mesh]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MeshConfig {
    /// Are peers answered at all?
    pub enabled: bool,
    /// The word that starts a question.
    pub trigger: String,
    /// Only contacts are answered.
    pub trusted_only: bool,
    /// The contacts.
    pub allowed_contacts: Vec<Contact>,
    /// Never answered; wins over everything.
    pub denied_askers: Vec<Asker>,
    /// Names of channels where the trigger is answered.
    pub channels: Vec<String>,
    /// Answer what came through the internet.
    pub answer_mqtt: bool,
    /// For each verified peer; unverified ones share one small budget.
    pub queries_per_hour: u32,
}

impl Default for MeshConfig {
    fn default() -> MeshConfig {
        MeshConfig {
            enabled: true,
            trigger: "!ai".to_owned(),
            trusted_only: true,
            allowed_contacts: Vec::new(),
            denied_askers: Vec::new(),
            channels: Vec::new(),
            answer_mqtt: false,
            queries_per_hour: 20,
        }
    }
}

/// A contact: a node id, better with its key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "ContactForm")]
pub struct Contact {
    /// The number: a display hint, and how the key is pinned where none is given.
    pub id: NodeNum,
    /// What the contact is. Without it, pinned at its first PKI direct message.
    pub key: Option<PublicKey>,
    /// What to call it.
    pub name: Option<String>,
    /// `None` means the default for a listed contact: `system`.
    pub grants: Option<Vec<PermissionCategory>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a node id such as \"!a1b2c3d4\", or { id = \"!a1b2c3d4\", key = \"base64\", name = \"…\", grants = [\"system\"] }"
)]
enum ContactForm {
    Id(NodeNum),
    Full(ContactTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContactTable {
    id: NodeNum,
    key: Option<PublicKey>,
    name: Option<String>,
    grants: Option<Vec<PermissionCategory>>,
}

impl From<ContactForm> for Contact {
    fn from(form: ContactForm) -> Contact {
        match form {
            ContactForm::Id(id) => Contact { id, key: None, name: None, grants: None },
            ContactForm::Full(ContactTable { id, key, name, grants }) => {
                Contact { id, key, name, grants }
            }
        }
    }
}

/// Someone to refuse: by number or by key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(untagged, expecting = "a node id such as \"!a1b2c3d4\" or a public key in base64")]
pub enum Asker {
    /// Whoever claims this number.
    Node(NodeNum),
    /// Whoever holds this key.
    Key(PublicKey),
}

impl std::fmt::Display for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Asker::Node(number) => number.fmt(f),
            Asker::Key(key) => key.fmt(f),
        }
    }
}

/// `[airtime]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AirtimeConfig {
    /// Of what the region's law allows this transmitter; above 0, at most 1.
    pub share: f64,
    /// Parts in a burst; the rest waits for `more`. 1 to 9.
    pub max_parts: usize,
}

impl Default for AirtimeConfig {
    fn default() -> AirtimeConfig {
        AirtimeConfig { share: 0.5, max_parts: 3 }
    }
}

/// Who may fall through to a cloud leg when no local one answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CloudPolicy {
    /// Nobody.
    None,
    /// Only the operator.
    Operator,
    /// Every caller who is answered at all.
    All,
}

/// What tools of these categories say stays on the node, unless `assistant.cloud_content` names them.
/// What is in the operator's folders, what callers noted, and money.
pub const KEPT_FROM_CLOUD: [PermissionCategory; 5] = [
    PermissionCategory::Files,
    PermissionCategory::Media,
    PermissionCategory::Notes,
    PermissionCategory::Search,
    PermissionCategory::Wallet,
];

/// `[assistant]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AssistantConfig {
    /// Who may fall through to a cloud leg.
    pub cloud: CloudPolicy,
    /// Of the content that no cloud leg is given, what one may be given all the same: some of
    /// [`KEPT_FROM_CLOUD`].
    pub cloud_content: Vec<PermissionCategory>,
    /// Transcripts are kept so many days; 0: for ever.
    pub history_days: u32,
    /// The local leg.
    pub ollama: OllamaConfig,
    /// Used when `secrets/claude-api-key` exists.
    pub claude: ClaudeConfig,
    /// Used when it is configured.
    pub openai: Option<OpenaiConfig>,
}

impl Default for AssistantConfig {
    fn default() -> AssistantConfig {
        AssistantConfig {
            cloud: CloudPolicy::All,
            cloud_content: Vec::new(),
            history_days: 90,
            ollama: OllamaConfig::default(),
            claude: ClaudeConfig::default(),
            openai: None,
        }
    }
}

/// How tools are offered to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The server's own tool calling.
    #[default]
    Native,
    /// Prompt and JSON, for models without tool calling.
    Json,
}

/// `[assistant.ollama]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OllamaConfig {
    /// `http://` or `https://`, no path.
    pub url: String,
    /// A model that Ollama has.
    pub model: String,
    /// How tools are offered.
    pub protocol: Protocol,
}

impl Default for OllamaConfig {
    fn default() -> OllamaConfig {
        OllamaConfig {
            url: "http://127.0.0.1:11434".to_owned(),
            model: "qwen2.5-coder:7b".to_owned(),
            protocol: Protocol::Native,
        }
    }
}

/// `[assistant.claude]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClaudeConfig {
    /// The API's base, no path.
    pub url: String,
    /// The model.
    pub model: String,
}

impl Default for ClaudeConfig {
    fn default() -> ClaudeConfig {
        ClaudeConfig {
            url: "https://api.anthropic.com".to_owned(),
            model: "claude-haiku-4-5-20251001".to_owned(),
        }
    }
}

/// `[assistant.openai]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenaiConfig {
    /// The base, ending in `/v1`.
    pub url: String,
    /// The model.
    pub model: String,
    /// Does it run on the operator's own machines? A cloud leg otherwise.
    #[serde(default)]
    pub local: bool,
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Address and port.
    pub listen: std::net::SocketAddr,
    /// Further exact `Host` values that are accepted.
    pub hosts: Vec<String>,
    /// Is there a reverse proxy on this machine, whose `X-Forwarded-For` and `-Proto` are believed?
    pub forwarded: bool,
}

impl Default for HttpConfig {
    fn default() -> HttpConfig {
        HttpConfig {
            listen: std::net::SocketAddr::from(([127, 0, 0, 1], 7373)),
            hosts: Vec::new(),
            forwarded: false,
        }
    }
}

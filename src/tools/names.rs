//! The names of all tools that this program may have, whether they are configured now or not.
//!
//! Owns the list. For whoever sets something for a tool while the node does not run; it gives no tool to anybody.

use crate::assistant::PermissionCategory as Category;
use crate::config::ToolsConfig;

/// Name, category, and whether it changes something.
pub type Name = (String, Category, bool);

/// Those with fixed names, in order.
const OWN: [(&str, Category, bool); 23] = [
    ("ai_models", Category::AiLocal, false),
    ("bitcoin_status", Category::Bitcoin, false),
    ("documents_read", Category::Search, false),
    ("documents_search", Category::Search, false),
    ("files_edit", Category::Files, true),
    ("files_list", Category::Files, false),
    ("files_read", Category::Files, false),
    ("files_search", Category::Files, false),
    ("media_describe", Category::Media, false),
    ("media_list", Category::Media, false),
    ("mesh_airtime", Category::Network, false),
    ("mesh_node", Category::Network, false),
    ("mesh_nodes", Category::Network, false),
    ("network_interfaces", Category::Network, false),
    ("notes_add", Category::Notes, true),
    ("notes_delete", Category::Notes, true),
    ("notes_list", Category::Notes, false),
    ("notes_search", Category::Notes, false),
    ("system_disk_status", Category::System, false),
    ("system_service_restart", Category::System, true),
    ("system_status", Category::System, false),
    ("wallet_balance", Category::Wallet, false),
    ("wallet_receive_address", Category::Wallet, true),
];

/// These, and the commands of the configuration.
pub fn of(config: &ToolsConfig) -> Vec<Name> {
    let own = OWN.iter().map(|(name, category, changes)| ((*name).to_owned(), *category, *changes));
    let commands = config.commands.iter();
    own.chain(
        commands.map(|command| (format!("app_{}", command.name.0), Category::Apps, !command.safe)),
    )
    .collect()
}

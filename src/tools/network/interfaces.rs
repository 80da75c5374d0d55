//! This machine's own network interfaces.
//!
//! Owns their figures and words. Reads the kernel's files; opens no connection.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use super::super::system::size;

/// Bytes read of one of the kernel's files.
const MAX_FILE: u64 = 256 * 1024;
/// Interfaces that are shown.
const MAX_INTERFACES: usize = 16;
/// Addresses that are shown of one.
const MAX_ADDRESSES: usize = 6;

/// Where the kernel's files are.
#[derive(Debug, Clone)]
pub(super) struct Interfaces {
    root: PathBuf,
}

/// A line of the table of routes.
struct Route {
    interface: String,
    network: u32,
    mask: u32,
}

impl Interfaces {
    /// This machine's.
    pub fn here() -> Interfaces {
        Interfaces { root: PathBuf::from("/") }
    }

    /// A line for each interface that is up or was used, the loopback left out.
    pub fn words(&self) -> Result<String, String> {
        let device_table = self.read("proc/net/dev").ok_or("the interfaces can't be read")?;
        let routes = self.routes();
        let addresses = self.addresses(&routes);
        let default = routes.iter().find(|route| route.mask == 0).map(|route| &route.interface);
        let mut lines = Vec::new();
        for line in device_table.lines().skip(2) {
            let Some((name, figures)) = line.split_once(':') else { continue };
            let name = name.trim();
            let figures: Vec<u64> =
                figures.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
            let (received, sent) = match (figures.first(), figures.get(8)) {
                (Some(received), Some(sent)) => (*received, *sent),
                _ => continue,
            };
            let is_up = self
                .read(Path::new("sys/class/net").join(name).join("operstate"))
                .is_some_and(|state| matches!(state.as_str(), "up" | "unknown"));
            if name == "lo" || (!is_up && received + sent == 0) {
                continue;
            }
            let mut words = format!("{name}: {}", if is_up { "up" } else { "down" });
            let own = addresses.iter().filter(|(interface, _)| interface == name);
            for (_, address) in own.take(MAX_ADDRESSES) {
                words.push_str(&format!(", {address}"));
            }
            if default.is_some_and(|interface| interface == name) {
                words.push_str(", default route");
            }
            words.push_str(&format!(", received {}, sent {}", size(received), size(sent)));
            lines.push(words);
            if lines.len() == MAX_INTERFACES {
                break;
            }
        }
        Ok(if lines.is_empty() { "no network".to_owned() } else { lines.join("\n") })
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.root.join(path)).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    fn routes(&self) -> Vec<Route> {
        let table = self.read("proc/net/route").unwrap_or_default();
        let lines = table.lines().skip(1).filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // Written as the bytes lie in the memory of this machine.
            let number = |at: usize| {
                u32::from_str_radix(words.get(at)?, 16)
                    .ok()
                    .map(|n| u32::from_be_bytes(n.to_ne_bytes()))
            };
            let interface = (*words.first()?).to_owned();
            Some(Route { interface, network: number(1)?, mask: number(7)? })
        });
        lines.collect()
    }

    /// Interface and address. The kernel lists IPv4 addresses without their interface: that is the one
    /// whose network they lie in.
    fn addresses(&self, routes: &[Route]) -> Vec<(String, String)> {
        let mut addresses = Vec::new();
        let tree = self.read("proc/net/fib_trie").unwrap_or_default();
        let mut last = "";
        for line in tree.lines() {
            if let Some(address) = line.trim().strip_prefix("|-- ") {
                last = address;
            } else if line.trim() == "/32 host LOCAL"
                && let Ok(address) = last.parse::<Ipv4Addr>()
            {
                let bits = address.to_bits();
                let route = routes.iter().filter(|r| r.mask != 0 && bits & r.mask == r.network);
                let Some(route) = route.max_by_key(|r| r.mask) else { continue };
                let found = (route.interface.clone(), address.to_string());
                if !addresses.contains(&found) {
                    addresses.push(found);
                }
            }
        }
        for line in self.read("proc/net/if_inet6").unwrap_or_default().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(digits), Some(interface)) = (words.first(), words.get(5)) else { continue };
            let Ok(bits) = u128::from_str_radix(digits, 16) else { continue };
            let address = Ipv6Addr::from_bits(bits);
            // A link-local address says nothing of how the node is reached.
            if !address.is_unicast_link_local() {
                addresses.push(((*interface).to_owned(), address.to_string()));
            }
        }
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(files: &[(&str, &str)]) -> (tempfile::TempDir, Interfaces) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let interfaces = Interfaces { root: folder.path().to_owned() };
        (folder, interfaces)
    }

    /// A number as the kernel of this machine would write it.
    fn kernel(address: [u8; 4]) -> String {
        format!("{:08X}", u32::from_ne_bytes(address))
    }

    #[test]
    fn interfaces_have_their_addresses_and_figures() {
        let routes = format!(
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
             wlan0\t00000000\t{gateway}\t0003\t0\t0\t0\t00000000\n\
             wlan0\t{lan}\t00000000\t0001\t0\t0\t0\t{mask}\n\
             eth0\t{wide}\t00000000\t0001\t0\t0\t0\t{wider}\n",
            gateway = kernel([192, 0, 2, 1]),
            lan = kernel([192, 0, 2, 0]),
            mask = kernel([255, 255, 255, 0]),
            wide = kernel([192, 0, 0, 0]),
            wider = kernel([255, 255, 0, 0]),
        );
        let (_folder, interfaces) = at(&[
            (
                "proc/net/dev",
                "Inter-| Receive | Transmit\n face |bytes\n    lo: 5 0 0 0 0 0 0 0 5 0\n\
                 wlan0: 1500000 1 0 0 0 0 0 0 2500 1\n  eth0: 9 0 0 0 0 0 0 0 1 0\n  ifb0: 0 0 0 0 0 0 0 0 0 0\nbad\n",
            ),
            ("proc/net/route", &routes),
            (
                "proc/net/fib_trie",
                "Main:\n  |-- 127.0.0.1\n     /32 host LOCAL\n  |-- 192.0.2.7\n     /32 host LOCAL\n\
                 Local:\n  |-- 192.0.2.7\n     /32 host LOCAL\n  |-- 192.0.9.1\n     /32 host LOCAL\n  |-- 192.0.2.255\n     /32 link BROADCAST\n",
            ),
            (
                "proc/net/if_inet6",
                "fd000000000000000000000000000002 04 40 00 82 wlan0\n\
                 fe8000000000000000fc00fffe000001 04 40 20 80 wlan0\nzz\n",
            ),
            ("sys/class/net/wlan0/operstate", "up\n"),
            ("sys/class/net/eth0/operstate", "down\n"),
        ]);
        assert_eq!(
            interfaces.words().unwrap(),
            "wlan0: up, 192.0.2.7, fd00::2, default route, received 1.5 MB, sent 2.5 kB\n\
             eth0: down, 192.0.9.1, received 9 B, sent 1 B"
        );
    }

    #[test]
    fn a_machine_without_a_network_says_so() {
        let (_folder, interfaces) = at(&[("proc/net/dev", "a\nb\n lo: 1 0 0 0 0 0 0 0 1 0\n")]);
        assert_eq!(interfaces.words().unwrap(), "no network");
        let (_folder, nothing) = at(&[]);
        assert!(nothing.words().is_err());
        assert!(Interfaces::here().words().is_ok());
    }
}

//! The files of the pages, in the program itself.
//!
//! Owns the list of them and their content types. A file that is not in the list is not served; a test
//! says so when one was forgotten.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use axum::http::HeaderValue;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// One file, ready to be served.
#[derive(Debug)]
pub struct Asset {
    /// Its name within its folder.
    pub name: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
    /// The same compressed with gzip; `None` where that would be no shorter.
    pub gzip: Option<Vec<u8>>,
    /// Its content type.
    pub content_type: HeaderValue,
    /// Names its content: another content has another one.
    pub etag: HeaderValue,
    /// The same of the compressed form.
    pub gzip_etag: HeaderValue,
}

macro_rules! files {
    ($folder:literal: $($name:literal)*) => {
        &[$((
            $name,
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/web/", $folder, "/", $name)),
        )),*]
    };
}

type File = (&'static str, &'static [u8]);

const NODE: &[File] = files!("node":
    "index.html" "adding.js" "airtime.js" "assistant.js" "attention.js" "broker.js" "chart.js"
    "confusable.js" "contacts.js" "disk.js" "distress.js" "exact.js" "feed.js" "form.js" "glance.js" "grants.js"
    "history.js" "icon.svg" "keyed.js" "keys.js" "lines.js" "log.js" "main.js" "messages.js"
    "node.css" "nodes.js" "notice.js" "panel.js" "panels.css" "parts.js" "pending.js" "people.js" "person.js"
    "progress.js" "radio.js" "security.js" "settings.js" "setup.js" "shared.js" "start.js" "stream.js" "summary.js"
    "units.js" "views.css" "views.js"
);
const AIUI: &[File] = files!("aiui":
    "index.html" "aiui.css" "alone.js" "answer.js" "bridge.js" "clipboard.js" "conversation.js" "element.js"
    "entry.css" "entry.js" "export.js" "legs.js" "main.js" "palette.css" "rpc.js" "session.js"
    "untrusted.js" "view.js"
);

/// The node page's, `index.html` among them.
pub fn node() -> Vec<Arc<Asset>> {
    static ALL: LazyLock<Vec<Arc<Asset>>> = LazyLock::new(|| prepared(NODE));
    ALL.clone()
}

/// AIUI's, `index.html` among them.
pub fn aiui() -> Vec<Arc<Asset>> {
    static ALL: LazyLock<Vec<Arc<Asset>>> = LazyLock::new(|| prepared(AIUI));
    ALL.clone()
}

fn prepared(files: &[File]) -> Vec<Arc<Asset>> {
    files.iter().map(|file| Arc::new(asset(file))).collect()
}

fn asset((name, bytes): &File) -> Asset {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    Asset {
        name,
        bytes,
        gzip: gzip(bytes),
        content_type: HeaderValue::from_static(content_type(name)),
        etag: quoted(&hex),
        gzip_etag: quoted(&format!("{hex}-gz")),
    }
}

fn quoted(name: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{name}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Nothing secret is ever compressed here, so no length tells of one.
fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().filter(|packed| packed.len() < bytes.len())
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("webmanifest") => "application/manifest+json",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read;

    use super::*;

    #[test]
    fn every_file_of_the_pages_is_served_with_a_known_type() {
        for (folder, assets) in [("node", node()), ("aiui", aiui())] {
            let path = format!("{}/web/{folder}", env!("CARGO_MANIFEST_DIR"));
            let there: BTreeSet<String> = std::fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap())
                .filter(|entry| entry.file_type().unwrap().is_file())
                .map(|entry| entry.file_name().into_string().unwrap())
                .filter(|name| !name.ends_with(".d.ts") && !name.starts_with("tsconfig"))
                .collect();
            let listed: BTreeSet<String> =
                assets.iter().map(|asset| asset.name.to_owned()).collect();
            assert_eq!(listed, there, "web/{folder} and the list in src/web/assets.rs");
            assert!(listed.contains("index.html"));
            for asset in &assets {
                assert_ne!(asset.content_type, "application/octet-stream", "{}", asset.name);
                assert_eq!(asset.etag.len(), 26, "{}", asset.name);
            }
        }
    }

    #[test]
    fn the_compressed_form_is_the_same_file() {
        for asset in node().iter().chain(&aiui()) {
            let Some(packed) = &asset.gzip else { continue };
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, asset.bytes, "{}", asset.name);
            assert_ne!(asset.etag, asset.gzip_etag);
        }
        let whole: usize = node().iter().map(|asset| asset.bytes.len()).sum();
        let packed: usize =
            node().iter().filter_map(|asset| asset.gzip.as_ref()).map(Vec::len).sum();
        assert!(packed * 2 < whole, "{packed} of {whole} bytes");
    }
}

//! What can be wanted, and what comes of it with a simulated radio.
//!
//! Owns a line between client and radio that can lose or change frames.

mod flow;
mod wishes;

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;
use crate::radio::transport::Connector;
use crate::sim::{Sim, SimConfig};

/// What becomes of a frame to the radio: it is left as it is, changed, or lost.
type Fate = Arc<dyn Fn(&mut Vec<u8>) -> bool + Send + Sync>;

/// The frames that a radio was sent.
type Sent = Arc<Mutex<Vec<Vec<u8>>>>;

/// A radio behind a line with that fate for each frame to it.
fn behind(sim: &Sim, fate: Fate) -> (Connector, Sent) {
    let sent = Sent::default();
    let (sim, noted) = (sim.clone(), sent.clone());
    let connector = Connector::from_fn("the line", move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(carry(theirs, sim.connect(), fate.clone(), noted.clone()));
        ours
    });
    (connector, sent)
}

fn direct(sim: &Sim) -> (Connector, Sent) {
    behind(sim, Arc::new(|_| true))
}

async fn carry(client: DuplexStream, radio: DuplexStream, fate: Fate, sent: Sent) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_radio, mut to_radio) = tokio::io::split(radio);
    let up = async {
        loop {
            let mut head = [0; 1];
            if from_client.read_exact(&mut head).await.is_err() {
                return;
            }
            if head != [0x94] {
                continue; // the flush
            }
            let mut rest = [0; 3];
            from_client.read_exact(&mut rest).await.unwrap();
            let mut payload = vec![0; usize::from(u16::from_be_bytes([rest[1], rest[2]]))];
            from_client.read_exact(&mut payload).await.unwrap();
            if fate(&mut payload) {
                let header = tombolo_hw::frame::header(payload.len()).unwrap();
                sent.lock().unwrap().push(payload.clone());
                if to_radio.write_all(&[&header, payload.as_slice()].concat()).await.is_err() {
                    return;
                }
            }
        }
    };
    let down = async {
        let _ = tokio::io::copy(&mut from_radio, &mut to_client).await;
    };
    tokio::select! { () = up => {}, () = down => {} }
}

fn file(region: &str, preset: &str) -> RadioSettings {
    RadioSettings {
        region: Some(region.to_owned()),
        preset: Some(preset.to_owned()),
        ..RadioSettings::default()
    }
}

fn wanted(file: &RadioSettings) -> Wanted {
    Wanted::from_file(file).unwrap()
}

fn sim(config: SimConfig) -> Sim {
    Sim::start(config)
}

//! What the tools are told by the other parts.
//!
//! Owns the translation from the mesh side's own figures to those of the tools, which know no radio.

use crate::clock;
use crate::mesh::MeshHandle;
use crate::tools::network::{Airtime, Asked, KnownNode, Mesh};

/// The mesh side, as the tools ask it.
pub struct MeshSide(pub MeshHandle);

impl Mesh for MeshSide {
    fn nodes(&self) -> Asked<'_, Vec<KnownNode>> {
        Box::pin(async {
            let nodes = self.0.nodes().await.map_err(|gone| gone.to_string())?;
            let known = nodes.into_iter().map(|node| KnownNode {
                number: node.node.0,
                long_name: node.long_name,
                short_name: node.short_name,
                contact: node.contact,
                last_heard: node.last_heard,
                snr: node.snr,
                hops: node.hops,
                battery: node.battery,
            });
            Ok(known.collect())
        })
    }

    fn airtime(&self) -> Asked<'_, Airtime> {
        Box::pin(async {
            let air = self.0.airtime().await.map_err(|gone| gone.to_string())?;
            Ok(Airtime {
                used_ms: air.used_ms,
                limit_ms: air.limit_ms,
                share_ms: air.share_ms,
                channel_percent: air.channel_utilization,
                paused: air.paused,
            })
        })
    }

    fn now(&self) -> u64 {
        clock::unix_ms() / 1000
    }
}

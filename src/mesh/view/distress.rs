//! Distress texts, as they are shown.
//!
//! Owns this serialised form, in RPC and on the disk, and the handle's ways to it. Decides nothing.

use serde::{Deserialize, Serialize};

use super::{MeshGone, MeshHandle, MeshQuery};
use crate::assistant::{Assurance, TurnId};
use crate::mesh::operator::{Refusal, Wish};
use crate::node::NodeNum;

/// One row of `mesh.distress`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DistressView {
    /// Names it; another one for each packet.
    pub id: TurnId,
    /// When it came, Unix milliseconds; of the same words sent several times, the last time.
    pub at: u64,
    /// When those words came first.
    pub first_at: u64,
    /// How often they came, each time in a packet of its own.
    pub times: u32,
    /// The sender's number, a claim.
    pub node: NodeNum,
    /// The contact's name, or the node id.
    pub name: String,
    /// How sure we are.
    pub assurance: Assurance,
    /// Of the key that was proved, or that signed.
    pub fingerprint: Option<String>,
    /// The contact whose number it came under, without that contact's key: a claim.
    pub claims: Option<String>,
    /// The channel's name; `None` for a direct message.
    pub channel: Option<String>,
    /// It crossed the internet, as far as anybody says.
    pub mqtt: bool,
    /// What followed `sos`: untrusted text, perhaps empty.
    pub text: String,
    /// When a person cleared it, Unix milliseconds; `None` until then.
    pub seen_at: Option<u64>,
    /// dB, of the last hop.
    pub snr: Option<f32>,
    /// Hops, where known.
    pub hops: Option<u32>,
}

impl MeshHandle {
    /// `mesh.distress`, the newest first.
    pub async fn distress(&self) -> Result<Vec<DistressView>, MeshGone> {
        self.ask(MeshQuery::Distress).await
    }

    /// `mesh.distress-clear`: a person has seen the text of that id. Gives what stands there then.
    pub async fn clear_distress(
        &self,
        wish: Wish<TurnId>,
    ) -> Result<Result<Vec<DistressView>, Refusal>, MeshGone> {
        self.ask(|reply| MeshQuery::ClearDistress(wish, reply)).await
    }
}

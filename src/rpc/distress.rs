//! Distress texts: `mesh.distress` shows them, `mesh.distress-clear` says that a person has seen one.
//!
//! Owns the parameters and schemas of these methods. What is recorded, and what gives way, is the mesh side's to decide;
//! names and texts are untrusted.

use serde_json::{Map, Value, json};

use super::contacts::{by, refused};
use super::dispatcher::{Call, no_such_method};
use super::error::RpcError;
use super::fields::Fields;
use super::mesh::{assurance, gone};
use super::message::{self, NoParams};
use super::schema::{count, flag, list, node_id, number, object, or_null, text};
use crate::assistant::TurnId;
use crate::mesh::operator::Wish;

/// Runs one of these methods.
pub(super) async fn handle(
    call: &Call<'_>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let mesh = &call.services.mesh;
    let texts = match method {
        "mesh.distress" => {
            let NoParams {} = message::params(params)?;
            mesh.distress().await.map_err(gone)?
        }
        "mesh.distress-clear" => {
            let mut fields = Fields::of(params);
            let what = TurnId(fields.text("id")?);
            fields.end()?;
            let left = mesh.clear_distress(Wish { by: by(call)?, what }).await.map_err(gone)?;
            left.map_err(|refusal| refused(call, refusal))?
        }
        _ => return Err(no_such_method(method)),
    };
    Ok(json!({ "distress": texts }))
}

pub(super) fn clear_params() -> Value {
    object(&[("id", text("as mesh.distress shows it"))])
}

pub(super) fn result() -> Value {
    let one = object(&[
        ("id", text("names it; the same words in another packet have another")),
        ("at", count("when it came, Unix milliseconds; of repeated words the last time")),
        ("first_at", count("when those words came first")),
        ("times", count("how often those words came")),
        ("node", node_id()),
        ("name", text("the contact's name, or the node id")),
        ("assurance", assurance()),
        ("fingerprint", or_null(text("of the key that was proved, or that signed"))),
        ("claims", or_null(text("the contact whose number it came under, without its key"))),
        ("channel", or_null(text("the channel's name; null for a direct message"))),
        ("mqtt", flag("did it cross the internet?")),
        ("text", text("untrusted text; empty for a bare sos")),
        ("seen_at", or_null(count("when a person cleared it; null until then"))),
        ("snr", or_null(number("dB, of the last hop"))),
        ("hops", or_null(count("where known"))),
    ]);
    object(&[("distress", list(one))])
}

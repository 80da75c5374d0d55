//! `GET /metrics`: the node's figures as Prometheus reads them.
//!
//! Owns the form and who may read it: this machine itself, or a session. Holds no secret, no name and no
//! text of a peer; labels are words of ours, so that their number is bounded.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::Services;
use super::figures::{BUCKETS_S, Family, Histogram};
use super::http::origin_is_ours;
use crate::backup;
use crate::mesh::view::MeshStatus;
use crate::web::connection::Peer;

/// A part that doesn't answer within this is left out.
const PATIENCE: Duration = Duration::from_millis(500);

/// Serves them.
pub async fn get(State(services): State<Arc<Services>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let host = services.hosts.of(&head.uri, &head.headers).unwrap_or_default();
    if !origin_is_ours(&services, &head.headers, host) {
        return (StatusCode::FORBIDDEN, "this origin may not read the node's figures")
            .into_response();
    }
    let peer = head.extensions.get::<Peer>();
    let local = services.forwarded.is_local(&head.headers, peer);
    if !local && services.auth.authenticate(&services.client(&head.headers, peer)).is_none() {
        let how = "the figures are for this machine itself, or with a session";
        return (StatusCode::UNAUTHORIZED, how).into_response();
    }
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, text(&services).await).into_response()
}

/// All of them.
pub async fn text(services: &Services) -> String {
    let (mesh, legs) = tokio::join!(
        timeout(PATIENCE, services.mesh.status()),
        timeout(PATIENCE, services.legs()),
    );
    let mut page = Page::default();
    page.family("info", "gauge", "The program.");
    page.sample("info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let up_ms = services.clock.now().mono_ms.saturating_sub(services.started.mono_ms);
    page.gauge("uptime_seconds", "Since the start.", float(up_ms) / 1000.0);
    let data_dir = services.data_dir.clone();
    let backup = tokio::task::spawn_blocking(move || backup::last(&data_dir)).await;
    if let Ok(Ok(Some(note))) = backup {
        let age_ms = services.clock.now().unix_ms.saturating_sub(note.at);
        page.gauge("backup_age_seconds", "Since the last backup.", float(age_ms) / 1000.0);
    }
    if let Ok(Ok(status)) = mesh {
        of_mesh(&mut page, &status);
    }
    if let Ok(legs) = legs {
        page.family("leg_ready", "gauge", "Is the leg ready to answer?");
        for leg in legs.legs {
            page.sample("leg_ready", &[("leg", &leg.name)], truth(leg.state == "ready"));
        }
    }
    let counts = services.figures.counts();
    for (name, labels, help, family) in [
        ("turns_total", &["caller", "outcome"][..], "Questions, by how they ended.", &counts.turns),
        ("answers_total", &["leg"], "Turns, by the leg that answered.", &counts.answers),
        ("refused_total", &["cause"], "Texts heard and not answered, by cause.", &counts.refused),
        (
            "tool_calls_total",
            &["caller", "category", "outcome"],
            "Calls of tools, by what became of them.",
            &counts.tools,
        ),
        ("part_states_total", &["state"], "What was learnt of parts.", &counts.part_states),
        ("security_events_total", &["kind"], "What the operator should know.", &counts.security),
        ("distress_total", &["assurance"], "Distress texts recorded.", &counts.distress),
        ("rpc_calls_total", &["method", "outcome"], "Calls of RPC.", &counts.calls),
    ] {
        page.counters(name, labels, help, family);
    }
    page.family("turn_seconds", "histogram", "How long turns took.");
    for (side, histogram) in &counts.took {
        page.histogram("turn_seconds", ("caller", side.as_str()), histogram);
    }
    page.counter("parts_sent_total", "Parts handed to the radio.", float(counts.parts));
    page.counter(
        "parts_airtime_seconds_total",
        "Their time on air, without the radio's own repeats.",
        float(counts.parts_airtime_us) / 1e6,
    );
    let (connections, given_up) = services.seats.counts();
    page.gauge("http_connections", "Open connections.", float(connections as u64));
    page.counter(
        "http_connections_given_up_total",
        "Connections that said nothing and made room for others.",
        float(given_up),
    );
    let streams = float(services.streams.count() as u64);
    page.gauge("event_streams", "Pages that listen to events.", streams);
    page.0
}

fn of_mesh(page: &mut Page, status: &MeshStatus) {
    let air = &status.airtime;
    for (name, help, value) in [
        ("link_up", "Is the link to the radio up?", Some(truth(status.connected))),
        ("stopped", "Has the operator stopped all answers?", Some(truth(status.stopped))),
        ("sending_paused", "Does sending wait?", Some(truth(air.paused.is_some()))),
        ("turns_running", "Questions being answered.", Some(float(status.turns_running as u64))),
        ("turns_waiting", "Accepted, not begun.", Some(float(status.turns_waiting as u64))),
        ("parts_waiting", "Parts that wait to leave.", Some(float(status.parts_waiting as u64))),
        ("kept_answers", "Answers kept for peers.", Some(float(status.kept_answers as u64))),
        ("distress_waiting", "Distress texts not cleared.", Some(float(status.distress as u64))),
        (
            "airtime_used_seconds",
            "Sent in the rolling hour: the higher of ledger and radio.",
            Some(float(air.used_ms) / 1000.0),
        ),
        (
            "airtime_limit_seconds",
            "What the law allows in an hour.",
            air.limit_ms.map(|ms| float(ms) / 1000.0),
        ),
        (
            "airtime_share_seconds",
            "What own replies may use of it.",
            air.share_ms.map(|ms| float(ms) / 1000.0),
        ),
        (
            "airtime_recovers_seconds",
            "Until a full part fits again.",
            Some(float(air.recovers_in_s)),
        ),
        (
            "channel_utilization_ratio",
            "How busy the channel is, as the radio says.",
            air.channel_utilization.map(|percent| f64::from(percent) / 100.0),
        ),
        (
            "air_util_tx_ratio",
            "What the radio sent in the last hour, as it says.",
            air.air_util_tx.map(|percent| f64::from(percent) / 100.0),
        ),
    ] {
        if let Some(value) = value {
            page.gauge(name, help, value);
        }
    }
}

/// The text so far. Names are given without their prefix.
#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a String can't fail.
        let _ = write!(self.0, "# HELP tombolo_{name} {help}\n# TYPE tombolo_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let _ = match labels.is_empty() {
            true => writeln!(self.0, "tombolo_{name} {value}"),
            false => writeln!(self.0, "tombolo_{name}{{{}}} {value}", labels.join(",")),
        };
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    fn counters(&mut self, name: &str, labels: &[&str], help: &str, family: &Family) {
        self.family(name, "counter", help);
        for (values, count) in family {
            let pairs: Vec<(&str, &str)> =
                labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
            self.sample(name, &pairs, float(*count));
        }
    }

    fn histogram(&mut self, name: &str, label: (&str, &str), histogram: &Histogram) {
        let bounds = BUCKETS_S.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut all = 0;
        for (bound, count) in bounds.zip(histogram.counts) {
            all += count;
            self.sample(&format!("{name}_bucket"), &[label, ("le", &bound)], float(all));
        }
        self.sample(&format!("{name}_sum"), &[label], histogram.sum_s);
        self.sample(&format!("{name}_count"), &[label], float(all));
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn truth(so: bool) -> f64 {
    f64::from(u8::from(so))
}

/// Exact up to 2^53.
#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}

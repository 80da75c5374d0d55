//! `GET /events`: one page's stream.
//!
//! Owns who may open one, how many there are, and when one ends: with its session, with the daemon, when
//! its reader is too slow, or when the same session opens one too many. Memory does not grow with a slow
//! reader: it holds a place in the ring and nothing else.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{Event, Reader};
use crate::assistant::SessionId;
use crate::rpc::Services;
use crate::rpc::auth::{Login, Role};
use crate::rpc::http::origin_is_ours;
use crate::web::connection::Peer;

/// A comment is sent so often when nothing happens; the session is looked at again then.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Streams of one session; one more ends its oldest, which is mostly one that a sleeping phone left.
pub const MAX_OF_SESSION: usize = 4;
/// Streams in all.
pub const MAX_STREAMS: usize = 24;
/// Events in one chunk.
const MAX_CHUNK: usize = 64;
/// A browser comes back after so many milliseconds.
const RETRY_MS: u64 = 2000;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
// For a reverse proxy that would otherwise collect a whole answer before it passes it on.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Serves one stream.
pub async fn get(State(services): State<Arc<Services>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let host = services.hosts.of(&head.uri, &head.headers).unwrap_or_default();
    if !origin_is_ours(&services, &head.headers, host) || !is_our_page(&head.headers) {
        return (StatusCode::FORBIDDEN, "this origin may not listen to the node").into_response();
    }
    let client = services.client(&head.headers, head.extensions.get::<Peer>());
    // Before the session is looked at, so that no end of it is missed.
    let sessions = services.auth.changes();
    let Some(login) = services.auth.authenticate(&client) else {
        return (StatusCode::UNAUTHORIZED, "log in first: there is no session, or it is over")
            .into_response();
    };
    let Some(place) = services.streams.open(&login) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages listen at once").into_response();
    };
    let last_id = head.headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let listener = Listener::new(services, login, place, sessions, last_id).await;
    let body = Body::from_stream(stream::unfold(listener, Listener::next));
    ([(header::CONTENT_TYPE, "text/event-stream"), (ACCEL_BUFFERING, "no")], body).into_response()
}

// A page of another port on this host has the cookie too, and an image of it needs no `Origin`.
fn is_our_page(headers: &HeaderMap) -> bool {
    headers
        .get_all(FETCH_SITE)
        .iter()
        .all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
}

struct Listener {
    services: Arc<Services>,
    login: Login,
    place: Place,
    sessions: watch::Receiver<u64>,
    reader: Reader,
    keep_alive: Interval,
    /// What is sent before anything else.
    greeting: Option<String>,
}

impl Listener {
    async fn new(
        services: Arc<Services>,
        login: Login,
        place: Place,
        sessions: watch::Receiver<u64>,
        last_id: Option<&str>,
    ) -> Listener {
        let bus = &services.events;
        let (reader, known) = Reader::new(bus, login.session_id.clone(), login.role, last_id);
        let id = reader.id();
        let mut greeting = format!("retry: {RETRY_MS}\n");
        write_event(&mut greeting, &id, "hello", &json!({ "boot": bus.boot() }).to_string());
        if !known {
            write_event(&mut greeting, &id, "reset", "{}");
        }
        // Everything else comes as it happens; how things stand is said at once.
        if let Ok(status) = services.mesh.status().await {
            let status = Event::Status(Box::new(status)).data().to_string();
            write_event(&mut greeting, &id, "status", &status);
        }
        let mut keep_alive = interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Listener { services, login, place, sessions, reader, keep_alive, greeting: Some(greeting) }
    }

    /// The next chunk; `None` ends the stream.
    async fn next(mut self) -> Option<(Result<Bytes, std::convert::Infallible>, Listener)> {
        if let Some(greeting) = self.greeting.take() {
            return Some((Ok(greeting.into()), self));
        }
        loop {
            // First what is there: a reader that was slow has much to read and nothing to wait for.
            let chunk = self.events()?;
            if !chunk.is_empty() {
                return self.is_allowed().then_some((Ok(chunk.into()), self));
            }
            tokio::select! {
                biased;
                () = self.place.cancel.cancelled() => return None,
                changed = self.sessions.changed() => {
                    if changed.is_err() || !self.is_allowed() {
                        return None;
                    }
                }
                _ = self.keep_alive.tick() => {
                    let comment = Bytes::from_static(b": keep-alive\n\n");
                    return self.is_allowed().then_some((Ok(comment), self));
                }
                goes_on = self.reader.wait() => {
                    if !goes_on {
                        return None;
                    }
                }
            }
        }
    }

    /// What is there now. `None`: some of it is gone; the page comes back and is told to start afresh.
    fn events(&mut self) -> Option<String> {
        let Ok(items) = self.reader.take(MAX_CHUNK) else {
            debug!("a page read its events too slowly and was cut off");
            return None;
        };
        let mut chunk = String::new();
        for item in items {
            write_event(&mut chunk, &self.reader.id_of(item.number), item.name, &item.data);
        }
        Some(chunk)
    }

    fn is_allowed(&self) -> bool {
        !self.place.cancel.is_cancelled() && self.services.auth.is_live(&self.login)
    }
}

/// `data` is one line, as all JSON of ours is.
fn write_event(text: &mut String, id: &str, name: &str, data: &str) {
    // Writing into a String can't fail.
    let _ = write!(text, "id: {id}\nevent: {name}\ndata: {data}\n\n");
}

/// The open streams.
#[derive(Debug, Clone, Default)]
pub struct Streams(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    /// Oldest first.
    all: Vec<Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    session: SessionId,
    role: Role,
    cancel: CancellationToken,
}

/// A stream's place; given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    streams: Streams,
    number: u64,
    cancel: CancellationToken,
}

impl Streams {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.open_streams().all.len()
    }

    /// A place for a stream of that login. Where a bound is met the oldest stream of the session, or of the
    /// session that has most, ends for it; a viewer's never ends an operator's, and is refused then.
    pub fn open(&self, login: &Login) -> Option<Place> {
        let mut open = self.open_streams();
        let of_session = |open: &Open, session: &SessionId| {
            open.all.iter().filter(|entry| entry.session == *session).count()
        };
        if of_session(&open, &login.session_id) >= MAX_OF_SESSION {
            let oldest = open.all.iter().position(|entry| entry.session == login.session_id)?;
            open.end(oldest);
        }
        if open.all.len() >= MAX_STREAMS {
            // Of equals the last that is looked at is taken: from the newest on, so the oldest.
            let (index, _) = open
                .all
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, entry)| login.role == Role::Operator || entry.role == Role::Viewer)
                .max_by_key(|(_, entry)| {
                    (entry.role == Role::Viewer, of_session(&open, &entry.session))
                })?;
            open.end(index);
        }
        open.next += 1;
        let (number, cancel) = (open.next, CancellationToken::new());
        open.all.push(Entry {
            number,
            session: login.session_id.clone(),
            role: login.role,
            cancel: cancel.clone(),
        });
        Some(Place { streams: self.clone(), number, cancel })
    }

    fn open_streams(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn end(&mut self, index: usize) {
        self.all.remove(index).cancel.cancel();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.streams.open_streams().all.retain(|entry| entry.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::auth::Login;

    fn login(name: &str, role: Role) -> Login {
        Login::of_test(name, role)
    }

    #[test]
    fn a_session_has_so_many_streams_and_one_more_ends_its_oldest() {
        let streams = Streams::default();
        let mine = login("mine", Role::Operator);
        let other = streams.open(&login("other", Role::Operator)).unwrap();
        let places: Vec<Place> =
            (0..MAX_OF_SESSION).map(|_| streams.open(&mine).unwrap()).collect();
        assert!(places.iter().all(|place| !place.cancel.is_cancelled()));
        let more = streams.open(&mine).unwrap();
        let ended: Vec<bool> = places.iter().map(|place| place.cancel.is_cancelled()).collect();
        assert_eq!(ended, [true, false, false, false]);
        assert!(!other.cancel.is_cancelled() && !more.cancel.is_cancelled());
        assert_eq!(streams.count(), MAX_OF_SESSION + 1);
        drop((places, more, other));
        assert_eq!(streams.count(), 0);
    }

    #[test]
    fn at_the_bound_who_has_most_loses_one_and_no_viewer_ends_an_operators() {
        let streams = Streams::default();
        let open = |name: &str, role| streams.open(&login(name, role));
        let mut operators = vec![open("two", Role::Operator).unwrap()];
        operators.push(open("two", Role::Operator).unwrap());
        for index in 2..MAX_STREAMS {
            operators.push(open(&format!("o{index}"), Role::Operator).unwrap());
        }
        assert!(open("v", Role::Viewer).is_none(), "only operators listen");
        assert_eq!(streams.count(), MAX_STREAMS);
        let newest = open("new", Role::Operator).unwrap();
        let ended: Vec<usize> =
            (0..MAX_STREAMS).filter(|index| operators[*index].cancel.is_cancelled()).collect();
        assert_eq!(ended, [0], "the oldest of the session with two");
        drop(operators.pop());
        let viewer = open("v", Role::Viewer).unwrap();
        let again = open("w", Role::Viewer).unwrap();
        assert!(viewer.cancel.is_cancelled() && !again.cancel.is_cancelled());
        let operator = open("last", Role::Operator).unwrap();
        assert!(again.cancel.is_cancelled(), "a viewer's goes before an operator's");
        assert!(!newest.cancel.is_cancelled() && !operator.cancel.is_cancelled());
    }

    #[test]
    fn only_our_own_page_or_a_program_listens() {
        for (site, ours) in [
            (None, true),
            (Some("same-origin"), true),
            (Some("none"), true),
            (Some("same-site"), false),
            (Some("cross-site"), false),
            (Some(""), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(site) = site {
                headers.insert(FETCH_SITE, site.parse().unwrap());
            }
            assert_eq!(is_our_page(&headers), ours, "{site:?}");
        }
    }
}

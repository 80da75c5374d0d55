//! What happens at the node, as a stream for pages: `GET /events`.
//!
//! Owns the events, who may see each, and [`Bus`], through which every part publishes. Publishing never
//! waits and never fails: what nobody reads falls out of a bounded ring. Decides nothing and asks nothing;
//! `sources` feeds it, `stream` serves it.

pub mod ring;
pub mod schema;
pub mod sources;
pub mod stream;
pub mod turn;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::auth::Role;
use crate::assistant::SessionId;
use crate::mesh::view::{MeshEvent, MeshStatus};
use crate::telemetry::Line;
use ring::{Item, Missed, Ring};
use turn::Moment;

/// What a page should fetch again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// `assistant.grants-list`
    Grants,
    /// `mesh.assistant-status` and `mesh.nodes`
    Contacts,
    /// `auth.sessions`
    Sessions,
    /// The legs in `mesh.assistant-status`
    Legs,
    /// What else can be set
    Settings,
    /// `mesh.distress`
    Distress,
}

impl Changed {
    /// All of them.
    pub const ALL: [Changed; 6] = [
        Changed::Grants,
        Changed::Contacts,
        Changed::Sessions,
        Changed::Legs,
        Changed::Settings,
        Changed::Distress,
    ];

    /// The contract's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Changed::Grants => "grants",
            Changed::Contacts => "contacts",
            Changed::Sessions => "sessions",
            Changed::Legs => "legs",
            Changed::Settings => "settings",
            Changed::Distress => "distress",
        }
    }
}

/// One event.
#[derive(Debug, Clone)]
pub enum Event {
    /// The content of `mesh.status`. Only the newest is kept.
    Status(Box<MeshStatus>),
    /// Something happened on the mesh.
    Mesh {
        /// When, Unix ms.
        at: u64,
        /// What.
        event: Box<MeshEvent>,
    },
    /// How a turn of the operator's goes on: for the session whose turn it is and nobody else.
    Turn {
        /// Whose.
        session: SessionId,
        /// What.
        moment: Moment,
    },
    /// How many calls wait for a confirmation.
    Pending {
        /// So many.
        count: usize,
    },
    /// Something should be fetched again.
    Changed(Changed),
    /// A line of the log.
    Log(Line),
    /// Events were lost before they came here: fetch everything again.
    Reset,
}

/// Who may see an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// Every session.
    All,
    /// Sessions of operators: viewers see no log and no confirmations.
    Operators,
    /// One session.
    Session(SessionId),
}

impl Audience {
    /// May this session see it?
    pub fn has(&self, session: &SessionId, role: Role) -> bool {
        match self {
            Audience::All => true,
            Audience::Operators => role == Role::Operator,
            Audience::Session(only) => only == session,
        }
    }
}

impl Event {
    fn name(&self) -> &'static str {
        match self {
            Event::Status(_) => "status",
            Event::Mesh { .. } => "mesh",
            Event::Turn { .. } => "turn",
            Event::Pending { .. } => "pending",
            Event::Changed(_) => "changed",
            Event::Log(_) => "log",
            Event::Reset => "reset",
        }
    }

    fn audience(&self) -> Audience {
        match self {
            Event::Status(_) | Event::Mesh { .. } | Event::Changed(_) | Event::Reset => {
                Audience::All
            }
            Event::Pending { .. } | Event::Log(_) => Audience::Operators,
            Event::Turn { session, .. } => Audience::Session(session.clone()),
        }
    }

    fn data(&self) -> Value {
        match self {
            Event::Status(status) => json!(status),
            Event::Mesh { at, event } => {
                let mut data = json!(event);
                if let Value::Object(members) = &mut data {
                    members.insert("at".to_owned(), json!(at));
                }
                data
            }
            Event::Turn { moment, .. } => json!(moment),
            Event::Pending { count } => json!({ "count": count }),
            Event::Changed(what) => json!({ "what": what }),
            Event::Log(line) => json!(line),
            Event::Reset => json!({}),
        }
    }
}

/// Where everything is published. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Bus(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Names this process, so that an id from before a restart is known as such.
    boot: String,
    ring: Mutex<Ring>,
    /// The newest event's number. A watch holds one value: whoever is slow sees only the newest, and
    /// finds the rest in the ring.
    newest: watch::Sender<u64>,
    closed: CancellationToken,
}

impl Bus {
    /// An empty one. `boot` is a random word for this process, of letters and digits.
    pub fn new(boot: String) -> Bus {
        Bus(Arc::new(Inner {
            boot,
            ring: Mutex::default(),
            newest: watch::Sender::new(0),
            closed: CancellationToken::new(),
        }))
    }

    /// Publishes. Never waits; what falls out of the ring is lost to whoever has not read it, and they are
    /// told so.
    pub fn publish(&self, event: Event) {
        let (name, audience, data) = (event.name(), event.audience(), event.data().to_string());
        let newest = self.ring().push(name, audience, data);
        self.0.newest.send_replace(newest);
    }

    /// Names this process.
    pub fn boot(&self) -> &str {
        &self.0.boot
    }

    /// Ends every stream: the daemon is going down.
    pub fn close(&self) {
        self.0.closed.cancel();
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A panic elsewhere must not silence the pages; every change of the ring is complete in itself.
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One reader's place in the ring.
#[derive(Debug)]
pub struct Reader {
    bus: Bus,
    newest: watch::Receiver<u64>,
    cursor: u64,
    session: SessionId,
    role: Role,
}

impl Reader {
    /// From now on, or from after the event that `last_id` names. `false`: that one is not known any
    /// more, and the reader has missed something.
    pub fn new(bus: &Bus, session: SessionId, role: Role, last_id: Option<&str>) -> (Reader, bool) {
        let newest = bus.0.newest.subscribe();
        let ring = bus.ring();
        let known = match last_id {
            None => Some(ring.newest()),
            Some(id) => id
                .strip_prefix(bus.boot())
                .and_then(|rest| rest.strip_prefix('-'))
                .and_then(|number| number.parse().ok())
                .filter(|cursor| ring.reaches_back_to(*cursor)),
        };
        let cursor = known.unwrap_or_else(|| ring.newest());
        drop(ring);
        (Reader { bus: bus.clone(), newest, cursor, session, role }, known.is_some())
    }

    /// The id of what was read last.
    pub fn id(&self) -> String {
        self.id_of(self.cursor)
    }

    /// The id of an event.
    pub fn id_of(&self, number: u64) -> String {
        format!("{}-{number}", self.bus.boot())
    }

    /// What is there for this reader, at most `most`; empty when there is nothing.
    pub fn take(&mut self, most: usize) -> Result<Vec<Item>, Missed> {
        let (session, role) = (&self.session, self.role);
        let (items, cursor) =
            self.bus.ring().after(self.cursor, most, |audience| audience.has(session, role))?;
        self.cursor = cursor;
        Ok(items)
    }

    /// Waits until something was published since the last wait; `false` when the daemon goes down.
    pub async fn wait(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.bus.0.closed.cancelled() => false,
            changed = self.newest.changed() => changed.is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str) -> SessionId {
        SessionId(name.to_owned())
    }

    fn names(reader: &mut Reader) -> Vec<&'static str> {
        reader.take(100).unwrap().iter().map(|item| item.name).collect()
    }

    fn turn(of: &str) -> Event {
        Event::Turn { session: session(of), moment: Moment::thinking("t1") }
    }

    fn line() -> Event {
        let line = Line { seq: 1, at: 2, level: "info", target: "x".into(), message: "y".into() };
        Event::Log(line)
    }

    #[test]
    fn each_sees_what_is_meant_for_it_and_nothing_else() {
        let bus = Bus::new("b".to_owned());
        let reader = |name, role| Reader::new(&bus, session(name), role, None).0;
        let mut mine = reader("mine", Role::Operator);
        let mut other = reader("other", Role::Operator);
        let mut viewer = reader("viewer", Role::Viewer);
        for event in [
            turn("mine"),
            Event::Pending { count: 1 },
            line(),
            Event::Changed(Changed::Contacts),
            Event::Status(Box::default()),
        ] {
            bus.publish(event);
        }
        assert_eq!(names(&mut mine), ["turn", "pending", "log", "changed", "status"]);
        assert_eq!(names(&mut other), ["pending", "log", "changed", "status"]);
        assert_eq!(names(&mut viewer), ["changed", "status"]);
        assert_eq!(viewer.id(), mine.id(), "what is not for it is passed over");
        assert_eq!(names(&mut mine), [""; 0]);
    }

    #[test]
    fn a_reader_goes_on_where_it_was_if_that_is_still_known() {
        let bus = Bus::new("boot".to_owned());
        for _ in 0..3 {
            bus.publish(Event::Changed(Changed::Grants));
        }
        let from = |id: Option<&str>| {
            let (mut reader, known) = Reader::new(&bus, session("s"), Role::Operator, id);
            (known, names(&mut reader).len())
        };
        assert_eq!(from(None), (true, 0));
        assert_eq!(from(Some("boot-0")), (true, 3));
        assert_eq!(from(Some("boot-2")), (true, 1));
        assert_eq!(from(Some("boot-3")), (true, 0));
        for unknown in [
            "boot-4",
            "other-2",
            "boot",
            "boot-",
            "boot--1",
            "boot-x",
            "",
            "boot-99999999999999999999",
        ] {
            assert_eq!(from(Some(unknown)), (false, 0), "{unknown}");
        }
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken_by_an_event_and_by_the_end() {
        let bus = Bus::new("b".to_owned());
        let (mut reader, _) = Reader::new(&bus, session("s"), Role::Operator, None);
        bus.publish(Event::Reset);
        assert!(reader.wait().await);
        assert_eq!(names(&mut reader), ["reset"]);
        bus.close();
        assert!(!reader.wait().await);
    }

    #[test]
    fn a_mesh_event_is_as_it_always_was_and_has_its_time() {
        let event = MeshEvent::Paused { reason: None };
        let data = Event::Mesh { at: 7, event: Box::new(event) }.data();
        assert_eq!(data, json!({ "event": "paused", "reason": null, "at": 7 }));
    }

    #[test]
    fn the_words_of_the_contract_are_those_that_are_sent() {
        for what in Changed::ALL {
            assert_eq!(json!(what), json!(what.as_str()));
        }
    }
}

//! Calls that wait for a confirmation.
//!
//! Owns them in memory only, so that a restart drops them: each with its caller, its tool and the exact
//! arguments, for two minutes. Whoever takes one has it alone, so that approving twice runs once. A peer's code
//! never leaves this file but in [`Prompt`]. Must not run anything, nor decide who may confirm over which way.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::TurnId;
use super::caller::{CallerScope, PermissionCategory};
use crate::clock;
use crate::secrets::Secret;

/// For so long a call can be confirmed.
pub const WINDOW: Duration = Duration::from_secs(120);
/// Wrong codes of a caller until what waits for it is dropped.
pub const TRIES: u8 = 3;
/// What can be told apart on a small display and when it is read aloud. 24 signs.
const ALPHABET: &[u8; 24] = b"ACDEFGHJKMNPQRTUVWXY3479";
/// Signs of a code: 5 × log2(24) are 22.9 random bits.
const CODE_SIGNS: usize = 5;
/// Calls that may wait; one more is refused.
const MAX_WAITING: usize = 64;
/// Of those the operator's own; one more drops the oldest.
const MAX_OF_OPERATOR: usize = 8;

/// Must the operator confirm what a peer asks for in that category?
pub fn needs_operator(category: PermissionCategory) -> bool {
    use PermissionCategory::{AiLocal, Apps, Bitcoin, Files, Media, Network, Notes, Search};
    use PermissionCategory::{System, Wallet};
    match category {
        System | Files | Apps | Wallet | Bitcoin => true,
        Network | Media | Search | AiLocal | Notes => false,
    }
}

/// A call as a person is to read it before saying yes: the tool, and the exact arguments in one line. What can't be
/// seen, or is seen as something else, is written out.
pub fn shown_call(tool: &str, arguments: &Value) -> String {
    let mut words = format!("{tool} ");
    for c in arguments.to_string().chars() {
        if c == ' ' || c.is_ascii_graphic() || (c.is_alphanumeric() && !c.is_ascii()) {
            words.push(c);
        } else {
            words.extend(c.escape_unicode());
        }
    }
    words
}

/// A call that is to wait.
pub struct NewCall<'a> {
    /// Whose it is.
    pub scope: &'a CallerScope,
    /// The turn that it came up in.
    pub turn: &'a TurnId,
    /// The tool.
    pub tool: &'a str,
    /// Its category.
    pub category: PermissionCategory,
    /// Exactly these.
    pub arguments: &'a Value,
    /// The caller itself confirms it, with a code.
    pub with_code: bool,
}

/// A waiting call, as the operator sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PendingCall {
    /// Names it.
    pub id: String,
    /// `operator`, or `key:` and the peer's key.
    pub caller: String,
    /// What to call the caller.
    pub name: String,
    /// The tool.
    pub tool: String,
    /// Its category.
    pub category: PermissionCategory,
    /// Exactly these, for the eyes of the operator only.
    pub arguments: Value,
    /// Unix milliseconds.
    pub asked_at: u64,
    /// So long it can be confirmed.
    pub expires_in_ms: u64,
    /// The peer has a code for it too.
    pub code_for_peer: bool,
}

/// What a peer is asked.
pub struct Prompt {
    /// The tool and the exact arguments, as [`shown_call`] writes them.
    pub call: String,
    /// Its answer: never on a disk, in a log or in a list.
    pub code: Secret,
}

/// What came of it, for the peer: `None` when there is nothing to say. Resolves when it was decided and done, or
/// when nobody decided in time.
pub type Told = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// A call that was taken: whoever holds it is the only one who can run it.
pub struct Taken {
    /// Names it.
    pub id: String,
    /// Whose it is.
    pub scope: CallerScope,
    /// The turn that it came up in.
    pub turn: TurnId,
    /// The tool.
    pub tool: String,
    /// Exactly these.
    pub arguments: Value,
    told: Option<oneshot::Sender<Option<String>>>,
}

impl Taken {
    /// Tells the peer what came of it, where one waits for that.
    pub fn tell(&mut self, words: Option<String>) {
        if let Some(told) = self.told.take() {
            // That nobody waits any more is fine.
            let _ = told.send(words);
        }
    }
}

/// The words for who waited in vain.
pub const NOT_IN_TIME: &str = "Nobody confirmed it in time: nothing was done.";

struct Entry {
    call: Taken,
    category: PermissionCategory,
    code: Option<Secret>,
    tries: u8,
    asked_at: u64,
    expires: Instant,
    /// For the one who waits on the peer's behalf.
    listener: Option<oneshot::Receiver<Option<String>>>,
}

impl Entry {
    fn is_of(&self, caller: &str) -> bool {
        self.call.scope.caller() == caller
    }

    fn view(&self) -> PendingCall {
        PendingCall {
            id: self.call.id.clone(),
            caller: self.call.scope.caller().to_owned(),
            name: self.call.scope.name().to_owned(),
            tool: self.call.tool.clone(),
            category: self.category,
            arguments: self.call.arguments.clone(),
            asked_at: self.asked_at,
            expires_in_ms: u64::try_from(
                self.expires.saturating_duration_since(Instant::now()).as_millis(),
            )
            .unwrap_or(0),
            code_for_peer: self.code.is_some(),
        }
    }
}

/// All calls that wait.
pub struct Confirmations {
    // Oldest first. Bounded by `MAX_WAITING`.
    waiting: Mutex<Vec<Entry>>,
    count: watch::Sender<usize>,
}

impl Default for Confirmations {
    fn default() -> Confirmations {
        Confirmations { waiting: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl fmt::Debug for Confirmations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Confirmations({})", *self.count.borrow())
    }
}

impl Confirmations {
    /// Lets a call wait. What waited for a peer before is dropped: it has one at a time.
    ///
    /// # Errors
    /// Why it can't wait, in words for the model.
    pub fn add(&self, new: &NewCall<'_>) -> Result<(), String> {
        let id = random_id().ok_or("no random numbers")?;
        let code = match new.with_code {
            true => Some(Secret::new(random_code().ok_or("no random numbers")?)),
            false => None,
        };
        let mut waiting = self.lock();
        let caller = new.scope.caller();
        if new.scope.is_operator() {
            let own = waiting.iter().filter(|entry| entry.is_of(caller)).count();
            if own >= MAX_OF_OPERATOR
                && let Some(oldest) = waiting.iter().position(|entry| entry.is_of(caller))
            {
                waiting.remove(oldest);
            }
        } else {
            drop_of(&mut waiting, caller);
        }
        if waiting.len() >= MAX_WAITING {
            self.count(&waiting);
            return Err("too many calls wait for a confirmation".to_owned());
        }
        let (told, listener) = oneshot::channel();
        waiting.push(Entry {
            call: Taken {
                id,
                scope: new.scope.clone(),
                turn: new.turn.clone(),
                tool: new.tool.to_owned(),
                arguments: new.arguments.clone(),
                told: Some(told),
            },
            category: new.category,
            code,
            tries: TRIES,
            asked_at: clock::unix_ms(),
            expires: Instant::now() + WINDOW,
            listener: Some(listener),
        });
        // Also where it took another's place, and so many wait as before.
        self.count.send_replace(waiting.len());
        Ok(())
    }

    /// What waits, oldest first.
    pub fn list(&self) -> Vec<PendingCall> {
        self.lock().iter().map(Entry::view).collect()
    }

    /// What that turn left waiting.
    pub fn of_turn(&self, turn: &TurnId) -> Option<PendingCall> {
        self.lock().iter().find(|entry| entry.call.turn == *turn).map(Entry::view)
    }

    /// What a peer is to be asked after that turn, where it can confirm itself.
    pub fn prompt(&self, turn: &TurnId) -> Option<Prompt> {
        let waiting = self.lock();
        let entry = waiting.iter().find(|entry| entry.call.turn == *turn)?;
        let call = shown_call(&entry.call.tool, &entry.call.arguments);
        Some(Prompt { call, code: entry.code.clone()? })
    }

    /// Does a call of that caller wait for a code?
    pub fn waits_for_code(&self, caller: &str) -> bool {
        self.lock().iter().any(|entry| entry.is_of(caller) && entry.code.is_some())
    }

    /// What is to be told when it has been decided about the call of that turn; once.
    pub fn told(self: &Arc<Self>, turn: &TurnId) -> Option<Told> {
        let mut waiting = self.lock();
        let entry = waiting.iter_mut().find(|entry| entry.call.turn == *turn)?;
        let mut listener = entry.listener.take()?;
        let (expires, all) = (entry.expires, Arc::clone(self));
        drop(waiting);
        Some(Box::pin(async move {
            tokio::select! {
                told = &mut listener => return told.unwrap_or(None),
                () = tokio::time::sleep_until(expires) => {}
            }
            // Past its time it is dropped, unless somebody took it and runs it.
            drop(all.lock());
            listener.await.unwrap_or(None)
        }))
    }

    /// Takes a call: nobody else can any more. `None`: there is none of that name, or none any more.
    pub fn take(&self, id: &str) -> Option<Taken> {
        let mut waiting = self.lock();
        let place = waiting.iter().position(|entry| entry.call.id == id)?;
        let taken = waiting.remove(place).call;
        self.count(&waiting);
        Some(taken)
    }

    /// Takes the call that waits for this caller's code. A wrong one counts against all that waits for the caller, and
    /// is answered as one for which nothing waits.
    pub fn take_by_code(&self, caller: &str, code: &str) -> Option<Taken> {
        let code = code.to_ascii_uppercase();
        let mut waiting = self.lock();
        let mut found = None;
        for (place, entry) in waiting.iter().enumerate().filter(|(_, entry)| entry.is_of(caller)) {
            let Some(right) = &entry.code else { continue };
            if bool::from(right.expose().as_bytes().ct_eq(code.as_bytes())) {
                found = Some(place);
            }
        }
        let taken = found.map(|place| waiting.remove(place).call);
        if taken.is_none() {
            for entry in waiting.iter_mut().filter(|entry| entry.is_of(caller)) {
                if entry.code.is_some() {
                    entry.tries = entry.tries.saturating_sub(1);
                }
            }
            for entry in waiting.iter_mut().filter(|entry| entry.tries == 0) {
                entry.call.tell(None);
            }
            waiting.retain(|entry| entry.tries > 0);
        }
        self.count(&waiting);
        taken
    }

    /// Drops whatever waits for that caller; nobody is told.
    pub fn drop_caller(&self, caller: &str) {
        let mut waiting = self.lock();
        drop_of(&mut waiting, caller);
        self.count(&waiting);
    }

    /// How many wait, each time that it changes, or that others wait than did.
    pub fn watch(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// The calls that can still be confirmed.
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        for entry in waiting.iter_mut().filter(|entry| entry.expires <= now) {
            // Whoever had a code knows how long it counted.
            let words = entry.code.is_none().then(|| NOT_IN_TIME.to_owned());
            entry.call.tell(words);
        }
        waiting.retain(|entry| entry.expires > now);
        self.count(&waiting);
        waiting
    }

    fn count(&self, waiting: &[Entry]) {
        self.count.send_if_modified(|count| {
            let changed = *count != waiting.len();
            *count = waiting.len();
            changed
        });
    }
}

fn drop_of(waiting: &mut Vec<Entry>, caller: &str) {
    for entry in waiting.iter_mut().filter(|entry| entry.is_of(caller)) {
        entry.call.tell(None);
    }
    waiting.retain(|entry| !entry.is_of(caller));
}

/// 128 random bits in hexadecimal.
fn random_id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn random_code() -> Option<String> {
    let mut code = String::with_capacity(CODE_SIGNS);
    while code.len() < CODE_SIGNS {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        code.extend(bytes.iter().filter_map(|byte| sign(*byte)).take(CODE_SIGNS - code.len()));
    }
    Some(code)
}

/// Each sign is as likely as any other: bytes from 240 on are left out.
fn sign(byte: u8) -> Option<char> {
    const EVEN: u8 = 240;
    let index = usize::from(byte) % ALPHABET.len();
    ALPHABET.get(index).filter(|_| byte < EVEN).map(|sign| char::from(*sign))
}

#[cfg(test)]
mod tests;

//! LISTEN and NOTIFY.
//!
//! ```text
//!   NOTIFY ─▶ the transaction's own list ── commit ──▶ outbox, in order ── durable ──▶ mail of each listener
//!                  │ ROLLBACK (TO)                        a place for each                │ rings its session's
//!                  └─▶ forgotten                          commit under way                └ token if that is idle
//! ```
//! N1: a place in the outbox is taken before the commit and filled after it, so that whoever has seen what a
//!     transaction did has a later place. What is behind a place that is not filled yet waits for it.
//! N2: nothing is told of a commit that is not durable, unless its client does not wait for that either.
//! N3: a session that is in a transaction has its mail when that has ended.
//! N4: LISTEN holds from its commit on, and before that commit's own notifications.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use froglet_engine::SqlState;
use parking_lot::Mutex;

use crate::database::SessionShared;
use crate::error::SqlError;
use crate::session::{Block, Session, in_cluster};

/// A payload is shorter, as in PostgreSQL.
const MOST_PAYLOAD_BYTES: usize = 8000;
/// The longest name of a channel.
const MOST_CHANNEL_BYTES: usize = 63;
/// What all sessions may have in their mail before notifying fails.
const MOST_MAIL_BYTES: usize = 256 << 20;
/// What a notification takes beside its text.
const OVERHEAD_BYTES: usize = 128;

/// One notification.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Notification {
    /// The session that gave it.
    pub pid: i32,
    /// The channel.
    pub channel: String,
    /// Its payload.
    pub payload: String,
}

impl Notification {
    fn bytes(&self) -> usize {
        OVERHEAD_BYTES + self.channel.len() + self.payload.len()
    }
}

/// What a session has not taken yet.
#[derive(Default)]
pub(crate) struct Mail {
    any: AtomicBool,
    list: Mutex<Vec<Arc<Notification>>>,
}

/// LISTEN and UNLISTEN, until the commit.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

/// What a transaction has said.
#[derive(Default)]
pub(crate) struct Said {
    any: AtomicBool,
    list: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    notes: Vec<Arc<Notification>>,
    known: HashSet<Arc<Notification>>,
    wishes: Vec<Wish>,
}

/// Where a transaction's list stood.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SaidMark {
    notes: usize,
    wishes: usize,
}

impl Said {
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    /// NOTIFY. The same twice is once.
    pub(crate) fn notify(&self, pid: i32, channel: &str, payload: &str) -> Result<(), SqlError> {
        let wrong = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        if channel.is_empty() {
            return wrong("channel name cannot be empty");
        }
        if channel.len() > MOST_CHANNEL_BYTES {
            return wrong("channel name too long");
        }
        if payload.len() >= MOST_PAYLOAD_BYTES {
            return wrong("payload string too long");
        }
        let (channel, payload) = (channel.to_owned(), payload.to_owned());
        let note = Arc::new(Notification { pid, channel, payload });
        let mut pending = self.list.lock();
        if pending.known.insert(note.clone()) {
            pending.notes.push(note);
            self.any.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn wish(&self, wish: Wish) {
        self.list.lock().wishes.push(wish);
        self.any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn mark(&self) -> SaidMark {
        if self.is_empty() {
            return SaidMark::default();
        }
        let pending = self.list.lock();
        SaidMark { notes: pending.notes.len(), wishes: pending.wishes.len() }
    }

    /// Forgets what was said since.
    pub(crate) fn restore(&self, mark: SaidMark) {
        if self.is_empty() {
            return;
        }
        let mut pending = self.list.lock();
        let kept = mark.notes.min(pending.notes.len());
        for note in pending.notes.split_off(kept) {
            pending.known.remove(&note);
        }
        pending.wishes.truncate(mark.wishes);
        self.any.store(mark.notes + mark.wishes > 0, Ordering::Relaxed);
    }

    fn take(&self) -> (Vec<Arc<Notification>>, Vec<Wish>) {
        let pending = std::mem::take(&mut *self.list.lock());
        self.any.store(false, Ordering::Relaxed);
        (pending.notes, pending.wishes)
    }
}

/// Who listens, and what is on its way.
#[derive(Default)]
pub(crate) struct Channels {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listeners: HashMap<String, HashMap<i32, Arc<SessionShared>>>,
    outbox: VecDeque<Place>,
    next_place: u64,
    mail_bytes: usize,
}

/// One commit's; `None` until it has ended.
struct Place {
    number: u64,
    notes: Option<Vec<Arc<Notification>>>,
}

impl Channels {
    fn reserve(&self) -> Result<u64, SqlError> {
        let mut state = self.state.lock();
        if state.mail_bytes > MOST_MAIL_BYTES {
            let message = "too many notifications in the NOTIFY queue";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .hint("Some session listens and stays in a transaction, or does not read."));
        }
        state.next_place += 1;
        let number = state.next_place;
        state.outbox.push_back(Place { number, notes: None });
        Ok(number)
    }

    /// Fills a place; whoever listens has what nothing is waited for any more [N1].
    fn fill(&self, number: u64, notes: Vec<Arc<Notification>>) {
        let mut rung: HashMap<i32, Arc<SessionShared>> = HashMap::new();
        let mut state = self.state.lock();
        let State { listeners, outbox, mail_bytes, .. } = &mut *state;
        if let Some(place) = outbox.iter_mut().find(|place| place.number == number) {
            place.notes = Some(notes);
        }
        while let Some(Place { notes: Some(_), .. }) = outbox.front() {
            let notes = outbox.pop_front().and_then(|place| place.notes).unwrap_or_default();
            for note in notes {
                for session in listeners.get(&note.channel).into_iter().flat_map(HashMap::values) {
                    *mail_bytes += note.bytes();
                    session.mail.list.lock().push(note.clone());
                    session.mail.any.store(true, Ordering::SeqCst);
                    rung.insert(session.pid, session.clone());
                }
            }
        }
        drop(state);
        rung.values().for_each(|session| session.cancel.ring());
    }

    fn fulfil(&self, session: &Arc<SessionShared>, wishes: Vec<Wish>) {
        let mut state = self.state.lock();
        for wish in wishes {
            match wish {
                Wish::Listen(channel) => {
                    state
                        .listeners
                        .entry(channel)
                        .or_default()
                        .insert(session.pid, session.clone());
                }
                Wish::Unlisten(channel) => {
                    if let Some(listeners) = state.listeners.get_mut(&channel) {
                        listeners.remove(&session.pid);
                    }
                    state.listeners.retain(|_, listeners| !listeners.is_empty());
                }
                Wish::UnlistenAll => state.forget(session.pid),
            }
        }
    }

    /// A session has ended.
    pub(crate) fn forget(&self, session: &SessionShared) {
        let mut state = self.state.lock();
        state.forget(session.pid);
        let unread = std::mem::take(&mut *session.mail.list.lock());
        state.mail_bytes -= unread.iter().map(|note| note.bytes()).sum::<usize>();
    }

    /// What a session listens to, by name.
    pub(crate) fn of(&self, pid: i32) -> BTreeSet<String> {
        let state = self.state.lock();
        let of_it = state.listeners.iter().filter(|(_, sessions)| sessions.contains_key(&pid));
        of_it.map(|(channel, _)| channel.clone()).collect()
    }

    fn take(&self, session: &SessionShared) -> Vec<Arc<Notification>> {
        let mut state = self.state.lock();
        session.mail.any.store(false, Ordering::SeqCst);
        let taken = std::mem::take(&mut *session.mail.list.lock());
        state.mail_bytes -= taken.iter().map(|note| note.bytes()).sum::<usize>();
        taken
    }
}

impl State {
    fn forget(&mut self, pid: i32) {
        self.listeners.retain(|_, listeners| {
            listeners.remove(&pid);
            !listeners.is_empty()
        });
    }
}

/// What a transaction says when it commits; dropped, it has said nothing.
pub(crate) struct Speech {
    session: Arc<SessionShared>,
    db: Arc<crate::database::Database>,
    place: Option<u64>,
    notes: Vec<Arc<Notification>>,
    wishes: Vec<Wish>,
}

impl Speech {
    /// The commit is over and, as far as anybody waits for that, durable [N2].
    pub(crate) fn give(mut self) {
        self.db.channels.fulfil(&self.session, std::mem::take(&mut self.wishes));
        if let Some(place) = self.place.take() {
            self.db.channels.fill(place, std::mem::take(&mut self.notes));
        }
    }
}

impl Drop for Speech {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.db.channels.fill(place, Vec::new());
        }
    }
}

impl Session {
    /// Takes what the transaction has said into its commit.
    pub(crate) fn prepare_speech(&mut self) -> Result<Option<Speech>, SqlError> {
        if self.state.said().is_empty() {
            return Ok(None);
        }
        let (notes, wishes) = self.state.said().take();
        if !notes.is_empty() {
            in_cluster::refuse(self.db.manager(), "NOTIFY")?;
        }
        let place = if notes.is_empty() { None } else { Some(self.db.channels.reserve()?) };
        let (session, db) = (self.shared.clone(), self.db.clone());
        Ok(Some(Speech { session, db, place, notes, wishes }))
    }

    /// LISTEN and UNLISTEN.
    pub(crate) fn wish(&mut self, wish: Wish) -> Result<(), SqlError> {
        if !self.can_listen && matches!(wish, Wish::Listen(_)) {
            return Err(SqlError::unsupported("LISTEN on a connection that cannot be notified"));
        }
        if matches!(wish, Wish::Listen(_)) {
            in_cluster::refuse(self.db.manager(), "LISTEN")?;
        }
        self.transaction()?;
        self.state.said().wish(wish);
        Ok(())
    }

    /// Its client can be told of notifications at any time.
    pub fn can_be_notified(&mut self) {
        self.can_listen = true;
    }

    /// Whether there are notifications that the client may have now [N3].
    pub fn has_notifications(&self) -> bool {
        self.block == Block::Idle && self.shared.mail.any.load(Ordering::SeqCst)
    }

    /// The notifications that the client may have now.
    pub fn take_notifications(&mut self) -> Vec<Arc<Notification>> {
        if !self.has_notifications() {
            return Vec::new();
        }
        let taken = self.db.channels.take(&self.shared);
        // Who gave them may not have waited for his commit; this client does.
        self.note_everything();
        taken
    }
}

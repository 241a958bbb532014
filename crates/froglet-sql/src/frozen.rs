//! A session as it was when a statement began, for a query that is run again after it: what a migration
//! makes of a row that changes must be what it made of the others.

use std::collections::HashSet;
use std::sync::Arc;

use froglet_schema::{CatalogVersion, ObjectId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::functions::may_use;
use crate::privileges::bits;
use crate::types::Zone;

/// See the module. Sequences go on.
pub(crate) struct Frozen {
    session: Arc<dyn SessionFunctions>,
    zone: Zone,
    catalog: Arc<CatalogVersion>,
    values: FrozenValues,
    /// Sequences that the user may draw from, as far as was asked.
    allowed: Mutex<HashSet<ObjectId>>,
}

/// What outlives the server.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct FrozenValues {
    user: String,
    session_user: String,
    search_path: Vec<String>,
    transaction_time_us: i64,
    statement_time_us: i64,
    transaction_id: u64,
    /// By lower-case name.
    settings: Vec<(String, String)>,
}

impl FrozenValues {
    fn setting(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        self.settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    /// Schemas searched for a name without one.
    pub(crate) fn search_path(&self) -> &[String] {
        &self.search_path
    }
}

impl Frozen {
    /// The session as it is now.
    pub(crate) fn new(session: Arc<dyn SessionFunctions>) -> Frozen {
        let settings = session.settings().into_iter();
        let settings = settings.map(|row| (row.name.to_lowercase(), row.name));
        let shown = |(key, name): (String, String)| Some((key, session.setting(&name)?));
        let values = FrozenValues {
            settings: settings.filter_map(shown).collect(),
            user: session.user(),
            session_user: session.session_user(),
            search_path: session.search_path(),
            transaction_time_us: session.transaction_time_us(),
            statement_time_us: session.statement_time_us(),
            transaction_id: session.transaction_id(),
        };
        let (zone, catalog) = (session.zone(), session.catalog());
        Frozen { zone, catalog, session, values, allowed: Mutex::default() }
    }

    /// What it takes to have the same again.
    pub(crate) fn values(&self) -> &FrozenValues {
        &self.values
    }

    /// The session as it was; `session` is asked for what has no past.
    pub(crate) fn thawed(
        values: FrozenValues,
        session: Arc<dyn SessionFunctions>,
        catalog: Arc<CatalogVersion>,
    ) -> Frozen {
        let zone = Zone::of_settings(|name| values.setting(name).unwrap_or_default());
        Frozen { zone, catalog, session, values, allowed: Mutex::default() }
    }
}

impl SessionFunctions for Frozen {
    fn user(&self) -> String {
        self.values.user.clone()
    }

    fn session_user(&self) -> String {
        self.values.session_user.clone()
    }

    fn database(&self) -> String {
        self.session.database()
    }

    fn backend_pid(&self) -> i32 {
        self.session.backend_pid()
    }

    fn search_path(&self) -> Vec<String> {
        self.values.search_path.clone()
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.values.setting(name)
    }

    fn zone(&self) -> Zone {
        self.zone
    }

    fn transaction_time_us(&self) -> i64 {
        self.values.transaction_time_us
    }

    fn statement_time_us(&self) -> i64 {
        self.values.statement_time_us
    }

    fn transaction_id(&self) -> u64 {
        self.values.transaction_id
    }

    fn server_start_us(&self) -> i64 {
        self.session.server_start_us()
    }

    fn catalog(&self) -> Arc<CatalogVersion> {
        self.catalog.clone()
    }

    fn next_value(&self, sequence: ObjectId) -> Result<i64, SqlError> {
        let Some(def) = self.catalog.sequences.get(&sequence) else {
            return self.session.next_value(sequence);
        };
        if !self.allowed.lock().contains(&sequence) {
            may_use(&self.catalog, &self.values.user, sequence, bits::USAGE | bits::UPDATE)?;
            self.allowed.lock().insert(sequence);
        }
        self.session.draw(def, self.values.transaction_id)
    }

    fn current_value(&self, sequence: ObjectId) -> Result<i64, SqlError> {
        self.session.current_value(sequence)
    }

    fn last_value(&self) -> Result<i64, SqlError> {
        self.session.last_value()
    }

    fn sequence_state(&self, sequence: ObjectId) -> Option<(i64, bool)> {
        self.session.sequence_state(sequence)
    }
}

//! A session as it was when a statement began, for a query that is run again after it: what a migration
//! makes of a row that changes must be what it made of the others.

use std::sync::Arc;

use froglet_schema::{CatalogVersion, ObjectId};

use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::types::Zone;

/// See the module. Sequences go on.
pub(crate) struct Frozen {
    session: Arc<dyn SessionFunctions>,
    zone: Zone,
    user: String,
    session_user: String,
    search_path: Vec<String>,
    transaction_time_us: i64,
    statement_time_us: i64,
    transaction_id: u64,
    catalog: Arc<CatalogVersion>,
    /// By lower-case name.
    settings: Vec<(String, String)>,
}

impl Frozen {
    /// The session as it is now.
    pub(crate) fn new(session: Arc<dyn SessionFunctions>) -> Frozen {
        let settings = session.settings().into_iter();
        let settings = settings.map(|row| (row.name.to_lowercase(), row.name));
        let shown = |(key, name): (String, String)| Some((key, session.setting(&name)?));
        Frozen {
            settings: settings.filter_map(shown).collect(),
            zone: session.zone(),
            user: session.user(),
            session_user: session.session_user(),
            search_path: session.search_path(),
            transaction_time_us: session.transaction_time_us(),
            statement_time_us: session.statement_time_us(),
            transaction_id: session.transaction_id(),
            catalog: session.catalog(),
            session,
        }
    }
}

impl SessionFunctions for Frozen {
    fn user(&self) -> String {
        self.user.clone()
    }

    fn session_user(&self) -> String {
        self.session_user.clone()
    }

    fn database(&self) -> String {
        self.session.database()
    }

    fn backend_pid(&self) -> i32 {
        self.session.backend_pid()
    }

    fn search_path(&self) -> Vec<String> {
        self.search_path.clone()
    }

    fn setting(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        self.settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    fn zone(&self) -> Zone {
        self.zone
    }

    fn transaction_time_us(&self) -> i64 {
        self.transaction_time_us
    }

    fn statement_time_us(&self) -> i64 {
        self.statement_time_us
    }

    fn transaction_id(&self) -> u64 {
        self.transaction_id
    }

    fn server_start_us(&self) -> i64 {
        self.session.server_start_us()
    }

    fn catalog(&self) -> Arc<CatalogVersion> {
        self.catalog.clone()
    }

    fn next_value(&self, sequence: ObjectId) -> Result<i64, SqlError> {
        self.session.next_value(sequence)
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

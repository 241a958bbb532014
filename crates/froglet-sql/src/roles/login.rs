//! Who may connect, and what their passwords are checked against.
//!
//! ```text
//!   a user's name ──▶ the role's verifier ──▶ the initial superuser's, of the configuration ──▶ a mock
//! ```
//! L1: a user who does not exist, may not log in, has no password or one that is no longer valid has a verifier
//!     like any other; it is only at the end of the exchange that it fails ([`Login::is_real`]).

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use froglet_engine::{Engine, SqlState};
use froglet_schema::role::INITIAL_ROLE;
use froglet_schema::{CatalogVersion, RoleDef};

use super::{NO_ROLE, denied, set_identity};
use crate::database::Database;
use crate::error::SqlError;
use crate::password::{KEY_BYTES, Verifier};
use crate::privileges::{Who, bits};
use crate::settings::Settings;

/// The note in the log that has the secret of which mocks are made. Object ids, which notes of sequences have for
/// numbers, begin far above.
const SECRET_NOTE: u64 = 1;

/// What passwords are checked against, beside the catalog.
pub(crate) struct Logins {
    /// Of which mocks are made: the same after a restart, or they could be told by it.
    secret: [u8; KEY_BYTES],
    /// The initial superuser's password, until it is given one by ALTER ROLE.
    initial: Option<Verifier>,
}

/// Somebody who wants to connect.
pub struct Login {
    /// What the password is checked against.
    pub verifier: Verifier,
    /// Whether the right password is enough.
    pub is_real: bool,
}

impl Logins {
    pub(crate) fn open(engine: &dyn Engine, password: Option<&str>) -> Result<Logins, SqlError> {
        let noted = engine.notes().into_iter().find(|(key, _)| *key == SECRET_NOTE);
        let secret = match noted.and_then(|(_, value)| value.try_into().ok()) {
            Some(secret) => secret,
            None => {
                let secret: [u8; KEY_BYTES] = rand::random();
                let noted = engine.put_note(SECRET_NOTE, &secret)?;
                noted.waits_for_nothing("a secret that a crash takes away is replaced by another");
                secret
            }
        };
        let verifier = |text| Verifier::parse(text).unwrap_or_else(|| Verifier::of(text));
        Ok(Logins { secret, initial: password.map(verifier) })
    }
}

impl Database {
    /// What the password of a user is checked against, whoever that is [L1].
    pub fn login(&self, user: &str) -> Login {
        let role = self.catalog().latest().role(user);
        let verifier = role.as_ref().and_then(|role| match &role.password {
            Some(stored) => Verifier::parse(stored),
            None if role.id == INITIAL_ROLE => self.logins.initial.clone(),
            None => None,
        });
        let is_valid = role.is_some_and(|role| role.valid_until_us.is_none_or(|us| now_us() < us));
        let is_real = verifier.is_some() && is_valid;
        let mock = || Verifier::mock(&self.logins.secret, user);
        Login { verifier: verifier.unwrap_or_else(mock), is_real }
    }

    /// Whether a user is a role or a member of it, as the rules of authentication ask.
    pub fn is_member(&self, user: &str, of: &str) -> bool {
        let catalog = self.catalog().latest();
        match (catalog.role(user), catalog.role(of)) {
            (Some(user), Some(of)) => catalog.is_member(&user, of.id),
            _ => false,
        }
    }
}

impl Login {
    /// Whether this is the user's password.
    pub fn accepts(&self, password: &str) -> bool {
        froglet_txn::aside(|| self.verifier.is_of(password)) && self.is_real
    }

    /// The one thing that whoever has the wrong password is told.
    pub fn failure(user: &str) -> SqlError {
        let message = format!("password authentication failed for user \"{user}\"");
        SqlError { fatal: true, ..SqlError::new(SqlState::INVALID_PASSWORD, message) }
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The role that a session of this user is.
pub(crate) fn may_connect(catalog: &CatalogVersion, user: &str) -> Result<Arc<RoleDef>, SqlError> {
    let refused = |message| SqlError::new(SqlState::INVALID_AUTHORIZATION, message);
    let role = catalog.role(user);
    let role = role.ok_or_else(|| refused(format!("role \"{user}\" does not exist")))?;
    match role.login {
        true => Ok(role),
        false => Err(refused(format!("role \"{user}\" is not permitted to log in"))),
    }
}

/// 42501 if a role may not connect to the database.
pub(crate) fn may_use_database(catalog: &CatalogVersion, role: &RoleDef) -> Result<(), SqlError> {
    match Who::of(catalog, role).may_with_database(bits::CONNECT) {
        true => Ok(()),
        false => Err(SqlError {
            fatal: true,
            ..denied("permission denied for database \"postgres\"")
                .detail("User does not have CONNECT privilege.")
        }),
    }
}

/// Who a new session is: its user, or the role that it asks for.
pub(crate) fn take_role(
    settings: &mut Settings,
    catalog: &CatalogVersion,
    user: &RoleDef,
) -> Result<(), SqlError> {
    settings.set_superuser(user.superuser, false);
    let wanted = settings.get("role").to_owned();
    match wanted == NO_ROLE {
        true => Ok(()),
        false => set_identity(settings, catalog, &user.name, "role", Some(&wanted), false),
    }
}

//! The table of settings: PostgreSQL's that clients send or ask for, and Froglet's own.

use crate::session::setting_units::Unit;

/// What values a setting takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Bool,
    Int {
        min: i64,
        max: i64,
    },
    /// A number of some unit, as PostgreSQL reads and shows it.
    Number {
        min: f64,
        max: f64,
        unit: Unit,
        whole: bool,
    },
    /// Milliseconds, with units.
    TimeMs,
    Enum(&'static [&'static str]),
    Text,
    /// See [`crate::as_of`].
    AsOf,
    TimeZone,
    DateStyle,
    Encoding,
}

/// Who may set it, and when, as PostgreSQL calls that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    User,
    Superuser,
    /// When a session begins.
    Backend,
    /// When the server reads its configuration again.
    Sighup,
    Postmaster,
    Internal,
}

impl Context {
    /// By its name in pg_settings.
    pub(crate) fn named(name: &str) -> Option<Context> {
        Some(match name {
            "user" => Context::User,
            "superuser" => Context::Superuser,
            "backend" | "superuser-backend" => Context::Backend,
            "sighup" => Context::Sighup,
            "postmaster" => Context::Postmaster,
            "internal" => Context::Internal,
            _ => return None,
        })
    }

    /// Its name in pg_settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Context::User => "user",
            Context::Superuser => "superuser",
            Context::Backend => "backend",
            Context::Sighup => "sighup",
            Context::Postmaster => "postmaster",
            Context::Internal => "internal",
        }
    }
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    pub(crate) context: Context,
    /// Sent to the client as ParameterStatus.
    pub(crate) report: bool,
    pub(crate) hidden: bool,
    pub(crate) no_reset_all: bool,
    /// The values that are taken, of those that there are; empty for all.
    pub(crate) taken: &'static [&'static str],
    pub(crate) category: &'static str,
    pub(crate) description: &'static str,
}

impl Spec {
    /// Whether a session may set it.
    pub(crate) fn is_changeable(&self) -> bool {
        matches!(self.context, Context::User | Context::Superuser)
    }
}

const fn spec(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    description: &'static str,
) -> Spec {
    Spec {
        name,
        kind,
        default,
        context: Context::User,
        report: false,
        hidden: false,
        no_reset_all: false,
        taken: &[],
        category: "Froglet",
        description,
    }
}

const fn reported(mut spec: Spec) -> Spec {
    spec.report = true;
    spec
}

const fn fixed(mut spec: Spec) -> Spec {
    spec.context = Context::Internal;
    spec
}

const fn takes(mut spec: Spec, values: &'static [&'static str]) -> Spec {
    spec.taken = values;
    spec
}

const ISOLATION: Kind =
    Kind::Enum(&["read uncommitted", "read committed", "repeatable read", "serializable"]);
/// From the most to the least talkative. INFO always reaches the client.
const CLIENT_LEVELS: Kind = Kind::Enum(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error",
]);

/// The version string; its number is what drivers look at.
pub(crate) const SERVER_VERSION: &str = concat!("15.0 (Froglet ", env!("CARGO_PKG_VERSION"), ")");

/// Our own, and those of PostgreSQL of which there is more to say; see [`crate::session::postgres_settings`].
pub(crate) const OWN: &[Spec] = &[
    reported(spec(
        "application_name",
        Kind::Text,
        "",
        "The application's name, for pg_stat_activity.",
    )),
    spec("bytea_output", Kind::Enum(&["hex"]), "hex", "The output format of bytea."),
    spec("check_function_bodies", Kind::Bool, "on", "Accepted; there are no function bodies."),
    reported(spec("client_encoding", Kind::Encoding, "UTF8", "The client's character set.")),
    spec(
        "client_min_messages",
        CLIENT_LEVELS,
        "notice",
        "The least severe messages sent to the client.",
    ),
    reported(spec(
        "DateStyle",
        Kind::DateStyle,
        "ISO, MDY",
        "The order in which dates are read; they are shown in the style ISO.",
    )),
    spec(
        "default_table_access_method",
        Kind::Enum(&["memory", "heap", "disk", "cluster"]),
        "heap",
        "The engine of new tables.",
    ),
    spec(
        "default_transaction_isolation",
        ISOLATION,
        "read committed",
        "The isolation level of new transactions.",
    ),
    spec(
        "default_transaction_read_only",
        Kind::Bool,
        "off",
        "Whether new transactions are read only.",
    ),
    Spec {
        hidden: true,
        ..takes(spec("default_with_oids", Kind::Bool, "off", "Rows have no oids."), &["off"])
    },
    spec("default_transaction_deferrable", Kind::Bool, "off", "Accepted; changes nothing."),
    spec(
        "quote_all_identifiers",
        Kind::Bool,
        "off",
        "When generating SQL fragments, quote all identifiers.",
    ),
    spec(
        "extra_float_digits",
        Kind::Int { min: -15, max: 3 },
        "1",
        "Floats are printed shortest-exact if it is above 0, else with so many digits fewer than they have.",
    ),
    spec(
        "froglet.as_of",
        Kind::AsOf,
        "",
        "The time, or how long ago it was, as of which transactions read; empty for the present.",
    ),
    spec(
        "froglet.fast_path",
        Kind::Bool,
        "on",
        "Runs point and range statements without the analytical planner.",
    ),
    spec(
        "froglet.migration",
        Kind::Enum(&["auto", "eager", "hybrid", "lazy"]),
        "auto",
        "How schema changes move data.",
    ),
    spec(
        "froglet.migration_auto_rows",
        Kind::Int { min: 0, max: i64::MAX },
        "100000",
        "With froglet.migration = auto, a table made of fewer rows is made before its commit.",
    ),
    spec(
        "froglet.migration_cdc_threads",
        Kind::Int { min: 1, max: 64 },
        "1",
        "Threads that capture changes during a migration.",
    ),
    spec(
        "froglet.migration_delay",
        Kind::TimeMs,
        "1s",
        "How long after its commit a lazy migration begins to migrate what nobody has touched.",
    ),
    spec(
        "froglet.migration_detection",
        Kind::Enum(&["on_conflict", "tracker"]),
        "tracker",
        "Whether a lazy migration claims rows before it makes them, or finds out when it has that others were first.",
    ),
    spec(
        "froglet.migration_granule_rows",
        Kind::Enum(&["1", "64", "128", "256"]),
        "1",
        "Rows of a table that a lazy migration migrates at once.",
    ),
    spec(
        "froglet.migration_join",
        Kind::Enum(&["auto", "key", "pair"]),
        "auto",
        "How a lazily made join of rows that no unique key leads to is made: all rows of a key at once, or pair by pair.",
    ),
    spec(
        "froglet.migration_rows_per_second",
        Kind::Int { min: 0, max: i64::MAX },
        "0",
        "Rows that a migration scans a second at most; 0 for any number.",
    ),
    spec(
        "froglet.migration_scan_threads",
        Kind::Int { min: 1, max: 64 },
        "1",
        "Threads that scan during a migration.",
    ),
    spec(
        "froglet.migration_unit_rows",
        Kind::Int { min: 0, max: i64::MAX },
        "65536",
        "Rows that CREATE TABLE AS may read again because one of them changed; for more it is made in stages.",
    ),
    spec(
        "froglet.on_violation",
        Kind::Enum(&["abort_ddl", "reject_writers"]),
        "abort_ddl",
        "Who fails when a row violates a constraint being added.",
    ),
    fixed(spec(
        "froglet.retention",
        Kind::TimeMs,
        "0",
        "How long what was is kept, for froglet.as_of; given when the server is started.",
    )),
    spec(
        "froglet.placement_after",
        Kind::TimeMs,
        "10min",
        "Tables that were observed for a shorter time are not proposed by froglet.placement.",
    ),
    spec(
        "froglet.revert_retention",
        Kind::TimeMs,
        "1h",
        "How long a dropped column's values are kept, for who reverts the schema change.",
    ),
    spec(
        "froglet.slsm_colocate",
        Kind::Bool,
        "on",
        "Whether rows of a cluster that are made lazily are kept with those that they are made of, where their keys begin alike.",
    ),
    spec(
        "froglet.slsm_fuse",
        Kind::Bool,
        "on",
        "Whether rows of a cluster that are still to be moved are moved in the transaction that wants them, or in one before it.",
    ),
    spec(
        "froglet.plan_cache",
        Kind::Bool,
        "on",
        "Runs statements seen before, with other literals too, without parsing and planning them.",
    ),
    spec(
        "idle_in_transaction_session_timeout",
        Kind::TimeMs,
        "0",
        "The longest a session may idle in a transaction; 0 for ever.",
    ),
    spec("idle_session_timeout", Kind::TimeMs, "0", "The longest a session may idle; 0 for ever."),
    reported(fixed(spec("in_hot_standby", Kind::Bool, "off", "Whether this is a standby."))),
    reported(fixed(spec("integer_datetimes", Kind::Bool, "on", "Timestamps are integers."))),
    reported(spec(
        "IntervalStyle",
        Kind::Enum(crate::types::style::INTERVAL_STYLES),
        "postgres",
        "The display format of intervals.",
    )),
    reported(fixed(spec("is_superuser", Kind::Bool, "on", "Whether the user is a superuser."))),
    spec("jit", Kind::Bool, "off", "Accepted; changes nothing."),
    fixed(spec("lc_collate", Kind::Text, "C.UTF-8", "The collation: by code points.")),
    fixed(spec("lc_ctype", Kind::Text, "C.UTF-8", "The character classification.")),
    spec("lc_messages", Kind::Text, "C", "The language of messages."),
    spec("lc_monetary", Kind::Text, "C", "Accepted; changes nothing."),
    spec("lc_numeric", Kind::Text, "C", "Accepted; changes nothing."),
    spec("lc_time", Kind::Text, "C", "Accepted; changes nothing."),
    spec("lock_timeout", Kind::TimeMs, "0", "The longest wait for a row or object; 0 for ever."),
    fixed(spec(
        "max_connections",
        Kind::Int { min: 1, max: 262_143 },
        "1000",
        "The most sessions at once.",
    )),
    fixed(spec(
        "max_identifier_length",
        Kind::Int { min: 63, max: 63 },
        "63",
        "The longest identifier, in bytes.",
    )),
    fixed(spec(
        "max_index_keys",
        Kind::Int { min: 32, max: 32 },
        "32",
        "The most columns of an index.",
    )),
    spec("row_security", Kind::Bool, "on", "Accepted; there are no policies."),
    reported(spec(
        "search_path",
        Kind::Text,
        "\"$user\", public",
        "The schemas in which unqualified names are looked up.",
    )),
    reported(fixed(spec(
        "server_encoding",
        Kind::Encoding,
        "UTF8",
        "The database's character set.",
    ))),
    Spec {
        category: "Preset Options",
        ..reported(fixed(spec(
            "server_version",
            Kind::Text,
            SERVER_VERSION,
            "The version clients should expect.",
        )))
    },
    fixed(spec(
        "server_version_num",
        Kind::Int { min: 0, max: 999_999 },
        "150000",
        "The version as a number.",
    )),
    Spec {
        no_reset_all: true,
        hidden: true,
        ..spec("role", Kind::Text, "none", "The role that the session has taken.")
    },
    Spec {
        no_reset_all: true,
        ..reported(spec("session_authorization", Kind::Text, "postgres", "The session's user."))
    },
    takes(
        spec(
            "session_replication_role",
            Kind::Enum(&["origin", "replica", "local"]),
            "origin",
            "Whose changes the session makes; foreign keys hold for all.",
        ),
        &["origin", "local"],
    ),
    reported(spec(
        "standard_conforming_strings",
        Kind::Enum(&["on"]),
        "on",
        "Backslashes in '…' are literal.",
    )),
    spec("statement_timeout", Kind::TimeMs, "0", "The longest a statement may run; 0 for ever."),
    spec(
        "synchronous_commit",
        Kind::Enum(&["on", "off", "local", "remote_write", "remote_apply"]),
        "on",
        "Whether a commit waits until it is durable.",
    ),
    reported(spec(
        "TimeZone",
        Kind::TimeZone,
        "UTC",
        "The time zone of timestamps with time zone.",
    )),
    Spec {
        no_reset_all: true,
        ..spec(
            "transaction_isolation",
            ISOLATION,
            "read committed",
            "The isolation level of this transaction.",
        )
    },
    Spec {
        no_reset_all: true,
        ..spec("transaction_read_only", Kind::Bool, "off", "Whether this transaction is read only.")
    },
    Spec {
        no_reset_all: true,
        ..spec("transaction_deferrable", Kind::Bool, "off", "Accepted; changes nothing.")
    },
];

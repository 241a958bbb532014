//! Settings: their names, kinds, defaults, and a session's values.
//!
//! ```text
//!   specs (name, kind, default)          Settings of a session
//!                                          base     what RESET goes back to
//!   SET x        ──▶ current, session      session  what a commit leaves behind
//!   SET LOCAL x  ──▶ current               current  what holds now
//!   COMMIT       ──▶ current = session     (a rollback restores the State of BEGIN or SAVEPOINT)
//! ```
//!
//! What statements ask for all the time is kept parsed in [`Hot`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use froglet_engine::SqlState;
use froglet_schema::Detection;

use crate::as_of::AsOf;
use crate::command::IsolationName;
use crate::context::SettingRow;
use crate::database::ConnectOptions;
use crate::error::SqlError;
use crate::lazy_query::Mode;
use crate::roles::NO_ROLE;
use crate::session::postgres_settings::{all as specs, place_of};
use crate::session::setting_units::Unit;
use crate::setting_specs::{Context, Kind, Spec};
use crate::temporary;
use crate::types::style;
use crate::types::zone::{self, Zone};

/// What is asked for in every statement.
#[derive(Clone, Debug)]
pub struct Hot {
    /// `froglet.fast_path`
    pub fast_path: bool,
    /// `froglet.plan_cache`
    pub plan_cache: bool,
    /// `synchronous_commit`
    pub synchronous_commit: bool,
    /// `statement_timeout`
    pub statement_timeout: Option<Duration>,
    /// `lock_timeout`
    pub lock_timeout: Option<Duration>,
    /// `idle_in_transaction_session_timeout`
    pub idle_in_transaction_timeout: Option<Duration>,
    /// `idle_session_timeout`
    pub idle_timeout: Option<Duration>,
    /// `default_transaction_isolation`
    pub isolation: IsolationName,
    /// `default_transaction_read_only`
    pub read_only: bool,
    /// `froglet.migration_cdc_threads`
    pub capture_threads: usize,
    /// `froglet.migration`
    pub(crate) migration: Mode,
    /// `froglet.migration_auto_rows`
    pub migration_auto_rows: u64,
    /// `froglet.migration_delay`
    pub migration_delay: Duration,
    /// `froglet.revert_retention`
    pub revert_retention: Duration,
    /// `froglet.migration_granule_rows`
    pub granule_rows: u32,
    /// `froglet.migration_detection`
    pub detection: Detection,
    /// `froglet.slsm_colocate`
    pub slsm_colocate: bool,
    /// `froglet.slsm_fuse`
    pub slsm_fuse: bool,
    /// `froglet.migration_rows_per_second`
    pub scan_rows_per_second: u64,
    /// `froglet.migration_scan_threads`
    pub scan_threads: usize,
    /// `froglet.as_of`, if there is any.
    pub as_of: Option<Arc<str>>,
    /// `froglet.on_violation`
    pub reject_writers: bool,
    /// Who the session is: `role`, or `session_authorization` if that is none
    pub user: Arc<str>,
    /// `search_path`
    pub search_path: Arc<[String]>,
    /// `timezone`
    pub timezone: Arc<str>,
    /// The zone of that name, with the style of dates, intervals and floats.
    pub zone: Zone,
    /// `client_min_messages`: whether a NOTICE reaches the client.
    pub notices: bool,
    /// And whether a WARNING does.
    pub warnings: bool,
}

#[derive(Clone, Debug)]
struct State {
    session: Vec<Arc<str>>,
    current: Vec<Arc<str>>,
    /// The schema of the session's temporary tables, if it has made any.
    temporary: Option<Arc<str>>,
    /// Settings of the user's own, with a dot in their names.
    own_session: BTreeMap<String, Arc<str>>,
    own_current: BTreeMap<String, Arc<str>>,
    hot: Hot,
}

impl State {
    /// `hot` follows from the rest.
    fn refresh(&mut self) {
        self.hot = Hot::of(&self.current);
        self.hot.search_path = with_own(&self.hot.search_path, self.temporary.as_deref());
    }
}

/// A session's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    base: Arc<Vec<Arc<str>>>,
    own_base: Arc<BTreeMap<String, Arc<str>>>,
    state: Arc<State>,
    local: bool,
}

/// Settings at a point to which a rollback goes back.
#[derive(Clone, Debug)]
pub struct SettingsMark {
    state: Arc<State>,
    local: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let base: Vec<Arc<str>> = specs().iter().map(|spec| Arc::from(spec.default)).collect();
        let state = State {
            session: base.clone(),
            current: base.clone(),
            own_session: BTreeMap::new(),
            own_current: BTreeMap::new(),
            temporary: None,
            hot: Hot::of(&base),
        };
        Settings {
            base: Arc::new(base),
            own_base: Arc::default(),
            state: Arc::new(state),
            local: false,
        }
    }
}

impl Settings {
    /// From the configuration: what RESET goes back to.
    pub fn set_default(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        if let Some(name) = own_name(name)? {
            Arc::make_mut(&mut self.own_base).insert(name.clone(), Arc::from(value));
            self.store_own(name, Arc::from(value), false);
            return Ok(());
        }
        let at = find(name)?;
        let value: Arc<str> = Arc::from(canonical(&specs()[at], value, &self.base[at])?);
        Arc::make_mut(&mut self.base)[at] = value.clone();
        self.store(at, value, false);
        Ok(())
    }

    /// `froglet.retention`
    pub(crate) fn retention(&self) -> Duration {
        let at = find("froglet.retention").expect("it is in the table");
        Duration::from_millis(parse_time_ms(&self.base[at]).unwrap_or(0))
    }

    /// From a client's startup message.
    pub(crate) fn connect(
        &mut self,
        options: &ConnectOptions,
        of_role: &[(String, String)],
    ) -> Result<(), SqlError> {
        for (name, value) in of_role {
            // One that an older server knew is no reason to keep anybody out.
            let _ = self.set_default(name, value);
        }
        self.set_default("application_name", &options.application_name)?;
        self.set_default(SESSION_AUTHORIZATION, &options.user)?;
        for (name, value) in &options.settings {
            if own_name(name)?.is_none() {
                check_changeable(&specs()[find(name)?])?;
            }
            if name.eq_ignore_ascii_case(SESSION_AUTHORIZATION) {
                return Err(cannot_change(SESSION_AUTHORIZATION));
            }
            self.set_default(name, value)?;
        }
        Ok(())
    }

    /// SET and SET LOCAL; `None` is DEFAULT.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<(), SqlError> {
        if let Some(name) = own_name(name)? {
            let base = || self.own_base.get(&name).cloned().unwrap_or_else(|| Arc::from(""));
            let value = value.map_or_else(base, Arc::from);
            self.store_own(name, value, local);
            return Ok(());
        }
        let at = find(name)?;
        check_changeable(&specs()[at])?;
        if specs()[at].context == Context::Superuser && self.get("is_superuser") != "on" {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to set parameter \"{}\"", specs()[at].name),
            ));
        }
        let value = match value {
            Some(value) => Arc::from(canonical(&specs()[at], value, &self.state.current[at])?),
            None => self.base[at].clone(),
        };
        self.store(at, value, local);
        Ok(())
    }

    /// RESET ALL
    pub fn reset_all(&mut self) {
        for (at, spec) in specs().iter().enumerate() {
            if spec.is_changeable() && !spec.no_reset_all {
                let value = self.base[at].clone();
                self.store(at, value, false);
            }
        }
        let own: Vec<String> = self.state.own_current.keys().cloned().collect();
        for name in own {
            let value = self.own_base.get(&name).cloned().unwrap_or_else(|| Arc::from(""));
            self.store_own(name, value, false);
        }
    }

    /// Who the session is has changed, and with it whether that is a superuser.
    pub(crate) fn set_superuser(&mut self, is_superuser: bool, local: bool) {
        let at = find("is_superuser").expect("it is in the table");
        self.store(at, Arc::from(if is_superuser { "on" } else { "off" }), local);
    }

    /// SHOW: the name as PostgreSQL spells it, and the value.
    pub fn show(&self, name: &str) -> Result<(&str, &str), SqlError> {
        let own = own_name(name).ok().flatten();
        if let Some((name, value)) = own.and_then(|own| self.state.own_current.get_key_value(&own))
        {
            return Ok((name, value));
        }
        let at = find(name)?;
        Ok((specs()[at].name, &self.state.current[at]))
    }

    /// SHOW ALL: name, value, description.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str, &'static str)> {
        specs()
            .iter()
            .zip(&self.state.current)
            .filter(|(spec, _)| !spec.hidden)
            .map(|(spec, value)| (spec.name, &**value, spec.description))
    }

    /// For pg_settings.
    pub(crate) fn rows(&self) -> Vec<SettingRow> {
        let all = specs().iter().zip(&self.state.current).zip(self.base.iter());
        all.filter(|((spec, _), _)| !spec.hidden)
            .map(|((spec, value), base)| row_of(spec, value, base))
            .collect()
    }

    /// The current value of a setting that exists.
    pub fn get(&self, name: &'static str) -> &str {
        match find(name) {
            Ok(at) => &self.state.current[at],
            Err(_) => "",
        }
    }

    /// `application_name`
    pub fn application_name(&self) -> &str {
        self.get("application_name")
    }

    /// What every statement asks for.
    pub fn hot(&self) -> &Hot {
        &self.state.hot
    }

    /// The values that ParameterStatus reports.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, &Arc<str>)> {
        specs()
            .iter()
            .zip(&self.state.current)
            .filter(|(spec, _)| spec.report)
            .map(|(spec, value)| (spec.name, value))
    }

    /// Whether two points have the same values, cheaply; false negatives are harmless.
    pub(crate) fn same_as(&self, mark: &SettingsMark) -> bool {
        Arc::ptr_eq(&self.state, &mark.state)
    }

    /// Now.
    pub fn mark(&self) -> SettingsMark {
        SettingsMark { state: self.state.clone(), local: self.local }
    }

    /// A rollback.
    pub fn restore(&mut self, mark: &SettingsMark) {
        let undone = std::mem::replace(&mut self.state, mark.state.clone());
        self.local = mark.local;
        self.keep_names(&undone);
    }

    /// A name that was given once is known from then on, if with no value.
    fn keep_names(&mut self, before: &State) {
        for name in before.own_current.keys() {
            if !self.state.own_current.contains_key(name) {
                self.store_own(name.clone(), Arc::from(""), false);
            }
        }
    }

    /// A commit: SET LOCAL ends.
    pub fn commit(&mut self) {
        if std::mem::take(&mut self.local) {
            let before = self.state.clone();
            let state = Arc::make_mut(&mut self.state);
            state.current = state.session.clone();
            state.own_current = state.own_session.clone();
            state.refresh();
            self.keep_names(&before);
        }
    }

    fn store_own(&mut self, name: String, value: Arc<str>, local: bool) {
        let state = Arc::make_mut(&mut self.state);
        if local {
            self.local = true;
        } else {
            state.own_session.insert(name.clone(), value.clone());
        }
        state.own_current.insert(name, value);
    }

    fn store(&mut self, at: usize, value: Arc<str>, local: bool) {
        let state = Arc::make_mut(&mut self.state);
        if local {
            self.local = true;
        } else {
            state.session[at] = value.clone();
        }
        state.current[at] = value;
        state.refresh();
    }

    /// The schema of the session's temporary tables.
    pub(crate) fn temporary_schema(&self) -> Option<Arc<str>> {
        self.state.temporary.clone()
    }

    /// It has one from now on; false if it had.
    pub(crate) fn set_temporary_schema(&mut self, name: &str) -> bool {
        if self.state.temporary.is_some() {
            return false;
        }
        let state = Arc::make_mut(&mut self.state);
        state.temporary = Some(Arc::from(name));
        state.refresh();
        true
    }
}

impl Hot {
    fn of(values: &[Arc<str>]) -> Hot {
        let get = |name: &str| &*values[find(name).expect("a setting of this module's own table")];
        let on = |name| get(name) == "on";
        let timeout = |name| match parse_time_ms(get(name)) {
            Some(0) | None => None,
            Some(ms) => Some(Duration::from_millis(ms)),
        };
        let user = match get("role") {
            NO_ROLE => get(SESSION_AUTHORIZATION),
            role => role,
        };
        Hot {
            fast_path: on("froglet.fast_path"),
            plan_cache: on("froglet.plan_cache"),
            synchronous_commit: get("synchronous_commit") != "off",
            statement_timeout: timeout("statement_timeout"),
            lock_timeout: timeout("lock_timeout"),
            idle_in_transaction_timeout: timeout("idle_in_transaction_session_timeout"),
            idle_timeout: timeout("idle_session_timeout"),
            isolation: IsolationName::parse(get("default_transaction_isolation"))
                .unwrap_or(IsolationName::ReadCommitted),
            read_only: on("default_transaction_read_only"),
            capture_threads: get("froglet.migration_cdc_threads").parse().unwrap_or(1),
            migration: Mode::parse(get("froglet.migration")).unwrap_or(Mode::Auto),
            migration_auto_rows: get("froglet.migration_auto_rows").parse().unwrap_or(u64::MAX),
            migration_delay: timeout("froglet.migration_delay").unwrap_or_default(),
            revert_retention: timeout("froglet.revert_retention").unwrap_or_default(),
            granule_rows: get("froglet.migration_granule_rows").parse().unwrap_or(1),
            detection: match get("froglet.migration_detection") {
                "on_conflict" => Detection::OnConflict,
                _ => Detection::Tracker,
            },
            slsm_colocate: on("froglet.slsm_colocate"),
            slsm_fuse: on("froglet.slsm_fuse"),
            scan_threads: get("froglet.migration_scan_threads").parse().unwrap_or(1),
            scan_rows_per_second: get("froglet.migration_rows_per_second").parse().unwrap_or(0),
            as_of: Some(get("froglet.as_of")).filter(|text| !text.is_empty()).map(Arc::from),
            reject_writers: get("froglet.on_violation") == "reject_writers",
            search_path: search_path(get("search_path"), user),
            user: Arc::from(user),
            timezone: Arc::from(get("TimeZone")),
            zone: Zone::of_settings(get),
            notices: !matches!(get("client_min_messages"), "warning" | "error"),
            warnings: get("client_min_messages") != "error",
        }
    }
}

/// A path with the session's own schema: where it says `pg_temp`, and first where it does not.
fn with_own(path: &Arc<[String]>, own: Option<&str>) -> Arc<[String]> {
    let said = path.iter().position(|schema| schema == temporary::ALIAS);
    match (said, own) {
        (None, None) => path.clone(),
        (None, Some(own)) => {
            std::iter::once(own).chain(path.iter().map(|s| &**s)).map(str::to_owned).collect()
        }
        (Some(at), own) => {
            let place = |(n, schema): (usize, &String)| match schema == temporary::ALIAS {
                true => own.filter(|_| n == at).map(str::to_owned),
                false => Some(schema.clone()),
            };
            path.iter().enumerate().filter_map(place).collect()
        }
    }
}

fn search_path(value: &str, user: &str) -> Arc<[String]> {
    value
        .split(',')
        .map(|part| part.trim().trim_matches('"'))
        .filter(|part| !part.is_empty())
        .map(|part| if part == "$user" { user.to_owned() } else { part.to_owned() })
        .collect()
}

/// Whether a configuration may set `name` to `value`.
pub fn check_setting(name: &str, value: &str) -> Result<(), SqlError> {
    if own_name(name)?.is_some() {
        return Ok(());
    }
    let spec = &specs()[find(name)?];
    canonical(spec, value, spec.default).map(|_| ())
}

/// A row of pg_settings.
fn row_of(spec: &Spec, value: &str, reset: &str) -> SettingRow {
    let unit = match spec.kind {
        Kind::TimeMs => Unit::Time(1_000),
        Kind::Number { unit, .. } => unit,
        _ => Unit::None,
    };
    let raw = |text: &str| match unit {
        Unit::None => text.to_owned(),
        unit => unit.parse(text).map_or_else(|_| text.to_owned(), |number| number.to_string()),
    };
    let (kind, bounds) = match spec.kind {
        Kind::Bool => ("bool", None),
        Kind::Int { min, max } => ("integer", Some((min.to_string(), max.to_string()))),
        Kind::TimeMs => ("integer", Some(("0".to_owned(), i32::MAX.to_string()))),
        Kind::Number { min, max, whole, .. } => {
            let kind = if whole { "integer" } else { "real" };
            (kind, Some((number_text(min, whole), number_text(max, whole))))
        }
        Kind::Enum(_) => ("enum", None),
        Kind::Text | Kind::AsOf | Kind::TimeZone | Kind::DateStyle | Kind::Encoding => {
            ("string", None)
        }
    };
    let (min, max) = bounds.unzip();
    SettingRow {
        name: spec.name.to_owned(),
        value: raw(value),
        unit: unit.name().map(str::to_owned),
        category: spec.category.to_owned(),
        description: spec.description.to_owned(),
        context: spec.context.name().to_owned(),
        kind: kind.to_owned(),
        source: if value == spec.default { "default" } else { "session" }.to_owned(),
        min,
        max,
        values: match spec.kind {
            Kind::Enum(values) => Some(values.iter().map(|v| (*v).to_owned()).collect()),
            _ => None,
        },
        boot: Some(raw(spec.default)),
        reset: Some(raw(reset)),
    }
}

/// As `%d` or `%g` writes it.
fn number_text(number: f64, whole: bool) -> String {
    if whole || number.abs() < 1e6 {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').expect("an exponent was asked for");
    format!("{digits}e+{exponent:0>2}")
}

fn find(name: &str) -> Result<usize, SqlError> {
    place_of(name).ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )
    })
}

/// Whether a session may be told to set `name`, to `value` if there is one.
pub(crate) fn check_session_setting(name: &str, value: Option<&str>) -> Result<(), SqlError> {
    if own_name(name)?.is_none() {
        check_changeable(&specs()[find(name)?])?;
    }
    value.map_or(Ok(()), |value| check_setting(name, value))
}

/// Who the session is: see [`crate::roles`].
pub(crate) const SESSION_AUTHORIZATION: &str = "session_authorization";

/// The name of a setting of the user's own: in two parts or more, the first of them not ours.
fn own_name(name: &str) -> Result<Option<String>, SqlError> {
    if place_of(name).is_some() || !name.contains('.') {
        return Ok(None);
    }
    let name = name.to_lowercase();
    let is_identifier = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    if !name.split('.').all(is_identifier) {
        return Err(SqlError::new(
            SqlState::INVALID_NAME,
            format!("invalid configuration parameter name \"{name}\""),
        )
        .detail(
            "Custom parameter names must be two or more simple identifiers separated by dots.",
        ));
    }
    if name.starts_with("froglet.") {
        return Err(SqlError::new(
            SqlState::INVALID_NAME,
            format!("invalid configuration parameter name \"{name}\""),
        )
        .detail("\"froglet\" is a reserved prefix."));
    }
    Ok(Some(name))
}

fn check_changeable(spec: &Spec) -> Result<(), SqlError> {
    let when = match spec.context {
        Context::User | Context::Superuser => return Ok(()),
        Context::Internal => return Err(cannot_change(spec.name)),
        Context::Postmaster => "changed without restarting the server",
        Context::Sighup => "changed now",
        Context::Backend => "set after connection start",
    };
    Err(SqlError::new(
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        format!("parameter \"{}\" cannot be {when}", spec.name),
    ))
}

fn cannot_change(name: &str) -> SqlError {
    SqlError::new(
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        format!("parameter \"{name}\" cannot be changed"),
    )
}

/// The value as it is stored and shown; `now`: what it is before.
pub(crate) fn canonical(spec: &Spec, value: &str, now: &str) -> Result<String, SqlError> {
    let value = read(spec, value, now)?;
    if spec.taken.is_empty() || spec.taken.contains(&&*value) {
        return Ok(value);
    }
    let all: Vec<String> = spec.taken.iter().map(|value| format!("\"{value}\"")).collect();
    let text = format!("setting parameter \"{}\" to \"{value}\"", spec.name);
    Err(SqlError::unsupported(text).hint(format!("It can be {}.", all.join(" or "))))
}

/// A number in its unit; a whole one is rounded.
fn number(spec: &Spec, value: &str) -> Result<String, SqlError> {
    let (min, max, unit, whole) = match spec.kind {
        Kind::Number { min, max, unit, whole } => (min, max, unit, whole),
        Kind::TimeMs => (0.0, f64::from(i32::MAX), Unit::Time(1_000), true),
        _ => return Ok(value.to_owned()),
    };
    let invalid = |hint: Option<&str>| {
        let error = SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{}\": \"{value}\"", spec.name),
        );
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    };
    let parsed = unit.parse(value).map_err(|of_unit| invalid(unit.hint().filter(|_| of_unit)))?;
    let parsed = if whole { parsed.round_ties_even() } else { parsed };
    if whole && parsed.abs() > f64::from(i32::MAX) {
        return Err(invalid(Some("Value exceeds integer range.")));
    }
    if !(min..=max).contains(&parsed) {
        let named = unit.name().map_or_else(String::new, |unit| format!(" {unit}"));
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!(
                "{parsed}{named} is outside the valid range for parameter \"{}\" ({} .. {})",
                spec.name,
                number_text(min, whole),
                number_text(max, whole)
            ),
        ));
    }
    // PostgreSQL asks the connection, which knows no units.
    if spec.name.starts_with("tcp_") {
        return Ok(parsed.to_string());
    }
    Ok(unit.show(parsed))
}

fn read(spec: &Spec, value: &str, now: &str) -> Result<String, SqlError> {
    let invalid = || {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{}\": \"{value}\"", spec.name),
        )
    };
    match spec.kind {
        Kind::Bool => match parse_bool(value) {
            Some(b) => Ok(if b { "on" } else { "off" }.to_owned()),
            None => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{}\" requires a Boolean value", spec.name),
            )),
        },
        Kind::Int { min, max } => match value.trim().parse::<i64>() {
            Ok(n) if (min..=max).contains(&n) => Ok(n.to_string()),
            Ok(n) => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!(
                    "{n} is outside the valid range for parameter \"{}\" ({min} .. {max})",
                    spec.name
                ),
            )),
            Err(_) => Err(invalid()),
        },
        Kind::Number { .. } | Kind::TimeMs => number(spec, value),
        Kind::Enum(allowed) => allowed
            .iter()
            .find(|a| a.eq_ignore_ascii_case(value.trim()))
            .map(|a| (*a).to_owned())
            .or_else(|| bool_word(allowed, value))
            .or_else(|| hidden_word(allowed, value))
            .ok_or_else(|| invalid().hint(format!("Available values: {}.", allowed.join(", ")))),
        Kind::Text => Ok(value.to_owned()),
        Kind::AsOf => AsOf::parse(value, Zone::UTC).map(|_| value.trim().to_owned()),
        Kind::TimeZone => zone::canonical(value).ok_or_else(invalid),
        Kind::DateStyle => style::date_style(value, now),
        // Letters and digits alone count, as in PostgreSQL.
        Kind::Encoding => match clean(value).as_str() {
            "utf8" | "unicode" => Ok("UTF8".to_owned()),
            "sqlascii" => Ok("SQL_ASCII".to_owned()),
            _ => Err(invalid().hint("Only UTF8 is supported.")),
        },
    }
}

fn clean(encoding: &str) -> String {
    encoding.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}

fn parse_bool(value: &str) -> Option<bool> {
    let value = value.trim().to_ascii_lowercase();
    let prefix = |word: &str| !value.is_empty() && word.starts_with(&value);
    match value.as_str() {
        "on" | "1" => Some(true),
        "off" | "of" | "0" => Some(false),
        _ if prefix("true") || prefix("yes") => Some(true),
        _ if prefix("false") || prefix("no") => Some(false),
        _ => None,
    }
}

/// Enums that also take Boolean words (synchronous_commit = false).
fn bool_word(allowed: &[&str], value: &str) -> Option<String> {
    let word = if parse_bool(value)? { "on" } else { "off" };
    allowed.contains(&word).then(|| word.to_owned())
}

/// Levels of messages that PostgreSQL takes without offering them.
fn hidden_word(allowed: &[&str], value: &str) -> Option<String> {
    let levels = allowed.contains(&"debug2");
    match value.trim().to_ascii_lowercase().as_str() {
        "debug" if levels => Some("debug2".to_owned()),
        "info" if levels => Some("info".to_owned()),
        _ => None,
    }
}

/// `5000`, `5s`, `1.5 min` in milliseconds.
pub(crate) fn parse_time_ms(value: &str) -> Option<u64> {
    let value = value.trim();
    let split = value.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(value.len());
    let (number, unit) = value.split_at(split);
    let number: f64 = number.trim().parse().ok()?;
    let ms = match unit {
        "us" => number / 1000.0,
        "" | "ms" => number,
        "s" => number * 1000.0,
        "min" => number * 60_000.0,
        "h" => number * 3_600_000.0,
        "d" => number * 86_400_000.0,
        _ => return None,
    };
    (ms >= 0.0 && ms.is_finite()).then_some(ms.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_values_end_with_the_transaction_and_rollback_restores() {
        let mut s = Settings::default();
        let begin = s.mark();
        s.set("lock_timeout", Some("1500"), true).unwrap();
        assert_eq!(s.show("LOCK_TIMEOUT").unwrap(), ("lock_timeout", "1500ms"));
        s.commit();
        assert_eq!(s.show("lock_timeout").unwrap().1, "0");
        s.set("statement_timeout", Some("2min"), false).unwrap();
        assert_eq!(s.hot().statement_timeout, Some(Duration::from_secs(120)));
        assert_eq!(s.show("statement_timeout").unwrap().1, "2min");
        s.restore(&begin);
        assert_eq!(s.hot().statement_timeout, None);
    }

    #[test]
    fn wrong_names_and_values_say_so() {
        let mut s = Settings::default();
        let code = |r: Result<(), SqlError>| r.unwrap_err().state;
        assert_eq!(code(s.set("no_such", Some("1"), false)), SqlState::UNDEFINED_OBJECT);
        assert_eq!(
            code(s.set("froglet.fast_path", Some("maybe"), false)),
            SqlState::INVALID_PARAMETER_VALUE
        );
        assert_eq!(
            code(s.set("server_version", Some("1"), false)),
            SqlState::CANT_CHANGE_RUNTIME_PARAM
        );
        s.set("froglet.fast_path", Some("false"), false).unwrap();
        assert!(!s.hot().fast_path);
        s.set("synchronous_commit", Some("off"), false).unwrap();
        assert!(!s.hot().synchronous_commit);
        s.set("client_min_messages", Some("DEBUG"), false).unwrap();
        assert_eq!(s.show("client_min_messages").unwrap().1, "debug2");
        assert_eq!(
            s.set("client_min_messages", Some("fatal"), false).unwrap_err().hint.as_deref(),
            Some(
                "Available values: debug5, debug4, debug3, debug2, debug1, log, notice, warning, \
                 error."
            )
        );
        s.set("client_min_messages", Some("warning"), false).unwrap();
        assert!(!s.hot().notices && s.hot().warnings);
    }
}

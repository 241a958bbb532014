//! Snapshots that one transaction exports and others take: `pg_export_snapshot()`, `SET TRANSACTION SNAPSHOT`.
//!
//! ```text
//!   exporter   BEGIN … pg_export_snapshot() = '0000002A-1' ………………………………………… COMMIT: nobody else takes it
//!   others                 BEGIN; SET TRANSACTION SNAPSHOT '0000002A-1'; they see what the exporter sees
//! ```
//!
//! Who takes one sees nothing of what the exporter itself has written, and writes nothing.
//!
//! What is exported is the exporting session's: it goes with [`ExportedView`], at the end of the transaction or with
//! the session, however that ends. Here is only the way to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Token;
use froglet_engine::{Snapshot, SqlState};
use parking_lot::Mutex;

use crate::command::{Command, Cursor, IsolationName};
use crate::error::SqlError;
use crate::session::{Block, Session};
use crate::subplan::ScopeRef;

/// The snapshots that can be taken, by name.
#[derive(Default)]
pub(crate) struct Exported(Mutex<Named>);

#[derive(Default)]
struct Named {
    count: u64,
    views: BTreeMap<String, Weak<Snapshot>>,
}

/// A view that can be taken while this lives.
pub(crate) struct ExportedView {
    name: String,
    _view: Arc<Snapshot>,
    exported: Arc<Exported>,
}

impl ExportedView {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for ExportedView {
    fn drop(&mut self) {
        self.exported.0.lock().views.remove(&self.name);
    }
}

impl Exported {
    /// Gives a view a name.
    pub(crate) fn add(self: &Arc<Self>, txn: u64, view: &Arc<Snapshot>) -> ExportedView {
        let mut named = self.0.lock();
        named.count += 1;
        let name = format!("{txn:08X}-{}", named.count);
        named.views.insert(name.clone(), Arc::downgrade(view));
        ExportedView { name, _view: view.clone(), exported: self.clone() }
    }

    fn get(&self, name: &str) -> Option<Arc<Snapshot>> {
        self.0.lock().views.get(name).and_then(Weak::upgrade)
    }
}

/// What stands after `SET TRANSACTION SNAPSHOT`.
pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Command, ParserError> {
    match cursor.peek() {
        Some(Token::SingleQuotedString(name)) => {
            let name = name.clone();
            cursor.at += 1;
            Ok(Command::SetSnapshot(name))
        }
        _ => Err(ParserError::ParserError("Expected: a snapshot's name".to_owned())),
    }
}

impl Session {
    /// SET TRANSACTION SNAPSHOT
    pub(crate) fn set_snapshot(&mut self, name: &str) -> Result<(), SqlError> {
        let refused = |message: &str| Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        let keeps_view = matches!(
            self.isolation_name(),
            IsolationName::RepeatableRead | IsolationName::Serializable
        );
        if self.block == Block::Idle {
            self.notice(
                "WARNING",
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET TRANSACTION can only be used in transaction blocks",
            );
        }
        if self.txn.is_some() {
            return refused("SET TRANSACTION SNAPSHOT must be called before any query");
        }
        if !keeps_view {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ",
            ));
        }
        let view = self.db.exported.get(name).ok_or_else(|| {
            let message = format!("invalid snapshot identifier: \"{name}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })?;
        if self.block == Block::Idle {
            return Ok(());
        }
        if !self.read_only {
            return Err(SqlError::unsupported(
                "SET TRANSACTION SNAPSHOT in a transaction that may write",
            )
            .hint("Begin it READ ONLY."));
        }
        if self.settings.hot().as_of.is_some() {
            return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT beside froglet.as_of"));
        }
        let txn = self.transaction()?;
        let own = txn.id();
        txn.stay_at(Arc::new(Snapshot::new(view.ts, own, Box::new(view))));
        Ok(())
    }
}

/// pg_export_snapshot()
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Export {
        signature: Signature::nullary(Volatility::Volatile),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Export {
    signature: Signature,
}

impl ScalarUDFImpl for Export {
    fn name(&self) -> &str {
        "pg_export_snapshot"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scope = ScopeRef::of(&args.config_options)?;
        let name = scope.session.export_snapshot(&scope.snapshot)?;
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name))))
    }
}

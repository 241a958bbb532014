//! The schema changes, with the transforms and checks that SQL would have compiled.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, RecordBatch};
use arrow_buffer::BooleanBuffer;
use froglet_engine::{ColumnId, ColumnType, SqlState, Value};
use froglet_schema::change::CompiledError;
use froglet_schema::change::NewKeyPart;
use froglet_schema::{
    Change, Check, Expression, Fill, ForeignKeyAction, Made, NewConstraint, NewForeignKey,
    NewIndex, NewKey, NewTable, NewType, ObjectId, RowQuery, SchemaError, TableDef, TableQuery,
    Transform,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::table::{column, sql_type};

/// The type that `amount` is changed to.
const NUMERIC: ColumnType = ColumnType::Decimal { precision: 38, scale: 2 };

/// A schema change to measure.
pub struct Case {
    /// Short.
    pub name: &'static str,
    /// As one would write it.
    pub sql: &'static str,
    /// Bound to the table's newest version and its foreign key's parent.
    pub change: fn(&TableDef, ObjectId) -> Change,
    /// Takes away what would slow down the writers of the next measurement; given the table's new
    /// version and the object that the change made.
    pub undo: Option<fn(&TableDef, Option<ObjectId>) -> Change>,
    /// The limit for the statement with its commit, in milliseconds, at any table size.
    pub limit_ms: Option<f64>,
}

/// Every change, in the order in which they are made.
pub const CASES: [Case; 12] = [
    Case {
        name: "add column, constant",
        sql: "ALTER TABLE bench ADD COLUMN flat bigint NOT NULL DEFAULT 7",
        change: |def, _| Change::AddColumn {
            table: def.id,
            column: column("flat", ColumnType::Int64, true),
            fill: Fill::Constant(Value::Int64(7)),
        },
        undo: None,
        limit_ms: Some(5.0),
    },
    Case {
        name: "add column, computed",
        sql: "ALTER TABLE bench ADD COLUMN doubled bigint NOT NULL GENERATED ALWAYS AS (amount * 2) STORED",
        change: |def, _| Change::AddColumn {
            table: def.id,
            column: column("doubled", ColumnType::Int64, true),
            fill: Fill::Compute(Arc::new(Doubled([id(def, "amount")])), None),
        },
        undo: None,
        limit_ms: None,
    },
    Case {
        name: "add column, volatile",
        sql: "ALTER TABLE bench ADD COLUMN dice double precision NOT NULL DEFAULT random()",
        change: |def, _| Change::AddColumn {
            table: def.id,
            column: column("dice", ColumnType::Float64, true),
            fill: Fill::Compute(Arc::new(Dice), None),
        },
        undo: None,
        limit_ms: None,
    },
    Case {
        name: "alter column type",
        sql: "ALTER TABLE bench ALTER COLUMN amount TYPE numeric(38,2)",
        change: |def, _| Change::AlterTypes {
            table: def.id,
            columns: vec![NewType {
                column: "amount".to_owned(),
                ty: NUMERIC,
                sql_type: sql_type(NUMERIC),
                lazily: None,
                is_exact: true,
                using: Some(Arc::new(ToNumeric([id(def, "amount")]))),
                default: None,
            }],
            checks: vec![],
            before: None,
        },
        undo: None,
        limit_ms: None,
    },
    Case {
        name: "set not null",
        sql: "ALTER TABLE bench ALTER COLUMN balance SET NOT NULL",
        change: |def, _| Change::SetNotNull {
            table: def.id,
            column: "balance".to_owned(),
            check: Arc::new(NotNull([id(def, "balance")])),
        },
        undo: Some(|def, _| Change::DropNotNull { table: def.id, column: "balance".to_owned() }),
        limit_ms: None,
    },
    Case {
        name: "add check",
        sql: "ALTER TABLE bench ADD CONSTRAINT bench_check CHECK (balance >= -1000000000)",
        change: |def, _| Change::AddConstraint {
            table: def.id,
            constraint: NewConstraint::Check {
                name: Some("bench_check".to_owned()),
                expression: Expression("balance >= -1000000000".to_owned()),
                columns: vec!["balance".to_owned()],
                check: Some(Arc::new(AtLeast([id(def, "balance")], -1_000_000_000))),
            },
        },
        undo: Some(|def, _| drop_constraint(def, "bench_check")),
        limit_ms: None,
    },
    Case {
        name: "add unique",
        sql: "ALTER TABLE bench ADD CONSTRAINT bench_code_key UNIQUE (code)",
        change: |def, _| Change::AddConstraint {
            table: def.id,
            constraint: NewConstraint::Unique(NewKey {
                name: Some("bench_code_key".to_owned()),
                ..NewKey::of(["code"])
            }),
        },
        undo: Some(|def, _| drop_constraint(def, "bench_code_key")),
        limit_ms: None,
    },
    Case {
        name: "create index",
        sql: "CREATE INDEX bench_grp_idx ON bench (grp)",
        change: |def, _| Change::CreateIndex {
            table: def.id,
            index: NewIndex {
                name: Some("bench_grp_idx".to_owned()),
                columns: vec![NewKeyPart::plain("grp")],
                unique: false,
                ..NewIndex::default()
            },
        },
        undo: Some(|def, made| Change::DropIndex {
            table: def.id,
            index: made.expect("CREATE INDEX returns the index"),
        }),
        limit_ms: None,
    },
    Case {
        name: "add foreign key",
        sql: "ALTER TABLE bench ADD CONSTRAINT bench_grp_fkey FOREIGN KEY (grp) REFERENCES groups",
        change: |def, groups| Change::AddConstraint {
            table: def.id,
            constraint: NewConstraint::ForeignKey {
                name: Some("bench_grp_fkey".to_owned()),
                key: NewForeignKey {
                    columns: vec!["grp".to_owned()],
                    parent: Some(groups),
                    parent_columns: vec![],
                    on_delete: ForeignKeyAction::NoAction,
                    on_update: ForeignKeyAction::NoAction,
                    timing: froglet_schema::def::Timing::NotDeferrable,
                },
            },
        },
        undo: Some(|def, _| drop_constraint(def, "bench_grp_fkey")),
        limit_ms: None,
    },
    Case {
        name: "create table as",
        sql: "CREATE TABLE bench_copy AS SELECT id, grp, balance FROM bench",
        change: |def, _| Change::CreateTableAs {
            table: NewTable {
                schema: def.schema.clone(),
                name: "bench_copy".to_owned(),
                columns: vec![
                    column("id", ColumnType::Int64, false),
                    column("grp", ColumnType::Int32, false),
                    column("balance", ColumnType::Int64, false),
                ],
                constraints: vec![],
                dictionary: None,
                home: froglet_engine::Home::Memory,
            },
            query: TableQuery::Rows {
                source: def.id,
                query: Arc::new(Projection([id(def, "id"), id(def, "grp"), id(def, "balance")])),
            },
        },
        undo: Some(|_, made| Change::DropTable {
            table: made.expect("CREATE TABLE AS returns the table"),
            cascade: false,
        }),
        limit_ms: None,
    },
    Case {
        name: "drop column",
        sql: "ALTER TABLE bench DROP COLUMN flat",
        change: |def, _| Change::DropColumn {
            table: def.id,
            column: "flat".to_owned(),
            cascade: false,
        },
        undo: None,
        limit_ms: Some(5.0),
    },
    Case {
        name: "rename column",
        sql: "ALTER TABLE bench RENAME COLUMN note TO remark",
        change: |def, _| Change::RenameColumn {
            table: def.id,
            column: "note".to_owned(),
            name: "remark".to_owned(),
        },
        undo: None,
        limit_ms: None,
    },
];

fn id(def: &TableDef, name: &str) -> ColumnId {
    def.column(name).expect("the table has had this column from the start").id
}

fn drop_constraint(def: &TableDef, name: &str) -> Change {
    Change::DropConstraint { table: def.id, name: name.to_owned(), cascade: false }
}

/// amount * 2
struct Doubled([ColumnId; 1]);

impl Transform for Doubled {
    fn inputs(&self) -> &[ColumnId] {
        &self.0
    }

    fn eval(&self, batch: &RecordBatch) -> Result<ArrayRef, CompiledError> {
        let amount = batch.column(0).as_primitive::<Int64Type>();
        Ok(Arc::new(amount.unary::<_, Int64Type>(|v| v.wrapping_mul(2))))
    }
}

/// The columns as they are.
struct Projection([ColumnId; 3]);

impl RowQuery for Projection {
    fn inputs(&self) -> &[ColumnId] {
        &self.0
    }

    fn eval(&self, batch: &RecordBatch) -> Result<Made, CompiledError> {
        Ok(Made { rows: (0..batch.num_rows()).collect(), columns: batch.columns().to_vec() })
    }

    fn plain(&self, output: usize) -> Option<ColumnId> {
        self.0.get(output).copied()
    }
}

/// random()
struct Dice;

impl Transform for Dice {
    fn inputs(&self) -> &[ColumnId] {
        &[]
    }

    fn eval(&self, batch: &RecordBatch) -> Result<ArrayRef, CompiledError> {
        let mut rng = SmallRng::from_rng(&mut rand::rng());
        let values = (0..batch.num_rows()).map(|_| rng.random::<f64>());
        Ok(Arc::new(Float64Array::from_iter_values(values)))
    }
}

/// amount::numeric(38,2)
struct ToNumeric([ColumnId; 1]);

impl Transform for ToNumeric {
    fn inputs(&self) -> &[ColumnId] {
        &self.0
    }

    fn eval(&self, batch: &RecordBatch) -> Result<ArrayRef, CompiledError> {
        let amount = batch.column(0).as_primitive::<Int64Type>();
        let scaled = amount.unary::<_, Decimal128Type>(|v| i128::from(v) * 100);
        Ok(Arc::new(scaled.with_data_type(NUMERIC.arrow())))
    }
}

/// column IS NOT NULL
struct NotNull([ColumnId; 1]);

impl Check for NotNull {
    fn inputs(&self) -> &[ColumnId] {
        &self.0
    }

    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, CompiledError> {
        let column = batch.column(0);
        let valid = match column.nulls() {
            Some(nulls) => nulls.inner().clone(),
            None => BooleanBuffer::new_set(column.len()),
        };
        Ok(BooleanArray::new(valid, None))
    }

    fn violation(&self, row: &[Value]) -> CompiledError {
        SchemaError::refused(SqlState::NOT_NULL_VIOLATION, format!("{row:?} has a NULL"))
    }
}

/// column >= bound
struct AtLeast([ColumnId; 1], i64);

impl Check for AtLeast {
    fn inputs(&self) -> &[ColumnId] {
        &self.0
    }

    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, CompiledError> {
        let column = batch.column(0).as_primitive::<Int64Type>();
        let held = column.values().iter().map(|v| *v >= self.1).collect::<BooleanBuffer>();
        Ok(BooleanArray::new(held, column.nulls().cloned()))
    }

    fn violation(&self, row: &[Value]) -> CompiledError {
        SchemaError::refused(SqlState::CHECK_VIOLATION, format!("{row:?} is below {}", self.1))
    }
}

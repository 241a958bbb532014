//! A small database and hand-written expressions.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use froglet_engine::{
    ColumnId, ColumnType, Direction, Home, KeyRange, RowId, RowWrite, Snapshot, SqlState, Value,
    WriteStop, key,
};
use froglet_memory::{MemoryEngine, MemoryOptions};
use froglet_schema::{
    Catalog, CatalogVersion, Change, Check, Fill, Made, MigrationOptions, NewColumn, NewConstraint,
    NewKey, NewTable, NewType, ObjectId, RowQuery, SchemaError, SqlType, TableQuery, TableVersion,
    Transform,
};
use froglet_txn::{Isolation, Limits, SchemaUse, Transaction, TxnError, TxnManager};

pub const INT8: SqlType = SqlType { oid: 20, modifier: -1 };

/// The isolation levels under which a schema change may run.
pub const BOTH: [Isolation; 2] = [Isolation::ReadCommitted, Isolation::RepeatableRead];

/// id and v of a row.
pub type Pair = (i64, i64);

pub fn pair(row: &[Value]) -> Pair {
    match row {
        [Value::Int64(id), Value::Int64(v)] => (*id, *v),
        other => panic!("a NULL in {other:?}"),
    }
}

pub struct World {
    pub catalog: Arc<Catalog>,
    pub table: ObjectId,
    /// Writers that see a column `d` keep it at `double(v)`, as a generated column would be.
    pub keeps_d: bool,
}

pub fn options() -> MigrationOptions {
    MigrationOptions { statement: "test".to_owned(), ..MigrationOptions::default() }
}

pub fn column(name: &str, ty: ColumnType) -> NewColumn {
    NewColumn { name: name.to_owned(), ty, sql_type: INT8, not_null: false, default: None }
}

impl World {
    /// Table `t` (id int8 primary key, v int8, s text) with rows 0..n where v = 10 * id.
    pub async fn with_rows(n: i64) -> World {
        let engine = MemoryEngine::open(MemoryOptions::default()).expect("an engine opens");
        let manager = TxnManager::new(engine);
        let catalog = Catalog::open(manager).await.expect("a catalog opens");
        let mut world = World { catalog, table: 0, keeps_d: false };
        world.table = world.create("t").await;
        let mut txn = world.begin(Isolation::ReadCommitted);
        for id in 0..n {
            world.insert(&mut txn, id, 10 * id).await.expect("a fresh key");
        }
        world.commit(txn).await.expect("nobody interferes");
        world
    }

    pub async fn create(&self, name: &str) -> ObjectId {
        self.create_with(name, ColumnType::Int64).await
    }

    /// The same with ids of some type of numbers.
    pub async fn create_with(&self, name: &str, id: ColumnType) -> ObjectId {
        let new = NewTable {
            schema: "public".to_owned(),
            name: name.to_owned(),
            columns: vec![
                column("id", id),
                column("v", ColumnType::Int64),
                column("s", ColumnType::Text),
            ],
            constraints: vec![NewConstraint::PrimaryKey(NewKey::of(["id"]))],
            dictionary: None,
            home: Home::Memory,
        };
        let mut txn = self.begin(Isolation::ReadCommitted);
        let id = self.change(&mut txn, Change::CreateTable(new)).await.expect("a fresh name");
        self.commit(txn).await.expect("nobody interferes");
        id.expect("a table was made")
    }

    pub fn begin(&self, isolation: Isolation) -> Transaction {
        self.catalog.manager().begin(isolation)
    }

    pub async fn commit(&self, txn: Transaction) -> Result<(), TxnError> {
        self.catalog.manager().clone().commit(txn, &Limits::none()).await.map(|_| ())
    }

    /// One DDL statement.
    pub async fn change(
        &self,
        txn: &mut Transaction,
        change: Change,
    ) -> Result<Option<ObjectId>, SchemaError> {
        let limits = Limits::none();
        self.catalog.begin_statement(txn, true, &limits).await?;
        let outcome = self.catalog.apply(txn, change, &options(), &limits).await;
        self.catalog.end_statement(txn);
        outcome.map(|applied| applied.object)
    }

    /// The same database, another table.
    pub fn of(&self, table: ObjectId) -> World {
        World { catalog: self.catalog.clone(), table, keeps_d: false }
    }

    /// CREATE TABLE name AS SELECT id, v * 2 + 1 AS v FROM t WHERE v % 30 <> 0.
    pub fn create_as(&self, name: &str) -> Change {
        let query = Arc::new(SomeDoubled { inputs: [self.id_of("id"), self.id_of("v")] });
        let query = TableQuery::Rows { source: self.table, query };
        Change::CreateTableAs { table: pairs_table(name), query }
    }

    /// ADD PRIMARY KEY (id).
    pub fn add_key(&self) -> Change {
        Change::AddConstraint {
            table: self.table,
            constraint: NewConstraint::PrimaryKey(NewKey::of(["id"])),
        }
    }

    /// One DDL statement in a transaction of its own.
    pub async fn alter(&self, change: Change) -> Result<(), SchemaError> {
        let mut txn = self.begin(Isolation::ReadCommitted);
        self.change(&mut txn, change).await?;
        Ok(self.commit(txn).await?)
    }

    pub async fn statement(&self, txn: &mut Transaction, writes: bool) -> Arc<CatalogVersion> {
        let limits = Limits::none();
        self.catalog.begin_statement(txn, writes, &limits).await.expect("a statement begins")
    }

    fn note(txn: &mut Transaction, version: &TableVersion) {
        if version.version.0 != 0 {
            txn.note_schema(SchemaUse {
                table: version.def.id,
                space: version.def.space,
                version: version.version,
            });
        }
    }

    /// INSERT INTO t (id, v) — later columns are NULL. Without t, `Gone`.
    pub async fn insert(&self, txn: &mut Transaction, id: i64, v: i64) -> Result<(), WriteStop> {
        let view = self.statement(txn, true).await;
        let Some(version) = view.tables.get(&self.table) else {
            self.catalog.end_statement(txn);
            return Err(WriteStop::Gone);
        };
        let mut row = vec![Value::Null; version.def.columns.len()];
        for (at, column) in version.def.columns.iter().enumerate() {
            match column.name.as_str() {
                "id" => {
                    let id = Value::Int64(id).counterpart(ColumnType::Int64, column.ty);
                    row[at] = id.expect("ids fit their column");
                }
                "v" => row[at] = Value::Int64(v),
                "d" if self.keeps_d => row[at] = Value::Int64(double(v)),
                "s" => row[at] = Value::text(format!("row number {id} of the table")),
                _ => {}
            }
        }
        Self::note(txn, version);
        let outcome = loop {
            let stop = version.table.insert(txn.part(), &[row.clone()], &mut Vec::new());
            match stop {
                Err((_, WriteStop::Busy { holder })) => {
                    let wait = txn.wait_for(holder, &Limits::none()).await;
                    if wait.is_err() {
                        break Err(WriteStop::Gone);
                    }
                }
                other => break other.map_err(|(_, stop)| stop),
            }
        };
        self.catalog.end_statement(txn);
        outcome
    }

    /// UPDATE t SET v = … WHERE id = …; false if there is no such row. READ COMMITTED. Without t,
    /// `Gone`.
    pub async fn update(&self, txn: &mut Transaction, id: i64, v: i64) -> Result<bool, WriteStop> {
        self.write(txn, id, Some(v)).await
    }

    /// DELETE FROM t WHERE id = …
    pub async fn delete(&self, txn: &mut Transaction, id: i64) -> Result<bool, WriteStop> {
        self.write(txn, id, None).await
    }

    async fn write(
        &self,
        txn: &mut Transaction,
        id: i64,
        v: Option<i64>,
    ) -> Result<bool, WriteStop> {
        loop {
            let view = self.statement(txn, true).await;
            let Some(version) = view.tables.get(&self.table).cloned() else {
                self.catalog.end_statement(txn);
                return Err(WriteStop::Gone);
            };
            let Some(rid) = self.find(txn, &version, id) else {
                self.catalog.end_statement(txn);
                return Ok(false);
            };
            Self::note(txn, &version);
            let base = txn.snapshot().ts;
            let at = version.def.columns.iter().position(|c| c.name == "v").expect("v stays");
            let mut columns = vec![at];
            let mut values = vec![v.map_or(Value::Null, Value::Int64)];
            let d = version.def.columns.iter().position(|c| c.name == "d");
            if let (true, Some(d), Some(v)) = (self.keeps_d, d, v) {
                columns.push(d);
                values.push(Value::Int64(double(v)));
            }
            let write = match v {
                Some(_) => RowWrite::Update { rid, columns: &columns, values: &values },
                None => RowWrite::Delete { rid },
            };
            let outcome = version.table.write(txn.part(), base, &[write]);
            self.catalog.end_statement(txn);
            match outcome {
                Ok(()) => return Ok(true),
                Err((_, WriteStop::Busy { holder })) => {
                    if txn.wait_for(holder, &Limits::none()).await.is_err() {
                        return Err(WriteStop::Gone);
                    }
                }
                // READ COMMITTED: with a new read view, again.
                Err((_, WriteStop::Changed | WriteStop::Gone)) => {}
                Err((_, stop)) => return Err(stop),
            }
        }
    }

    /// The row with this id, if the statement sees it.
    pub fn find(&self, txn: &mut Transaction, version: &TableVersion, id: i64) -> Option<RowId> {
        let pk = version.def.primary_key().expect("t has a primary key").spec.id;
        let index = version.table.layout().index_position(pk).expect("bound");
        let part = version.table.layout().indexes[index].key[0];
        let mut encoded = Vec::new();
        key::encode_part(&mut encoded, &Value::Int64(id), &part);
        let mut found = None;
        version.table.seek(
            &txn.snapshot(),
            index,
            &KeyRange::prefix(encoded),
            Direction::Forward,
            &[],
            &mut |rid, _| {
                found = Some(rid);
                ControlFlow::Break(())
            },
        );
        found
    }

    /// SELECT v FROM t WHERE id = …
    pub async fn value(&self, txn: &mut Transaction, id: i64) -> Option<i64> {
        let view = self.statement(txn, false).await;
        let version = &view.tables[&self.table];
        let at = version.def.columns.iter().position(|c| c.name == "v").expect("v stays");
        let (found, mut row) = (self.find(txn, version, id), Vec::new());
        let snapshot = txn.snapshot();
        let there = found.is_some_and(|r| version.table.read_row(&snapshot, r, &[at], &mut row));
        self.catalog.end_statement(txn);
        match row[..] {
            [Value::Int64(v)] if there => Some(v),
            _ => None,
        }
    }

    /// Every row of a table by id: the named columns, read by a full scan.
    pub async fn rows(&self, txn: &mut Transaction, columns: &[&str]) -> Vec<Vec<Value>> {
        let view = self.statement(txn, false).await;
        let version = &view.tables[&self.table];
        let at: Vec<usize> = columns
            .iter()
            .map(|name| {
                let found = version.def.columns.iter().position(|c| c.name == *name);
                found.unwrap_or_else(|| panic!("no column {name} in this version"))
            })
            .collect();
        let rows = World::read(version, &txn.snapshot(), &at);
        self.catalog.end_statement(txn);
        rows
    }

    /// Every row of a table version by id: the columns at these positions, of which the first is the id.
    pub fn read(version: &TableVersion, snapshot: &Snapshot, at: &[usize]) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for block in 0..version.table.block_count() {
            let found = version.table.read_block(snapshot, block, at).expect("a block reads");
            for i in 0..found.rids.len() {
                let value = |(c, p): (usize, &usize)| {
                    let ty = version.table.layout().columns[*p].ty;
                    froglet_engine::batch::value_at(found.batch.column(c), i, ty)
                };
                rows.push(at.iter().enumerate().map(value).collect::<Vec<_>>());
            }
        }
        rows.sort_by_key(|row| match row[0] {
            Value::Int64(id) => id,
            ref other => panic!("an id is never {other:?}"),
        });
        rows
    }

    /// id and v of every row, in order.
    pub async fn pairs(&self, txn: &mut Transaction) -> Vec<Pair> {
        let view = self.statement(txn, false).await;
        let pairs = self.pairs_in(&view, &txn.snapshot());
        self.catalog.end_statement(txn);
        pairs
    }

    /// The same within a statement, that may read several tables.
    pub fn pairs_in(&self, view: &CatalogVersion, snapshot: &Snapshot) -> Vec<Pair> {
        let version = &view.tables[&self.table];
        let at = ["id", "v"].map(|name| {
            let column = version.def.columns.iter().position(|c| c.name == name);
            column.expect("a column of the table")
        });
        let mut rows: Vec<Pair> =
            World::read(version, snapshot, &at).iter().map(|row| pair(row)).collect();
        rows.sort_unstable();
        rows
    }

    pub async fn all(&self, columns: &[&str]) -> Vec<Vec<Value>> {
        let mut txn = self.begin(Isolation::ReadCommitted);
        self.rows(&mut txn, columns).await
    }

    pub fn version(&self) -> Arc<TableVersion> {
        self.catalog.latest().tables[&self.table].clone()
    }

    pub fn id_of(&self, name: &str) -> ColumnId {
        self.version().def.column(name).expect("a column of t").id
    }

    /// ADD COLUMN `name` int8, computed as v * 2 + 1.
    pub fn add_double(&self, name: &str) -> Change {
        Change::AddColumn {
            table: self.table,
            column: column(name, ColumnType::Int64),
            fill: Fill::Compute(Arc::new(Double { inputs: [self.id_of("v")] }), None),
        }
    }

    /// ALTER COLUMN v TYPE int8 USING v * 2 + 1.
    pub fn alter_v(&self) -> Change {
        let v = NewType {
            column: "v".to_owned(),
            ty: ColumnType::Int64,
            sql_type: INT8,
            lazily: None,
            is_exact: false,
            using: Some(Arc::new(Double { inputs: [self.id_of("v")] })),
            default: None,
        };
        let (columns, checks, before) = (vec![v], vec![], None);
        Change::AlterTypes { table: self.table, columns, checks, before }
    }

    /// ADD CONSTRAINT small CHECK (v < limit).
    pub fn add_check(&self, limit: i64) -> Change {
        Change::AddConstraint {
            table: self.table,
            constraint: NewConstraint::Check {
                name: Some("small".to_owned()),
                expression: froglet_schema::Expression(format!("v < {limit}")),
                columns: vec!["v".to_owned()],
                check: Some(Arc::new(Below { inputs: [self.id_of("v")], limit })),
            },
        }
    }

    /// ADD UNIQUE (v).
    pub fn add_unique(&self) -> Change {
        Change::AddConstraint {
            table: self.table,
            constraint: NewConstraint::Unique(NewKey::of(["v"])),
        }
    }
}

/// 2 v + 1
pub struct Double {
    pub inputs: [ColumnId; 1],
}

pub fn double(v: i64) -> i64 {
    2 * v + 1
}

impl Transform for Double {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn eval(&self, batch: &RecordBatch) -> Result<ArrayRef, SchemaError> {
        let v = batch.column(0).as_primitive::<Int64Type>();
        Ok(Arc::new(v.iter().map(|v| v.map(double)).collect::<Int64Array>()))
    }
}

/// A table (id int8, v int8) without a key.
pub fn pairs_table(name: &str) -> NewTable {
    NewTable {
        schema: "public".to_owned(),
        name: name.to_owned(),
        columns: vec![column("id", ColumnType::Int64), column("v", ColumnType::Int64)],
        constraints: vec![],
        dictionary: None,
        home: Home::Memory,
    }
}

/// SELECT id, v * 2 + 1 … WHERE v % 30 <> 0
pub struct SomeDoubled {
    pub inputs: [ColumnId; 2],
}

/// What [`SomeDoubled`] makes of a row.
pub fn some_doubled(id: i64, v: i64) -> Option<(i64, i64)> {
    (v % 30 != 0).then(|| (id, double(v)))
}

impl RowQuery for SomeDoubled {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn eval(&self, batch: &RecordBatch) -> Result<Made, SchemaError> {
        let [id, v] = [0, 1].map(|at| batch.column(at).as_primitive::<Int64Type>());
        let made = (0..batch.num_rows())
            .filter_map(|at| Some((at, some_doubled(id.value(at), v.value(at))?)));
        let (rows, pairs): (Vec<usize>, Vec<(i64, i64)>) = made.unzip();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(pairs.iter().map(|pair| pair.0).collect::<Int64Array>()),
            Arc::new(pairs.iter().map(|pair| pair.1).collect::<Int64Array>()),
        ];
        Ok(Made { rows, columns })
    }

    fn plain(&self, output: usize) -> Option<ColumnId> {
        (output == 0).then_some(self.inputs[0])
    }
}

/// v < limit
pub struct Below {
    pub inputs: [ColumnId; 1],
    pub limit: i64,
}

impl Check for Below {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, SchemaError> {
        let v = batch.column(0).as_primitive::<Int64Type>();
        Ok(v.iter().map(|v| v.map(|v| v < self.limit)).collect())
    }

    fn violation(&self, row: &[Value]) -> SchemaError {
        SchemaError::refused(SqlState::CHECK_VIOLATION, "check constraint \"small\" is violated")
            .with_detail(format!("v is {:?}, the limit {}.", row[0], self.limit))
    }
}

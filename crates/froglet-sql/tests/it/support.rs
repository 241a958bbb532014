//! A database in memory and clients of it that speak text.

use std::sync::Arc;

use froglet_memory::{MemoryEngine, MemoryOptions};
use froglet_sql::types::{value_text, write_text};
use froglet_sql::{
    ConnectOptions, Database, Defaults, Field, Outcome, Prepared, RowStream, Rows, Session,
    SqlError,
};

/// A fresh database.
pub async fn database() -> Arc<Database> {
    let engine = MemoryEngine::open(MemoryOptions::default()).expect("an engine without files");
    Database::open(engine, Defaults::default()).await.expect("an empty catalog opens")
}

/// What a statement came to, as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Rows as text (`NULL` is `None`), and the tag.
    Rows(Vec<Vec<Option<String>>>, String),
    /// The tag.
    Done(String),
}

impl Answer {
    pub fn rows(self) -> Vec<Vec<Option<String>>> {
        match self {
            Answer::Rows(rows, _) => rows,
            Answer::Done(tag) => panic!("expected rows, got {tag}"),
        }
    }

    pub fn tag(&self) -> &str {
        match self {
            Answer::Rows(_, tag) | Answer::Done(tag) => tag,
        }
    }
}

/// A client.
pub struct Client {
    pub session: Session,
}

impl Client {
    pub fn connect(db: &Arc<Database>) -> Client {
        let session = db.connect(ConnectOptions::default()).expect("connects");
        Client { session }
    }

    /// A simple query message: all of its statements, the last answer.
    pub async fn run(&mut self, sql: &str) -> Result<Answer, SqlError> {
        let outcome = self.message(sql).await;
        let finished = self.session.finish_implicit(outcome.is_ok()).await;
        let answer = outcome?;
        finished?;
        Ok(answer)
    }

    async fn message(&mut self, sql: &str) -> Result<Answer, SqlError> {
        if let Some((prepared, values)) = self.session.recall(sql) {
            return self.execute_inner(&prepared, values).await;
        }
        let mut last = Answer::Done(String::new());
        for statement in self.session.split(sql)? {
            last = match self.session.simple(&statement).await? {
                Outcome::Rows(stream) => self.drain(stream).await?,
                Outcome::Done(tag) => Answer::Done(tag.into()),
                Outcome::CopyOut(mut copy) => {
                    let mut lines = Vec::new();
                    while let Some(rows) = copy.next().await {
                        rows?.messages().for_each(|row| lines.extend_from_slice(row));
                    }
                    let text = String::from_utf8(lines).expect("text");
                    let rows = text.lines().map(|l| vec![Some(l.to_owned())]).collect();
                    Answer::Rows(rows, copy.tag().into())
                }
                Outcome::CopyIn(_) | Outcome::Empty => Answer::Done(String::new()),
            };
        }
        Ok(last)
    }

    /// COPY … FROM STDIN with this data, in one message.
    pub async fn copy(&mut self, sql: &str, data: &[u8]) -> Result<String, SqlError> {
        let outcome = self.copy_inner(sql, data).await;
        let finished = self.session.finish_implicit(outcome.is_ok()).await;
        let tag = outcome?;
        finished?;
        Ok(tag)
    }

    async fn copy_inner(&mut self, sql: &str, data: &[u8]) -> Result<String, SqlError> {
        let statement = self.session.split(sql)?.remove(0);
        let Outcome::CopyIn(mut copy) = self.session.simple(&statement).await? else {
            panic!("not a COPY FROM: {sql}");
        };
        for piece in data.chunks(7) {
            copy.feed(&mut self.session, piece).await?;
        }
        copy.finish(&mut self.session).await.map(String::from)
    }

    /// Rows, or a panic with the error.
    pub async fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        match self.run(sql).await {
            Ok(answer) => answer.rows(),
            Err(e) => panic!("{sql}: {} {} {:?}", e.state, e.message, e.detail),
        }
    }

    /// Rows, each as `a|b|`, NULL as `∅`.
    pub async fn lines(&mut self, sql: &str) -> Vec<String> {
        let rows = self.rows(sql).await;
        rows.iter().map(|row| line(row)).collect()
    }

    /// The tag, or a panic with the error.
    pub async fn ok(&mut self, sql: &str) -> String {
        match self.run(sql).await {
            Ok(answer) => answer.tag().to_owned(),
            Err(e) => panic!("{sql}: {} {} {:?}", e.state, e.message, e.detail),
        }
    }

    /// The error's code and message.
    pub async fn error(&mut self, sql: &str) -> SqlError {
        match self.run(sql).await {
            Ok(answer) => panic!("{sql}: expected an error, got {answer:?}"),
            Err(e) => e,
        }
    }

    pub async fn code(&mut self, sql: &str) -> String {
        self.error(sql).await.state.to_string()
    }

    /// Parse, as the extended protocol does.
    pub async fn prepare(&mut self, sql: &str) -> Result<Arc<Prepared>, SqlError> {
        let statement = self.session.split(sql)?.remove(0);
        self.session.prepare(&statement, &[]).await
    }

    /// Bind, Execute, Sync. Parameters are text.
    pub async fn execute(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &[&str],
    ) -> Result<Answer, SqlError> {
        let types = prepared.params().iter().zip(prepared.param_types());
        let values = params
            .iter()
            .zip(types)
            .map(|(text, (ty, column))| froglet_sql::types::from_text(*ty, *column, text))
            .collect::<Result<_, _>>();
        let outcome = match values {
            Ok(values) => self.execute_inner(prepared, values).await,
            Err(e) => Err(e),
        };
        let finished = self.session.finish_implicit(outcome.is_ok()).await;
        let answer = outcome?;
        finished?;
        Ok(answer)
    }

    async fn execute_inner(
        &mut self,
        prepared: &Arc<Prepared>,
        mut values: Vec<froglet_engine::Value>,
    ) -> Result<Answer, SqlError> {
        let outcome = match self.session.run_at_once(prepared, &mut values) {
            Some(outcome) => outcome?,
            None => self.session.run(prepared, values).await?,
        };
        match outcome {
            Outcome::Rows(stream) => self.drain(stream).await,
            Outcome::Done(tag) => Ok(Answer::Done(tag.into())),
            _ => Ok(Answer::Done(String::new())),
        }
    }

    /// All rows of a result.
    pub async fn drain(&mut self, mut stream: RowStream) -> Result<Answer, SqlError> {
        let fields = stream.fields().clone();
        let mut rows = Vec::new();
        while let Some(batch) = stream.next().await {
            match batch {
                Ok(batch) => {
                    self.session.zone().run(|| render(&fields, &batch, &mut rows));
                }
                Err(e) => {
                    self.session.note_failure();
                    return Err(e);
                }
            }
        }
        let tag = stream.tag(rows.len() as u64);
        Ok(Answer::Rows(rows, tag.into()))
    }
}

pub fn line(row: &[Option<String>]) -> String {
    let cells: Vec<&str> = row.iter().map(|cell| cell.as_deref().unwrap_or("∅")).collect();
    cells.join("|")
}

fn render(fields: &[Field], rows: &Rows, out: &mut Vec<Vec<Option<String>>>) {
    let text = |bytes: Vec<u8>| Some(String::from_utf8(bytes).expect("text is UTF-8"));
    match rows {
        Rows::Values(rows) => {
            for row in rows {
                assert_eq!(row.len(), fields.len(), "a row has a value for each field");
                let cells = row.iter().zip(fields).map(|(value, field)| {
                    if value.is_null() {
                        return None;
                    }
                    let mut bytes = Vec::new();
                    let ty = field.ty.expect("rows of values have stored types");
                    value_text(value, ty, field.sql_type.oid, &mut bytes);
                    text(bytes)
                });
                out.push(cells.collect());
            }
        }
        Rows::Batch(batch) => {
            assert_eq!(batch.num_columns(), fields.len(), "a batch has a column for each field");
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().zip(fields).map(|(array, field)| {
                    if array.is_null(row) {
                        return None;
                    }
                    let mut bytes = Vec::new();
                    write_text(array.as_ref(), row, field.sql_type.oid, &mut bytes);
                    text(bytes)
                });
                out.push(cells.collect());
            }
        }
    }
}

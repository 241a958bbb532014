//! Functions of SQL/JSON paths, those behind `@?` and `@@` among them. With the suffix `_tz` they may use the session's
//! zone in `datetime()`, which Froglet has not, so that they are the same.

use super::overload::Overload;
use super::simple::{Out, text, truth};
use crate::error::SqlError;
use crate::types::cell::Cell;
use crate::types::json::jsonpath::{Path, Question};
use crate::types::json::{Json, canonical, read};
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

const ALL_4: &[u32] = &[JSONB, JSONPATH, JSONB, BOOL];
const OPERANDS: &[u32] = &[JSONB, JSONPATH];

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("jsonb_path_exists", ALL_4, BOOL, |_, c| exists(c)).optional(2),
    Overload::new("jsonb_path_exists_tz", ALL_4, BOOL, |_, c| exists(c)).optional(2),
    Overload::new("jsonb_path_match", ALL_4, BOOL, |_, c| matches(c)).optional(2),
    Overload::new("jsonb_path_match_tz", ALL_4, BOOL, |_, c| matches(c)).optional(2),
    // Behind jsonb_path_query: `crate::rewrite_json`.
    Overload::new("jsonb_path_query_list", ALL_4, TEXT_ARRAY, |_, c| query(c)).optional(2),
    Overload::new("jsonb_path_query_array", ALL_4, JSONB, |_, c| array(c)).optional(2),
    Overload::new("jsonb_path_query_array_tz", ALL_4, JSONB, |_, c| array(c)).optional(2),
    Overload::new("jsonb_path_query_first", ALL_4, JSONB, |_, c| first(c)).optional(2),
    Overload::new("jsonb_path_query_first_tz", ALL_4, JSONB, |_, c| first(c)).optional(2),
    Overload::new("jsonb_path_exists_opr", OPERANDS, BOOL, |_, c| {
        asked(c, true, |question| question.exists().map(of_truth))
    }),
    Overload::new("jsonb_path_match_opr", OPERANDS, BOOL, |_, c| {
        asked(c, true, |question| question.matches().map(of_truth))
    }),
];

fn of_truth(truth: Option<bool>) -> Out {
    truth.map_or(Out::Null, Out::Bool)
}

/// The answer to what a call asks. An operator has no variables, and is silent.
fn asked(cells: Cells<'_>, is_operator: bool, answer: impl Fn(&Question<'_>) -> Answer) -> Answer {
    let path = Path::of(text(cells, 1))?;
    let json = read(text(cells, 0))?;
    let vars = match cells.get(2) {
        Some(_) => Some(read(text(cells, 2))?),
        None if is_operator => None,
        None => Some(Json::Object(Vec::new())),
    };
    let silent = is_operator || truth(cells, 3).unwrap_or(false);
    answer(&Question { path: &path, json: &json, vars: vars.as_ref(), silent })
}

fn exists(cells: Cells<'_>) -> Answer {
    asked(cells, false, |question| question.exists().map(of_truth))
}

fn matches(cells: Cells<'_>) -> Answer {
    asked(cells, false, |question| question.matches().map(of_truth))
}

fn query(cells: Cells<'_>) -> Answer {
    asked(cells, false, |question| {
        let items = question.items()?;
        Ok(Out::Texts(items.iter().map(|item| canonical(item)).collect()))
    })
}

fn array(cells: Cells<'_>) -> Answer {
    asked(cells, false, |question| {
        let items = question.items()?.into_iter().map(|item| item.into_owned().into());
        Ok(Out::Text(canonical(&Json::Array(items.collect()))))
    })
}

fn first(cells: Cells<'_>) -> Answer {
    asked(cells, false, |question| {
        let items = question.items()?;
        Ok(items.first().map(|item| canonical(item)).into())
    })
}

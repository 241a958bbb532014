//! Functions in FROM without arguments, whose rows are those of a system table.

use std::sync::Arc;

use datafusion::catalog::{TableFunction, TableFunctionImpl};
use datafusion::datasource::TableProvider;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

use super::keywords;
use crate::df_error;
use crate::pgcatalog::{self, Columns, Fill, Rows, cluster};
use crate::provider::QueryScope;
use crate::system_row as row;

/// A function: its name, its columns, and what fills its rows.
struct OfSystem {
    name: &'static str,
    columns: &'static str,
    fill: fn(&QueryScope, &mut Rows),
}

const ALL: &[OfSystem] = &[
    OfSystem {
        name: "pg_get_keywords",
        columns: "word text, catcode char, barelabel bool, catdesc text, baredesc text",
        fill: keyword_rows,
    },
    OfSystem { name: "pg_show_all_settings", columns: SETTINGS, fill: cluster::settings },
    OfSystem {
        name: "pg_available_extensions",
        columns: "name name, default_version text, comment text",
        fill: nothing,
    },
    OfSystem {
        name: "pg_available_extension_versions",
        columns: "name name, version text, superuser bool, trusted bool, relocatable bool, schema \
            name, requires _name, comment text",
        fill: nothing,
    },
    OfSystem {
        name: "pg_prepared_xact",
        columns: "transaction xid, gid text, prepared timestamptz, ownerid oid, dbid oid",
        fill: nothing,
    },
    OfSystem {
        name: "pg_get_replication_slots",
        columns: "slot_name name, plugin name, slot_type text, datoid oid, temporary bool, active \
            bool, active_pid int4, xmin xid, catalog_xmin xid, restart_lsn text, \
            confirmed_flush_lsn text, wal_status text, safe_wal_size int8, two_phase bool",
        fill: nothing,
    },
];

/// The columns of pg_settings.
const SETTINGS: &str = "name text, setting text, unit text, category text, short_desc text, \
    extra_desc text, context text, vartype text, source text, min_val text, max_val text, enumvals \
    _text, boot_val text, reset_val text, sourcefile text, sourceline int4, pending_restart bool";

/// The functions.
pub(crate) fn all() -> Vec<Arc<TableFunction>> {
    let made = |of: &'static OfSystem| TableFunction::new(of.name.to_owned(), Arc::new(Call(of)));
    ALL.iter().map(|of| Arc::new(made(of))).collect()
}

struct Call(&'static OfSystem);

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}

impl TableFunctionImpl for Call {
    fn call(&self, arguments: &[Expr]) -> Result<Arc<dyn TableProvider>> {
        let Call(of) = self;
        if !arguments.is_empty() {
            return Err(df_error::no_function(of.name).into());
        }
        let fill: Fill = Arc::new(|scope: &QueryScope, rows: &mut Rows| {
            (of.fill)(scope, rows);
            Ok(())
        });
        Ok(pgcatalog::virtual_table(Columns::parse(of.columns), fill))
    }
}

fn nothing(_scope: &QueryScope, _rows: &mut Rows) {}

fn keyword_rows(_scope: &QueryScope, rows: &mut Rows) {
    for keyword in keywords::all() {
        row!(rows;
            word: keyword.word,
            catcode: keyword.category,
            barelabel: keyword.bare_label,
            catdesc: keyword.category_text(),
            baredesc: keyword.label_text(),
        );
    }
}

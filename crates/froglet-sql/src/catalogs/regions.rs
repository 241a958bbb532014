//! froglet.regions: where the rows of each table are in a distributed store, and who leads what has them.

use froglet_engine::{Home, ReadFailed};

use crate::pgcatalog::Rows;
use crate::pgcatalog::relations::tables;
use crate::provider::QueryScope;
use crate::system_row as row;
use crate::types::output;

fn hex(key: &[u8]) -> String {
    let mut digits = Vec::new();
    output::hex(key, &mut digits);
    String::from_utf8(digits).expect("hexadecimal digits")
}

/// A row for each region of each table.
pub(crate) fn regions(scope: &QueryScope, rows: &mut Rows) {
    let of_cluster = |home: Home| home == Home::Cluster;
    for table in tables(&scope.catalog).into_iter().filter(|t| of_cluster(t.def.space.home())) {
        let found = table.table.regions().unwrap_or_else(|error| ReadFailed::unwind(error));
        for region in found.regions {
            row!(rows;
                schema_name: &table.def.schema,
                table_name: &table.def.name,
                table_start: hex(&found.start),
                table_end: hex(&found.end),
                region: region.id,
                region_start: hex(&region.start),
                region_end: hex(&region.end),
                leader: region.leader,
                peers: region.peers,
                approximate_bytes: region.bytes,
                approximate_keys: region.keys,
            );
        }
    }
}

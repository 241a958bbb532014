//! Where TPC-C's tables are (section 6.4).

use froglet_engine::Home;

use crate::tpcc::schema::TableName;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All in memory ("pure-ermia").
    Memory,
    /// All on disk ("pure-innodb").
    Disk,
    /// CUSTOMER in memory, which Payment is busy with.
    OptimizePayment,
    /// CUSTOMER and ITEM in memory, for New-Order.
    OptimizeNewOrder,
    /// HISTORY on disk, which is only appended to.
    ArchiveOnly,
}

impl Placement {
    /// Every one.
    pub const ALL: [Placement; 5] = [
        Placement::Memory,
        Placement::Disk,
        Placement::OptimizePayment,
        Placement::OptimizeNewOrder,
        Placement::ArchiveOnly,
    ];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Placement::Memory => "froglet, all memory",
            Placement::Disk => "froglet, all disk",
            Placement::OptimizePayment => "froglet, Optimize-payment",
            Placement::OptimizeNewOrder => "froglet, Optimize-new-order",
            Placement::ArchiveOnly => "froglet, Archive-only",
        }
    }

    /// Whether its transactions are of both engines.
    pub fn is_over_both(self) -> bool {
        !matches!(self, Placement::Memory | Placement::Disk)
    }

    /// Where a table is.
    pub fn home(self, table: TableName) -> Home {
        let in_memory = match self {
            Placement::Memory => true,
            Placement::Disk => false,
            Placement::OptimizePayment => table == TableName::Customer,
            Placement::OptimizeNewOrder => {
                matches!(table, TableName::Customer | TableName::Item)
            }
            Placement::ArchiveOnly => table != TableName::History,
        };
        if in_memory { Home::Memory } else { Home::Disk }
    }

    /// What stands behind a table's definition.
    pub fn using(self, table: TableName) -> &'static str {
        match self.home(table) {
            Home::Memory => " USING memory",
            Home::Disk => " USING disk",
            Home::Cluster => unreachable!("these tables are in memory or on disk"),
        }
    }

    /// Whether what is in memory grows with every order, so that no limit of memory holds for long.
    pub fn grows_in_memory(self) -> bool {
        self.home(TableName::OrderLine) == Home::Memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::schema::TABLES;

    #[test]
    fn tables_are_where_the_paper_has_them() {
        let in_memory = Placement::ALL.map(|placement| {
            TABLES.into_iter().filter(|table| placement.home(*table) == Home::Memory).count()
        });
        assert_eq!(in_memory, [9, 0, 1, 2, 8]);
    }
}

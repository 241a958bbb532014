//! TPC-C's nine tables (clause 1.3) as layouts: column positions as constants, keys as indexes.

use froglet_engine::Value;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, IndexId, IndexSpec, KeyPart, Layout, SpaceId,
};

const INT: ColumnType = ColumnType::Int32;
const TEXT: ColumnType = ColumnType::Text;
const TIME: ColumnType = ColumnType::Timestamp;
/// Money has two digits after the point.
const MONEY: ColumnType = ColumnType::Decimal { precision: 12, scale: 2 };
/// Taxes and discounts have four.
const RATE: ColumnType = ColumnType::Decimal { precision: 4, scale: 4 };

macro_rules! table {
    ($(#[$doc:meta])* $table:ident { $($column:ident: $ty:expr,)* }) => {
        $(#[$doc])*
        #[allow(missing_docs)] // the names are the specification's
        pub mod $table {
            #[allow(unused_imports)]
            use super::*;

            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Position { $($column,)* }
            $(pub const $column: usize = Position::$column as usize;)*
            pub const TYPES: &[ColumnType] = &[$($ty,)*];
        }
    };
}

table! {
    /// WAREHOUSE
    warehouse {
        W_ID: INT, W_NAME: TEXT, W_STREET_1: TEXT, W_STREET_2: TEXT, W_CITY: TEXT, W_STATE: TEXT,
        W_ZIP: TEXT, W_TAX: RATE, W_YTD: MONEY,
    }
}
table! {
    /// DISTRICT
    district {
        D_ID: INT, D_W_ID: INT, D_NAME: TEXT, D_STREET_1: TEXT, D_STREET_2: TEXT, D_CITY: TEXT,
        D_STATE: TEXT, D_ZIP: TEXT, D_TAX: RATE, D_YTD: MONEY, D_NEXT_O_ID: INT,
    }
}
table! {
    /// CUSTOMER
    customer {
        C_ID: INT, C_D_ID: INT, C_W_ID: INT, C_FIRST: TEXT, C_MIDDLE: TEXT, C_LAST: TEXT,
        C_STREET_1: TEXT, C_STREET_2: TEXT, C_CITY: TEXT, C_STATE: TEXT, C_ZIP: TEXT,
        C_PHONE: TEXT, C_SINCE: TIME, C_CREDIT: TEXT, C_CREDIT_LIM: MONEY, C_DISCOUNT: RATE,
        C_BALANCE: MONEY, C_YTD_PAYMENT: MONEY, C_PAYMENT_CNT: INT, C_DELIVERY_CNT: INT,
        C_DATA: TEXT,
    }
}
table! {
    /// HISTORY
    history {
        H_C_ID: INT, H_C_D_ID: INT, H_C_W_ID: INT, H_D_ID: INT, H_W_ID: INT, H_DATE: TIME,
        H_AMOUNT: MONEY, H_DATA: TEXT,
    }
}
table! {
    /// NEW-ORDER
    new_order {
        NO_O_ID: INT, NO_D_ID: INT, NO_W_ID: INT,
    }
}
table! {
    /// ORDER
    order {
        O_ID: INT, O_D_ID: INT, O_W_ID: INT, O_C_ID: INT, O_ENTRY_D: TIME, O_CARRIER_ID: INT,
        O_OL_CNT: INT, O_ALL_LOCAL: INT,
    }
}
table! {
    /// ORDER-LINE
    order_line {
        OL_O_ID: INT, OL_D_ID: INT, OL_W_ID: INT, OL_NUMBER: INT, OL_I_ID: INT,
        OL_SUPPLY_W_ID: INT, OL_DELIVERY_D: TIME, OL_QUANTITY: INT, OL_AMOUNT: MONEY,
        OL_DIST_INFO: TEXT,
    }
}
table! {
    /// ITEM
    item {
        I_ID: INT, I_IM_ID: INT, I_NAME: TEXT, I_PRICE: MONEY, I_DATA: TEXT,
    }
}
table! {
    /// STOCK; the ten S_DIST_xx follow each other from `S_DIST_01` on.
    stock {
        S_I_ID: INT, S_W_ID: INT, S_QUANTITY: INT, S_DIST_01: TEXT, S_DIST_02: TEXT,
        S_DIST_03: TEXT, S_DIST_04: TEXT, S_DIST_05: TEXT, S_DIST_06: TEXT, S_DIST_07: TEXT,
        S_DIST_08: TEXT, S_DIST_09: TEXT, S_DIST_10: TEXT, S_YTD: INT, S_ORDER_CNT: INT,
        S_REMOTE_CNT: INT, S_DATA: TEXT,
    }
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TableName {
    Warehouse,
    District,
    Customer,
    History,
    NewOrder,
    Order,
    OrderLine,
    Item,
    Stock,
}

/// Every table, in the order of [`TableName`].
pub const TABLES: [TableName; 9] = [
    TableName::Warehouse,
    TableName::District,
    TableName::Customer,
    TableName::History,
    TableName::NewOrder,
    TableName::Order,
    TableName::OrderLine,
    TableName::Item,
    TableName::Stock,
];

/// An index: the primary keys, and two more (clause 1.4 leaves them to the implementer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Index {
    Warehouse,
    District,
    Customer,
    NewOrder,
    Order,
    OrderLine,
    Item,
    Stock,
    /// (w, d, last name, first name)
    CustomerByName,
    /// (w, d, customer, order)
    OrderByCustomer,
}

impl Index {
    /// Its table and its position in the table's layout.
    pub fn place(self) -> (TableName, usize) {
        match self {
            Index::Warehouse => (TableName::Warehouse, 0),
            Index::District => (TableName::District, 0),
            Index::Customer => (TableName::Customer, 0),
            Index::NewOrder => (TableName::NewOrder, 0),
            Index::Order => (TableName::Order, 0),
            Index::OrderLine => (TableName::OrderLine, 0),
            Index::Item => (TableName::Item, 0),
            Index::Stock => (TableName::Stock, 0),
            Index::CustomerByName => (TableName::Customer, 1),
            Index::OrderByCustomer => (TableName::Order, 1),
        }
    }
}

impl TableName {
    /// Its row space, in memory.
    pub fn space(self) -> SpaceId {
        SpaceId(self as u32 + 1)
    }

    /// The types of its columns, in order.
    pub fn types(self) -> &'static [ColumnType] {
        match self {
            TableName::Warehouse => warehouse::TYPES,
            TableName::District => district::TYPES,
            TableName::Customer => customer::TYPES,
            TableName::History => history::TYPES,
            TableName::NewOrder => new_order::TYPES,
            TableName::Order => order::TYPES,
            TableName::OrderLine => order_line::TYPES,
            TableName::Item => item::TYPES,
            TableName::Stock => stock::TYPES,
        }
    }

    /// The columns of its unique key and of a second index; empty for none.
    fn keys(self) -> (&'static [usize], &'static [usize]) {
        match self {
            TableName::Warehouse => (&[warehouse::W_ID], &[]),
            TableName::District => (&[district::D_W_ID, district::D_ID], &[]),
            TableName::Customer => (
                &[customer::C_W_ID, customer::C_D_ID, customer::C_ID],
                &[customer::C_W_ID, customer::C_D_ID, customer::C_LAST, customer::C_FIRST],
            ),
            TableName::History => (&[], &[]),
            TableName::NewOrder => {
                (&[new_order::NO_W_ID, new_order::NO_D_ID, new_order::NO_O_ID], &[])
            }
            TableName::Order => (
                &[order::O_W_ID, order::O_D_ID, order::O_ID],
                &[order::O_W_ID, order::O_D_ID, order::O_C_ID, order::O_ID],
            ),
            TableName::OrderLine => {
                let key = &[
                    order_line::OL_W_ID,
                    order_line::OL_D_ID,
                    order_line::OL_O_ID,
                    order_line::OL_NUMBER,
                ];
                (key, &[])
            }
            TableName::Item => (&[item::I_ID], &[]),
            TableName::Stock => (&[stock::S_W_ID, stock::S_I_ID], &[]),
        }
    }

    /// Its layout.
    pub fn layout(self) -> Layout {
        let column = |(at, ty): (usize, &ColumnType)| ColumnSpec {
            id: column_id(at),
            ty: *ty,
            missing: Value::Null,
        };
        let (unique, other) = self.keys();
        let index = |n: u32, key: &[usize], unique| IndexSpec {
            id: IndexId(self as u32 * 2 + n),
            key: key.iter().map(|&at| part(at)).collect(),
            unique,
            unique_at_commit: false,
            nulls: Default::default(),
        };
        let indexes = [(0, unique, true), (1, other, false)]
            .into_iter()
            .filter(|(_, key, _)| !key.is_empty())
            .map(|(n, key, unique)| index(n, key, unique))
            .collect();
        Layout {
            columns: self.types().iter().enumerate().map(column).collect(),
            indexes,
            row_key: None,
        }
    }
}

fn column_id(at: usize) -> ColumnId {
    ColumnId(u32::try_from(at).expect("a table has a few columns") + 1)
}

fn part(at: usize) -> KeyPart {
    KeyPart { column: column_id(at), descending: false, nulls_first: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_its_layout_and_every_index_its_place() {
        for (at, table) in TABLES.into_iter().enumerate() {
            assert_eq!(table as usize, at);
            let layout = table.layout();
            assert_eq!(layout.columns.len(), table.types().len());
            let part_known = |p: &KeyPart| layout.position(p.column).is_some();
            assert!(layout.indexes.iter().all(|i| i.key.iter().all(part_known)));
        }
        assert_eq!(Index::CustomerByName.place().0.layout().indexes[1].key.len(), 4);
        assert_eq!(stock::S_DIST_10, stock::S_DIST_01 + 9);
    }
}

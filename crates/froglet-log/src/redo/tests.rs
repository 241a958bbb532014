//! Every record comes back, and no bytes make the decoder panic.

use super::*;
use froglet_engine::{ColumnType, Interval, numeric};

fn values() -> Vec<Value> {
    vec![
        Value::Null,
        Value::Bool(true),
        Value::Int16(i16::MIN),
        Value::Int32(-7),
        Value::Int64(i64::MAX),
        Value::Float32(1.5),
        Value::Float64(-2.5),
        Value::Decimal(-3),
        Value::Decimal(i128::MAX),
        Value::text("a text that is longer than a view"),
        Value::Bytes([0, 1, 255].into()),
        Value::Date(-1),
        Value::Timestamp(i64::MIN),
        Value::TimestampTz(9),
        Value::Uuid([7; 16]),
        Value::Time(86_400_000_000),
        Value::Interval(Interval { months: i32::MIN, days: 3, us: -Interval::MAX_US }),
        Value::Numeric(numeric::of_unscaled(i128::MIN, 40)),
    ]
}

fn operations() -> (Vec<Operation>, Vec<u8>) {
    let (space, rid) = (SpaceId(300), RowId(1 << 40));
    let values = values();
    let cells: Vec<(ColumnId, Value)> =
        values.iter().enumerate().map(|(i, v)| (ColumnId(i as u32 * 100), v.clone())).collect();
    let mut txn = Vec::new();
    insert(&mut txn, space, rid, cells.iter().map(|(c, v)| (*c, v)));
    update(&mut txn, space, rid, cells[..2].iter().map(|(c, v)| (*c, v)));
    delete(&mut txn, space, rid);
    keep(&mut txn, u64::MAX, &[space, SpaceId(0)]);
    let operations = vec![
        Operation::Insert { space, rid, cells: cells.clone() },
        Operation::Update { space, rid, cells: cells[..2].to_vec() },
        Operation::Delete { space, rid },
        Operation::Keep { keeper: u64::MAX, spaces: vec![space, SpaceId(0)] },
    ];
    (operations, txn)
}

/// A transaction in one part, and in several; whole ones, and halves.
fn transactions() -> Vec<(Option<u64>, Vec<u8>)> {
    let (_, bytes) = operations();
    let old = [&[OLD_LONG_TXN], &bytes[..], &99u64.to_le_bytes()].concat();
    let mut all = vec![(None, old)];
    for half in [None, Some(1 << 50)] {
        let mut short = Vec::new();
        txn_head(&mut short, half, 99);
        short.extend_from_slice(&bytes);
        all.push((half, short));
        all.push((half, [&[LONG_TXN], &bytes[..], &long_end(half, 99)].concat()));
    }
    all
}

fn decoded(record: &[u8]) -> Result<(u64, Vec<Operation>), Malformed> {
    let transaction = transaction(record).expect("it is one")?;
    Ok((transaction.ts, transaction.operations.collect::<Result<_, _>>()?))
}

fn samples() -> Vec<(Entry, Vec<u8>)> {
    let space = SpaceId(300);
    let values = values();
    let columns = vec![
        ColumnSpec { id: ColumnId(1), ty: ColumnType::Text, missing: Value::text("x") },
        ColumnSpec {
            id: ColumnId(2),
            ty: ColumnType::Decimal { precision: 10, scale: 2 },
            missing: Value::Null,
        },
    ];
    let fill = Fill {
        ts: 5,
        space,
        block: 77,
        columns: vec![ColumnId(1), ColumnId(2)],
        slots: vec![0, 8191],
        values: values[..4].to_vec(),
    };
    let mut note = note_head(1 << 63);
    note.extend_from_slice(b"value");
    vec![
        (Entry::Declare { space, columns: columns.clone() }, declare(space, &columns)),
        (Entry::Fill(fill.clone()), fill.encode()),
        (Entry::Note { key: 1 << 63, value: b"value".to_vec() }, note),
        (Entry::CreateSpace(space), create_space(space)),
        (Entry::DropSpace(space), drop_space(space)),
        (Entry::DropColumn { space, column: ColumnId(3) }, drop_column(space, ColumnId(3))),
        (Entry::DropIndex { space, index: IndexId(3) }, drop_index(space, IndexId(3))),
        (Entry::DeclareIndex { space, definition: b"{}".to_vec() }, declare_index(space, b"{}")),
        (
            Entry::IndexEntries {
                space,
                index: IndexId(9),
                entries: vec![(RowId(1), b"key".to_vec()), (RowId(1 << 50), vec![])],
            },
            index_entries(
                space,
                IndexId(9),
                &[(RowId(1), b"key".to_vec()), (RowId(1 << 50), vec![])],
            ),
        ),
        (
            Entry::Keeper { keeper: 7, floor: 1 << 40, spaces: vec![space] },
            keeper(7, 1 << 40, &[space]),
        ),
        (Entry::Keeper { keeper: 7, floor: 0, spaces: vec![] }, keeper(7, 0, &[])),
    ]
}

#[test]
fn every_record_comes_back() {
    for (entry, bytes) in samples() {
        assert_eq!(Entry::decode(&bytes), Ok(entry));
        assert!(transaction(&bytes).is_none());
    }
    for (half, record) in transactions() {
        assert_eq!(decoded(&record), Ok((99, operations().0)));
        assert_eq!(half_of(&record), Ok(half));
    }
}

#[test]
fn cells_are_skipped_as_they_are_taken() {
    let values = values();
    let cells = || values.iter().enumerate().map(|(i, v)| (ColumnId(i as u32), v));
    let mut bytes = Vec::new();
    put_cells(&mut bytes, cells());
    for (wanted, value) in values.iter().enumerate() {
        let mut read = Cells::new(&bytes).expect("cells");
        while let Some(column) = read.column().expect("cells") {
            match column.0 as usize == wanted {
                true => assert_eq!(read.take(), Ok(value.clone())),
                false => read.skip().expect("cells"),
            }
        }
    }
}

#[test]
fn a_number_that_is_none_is_refused() {
    for bytes in [&[0x31, 0, 0][..], &[0x40, 0x80, 0, 0, 0, 0, 0], &[0x30]] {
        let spec = |missing| ColumnSpec { id: ColumnId(1), ty: ColumnType::Numeric, missing };
        let record = declare(SpaceId(7), &[spec(Value::Numeric(bytes.into()))]);
        let error = Entry::decode(&record).expect_err("no number");
        assert!(error.what.contains("is no number"), "{error:?}");
    }
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let decode = |bytes: &[u8]| match transaction(bytes) {
        Some(Ok(transaction)) => transaction.operations.for_each(drop),
        Some(Err(_)) => {}
        None => drop(Entry::decode(bytes)),
    };
    let transactions = transactions().into_iter().map(|(_, bytes)| bytes);
    for bytes in samples().into_iter().map(|(_, bytes)| bytes).chain(transactions) {
        for cut in 0..bytes.len() {
            decode(&bytes[..cut]);
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut broken = bytes.clone();
                broken[at] ^= flip;
                decode(&broken);
            }
        }
    }
}

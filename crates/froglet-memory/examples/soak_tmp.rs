use froglet_engine::*;
use froglet_memory::*;
use std::sync::Arc;
fn main() {
    let dir = std::env::args().nth(1);
    let mut o = MemoryOptions::default();
    o.data_dir = dir.map(Into::into);
    let e = MemoryEngine::open(o).unwrap();
    e.create_space(SpaceId(1)).unwrap();
    let c = |i, ty| ColumnSpec { id: ColumnId(i), ty, missing: Value::Null };
    let l = Arc::new(Layout { columns: vec![c(1, ColumnType::Int64), c(2, ColumnType::Text)], indexes: vec![IndexSpec{id:IndexId(1),unique:true,key:vec![KeyPart{column:ColumnId(1),descending:false,nulls_first:false}]}] });
    let t = Arc::new(e.open_table(SpaceId(1), l).unwrap());
    let mut x = e.begin_txn(TxnId(1));
    let rids: Vec<_> = (0..10).map(|i| t.insert_row(&mut x, &[Value::Int64(i), Value::text("x")]).unwrap()).collect();
    x.commit().unwrap();
    let start = std::time::Instant::now();
    let hs: Vec<_> = (0..2u64).map(|w| { let (e, t, rids) = (e.clone(), t.clone(), rids.clone()); std::thread::spawn(move || {
        let mut n = 0u64; let mut key = 1000 + w as i64;
        while start.elapsed().as_secs() < 12 {
            n += 1;
            let mut x = e.begin_txn(TxnId(10 + n * 2 + w));
            let base = x.snapshot().ts;
            let rid = rids[(w * 5 + n % 5) as usize];
            t.update_row(&mut x, base, rid, &[1], &[Value::text("y".repeat(20 + (n % 200) as usize))]).unwrap();
            if n % 3 == 0 { t.update_row(&mut x, base, rid, &[0], &[Value::Int64(key)]).unwrap(); key += 2; }
            if n % 5 == 0 { let r = t.insert_row(&mut x, &[Value::Int64(-key), Value::text("q".repeat(50))]).unwrap(); if n % 10 == 0 { t.delete_row(&mut x, base, r).unwrap(); } else { x.commit().unwrap(); let mut y = e.begin_txn(TxnId(1_000_000_000 + n * 2 + w)); let base = y.snapshot().ts; t.delete_row(&mut y, base, r).unwrap(); y.commit().unwrap(); key += 2; continue; } key += 2; }
            x.commit().unwrap();
        }
        n })}).collect();
    for _ in 0..6 { std::thread::sleep(std::time::Duration::from_secs(2));
        let rss = std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmRSS")).unwrap().to_string();
        println!("{} MB counted, {rss}, entries {}, rows {}", e.memory().0 >> 20, t.index_entries(0), t.row_estimate()); }
    let n: u64 = hs.into_iter().map(|h| h.join().unwrap()).sum();
    println!("{n} txns in 12 s");
    std::thread::sleep(std::time::Duration::from_millis(300));
    println!("{} KB counted, entries {}, rows {}", e.memory().0 >> 10, t.index_entries(0), t.row_estimate());
}

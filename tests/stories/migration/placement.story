# froglet.placement: which table could be elsewhere, and the statement that takes it there. Nothing moves before it is run.

== a table that nobody uses could be on disk, and one there that is used much in memory
setup> create table cold (id int primary key, v text); insert into cold select g, repeat('x', 100) from generate_series(1, 20000) g
setup> create table hot (id int primary key, n int); insert into hot select g, 0 from generate_series(1, 2000) g
server> \kill
M> set froglet.placement_after = 0
M> select table_name, method, rows, recent_reads, recent_writes, share, last_access is null, proposal from froglet.placement order by 1
    cold|memory|20000|0|0|0|t|NULL, hot|memory|2000|0|0|0|t|NULL
W> update hot set n = n + 1
W> select n from hot where id = 7
    1
M> select table_name, method, round(recent_reads, -2), round(recent_writes, -2), round(share::numeric, 3), last_access is null, proposal from froglet.placement order by 1
    cold|memory|0|0|0.000|t|disk, hot|memory|2000|2000|1.000|f|NULL
M> select statement, would_free_bytes = memory_bytes, would_free_bytes > 20000 * 100 from froglet.placement where proposal = 'disk'
    ALTER TABLE public.cold SET ACCESS METHOD disk|t|t
M> select table_name, method from froglet.placement order by 1
    cold|memory, hot|memory
M> alter table cold set access method disk
    ALTER TABLE
M> select table_name, method, proposal, memory_bytes is null from froglet.placement order by 1
    cold|disk|NULL|t, hot|memory|NULL|f
W> update cold set v = v || 'y'
M> select table_name, method, round(recent_writes, -2), proposal, would_free_bytes < 0, statement from froglet.placement order by 1
    cold|disk|20000|memory|t|ALTER TABLE public.cold SET ACCESS METHOD memory, hot|memory|2000|NULL|NULL|NULL

== what was observed for a short time only is shown, and not proposed
setup> create table cold (id int primary key, v text); insert into cold select g, repeat('x', 100) from generate_series(1, 20000) g
server> \kill
W> create table busy (id int primary key, n int)
W> insert into busy select g, 0 from generate_series(1, 5000) g
M> show froglet.placement_after
    10min
M> select table_name, round(recent_writes, -2), proposal from froglet.placement order by 1
    busy|5000|NULL, cold|0|NULL
M> set froglet.placement_after = '1ms'
M> select table_name, proposal from froglet.placement order by 1
    busy|NULL, cold|disk

== a rolled back write was one; a table that is dropped takes its counters along
W> create table t (id int primary key, n int)
W> insert into t select g, 0 from generate_series(1, 100) g
W> begin
W> update t set n = 1 where id <= 10
W> rollback
M> select n_tup_ins, n_tup_upd, n_tup_del, n_live_tup from pg_stat_user_tables where relname = 't'
    100|10|0|100
W> alter table t add column v text default 'x'
W> alter table t set access method disk
W> delete from t where id = 1
M> select n_tup_ins, n_tup_upd, n_tup_del from pg_stat_user_tables where relname = 't'
    100|10|1
W> drop table t
W> create table t (id int primary key)
M> select n_tup_ins, seq_scan, idx_scan from pg_stat_user_tables where relname = 't'
    0|0|0

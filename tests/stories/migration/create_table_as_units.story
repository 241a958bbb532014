# CREATE TABLE AS with joins and groups, while others write: what changes in a table reaches the rows that
# are made of it and others (test_made_tables.py has every shape of query).

== groups: a row that moves changes two of them, the last one takes its group away
setup> create table t (id int primary key, k int, v int); insert into t values (1, 1, 10), (2, 1, 20), (3, 2, 30)
M> begin
M> create table g as select k, count(*) as n, sum(v) as total from t group by k
    SELECT 2
M> alter table g add primary key (k), add column mean bigint generated always as (total / n) stored
W> update t set k = 2 where id = 2
W> insert into t values (4, 4, 40)
M> select * from g order by k
    1|1|10|10, 2|2|50|25, 4|1|40|40
W> delete from t where k = 1
M> commit
    COMMIT
W> update t set v = 0
M> select * from g order by k
    (k, n, total, mean)
    2|2|50|25, 4|1|40|40

== a join of two tables, and what it was made of goes
setup> create table o (id int primary key, c int, v int); insert into o values (1, 1, 10), (2, 1, 20), (3, 2, 30)
setup> create table c (id int primary key, name text); insert into c values (1, 'one'), (2, 'two')
M> begin
M> create table j as select o.id, o.v, c.name from o left join c on c.id = o.c
    SELECT 3
M> alter table j add primary key (id)
W> update c set name = 'ONE' where id = 1
W> delete from c where id = 2
W> insert into o values (4, 2, 40)
M> drop table o, c
M> alter table j rename to o
W> insert into c values (5, 'five')
M> commit
    COMMIT
W> select * from o order by id
    1|10|ONE, 2|20|ONE, 3|30|NULL, 4|40|NULL
W> insert into o values (4, 1, 'x')
    ERROR 23505

== a writer that is open when its table goes into groups has to run again
setup> create table t (id int primary key, k int); insert into t values (1, 1), (2, 1)
W> begin
W> insert into t values (3, 1)
M> begin
M> create table g as select k, count(*) from t group by k
M> drop table t
M> commit
    COMMIT
W> commit
    ERROR 40001
M> select * from g
    1|2

== and one that is open at the commit, but whose table stays, is in the table, and not in the groups
setup> create table t (id int primary key, k int); insert into t values (1, 1), (2, 1)
W> begin
W> insert into t values (3, 1)
M> create table g as select k, count(*) from t group by k
    SELECT 1
W> commit
    COMMIT
M> select g.count, (select count(*) from t) from g
    2|3

== the owner's rows are its own: whoever changes what they were made of waits, others do not
setup> create table t (id int primary key, k int, v int); insert into t values (1, 1, 10), (2, 1, 20), (3, 2, 30)
M> begin
M> create table g as select k, sum(v) as total from t group by k
M> update g set total = 0 where k = 1
    UPDATE 1
W> update t set v = 11 where id = 1
    waits
X> update t set v = 33 where id = 3
    UPDATE 1
M> commit
    COMMIT
W> ...
    UPDATE 1
M> select * from g order by k
    1|0, 2|33

== and a row that comes to those is a conflict
setup> create table t (id int primary key, k int, v int); insert into t values (1, 1, 10), (2, 2, 20)
M> begin
M> create table g as select k, sum(v) as total from t group by k
M> update g set total = 0 where k = 1
W> insert into t values (3, 1, 30)
M> commit
    ERROR 40001
M> select * from g
    ERROR 42P01

== at repeatable read it is read as of the snapshot, and committed as of the commit
setup> create table t (id int primary key, k int, v int); insert into t values (1, 1, 10), (2, 1, 20), (3, 2, 30)
M> begin isolation level repeatable read
M> select count(*) from t
    3
W> update t set k = 2 where id = 2
M> create table g as select k, sum(v) as total from t group by k
    SELECT 2
W> delete from t where id = 1
M> select * from g order by k
    1|30, 2|30
M> update g set total = -1 where k = 1
    ERROR 40001
M> rollback
M> begin isolation level repeatable read
M> create table g as select k, sum(v) as total from t group by k
W> update t set v = 0 where id = 3
M> select * from g order by k
    2|50
M> commit
    COMMIT
M> select * from g order by k
    2|20

== a violation by what others write takes all of it back
setup> create table t (id int primary key, k int, v int); insert into t values (1, 1, 10), (2, 2, 20)
M> begin
M> create table g as select k, sum(v) as total from t group by k
M> alter table g add check (total < 100)
W> insert into t values (3, 2, 90)
M> commit
    ERROR 23514
M> select * from g
    ERROR 42P01
W> select count(*) from t
    3

== an error of what others write, and a way back to before it
setup> create table t (id int primary key, k int, v int); insert into t values (1, 1, 10), (2, 2, 20)
M> begin
M> create table g as select k, sum(v) as total from t group by k
M> savepoint s
M> create table q as select k, 100 / sum(v) as q from t group by k
W> update t set v = 0 where id = 2
M> select * from g
    ERROR 22012
M> rollback to s
M> commit
    COMMIT
M> select * from g order by k
    1|10, 2|0

== a union of what two tables have, and totals of that
setup> create table a (id int, v int); insert into a values (1, 10), (2, 20)
setup> create table b (id int, v int); insert into b values (1, 100)
M> begin
M> create table u as select id, v from a union all select id, v from b
    SELECT 3
M> create table totals as select id, sum(v) as v from u group by id
    SELECT 2
W> insert into b values (3, 300)
X> update a set v = 11 where id = 1
M> select * from totals order by id
    1|111, 2|20, 3|300
M> drop table a, b
M> commit
    COMMIT
M> select * from totals order by id
    1|111, 2|20, 3|300
M> select * from u order by id, v
    1|11, 1|100, 2|20, 3|300

== a total of everything
setup> create table t (id int, v int)
M> begin
M> create table total as select count(*) as n, sum(v) as v from t
    SELECT 1
W> insert into t values (1, 10), (2, 20)
M> select * from total
    2|30
W> delete from t where id = 1
M> commit
    COMMIT
M> select * from total
    1|20

== kill -9 in the middle, and after the commit
setup> create table t (id int primary key, k int, v int); insert into t values (1, 1, 10), (2, 1, 20), (3, 2, 30)
M> begin
M> create table g as select k, sum(v) as total from t group by k
M> alter table g add primary key (k)
W> update t set k = 2 where id = 1
server> \kill
W> select * from g
    ERROR 42P01
M> begin
M> create table g as select k, sum(v) as total from t group by k
M> alter table g add primary key (k)
W> update t set k = 3 where id = 1
M> drop table t
M> commit
    COMMIT
server> \kill
W> select * from g order by k
    1|20, 2|30, 3|10
W> insert into g values (3, 1)
    ERROR 23505
W> select * from t
    ERROR 42P01

== two at once, on tables in another order
setup> create table a (id int primary key, v int); insert into a values (1, 10)
setup> create table b (id int primary key, v int); insert into b values (1, 100)
M> begin
M> create table x as select a.id, b.v from a join b on a.id = b.id
N> create table y as select b.id, a.v from b join a on a.id = b.id
    waits
W> update a set v = 11
M> commit
    COMMIT
N> ...
    SELECT 1
W> select x.v, y.v from x, y
    100|11

== a row that is looked up changes together with one of those that look it up
setup> create table s (id int primary key, name text); insert into s values (1, 'one'), (2, 'two')
setup> create table o (id int primary key, s int); insert into o select x, 1 + x % 2 from generate_series(1, 100) g(x)
M> begin
M> create table j as select o.id, s.name from o join s on s.id = o.s
    SELECT 100
W> begin
W> update s set name = 'ONE' where id = 1
W> update o set s = 1 where id = 7
W> commit
M> select name, count(*) from j group by name order by 1
    ONE|51, two|49
W> begin
W> update o set s = 2 where id in (7, 8)
W> update s set id = 3 where id = 1
W> update s set id = 1 where id = 2
W> update o set s = 1 where id = 1
W> commit
M> commit
    COMMIT
M> select (select count(*) from j), (select count(*) from (select o.id, s.name from o join s on s.id = o.s except select * from j) d)
    50|0

== what failed is made again when its reason is gone
setup> create table t (id int primary key, k int); insert into t values (1, 1), (2, 2)
M> begin
M> create table g as select k, count(*) as n from t group by k
M> savepoint s
M> update g set n = 0 where k = 1
W> update t set k = 1 where id = 2
M> select * from g
    ERROR 40001
M> rollback to s
M> select * from g order by k
    1|2
W> insert into t values (3, 2)
M> commit
    COMMIT
M> select * from g order by k
    1|2, 2|1

== rows that the query leaves out may have no key
setup> create table t (id int primary key, a int); insert into t values (1, 5), (2, 0), (3, 2)
M> begin
M> create table g as select 10 / a as q, count(*) as n from t where a <> 0 group by 10 / a
    SELECT 2
W> insert into t values (4, 0), (5, 5)
W> update t set a = 0 where id = 3
W> update t set a = 1 where id = 2
M> commit
    COMMIT
M> select * from g order by q
    2|2, 10|1

== what the session sets afterwards is no matter of the query
setup> create table t (id int primary key, at timestamptz); insert into t values (1, '2026-01-01 20:00:00+00'), (2, '2026-01-02 20:00:00+00')
M> set timezone = 'UTC'
M> begin
M> create table d as select at::date as day, count(*) as n from t group by at::date
M> create table e as select id, at::date as day, current_setting('timezone') as zone from t
M> set timezone = 'Asia/Tokyo'
W> insert into t values (3, '2026-01-01 21:00:00+00')
M> commit
    COMMIT
W> select * from d order by day
    2026-01-01|2, 2026-01-02|1
W> select * from e where id = 3
    3|2026-01-01|UTC

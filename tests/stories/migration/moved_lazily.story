# SET ACCESS METHOD lazily: the table is elsewhere at once, and its rows follow when somebody touches them. What is told
# of moves before the commit holds as well (`test_moved_tables.py`).

== two moves, of which neither has come far, and a restart
setup> create table t (id int primary key, v int, s text unique); insert into t select g, g * 10, 's' || g from generate_series(1, 6) g
M> set froglet.migration = lazy
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> alter table t set access method disk
W> update t set v = 11 where id = 1
    UPDATE 1
W> delete from t where s = 's2'
    DELETE 1
M> alter table t set access method memory
W> update t set v = 31, s = 's2' where id = 3
    UPDATE 1
W> insert into t values (7, 70, 's4')
    ERROR 23505: t_s_key
W> insert into t values (7, 70, 's3')
    INSERT 0 1
M> select * from t order by id
    1|11|s1, 3|31|s2, 4|40|s4, 5|50|s5, 6|60|s6, 7|70|s3
server> \kill
M> select * from t where s = 's4'
    4|40|s4
M> select * from t order by id
    1|11|s1, 3|31|s2, 4|40|s4, 5|50|s5, 6|60|s6, 7|70|s3
M> alter table t set access method disk
server> \kill
M> select * from t order by id
    1|11|s1, 3|31|s2, 4|40|s4, 5|50|s5, 6|60|s6, 7|70|s3
M> select amname from pg_class c join pg_am a on a.oid = relam where relname = 't'
    disk

== a writer from before two moves follows both, and holds its rows in all places
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> set froglet.migration = lazy
M> set froglet.migration_delay = '1h'
W> begin
W> update t set v = 11 where id = 1
W> insert into t values (4, 40)
W> delete from t where id = 2
M> alter table t set access method disk
M> alter table t set access method memory
X> update t set v = v * 2 where id = 1
    waits
Y> insert into t values (2, 21)
    waits
W> commit
    COMMIT
X> ...
    UPDATE 1
Y> ...
    INSERT 0 1
M> select * from t order by id
    1|22, 2|21, 3|30, 4|40

== the mover writes nothing there before its commit
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> set froglet.migration = lazy
M> begin
M> update t set v = 11 where id = 1
M> alter table t set access method disk
M> savepoint s
M> update t set v = 12 where id = 1
    ERROR 0A000
M> rollback to s
M> insert into t values (3, 30)
    ERROR 0A000
M> rollback to s
M> select * from t order by id
    1|11, 2|20
W> update t set v = 21 where id = 2
    UPDATE 1
M> select * from t order by id
    1|11, 2|21
M> commit
    COMMIT
W> select * from t order by id
    1|11, 2|21
M> begin
M> alter table t set access method memory
M> rollback
M> select amname from pg_class c join pg_am a on a.oid = relam where relname = 't'
    disk

== what else the transaction changes of the table: what needs no rows is done, the rest is refused
setup> create table t (id int primary key, v int, s text); insert into t values (1, 10, 'a'), (2, 20, 'b')
M> set froglet.migration = lazy
M> set froglet.migration_delay = '1h'
M> begin
M> alter table t drop column s
M> alter table t set access method disk
M> alter table t add column w int default 7
M> create index by_v on t (v)
M> alter table t rename column v to u
W> insert into t values (3, 30, 'c')
    INSERT 0 1
M> commit
    COMMIT
M> select * from t where u > 10 order by id
    (id, u, w)
    2|20|7, 3|30|7
M> begin
M> alter table t set access method memory
M> alter table t add constraint small check (u < 100)
    ERROR 0A000
M> rollback
M> begin
M> create unique index by_w on t (id, w)
M> alter table t set access method memory
    ERROR 0A000: t
M> rollback
M> begin
M> create table n (id int primary key); insert into n values (1)
M> alter table n set access method disk
M> insert into n values (2)
M> commit
    COMMIT
M> select count(*) from n
    2

== others change it while its rows follow
setup> create table t (id int primary key, v int, s text); insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')
M> set froglet.migration = lazy
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> alter table t set access method disk
W> update t set v = 11 where id = 1
W> alter table t add column w int default 7
W> alter table t drop column s
W> alter table t rename to u
W> select * from t
    ERROR 42P01
W> select * from u order by id
    1|11|7, 2|20|7, 3|30|7
W> set froglet.migration = eager
W> alter table u alter column v type bigint using v * 100
W> create unique index on u (v)
M> insert into u values (4, 2000)
    ERROR 23505
M> select * from u order by id
    1|1100|7, 2|2000|7, 3|3000|7
server> \kill
M> select id from u where v = 3000
    3

== a table is made of one whose rows follow, and that one goes
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> set froglet.migration = lazy
M> alter table t set access method disk
W> update t set v = 11 where id = 1
M> begin
M> create table n as select id, v + 1 as w from t
M> alter table n add primary key (id)
M> drop table t
M> commit
    COMMIT
W> select * from n where id = 2
    2|21
server> \kill
W> select * from n order by id
    1|12, 2|21, 3|31

== it is emptied, and dropped, before its rows are there
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> create table d (id int primary key); insert into d values (1)
M> set froglet.migration = lazy
M> set froglet.migration_delay = '1h'
M> alter table t set access method disk
M> alter table d set access method disk
R> begin isolation level repeatable read
R> select count(*) from t join d using (id)
    1
W> truncate t
W> insert into t values (9, 90)
W> drop table d
R> select * from t order by id
    1|10, 2|20, 3|30
R> commit
server> \kill
M> select * from t
    9|90

== keys reach into it and out of it
setup> create table p (id int primary key, v int); insert into p values (1, 0), (2, 0), (3, 0)
setup> create table c (id int primary key, p int references p on delete cascade on update cascade)
setup> insert into c values (10, 1), (20, 2), (30, 3)
setup> create index on c (p)
M> set froglet.migration = lazy
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> begin
M> alter table p set access method disk
M> alter table c set access method disk
M> commit
    COMMIT
W> insert into c values (40, 4)
    ERROR 23503
W> begin
W> insert into c values (41, 3)
X> delete from p where id = 3
    waits
W> commit
X> ...
    DELETE 1
X> update p set id = 22 where id = 2
    UPDATE 1
M> select * from c order by id
    10|1, 20|22
server> \kill
M> delete from p where id = 22
M> select * from c order by id
    10|1

== upserts and holds of rows that are not there yet
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> set froglet.migration = lazy
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> alter table t set access method disk
W> begin
W> insert into t values (1, 1), (4, 40) on conflict (id) do update set v = t.v + excluded.v returning *
    1|11, 4|40
X> select * from t where id in (1, 2) order by id for update skip locked
    2|20
X> select * from t where id = 1 for update nowait
    ERROR 55P03
W> rollback
M> merge into t using (values (3, 5), (5, 50)) n (id, v) on t.id = n.id when matched then delete when not matched then insert values (n.id, n.v)
    MERGE 2
M> select * from t order by id
    1|10, 2|20, 5|50

== keys that are too long for a table on disk are looked at before
setup> create table t (id int primary key, big text); create index on t (big)
setup> insert into t values (1, 'a'), (2, repeat(md5('x'), 2000)), (3, 'c')
M> set froglet.migration = lazy
M> alter table t set access method disk
    ERROR 54000
M> delete from t where id = 2
M> begin
M> alter table t set access method disk
W> update t set big = repeat(md5('y'), 2000) where id = 3
    UPDATE 1
M> commit
    ERROR 54000
M> update t set big = 'c' where id = 3
W> begin
W> update t set big = repeat(md5('z'), 2000) where id = 1
M> set froglet.migration_delay = '1h'
M> alter table t set access method disk
    ALTER TABLE
W> commit
    ERROR 54000
M> insert into t values (4, repeat(md5('z'), 2000))
    ERROR 54000
M> select * from t order by id
    1|a, 3|c
M> begin
M> alter table t set access method memory
M> create index on t (big, id)
M> commit
    COMMIT
M> begin
M> alter table t set access method disk
M> create index on t (id, big)
    ERROR 0A000
M> rollback
M> drop index t_big_idx, t_big_id_idx
M> insert into t values (4, repeat(md5('z'), 2000))
M> alter table t set access method disk
    ALTER TABLE

== moved twice, or made and moved, by one transaction
setup> create table t (id int primary key, v int); insert into t values (1, 10)
M> set froglet.migration = lazy
M> begin
M> alter table t set access method disk
M> savepoint s
M> alter table t set access method memory
    ERROR 0A000: t
M> rollback to s
M> commit
    COMMIT
M> begin
M> create table n as select * from t
M> alter table n set access method disk
    ERROR 0A000: n
M> rollback

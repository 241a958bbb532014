# A writer that began under the older schema and commits after the flip: its rows are carried over to the
# new schema in its own commit. A row that violates a new constraint is its writer's error, and nobody
# else's. The change itself does not wait for it.

== a computed column is right for its rows
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = 11 where id = 1
W> insert into t values (4, 40)
W> delete from t where id = 3
M> alter table t add column d bigint generated always as (v * 2) stored
    ALTER TABLE
M> select * from t order by id
    1|10|20, 2|20|40, 3|30|60
W> commit
    COMMIT
M> select * from t order by id
    1|11|22, 2|20|40, 4|40|80

== a new type
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = 11 where id = 1
W> insert into t values (4, 40)
M> alter table t alter column v type text using 'v' || v
W> commit
    COMMIT
M> select * from t order by id
    1|v11, 2|v20, 3|v30, 4|v40

== its next statement works under the new schema, on its own old rows too
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = 11 where id = 1
W> insert into t values (4, 40)
M> alter table t add column d bigint generated always as (v * 2) stored
W> select * from t order by id
    1|11|22, 2|20|40, 3|30|60, 4|40|80
W> update t set v = v + 1 where id in (1, 4)
    UPDATE 2
W> insert into t (id, v) values (5, 50)
W> commit
    COMMIT
M> select * from t order by id
    1|12|24, 2|20|40, 3|30|60, 4|41|82, 5|50|100

== a column dropped, renamed, added: what it wrote stays with the column
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> alter table t add column w int default 0
W> begin
W> update t set v = 11, w = 1 where id = 1
W> insert into t values (4, 40, 4)
M> alter table t drop column w
M> alter table t rename column v to x
M> alter table t add column y int default 9
W> commit
    COMMIT
M> select * from t order by id
    (id, x, y)
    1|11|9, 2|20|9, 3|30|9, 4|40|9

== several flips between its write and its commit
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = 11 where id = 1
M> alter table t alter column v type bigint using v + 1000
M> alter table t add column d bigint generated always as (v * 2) stored
M> alter table t add column e text generated always as ('v' || v) stored
M> alter table t drop column d
M> alter table t add column d bigint generated always as (v * 3) stored
W> commit
    COMMIT
M> select * from t order by id
    1|1011|v1011|3033, 2|1020|v1020|3060, 3|1030|v1030|3090

== an index knows its rows
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = 11 where id = 1
W> insert into t values (4, 40)
M> create index by_v on t (v)
    CREATE INDEX
W> commit
    COMMIT
M> select id from t where v = 11
    1
M> select id from t where v = 10
    no rows
M> select id from t where v = 40
    4

== a check that its row violates is its error
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> insert into t values (4, 400)
M> alter table t add constraint small check (v < 100)
    ALTER TABLE
W> commit
    ERROR 23514: small
M> select * from t order by id
    1|10, 2|20, 3|30

== a unique index that its row violates
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> insert into t values (4, 10)
M> create unique index once on t (v)
    CREATE INDEX
W> commit
    ERROR 23505
M> select * from t order by id
    1|10, 2|20, 3|30
M> insert into t values (4, 10)
    ERROR 23505

== not null, primary key, foreign key
setup> create table p (id int primary key); insert into p values (1)
setup> create table t (id int, v int); insert into t values (1, 1)
W> begin
W> insert into t values (2, null)
M> alter table t alter column v set not null
W> commit
    ERROR 23502
W> begin
W> insert into t values (1, 2)
M> alter table t add primary key (id)
W> commit
    ERROR 23505
W> begin
W> insert into t values (3, 3)
M> alter table t add foreign key (v) references p
W> commit
    ERROR 23503
W> select * from t
    1|1

== its child holds the parent under a foreign key it knew nothing of
setup> create table p (id int primary key); insert into p values (1), (2), (3)
setup> create table t (id int primary key, p int); insert into t values (1, 1)
W> begin
W> insert into t values (2, 2)
M> alter table t add foreign key (p) references p
    ALTER TABLE
W> commit
    COMMIT
M> delete from p where id = 2
    ERROR 23503

== the table it wrote is emptied, or dropped: it has to run again
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = 11 where id = 1
M> truncate t
    TRUNCATE TABLE
W> commit
    ERROR 40001
M> insert into t values (1, 1)
W> begin
W> update t set v = 11 where id = 1
M> drop table t
    DROP TABLE
W> commit
    ERROR 40001

== at repeatable read
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin isolation level repeatable read
W> update t set v = 11 where id = 1
M> alter table t add column d bigint generated always as (v * 2) stored
W> select * from t order by id
    (id, v)
    1|11, 2|20, 3|30
W> update t set v = 21 where id = 2
W> insert into t values (4, 40)
W> commit
    COMMIT
M> select * from t order by id
    1|11|22, 2|21|42, 3|30|60, 4|40|80

== it is rolled back after the flip
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = 11 where id = 1
W> delete from t where id = 2
W> insert into t values (4, 40)
M> alter table t add column d bigint generated always as (v * 2) stored
W> rollback
M> select * from t order by id
    1|10|20, 2|20|40, 3|30|60

== it goes back to a savepoint after the flip: what it wrote before stays written
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = 11 where id = 1
W> savepoint before
M> alter table t alter column v type bigint using v + 1000
W> update t set v = v + 1 where id in (1, 2)
    UPDATE 2
W> rollback to before
M> alter table t add column d bigint generated always as (v * 2) stored
W> commit
    COMMIT
M> select * from t order by id
    1|1011|2022, 2|1020|2040, 3|1030|2060

== its statement has to run again, after it has carried over what those before it wrote
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> create table b (id int primary key, n int); insert into b values (1, 0)
W> begin
W> update t set v = v + 1 where id = 1
H> begin
H> update b set n = n + 1 where id = 1
M> alter table t alter column v type bigint using v + 1000
W> update b set n = n + 1 where id = 1
    waits
M> alter table b alter column n type bigint using n + 100
H> commit
    COMMIT
W> ...
    UPDATE 1
W> commit
    COMMIT
M> select * from t order by id
    1|1011, 2|1020, 3|1030
M> select * from b
    1|102

# The first writer goes on under the newer schema, so the older column does not have its second update.
== an upsert that waits across the flip reads the row under the newer schema
setup> create table t (id int primary key, v text)
setup> insert into t values (1, '0')
T1> begin
T1> update t set v = v || '1' where id = 1
T2> insert into t values (1, '2') on conflict (id) do update set v = t.v || excluded.v
    waits
D> alter table t alter column v type text using v || ''
T1> update t set v = v || '3' where id = 1
T1> commit
T2> ...
    INSERT 0 1
T2> select v from t
    0132

== what it had written to a table that is gone is rolled back to a savepoint: nothing is lost
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> create table u (id int primary key, v int); insert into u values (1, 10)
W> begin
W> insert into u values (2, 20)
W> savepoint s
W> delete from t where id = 1
M> drop table t
W> rollback to s
W> commit
    COMMIT
W> select count(*) from u
    2
W> begin
W> savepoint s
W> update u set v = 11 where id = 1
M> truncate u
W> rollback to s
W> commit
    COMMIT
W> begin
W> update u set v = 11 where id = 1
W> insert into u values (1, 1)
W> savepoint s
M> truncate u
W> rollback to s
W> commit
    ERROR 40001

== it waits while its columns change: what it returns are those that there are
setup> create table t (id int primary key, k int, v int); insert into t values (1, 2, 7)
M> begin
M> alter table t drop column v
M> alter table t add column c text default 'new'
M> update t set k = 102 where id = 1
W> update t set k = k + 1 where id = 1 returning *
    waits
M> commit
    COMMIT
W> ...
    (id, k, c)
    1|103|new

== the key that it waits for goes with the table's rows
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> update t set id = 12 where id = 1
M> truncate t
W> insert into t values (12, 1)
    waits
M> commit
    COMMIT
W> ...
    INSERT 0 1
M> begin
M> insert into t values (13, 10)
M> create table u as select id, v from t where id <> 13
M> alter table u add primary key (id)
M> drop table t
M> alter table u rename to t
W> update t set id = 13 where id = 12
    waits
M> commit
    COMMIT
W> ...
    UPDATE 1
W> select * from t
    13|1

# A row that is deleted after the scan has migrated it must not come back, and its key is free. The
# trap others fell into: a delete captured by nobody.

== deleted after the scan
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
W> delete from t where id = 2
    DELETE 1
M> commit
W> select * from t order by id
    1|10|20, 3|30|60
W> insert into t (id, v) values (2, 21)
W> select * from t where id = 2
    2|21|42

== deleted and inserted again
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t alter column v type text using 'v' || v
W> delete from t where id = 2
W> insert into t values (2, 21)
W> delete from t where id = 3
W> insert into t values (4, 40)
W> delete from t where id = 4
M> commit
W> select * from t order by id
    1|v10, 2|v21

== deleted from under a unique index being built
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> insert into t values (4, 40), (5, 40)
M> begin
W> delete from t where id = 5
M> create unique index once on t (v)
W> delete from t where id = 4
W> insert into t values (6, 40)
M> commit
W> select id from t where v = 40
    6
W> insert into t values (7, 40)
    ERROR 23505

== all of it deleted
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
W> delete from t
    DELETE 3
M> commit
W> select * from t
    (id, v, d)
    no rows

== a delete that is rolled back
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
W> begin
W> delete from t where id = 2
W> update t set v = 11 where id = 1
W> rollback
M> commit
W> select * from t order by id
    1|10|20, 2|20|40, 3|30|60

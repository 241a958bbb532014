# A transaction with a snapshot neither delays a schema change nor is ended by one: it goes on reading its
# rows under its columns, those dropped too, until it ends.

== columns come, go, change their names and types
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
R> begin isolation level repeatable read
R> select * from t order by id
    (id, v)
    1|10, 2|20, 3|30
M> alter table t add column a int default 1
    ALTER TABLE
R> select * from t order by id
    (id, v)
    1|10, 2|20, 3|30
M> update t set v = 99 where id = 1
M> alter table t alter column v type text using 'v' || v
    ALTER TABLE
R> select id, v + 1 from t order by id
    1|11, 2|21, 3|31
M> alter table t rename column v to w
M> alter table t drop column w
M> delete from t where id = 3
M> select * from t order by id
    (id, a)
    1|1, 2|1
R> select * from t where v >= 10 order by v desc
    (id, v)
    3|30, 2|20, 1|10
R> commit
R> select * from t order by id
    (id, a)
    1|1, 2|1

== an index is dropped, another is made: the old rows are found all the same
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> create index by_v on t (v)
R> begin isolation level repeatable read
R> select id from t where v = 20
    2
M> drop index by_v
M> update t set v = 21 where id = 2
M> create index by_v2 on t (v)
R> select id from t where v = 20
    2
R> select id from t where v = 21
    no rows
R> select id, v from t where id = 2
    2|20
R> commit
R> select id from t where v = 21
    2

== the table is emptied and dropped
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
R> begin isolation level repeatable read
R> select count(*) from t
    3
M> truncate t
    TRUNCATE TABLE
R> select count(*) from t
    3
M> drop table t
    DROP TABLE
R> select * from t order by id
    1|10, 2|20, 3|30
M> create table t (name text)
M> insert into t values ('new')
R> select * from t order by id
    (id, v)
    1|10, 2|20, 3|30
R> commit
R> select * from t
    (name)
    new

== a reader at read committed sees each statement under one schema
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
R> begin
R> select * from t where id = 1
    (id, v)
    1|10
M> alter table t add column a int default 1
R> select * from t where id = 1
    (id, v, a)
    1|10|1
R> commit

== a snapshot from before, and rows written after, under the new schema
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
R> begin isolation level repeatable read
R> select * from t order by id
    1|10, 2|20, 3|30
M> alter table t add column d bigint generated always as (v * 2) stored
M> update t set v = 11 where id = 1
M> insert into t (id, v) values (4, 40)
R> select * from t order by id
    1|10, 2|20, 3|30
R> update t set v = 31 where id = 3
    UPDATE 1
R> commit
    COMMIT
M> select * from t order by id
    1|11|22, 2|20|40, 3|31|62, 4|40|80

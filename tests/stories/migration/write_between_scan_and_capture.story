# Inside BEGIN a schema change has scanned the table when its statement returns; what others write until
# COMMIT reaches it by capture. Nobody waits, nobody fails, and afterwards every row is migrated.

== a computed column
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
    ALTER TABLE
W> update t set v = 11 where id = 1
    UPDATE 1
W> insert into t values (4, 40)
    INSERT 0 1
W> select * from t order by id
    (id, v)
    1|11, 2|20, 3|30, 4|40
M> commit
    COMMIT
W> select * from t order by id
    (id, v, d)
    1|11|22, 2|20|40, 3|30|60, 4|40|80
W> update t set v = 12 where id = 1
W> insert into t (id, v) values (5, 50)
W> select * from t where id in (1, 5) order by id
    1|12|24, 5|50|100

== a new type
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t alter column v type text using 'v' || v
W> update t set v = v + 1 where id = 1
W> update t set v = v + 1 where id = 1
W> insert into t values (4, 40)
M> commit
W> select * from t order by id
    1|v12, 2|v20, 3|v30, 4|v40

== a key of a new type is found by its index
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t alter column id type bigint using id * 10
W> insert into t values (4, 40)
W> update t set id = 7 where id = 1
M> commit
W> select * from t where id = 70
    70|10
W> select * from t where id = 10
    no rows
W> select * from t order by id desc
    70|10, 40|40, 30|30, 20|20
W> insert into t values (40, 99)
    ERROR 23505

== an index
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> create index by_v on t (v)
W> update t set v = 11 where id = 1
W> insert into t values (4, 40)
W> delete from t where id = 3
M> commit
W> select id from t where v = 11
    1
W> select id from t where v = 10
    no rows
W> select id from t where v = 30
    no rows
W> select id from t where v >= 20 order by v
    2, 4

== a constant column takes the rows that came in between
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column c int not null default 5
W> insert into t values (4, 40)
W> update t set v = 11 where id = 1
M> commit
W> select * from t order by id
    1|11|5, 2|20|5, 3|30|5, 4|40|5

== two computed columns of one transaction, one from the other's source
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t alter column v type bigint using v * 100
W> update t set v = 11 where id = 1
M> alter table t add column d bigint generated always as (v + 1) stored
W> update t set v = 21 where id = 2
M> commit
W> select * from t order by id
    1|1100|1101, 2|2100|2101, 3|3000|3001

== a parent that goes after its children were found
setup> create table p (id int primary key); insert into p values (1), (2)
setup> create table t (id int primary key, p int); insert into t values (1, 1), (2, 2)
M> begin
M> alter table t add foreign key (p) references p
W> delete from p where id = 1
M> commit
    ERROR 23503
W> select * from p
    2

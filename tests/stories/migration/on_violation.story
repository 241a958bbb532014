# froglet.on_violation: who fails when a writer violates what is being added. By default the schema change; with
# reject_writers the writer, at its commit, if it can know.

== by default the schema change fails
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> alter table t add check (v < 100)
W> update t set v = 100 where id = 1
    UPDATE 1
M> commit
    ERROR 23514
W> select v from t order by id
    100, 20

== CHECK and NOT NULL: the writer fails, the schema change does not
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> set froglet.on_violation = reject_writers
M> begin
M> alter table t add constraint small check (v < 100), alter column v set not null
W> update t set v = 100 where id = 1
    ERROR 23514
W> insert into t values (3, null)
    ERROR 23502
W> begin
W> insert into t values (3, 30)
W> update t set v = 1000 where id = 2
W> commit
    ERROR 23514
W> update t set v = 99 where id = 1
    UPDATE 1
M> commit
    COMMIT
W> select * from t order by id
    1|99, 2|20
W> update t set v = 100
    ERROR 23514

== UNIQUE: the key that is there is known, and so is one that has gone
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> set froglet.on_violation = reject_writers
M> begin
M> alter table t add unique (v)
W> insert into t values (3, 20)
    ERROR 23505
W> update t set v = 11 where id = 1
W> insert into t values (3, 10), (4, null), (5, null)
M> commit
    COMMIT
W> select * from t order by id
    1|11, 2|20, 3|10, 4|NULL, 5|NULL

== FOREIGN KEY: a child without a parent
setup> create table p (id int primary key); insert into p values (1), (2)
setup> create table c (id int primary key, p int); insert into c values (1, 1)
M> set froglet.on_violation = reject_writers
M> begin
M> alter table c add foreign key (p) references p
W> insert into c values (2, 7)
    ERROR 23503
W> insert into p values (7)
W> insert into c values (2, 7)
    INSERT 0 1
M> commit
    COMMIT
W> delete from p where id = 7
    ERROR 23503

== what was there before fails the schema change all the same
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 200)
M> set froglet.on_violation = reject_writers
M> alter table t add check (v < 100)
    ERROR 23514
W> update t set v = 300
    UPDATE 2

== rolled back, writers are free again
setup> create table t (id int primary key, v int); insert into t values (1, 10)
M> set froglet.on_violation = reject_writers
M> begin
M> savepoint s
M> alter table t add check (v < 100)
W> update t set v = 100
    ERROR 23514
M> rollback to s
W> update t set v = 100
    UPDATE 1
M> commit
    COMMIT

== the owner's own rows are no matter of a writer's, and fail it at its end
setup> create table t (id int primary key, v int); insert into t values (1, 10)
M> set froglet.on_violation = reject_writers
M> begin
M> alter table t add check (v < 100)
M> update t set v = 100
    ERROR 23514
M> rollback

== a schema change that is rolled back leaves writers to the next one
setup> create table t (id int primary key, v int); insert into t values (1, 10)
M> set froglet.on_violation = reject_writers
M> begin
M> alter table t add check (v < 100)
M> rollback
W> update t set v = 50
    UPDATE 1
M> begin
M> alter table t add check (v < 100)
W> update t set v = 100
    ERROR 23514
M> commit
    COMMIT

== a column that is being filled says nothing of a writer
setup> create table t (id int primary key, a int); insert into t values (1, 10)
M> set froglet.on_violation = reject_writers
M> begin
M> alter table t add column b int generated always as (a * 2) stored
M> alter table t add check (b is not null and b < 100)
W> insert into t values (2, 20)
    INSERT 0 1
W> update t set a = 11 where id = 1
    UPDATE 1
M> commit
    COMMIT
W> select * from t order by id
    (id, a, b)
    1|11|22, 2|20|40

== a foreign key to a key that is new, too
setup> create table p (id int); insert into p values (1)
setup> create table c (id int primary key, p int); insert into c values (1, 1)
M> set froglet.on_violation = reject_writers
M> begin
M> alter table p add primary key (id)
M> alter table c add foreign key (p) references p
W> begin
W> insert into p values (9)
W> insert into c values (2, 9)
W> commit
    COMMIT
M> commit
    COMMIT

== what does not hold of rows that are gone with the same commit is nobody's concern
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2)
M> begin
M> create unique index on t (v)
W> update t set v = 5
M> drop table t
M> commit
    COMMIT
M> create table u (id int primary key, v int)
M> insert into u values (1, 1), (2, 2)
M> begin
M> alter table u add check (v < 3)
W> update u set v = 5
M> truncate u
M> insert into u values (7, 2)
M> commit
    COMMIT
M> select * from u
    7|2

== whose constraint it is reads on among rows that break it
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2)
M> begin
M> alter table t alter column v set not null
W> insert into t values (3, null)
M> select * from t where v >= 2
    2|2
M> select id, v is null from t order by v
    1|f, 2|f, 3|t
M> commit
    ERROR 23502: column "v" of relation "t" contains null values

# SET ACCESS METHOD: rows go elsewhere while others write and hold them. A row has one lock, though it has two places for
# a while; who began before follows.

== writers who began before the move follow it
setup> create table t (id int primary key, v int, s text unique); insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')
W> begin
W> update t set v = 11 where id = 1
W> delete from t where id = 2
W> insert into t values (4, 40, 'd')
M> alter table t set access method disk
    ALTER TABLE
M> select * from t order by id
    1|10|a, 2|20|b, 3|30|c
W> select * from t order by id
    1|11|a, 3|30|c, 4|40|d
W> update t set v = 12 where id = 1
W> commit
    COMMIT
M> select * from t order by id
    1|12|a, 3|30|c, 4|40|d
M> select id from t where s = 'd'
    4
server> \kill
M> select * from t order by id
    1|12|a, 3|30|c, 4|40|d

== a row that somebody holds where it was is held where it is
setup> create table t (id int primary key, v int) using disk; insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = v + 1 where id = 1
W> select * from t where id = 2 for update
M> alter table t set access method memory
    ALTER TABLE
X> update t set v = v * 2 where id = 1
    waits
Y> update t set v = v * 2 where id = 2
    waits
Z> update t set v = v * 2 where id = 3
    UPDATE 1
W> commit
    COMMIT
X> ...
    UPDATE 1
Y> ...
    UPDATE 1
M> select * from t order by id
    1|22, 2|40, 3|60

== who waits where a row was looks where it is
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = v + 1 where id = 1
X> update t set v = v * 2 where id = 1 returning *
    waits
M> alter table t set access method disk
    ALTER TABLE
W> commit
    COMMIT
X> ...
    1|22
M> select * from t order by id
    1|22, 2|20

== a snapshot from before sees what it saw, and does not write over what it did not see
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin isolation level repeatable read
W> select * from t order by id
    1|10, 2|20
M> alter table t set access method disk
M> update t set v = 99 where id = 1
W> select * from t order by id
    1|10, 2|20
W> update t set v = 21 where id = 2
    UPDATE 1
W> update t set v = 11 where id = 1
W> commit
    ERROR 40001
M> select * from t order by id
    1|99, 2|20

== what is rolled back to a savepoint does not follow, and what comes after does
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = 11 where id = 1
W> savepoint s
W> update t set v = 21 where id = 2
M> alter table t set access method disk
W> insert into t values (3, 30)
W> rollback to s
W> select * from t order by id
    1|11, 2|20
W> insert into t values (4, 40)
W> commit
    COMMIT
M> select * from t order by id
    1|11, 2|20, 4|40

== the move is rolled back, to a savepoint and wholly
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> update t set v = 11 where id = 1
M> savepoint s
M> alter table t set access method disk
M> update t set v = 12 where id = 1
M> insert into t values (3, 30)
M> select * from t order by id
    1|12, 2|20, 3|30
W> update t set v = 21 where id = 2
    UPDATE 1
M> select * from t order by id
    1|12, 2|21, 3|30
M> rollback to s
M> select * from t order by id
    1|11, 2|21
M> alter table t set access method disk
M> commit
    COMMIT
W> select * from t order by id
    1|11, 2|21
W> begin
W> alter table t set access method memory
W> update t set v = 0
W> rollback
M> select * from t order by id
    1|11, 2|21
M> select amname from pg_class c join pg_am a on a.oid = relam where relname = 't'
    disk

== there and back again in one transaction
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> alter table t set access method disk
M> update t set v = 11 where id = 1
W> update t set v = 21 where id = 2
M> alter table t set access method memory
M> insert into t values (3, 30)
M> commit
    COMMIT
W> select * from t order by id
    1|11, 2|21, 3|30
W> insert into t values (3, 31)
    ERROR 23505

== other changes of the same transaction, before and after
setup> create table t (id int primary key, v int, s text); insert into t values (1, 10, 'a'), (2, 20, 'b')
M> begin
M> alter table t add column w int generated always as (v + 1) stored
M> alter table t add constraint small check (v < 100)
M> alter table t set access method disk
M> create index by_w on t (w)
M> alter table t alter column s type int using ascii(s)
W> insert into t values (3, 30, 'c')
    INSERT 0 1
M> commit
    COMMIT
M> select * from t order by id
    (id, v, s, w)
    1|10|97|11, 2|20|98|21, 3|30|99|31
M> select id from t where w = 31
    3
M> insert into t values (4, 100, 1)
    ERROR 23514: small

== what was demanded before the move is demanded at its commit
setup> create table t (id int primary key, v int); insert into t values (1, 10)
M> begin
M> alter table t add constraint small check (v < 100)
M> alter table t set access method disk
W> insert into t values (2, 200)
    INSERT 0 1
M> commit
    ERROR 23514
W> select * from t order by id
    1|10, 2|200
W> select amname from pg_class c join pg_am a on a.oid = relam where relname = 't'
    heap

== what is taken back in the same transaction is not demanded
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> create unique index by_v on t (v)
M> alter table t add constraint small check (v < 100)
M> alter table t alter column v set not null
W> insert into t values (3, 20), (4, 400), (5, null)
    INSERT 0 3
M> drop index by_v
M> alter table t drop constraint small
M> alter table t alter column v drop not null
M> commit
    COMMIT

== a child that was written before its parent moved has its parent there
setup> create table p (id int primary key); insert into p values (1), (2), (3)
setup> create table c (id int primary key, p int references p)
W> begin
W> insert into c values (10, 1)
M> alter table p set access method disk
    ALTER TABLE
X> delete from p where id = 2
    DELETE 1
W> commit
    COMMIT
X> delete from p where id = 1
    ERROR 23503
M> select * from c
    10|1

== a parent that is taken away where it was, while children come where it is
setup> create table p (id int primary key, v int); insert into p values (1, 0), (2, 0), (3, 0)
setup> create table c (id int primary key, p int references p)
W> begin
W> delete from p where id = 1
M> alter table p set access method disk
    ALTER TABLE
X> insert into c values (10, 1)
    waits
W> commit
    ERROR 40001
X> ...
    INSERT 0 1
M> select * from c
    10|1

== a parent is taken away while its children move
setup> create table p (id int primary key); insert into p values (1), (2)
setup> create table c (id int primary key, p int references p on delete cascade)
setup> insert into c values (10, 1), (20, 2)
W> begin
W> delete from p where id = 1
M> alter table c set access method disk
    ALTER TABLE
X> insert into c values (11, 1)
    waits
W> commit
    ERROR 40001
X> ...
    INSERT 0 1
M> delete from p where id = 1
    DELETE 1
M> select * from c
    20|2

== parent and child move together, under a transaction that has made both
setup> create table p (id int primary key, v int); insert into p values (1, 0)
setup> create table c (id int primary key, p int references p); insert into c values (10, 1)
W> begin
W> insert into p values (2, 0)
W> insert into c values (20, 2)
W> update p set v = 1 where id = 1
M> begin
M> alter table c set access method disk
M> alter table p set access method disk
M> commit
    COMMIT
W> insert into c values (21, 2)
W> commit
    COMMIT
M> select * from p join c on p = p.id order by c.id
    1|1|10|1, 2|0|20|2, 2|0|21|2
M> delete from p where id = 2
    ERROR 23503

== a new foreign key to a table that moves in the same transaction
setup> create table p (id int primary key); insert into p values (1), (2)
setup> create table c (id int primary key, p int); insert into c values (10, 1)
M> begin
M> alter table p set access method disk
M> alter table c add foreign key (p) references p
W> insert into c values (20, 2)
    INSERT 0 1
M> commit
    COMMIT
W> insert into c values (30, 3)
    ERROR 23503

== two keys that two writers take, one before the move and one after
setup> create table t (id int primary key); insert into t values (1)
W> begin
W> insert into t values (2)
M> alter table t set access method disk
X> insert into t values (2)
    INSERT 0 1
W> commit
    ERROR 40001
M> select * from t order by id
    1, 2

== write skew across a move is refused
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 1)
W> begin isolation level serializable
W> select sum(v) from t
    2
M> alter table t set access method disk
X> begin isolation level serializable
X> select sum(v) from t
    2
X> update t set v = 0 where id = 1
X> commit
    COMMIT
W> update t set v = 0 where id = 2
W> commit
    ERROR 40001

== an empty table, and one without columns to its name
setup> create table t (id int primary key); create table n ()
M> alter table t set access method disk
M> alter table n set access method disk
M> insert into t values (1)
M> insert into n default values
M> alter table n set access method memory
M> select count(*) from n
    1
M> select * from t
    1

== what was demanded before the move is demanded of who follows
setup> create table t (id int primary key, v int); insert into t values (1, 10)
W> begin
W> insert into t values (2, 200)
X> begin
X> insert into t values (3, 30)
M> begin
M> alter table t add constraint small check (v < 100)
M> alter table t add column w int generated always as (v + 1) stored
M> alter table t set access method disk
M> commit
    COMMIT
W> commit
    ERROR 23514
X> commit
    COMMIT
M> select * from t order by id
    1|10|11, 3|30|31

== of rows that follow into a copy nothing is demanded that the table which is gone had
setup> create table p (id int primary key); create table t (id int primary key, v int); insert into t values (1, 10)
W> begin
W> insert into t values (2, 200)
M> begin
M> alter table t add constraint small check (v < 100)
M> alter table t add foreign key (v) references p not valid
M> create table n as select * from t
M> drop table t
M> commit
    COMMIT
W> commit
    COMMIT
M> select * from n order by id
    1|10, 2|200

== the rows that were left are freed under who holds one of them
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
setup> create table d (id int primary key, v int) using disk; insert into d values (1, 10), (2, 20)
R> begin isolation level repeatable read
R> select * from t join d using (id) order by id
    1|10|10, 2|20|20
M> alter table t set access method disk
M> alter table d set access method memory
X> begin
X> update t set v = v + 1 where id = 1
X> update d set v = v + 1 where id = 1
R> select * from t join d using (id) order by id
    1|10|10, 2|20|20
R> commit
M> select pg_sleep(0.5)
X> update t set v = v + 1 where id = 2
X> update d set v = v + 1 where id = 2
X> commit
    COMMIT
server> \kill
M> select t.*, d.v from t join d using (id) order by 1
    1|11|11, 2|21|21

== the mover takes a parent away where it is, and others give it children where it was
setup> create table p (id int primary key, v int); insert into p values (1, 0), (2, 0)
setup> create table c (id int primary key, p int references p)
M> begin
M> alter table p set access method disk
M> delete from p where id = 1
Y> insert into c values (20, 1)
    INSERT 0 1
M> commit
    ERROR 23503
Y> select * from c
    20|1
M> begin
M> alter table p set access method disk
Y> begin
Y> insert into c values (21, 2)
M> delete from p where id = 2
    DELETE 1
Y> commit
    COMMIT
M> commit
    ERROR 23503
M> select count(*) from c join p on p = p.id
    2

== who waits for a weak hold of a row looks where it is
setup> create table p (id int primary key, v int); insert into p values (1, 0)
W> begin
W> select id from p where id = 1 for key share
X> begin
X> select v from p where id = 1 for update
    waits
M> alter table p set access method disk
Y> update p set v = 5 where id = 1
    UPDATE 1
W> commit
X> ...
    5
X> commit

== a snapshot from before does not hold a row that has changed where it is
setup> create table p (id int primary key, v int); insert into p values (1, 0), (2, 0)
W> begin isolation level repeatable read
W> select count(*) from p
    2
M> alter table p set access method disk
X> update p set v = 99 where id = 1
W> select v from p where id = 1 for update
    ERROR 40001
W> rollback

== a deferrable key is asked at the end, of rows that have followed before
setup> create table p (id int primary key); insert into p values (1)
setup> create table c (id int primary key, p int)
W> begin
W> insert into c values (10, 99)
X> begin
X> insert into c values (11, 98)
M> alter table c add foreign key (p) references p deferrable
W> select 1
    1
X> select 1
    1
X> insert into p values (98)
W> commit
    ERROR 23503
X> commit
    COMMIT
M> select * from c
    11|98

== a child of a parent that has moved twice keeps it
setup> create table p (id int primary key, v int); insert into p values (1, 0), (2, 0)
setup> create table c (id int primary key, p int references p deferrable)
W> begin
W> insert into c values (10, 1)
M> alter table p set access method disk
M> alter table p set access method memory
W> select 1
    1
X> delete from p where id = 1
    waits
W> commit
    COMMIT
X> ...
    ERROR 23503

== who has to wait for a row holds nothing of it
setup> create table p (id int primary key, v int); insert into p values (1, 0)
setup> create table c (id int primary key, p int references p)
W> begin
W> insert into c values (10, 1)
M> alter table p set access method disk
X> delete from p where id = 1
    waits
W> update p set v = 1 where id = 1
    UPDATE 1
W> commit
    COMMIT
X> ...
    ERROR 23503

== a key that is not valid is nobody's business
setup> create table p (id int primary key); insert into p values (1)
setup> create table c (id int primary key, p int, note text); insert into c values (1, 99, ''), (2, 98, '')
setup> alter table c add foreign key (p) references p not valid
W> begin
W> update c set note = 'x' where id = 1
M> begin
M> update c set note = 'y' where id = 2
M> alter table p set access method disk
M> commit
    COMMIT
W> commit
    COMMIT
M> alter table c set access method disk
M> select * from c order by id
    1|99|x, 2|98|y
M> insert into c values (3, 97, '')
    ERROR 23503

== what the mover has mended is in order
setup> create table p (id int primary key, v int); insert into p values (1, 0)
M> begin
M> alter table p add constraint small check (v < 100)
M> create unique index by_v on p (v)
M> alter table p set access method disk
W> insert into p values (3, 200), (4, 0)
    INSERT 0 2
M> update p set v = id where id > 2
M> commit
    COMMIT
W> select * from p order by id
    1|0, 3|3, 4|4

== a new key before the move is asked of everybody
setup> create table p (id int primary key); insert into p values (1)
setup> create table c (id int primary key, p int); insert into c values (10, 1)
M> begin
M> alter table c add foreign key (p) references p
M> alter table p set access method disk
M> insert into p values (7)
M> insert into c values (70, 7)
W> insert into c values (11, 99)
    INSERT 0 1
M> commit
    ERROR 23503
M> begin
M> delete from c where id = 11
M> alter table c add foreign key (p) references p
M> alter table p set access method disk
M> insert into p values (7)
M> insert into c values (70, 7)
M> commit
    COMMIT
M> select * from c order by id
    10|1, 70|7

== write skew over a table and its mover is refused
setup> create table t (id int primary key, v int); insert into t values (1, 1)
setup> create table u (id int primary key, v int); insert into u values (1, 1)
M> begin isolation level serializable
M> alter table t set access method disk
M> select sum(v) from t
    1
X> begin isolation level serializable
X> select sum(v) from u
    1
X> update t set v = 0 where id = 1
X> commit
    COMMIT
M> update u set v = 0 where id = 1
M> commit
    ERROR 40001

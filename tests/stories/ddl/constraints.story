# Constraints by ALTER TABLE, one session, on both servers.

== check
T> create table t (id int, v int); insert into t values (1, 10), (2, null)
T> alter table t add constraint positive check (v > 0)
T> alter table t add constraint positive check (v > 1)
    ERROR 42710
T> alter table t add constraint big check (v > 10)
    ERROR 23514: big
T> insert into t values (3, 0)
    ERROR 23514: positive
T> update t set v = -1 where id = 1
    ERROR 23514: positive
T> insert into t values (3, null)
T> alter table t drop constraint positive
T> insert into t values (4, 0)
T> alter table t drop constraint positive
    ERROR 42704
T> alter table t drop constraint if exists positive
    ALTER TABLE

== unique: nulls differ, several columns
T> create table t (a int, b int); insert into t values (1, 1), (1, 2), (null, 1), (null, 1)
T> alter table t add unique (a)
    ERROR 23505
T> alter table t add constraint once unique (a, b)
T> insert into t values (1, 2)
    ERROR 23505: once
T> insert into t values (1, null), (1, null)
T> update t set b = 1 where a = 1 and b = 2
    ERROR 23505
T> update t set b = 3 where a = 1 and b = 2
T> insert into t values (1, 2)
    INSERT 0 1

== primary key
T> create table t (a int, b int); insert into t values (1, 1), (2, null)
T> alter table t add primary key (b)
    ERROR 23502
T> alter table t add primary key (a)
T> alter table t add primary key (a)
    ERROR 42P16
T> insert into t values (1, 2)
    ERROR 23505: t_pkey
T> insert into t values (null, 2)
    ERROR 23502
T> alter table t drop constraint t_pkey
T> insert into t values (1, 2)
T> insert into t values (null, 2)
    ERROR 23502

== foreign key
T> create table p (id int primary key, k int unique); insert into p values (1, 10), (2, 20)
T> create table c (id int primary key, p int, k int); insert into c values (1, 1, 10), (2, null, 30)
T> alter table c add constraint of_p foreign key (p) references p
T> alter table c add constraint of_k foreign key (k) references p (k)
    ERROR 23503: of_k
T> update c set k = 20 where id = 2
T> alter table c add constraint of_k foreign key (k) references p (k)
T> insert into c values (3, 9, 10)
    ERROR 23503: of_p
T> update c set p = 9 where id = 1
    ERROR 23503: of_p
T> delete from p where id = 1
    ERROR 23503
T> update p set k = 11 where id = 1
    ERROR 23503: of_k
T> update p set k = 10 where id = 1
    UPDATE 1
T> alter table c drop constraint of_k
T> alter table c drop constraint of_p
T> delete from p
    DELETE 2
T> alter table c add foreign key (p) references nothing
    ERROR 42P01
T> alter table c add foreign key (p) references p (nothing)
    ERROR 42703
T> create table q (id int); 
T> alter table c add foreign key (p) references q (id)
    ERROR 42830

== foreign key actions
T> create table p (id int primary key); insert into p values (1), (2), (3), (4)
T> create table a (id int primary key, p int references p on delete cascade on update cascade)
T> create table b (id int primary key, p int references p on delete set null)
T> insert into a values (1, 1), (2, 2); insert into b values (1, 1), (2, 3)
T> delete from p where id = 1
T> select * from a order by id
    2|2
T> select * from b order by id
    1|NULL, 2|3
T> update p set id = 22 where id = 2
T> select * from a
    2|22
T> create table d (id int primary key default 7, p int default 4 references p on delete set default)
T> insert into d values (1, 3)
T> delete from b
T> delete from p where id = 3
T> select * from d
    1|4

== a table that refers to itself
T> create table tree (id int primary key, above int references tree)
T> insert into tree values (1, null), (2, 1), (3, 2)
T> insert into tree values (4, 5), (5, null)
    INSERT 0 2
T> delete from tree where id = 1
    ERROR 23503
T> delete from tree
    DELETE 5

== indexes
T> create table t (id int primary key, a int, b text)
T> insert into t values (1, 3, 'c'), (2, 1, 'a'), (3, null, 'b'), (4, 1, null)
T> create index by_a on t (a)
T> create index by_a on t (b)
    ERROR 42P07
T> create index if not exists by_a on t (b)
    CREATE INDEX
T> create unique index once on t (a)
    ERROR 23505: once
T> create unique index once on t (a, b)
T> insert into t values (5, 1, 'a')
    ERROR 23505: once
T> create index by_b on t (b desc nulls last, a)
T> select id from t where a = 1 order by id
    2, 4
T> select id from t order by b desc nulls last, a
    1, 3, 2, 4
T> select id from t where a is null
    3
T> drop index by_a
T> drop index by_a
    ERROR 42704
T> drop index if exists by_a
    DROP INDEX
T> drop index t_pkey
    ERROR 2BP01
T> create index on t (nothing)
    ERROR 42703
T> create index concurrently later on t (a)
T> begin
T> create index concurrently never on t (a)
    ERROR 25001
T> rollback
T> drop index concurrently later
    DROP INDEX

== a table with everything, in one statement
T> create table p (id serial primary key, name varchar(10) not null unique)
T> create table if not exists p (x int)
    CREATE TABLE
T> create table p (x int)
    ERROR 42P07
T> insert into p (name) values ('one'), ('two')
T> insert into p (name) values ('one')
    ERROR 23505
T> insert into p (name) values ('three')
T> select * from p order by id
    1|one, 2|two, 4|three
T> create table c (id bigserial primary key, p int not null references p on delete cascade, q numeric(6,2) default 1.5 check (q > 0), constraint each_once unique (p, q))
T> insert into c (p) values (1), (2)
T> insert into c (p) values (1)
    ERROR 23505: each_once
T> insert into c (p, q) values (1, -1)
    ERROR 23514: c_q_check
T> insert into c (p, q) values (9, 1)
    ERROR 23503: c_p_fkey
T> select * from c order by id
    1|1|1.50, 2|2|1.50
T> drop table c, p
T> drop table p
    ERROR 42P01
T> drop table if exists p
    DROP TABLE

== sequences
T> create sequence s start 5 increment 2
T> select nextval('s'), nextval('s')
    5|7
T> select currval('s'), lastval()
    7|7
T> select setval('s', 100)
    100
T> begin
T> select nextval('s')
    102
T> rollback
T> select nextval('s')
    104
T> create table t (id int default nextval('s'), v int)
T> insert into t (v) values (1), (2)
T> select id from t order by id
    106, 108
T> drop sequence s
    ERROR 2BP01
T> drop sequence s cascade
T> insert into t (v) values (3)
T> select id from t where v = 3
    NULL

== a table whose children have lost their foreign keys can be dropped
setup> create table p (id int primary key); create table q (id int primary key)
setup> create table c (id int primary key, p int references p (id), q int references q (id))
M> alter table c drop column p
M> drop table p
    DROP TABLE
M> drop table q
    ERROR 2BP01
M> alter table c drop constraint c_q_fkey
M> drop table q
    DROP TABLE
M> select * from c
    (id, q)
    no rows

== two minus signs in an expression are no comment
setup> create table t (id int default - -3, v int, check (- -v > 0), g int generated always as (- -v) stored)
M> insert into t (v) values (1) returning id, g
    3|1
M> insert into t (v) values (-1)
    ERROR 23514

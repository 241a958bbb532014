# Schemas, views and types are objects of the transactional catalog: what rests on them, and what happens at once.

== a schema does not go from beneath a table that is being made
setup> create schema app
T1> begin
T1> create table app.t (a int)
T2> drop schema app
    waits
T1> commit
T2> ...
    ERROR 2BP01: cannot drop schema app

== a table is not made in a schema that is going
setup> create schema app
T1> begin
T1> drop schema app
T2> create table app.t (a int)
    waits
T1> commit
T2> ...
    ERROR 3F000: schema "app" does not exist

== a schema that stays after all
setup> create schema app
T1> begin
T1> drop schema app
T2> create table app.t (a int)
    waits
T1> rollback
T2> ...
    CREATE TABLE

== a view and a change of what it reads
setup> create table t (a int, b int)
T1> begin
T1> create view v as select b from t
T2> alter table t drop column b
    waits
T1> commit
T2> ...
    ERROR 2BP01: cannot drop column b of table t
T1> select * from v
    no rows

== a view of a column that is going
setup> create table t (a int, b int)
T1> begin
T1> alter table t drop column b
T2> create view v as select b from t
    waits
T1> commit
T2> ...
    ERROR 42703

== a view is its transaction's own until the commit
setup> create table t (a int); insert into t values (1)
T1> begin
T1> create view v as select a + 1 as n from t
T1> select * from v
    2
T2> select * from v
    ERROR 42P01
T1> create or replace view v as select a + 1 as n, a from t
T1> commit
T2> select * from v
    2|1

== a reader of a view whose table changes
setup> create table t (a int primary key, b int); insert into t values (1, 10); create view v as select a, b from t
T1> begin isolation level repeatable read
T1> select * from v
    1|10
T2> alter table t rename column b to c
T2> alter table t add column b int default 5
T2> update t set c = 11
T2> select * from v
    1|11
T1> select * from v
    1|10
T1> commit
T1> select * from v
    1|11

== a label that is added while a table of its type is being made
setup> create type mood as enum ('a', 'b')
T1> begin
T1> create table t (m mood)
T2> alter type mood add value 'c'
    waits
T1> commit
T2> ...
    ALTER TYPE
T1> insert into t values ('c')
T2> select m from t
    c

== a label is its transaction's own until the commit
setup> create type mood as enum ('a', 'b'); create table t (m mood)
T1> begin
T1> alter type mood add value 'c' before 'b'
T1> insert into t values ('c'), ('b')
T2> insert into t values ('c')
    ERROR 22P02
T2> insert into t values ('a')
T1> commit
T2> insert into t values ('c')
T2> select m, count(*) from t group by m order by m
    a|1, c|2, b|1

== a type does not go from beneath a column
setup> create type mood as enum ('a')
T1> begin
T1> create table t (m mood)
T2> drop type mood
    waits
T1> commit
T2> ...
    ERROR 2BP01: cannot drop type mood

== after a crash
setup> create schema app; create type app.mood as enum ('b', 'a'); create table app.t (m app.mood)
setup> create view app.v as select m from app.t; comment on view app.v is 'a view'
T1> insert into app.t values ('a'), ('b')
T2> begin
T2> create schema gone
server> \kill
T1> select m from app.v order by m
    b, a
T1> insert into app.t values ('c')
    ERROR 22P02
T1> select obj_description('app.v'::regclass)
    a view
T1> create table gone.t (a int)
    ERROR 3F000
T1> drop schema app cascade
T1> select * from app.v
    ERROR 42P01

== a type does not go from beneath a column that a table is getting
setup> create type mood as enum ('sad', 'happy'); create table t (a int)
T1> begin
T1> alter table t add column m mood
T2> drop type mood
    waits
T1> commit
T2> ...
    ERROR 2BP01: cannot drop type mood

== a column does not go from beneath a view that is getting it
setup> create table t (a int, b int); create view v as select a from t
T1> begin
T1> create or replace view v as select a, b from t
T2> alter table t drop column b
    waits
T1> commit
T2> ...
    ERROR 2BP01: cannot drop column b of table t

# What is made rests on what it needs until it is committed: nobody takes that away meanwhile, or changes it unseen.

== a schema, and a rollback to a savepoint while somebody waits to drop it
setup> drop schema if exists s cascade; create schema s
A> begin
A> create table s.t1 (a int)
D> drop schema s
    waits
A> savepoint p
A> create table s.t2 (a int)
A> rollback to p
A> commit
    COMMIT
D> ...
    ERROR 2BP01
A> select * from s.t1
    no rows
setup> drop schema s cascade

== an enum type
setup> create type e as enum ('x', 'y')
A> begin
A> create table t1 (c e)
D> drop type e
    waits
A> savepoint p
A> create table t2 (c e)
A> rollback to p
A> commit
    COMMIT
D> ...
    ERROR 2BP01
A> insert into t1 values ('x')
    INSERT 0 1
setup> drop table t1; drop type e

== a sequence under a default
setup> create sequence sq
A> begin
A> create table d (q int default nextval('sq'))
D> drop sequence sq
    waits
A> commit
    COMMIT
D> ...
    ERROR 2BP01
A> insert into d default values
    INSERT 0 1
A> begin
A> alter table d add r int default 0
A> alter table d alter r set default nextval('sq')
A> savepoint p
A> alter table d drop column q
D> drop sequence sq cascade
    waits
A> rollback to p
A> commit
    COMMIT
D> ...
    DROP SEQUENCE
A> insert into d default values
    INSERT 0 1
A> select q, r from d order by q
    1|0, NULL|NULL

== the sequence of another table's column
setup> create table o (id serial)
A> begin
A> create table d (q int default nextval('o_id_seq'))
D> drop table o
    waits
A> commit
    COMMIT
D> ...
    ERROR 2BP01
D> alter table o drop column id
    ERROR 2BP01
D> drop table o, d
    DROP TABLE
setup> create table o (id serial)
A> begin
A> create table d (q int default nextval('o_id_seq'))
D> drop table o cascade
    waits
A> commit
    COMMIT
D> ...
    DROP TABLE
A> insert into d default values
    INSERT 0 1
A> select * from d
    NULL

== a type beneath a view that is made meanwhile
setup> create table t (id int primary key, s text); insert into t values (1, 'a')
A> begin
A> create view w as select s from t
D> alter table t alter s type text using s || s
    waits
A> commit
    COMMIT
D> ...
    ERROR 0A000
A> select * from w
    a

== a view that another text puts over a column meanwhile
setup> create table t (id int primary key, s text); insert into t values (1, 'a')
setup> create view w as select id::text as s from t
A> begin
A> create or replace view w as select s from t
D> alter table t alter s type text using s || s
    waits
A> commit
    COMMIT
D> ...
    ERROR 0A000
A> select * from w
    a

== a materialized view
setup> create table t (id int primary key, s text); insert into t values (1, 'a')
A> begin
A> create materialized view m as select s from t
D> alter table t alter s type text using s || s
    waits
A> commit
    COMMIT
D> ...
    ERROR 0A000
setup> drop materialized view m

== a schema that is renamed
setup> drop schema if exists s cascade; drop schema if exists r cascade; create schema s
A> begin
A> create table s.t1 (a int)
D> alter schema s rename to r
    waits
A> commit
    COMMIT
D> ...
    ALTER SCHEMA
A> select * from r.t1
    no rows
B> begin
B> alter schema r rename to s
A> create table r.t2 (a int)
    waits
B> commit
    COMMIT
A> ...
    ERROR 3F000
setup> drop schema s cascade

== a sequence that moves into a schema which is dropped
setup> drop schema if exists s cascade; create schema s; create sequence sq
A> begin
A> alter sequence sq set schema s
D> drop schema s
    waits
A> commit
    COMMIT
D> ...
    ERROR 2BP01
setup> drop schema s cascade

== a label beside a table that is new
setup> create type e as enum ('x')
A> begin
A> create table t1 (c e)
D> alter type e add value 'y'
    waits
A> commit
    COMMIT
D> ...
    ALTER TYPE
A> insert into t1 values ('y')
    INSERT 0 1
B> begin
B> alter type e add value 'z'
A> create table t2 (c e)
    waits
B> commit
    COMMIT
A> ...
    CREATE TABLE
A> insert into t2 values ('z')
    INSERT 0 1
setup> drop table t1; drop table t2; drop type e

== at repeatable read
setup> create type e as enum ('x')
A> begin isolation level repeatable read
A> select 1
    1
D> alter type e add value 'y'
A> create table t1 (c e)
    ERROR 40001
A> rollback
setup> drop type e

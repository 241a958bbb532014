# ALTER TABLE and columns, one session: what PostgreSQL does, Froglet does. Each story is played on both.

== a default is for the rows to come, and fills only a column that is added with it
T> create table t (id int primary key, v int default 1)
T> insert into t (id) values (1)
T> alter table t alter column v set default 2
T> insert into t (id) values (2)
T> alter table t alter column v drop default
T> insert into t (id) values (3)
T> alter table t add column w int default 7
T> alter table t alter column w set default 8
T> insert into t (id) values (4)
T> alter table t add column x int
T> alter table t alter column x set default 9
T> insert into t (id) values (5)
T> select * from t order by id
    (id, v, w, x)
    1|1|7|NULL, 2|2|7|NULL, 3|NULL|7|NULL, 4|NULL|8|NULL, 5|NULL|8|9

== not null
T> create table t (id int, v int); insert into t values (1, 1), (2, null)
T> alter table t alter column v set not null
    ERROR 23502: contains null values
T> update t set v = 0 where v is null
T> alter table t alter column v set not null
T> insert into t values (3, null)
    ERROR 23502
T> update t set v = null where id = 1
    ERROR 23502
T> alter table t alter column v drop not null
T> insert into t values (3, null)
T> alter table t add column w int not null
    ERROR 23502
T> alter table t add column w int not null default 1
T> truncate t
T> alter table t add column y int not null
T> insert into t values (1, 1, 1, null)
    ERROR 23502

== names
T> create table t (id int, v int)
T> alter table t add column v int
    ERROR 42701
T> alter table t add column if not exists v int
    ALTER TABLE
T> alter table t rename column v to id
    ERROR 42701
T> alter table t rename column nothing to something
    ERROR 42703
T> alter table t drop column nothing
    ERROR 42703
T> alter table t drop column if exists nothing
    ALTER TABLE
T> alter table nothing add column v int
    ERROR 42P01
T> alter table if exists nothing add column v int
    ALTER TABLE
T> alter table t add column "Upper Case" int default 1
T> select "Upper Case" from t
    (Upper Case)
T> select upper_case from t
    ERROR 42703
T> alter table t rename to u
T> select * from u
    (id, v, Upper Case)
T> select * from t
    ERROR 42P01

== a dropped column's name is free, its values are gone
T> create table t (id int, v int); insert into t values (1, 10)
T> alter table t drop column v
T> select v from t
    ERROR 42703
T> alter table t add column v int
T> select * from t
    1|NULL

== dropping a column takes its indexes and constraints along
T> create table t (id int primary key, a int unique, b int, check (a < b))
T> create index by_ab on t (b, a)
T> insert into t values (1, 1, 2)
T> alter table t drop column a
T> insert into t values (2, 1), (3, 1)
T> alter table t add column a int default 5
T> select * from t order by id
    (id, b, a)
    1|2|5, 2|1|5, 3|1|5

== dropping what others need
T> create table p (id int primary key)
T> create table c (id int primary key, p int references p)
T> alter table p drop column id
    ERROR 2BP01
T> alter table p drop constraint p_pkey
    ERROR 2BP01
T> drop table p
    ERROR 2BP01
T> drop table p cascade
    DROP TABLE
T> insert into c values (1, 99)
    INSERT 0 1

== types
T> create table t (id int primary key, v text); insert into t values (1, '10'), (2, ' 20 '), (3, null)
T> alter table t alter column v type int
    ERROR 42804: cannot be cast automatically
T> alter table t alter column v type int using v::int
T> select v + 1 from t order by id
    11, 21, NULL
T> alter table t alter column v type smallint
T> alter table t alter column v type numeric(10, 2)
T> select * from t order by id
    1|10.00, 2|20.00, 3|NULL
T> alter table t alter column v type varchar(3)
    ERROR 22001
T> alter table t alter column v type varchar(8)
T> select * from t order by id
    1|10.00, 2|20.00, 3|NULL
T> insert into t values (4, '123456789')
    ERROR 22001
T> alter table t alter column v type text
T> insert into t values (4, '123456789')
T> alter table t alter column v type int using length(v) + id
T> select * from t order by id
    1|6, 2|7, 3|NULL, 4|13

== a type under an index, a default, a check, a foreign key
T> create table p (id int primary key); insert into p values (1), (2)
T> create table t (id int primary key, v int default 3 unique check (v > 0), p int references p)
T> insert into t (id, p) values (1, 1)
T> alter table t alter column v type bigint
T> alter table t alter column p type bigint
T> alter table t alter column id type bigint using id + 1000
T> select * from t
    1001|3|1
T> insert into t (id, p) values (2, 1)
    ERROR 23505
T> insert into t values (2, -1, 1)
    ERROR 23514
T> insert into t values (2, 5000000000, 9)
    ERROR 23503
T> insert into t values (2, 5000000000, 2)
T> select * from t where v = 5000000000
    2|5000000000|2

== several actions in one statement
T> create table t (id int, v int); insert into t values (1, 10)
T> alter table t add column w int default 5, drop column v, alter column id type bigint, add check (w > 0), alter column id set not null
T> select * from t
    (id, w)
    1|5
T> alter table t add column x int, add column x int
    ERROR 42701
T> select * from t
    (id, w)

== generated columns
T> create table t (id int primary key, v int, d int generated always as (v * 2) stored)
T> insert into t (id, v) values (1, 10), (2, null)
T> insert into t values (3, 30, 1)
    ERROR 428C9
T> insert into t values (3, 30, default)
T> update t set d = 1
    ERROR 428C9
T> update t set v = v + 1
T> select * from t order by id
    1|11|22, 2|NULL|NULL, 3|31|62
T> alter table t add column e int generated always as (v + id) stored
T> alter table t add column f int generated always as (d + 1) stored
    ERROR 42P17
T> alter table t drop column v
    ERROR 2BP01
T> alter table t alter column v type bigint
    ERROR 0A000: generated column
T> select id, e from t order by id
    1|12, 2|NULL, 3|34

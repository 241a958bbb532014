# A text that is the name of a sequence, a relation or a type is looked up when the expression is stored.

== defaults
T> create table t (a int default nextval('nothing'))
    ERROR 42P01: relation "nothing" does not exist
T> create table t (a int default currval('nothing'::regclass))
    ERROR 42P01
T> create table t (a int default nextval('nowhere.nothing'))
    ERROR 3F000: schema "nowhere" does not exist
T> create table t (a text default 'nothing'::regtype)
    ERROR 42704: type "nothing" does not exist
T> create table t (a int)
T> alter table t add column b int default nextval('nothing')
    ERROR 42P01: relation "nothing" does not exist
T> alter table t alter column a set default nextval('nothing')
    ERROR 42P01: relation "nothing" does not exist
T> insert into t default values
T> select * from t
    NULL

== a sequence of the same transaction, in quotes, with its schema
T> begin
T> create sequence "S"
T> create table t (a int default nextval('"S"'), b int default nextval('public."S"'::regclass))
T> insert into t default values
T> commit
T> select a + b from t
    3
T> alter table t alter column a set default nextval('s')
    ERROR 42P01: relation "s" does not exist

== checks and views
T> create table t (a int check (a > nextval('nothing')))
    ERROR 42P01: relation "nothing" does not exist
T> create view v as select nextval('nothing')
    ERROR 42P01: relation "nothing" does not exist
T> create view v as select 'nothing'::regtype
    ERROR 42704: type "nothing" does not exist

# DDL is transactional: what a transaction created, dropped or emptied is its own until it commits.

== create and roll back
T1> begin
T1> create table test (id int primary key, value int)
T1> insert into test values (1, 10)
T1> select * from test
    1|10
T2> select * from test
    ERROR 42P01
T1> rollback
T1> select * from test
    ERROR 42P01

== truncate and roll back
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> truncate test
T1> select * from test
    no rows
T1> insert into test values (5, 50)
T1> rollback
T1> select * from test order by id
    1|10, 2|20

== truncate and commit
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> truncate test
T1> insert into test values (1, 11)
T1> commit
T1> select * from test
    1|11

== drop and roll back, drop and create anew
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> drop table test
T1> select * from test
    ERROR 42P01
T1> rollback
T1> select count(*) from test
    2
T1> begin
T1> drop table test
T1> create table test (a text)
T1> insert into test values ('new')
T1> commit
T2> select * from test
    (a)
    new

# A unique key that another transaction has inserted or deleted and not committed: who wants it waits
# for the verdict.

== inserted, then committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> insert into test values (3, 30)
T2> insert into test values (3, 33)
    waits
T1> commit
T2> ...
    ERROR 23505
T2> select * from test where id = 3
    3|30

== inserted, then rolled back
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> insert into test values (3, 30)
T2> insert into test values (3, 33)
    waits
T1> rollback
T2> ...
    INSERT 0 1

== deleted, then committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> delete from test where id = 1
T2> insert into test values (1, 99)
    waits
T1> commit
T2> ...
    INSERT 0 1

== deleted, then rolled back
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> delete from test where id = 1
T2> insert into test values (1, 99)
    waits
T1> rollback
T2> ...
    ERROR 23505

== deleted and inserted again in one transaction
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> delete from test where id = 1
T1> insert into test values (1, 99)
T1> update test set id = 7 where id = 1
T1> insert into test values (1, 11)
T1> commit
T1> select * from test order by id
    1|11, 2|20, 7|99

== a row inserted after the snapshot, invisible and yet in the way
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T1> select count(*) from test
    2
T2> insert into test values (3, 30)
T1> select count(*) from test
    2
T1> insert into test values (3, 33)
    ERROR 23505
T1> rollback

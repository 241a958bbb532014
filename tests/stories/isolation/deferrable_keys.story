# Unique keys that are checked at the end of the statement or the transaction: who wants to know waits there
# for whoever is writing the same key.

== deferred: both write the key, and the later to write it waits
setup> create table test (id int unique deferrable initially deferred, value int)
T1> begin
T2> begin
T1> insert into test values (1, 10)
T2> insert into test values (1, 20)
T2> commit
    waits
T1> rollback
T2> ...
T2> select * from test
    1|20

== deferred: both write the key, and the first to write it is the first to commit
setup> create table test (id int unique deferrable initially deferred, value int)
T1> begin
T2> begin
T1> insert into test values (1, 10)
T2> insert into test values (1, 20)
T1> commit
T2> commit
    ERROR 23505

== deferred: each waits for the other
setup> create table test (id int unique deferrable initially deferred, value int)
T1> begin
T2> begin
T1> insert into test values (1, 10)
T2> insert into test values (2, 20)
T1> insert into test values (2, 10)
T2> insert into test values (1, 20)
T1> commit
    waits
T2> commit
    ERROR 40P01
T1> ...

== deferred: the first is committed before the second asks
setup> create table test (id int unique deferrable initially deferred, value int)
T1> begin
T2> begin
T1> insert into test values (1, 10)
T1> commit
T2> insert into test values (1, 20)
T2> select * from test order by value
    1|10, 1|20
T2> commit
    ERROR 23505: duplicate key value violates unique constraint "test_id_key"
T2> select * from test
    1|10

== deferred: the other key is gone by the commit
setup> create table test (id int unique deferrable initially deferred, value int); insert into test values (1, 10)
T1> begin
T1> insert into test values (1, 11)
T2> delete from test where value = 10
T1> commit
T1> select * from test
    1|11

== deferred: the other deletes its row and takes it back
setup> create table test (id int unique deferrable initially deferred, value int); insert into test values (1, 10)
T1> begin
T1> insert into test values (1, 11)
T2> begin
T2> delete from test where value = 10
T1> commit
    waits
T2> rollback
T1> ...
    ERROR 23505

== immediate: asked at the end of the statement
setup> create table test (id int unique deferrable, value int); insert into test values (1, 10), (2, 20), (3, 30)
T1> update test set id = 4 - id
    UPDATE 3
T1> select id, value from test order by value
    3|10, 2|20, 1|30
T1> update test set id = 2 where id = 1
    ERROR 23505
T2> begin
T2> insert into test values (4, 40)
T1> insert into test values (4, 44)
    waits
T2> commit
T1> ...
    ERROR 23505
T1> select count(*) from test where id = 4
    1

== immediate: the other rolls back
setup> create table test (id int unique deferrable, value int)
T1> begin
T1> insert into test values (1, 10)
T2> insert into test values (1, 20)
    waits
T1> rollback
T2> ...
    INSERT 0 1

== a row inserted after the snapshot, invisible and yet in the way
setup> create table test (id int unique deferrable initially deferred, value int)
T1> begin isolation level repeatable read
T1> select count(*) from test
    0
T2> insert into test values (1, 10)
T1> insert into test values (1, 20)
T1> select * from test
    1|20
T1> commit
    ERROR 23505

== what a savepoint brings back is asked about
setup> create table test (id int unique deferrable initially deferred, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set id = 1 where id = 2
T1> savepoint s
T1> delete from test where value = 10
T1> set constraints all immediate
T1> rollback to s
T1> select * from test order by value
    1|10, 1|20
T1> commit
    ERROR 23505

== rows that pass their keys on, against one that takes one
setup> create table test (id int unique deferrable initially deferred, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set id = 2 where value = 10
T1> update test set id = 3 where value = 20
T2> insert into test values (1, 99)
    waits
T1> commit
T2> ...
    INSERT 0 1
T2> select * from test order by value
    2|10, 3|20, 1|99

# SELECT … FOR UPDATE holds rows until the transaction ends: writers and other lockers wait, readers do
# not; NOWAIT fails at once, SKIP LOCKED passes by; lock_timeout bounds the wait.

== a writer waits, a reader does not
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for update
    1|10
T2> update test set value = 11 where id = 1
    waits
T3> select * from test where id = 1
    1|10
T3> update test set value = 21 where id = 2
    UPDATE 1
T1> commit
T2> ...
    UPDATE 1

== a locker waits and then reads what was committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set value = 11 where id = 1
T2> begin
T2> select * from test where id = 1 for update
    waits
T1> commit
T2> ...
    1|11
T2> commit

== a locker at repeatable read is refused
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T2> begin isolation level repeatable read
T2> select * from test where id = 2
    2|20
T1> update test set value = 11 where id = 1
T2> select * from test where id = 1 for update
    ERROR 40001
T2> rollback

== nowait, skip locked
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for update
T2> select * from test where id = 1 for update nowait
    ERROR 55P03
T2> select * from test order by id for update skip locked
    2|20
T1> rollback
T2> select * from test order by id for update skip locked
    1|10, 2|20

== lock_timeout
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set value = 11 where id = 1
T2> set lock_timeout = '200ms'
T2> update test set value = 12 where id = 1
    ERROR 55P03
T2> begin
T2> select * from test where id = 1 for update
    ERROR 55P03
T2> rollback
T1> rollback
T2> update test set value = 12 where id = 1
    UPDATE 1

== statement_timeout while waiting for a row
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set value = 11 where id = 1
T2> set statement_timeout = '200ms'
T2> update test set value = 12 where id = 1
    ERROR 57014
T2> reset statement_timeout
T1> commit
T2> update test set value = 12 where id = 1
    UPDATE 1

== locks die with a client that vanishes
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set value = 11 where id = 1
T2> update test set value = 12 where id = 1
    waits
T1> \gone
T2> ...
    UPDATE 1
T2> select * from test order by id
    1|12, 2|20

== for share: many share, a writer waits for all of them
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for share
    1|10
T2> begin
T2> select * from test where id = 1 for share
    1|10
T3> update test set value = 11 where id = 1
    waits
T1> commit
T2> select * from test where id = 1
    1|10
T2> commit
T3> ...
    UPDATE 1

== for share waits for a writer and reads what was committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set value = 11 where id = 1
T2> begin
T2> select * from test where id = 1 for share
    waits
T1> commit
T2> ...
    1|11
T2> commit

== for share, then an update of one's own, while another waits to write
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for share
T2> update test set value = value + 5 where id = 1
    waits
T1> update test set value = 11 where id = 1
    UPDATE 1
T1> commit
T2> ...
    UPDATE 1
T2> select * from test where id = 1
    1|16

== for share against for update, nowait and skip locked
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for share
T2> select * from test where id = 1 for update nowait
    ERROR 55P03
T2> select * from test order by id for update skip locked
    2|20
T2> select * from test order by id for share skip locked
    1|10, 2|20
T2> select * from test where id = 1 for share nowait
    1|10
T1> rollback
T2> select * from test where id = 1 for update nowait
    1|10

== two who share and both want to write: a deadlock, and one is refused
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for share
T2> begin
T2> select * from test where id = 1 for share
T1> update test set value = 11 where id = 1
    waits
T2> update test set value = 12 where id = 1
    ERROR 40P01
T2> rollback
T1> ...
    UPDATE 1
T1> commit

# READ COMMITTED after a wait: the row is read again, the predicate asked again, and the new values are
# what the statement computes from. One statement sees one snapshot.

== the predicate is asked again
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set value = 100 where id = 1
T2> update test set value = value + 1 where value >= 100
    UPDATE 0
T3> update test set value = value + 1 where value = 10
    waits
T1> commit
T3> ...
    UPDATE 0

== and holds
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set value = 15 where id = 1
T2> update test set value = value * 2 where value between 10 and 16
    waits
T1> commit
T2> ...
    UPDATE 1
T2> select * from test order by id
    1|30, 2|20

== the row has gone
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> delete from test where id = 1
T2> update test set value = 0
    waits
T1> commit
T2> ...
    UPDATE 1
T2> select * from test order by id
    2|0

== each statement has a new snapshot, and a transaction its own writes
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> insert into test values (3, 30)
T2> insert into test values (4, 40)
T1> select * from test order by id
    1|10, 2|20, 3|30, 4|40
T2> select * from test order by id
    1|10, 2|20, 4|40
T1> commit

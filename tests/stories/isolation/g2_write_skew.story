# G2-item, write skew, and G2, anti-dependency cycle: each reads what the other writes. Snapshot
# isolation (REPEATABLE READ) allows both, as in PostgreSQL; only SERIALIZABLE would refuse one.

== g2-item, repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> select * from test where id in (1, 2) order by id
    1|10, 2|20
T2> select * from test where id in (1, 2) order by id
    1|10, 2|20
T1> update test set value = 11 where id = 1
T2> update test set value = 21 where id = 2
T1> commit
    COMMIT
T2> commit
    COMMIT
T1> select * from test order by id
    1|11, 2|21

== g2, repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> select * from test where value % 3 = 0
    no rows
T2> select * from test where value % 3 = 0
    no rows
T1> insert into test values (3, 30)
T2> insert into test values (4, 42)
T1> commit
    COMMIT
T2> commit
    COMMIT
T1> select * from test where value % 3 = 0 order by id
    3|30, 4|42

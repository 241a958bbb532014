# A foreign key that is added, or looked at again, beside writers that have deleted a parent or changed its key: such a
# writer runs again (40001), whatever the child had to do with the parent before. No child is left without its parent.

== a second time
setup> create table p (id int primary key, v int); insert into p values (1, 1), (5, 5)
setup> create table c (k int); insert into c values (1), (5)
setup> alter table c add constraint f foreign key (k) references p; alter table c drop constraint f
W> begin
W> delete from p where id = 5
M> alter table c add constraint f foreign key (k) references p
    ALTER TABLE
W> commit
    ERROR 40001
M> select * from c left join p on p.id = c.k order by k
    1|1|1, 5|5|5

== beside another of the same child
setup> create table p (id int primary key, v int); insert into p values (1, 1), (5, 5), (6, 6)
setup> create table c (k int, l int references p); insert into c values (5, 1)
W> begin
W> delete from p where id = 5
V> begin
V> update p set id = 7 where id = 6
U> begin
U> update p set v = 2 where id = 1
M> alter table c add constraint f foreign key (k) references p
    ALTER TABLE
W> commit
    ERROR 40001
V> commit
    ERROR 40001
U> commit
    COMMIT
M> select * from p order by id
    1|2, 5|5, 6|6

== validated
setup> create table p (id int primary key); insert into p values (1), (5)
setup> create table c (k int); insert into c values (1), (5)
setup> alter table c add constraint f foreign key (k) references p not valid
W> begin
W> delete from p where id = 1
    ERROR 23503
W> rollback
V> begin
V> delete from c where k = 5; delete from p where id = 5
M> alter table c validate constraint f
    ALTER TABLE
V> commit
    ERROR 40001
M> select * from p order by id
    1, 5

== not valid, then validated, beside one writer
setup> create table p (id int primary key); insert into p values (1), (5)
setup> create table c (k int); insert into c values (1), (5)
W> begin
W> delete from p where id = 5
M> alter table c add constraint f foreign key (k) references p not valid
    ALTER TABLE
M> alter table c validate constraint f
    ALTER TABLE
W> commit
    ERROR 40001

== a new type
setup> create table p (id int primary key); insert into p values (1), (5)
setup> create table c (k int references p); insert into c values (1)
W> begin
W> delete from p where id = 5
M> alter table c alter k type int using k + 4
    ALTER TABLE
W> commit
    ERROR 40001
M> select * from c join p on p.id = c.k
    5|5

== a table that is new refers to one that is referred to
setup> create table p (id int primary key); insert into p values (1), (5)
setup> create table c (k int references p); insert into c values (1)
W> begin
W> delete from p where id = 5
M> create table d (k int references p, l int references p)
    CREATE TABLE
M> insert into d values (5, 1)
    waits
W> commit
    COMMIT
M> ...
    ERROR 23503

# A foreign key while both sides change: a child holds its parent, so that no child is left without.

== a parent whose child is not committed yet cannot go
setup> create table parent (id int primary key, note text); create table child (id int primary key, parent int references parent)
setup> insert into parent values (1, 'a'), (2, 'b')
T1> begin
T1> insert into child values (10, 1)
T2> delete from parent where id = 1
    waits
T1> commit
T2> ...
    ERROR 23503

== a child of a parent that is being deleted waits, and is refused
setup> create table parent (id int primary key, note text); create table child (id int primary key, parent int references parent)
setup> insert into parent values (1, 'a'), (2, 'b')
T1> begin
T1> delete from parent where id = 1
T2> insert into child values (10, 1)
    waits
T1> commit
T2> ...
    ERROR 23503

== an update of the parent that leaves its key alone is in nobody's way
setup> create table parent (id int primary key, note text); create table child (id int primary key, parent int references parent)
setup> insert into parent values (1, 'a'), (2, 'b')
T1> begin
T1> update parent set note = 'changed' where id = 1
T2> insert into child values (10, 1)
    INSERT 0 1
T1> commit
T1> begin
T1> insert into child values (11, 2)
T2> update parent set note = 'changed too' where id = 2
    UPDATE 1
T1> commit

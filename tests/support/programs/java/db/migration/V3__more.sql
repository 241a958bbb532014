alter table person add column note text default 'n/a', alter column name type text;
create table house (id serial primary key, owner bigint not null references person on delete cascade, doors int default 4);
create view owners as select p.name, count(h.id) as houses from person p left join house h on h.owner = p.id group by p.name;
comment on table house is 'who lives where';

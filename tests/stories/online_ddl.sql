-- Schema changes on pgbench's tables, made one after the other while pgbench runs (test_online_ddl.py).
-- Blocks are separated by an empty line and begin with what they are. A block is one psql script;
-- `shows:` is what its queries print, `fails:` the SQLSTATE it must end with, having changed nothing.
-- The whole leaves the tables as they were, so that it can be run again and again.

-- add a column with a constant
-- shows: 0
alter table pgbench_accounts add column c_constant int default 7;
select count(*) from pgbench_accounts where c_constant is distinct from 7;

-- add a computed column: right for every row in every snapshot, whoever writes it
-- shows: 0
alter table pgbench_accounts add column c_computed bigint generated always as (abalance * 2 + aid) stored;
select count(*) from pgbench_accounts where c_computed is distinct from abalance * 2 + aid;

-- add a column with a volatile default: each row has its own value
-- shows: t
alter table pgbench_accounts add column c_volatile float8 default random();
select count(distinct c_volatile) > 90000 from pgbench_accounts;

-- add a serial column: each row has its own number
-- shows: t
alter table pgbench_accounts add column c_serial bigserial;
select count(distinct c_serial) = count(*) and min(c_serial) > 0 from pgbench_accounts;

-- add a column NOT NULL DEFAULT
-- shows: 0
alter table pgbench_accounts add column c_not_null text not null default 'x';
select count(*) from pgbench_accounts where c_not_null is distinct from 'x';

-- rename a column that the load does not name
alter table pgbench_accounts rename column c_constant to c_renamed;
alter table pgbench_accounts rename column filler to padding;
alter table pgbench_accounts rename column padding to filler;

-- drop the columns added, one by itself and several together
alter table pgbench_accounts drop column c_renamed;
alter table pgbench_accounts drop column c_computed, drop column c_volatile, drop column c_serial;
alter table pgbench_accounts drop column if exists c_not_null;

-- drop a column that came with the table, and bring it back
alter table pgbench_accounts drop column filler;
alter table pgbench_accounts add column filler char(84) default '';

-- widen the type of the column that the load writes
-- shows: 0 bigint
alter table pgbench_accounts alter column abalance type bigint;
select (select count(*) from pgbench_accounts where abalance is null), data_type
    from information_schema.columns where table_name = 'pgbench_accounts' and column_name = 'abalance';

-- and narrow it again
alter table pgbench_accounts alter column abalance type int using abalance::int;

-- a USING that must be applied to each row exactly once, and its way back
alter table pgbench_accounts alter column abalance type bigint using abalance + 1000000000;
alter table pgbench_accounts alter column abalance type int using (abalance - 1000000000)::int;

-- change all balances in one transaction, and back: a sum commutes with what the load adds
begin;
alter table pgbench_accounts alter column abalance type bigint using abalance + 1000000;
alter table pgbench_tellers alter column tbalance type bigint using tbalance + 1000000;
alter table pgbench_branches alter column bbalance type bigint using bbalance + 1000000;
alter table pgbench_history alter column delta type bigint;
commit;
begin;
alter table pgbench_accounts alter column abalance type int using abalance - 1000000;
alter table pgbench_tellers alter column tbalance type int using tbalance - 1000000;
alter table pgbench_branches alter column bbalance type int using bbalance - 1000000;
alter table pgbench_history alter column delta type int;
commit;

-- defaults
alter table pgbench_history alter column filler set default 'h';
alter table pgbench_history alter column filler drop default;

-- not null
alter table pgbench_accounts alter column abalance set not null;
alter table pgbench_accounts alter column abalance drop not null;

-- a check that holds
alter table pgbench_accounts add constraint in_bounds check (abalance between -2000000000 and 2000000000);
alter table pgbench_accounts drop constraint in_bounds;

-- a unique constraint that holds
alter table pgbench_accounts add constraint one_each unique (bid, aid);
alter table pgbench_accounts drop constraint one_each;

-- foreign keys, which the load then has to respect
alter table pgbench_history add constraint of_account foreign key (aid) references pgbench_accounts;
alter table pgbench_history add constraint of_teller foreign key (tid) references pgbench_tellers (tid);
alter table pgbench_tellers add constraint of_branch foreign key (bid) references pgbench_branches (bid);

-- foreign keys go
alter table pgbench_history drop constraint of_account, drop constraint of_teller;
alter table pgbench_tellers drop constraint of_branch;

-- a primary key for the table that has none
-- shows: t
alter table pgbench_history add column hid bigserial;
alter table pgbench_history add primary key (hid);
select count(*) = count(distinct hid) from pgbench_history;
alter table pgbench_history drop column hid;

-- another primary key for the table that the load finds its rows by
begin;
alter table pgbench_accounts drop constraint pgbench_accounts_pkey;
alter table pgbench_accounts add primary key (aid);
commit;

-- indexes
create index by_balance on pgbench_accounts (bid, abalance desc);
create unique index by_number on pgbench_accounts (aid desc);
drop index by_balance;
drop index by_number;

-- indexes, concurrently
create index concurrently by_balance on pgbench_accounts (abalance);
drop index by_balance;

-- several changes and rows in one transaction
-- shows: 100 100
begin;
alter table pgbench_accounts add column c_note text;
update pgbench_accounts set c_note = 'note ' || aid where aid <= 100;
alter table pgbench_accounts add column c_long int default 3;
create index by_note on pgbench_accounts (c_note);
alter table pgbench_accounts add constraint noted check (c_long = 3 or c_note is null);
insert into pgbench_accounts (aid, bid, abalance, c_note) values (1000001, 1, 0, 'mine');
delete from pgbench_accounts where c_note = 'mine';
commit;
select count(*), count(c_note) from pgbench_accounts where c_note like 'note %' and c_long = 3;

-- the same backwards
begin;
alter table pgbench_accounts drop constraint noted;
drop index by_note;
alter table pgbench_accounts drop column c_note, drop column c_long;
commit;

-- several changes and rows, rolled back
-- shows: 0
begin;
alter table pgbench_accounts add column c_gone int default 1;
update pgbench_accounts set c_gone = 2 where aid <= 100;
alter table pgbench_accounts alter column abalance type bigint using abalance * 1000;
alter table pgbench_tellers drop column tbalance;
create index gone on pgbench_accounts (c_gone);
delete from pgbench_history;
rollback;
select count(*) from information_schema.columns where column_name = 'c_gone';

-- part of a transaction rolled back to a savepoint
-- shows: 5
begin;
alter table pgbench_accounts add column c_kept int default 5;
savepoint before;
alter table pgbench_accounts add column c_lost int default 6;
alter table pgbench_accounts alter column abalance type bigint using abalance * 1000;
update pgbench_accounts set c_kept = 0 where aid <= 50;
rollback to savepoint before;
create index by_kept on pgbench_accounts (c_kept);
release savepoint before;
commit;
select distinct c_kept from pgbench_accounts;
alter table pgbench_accounts drop column c_kept;

-- create, fill and drop a table beside the load
-- shows: 100000
create table copy_of_accounts (aid int primary key, abalance int);
insert into copy_of_accounts select aid, abalance from pgbench_accounts;
select count(*) from copy_of_accounts;
drop table copy_of_accounts;

-- make a table of the one that the load writes: inside its transaction both are seen at one time
-- shows: t t
begin;
create table copy_of_balances as select aid, abalance + 0 as balance, upper(filler) from pgbench_accounts where aid > 0;
alter table copy_of_balances add primary key (aid);
select (select sum(balance) from copy_of_balances) = (select sum(abalance) from pgbench_accounts),
    (select count(*) from copy_of_balances) = (select count(*) from pgbench_accounts);
commit;
drop table copy_of_balances;

-- and one that is rolled back
begin;
create table copy_of_history as select tid, bid, aid, delta from pgbench_history;
create index on copy_of_history (aid);
rollback;

-- a check that does not hold
-- fails: 23514
alter table pgbench_accounts add constraint small check (aid < 50000);

-- a unique constraint that does not hold
-- fails: 23505
alter table pgbench_accounts add constraint alone unique (bid);

-- a unique index that cannot be
-- fails: 23505
create unique index alone on pgbench_tellers (bid);

-- a not null that does not hold
-- fails: 23502
alter table pgbench_branches alter column filler set not null;

-- a foreign key that does not hold
-- fails: 23503
alter table pgbench_accounts add constraint nowhere foreign key (aid) references pgbench_tellers (tid);

-- a type that the values do not fit
-- fails: 22003
alter table pgbench_accounts alter column aid type smallint;

-- a USING that fails for one row
-- fails: 22012
alter table pgbench_accounts alter column abalance type int using abalance / (aid - 77777);

-- a failure in the middle of a transaction takes all of it back
-- fails: 23514
begin;
alter table pgbench_accounts add column c_gone int default 1;
create index gone on pgbench_accounts (c_gone);
alter table pgbench_accounts add constraint small check (aid < 50000);
commit;

-- a column that is not there, a table that is not there, a name that is taken
-- fails: 42703
alter table pgbench_accounts drop column nothing;

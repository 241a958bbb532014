-- feature: SET, SHOW, RESET
set statement_timeout = '5s';
show statement_timeout;
reset statement_timeout;
show statement_timeout;
set local work_mem = '8MB';
set nothing = 1;
show nothing;
set my.own = 'x';
show my.own;
select current_setting('my.own'), set_config('my.own', 'y', false), current_setting('not.there', true);
select current_setting('not.there');
begin;
set local my.brief = 'a';
select current_setting('MY.BRIEF');
commit;
select current_setting('my.brief', true);
begin;
set my.undone = 'a';
set my.own = 'z';
rollback;
select current_setting('my.own'), current_setting('my.undone', true);
set "My.Own" to 'w';
show my.own;
set my.own to default;
show my.own;
set my.list = 'a';
reset all;
show my.list;
select set_config('my.flag', 'on', true), current_setting('my.flag', true);
set my-own.x = 1;
set my.2 = 1;
-- feature: isolation levels by name
begin transaction isolation level serializable;
show transaction_isolation;
commit;
set default_transaction_isolation = 'repeatable read';
show transaction_isolation;
-- feature: session functions
select current_database() is not null, current_user, session_user, current_schema(), pg_backend_pid() > 0, version() is not null, inet_server_port() is not null, pg_is_in_recovery();
-- feature: advisory locks
select pg_advisory_lock(1), pg_try_advisory_lock(1), pg_advisory_unlock(1), pg_advisory_unlock(1);
select pg_advisory_unlock(1);
begin;
select pg_advisory_xact_lock(5), pg_try_advisory_xact_lock_shared(6);
select pg_try_advisory_lock(1, 2);
commit;
select pg_advisory_unlock_all();
select pg_advisory_lock_shared(9), pg_try_advisory_lock_shared(9), pg_try_advisory_lock(9);
select locktype, classid, objid, objsubid, mode, granted from pg_locks where locktype = 'advisory' order by mode;
select pg_advisory_unlock_shared(9), pg_advisory_unlock(9), pg_advisory_unlock(9);
select pg_advisory_lock(2147483648, 1);
select pg_try_advisory_lock(null::bigint);
select pg_advisory_lock('x');
-- feature: LISTEN, NOTIFY, UNLISTEN
listen news;
notify news, 'hello';
select pg_notify('news', 'again');
select pg_listening_channels();
listen "News";
listen news;
select pg_listening_channels() order by 1;
unlisten *;
select pg_listening_channels();
select pg_notify('', 'x');
select pg_notify(null, 'x');
notify news, 'a' || 'b';
notify;
listen *;
select pg_notification_queue_usage();
-- feature: roles
create role app login password 'secret';
alter role app createdb;
create role readers nologin;
grant readers to app;
select rolname, rolcanlogin, rolcreatedb from pg_roles where rolname in ('app', 'readers') order by 1;
set role app;
select current_user, session_user;
reset role;
create role app;
create role "none";
create role pg_x;
alter role missing login;
grant app to readers;
grant readers to missing;
set role missing;
set session authorization app;
select current_user, session_user;
create role other;
alter role app createrole;
set role readers;
show role;
set role none;
show role;
show is_superuser;
reset session authorization;
select rolname, rolsuper, rolinherit, rolcreaterole, rolreplication, rolconnlimit, rolvaliduntil, rolpassword from pg_roles where rolname = 'app';
select usename, usesuper, passwd from pg_user where usename in ('app', 'readers');
select g.groname from pg_group g where g.groname = 'readers';
alter role app connection limit -2;
alter role app valid until 'yesterday-ish';
alter role app superuser nosuperuser;
begin;
drop role readers;
rollback;
select count(*) from pg_auth_members m join pg_roles r on r.oid = m.roleid where r.rolname = 'readers';
drop role app;
drop role app;
drop role if exists app, readers;
-- feature: GRANT and REVOKE
create role app;
create table t (a int primary key, b int);
grant select on t to app;
set role app;
select * from t;
insert into t values (1, 1);
reset role;
grant insert, update (b) on t to app;
set role app;
insert into t values (1, 1);
update t set b = 2 where a = 1;
update t set a = 2 where a = 1;
drop table t;
reset role;
revoke all on t from app;
select has_table_privilege('app', 't', 'select');
drop role app;
-- feature: GRANT of columns, sequences, schemas, and with GRANT OPTION
create role app; create role other;
create table t (a int primary key, b int, c text);
create sequence s;
create schema sc;
grant select (a, b), insert (a) on t to app;
grant usage on sequence s to app with grant option;
grant usage, create on schema sc to app;
grant all on all tables in schema public to other;
grant delete on s to app;
grant usage on t to app;
grant select (nope) on t to app;
grant select on t to public with grant option;
select relname, relacl::text from pg_class where relname in ('t', 's') order by 1;
select attname, attacl::text from pg_attribute where attrelid = 't'::regclass and attnum > 0 order by attnum;
select nspacl::text from pg_namespace where nspname = 'sc';
set role app;
grant usage on sequence s to other;
grant select on sequence s to other;
select a from t;
select c from t;
reset role;
revoke usage on sequence s from app;
revoke usage on sequence s from app cascade;
revoke select on t from app;
select relname, relacl::text from pg_class where relname in ('t', 's') order by 1;
select attname, attacl::text from pg_attribute where attrelid = 't'::regclass and attnum > 0 order by attnum;
drop role app;
drop owned by app, other; drop role app; drop role other;
-- feature: owners
create role app; create role other;
create table t (id serial, a int);
create view v as select a from t;
alter table t owner to app;
alter view v owner to app;
select relname, pg_get_userbyid(relowner) from pg_class where relname in ('t', 't_id_seq', 'v') order by 1;
set role app;
alter table t add b int;
select * from v;
alter table t owner to other;
reset role;
drop role app;
reassign owned by app to other;
select tablename, tableowner from pg_tables where tablename = 't';
drop owned by other cascade;
select count(*) from pg_class where relname in ('t', 't_id_seq', 'v');
drop role app; drop role other;
-- feature: ALTER DEFAULT PRIVILEGES
create role app;
alter default privileges grant select on tables to app;
create table t (a int);
select relacl::text from pg_class where relname = 't';
select defaclobjtype, defaclacl::text from pg_default_acl order by 1;
alter default privileges revoke select on tables from app;
select count(*) from pg_default_acl;
drop owned by app; drop role app;
-- feature: has_table_privilege and its kind
create role app;
create table t (a int, b int);
create sequence s;
grant select (a), insert on t to app;
select has_table_privilege('app', 't', 'insert'), has_table_privilege('app', 't', 'select, insert'), has_table_privilege('app', 't', 'insert with grant option');
select has_column_privilege('app', 't', 'a', 'select'), has_column_privilege('app', 't', 2::int2, 'select'), has_any_column_privilege('app', 't', 'select');
select has_sequence_privilege('app', 's', 'usage'), has_schema_privilege('app', 'public', 'usage'), has_schema_privilege('app', 'public', 'create'), pg_has_role('app', 'app', 'usage');
select has_table_privilege('app', 't', 'nonsense');
select has_table_privilege('nobody', 't', 'select');
select has_table_privilege('app', 'nothing', 'select');
select has_table_privilege('app', 4000000000::oid, 'select');
select grantee, privilege_type, is_grantable from information_schema.role_table_grants where table_name = 't' order by 1, 2;
select grantee, column_name, privilege_type from information_schema.column_privileges where table_name = 't' and grantee = 'app' order by 2, 3;
drop owned by app; drop role app;
-- feature: settings of a role in a database
create role app;
alter role app in database nowhere set work_mem = '5MB';
drop role app;
-- feature: row level security
create table t (a int);
alter table t enable row level security;
-- feature: databases
create database other;
drop database other;
-- feature: tablespaces
create tablespace x location '/nowhere';
-- feature: publications
create publication p;
-- feature: information_schema
create table t (a int primary key, b varchar(10) not null default 'x', c numeric(8, 2));
select column_name, data_type, is_nullable, column_default, character_maximum_length, numeric_precision, numeric_scale from information_schema.columns where table_name = 't' order by ordinal_position;
select table_name, table_type from information_schema.tables where table_schema = 'public';
select constraint_name, constraint_type from information_schema.table_constraints where table_name = 't' and constraint_type = 'PRIMARY KEY';
select column_name from information_schema.key_column_usage where table_name = 't';
select count(*) > 0 from information_schema.schemata where schema_name = 'public';
-- feature: pg_catalog: tables, columns, indexes, constraints
create table t (a int primary key, b text default 'x' check (b <> ''), unique (b));
select relname, relkind from pg_class where relname like 't%' order by 1;
select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute where attrelid = 't'::regclass and attnum > 0 order by attnum;
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by conname;
select pg_get_indexdef(indexrelid) from pg_index where indrelid = 't'::regclass order by 1;
select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 't'::regclass;
select nspname from pg_namespace where nspname in ('public', 'pg_catalog') order by 1;
select typname, typlen, typtype from pg_type where oid = 23;
-- feature: sizes and statistics functions
create table t (a int);
select pg_relation_size('t') >= 0, pg_total_relation_size('t') >= 0, pg_size_pretty(10240::bigint), pg_database_size(current_database()) > 0, pg_table_size('t') >= 0;
-- feature: pg_stat views
select count(*) > 0 from pg_stat_activity;
select count(*) >= 0 from pg_locks;
select count(*) >= 0 from pg_stat_user_tables;
select count(*) > 0 from pg_settings;
-- feature: txid and snapshot functions
select txid_current() > 0, pg_current_xact_id()::text::bigint > 0;
-- feature: two-phase commit
begin;
prepare transaction 'x';
-- feature: DISCARD
discard all;
discard temp;
-- feature: system columns
create table t (a int);
insert into t values (1);
select ctid is not null, xmin is not null, tableoid::regclass from t;
-- feature: catalog queries of drivers and ORMs
create table t (id int primary key, a int, b text, unique (a, b));
create table u (x int references t);
select c.conname, array(select attname from unnest(c.conkey) with ordinality cols (colid, arridx) join pg_attribute as ca on cols.colid = ca.attnum where ca.attrelid = c.conrelid order by cols.arridx) from pg_constraint c where c.conrelid = 't'::regclass order by 1;
select c.conname, k, o from pg_constraint c, lateral unnest(c.conkey) with ordinality as q (k, o) where c.conrelid = 't'::regclass order by 1, 3;
select (information_schema._pg_expandarray(indkey)).n, indkey from pg_index where indrelid = 't'::regclass order by 1, 2;
select r.n, (r.keys).x from (select (information_schema._pg_expandarray(i.indkey)).n, information_schema._pg_expandarray(i.indkey) as keys, a.attnum from pg_index i join pg_attribute a on a.attrelid = i.indrelid where indrelid = 't'::regclass) r where r.attnum = (r.keys).x order by 1, 2;
select * from pg_options_to_table(array['a=b', 'c', 'd=e=f']);
select relname from pg_class where relkind operator(pg_catalog.=) any (array['r', 'v']) and relname ~ '^(t|u)$' order by 1;
select typname, typinput, typoutput, typreceive, typsend, typmodin, typalign, typstorage, typbyval from pg_type where typname in ('int4', 'text', '_text', 'bpchar', 'numeric') order by 1;
select typname from pg_type where typinput = 'pg_catalog.array_in'::regproc and typname in ('_int4', 'int4') order by 1;
select 'no_such_function'::regproc;
select 'postgres'::regrole, 10::regrole, 'nobody'::regrole;
select array(select 1 where false) as a, array(select relname from pg_class where oid = 0) as b;
select indkey[0], indkey[1] from pg_index where indrelid = 't'::regclass order by 1;
select typname[0], typname[1], typname[64] from pg_type where typname = 'int4';
select (1).x;
select pgc.tableoid::regclass as r from pg_constraint pgc where conrelid = 't'::regclass union all select c.tableoid::regclass from pg_class c where relname = 't' order by 1;
select acldefault('r', 10), acldefault('n', 10), acldefault('c', 10), acldefault('d', 10);
select acldefault('q', 10);
-- feature: LOCK TABLE … IN ACCESS SHARE MODE
create table t (a int);
lock table t in access share mode;
begin;
lock table only t in access share mode nowait;
lock table nothing in access share mode;
rollback;
-- feature: types of catalog columns in casts and unions
select relkind::text as k, relname::text as n from pg_class where relname = 'pg_class';
select 'pg_class'::regclass::oid as c union all select 'pg_class'::regclass;
select 1259::oid as c union all select 'pg_class'::regclass order by 1;
-- feature: privileges of MERGE, of writes through views, of materialized views
create role hm_reader;
create role hm_writer;
create table t (id int primary key, v int);
insert into t values (1, 1);
create view vw as select * from t;
grant select on t to hm_reader, hm_writer;
grant insert, update, delete on vw to hm_reader;
grant insert, update on t to hm_writer;
grant create on schema public to hm_reader;
set role hm_reader;
insert into t values (2, 2);
insert into vw values (2, 2);
update vw set v = 3 where false;
create view own as select * from t;
select count(*) from own;
insert into own values (3, 3);
update own set v = 1;
delete from own;
merge into t using (values (1)) s (x) on t.id = s.x when matched then update set v = 5;
merge into t using (values (1)) s (x) on t.id = s.x when matched then do nothing;
create materialized view own_m as select count(*) from t;
refresh materialized view own_m;
reset role;
create table secret (a int);
create materialized view m as select * from secret;
set role hm_reader;
create materialized view taken as select * from secret;
refresh materialized view m;
drop materialized view m;
select * from m;
reset role;
set role hm_writer;
merge into t using (values (1)) s (x) on t.id = s.x when matched then update set v = 5;
merge into t using (values (1)) s (x) on t.id = s.x when matched then delete;
merge into t using (values (8)) s (x) on t.id = s.x when not matched then insert values (x, x);
reset role;
select * from t order by 1;
drop view own;
drop materialized view own_m;
drop owned by hm_reader, hm_writer;
drop role hm_reader;
drop role hm_writer;

-- feature: pg_prepared_statements
create table t (id int, s varchar(9));
prepare one (bigint) as select id from t where id = $1;
prepare "Two" as select * from t where s = $1 and s like $2 and s between $3 and $4;
select name, statement, parameter_types, from_sql, prepare_time is not null as timed from pg_prepared_statements order by name;
execute one(1);
select name, generic_plans + custom_plans as runs from pg_prepared_statements order by name;
select name, parameter_types::text, pg_typeof(parameter_types) from pg_prepared_statements order by name;
deallocate one;
select name from pg_prepared_statements;
deallocate all;
select count(*) from pg_prepared_statements;

-- feature: types of parameters of functions of numbers
prepare locks as select pg_advisory_lock($1), pg_advisory_lock($2, $3), pg_try_advisory_lock($4), pg_advisory_unlock($5, $6);
select parameter_types from pg_prepared_statements where name = 'locks';

-- feature: EXPLAIN of EXECUTE
prepare one (int) as select $1 + 1;
execute one (1, 2);
explain execute one;
explain execute nothing;
-- feature: catalog: keys of indexes as Rails, SQLAlchemy and Prisma read them
create table t (id int, a int, b int, c int[], d text, primary key (b, id));
create index tx on t (lower(d), a);
select a.attname from (select indrelid, indkey, generate_subscripts(indkey, 1) idx from pg_index where indrelid = 't'::regclass and indisprimary) i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[i.idx] order by i.idx;
select array_lower(indkey, 1), array_upper(indkey, 1), array_length(indkey, 1), array_dims(indkey), array_position(indkey, 3), indkey[0], indkey from pg_index where indrelid = 't'::regclass and indisprimary;
select generate_subscripts(array[1,2], 1), generate_subscripts('{a,b}'::text[], 1, true);
select pg_get_indexdef(indexrelid, ord + 1, true) from (select indexrelid, generate_subscripts(indkey, 1) as ord from pg_index where indexrelid = 'tx'::regclass) q order by ord;
select k, n from pg_index, unnest(indkey) with ordinality as u(k, n) where indrelid = 't'::regclass and indisprimary order by n;
create view v as select * from t;
select relname, reltype > 0 as x from pg_class where relname in ('t', 'v', 'tx', 'pg_class', 't_pkey') order by 1;
select attname, attndims from pg_attribute where attrelid = 't'::regclass and attnum > 0 order by attnum;
-- feature: catalog: operator classes, sequences of identity columns, types with modifiers
create table s (id int generated always as identity, x serial, d text);
select sequence_name from information_schema.sequences order by 1;
create index tp on s (d varchar_pattern_ops);
create index td on s (d);
select opcname, indexrelid::regclass from pg_index, pg_opclass o where o.oid = any(indclass) and indrelid = 's'::regclass order by 1, 2;
select to_regtype('numeric(5,2)'), to_regtype('varchar(3)'), to_regtype('nothing'), to_regtype('timestamp(3)'), to_regtype('numeric(5,2)[]'), to_regtype('timestamp(3) with time zone');

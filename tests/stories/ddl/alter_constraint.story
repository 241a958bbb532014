# ALTER TABLE … ALTER CONSTRAINT: when a foreign key is checked. Of no other constraint may that be changed.

== a key that is deferrable from now on, and initially deferred, and neither
setup> create table p (a int primary key); create table c (x int constraint fk references p)
T> alter table c alter constraint fk deferrable
T> select condeferrable, condeferred, pg_get_constraintdef(oid) from pg_constraint where conname = 'fk'
    t|f|FOREIGN KEY (x) REFERENCES p(a) DEFERRABLE
T> insert into c values (1)
    ERROR 23503
T> begin
T> set constraints fk deferred
T> insert into c values (1)
T> commit
    ERROR 23503
T> alter table c alter constraint fk initially deferred
T> select condeferrable, condeferred, pg_get_constraintdef(oid) from pg_constraint where conname = 'fk'
    t|t|FOREIGN KEY (x) REFERENCES p(a) DEFERRABLE INITIALLY DEFERRED
T> begin
T> insert into c values (1)
T> insert into p values (1)
T> commit
T> alter table c alter constraint fk
T> select condeferrable, condeferred, pg_get_constraintdef(oid) from pg_constraint where conname = 'fk'
    f|f|FOREIGN KEY (x) REFERENCES p(a)
T> begin
T> set constraints fk deferred
    ERROR 42809: is not deferrable
T> rollback
T> insert into c values (2)
    ERROR 23503

== it is of its transaction
setup> create table p (a int primary key); create table c (x int constraint fk references p)
T> begin
T> alter table c alter constraint fk deferrable initially deferred
T> insert into c values (7)
T> rollback
T> insert into c values (7)
    ERROR 23503
T> begin
T> savepoint s
T> alter table c alter constraint fk deferrable initially deferred
T> rollback to s
T> insert into c values (7)
    ERROR 23503
T> rollback

== others see it when it is committed
setup> create table p (a int primary key); create table c (x int constraint fk references p)
T1> alter table c alter constraint fk deferrable initially deferred
T2> begin
T2> insert into c values (1)
T2> insert into p values (1)
T2> commit
T1> alter table c alter constraint fk not deferrable
T2> insert into c values (2)
    ERROR 23503

== several at once, beside other actions
setup> create table p (a int primary key); create table c (x int constraint fk references p, y int constraint fk2 references p deferrable)
T> alter table c alter constraint fk deferrable initially immediate, alter column y set default 3, alter constraint fk2 not deferrable, add column z int
T> select conname, condeferrable, condeferred from pg_constraint where contype = 'f' order by conname
    fk|t|f, fk2|f|f

== what is no foreign key, what is not there, what is said twice
setup> create table p (a int primary key, b int constraint u unique, c int constraint k check (c > 0)); create table c (x int constraint fk references p)
T> alter table p alter constraint p_pkey deferrable
    ERROR 42809: constraint "p_pkey" of relation "p" is not a foreign key constraint
T> alter table p alter constraint u deferrable
    ERROR 42809
T> alter table p alter constraint k not deferrable
    ERROR 42809
T> alter table c alter constraint nothing deferrable
    ERROR 42704: constraint "nothing" of relation "c" does not exist
T> alter table nothing alter constraint fk deferrable
    ERROR 42P01
T> alter table c alter constraint fk not deferrable initially deferred
    ERROR 42601: constraint declared INITIALLY DEFERRED must be DEFERRABLE
T> alter table c alter constraint fk deferrable not deferrable
    ERROR 42601: conflicting constraint properties
T> alter table c alter constraint fk initially deferred initially immediate
    ERROR 42601: conflicting constraint properties
T> alter table c alter constraint fk not valid
    ERROR 0A000: FOREIGN KEY constraints cannot be marked NOT VALID
T> alter table c alter constraint fk no inherit
    ERROR 0A000: FOREIGN KEY constraints cannot be marked NO INHERIT
T> alter table c alter constraint fk enforced
    ERROR 42601
T> alter table c alter constraint fk initially
    ERROR 42601
T> alter table c alter constraint "fk" deferrable

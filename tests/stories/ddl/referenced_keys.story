# Keys that foreign keys of other tables need, and foreign keys of several columns.

== a key that is needed
setup> create table p (a int primary key, c int unique); create table f (x int references p, y int references p (c))
T> alter table p drop constraint p_pkey
    ERROR 2BP01: cannot drop constraint p_pkey on table p because other objects depend on it
T> alter table p drop constraint p_c_key
    ERROR 2BP01: cannot drop constraint p_c_key on table p because other objects depend on it
T> alter table p drop column a
    ERROR 2BP01: cannot drop column a of table p because other objects depend on it
T> alter table p drop column c
    ERROR 2BP01: cannot drop column c of table p because other objects depend on it
T> alter table p drop constraint p_pkey cascade
T> alter table p drop column c cascade
T> select conname from pg_constraint where conrelid = 'f'::regclass
    no rows

== columns in the order in which they were written
setup> create table p (b int, a int, c text, primary key (a, b), unique (c, a)); insert into p values (1, 2, 'c')
T> create table f (x int, y int, foreign key (y, x) references p (b, a))
T> create table g (x int, z text, foreign key (x, z) references p (a, c) on delete cascade)
T> create table h (x int, y int, foreign key (x, y) references p)
T> select conname, conkey::text, confkey::text, replace(pg_get_constraintdef(oid), ', ', ' ') from pg_constraint where contype = 'f' order by conname
    f_y_x_fkey|{2,1}|{1,2}|FOREIGN KEY (y x) REFERENCES p(b a)
    g_x_z_fkey|{1,2}|{2,3}|FOREIGN KEY (x z) REFERENCES p(a c) ON DELETE CASCADE
    h_x_y_fkey|{1,2}|{2,1}|FOREIGN KEY (x y) REFERENCES p(a b)
T> select constraint_name, column_name, ordinal_position, position_in_unique_constraint from information_schema.key_column_usage where constraint_name like '%fkey' order by 1, 3
    f_y_x_fkey|y|1|2, f_y_x_fkey|x|2|1
    g_x_z_fkey|x|1|2, g_x_z_fkey|z|2|1
    h_x_y_fkey|x|1|1, h_x_y_fkey|y|2|2
T> insert into f values (1, 2)
    ERROR 23503: insert or update on table "f" violates foreign key constraint "f_y_x_fkey"
T> insert into f values (2, 1)
T> insert into g values (2, 'c')
T> delete from p
    ERROR 23503: violates foreign key constraint
T> delete from f
T> delete from p
T> select * from g
    no rows

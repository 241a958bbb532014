create or replace view names as select id, upper(name) as name from person;

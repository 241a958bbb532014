insert into person (name, mood, born) values ('Anna', 'happy', '2001-02-03'), ('Ben', default, null);

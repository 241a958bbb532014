"""Who gets in, and as what: passwords, TLS, the rules, and roles."""

import socket
import ssl
import struct
import threading

import psycopg
import pytest
from psycopg import errors

from support.flight import Flight
from support.processes import wait_until

SCRAM = {"FROGLET_AUTHENTICATION": "host all all all scram-sha-256", "FROGLET_SUPERUSER_PASSWORD": "ruler"}


@pytest.fixture
def guarded(start):
    """A server where everybody has to prove who he is; it has anna, whose password is `sesame`."""
    server = start(environment=SCRAM)
    with login(server, "postgres", "ruler") as connection:
        connection.execute("create role anna login password 'sesame'")
    return server


def login(server, user, password=None, **options):
    options = {"autocommit": True, "connect_timeout": 30, "sslmode": "disable"} | options
    return psycopg.connect(host=server.host, port=server.port, user=user, dbname="postgres",
                           password=password, passfile="/dev/null", **options)


def refusal(server, user, password=None, **options):
    """What a client is told that is not let in."""
    with pytest.raises(psycopg.OperationalError) as refused:
        login(server, user, password, **options).close()
    return str(refused.value)


def test_the_right_password_lets_in_and_no_other(guarded):
    for user, password in (("postgres", "ruler"), ("anna", "sesame")):
        with login(guarded, user, password) as connection:
            assert connection.execute("select current_user, session_user").fetchone() == (user, user)
    for user, password in (("anna", "Sesame"), ("anna", "ruler"), ("postgres", "sesame"), ("nobody", "sesame")):
        assert f'password authentication failed for user "{user}"' in refusal(guarded, user, password)
    assert "no password" in refusal(guarded, "anna")
    with login(guarded, "anna", "sesame") as connection:
        assert connection.info.parameter_status("is_superuser") == "off"


def test_passwords_survive_a_restart_and_go_with_a_rollback(guarded):
    with login(guarded, "postgres", "ruler") as connection:
        connection.execute("begin")
        connection.execute("alter role anna password 'other'")
        connection.execute("create role ghost login password 'x'")
        connection.execute("rollback")
        connection.execute("alter role postgres password 'second'")
        [stored] = connection.execute("select rolpassword from pg_authid where rolname = 'anna'").fetchone()
        assert stored.startswith("SCRAM-SHA-256$4096:") and "sesame" not in stored
        connection.execute(f"create role twin login password '{stored}'")
    guarded.kill_and_restart()
    for user, password in (("anna", "sesame"), ("twin", "sesame"), ("postgres", "second")):
        login(guarded, user, password).close()
    # The configured one was for as long as there was no other.
    assert "password authentication failed" in refusal(guarded, "postgres", "ruler")
    assert "password authentication failed" in refusal(guarded, "ghost", "x")
    with login(guarded, "anna", "sesame") as connection:
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("select rolpassword from pg_authid where rolname = 'anna'")


def first_words(server, user):
    """The server's first SCRAM message to a user: his salt and iterations."""
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        body = struct.pack(">I", 3 << 16) + b"user\0" + user.encode() + b"\0\0"
        client.sendall(struct.pack(">I", len(body) + 4) + body)
        kind, asked = message(client)
        assert (kind, asked) == (b"R", struct.pack(">I", 10) + b"SCRAM-SHA-256\0\0")
        first = b"n,,n=,r=abcdefgh"
        body = b"SCRAM-SHA-256\0" + struct.pack(">I", len(first)) + first
        client.sendall(b"p" + struct.pack(">I", len(body) + 4) + body)
        kind, answer = message(client)
        assert kind == b"R" and answer[:4] == struct.pack(">I", 11)
        return dict(part.split("=", 1) for part in answer[4:].decode().split(","))


def message(client):
    head = exactly(client, 5)
    return head[:1], exactly(client, struct.unpack(">I", head[1:])[0] - 4)


def exactly(client, size):
    found = b""
    while len(found) < size:
        more = client.recv(size - len(found))
        assert more, "the server has closed the connection"
        found += more
    return found


def test_nobody_can_tell_who_exists(guarded):
    """A user who does not exist, may not log in or has no password is asked like any other, and has the same salt
    each time, even after a restart."""
    with login(guarded, "postgres", "ruler") as connection:
        connection.execute("create role locked nologin password 'x'")
        connection.execute("create role bare login")
        connection.execute("create role late login password 'x' valid until '2001-01-01'")
    users = ("anna", "nobody", "locked", "bare", "late")
    before = {user: first_words(guarded, user) for user in users}
    assert {(len(words["s"]), words["i"]) for words in before.values()} == {(24, "4096")}
    guarded.restart()
    for user in users:
        words = first_words(guarded, user)
        assert words["s"] == before[user]["s"] and words["r"] != before[user]["r"]
    said = {user: refusal(guarded, user, "wrong").replace(user, "?") for user in users}
    assert len(set(said.values())) == 1, said
    assert "password authentication failed" in refusal(guarded, "late", "x")
    # Whoever knows the password may know that the role is locked.
    assert "is not permitted to log in" in refusal(guarded, "locked", "x")


@pytest.mark.parametrize("sent", [
    b"Q\0\0\0\x0dselect 1\0", b"Q\x3f\xff\xff\xff", b"X\0\0\0\4", b"p\0\0\0\4", b"p\xff\xff\xff\xff", b"p\0\0\0\1",
    b"p\0\0\0\x12SCRAM-SHA-256\0", b"p\0\0\0\x17SCRAM-SHA-256\0\xff\xff\xff\xffx", b"p\0\0\x40\0",
    b"p\0\0\0\x1cSCRAM-SHA-256\0\0\0\0\6n,,n=\xff", b"p\0\0\0\x0cMAGIC\0\0\0",
])
def test_whoever_does_not_answer_the_question_is_sent_away(guarded, sent):
    with socket.create_connection((guarded.host, guarded.port), timeout=30) as client:
        body = struct.pack(">I", 3 << 16) + b"user\0anna\0\0"
        client.sendall(struct.pack(">I", len(body) + 4) + body)
        assert message(client)[0] == b"R"
        client.sendall(sent)
        kind, error = message(client)
        assert kind == b"E" and b"C08P01" in error, error
        assert client.recv(1) == b""
    assert guarded.alive()


def test_no_password_is_not_the_configured_one(guarded):
    with login(guarded, "postgres", "ruler") as connection:
        connection.execute("create role second superuser login password 'second'")
        connection.execute("alter role postgres password null")
        stored = "select rolpassword from pg_authid where rolname = 'postgres'"
        assert connection.execute(stored).fetchone() == (None,)
    guarded.kill_and_restart()
    assert "password authentication failed" in refusal(guarded, "postgres", "ruler")
    login(guarded, "second", "second").close()


def test_rules_say_who_may_come_from_where(start, tmp_path):
    configuration = tmp_path / "froglet.toml"
    configuration.write_text("""authentication = [
      "host postgres postgres 127.0.0.1/32 trust",
      "host all +staff 127.0.0.0/8 scram-sha-256",
      "host all otto 127.0.0.1/32 reject",
      "hostssl all all 127.0.0.1/32 trust",
    ]""")
    server = start(arguments=["--config", str(configuration)])
    with login(server, "postgres") as connection:
        connection.execute("create role staff")
        connection.execute("create role anna login password 'sesame' in role staff")
        connection.execute("create role otto login")
        connection.execute("create role berta login")
    login(server, "anna", "sesame").close()
    assert "no password" in refusal(server, "anna")
    assert 'rejects host "127.0.0.1", user "otto", database "postgres", no encryption' in refusal(server, "otto")
    assert "no rule of authentication" in refusal(server, "berta")
    with login(server, "postgres") as connection:
        connection.execute("revoke staff from anna")
    assert "no rule of authentication" in refusal(server, "anna", "sesame")
    configuration.write_text('\nauthentication = [\n"host all all all trust",\n"host all all 1.2.3.4 trust"]')
    said = start(arguments=["--config", str(configuration)], ready=False).refusal()
    assert f"{configuration}:4: authentication cannot be" in said and '"1.2.3.4" is no network' in said, said


def test_nobody_beyond_loopback_is_trusted(start):
    listen = ["--flight-listen", "0.0.0.0:0"]
    for rules, why in (
        ({}, "there must be rules of authentication"),
        ({"FROGLET_AUTHENTICATION": "host all all all trust"}, "trusts whoever connects"),
        (SCRAM, "needs TLS"),
    ):
        assert why in start(ready=False, environment=rules, arguments=listen).refusal()


def test_roles_that_do_not_exist_do_not_come_in_by_trust(froglet):
    assert 'role "anna" does not exist' in refusal(froglet, "anna")
    froglet.run("create user anna", "create role otto", "create user few connection limit 1")
    login(froglet, "anna").close()
    assert "is not permitted to log in" in refusal(froglet, "otto")
    with login(froglet, "few"):
        assert 'too many connections for role "few"' in refusal(froglet, "few")


def test_tls(start, certificate):
    """libpq speaks TLS where it may, checks the certificate, and binds the channel: it would notice a man in the
    middle."""
    cert, key = certificate
    server = start(environment=SCRAM | {"FROGLET_AUTHENTICATION": "hostssl all all all scram-sha-256"},
                   arguments=["--tls-cert", str(cert), "--tls-key", str(key)])
    safe = {"sslmode": "verify-full", "sslrootcert": str(cert)}
    with login(server, "postgres", "ruler", channel_binding="require", **safe) as connection:
        assert connection.pgconn.ssl_in_use
        connection.execute("create table t as select i as n, repeat('x', 100) as s from generate_series(1, 20000) g(i)")
        assert len(connection.execute("select * from t").fetchall()) == 20_000
        with connection.cursor().copy("copy t from stdin") as copy:
            for n in range(20_000):
                copy.write_row((n, "y" * 200))
        assert connection.execute("select count(*) from t").fetchone() == (40_000,)
        connection.cancel()
    login(server, "postgres", "ruler", channel_binding="disable", **safe).close()
    assert "password authentication failed" in refusal(server, "postgres", "x", **safe)
    assert "no encryption" in refusal(server, "postgres", "ruler")
    # What was sent before TLS is not taken for what is said within it.
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        client.sendall(struct.pack(">II", 8, 80877103) + b"\0\0\0\x08\x04\xd2\x16\x2f")
        assert client.recv(1) == b"S"
        assert message(client)[0] == b"E"
    # Somebody who speaks TLS and then says nothing, or nonsense, harms nobody.
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        client.sendall(struct.pack(">II", 8, 80877103))
        assert client.recv(1) == b"S"
        client.sendall(b"nonsense" * 100)
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            while client.recv(1000):
                pass
            raise ConnectionError
    assert server.alive()


def test_without_a_certificate_there_is_no_tls(froglet):
    assert "server does not support SSL" in refusal(froglet, "postgres", sslmode="require")
    login(froglet, "postgres", sslmode="prefer").close()


def test_flight_has_the_same_users(start):
    server = start(flight=True, environment=SCRAM)
    with login(server, "postgres", "ruler") as connection:
        connection.execute("create role anna login password 'any'")
        connection.execute("create role otto login password 'other'")
    with Flight(server, user="anna") as client:
        assert client.query("select current_user").column(0).to_pylist() == ["anna"]
    for user in ("otto", "nobody"):
        with pytest.raises(Exception, match="password authentication failed"):
            Flight(server, user=user)
    with pytest.raises(Exception, match="password authentication failed"):
        Flight(server).query("select 1")


def test_settings_of_a_role_are_its_sessions(froglet):
    froglet.run("create role app login", "alter role app set timezone to 'Europe/Berlin'",
                "alter role app set statement_timeout = 5000", "alter role app set my.own = 'x'",
                "alter role app set lock_timeout = '1s'", "alter role app reset lock_timeout")
    shown = "select current_setting('timezone'), current_setting('statement_timeout'), current_setting('my.own'), " \
            "current_setting('lock_timeout')"
    with login(froglet, "app") as connection:
        assert connection.info.parameter_status("TimeZone") == "Europe/Berlin"
        assert connection.execute(shown).fetchone() == ("Europe/Berlin", "5s", "x", "0")
        connection.execute("set timezone to 'UTC'")
        connection.execute("reset timezone")
        assert connection.execute(shown).fetchone()[0] == "Europe/Berlin"
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("alter role postgres set timezone to 'UTC'")
    with login(froglet, "app", options="-c timezone=UTC") as connection:
        assert connection.execute(shown).fetchone()[0] == "UTC"
    assert froglet.value("select rolconfig from pg_roles where rolname = 'app'") == [
        "timezone=Europe/Berlin", "statement_timeout=5000", "my.own=x"]
    for wrong, state in (("nothing = 1", "42704"), ("statement_timeout = 'soon'", "22023"), ("is_superuser = 'on'", "55P02")):
        with pytest.raises(errors.Error) as refused:
            froglet.run(f"alter role app set {wrong}")
        assert refused.value.sqlstate == state
    froglet.run("alter role app reset all")
    with login(froglet, "app") as connection:
        assert connection.execute("select current_setting('timezone')").fetchone() == ("UTC",)


# --- roles -----------------------------------------------------------------------------------------

# Who does what, one after the other; the state of the error, if there is one, is PostgreSQL's.
STORY = """
postgres: create role boss createrole; create role app login; create role readers; create role chief superuser
postgres: create role app
postgres: create role pg_mine
postgres: create role none
postgres: grant readers to app with admin option; grant app to boss
postgres: grant boss to app
postgres: grant readers to missing
postgres: grant missing to app
postgres: set role missing
app: create role x
app: drop role readers
app: alter role app createdb
app: alter role app password 'new'
app: alter role boss login
app: grant readers to boss
app: revoke readers from boss
app: set role readers; select current_user, session_user
app: set role boss
app: set session authorization boss
app: set session authorization app
app: select set_config('role', 'boss', false)
app: reset role; select current_user
app: checkpoint
app: select pg_cancel_backend(pg_backend_pid())
app: copy (select 1) to '/tmp/x'
app: begin; set local role readers; select current_user; commit; select current_user
app: begin; set role readers; rollback; select current_user
boss: create role clerk login connection limit 3
boss: create role clerk2 superuser
boss: alter role chief login
boss: drop role chief
boss: grant chief to clerk
boss: grant clerk to app
boss: alter role clerk connection limit -2
boss: alter role clerk valid until '2030-01-01 00:00:00+00'
boss: alter role clerk rename to clerk3
boss: alter role boss rename to bigboss
boss: drop role boss
boss: drop role clerk3, missing
boss: drop role if exists missing
postgres: drop role postgres
postgres: drop role readers
postgres: select rolname, rolsuper, rolcreaterole, rolcanlogin, rolconnlimit, rolvaliduntil from pg_roles \
where rolname in ('boss', 'app', 'readers', 'chief', 'clerk3') order by 1
postgres: select m.rolname, r.rolname, admin_option from pg_auth_members a join pg_roles m on m.oid = a.member \
join pg_roles r on r.oid = a.roleid where m.rolname in ('app', 'boss') order by 1, 2
postgres: create user u in role app role boss admin chief; select r.rolname, m.rolname, admin_option \
from pg_auth_members a join pg_roles m on m.oid = a.member join pg_roles r on r.oid = a.roleid \
where 'u' in (m.rolname, r.rolname) order by 1, 2
postgres: drop user u, app, boss, chief, clerk3
"""


def test_roles_are_those_of_postgres(froglet, postgres):
    """Each line on a connection of its own, as the user it begins with."""
    answers = [[(line, told(server, line)) for line in STORY.strip().splitlines()] for server in (froglet, postgres)]
    assert answers[0] == answers[1]


def told(server, line):
    user, _, text = line.partition(": ")
    with server.connect() as connection:
        connection.execute(f"set session authorization {user}")
        try:
            result = connection.execute(text)
            rows = []
            while True:
                rows.append(result.fetchall() if result.description else result.statusmessage)
                if not result.nextset():
                    return rows
        except errors.Error as error:
            return error.sqlstate


def test_a_role_of_an_open_transaction_is_nobody_elses(froglet):
    with froglet.connect() as one, froglet.connect() as other:
        one.execute("begin")
        one.execute("create role app login")
        one.execute("set local role app")
        assert one.execute("select current_user").fetchone() == ("app",)
        assert other.execute("select count(*) from pg_roles where rolname = 'app'").fetchone() == (0,)
        with pytest.raises(errors.InvalidParameterValue):
            other.execute("set role app")
        one.execute("commit")
        other.execute("set role app")
        with pytest.raises(errors.DuplicateObject):
            one.execute("create role app")


def test_two_alter_the_first_role_at_once(froglet):
    """It has no row in the catalog before somebody alters it."""
    with froglet.connect() as one, froglet.connect() as two:
        one.execute("begin")
        one.execute("alter role postgres connection limit 7")
        other = threading.Thread(target=two.execute, args=("alter role postgres password 'x'",))
        other.start()
        waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        wait_until(lambda: froglet.value(waits) == 1, "the other waits")
        one.execute("commit")
        other.join(60)
        role = "select rolconnlimit, rolpassword is not null from pg_authid where rolname = 'postgres'"
        assert froglet.rows(role) == [(7, True)]

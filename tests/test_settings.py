"""Settings: PostgreSQL's are taken, shown, refused and described as PostgreSQL 15 does, and what would change an answer is no lie."""

import time

import psycopg
import pytest

# Each is run by itself on both, with SHOW of its name behind it.
ASSIGNMENTS = """
    enable_bitmapscan = off          enable_seqscan = 'x'             enable_hashjoin = f            geqo = maybe
    geqo_threshold = 1               geqo_seed = 0.25                 geqo_seed = 1.5                effective_cache_size = '2GB'
    effective_cache_size = 0         effective_cache_size = 123       work_mem = '1'                 work_mem = '64MB'
    work_mem = '1.5MB'               work_mem = '4mb'                 work_mem = 'much'              work_mem = 1e4
    work_mem = 0x1000                work_mem = '1TB'                 work_mem = '100 kB'            maintenance_work_mem = '1GB'
    random_page_cost = 1.1           random_page_cost = -1            random_page_cost = '1e3'       seq_page_cost = 0
    plan_cache_mode = force_custom_plan                               plan_cache_mode = 'never'      from_collapse_limit = 0
    vacuum_cost_delay = '1.5ms'      vacuum_cost_limit = 10001        statement_timeout = '2min'     statement_timeout = -1
    deadlock_timeout = '10s'         log_statement = ddl              log_min_messages = info        log_min_duration_statement = 250
    constraint_exclusion = on        force_parallel_mode = regress    jit_above_cost = -1            xmloption = document
    block_size = 1                   autovacuum = off                 wal_level = logical            log_connections = on
    max_connections = 5              shared_buffers = '1GB'           server_encoding = 'UTF8'       wal_segment_size = 1
    default_with_oids = off          array_nulls = on                 transform_null_equals = off    row_security = off
    synchronize_seqscans = 0         stats_fetch_consistency = none   track_functions = pl           compute_query_id = on
    no_such_setting = 1              own.setting = 'x'                tcp_keepalives_idle = 30       idle_session_timeout = '1h'
    max_parallel_workers_per_gather = 0                               default_statistics_target = 10001
"""
# What PostgreSQL takes, and Froglet answers by another value alone: 0A000.
REFUSED = ["array_nulls = off", "transform_null_equals = on", "session_replication_role = replica", "exit_on_error = on",
           "default_with_oids = on", "password_encryption = md5", "zero_damaged_pages = on"]


def assignments():
    return [part.strip() for line in ASSIGNMENTS.splitlines() for part in line.split("  ") if part.strip()]


def outcome(server, assignment):
    with server.connect() as connection:
        try:
            connection.execute(f"set {assignment}")
            return connection.execute(f"show {assignment.split(' = ')[0]}").fetchall()
        except psycopg.Error as error:
            return error.sqlstate, error.diag.message_primary, error.diag.message_hint


@pytest.mark.parametrize("assignment", assignments())
def test_set_and_show(froglet_for_all, postgres, assignment):
    assert outcome(froglet_for_all, assignment) == outcome(postgres, assignment)


@pytest.fixture(scope="module")
def froglet_for_all():
    from support.servers import Froglet

    server = Froglet().start()
    yield server
    server.remove()


@pytest.mark.parametrize("assignment", REFUSED)
def test_what_would_change_an_answer_is_refused(froglet_for_all, assignment):
    state, message, hint = outcome(froglet_for_all, assignment)
    assert state == "0A000" and assignment.split(" = ")[0] in message and hint.startswith("It can be")


def test_settings_are_described_alike(froglet, postgres):
    """Every setting that both have: its kind, unit, bounds and values. Some have another default here."""
    rows = ("select name, vartype, unit, min_val, max_val, enumvals, category from pg_show_all_settings() order by name")
    ours, theirs = ({row[0]: row for row in server.rows(rows)} for server in (froglet, postgres))
    both = ours.keys() & theirs.keys()
    assert len(both) > 320
    fewer = {"bytea_output", "default_table_access_method", "IntervalStyle", "standard_conforming_strings", "max_connections", "lc_messages",
             "client_encoding", "session_replication_role", "max_identifier_length", "max_index_keys", "server_version_num", "log_timezone",
             "DateStyle", "in_hot_standby", "default_transaction_isolation", "transaction_isolation", "synchronous_commit"}
    assert {name for name in both - fewer if ours[name] != theirs[name]} == set()


def test_only_superusers_set_what_is_theirs(froglet):
    froglet.run("create role somebody login")
    with froglet.connect(autocommit=True) as connection:
        connection.execute("set role somebody")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match='permission denied to set parameter "log_statement"'):
            connection.execute("set log_statement = 'all'")
        connection.execute("set work_mem = '1MB'")


def test_set_local_holds_for_the_rest_of_the_message(server):
    """Without a transaction block it ends with the message."""
    server.run("create table t (a int primary key)", "insert into t values (1)")
    with server.connect() as holder, server.connect() as waiter:
        waiter.execute("set statement_timeout = '60s'")
        with holder.transaction():
            holder.execute("update t set a = 2")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                waiter.execute("set local lock_timeout = '50ms'; update t set a = 3")
        assert waiter.execute("show lock_timeout").fetchone() == ("0",)
        waiter.execute("update t set a = 4")


def test_an_idle_session_ends(server):
    with server.connect() as connection:
        connection.execute("set idle_session_timeout = '50ms'")
        time.sleep(1)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")

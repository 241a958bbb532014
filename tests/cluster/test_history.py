"""The store is told what nobody reads any more: by PD's own account of its safe point, and of who keeps what."""

import time

import psycopg

from support.processes import wait_until

#: What gateways are told to keep, at least.
HISTORY_S = 30


def connect(gateway):
    return psycopg.connect(host="127.0.0.1", port=gateway.port, user="postgres", dbname="postgres", autocommit=True)


def milliseconds(timestamp):
    return timestamp >> 18


def kept(cluster):
    """The safe point, and what each service keeps, in milliseconds since 1970."""
    answer = cluster.get("gc/safepoint")
    services = {service["service_id"]: milliseconds(service["safe_point"])
                for service in answer["service_gc_safe_points"]}
    return milliseconds(answer["gc_safe_point"]), services


def test_the_safe_point_moves_behind_whoever_reads(cluster, gateways):
    one, other = gateways(2, arguments=["--store-history", f"{HISTORY_S}s"])
    with connect(one) as writer, connect(other) as reader, connect(other) as idle:
        writer.execute("create table t (id int primary key, n int)")
        writer.execute("create table other (id int)")
        writer.execute("insert into t select g, 0 from generate_series(1, 100) g")
        reader.execute("begin isolation level repeatable read")
        assert reader.execute("select sum(n) from t").fetchone() == (0,)
        idle.execute("begin")
        idle.execute("update t set n = 1 where id = 100")
        begun = milliseconds(cluster.timestamp())
        for _ in range(10):
            writer.execute("update t set n = n + 1 where id < 100")
        wait_until(lambda: kept(cluster)[0] > 0, "it has begun to move")
        database = next(name for name in kept(cluster)[1] if name.startswith("froglet/"))
        # Longer than the history: what holds it back now is who reads.
        wait_until(lambda: milliseconds(cluster.timestamp()) > begun + (HISTORY_S + 5) * 1000, "time passes", 60)
        safe_point, services = kept(cluster)
        assert safe_point <= services[database] <= begun - HISTORY_S * 1000
        assert reader.execute("select sum(n), count(*) from t").fetchone() == (0, 100)
        reader.execute("commit")
        # A transaction that has begun holds it back as well, at READ COMMITTED, too.
        time.sleep(4)
        assert kept(cluster)[0] <= begun
        idle.execute("commit")
        wait_until(lambda: kept(cluster)[0] > begun, "nobody reads what was before")
        safe_point, services = kept(cluster)
        assert safe_point <= min(services["gc_worker"], services[database])
        assert safe_point < milliseconds(cluster.timestamp()) - HISTORY_S * 1000
        for connection in (writer, reader, idle):
            assert connection.execute("select sum(n), count(*) from t").fetchone() == (991, 100)
        # What the catalog was known as of is collected as well: who changes it does not mind.
        reader.execute("alter table t add column more int default 7")
        writer.execute("drop table other")
        with idle.transaction():
            idle.execute("alter table t rename column n to number")
            idle.execute("create index on t (number)")
        writer.execute("alter table t alter number type bigint")
        assert reader.execute("select sum(number), sum(more) from t").fetchone() == (991, 700)

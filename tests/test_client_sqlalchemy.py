"""SQLAlchemy 2 and Alembic: Core, ORM, inspector, reflection, and a history of migrations up and down under load."""

import datetime as dt
import enum
import threading
import uuid
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg

from support import shop
from support.processes import wait_until
from support.shop.models import Base, Customer, Line, Order, Product

DRIVERS = ["psycopg2", "psycopg"]


@pytest.fixture
def engine(server):
    engine = sa.create_engine(shop.url(server))
    yield engine
    engine.dispose()


@pytest.fixture
def session(engine):
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        yield session


# Types --------------------------------------------------------------------------------------------


class Mood(enum.Enum):
    sad = 1
    happy = 2


TYPES = {
    "boolean": (sa.Boolean, True),
    "big integer": (sa.BigInteger, 2**62),
    "small integer": (sa.SmallInteger, -5),
    "numeric": (sa.Numeric(12, 4), Decimal("1.5000")),
    "float": (sa.Double, 0.1),
    "string": (sa.String(20), "Größe 🐸"),
    "text": (sa.Text, "x" * 5000),
    "bytes": (sa.LargeBinary, b"\x00\xff"),
    "date": (sa.Date, dt.date(2024, 2, 29)),
    "datetime": (sa.DateTime, dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    "datetime in a zone": (sa.DateTime(timezone=True), dt.datetime(2024, 2, 29, tzinfo=dt.timezone.utc)),
    "uuid": (sa.Uuid, uuid.UUID(int=5)),
    "time": (sa.Time, dt.time(23, 59, 59, 999999)),
    "interval": (sa.Interval, dt.timedelta(days=3, seconds=7)),
    "enum": (sa.Enum(Mood), Mood.happy),
    "enum as text": (sa.Enum(Mood, native_enum=False, create_constraint=True, name="moods"), Mood.sad),
    "json": (sa.JSON, {"a": [1, None, "x"]}),
    "jsonb": (pg.JSONB, {"a": [1, None, "x"]}),
    "array": (sa.ARRAY(sa.Integer), [1, None, 3]),
    "array of text": (pg.ARRAY(sa.Text), ["a", 'quote"']),
}


def table_of(sql_type):
    return sa.Table("t", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", sql_type))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("driver", DRIVERS)
def test_type(server, driver, name):
    """A column of the type is made, filled and found, and its table dropped."""
    sql_type, value = TYPES[name]
    engine, table = sa.create_engine(shop.url(server, driver)), table_of(sql_type)
    table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"v": value}, {"v": None}])
        assert connection.scalars(sa.select(table.c.v).order_by(table.c.id)).all() == [value, None]
        if name != "json":
            assert connection.scalar(sa.select(table.c.id).where(table.c.v == value)) == 1
    table.metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()


@pytest.mark.parametrize("name", TYPES)
def test_type_is_reflected(froglet, postgres, name):
    types = []
    for server in (froglet, postgres):
        engine = sa.create_engine(shop.url(server), poolclass=sa.NullPool)
        table_of(TYPES[name][0]).metadata.create_all(engine)
        types.append(described(sa.inspect(engine).get_columns("t")))
    assert types[0] == types[1]


# Core ---------------------------------------------------------------------------------------------

METADATA = sa.MetaData()
POND = sa.Table(
    "pond", METADATA, sa.Column("id", sa.Integer, sa.Identity(), primary_key=True), sa.Column("name", sa.String(40), unique=True))
FROG = sa.Table(
    "frog", METADATA, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(40), nullable=False),
    sa.Column("pond_id", sa.ForeignKey("pond.id")), sa.Column("grams", sa.Integer))


@pytest.fixture
def frogs(engine):
    """A connection to two ponds with six frogs."""
    METADATA.create_all(engine)
    with engine.begin() as connection:
        ponds = connection.scalars(POND.insert().returning(POND.c.id, sort_by_parameter_order=True), [
            {"name": "deep"}, {"name": "shallow"}]).all()
        assert ponds == [1, 2]
        connection.execute(FROG.insert(), [
            {"name": f"frog {i}", "pond_id": i % 3 or None, "grams": i * 10} for i in range(1, 7)])
    with engine.connect() as connection:
        yield connection


def test_core_selects(frogs):
    by_pond = (
        sa.select(POND.c.name, sa.func.count(), sa.func.sum(FROG.c.grams)).join(FROG)
        .group_by(POND.c.name).having(sa.func.count() > 1).order_by(POND.c.name))
    assert frogs.execute(by_pond).all() == [("deep", 2, 50), ("shallow", 2, 70)]
    outer = sa.select(FROG.c.name).outerjoin(POND).where(POND.c.id.is_(None)).order_by(FROG.c.id)
    assert frogs.scalars(outer).all() == ["frog 3", "frog 6"]
    ranked = sa.select(FROG.c.name, sa.func.rank().over(
        partition_by=FROG.c.pond_id, order_by=FROG.c.grams.desc()).label("place")).subquery()
    assert frogs.scalars(sa.select(ranked.c.name).where(ranked.c.place == 1).order_by(ranked.c.name)).all() == [
        "frog 4", "frog 5", "frog 6"]
    assert frogs.scalar(sa.select(sa.exists().where(FROG.c.grams > 50)))
    union = sa.union_all(sa.select(POND.c.name), sa.select(FROG.c.name).where(FROG.c.grams < 20)).order_by("name")
    assert frogs.scalars(union).all() == ["deep", "frog 1", "shallow"]
    assert frogs.scalars(sa.select(FROG.c.id).where(FROG.c.id.in_([1, 2, 99])).limit(1).offset(1).order_by(FROG.c.id)).all() == [2]


def test_core_recursive_cte(frogs):
    numbers = sa.select(sa.literal(1).label("n")).cte("numbers", recursive=True)
    numbers = numbers.union_all(sa.select(numbers.c.n + 1).where(numbers.c.n < 5))
    assert frogs.scalar(sa.select(sa.func.sum(numbers.c.n))) == 15


def test_core_lateral(frogs):
    heaviest = (
        sa.select(FROG.c.name).where(FROG.c.pond_id == POND.c.id).order_by(FROG.c.grams.desc()).limit(1).lateral("heaviest"))
    rows = frogs.execute(sa.select(POND.c.name, heaviest.c.name).join(heaviest, sa.true()).order_by(POND.c.id)).all()
    assert rows == [("deep", "frog 4"), ("shallow", "frog 5")]


def test_core_changes(frogs):
    changed = FROG.update().where(FROG.c.pond_id == POND.c.id, POND.c.name == "deep").values(
        grams=FROG.c.grams + 1).returning(FROG.c.id, FROG.c.grams)
    assert sorted(frogs.execute(changed).all()) == [(1, 11), (4, 41)]
    gone = FROG.delete().where(FROG.c.pond_id.is_(None)).returning(FROG.c.name)
    assert sorted(frogs.scalars(gone)) == ["frog 3", "frog 6"]
    moved = FROG.insert().from_select(["name", "grams"], sa.select(FROG.c.name + "'s twin", FROG.c.grams))
    assert frogs.execute(moved).rowcount == 4
    frogs.rollback()
    assert frogs.scalar(sa.select(sa.func.count()).select_from(FROG)) == 6


def test_core_upsert(frogs):
    put = pg.insert(POND).values([{"name": "deep"}, {"name": "new"}])
    assert frogs.execute(put.on_conflict_do_nothing().returning(POND.c.name)).all() == [("new",)]
    merged = put.on_conflict_do_update(
        index_elements=[POND.c.name], set_={"name": put.excluded.name + "!"}).returning(POND.c.name)
    assert frogs.scalars(merged).all() == ["deep!", "new!"]


def test_core_insert_many_returning(frogs):
    """Thousands of rows in statements of many VALUES, the ids in the order of the parameters."""
    rows = [{"name": f"new {i}"} for i in range(2500)]
    ids = frogs.scalars(FROG.insert().returning(FROG.c.id, sort_by_parameter_order=True), rows).all()
    assert ids == list(range(7, 2507))


def test_core_changing_cte(frogs):
    gone = FROG.delete().where(FROG.c.grams > 40).returning(FROG.c.grams).cte("gone")
    assert frogs.scalar(sa.select(sa.func.sum(gone.c.grams))) == 110


def test_core_stream_and_savepoint(frogs):
    query = sa.select(FROG.c.id).order_by(FROG.c.id)
    result = frogs.execute(query, execution_options={"stream_results": True, "yield_per": 2})
    assert [row.id for row in result] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(sa.exc.IntegrityError) as caught, frogs.begin_nested():
        frogs.execute(POND.insert().values(name="deep"))
    assert caught.value.orig.pgcode == "23505"
    assert frogs.scalar(sa.select(sa.func.count()).select_from(POND)) == 2


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_isolation_level(engine, level):
    with engine.connect().execution_options(isolation_level=level) as connection:
        assert connection.get_isolation_level() == level
        assert connection.scalar(sa.text("show transaction_isolation")) == level.lower()


# ORM ----------------------------------------------------------------------------------------------


def stock(session):
    session.add_all([Product(id=i, code=f"p{i}", title=f"Product {i}", price=Decimal(i) / 2) for i in range(1, 6)])
    anna = Customer(name="Anna", email="anna@example.org", orders=[
        Order(total=Decimal("2.50"), lines=[Line(number=n, product_id=n, quantity=n) for n in (1, 2)]), Order()])
    session.add_all([anna, Customer(name="Otto")])
    session.commit()
    return anna


def test_orm_unit_of_work(session):
    anna = stock(session)
    assert (anna.active, anna.orders[1].total, anna.orders[0].placed.tzinfo is not None) == (True, 0, True)
    anna.orders[0].lines.append(Line(number=3, product_id=3, quantity=1))
    anna.orders.pop()
    session.commit()
    assert session.scalar(sa.select(sa.func.count()).select_from(Order)) == 1
    session.delete(anna)
    session.commit()
    assert session.scalar(sa.select(sa.func.count()).select_from(Line)) == 0


@pytest.mark.parametrize("load", [orm.joinedload, orm.selectinload, orm.subqueryload, orm.lazyload])
def test_orm_loading(session, load):
    stock(session)
    session.expunge_all()
    query = sa.select(Customer).options(load(Customer.orders).options(load(Order.lines))).order_by(Customer.name)
    anna, otto = session.scalars(query).unique().all()
    assert [[line.quantity for line in order.lines] for order in anna.orders] == [[1, 2], []]
    assert otto.orders == []


def test_orm_queries(session):
    stock(session)
    total = (sa.select(sa.func.coalesce(sa.func.sum(Line.quantity * Product.price), 0)).join(Line.product)
             .where(Line.order_id == Order.id).correlate(Order).scalar_subquery())
    assert session.execute(sa.select(Order.id, total).order_by(Order.id)).all() == [(1, Decimal("2.50")), (2, 0)]
    assert session.scalars(sa.select(Customer.name).where(Customer.orders.any(Order.total > 1))).all() == ["Anna"]
    assert session.scalars(sa.select(Customer.name).where(~Customer.orders.any())).all() == ["Otto"]
    locked = session.scalars(sa.select(Customer).where(Customer.name == "Anna").with_for_update(skip_locked=True)).one()
    assert locked.name == "Anna"
    session.execute(sa.update(Product).where(Product.id < 3).values(price=Product.price + 1))
    assert session.get(Product, 1).price == Decimal("1.50")
    assert session.scalars(sa.select(Product.title).where(Product.title.ilike("%DUCT 1"))).all() == ["Product 1"]


def test_orm_versions(session, engine):
    """A row that somebody else has changed is seen by its version."""
    order = stock(session).orders[0]
    assert order.version == 1
    with orm.Session(engine) as other:
        other.get(Order, order.id).total = 7
        other.commit()
    order.total = 8
    with pytest.raises(orm.exc.StaleDataError):
        session.commit()


def test_orm_bulk(session):
    session.execute(sa.insert(Product), [{"id": i, "code": f"c{i}", "title": "t", "price": 1} for i in range(1, 1001)])
    session.execute(sa.update(Product), [{"id": i, "price": i} for i in range(1, 1001)])
    assert session.scalar(sa.select(sa.func.sum(Product.price))) == 500500
    merged = session.merge(Product(id=1, code="c1", title="merged", price=1))
    session.commit()
    assert (merged.title, session.scalar(sa.select(sa.func.count()).select_from(Product))) == ("merged", 1000)


def test_asyncpg_engine(server):
    """SQLAlchemy's asyncio side, over asyncpg."""
    import asyncio

    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    async def work():
        engine = create_async_engine(shop.url(server, "asyncpg"))
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with AsyncSession(engine) as session:
            session.add(Customer(name="Anna", orders=[Order(total=Decimal("1.50"))]))
            await session.commit()
            query = sa.select(Customer).options(orm.selectinload(Customer.orders))
            assert (await session.scalars(query)).one().orders[0].total == Decimal("1.50")
        await engine.dispose()

    asyncio.run(work())


# The inspector and reflection -------------------------------------------------------------------

INSPECTED = {
    "get_columns": "orders", "get_pk_constraint": "line", "get_foreign_keys": "line", "get_indexes": "product",
    "get_unique_constraints": "customer", "get_check_constraints": "orders", "get_table_comment": "customer",
}


@pytest.mark.parametrize("what", INSPECTED)
def test_inspector_of_a_table(froglet, postgres, what):
    """What it finds of a table on Froglet is what it finds on PostgreSQL."""
    found = []
    for server in (froglet, postgres):
        engine = sa.create_engine(shop.url(server), poolclass=sa.NullPool)
        Base.metadata.create_all(engine)
        found.append(described(getattr(sa.inspect(engine), what)(INSPECTED[what])))
    assert found[0] == found[1]


def described(value):
    """Values with types as their names: SQLAlchemy's types cannot be compared."""
    if isinstance(value, dict):
        return {key: described(each) for key, each in value.items()}
    if isinstance(value, list):
        return [described(each) for each in value]
    return str(value.compile(dialect=pg.dialect())) if isinstance(value, sa.types.TypeEngine) else value


INVENTORIES = {
    "get_table_names": ["customer", "line", "orders", "product"], "get_view_names": [],
    "get_sequence_names": ["customer_id_seq", "orders_id_seq", "product_id_seq"],
    "get_schema_names": ["information_schema", "public"], "get_materialized_view_names": [],
    "get_temp_table_names": [], "get_enums": [], "get_domains": [],
}


@pytest.mark.parametrize("what", INVENTORIES)
def test_inspector_of_a_database(engine, what):
    Base.metadata.create_all(engine)
    inspector = sa.inspect(engine)
    assert sorted(getattr(inspector, what)()) == INVENTORIES[what]
    assert inspector.has_table("orders") and not inspector.has_table("nothing")
    assert inspector.default_schema_name == "public"


def test_reflection_makes_the_same_tables_elsewhere(froglet, postgres):
    """Tables made on Froglet, reflected, made from that on PostgreSQL, and reflected there: nothing is lost."""
    ours, theirs = (sa.create_engine(shop.url(server), poolclass=sa.NullPool) for server in (froglet, postgres))
    Base.metadata.create_all(ours)
    seen = sa.MetaData()
    seen.reflect(ours)
    assert list(seen.tables) and set(seen.tables) == set(Base.metadata.tables)
    seen.create_all(theirs)
    for table in seen.tables:
        assert described(sa.inspect(ours).get_columns(table)) == described(sa.inspect(theirs).get_columns(table))
        assert sa.inspect(ours).get_foreign_keys(table) == sa.inspect(theirs).get_foreign_keys(table)


# Alembic ------------------------------------------------------------------------------------------


def test_history_up_and_down(engine):
    """Each revision there, back, and there again, with rows in the tables; all of it back at the end."""
    for revision in shop.REVISIONS:
        shop.upgrade(engine, revision)
        if revision > "r03":
            shop.downgrade(engine, "-1")
            shop.upgrade(engine, revision)
    with engine.connect() as connection:
        assert connection.execute(sa.text("select count(*), count(distinct email) from customer")).all() == [(100, 100)]
        assert connection.execute(sa.text("select sum(price), min(title) from product")).all() == [(Decimal("1275.00"), "Product 1")]
        assert connection.scalar(sa.text("select count(*) from line join orders on orders.id = order_id")) == 100
    shop.downgrade(engine, "r07")
    with engine.connect() as connection:
        assert connection.scalar(sa.text("select sum(cents) from product")) == 127500
    shop.downgrade(engine)
    with engine.connect() as connection:
        left = connection.scalars(sa.text("select tablename from pg_tables where schemaname = 'public'")).all()
    assert left == ["alembic_version"]


def test_history_ends_at_the_models(engine):
    """Autogenerate reads the whole catalog and finds nothing to change."""
    shop.upgrade(engine)
    shop.check(engine)


def test_history_under_load(engine):
    """Writers and readers of the tables go on while the history is applied up and down beneath them."""
    shop.upgrade(engine, "r03")
    stop, counts, failures = threading.Event(), {"r": 0, "w": 0}, []

    def load(kind, sql):
        try:
            while not stop.is_set():
                with engine.begin() as connection:
                    connection.execute(sa.text(sql), {"n": f"by load {counts[kind]}"})
                counts[kind] += 1
        except sa.exc.DBAPIError as error:
            failures.append(error)

    writer = threading.Thread(target=load, args=("w", "insert into customer (name) values (:n)"))
    reader = threading.Thread(target=load, args=("r", "select count(name) from customer where name < :n"))
    for thread in (writer, reader):
        thread.start()
    for round in range(2):
        before = dict(counts)
        wait_until(lambda: failures or all(counts[k] > before[k] for k in counts), "the load goes on")
        shop.upgrade(engine)
        shop.downgrade(engine, "r03")
    stop.set()
    for thread in (writer, reader):
        thread.join()
    assert not failures, failures[0]
    with engine.connect() as connection:
        assert connection.scalar(sa.text("select count(*) from customer where name like 'by load%'")) == counts["w"]

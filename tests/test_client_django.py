"""Django 5 with psycopg 3: migrations of its own applications and of every operation, types, queries, inspectdb."""

import datetime as dt
import decimal
import io
import threading
import uuid

import pytest

from support import pond

pond.configure()

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.contrib.contenttypes.models import ContentType  # noqa: E402
from django.contrib.postgres import fields as postgres_fields  # noqa: E402
from django.contrib.postgres.aggregates import ArrayAgg, StringAgg  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.core import serializers  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.management.color import no_style  # noqa: E402
from django.db import DatabaseError, IntegrityError, OperationalError, connection, migrations, models, transaction  # noqa: E402
from django.db.migrations.state import ProjectState  # noqa: E402
from django.db.models import Case, Count, Exists, F, Max, OuterRef, Prefetch, Q, Subquery, Sum, Value, When, Window  # noqa: E402
from django.db.models import functions  # noqa: E402
from django.db.models.functions import Concat, Lower, RowNumber, TruncMonth  # noqa: E402

from support.pond.models import Badge, Frog, Owner, Pond, Species  # noqa: E402

UTC = dt.timezone.utc


@pytest.fixture
def database(server):
    """Django's connection to an empty database."""
    with pond.on(server) as connected:
        yield connected


@pytest.fixture
def ponds(database):
    """The application's tables without any history, with rows."""
    pond.create([Owner, Pond, Species, Frog, Badge])
    owner = Owner.objects.create(name="Olga", email="olga@example.org")
    deep, shallow = Pond.objects.create(title="Deep", depth=9, owner=owner), Pond.objects.create(title="Shallow")
    tree = Species.objects.create(name="tree frog")
    Species.objects.create(name="green tree frog", parent=tree)
    for i in range(8):
        Frog.objects.create(
            name=f"frog {i}", grams=10 * i, pond=[deep, shallow][i % 2], species=tree if i < 4 else None,
            born=dt.datetime(2024, 1 + i, 15, tzinfo=UTC), green=i != 3)
    yield database


# Migrations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("app", ["contenttypes", "auth", "sessions", "admin"])
def test_own_applications(database, app):
    """Django's own histories, forwards and back again."""
    pond.migrate(app)
    assert {"auth": "auth_user", "contenttypes": "django_content_type", "sessions": "django_session",
            "admin": "django_admin_log"}[app] in database.introspection.table_names()
    pond.migrate(app, "zero")


def test_users_and_sessions(database):
    pond.migrate()
    anna = User.objects.create_user("anna", "anna@example.org", "secret")
    assert User.objects.get(username="anna").check_password("secret")
    group = Group.objects.create(name="keepers")
    group.permissions.set(Permission.objects.filter(content_type=ContentType.objects.get_for_model(Frog)))
    anna.groups.add(group)
    assert User.objects.get(pk=anna.pk).has_perm("pond.add_frog")
    store = SessionStore()
    store["basket"] = [1, 2]
    store.save()
    assert SessionStore(store.session_key)["basket"] == [1, 2]
    call_command("clearsessions")
    anna.delete()
    assert group.user_set.count() == 0


def test_history_forwards_and_back(database):
    """The application's history one migration at a time, back to nothing, and at once."""
    names = ["0001_initial", "0002_frogs", "0003_fill", "0004_alter_fields", "0005_rename", "0006_weight_in_grams",
             "0007_constraints", "0008_relations", "0009_badges", "0010_dug"]
    for name in names:
        pond.migrate("pond", name)
    assert (Frog.objects.count(), Badge.objects.count(), Pond.objects.get(title="pond 3").depth) == (200, 20, 4)
    assert Frog.objects.aggregate(Sum("grams"))["grams__sum"] == 250 * sum(range(200))
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    for name in reversed(names[:-1]):
        pond.migrate("pond", name)
    pond.migrate("pond", "zero")
    assert [t for t in database.introspection.table_names() if t.startswith("pond_")] == []
    pond.migrate("pond")


def test_migrate_twice_plan_and_show(database):
    pond.migrate("pond", "0002")
    pond.migrate("pond", "0002")
    out = io.StringIO()
    call_command("showmigrations", "pond", stdout=out, no_color=True)
    assert out.getvalue().count("[X]") == 2 and out.getvalue().count("[ ]") == 8
    out = io.StringIO()
    call_command("sqlmigrate", "pond", "0007", stdout=out)
    assert 'ADD CONSTRAINT "deep" CHECK' in out.getvalue()
    pond.migrate("pond", "0004", fake=True)
    call_command("migrate", "pond", plan=True, verbosity=0)


def test_history_under_load(froglet):
    """A writer goes on while the migrations are applied beneath it and taken back.

    Not on PostgreSQL, where the locks of a migration and those of the writer end in deadlocks.
    """
    with pond.on(froglet):
        pond.migrate("pond", "0003")
        stop, counts, failures = threading.Event(), [0], []

        def load():
            with froglet.connect() as other:
                while not stop.is_set() and not failures:
                    try:
                        other.execute("update pond_frog set green = not green where id = %s", [counts[0] % 200 + 1])
                        counts[0] += 1
                    except Exception as error:
                        failures.append(error)

        writer = threading.Thread(target=load)
        writer.start()
        pond.migrate("pond")
        pond.migrate("pond", "0003")
        stop.set()
        writer.join()
        assert counts[0] and not failures, failures


# One operation of a migration at a time ------------------------------------------------------------

FIELD = models.ForeignKey("pond.Lake", on_delete=models.CASCADE)


def model(name, *fields, **options):
    return migrations.CreateModel(name, [("id", models.BigAutoField(primary_key=True)), *fields], options)


BASE = [
    model("Lake", ("name", models.CharField(max_length=20)), ("depth", models.IntegerField(default=3))),
    model("Newt", ("name", models.CharField(max_length=20)), ("grams", models.IntegerField(null=True))),
    migrations.RunSQL([("insert into pond_lake (name, depth) values (%s, 5), ('b', 6)", ["a"]),
                       "insert into pond_newt (name, grams) values ('x', 1), ('y', null)"]),
]

OPERATIONS = {
    "CreateModel with relations": [
        model("Pike", ("lake", FIELD), ("boss", models.ForeignKey("self", null=True, on_delete=models.SET_NULL)),
              ("newts", models.ManyToManyField("pond.Newt")))],
    "CreateModel without foreign key constraints": [
        model("Pike", ("lake", models.ForeignKey("pond.Lake", on_delete=models.DO_NOTHING, db_constraint=False)))],
    "CreateModel of one to one": [migrations.CreateModel("Chart", [
        ("lake", models.OneToOneField("pond.Lake", primary_key=True, on_delete=models.CASCADE))])],
    "CreateModel that inherits": [migrations.CreateModel("BigLake", [
        ("lake_ptr", models.OneToOneField("pond.Lake", primary_key=True, parent_link=True, auto_created=True,
                                          on_delete=models.CASCADE, serialize=False)),
        ("area", models.FloatField())], bases=("pond.lake",))],
    "CreateModel with a comment": [model(
        "Pike", ("a", models.IntegerField(db_comment="a column's")), db_table_comment="a table's")],
    "CreateModel with a key of two": [migrations.CreateModel("Spot", [
        ("pk", models.CompositePrimaryKey("x", "y")), ("x", models.IntegerField()), ("y", models.IntegerField())])],
    "DeleteModel": [migrations.DeleteModel("Newt")],
    "RenameModel": [migrations.RenameModel("Lake", "Loch")],
    "RenameModel that others refer to": [model("Pike", ("lake", FIELD)), migrations.RenameModel("Lake", "Loch")],
    "AlterModelTable": [migrations.AlterModelTable("Lake", "lakes")],
    "AlterModelTableComment": [migrations.AlterModelTableComment("Lake", "a comment")],
    "AddField null": [migrations.AddField("Lake", "area", models.FloatField(null=True))],
    "AddField with a default": [migrations.AddField("Lake", "note", models.TextField(default="none"))],
    "AddField with a default of the database": [
        migrations.AddField("Lake", "seen", models.DateTimeField(db_default=functions.Now()))],
    "AddField of a foreign key": [migrations.AddField(
        "Newt", "lake", models.ForeignKey("pond.Lake", null=True, on_delete=models.CASCADE))],
    "AddField of many to many": [migrations.AddField("Newt", "lakes", models.ManyToManyField("pond.Lake"))],
    "AddField generated": [migrations.AddField("Lake", "twice", models.GeneratedField(
        expression=F("depth") * 2, output_field=models.IntegerField(), db_persist=True))],
    "AddField with an index": [migrations.AddField("Lake", "code", models.IntegerField(db_index=True, default=1))],
    "AddField slug": [migrations.AddField("Lake", "slug", models.SlugField(null=True))],
    "AddField unique": [migrations.AddField("Lake", "code", models.UUIDField(unique=True, null=True))],
    "RemoveField": [migrations.RemoveField("Lake", "depth")],
    "RenameField": [migrations.RenameField("Lake", "depth", "metres")],
    "AlterField wider": [migrations.AlterField("Lake", "name", models.CharField(max_length=200))],
    "AlterField to another type": [migrations.AlterField("Lake", "depth", models.DecimalField(max_digits=8, decimal_places=2))],
    "AlterField to text": [migrations.AlterField("Lake", "depth", models.CharField(max_length=9))],
    "AlterField null to not null": [migrations.AlterField("Newt", "grams", models.IntegerField(default=7))],
    "AlterField to null": [migrations.AlterField("Lake", "depth", models.IntegerField(null=True))],
    "AlterField default": [migrations.AlterField("Lake", "depth", models.IntegerField(db_default=8))],
    "AlterField unique": [migrations.AlterField("Lake", "name", models.CharField(max_length=20, unique=True))],
    "AlterField index": [migrations.AlterField("Lake", "depth", models.IntegerField(db_index=True))],
    "AlterField positive": [migrations.AlterField("Lake", "depth", models.PositiveIntegerField())],
    "AlterField of a primary key": [migrations.AlterField("Lake", "id", models.AutoField(primary_key=True))],
    "AlterField of a primary key that others refer to": [
        model("Pike", ("lake", FIELD)), migrations.AlterField("Lake", "id", models.AutoField(primary_key=True))],
    "AlterField of a collation": [
        migrations.AlterField("Lake", "name", models.CharField(max_length=20, db_collation="C"))],
    "AlterUniqueTogether": [migrations.AlterUniqueTogether("Lake", {("name", "depth")}),
                            migrations.AlterUniqueTogether("Lake", set())],
    "AlterOrderWithRespectTo": [model("Pike", ("lake", FIELD)), migrations.AlterOrderWithRespectTo("Pike", "lake")],
    "AddIndex": [migrations.AddIndex("Lake", models.Index(fields=["name", "-depth"], name="i"))],
    "AddIndex partial": [migrations.AddIndex("Lake", models.Index(fields=["name"], condition=Q(depth__gt=3), name="i"))],
    "AddIndex of an expression": [migrations.AddIndex("Lake", models.Index(Lower("name"), name="i"))],
    "AddIndex covering": [migrations.AddIndex("Lake", models.Index(fields=["name"], include=["depth"], name="i"))],
    "RemoveIndex": [migrations.AddIndex("Lake", models.Index(fields=["name"], name="i")), migrations.RemoveIndex("Lake", "i")],
    "RenameIndex": [migrations.AddIndex("Lake", models.Index(fields=["name"], name="i")),
                    migrations.RenameIndex("Lake", new_name="j", old_name="i")],
    "AddConstraint check": [migrations.AddConstraint("Lake", models.CheckConstraint(condition=Q(depth__gt=1), name="c"))],
    "AddConstraint unique": [migrations.AddConstraint("Lake", models.UniqueConstraint(fields=["name"], name="c"))],
    "AddConstraint unique partial": [migrations.AddConstraint(
        "Lake", models.UniqueConstraint(fields=["name"], condition=Q(depth__gt=3), name="c"))],
    "AddConstraint unique of an expression": [
        migrations.AddConstraint("Lake", models.UniqueConstraint(Lower("name"), name="c"))],
    "AddConstraint unique deferrable": [migrations.AddConstraint("Lake", models.UniqueConstraint(
        fields=["name"], name="c", deferrable=models.Deferrable.DEFERRED))],
    "AddConstraint unique nulls not distinct": [migrations.AddConstraint("Newt", models.UniqueConstraint(
        fields=["grams"], name="c", nulls_distinct=False))],
    "RemoveConstraint": [migrations.AddConstraint("Lake", models.CheckConstraint(condition=Q(depth__gt=1), name="c")),
                         migrations.RemoveConstraint("Lake", "c")],
    "RunPython": [migrations.RunPython(
        lambda apps, editor: apps.get_model("pond", "Lake").objects.update(depth=F("depth") + 1),
        lambda apps, editor: apps.get_model("pond", "Lake").objects.update(depth=F("depth") - 1))],
    "RunSQL": [migrations.RunSQL("create table extra (id int); drop table extra", migrations.RunSQL.noop)],
    "SeparateDatabaseAndState": [migrations.SeparateDatabaseAndState(
        [migrations.RunSQL("alter table pond_lake add more int", "alter table pond_lake drop more")],
        [migrations.AddField("Lake", "more", models.IntegerField(null=True))])],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(database, name):
    """Forwards and back in tables with rows, which must all be as the models say then."""
    state = run_operations(ProjectState(), BASE)
    after = run_operations(state, OPERATIONS[name])
    rows_are_readable(after)
    before = state.clone()
    states = [before]
    for operation in OPERATIONS[name]:
        states.append(states[-1].clone())
        operation.state_forwards("pond", states[-1])
    for operation, new, old in zip(reversed(OPERATIONS[name]), reversed(states[1:]), reversed(states[:-1])):
        with connection.schema_editor() as editor:
            operation.database_backwards("pond", editor, new, old)
    rows_are_readable(before)
    assert before.apps.get_model("pond", "Newt").objects.count() == (0 if name == "DeleteModel" else 2)
    assert sorted(before.apps.get_model("pond", "Lake").objects.values_list("name", flat=True)) == ["a", "b"]


def run_operations(state, operations):
    for operation in operations:
        new = state.clone()
        operation.state_forwards("pond", new)
        with connection.schema_editor(atomic=operation.atomic) as editor:
            operation.database_forwards("pond", editor, state, new)
        state = new
    return state


def rows_are_readable(state):
    for each in state.apps.get_models(include_auto_created=True):
        list(each.objects.all())


def test_index_concurrently(database):
    from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently

    state = run_operations(ProjectState(), BASE)
    index = models.Index(fields=["name"], name="i")
    run_operations(state, [AddIndexConcurrently("Lake", index), RemoveIndexConcurrently("Lake", "i")])


# Types --------------------------------------------------------------------------------------------

FIELDS = {
    "BigIntegerField": (models.BigIntegerField(), 2**62),
    "BinaryField": (models.BinaryField(), b"\x00\xff"),
    "BooleanField": (models.BooleanField(), True),
    "CharField": (models.CharField(max_length=20), "Größe 🐸 %"),
    "CharField of any length": (models.CharField(), "x" * 300),
    "DateField": (models.DateField(), dt.date(2024, 2, 29)),
    "DateTimeField": (models.DateTimeField(), dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)),
    "DecimalField": (models.DecimalField(max_digits=12, decimal_places=4), decimal.Decimal("-1.5000")),
    "DurationField": (models.DurationField(), dt.timedelta(days=3, seconds=5)),
    "EmailField": (models.EmailField(), "anna@example.org"),
    "FloatField": (models.FloatField(), 0.1),
    "GenericIPAddressField": (models.GenericIPAddressField(), "192.168.0.1"),
    "IntegerField": (models.IntegerField(), -5),
    "JSONField": (models.JSONField(), {"a": [1, None, "x"]}),
    "PositiveBigIntegerField": (models.PositiveBigIntegerField(), 5),
    "PositiveIntegerField": (models.PositiveIntegerField(), 5),
    "SlugField": (models.SlugField(), "a-slug"),
    "SmallIntegerField": (models.SmallIntegerField(), -5),
    "TextField": (models.TextField(), "long"),
    "TimeField": (models.TimeField(), dt.time(23, 59, 59, 999999)),
    "URLField": (models.URLField(), "https://example.org"),
    "UUIDField": (models.UUIDField(), uuid.UUID(int=9)),
    "ArrayField": (postgres_fields.ArrayField(models.IntegerField()), [1, 2, 3]),
    "ArrayField of text": (postgres_fields.ArrayField(models.CharField(max_length=9)), ["a", 'quote"']),
    "IntegerRangeField": (postgres_fields.IntegerRangeField(), None),
}


@pytest.mark.parametrize("name", FIELDS)
def test_field(database, name):
    """A model of one field: made, filled one by one and in bulk, found, changed, ordered, counted and dropped."""
    field, value = FIELDS[name]
    field = field.clone()
    field.null = True
    state = run_operations(ProjectState(), [model("Thing", ("v", field))])
    Thing = state.apps.get_model("pond", "Thing")
    Thing.objects.create(v=value)
    Thing.objects.bulk_create([Thing(v=value), Thing(v=None)])
    seen = [as_is(thing.v) for thing in Thing.objects.order_by("pk")]
    assert seen == [value, value, None]
    if value is not None:
        assert Thing.objects.filter(v=value).count() == 2
        assert Thing.objects.exclude(v=None).distinct("v").count() == 1
        Thing.objects.filter(pk=3).update(v=value)
    assert Thing.objects.filter(v__isnull=True).count() == (3 if value is None else 0)
    run_operations(state, [migrations.DeleteModel("Thing")])


def as_is(value):
    return bytes(value) if isinstance(value, memoryview) else value


# Queries ------------------------------------------------------------------------------------------


def lookups():
    """A lookup, and how many of the eight frogs it finds."""
    return {
        "name__startswith='frog'": 8, "name__istartswith='FROG'": 8, "name__contains='g 3'": 1, "name__icontains='G 3'": 1,
        "name__endswith='7'": 1, "name__iexact='FROG 1'": 1, "name__regex=r'^frog [0-2]$'": 3, "name__iregex=r'^FROG [0-2]$'": 3,
        "name__in=['frog 1', 'frog 2', 'no']": 2, "grams__range=(10, 30)": 3, "grams__gte=50": 3, "species__isnull=True": 4,
        "born__year=2024": 8, "born__month__gte=7": 2, "born__date=dt.date(2024, 3, 15)": 1, "born__week_day=2": 3,
        "born__quarter=1": 3, "born__iso_week_day=1": 3, "born__hour=0": 8, "born__lt=dt.datetime(2024, 3, 1, tzinfo=UTC)": 2,
        "pond__title='Deep'": 4, "pond__owner__name__startswith='Ol'": 4, "species__kinds__name__contains='green'": 4,
        "grams=F('pk') * 10 - 10": 8, "name__length__gt=6": 0, "pond__depth__gt=F('grams')": 1,
    }


@pytest.fixture
def length():
    models.CharField.register_lookup(functions.Length)
    yield
    models.CharField._unregister_lookup(functions.Length)


@pytest.mark.usefixtures("length")
@pytest.mark.parametrize("lookup", lookups())
def test_lookup(ponds, lookup):
    assert Frog.objects.filter(**eval(f"dict({lookup})")).count() == lookups()[lookup]


def test_aggregates(ponds):
    assert Frog.objects.aggregate(Sum("grams"), Max("born"), n=Count("pk"), kinds=Count("species", distinct=True)) == {
        "grams__sum": 280, "born__max": dt.datetime(2024, 8, 15, tzinfo=UTC), "n": 8, "kinds": 1}
    per_pond = Pond.objects.annotate(n=Count("frogs"), green=Count("frogs", filter=Q(frogs__green=True)), g=Sum("frogs__grams")).order_by("title")
    assert list(per_pond.values_list("title", "n", "green", "g")) == [("Deep", 4, 4, 120), ("Shallow", 4, 3, 160)]
    months = Frog.objects.annotate(month=TruncMonth("born")).values("month").annotate(n=Count("pk")).order_by("month")
    assert [row["n"] for row in months] == [1] * 8


def test_array_and_string_aggregates(ponds):
    seen = Frog.objects.filter(grams__lt=30).aggregate(
        a=ArrayAgg("grams", ordering="-grams"), s=StringAgg("name", ", ", ordering="name"))
    assert seen == {"a": [20, 10, 0], "s": "frog 0, frog 1, frog 2"}


def test_subqueries(ponds):
    heaviest = Frog.objects.filter(pond=OuterRef("pk")).order_by("-grams")
    rows = Pond.objects.annotate(best=Subquery(heaviest.values("name")[:1])).values_list("title", "best")
    assert list(rows) == [("Deep", "frog 6"), ("Shallow", "frog 7")]
    assert Pond.objects.filter(Exists(heaviest.filter(green=False))).get().title == "Shallow"
    assert Frog.objects.filter(pond__in=Pond.objects.filter(depth__gt=5)).count() == 4
    assert Frog.objects.filter(~Q(pond__title="Deep"), Q(grams=10) | Q(grams=30)).count() == 2


def test_expressions(ponds):
    size = Case(When(grams__lt=20, then=Value("small")), When(grams__lt=50, then=Value("middle")), default=Value("large"))
    rows = Frog.objects.annotate(size=size).values("size").annotate(n=Count("pk")).order_by("size")
    assert [(row["size"], row["n"]) for row in rows] == [("large", 3), ("middle", 3), ("small", 2)]
    one = Frog.objects.annotate(
        text=Concat("name", Value(" in "), "pond__title"), low=Lower("pond__title"), half=F("grams") / 2,
        day=functions.ExtractDay("born"), root=functions.Sqrt("grams")).get(pk=5)
    assert (one.text, one.low, one.half, one.day, round(one.root, 3)) == ("frog 4 in Deep", "deep", 20, 15, 6.325)


def test_windows(ponds):
    place = Window(RowNumber(), partition_by="pond", order_by=F("grams").desc())
    assert list(Frog.objects.annotate(place=place).filter(place=1).order_by("pk").values_list("name", flat=True)) == [
        "frog 6", "frog 7"]


def test_sets_and_slices(ponds):
    light, heavy = Frog.objects.filter(grams__lt=20), Frog.objects.filter(grams__gt=50)
    assert light.union(heavy).count() == 4 and light.intersection(heavy).count() == 0
    assert list(Frog.objects.difference(light).order_by("-pk").values_list("pk", flat=True)[1:3]) == [7, 6]
    assert Frog.objects.order_by("pond_id", "-grams").distinct("pond_id").count() == 2
    assert Frog.objects.order_by(F("species").asc(nulls_last=True), "pk").first().name == "frog 0"
    assert Frog.objects.in_bulk([1, 3]).keys() == {1, 3}
    assert Frog.objects.filter(pk__gt=100).exists() is False
    assert [frog.pk for frog in Frog.objects.order_by("pk").iterator(chunk_size=3)] == list(range(1, 9))


def test_relations(ponds):
    frogs = Frog.objects.select_related("pond__owner", "species").order_by("pk")
    assert [(frog.pond.title, frog.species and frog.species.name) for frog in frogs[:2]] == [
        ("Deep", "tree frog"), ("Shallow", "tree frog")]
    deep = Pond.objects.prefetch_related(Prefetch("frogs", Frog.objects.filter(grams__gt=30), to_attr="heavy")).first()
    assert len(deep.heavy) == 2
    first, second, third = Frog.objects.order_by("pk")[:3]
    first.friends.add(second, third)
    assert list(second.friends.all()) == [first]
    first.friends.set([third])
    assert second.friends.count() == 0 and third.friends.filter(name="frog 0").exists()
    Pond.objects.get(title="Deep").delete()
    assert (Frog.objects.count(), Pond.objects.count()) == (4, 1)
    with pytest.raises(models.ProtectedError):
        Species.objects.all().delete()
    Owner.objects.all().delete()


def test_bulk_and_upsert(ponds):
    pond_ = Pond.objects.first()
    made = Frog.objects.bulk_create([Frog(name=f"bulk {i}", pond=pond_) for i in range(300)], batch_size=100)
    assert all(frog.pk for frog in made)
    for frog in made:
        frog.grams = frog.pk
    assert Frog.objects.bulk_update(made, ["grams"], batch_size=100) == 300
    Species.objects.bulk_create([Species(name="tree frog"), Species(name="new")], ignore_conflicts=True)
    Owner.objects.bulk_create(
        [Owner(name="Olga again", email="olga@example.org"), Owner(name="Ole", email="ole@example.org")],
        update_conflicts=True, unique_fields=["email"], update_fields=["name"])
    assert sorted(Owner.objects.values_list("name", flat=True)) == ["Ole", "Olga again"]
    assert Frog.objects.get_or_create(name="one", pond=pond_)[1] is True
    assert Frog.objects.update_or_create(name="one", pond=pond_, defaults={"grams": 5})[1] is False
    assert Frog.objects.filter(name__startswith="bulk").update(grams=F("grams") + 1, green=False) == 300
    assert Frog.objects.filter(name__startswith="bulk").delete()[0] == 300


def test_transactions(ponds):
    with pytest.raises(IntegrityError), transaction.atomic():
        Species.objects.create(name="new")
        Species.objects.create(name="tree frog")
    with transaction.atomic():
        Species.objects.create(name="kept")
        with pytest.raises(IntegrityError), transaction.atomic():
            Species.objects.create(name="kept")
        Frog.objects.select_for_update(of=("self",), skip_locked=True).select_related("pond").get(pk=1)
    assert not Species.objects.filter(name="new").exists() and Species.objects.filter(name="kept").exists()
    done = []
    with transaction.atomic():
        transaction.on_commit(lambda: done.append(True))
    assert done
    with pytest.raises((DatabaseError, OperationalError)):
        Frog.objects.select_for_update(nowait=True).get(pk=1)


def test_foreign_keys_are_checked_at_the_end(ponds):
    """Django's foreign keys are DEFERRABLE INITIALLY DEFERRED: rows may come in any order."""
    with transaction.atomic():
        Frog.objects.create(name="early", pond_id=777)
        Pond.objects.create(pk=777, title="late")
    with pytest.raises(IntegrityError), transaction.atomic():
        Frog.objects.create(name="lost", pond_id=778)
    assert not Frog.objects.filter(name="lost").exists()
    connection.check_constraints()


def test_json_queries(database):
    state = run_operations(ProjectState(), [model("Thing", ("j", models.JSONField(null=True)))])
    Thing = state.apps.get_model("pond", "Thing")
    Thing.objects.bulk_create([Thing(j={"a": {"b": [1, 2]}, "n": i, "s": "x"}) for i in range(4)])
    assert Thing.objects.filter(j__a__b__0=1, j__n__gte=2).count() == 2
    assert Thing.objects.filter(j__contains={"s": "x"}).count() == 4
    assert Thing.objects.filter(j__has_key="n").count() == 4
    assert list(Thing.objects.order_by("-j__n").values_list("j__n", flat=True)) == [3, 2, 1, 0]


def test_dump_and_load(database):
    """Everything as JSON, all tables emptied, loaded again, and the sequences set to go on from there."""
    pond.migrate()
    out = io.StringIO()
    call_command("dumpdata", "pond", stdout=out)
    call_command("flush", interactive=False, verbosity=0)
    assert Frog.objects.count() == 0
    with transaction.atomic():
        for each in serializers.deserialize("json", out.getvalue()):
            each.save()
    connection.check_constraints()
    assert (Frog.objects.count(), Badge.objects.count()) == (200, 20)
    with connection.cursor() as cursor:
        for sql in connection.ops.sequence_reset_sql(no_style(), [Frog, Pond]):
            cursor.execute(sql)
    assert Frog.objects.create(name="next", pond=Pond.objects.first()).pk == 1 + max(
        Frog.objects.exclude(name="next").values_list("pk", flat=True))


def test_explain_and_raw(ponds):
    assert Frog.objects.filter(pk=1).explain()
    assert [frog.name for frog in Frog.objects.raw("select * from pond_frog where grams > %s order by id", [60])] == ["frog 7"]
    with connection.cursor() as cursor:
        cursor.execute("select count(*), %s from pond_pond", ["x"])
        assert cursor.fetchone() == (2, "x")


@pytest.mark.parametrize("binding", [True, False], ids=["server-side", "client-side"])
def test_parameters_bound_by_the_server(server, binding):
    """psycopg 3 either puts the parameters in, or sends them beside the statement."""
    with pond.on(server, server_side_binding=binding):
        pond.create([Owner, Pond, Species, Frog])
        Pond.objects.create(title="Deep", depth=2)
        Frog.objects.create(name="Anna", pond_id=1, grams=5)
        assert Frog.objects.filter(name__contains="nn", grams__in=[5, 6], pond__depth__gte=2).update(grams=F("grams") + 1) == 1
        assert Frog.objects.annotate(x=F("grams") * 2 + Value(1)).get().x == 13
        assert Frog.objects.aggregate(Sum("grams", default=0)) == {"grams__sum": 6}


# Introspection ------------------------------------------------------------------------------------


def test_inspectdb(froglet, postgres):
    """The models that Django writes of its tables are those it writes of PostgreSQL's."""
    texts = []
    for server in (froglet, postgres):
        with pond.on(server):
            pond.create([Owner, Pond, Species, Frog, Badge])
            out = io.StringIO()
            call_command("inspectdb", stdout=out)
            texts.append(out.getvalue())
    assert "class PondFrog" in texts[0] and "The error was" not in texts[0]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("what", ["get_table_list", "get_table_description", "get_relations", "get_constraints", "get_sequences"])
def test_introspection(froglet, postgres, what):
    seen = []
    for server in (froglet, postgres):
        with pond.on(server) as connected:
            pond.create([Owner, Pond, Species, Frog, Badge])
            with connected.cursor() as cursor:
                find = getattr(connected.introspection, what)
                found = find(cursor) if what == "get_table_list" else find(cursor, "pond_frog")
                seen.append(sorted(found.items()) if isinstance(found, dict) else list(found))
    assert seen[0] == seen[1] and seen[0]

from django.db import migrations


def fill(apps, editor):
    Pond, Frog, Kind = (apps.get_model("pond", name) for name in ("Pond", "Frog", "Kind"))
    ponds = Pond.objects.bulk_create([Pond(name=f"pond {i}", depth=i + 1) for i in range(10)])
    kinds = [Kind.objects.create(name=name) for name in ("tree frog", "toad")]
    Frog.objects.bulk_create(
        [Frog(name=f"frog {i}", weight=i / 4, pond=ponds[i % 10], kind=kinds[i % 2]) for i in range(200)])


def empty(apps, editor):
    for name in ("Frog", "Kind", "Pond"):
        apps.get_model("pond", name).objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("pond", "0002_frogs")]
    operations = [migrations.RunPython(fill, empty)]

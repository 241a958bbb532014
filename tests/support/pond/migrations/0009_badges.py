from django.db import migrations, models


def badges(apps, editor):
    Badge, Frog = apps.get_model("pond", "Badge"), apps.get_model("pond", "Frog")
    Badge.objects.bulk_create([Badge(frog=frog, number=frog.pk) for frog in Frog.objects.order_by("pk")[:20]])


class Migration(migrations.Migration):
    dependencies = [("pond", "0008_relations")]
    operations = [
        migrations.CreateModel("Badge", [
            ("frog", models.OneToOneField(
                "pond.Frog", primary_key=True, on_delete=models.CASCADE, serialize=False)),
            ("number", models.PositiveIntegerField()),
        ]),
        migrations.RunPython(badges, migrations.RunPython.noop),
    ]

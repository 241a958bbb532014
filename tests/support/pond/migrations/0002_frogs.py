from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pond", "0001_initial")]
    operations = [
        migrations.CreateModel("Frog", [
            ("id", models.BigAutoField(primary_key=True, auto_created=True, serialize=False, verbose_name="ID")),
            ("name", models.CharField(max_length=20)),
            ("weight", models.FloatField(null=True)),
            ("pond", models.ForeignKey("pond.Pond", on_delete=models.CASCADE, related_name="frogs")),
        ]),
        migrations.AddField("Frog", "kind", models.ForeignKey("pond.Kind", null=True, on_delete=models.PROTECT)),
        migrations.AddField("Frog", "green", models.BooleanField(default=True)),
    ]

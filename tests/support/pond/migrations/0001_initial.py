from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel("Pond", [
            ("id", models.BigAutoField(primary_key=True, auto_created=True, serialize=False, verbose_name="ID")),
            ("name", models.CharField(max_length=40)),
            ("depth", models.IntegerField(default=1)),
        ]),
        migrations.CreateModel("Kind", [
            ("id", models.BigAutoField(primary_key=True, auto_created=True, serialize=False, verbose_name="ID")),
            ("name", models.CharField(max_length=40)),
        ]),
        migrations.CreateModel("Weed", [
            ("id", models.BigAutoField(primary_key=True, auto_created=True, serialize=False, verbose_name="ID")),
            ("pond", models.ForeignKey("pond.Pond", on_delete=models.CASCADE)),
        ]),
    ]

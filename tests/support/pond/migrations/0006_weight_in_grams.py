from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pond", "0005_rename")]
    operations = [
        migrations.RunSQL(
            "UPDATE pond_frog SET grams = round(weight * 1000) WHERE weight IS NOT NULL",
            "UPDATE pond_frog SET weight = grams / 1000.0"),
        migrations.RemoveField("Frog", "weight"),
        migrations.AddIndex("Frog", models.Index(fields=["pond", "-grams"], name="by_weight")),
    ]

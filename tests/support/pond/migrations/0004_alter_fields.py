from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pond", "0003_fill")]
    operations = [
        migrations.AlterField("Frog", "name", models.CharField(max_length=40)),
        migrations.AlterField("Pond", "depth", models.DecimalField(max_digits=6, decimal_places=2, default=1)),
        migrations.AlterField("Pond", "name", models.CharField(max_length=80, db_index=True)),
        migrations.AddField("Frog", "grams", models.IntegerField(default=0)),
        migrations.AddField("Frog", "born", models.DateTimeField(null=True)),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pond", "0009_badges")]
    operations = [
        migrations.AddField("Pond", "dug", models.DateField(null=True)),
        migrations.DeleteModel("Weed"),
    ]

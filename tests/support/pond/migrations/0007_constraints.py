from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("pond", "0006_weight_in_grams")]
    operations = [
        migrations.AddConstraint("Pond", models.CheckConstraint(condition=Q(depth__gt=0), name="deep")),
        migrations.AlterUniqueTogether("Frog", {("name", "pond")}),
        migrations.RenameIndex("Frog", new_name="heaviest", old_name="by_weight"),
        migrations.AlterModelOptions("Pond", {"ordering": ["title"]}),
        migrations.AlterField("Species", "name", models.CharField(max_length=40, unique=True)),
    ]

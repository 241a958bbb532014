from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pond", "0007_constraints")]
    operations = [
        migrations.CreateModel("Owner", [
            ("id", models.BigAutoField(primary_key=True, auto_created=True, serialize=False, verbose_name="ID")),
            ("name", models.CharField(max_length=50)),
            ("email", models.EmailField(max_length=254, unique=True, null=True)),
        ]),
        migrations.AddField("Pond", "owner", models.ForeignKey(
            "pond.Owner", null=True, on_delete=models.SET_NULL, related_name="ponds")),
        migrations.AddField("Species", "parent", models.ForeignKey(
            "pond.Species", null=True, on_delete=models.CASCADE, related_name="kinds")),
        migrations.AddField("Frog", "friends", models.ManyToManyField("pond.Frog")),
        migrations.AddConstraint("Pond", models.UniqueConstraint(fields=["title", "owner"], name="one_title")),
    ]

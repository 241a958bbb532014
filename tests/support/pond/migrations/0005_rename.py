from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("pond", "0004_alter_fields")]
    operations = [
        migrations.RenameField("Pond", "name", "title"),
        migrations.RenameModel("Kind", "Species"),
        migrations.AlterModelTable("Species", "pond_kind"),
        migrations.AlterModelOptions("Species", {"verbose_name_plural": "species"}),
        migrations.RenameField("Frog", "kind", "species"),
    ]

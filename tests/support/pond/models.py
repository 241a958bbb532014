"""The application's models as the last migration leaves them."""

from django.db import models


class Owner(models.Model):
    name = models.CharField(max_length=50)
    email = models.EmailField(unique=True, null=True)


class Pond(models.Model):
    title = models.CharField(max_length=80, db_index=True)
    depth = models.DecimalField(max_digits=6, decimal_places=2, default=1)
    dug = models.DateField(null=True)
    owner = models.ForeignKey(Owner, null=True, on_delete=models.SET_NULL, related_name="ponds")

    class Meta:
        ordering = ["title"]
        constraints = [
            models.CheckConstraint(condition=models.Q(depth__gt=0), name="deep"),
            models.UniqueConstraint(fields=["title", "owner"], name="one_title"),
        ]


class Species(models.Model):
    name = models.CharField(max_length=40, unique=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="kinds")

    class Meta:
        db_table = "pond_kind"
        verbose_name_plural = "species"


class Frog(models.Model):
    name = models.CharField(max_length=40)
    grams = models.IntegerField(default=0)
    green = models.BooleanField(default=True)
    born = models.DateTimeField(null=True)
    pond = models.ForeignKey(Pond, on_delete=models.CASCADE, related_name="frogs")
    species = models.ForeignKey(Species, null=True, on_delete=models.PROTECT)
    friends = models.ManyToManyField("self")

    class Meta:
        unique_together = {("name", "pond")}
        indexes = [models.Index(fields=["pond", "-grams"], name="heaviest")]


class Badge(models.Model):
    frog = models.OneToOneField(Frog, primary_key=True, on_delete=models.CASCADE)
    number = models.PositiveIntegerField()

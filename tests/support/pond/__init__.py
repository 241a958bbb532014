"""A Django application on ponds and frogs, and Django itself pointed at a server that a test runs.

`models.py` is where its history of migrations (`migrations/`) ends up.
"""

import contextlib

import django
from django.conf import settings

# What a project has that was begun with `django-admin startproject`.
APPS = [
    "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
    "django.contrib.messages", "support.pond",
]


def configure():
    """Django is configured once in a process; where its database is changes from test to test."""
    if settings.configured:
        return
    settings.configure(
        INSTALLED_APPS=APPS, SECRET_KEY="none", USE_TZ=True, TIME_ZONE="UTC",
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres"}},
    )
    django.setup()


@contextlib.contextmanager
def on(server, **options):
    """Django's connection to a server, closed at the end."""
    configure()
    from django.db import connections

    connections["default"].close()
    del connections["default"]
    connections.settings["default"] |= {
        "HOST": server.host, "PORT": server.port, "USER": server.user, "NAME": server.database, "OPTIONS": options}
    try:
        yield connections["default"]
    finally:
        connections["default"].close()


def migrate(*where, **options):
    from django.core.management import call_command

    call_command("migrate", *where, verbosity=0, interactive=False, **options)


def create(created):
    """Makes the tables of models without any history, as `migrate --run-syncdb` does."""
    from django.db import connection

    with connection.schema_editor() as editor:
        for model in created:
            editor.create_model(model)

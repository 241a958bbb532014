"""A shop in SQLAlchemy, and the history of its tables in Alembic.

`models.py` is where the revisions (`versions/`) end up; autogenerate must find nothing to change there.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config

HERE = Path(__file__).parent
REVISIONS = [path.stem.split("_")[0] for path in sorted((HERE / "versions").glob("r*.py"))]


def url(server, driver="psycopg2"):
    return f"postgresql+{driver}://{server.user}@{server.host}:{server.port}/{server.database}"


def alembic(connection):
    """Alembic's configuration on a connection of SQLAlchemy's; see env.py."""
    config = Config()
    config.set_main_option("script_location", str(HERE))
    config.attributes["connection"] = connection
    return config


def upgrade(engine, revision="head"):
    with engine.connect() as connection:
        command.upgrade(alembic(connection), revision)


def downgrade(engine, revision="base"):
    with engine.connect() as connection:
        command.downgrade(alembic(connection), revision)


def check(engine):
    """Fails if autogenerate would write a revision."""
    with engine.connect() as connection:
        command.check(alembic(connection))
